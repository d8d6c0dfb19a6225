//! Values of one column on their way into an Arrow array.

use crate::text::{self, Day, Moment};
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, BinaryArray, ListArray, PrimitiveArray, StringArray};
use arrow_buffer::{Buffer, NullBuffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use std::sync::Arc;

/// What a column's values are, and which Arrow type they have. Python names them; see `tidewire.arrow.native`.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Integers of a range.
    Int32 {
        low: i64,
        high: i64,
    },
    Int64 {
        low: i64,
        high: i64,
    },
    /// An unsigned integer of 64 bits, in a decimal of 20 digits.
    Wide,
    /// A BIT of 64 bits, or a mask without names, in a decimal of 20 digits.
    Bits,
    Float,
    Double,
    Decimal {
        precision: u8,
        scale: u8,
    },
    /// A decimal number whose scale is not known: its text.
    DecimalText,
    Text,
    Bytes,
    Date,
    DateText,
    /// A date and time. `utc` says that it is an instant in UTC.
    Clock {
        utc: bool,
    },
    /// An instant on the clock of another zone; Python moves it to UTC.
    Local,
    ClockText,
    Time,
    /// A list of numbers.
    Vector,
    /// A number that stands for one of these names.
    Enum {
        names: Vec<Vec<u8>>,
    },
    /// A mask of these names.
    Set {
        names: Vec<Vec<u8>>,
    },
}

impl Kind {
    /// The kind of this name; `size` and `scale` are those of a decimal, `low` and `high` those of an integer.
    pub fn of(name: &str, (size, scale): (u8, u8), (low, high): (i64, i64), names: Vec<String>) -> Option<Kind> {
        let names = || names.iter().map(|name| name.as_bytes().to_vec()).collect();
        Some(match name {
            "int32" => Kind::Int32 { low, high },
            "int64" => Kind::Int64 { low, high },
            "wide" => Kind::Wide,
            "bits" => Kind::Bits,
            "float" => Kind::Float,
            "double" => Kind::Double,
            "decimal" if (1..=38).contains(&size) && scale <= size => Kind::Decimal { precision: size, scale },
            "decimal text" => Kind::DecimalText,
            "text" => Kind::Text,
            "bytes" => Kind::Bytes,
            "date" => Kind::Date,
            "date text" => Kind::DateText,
            "clock" => Kind::Clock { utc: false },
            "instant" => Kind::Clock { utc: true },
            "local" => Kind::Local,
            "clock text" => Kind::ClockText,
            "time" => Kind::Time,
            "vector" => Kind::Vector,
            "enum" => Kind::Enum { names: names() },
            "set" => Kind::Set { names: names() },
            _ => return None,
        })
    }

    pub fn data_type(&self) -> DataType {
        match self {
            Kind::Int32 { .. } => DataType::Int32,
            Kind::Int64 { .. } | Kind::Time => DataType::Int64,
            Kind::Wide | Kind::Bits => DataType::Decimal128(20, 0),
            Kind::Float => DataType::Float32,
            Kind::Double => DataType::Float64,
            Kind::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale as i8),
            Kind::Bytes => DataType::Binary,
            Kind::Date => DataType::Date32,
            Kind::Clock { utc: true } => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Kind::Clock { utc: false } | Kind::Local => DataType::Timestamp(TimeUnit::Microsecond, None),
            Kind::Vector => DataType::new_list(DataType::Float32, true),
            Kind::Text
            | Kind::DecimalText
            | Kind::DateText
            | Kind::ClockText
            | Kind::Enum { .. }
            | Kind::Set { .. } => DataType::Utf8,
        }
    }
}

enum Data {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Int128(Vec<i128>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    /// Where each value ends, behind a 0.
    Bytes {
        ends: Vec<i32>,
        bytes: Vec<u8>,
    },
    Lists {
        ends: Vec<i32>,
        values: Vec<f32>,
    },
}

/// A column's values so far.
pub struct Column {
    pub kind: Kind,
    valid: NullBufferBuilder,
    data: Data,
    /// The rows of the last array, and the bytes or numbers of its texts or lists.
    usual: (usize, usize),
}

/// The most bytes that a column's values may have together.
const MOST_BYTES: usize = 1 << 30;

/// The most values and bytes that room is made for before they come.
pub const MOST_ROOM: usize = 1 << 20;

impl Column {
    pub fn new(kind: Kind) -> Column {
        let data = match kind.data_type() {
            DataType::Int32 | DataType::Date32 => Data::Int32(Vec::new()),
            DataType::Int64 | DataType::Timestamp(..) => Data::Int64(Vec::new()),
            DataType::Decimal128(..) => Data::Int128(Vec::new()),
            DataType::Float32 => Data::Float(Vec::new()),
            DataType::Float64 => Data::Double(Vec::new()),
            DataType::List(_) => Data::Lists { ends: vec![0], values: Vec::new() },
            _ => Data::Bytes { ends: vec![0], bytes: Vec::new() },
        };
        Column { kind, valid: NullBufferBuilder::new(0), data, usual: (0, 0) }
    }

    #[inline]
    pub fn len(&self) -> usize {
        match &self.data {
            Data::Int32(values) => values.len(),
            Data::Int64(values) => values.len(),
            Data::Int128(values) => values.len(),
            Data::Float(values) => values.len(),
            Data::Double(values) => values.len(),
            Data::Bytes { ends, .. } | Data::Lists { ends, .. } => ends.len() - 1,
        }
    }

    #[inline]
    pub fn null(&mut self) {
        self.nulls(1);
    }

    /// Make room for as much as there was before.
    pub fn reserve(&mut self) {
        let (rows, size) = self.usual;
        match &mut self.data {
            Data::Int32(values) => values.reserve(rows),
            Data::Int64(values) => values.reserve(rows),
            Data::Int128(values) => values.reserve(rows),
            Data::Float(values) => values.reserve(rows),
            Data::Double(values) => values.reserve(rows),
            Data::Bytes { ends, bytes } => {
                ends.reserve(rows);
                bytes.reserve(size);
            }
            Data::Lists { ends, values } => {
                ends.reserve(rows);
                values.reserve(size);
            }
        }
    }

    pub fn nulls(&mut self, count: usize) {
        match &mut self.data {
            Data::Int32(values) => values.resize(values.len() + count, 0),
            Data::Int64(values) => values.resize(values.len() + count, 0),
            Data::Int128(values) => values.resize(values.len() + count, 0),
            Data::Float(values) => values.resize(values.len() + count, 0.0),
            Data::Double(values) => values.resize(values.len() + count, 0.0),
            Data::Bytes { ends, bytes } => ends.resize(ends.len() + count, bytes.len() as i32),
            Data::Lists { ends, values } => ends.resize(ends.len() + count, values.len() as i32),
        }
        self.valid.append_n_nulls(count);
    }

    pub fn truncate(&mut self, length: usize) {
        self.valid.truncate(length);
        match &mut self.data {
            Data::Int32(values) => values.truncate(length),
            Data::Int64(values) => values.truncate(length),
            Data::Int128(values) => values.truncate(length),
            Data::Float(values) => values.truncate(length),
            Data::Double(values) => values.truncate(length),
            Data::Bytes { ends, bytes } => {
                ends.truncate(length + 1);
                bytes.truncate(ends.last().map_or(0, |&end| end as usize));
            }
            Data::Lists { ends, values } => {
                ends.truncate(length + 1);
                values.truncate(ends.last().map_or(0, |&end| end as usize));
            }
        }
    }

    #[inline]
    fn int32(&mut self, value: i32) -> Option<()> {
        let Data::Int32(values) = &mut self.data else {
            return None;
        };
        values.push(value);
        self.valid.append_non_null();
        Some(())
    }

    #[inline]
    fn int64(&mut self, value: i64) -> Option<()> {
        let Data::Int64(values) = &mut self.data else {
            return None;
        };
        values.push(value);
        self.valid.append_non_null();
        Some(())
    }

    #[inline]
    pub fn int128(&mut self, value: i128) -> Option<()> {
        let Data::Int128(values) = &mut self.data else {
            return None;
        };
        values.push(value);
        self.valid.append_non_null();
        Some(())
    }

    /// Bytes as they are; those of a text must be UTF-8.
    #[inline]
    pub fn bytes(&mut self, value: &[u8]) -> Option<()> {
        let Data::Bytes { ends, bytes } = &mut self.data else {
            return None;
        };
        if value.len() > MOST_BYTES - bytes.len() {
            return None;
        }
        bytes.extend_from_slice(value);
        ends.push(bytes.len() as i32);
        self.valid.append_non_null();
        Some(())
    }

    /// Bytes that `fill` appends.
    pub fn filled(&mut self, fill: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<()> {
        let Data::Bytes { ends, bytes } = &mut self.data else {
            return None;
        };
        fill(bytes)?;
        if bytes.len() > MOST_BYTES {
            return None;
        }
        ends.push(bytes.len() as i32);
        self.valid.append_non_null();
        Some(())
    }

    /// A signed integer.
    #[inline]
    pub fn signed(&mut self, value: i64) -> Option<()> {
        match self.kind {
            Kind::Int32 { low, high } if low <= value && value <= high => self.int32(i32::try_from(value).ok()?),
            Kind::Int64 { low, high } if low <= value && value <= high => self.int64(value),
            _ => self.unsigned(u64::try_from(value).ok()?),
        }
    }

    /// An unsigned integer, of a column of any integers.
    #[inline]
    pub fn integer(&mut self, value: u64) -> Option<()> {
        match i64::try_from(value) {
            Ok(value) => self.signed(value),
            Err(_) => self.unsigned(value),
        }
    }

    /// An unsigned integer of a column that has only those.
    #[inline]
    pub fn unsigned(&mut self, value: u64) -> Option<()> {
        match &self.kind {
            Kind::Int32 { .. } | Kind::Int64 { .. } => None,
            Kind::Wide | Kind::Bits => self.int128(i128::from(value)),
            Kind::Enum { names } => {
                let Data::Bytes { ends, bytes } = &mut self.data else {
                    return None;
                };
                named(bytes, names.get(usize::try_from(value).ok()?)?)?;
                ends.push(bytes.len() as i32);
                self.valid.append_non_null();
                Some(())
            }
            Kind::Set { names } => {
                if names.len() < 64 && value >> names.len() != 0 {
                    return None;
                }
                let Data::Bytes { ends, bytes } = &mut self.data else {
                    return None;
                };
                let mut first = true;
                for (_, name) in names.iter().take(64).enumerate().filter(|(bit, _)| value >> bit & 1 == 1) {
                    if !std::mem::take(&mut first) {
                        bytes.push(b',');
                    }
                    named(bytes, name)?;
                }
                ends.push(bytes.len() as i32);
                self.valid.append_non_null();
                Some(())
            }
            _ => None,
        }
    }

    /// A floating-point number.
    #[inline]
    pub fn float(&mut self, value: f64) -> Option<()> {
        match &mut self.data {
            Data::Float(values) => values.push(text::single(value)?),
            Data::Double(values) if value.is_finite() => values.push(value),
            _ => return None,
        }
        self.valid.append_non_null();
        Some(())
    }

    /// A value as text; a text itself must be UTF-8. Bytes are in another form in each protocol.
    #[inline]
    pub fn text(&mut self, value: &[u8], zeros: &mut Zeros) -> Option<()> {
        match self.kind {
            Kind::Text => self.bytes(value),
            Kind::Int32 { low, .. } | Kind::Int64 { low, .. } => {
                // A minus zero is left to Python, unless the column is signed.
                let number = text::signed(value)?;
                (low < 0 || value.first() != Some(&b'-')).then_some(())?;
                self.signed(number)
            }
            Kind::Wide | Kind::Bits | Kind::Enum { .. } | Kind::Set { .. } => self.unsigned(text::unsigned(value)?),
            Kind::Float | Kind::Double => self.float(text::float(value)?),
            Kind::Decimal { precision, scale } => self.int128(text::decimal(value, precision, scale)?),
            Kind::DecimalText => text::is_plain_decimal(value).then(|| self.bytes(value))?,
            Kind::Time => self.int64(text::time(value)?),
            Kind::Bytes => None,
            Kind::Vector => self.vector(value),
            Kind::Date => match text::day(value)? {
                Day::Known(days) => self.int32(days),
                Day::Impossible => zeros.count(self),
            },
            Kind::Clock { .. } => match text::moment(value)? {
                Moment::Known(micros) => self.int64(micros),
                Moment::Impossible => zeros.count(self),
            },
            Kind::Local => match text::moment(value)? {
                Moment::Known(micros) if NEAR.contains(&micros) => self.int64(micros),
                Moment::Known(_) => None,
                Moment::Impossible => zeros.count(self),
            },
            Kind::DateText => text::day(value).and_then(|_| self.bytes(value)),
            Kind::ClockText => text::moment(value).and_then(|_| self.bytes(value)),
        }
    }

    /// The numbers of a VECTOR.
    fn vector(&mut self, value: &[u8]) -> Option<()> {
        let Data::Lists { ends, values } = &mut self.data else {
            return None;
        };
        text::vector(value, values)?;
        if values.len() > MOST_BYTES / size_of::<f32>() {
            return None;
        }
        ends.push(values.len() as i32);
        self.valid.append_non_null();
        Some(())
    }

    /// The array of all values. The column is empty afterwards.
    pub fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let nulls = self.valid.finish();
        let type_ = self.kind.data_type();
        let size = match &self.data {
            Data::Bytes { bytes, .. } => bytes.len(),
            Data::Lists { values, .. } => values.len(),
            _ => 0,
        };
        self.usual = (self.len().min(MOST_ROOM), size.min(MOST_ROOM));
        Ok(match &mut self.data {
            Data::Int32(values) if type_ == DataType::Date32 => primitive::<Date32Type>(values, nulls, type_)?,
            Data::Int32(values) => primitive::<Int32Type>(values, nulls, type_)?,
            Data::Int64(values) if type_ == DataType::Int64 => primitive::<Int64Type>(values, nulls, type_)?,
            Data::Int64(values) => primitive::<TimestampMicrosecondType>(values, nulls, type_)?,
            Data::Int128(values) => primitive::<Decimal128Type>(values, nulls, type_)?,
            Data::Float(values) => primitive::<Float32Type>(values, nulls, type_)?,
            Data::Double(values) => primitive::<Float64Type>(values, nulls, type_)?,
            Data::Lists { ends, values } => {
                let DataType::List(field) = type_ else {
                    return Err(ArrowError::SchemaError(format!("lists in a column of {type_}")));
                };
                let numbers = primitive::<Float32Type>(values, None, DataType::Float32)?;
                Arc::new(ListArray::try_new(field, offsets(std::mem::replace(ends, vec![0])), numbers, nulls)?)
            }
            Data::Bytes { ends, bytes } => {
                let offsets = offsets(std::mem::replace(ends, vec![0]));
                let bytes = Buffer::from_vec(std::mem::take(bytes));
                if type_ == DataType::Binary {
                    Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?)
                } else {
                    Arc::new(StringArray::try_new(offsets, bytes, nulls)?)
                }
            }
        })
    }
}

fn named(bytes: &mut Vec<u8>, name: &[u8]) -> Option<()> {
    if name.len() > MOST_BYTES.checked_sub(bytes.len())? {
        return None;
    }
    bytes.extend_from_slice(name);
    Some(())
}

/// 1970 to 2037, in microseconds: where time zones have no surprises.
const NEAR: std::ops::Range<i64> = 0..2_114_380_800_000_000;

fn offsets(ends: Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(ends))
}

fn primitive<T: ArrowPrimitiveType>(
    values: &mut Vec<T::Native>,
    nulls: Option<NullBuffer>,
    type_: DataType,
) -> Result<ArrayRef, ArrowError> {
    let values = ScalarBuffer::from(std::mem::take(values));
    Ok(Arc::new(PrimitiveArray::<T>::try_new(values, nulls)?.with_data_type(type_)))
}

/// Dates that the calendar does not have: whether they become NULL, and how many did.
pub struct Zeros {
    pub to_null: bool,
    pub counted: usize,
}

impl Zeros {
    fn count(&mut self, column: &mut Column) -> Option<()> {
        if !self.to_null {
            return None;
        }
        self.counted += 1;
        column.null();
        Some(())
    }
}
