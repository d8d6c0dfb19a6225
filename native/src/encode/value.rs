//! One column's values on their way into messages.

use super::binary::{self, uvarint, varint};
use super::escape::Escapes;
use super::text;
use ahash::AHashMap;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{NullBuffer, i256};
use arrow_schema::{DataType, TimeUnit};
use pyo3::prelude::*;

/// How values stand in messages. Python names the formats; see `tidewire.arrow.encode.parts`.
pub enum Format {
    /// Integers in digits; `unsigned` ones must fit 64 bits without a sign.
    Digits {
        unsigned: bool,
    },
    Float,
    JsonFloat,
    Decimal,
    Date,
    Clock {
        digits: Option<usize>,
    },
    Time {
        digits: Option<usize>,
    },
    Vector,
    /// The place of a name, or the mask of several, in digits or as an integer of Avro or Craft.
    Enum {
        places: AHashMap<Vec<u8>, u64>,
        number: Number,
    },
    Set {
        bits: AHashMap<Vec<u8>, u64>,
        number: Number,
    },
    /// A text that is one of these names, or several of them in order.
    EnumName {
        places: AHashMap<Vec<u8>, u64>,
    },
    SetNames {
        bits: AHashMap<Vec<u8>, u64>,
    },
    Raw,
    Escaped {
        escapes: Py<Escapes>,
    },
    Base64,
    /// One of two texts: the latter for integers above the limit.
    Above {
        limit: i128,
        texts: [Vec<u8>; 2],
    },
    Integer {
        number: Number,
    },
    /// Eight bytes, the highest first.
    Big,
    /// A floating-point number, the lowest byte first; as a DOUBLE even if it is a FLOAT.
    Bits {
        double: bool,
    },
    /// A DECIMAL in units of its last digit.
    Unscaled {
        scale: usize,
    },
    /// A BIT of so many bytes, or more if it needs them.
    BitBytes {
        width: usize,
    },
}

/// How an integer is written.
#[derive(Clone, Copy)]
pub enum Number {
    Digits,
    /// A signed integer of 64 bits; an unsigned one becomes the signed one with the same bits.
    Zigzag,
    Unsigned,
}

impl Format {
    /// The format of this name. `size` is a number of digits or bytes, a scale or a limit.
    pub fn of(name: &str, size: Option<i128>, texts: Vec<Vec<u8>>, escapes: Option<Py<Escapes>>) -> Option<Format> {
        let small = || size.and_then(|size| usize::try_from(size).ok());
        let places = || texts.iter().cloned().zip(0u64..).collect();
        let bits = || {
            let fits = texts.len() <= 64;
            fits.then(|| texts.iter().cloned().zip((0u32..).map(|bit| 1u64 << bit)).collect())
        };
        let number = match name.rsplit(' ').next()? {
            "zigzag" => Number::Zigzag,
            "uvarint" => Number::Unsigned,
            _ => Number::Digits,
        };
        Some(match name {
            "digits" => Format::Digits { unsigned: false },
            "unsigned digits" => Format::Digits { unsigned: true },
            "float" => Format::Float,
            "json float" => Format::JsonFloat,
            "decimal" => Format::Decimal,
            "date" => Format::Date,
            "clock" => Format::Clock { digits: small() },
            "time" => Format::Time { digits: small() },
            "vector" => Format::Vector,
            "enum digits" | "enum zigzag" | "enum uvarint" => Format::Enum { places: places(), number },
            "set digits" | "set zigzag" | "set uvarint" => Format::Set { bits: bits()?, number },
            "enum name" => Format::EnumName { places: places() },
            "set names" => Format::SetNames { bits: bits()? },
            "raw" => Format::Raw,
            "escaped" => Format::Escaped { escapes: escapes? },
            "base64" => Format::Base64,
            "above" => Format::Above { limit: size?, texts: texts.try_into().ok()? },
            "zigzag" | "uvarint" => Format::Integer { number },
            "big" => Format::Big,
            "float bits" => Format::Bits { double: false },
            "double bits" => Format::Bits { double: true },
            "unscaled" => Format::Unscaled { scale: small()? },
            "bit bytes" => Format::BitBytes { width: small()? },
            _ => return None,
        })
    }
}

/// The values of a column.
enum Values<'a> {
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Decimal { values: &'a [i128], scale: usize },
    Float(&'a [f32]),
    Double(&'a [f64]),
    Bytes { ends: &'a [i32], data: &'a [u8] },
    Floats { ends: &'a [i32], items: &'a [f32] },
}

/// A column of a batch.
pub struct Column<'a> {
    values: Values<'a>,
    nulls: Option<&'a NullBuffer>,
}

fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<&[T::Native]> {
    array.as_any().downcast_ref::<PrimitiveArray<T>>().map(|array| array.values().as_ref())
}

impl<'a> Column<'a> {
    /// The column, if its type is one of those that MySQL's types have.
    pub fn of(array: &'a ArrayRef) -> Option<Column<'a>> {
        let found = match array.data_type() {
            DataType::Int32 => Values::Int32(values::<Int32Type>(array)?),
            DataType::Date32 => Values::Int32(values::<Date32Type>(array)?),
            DataType::Int64 => Values::Int64(values::<Int64Type>(array)?),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Values::Int64(values::<TimestampMicrosecondType>(array)?),
            DataType::Decimal128(_, scale) => {
                Values::Decimal { values: values::<Decimal128Type>(array)?, scale: usize::try_from(*scale).ok()? }
            }
            DataType::Float32 => Values::Float(values::<Float32Type>(array)?),
            DataType::Float64 => Values::Double(values::<Float64Type>(array)?),
            DataType::Binary => {
                let array = array.as_binary_opt::<i32>()?;
                Values::Bytes { ends: array.offsets(), data: array.values() }
            }
            DataType::Utf8 => {
                let array = array.as_string_opt::<i32>()?;
                let (ends, data) = (array.offsets(), array.values().as_slice());
                // Arrow does not check what another library hands over.
                let [first, .., last] = **ends else {
                    return None;
                };
                let used = data.get(first as usize..last as usize)?;
                simdutf8::basic::from_utf8(used).ok()?;
                Values::Bytes { ends, data }
            }
            DataType::List(_) => {
                let array = array.as_list_opt::<i32>()?;
                let items = array.values();
                if items.null_count() > 0 {
                    return None;
                }
                Values::Floats { ends: array.offsets(), items: values::<Float32Type>(items)? }
            }
            _ => return None,
        };
        Some(Column { values: found, nulls: array.nulls().filter(|nulls| nulls.null_count() > 0) })
    }

    #[inline]
    pub fn is_null(&self, row: usize) -> bool {
        self.nulls.is_some_and(|nulls| nulls.is_null(row))
    }

    #[inline]
    fn bytes(&self, row: usize) -> Option<&'a [u8]> {
        match self.values {
            Values::Bytes { ends, data } => data.get(*ends.get(row)? as usize..*ends.get(row + 1)? as usize),
            _ => None,
        }
    }

    #[inline]
    fn integer(&self, row: usize) -> Option<i128> {
        Some(match self.values {
            Values::Int32(values) => i128::from(*values.get(row)?),
            Values::Int64(values) => i128::from(*values.get(row)?),
            Values::Decimal { values, scale: 0 } => *values.get(row)?,
            _ => return None,
        })
    }

    #[inline]
    fn word(&self, row: usize) -> Option<i64> {
        match self.values {
            Values::Int32(values) => values.get(row).copied().map(i64::from),
            Values::Int64(values) => values.get(row).copied(),
            _ => None,
        }
    }

    /// The value of a row, which must not be NULL.
    #[inline]
    pub fn write(&self, row: usize, format: &Format, out: &mut Vec<u8>) -> Option<()> {
        match format {
            Format::Digits { unsigned: false } => match self.word(row) {
                Some(number) => text::signed(number, out),
                None => text::unsigned(u64::try_from(self.integer(row)?).ok()?, out),
            },
            Format::Digits { unsigned: true } => text::unsigned(u64::try_from(self.integer(row)?).ok()?, out),
            Format::Float => match self.values {
                Values::Float(values) => text::float(f64::from(*values.get(row)?), true, out)?,
                Values::Double(values) => text::float(*values.get(row)?, false, out)?,
                _ => return None,
            },
            Format::JsonFloat => match self.values {
                Values::Float(values) => text::json_float(f64::from(*values.get(row)?), true, out)?,
                Values::Double(values) => text::json_float(*values.get(row)?, false, out)?,
                _ => return None,
            },
            Format::Decimal => match self.values {
                Values::Decimal { values, scale } => text::decimal(*values.get(row)?, scale, out),
                _ => out.extend_from_slice(self.bytes(row).filter(|text| text::is_decimal(text))?),
            },
            Format::Date => text::date(self.word(row)?, out)?,
            Format::Clock { digits } => text::clock(self.word(row)?, *digits, out)?,
            Format::Time { digits } => text::time(self.word(row)?, *digits, out),
            Format::Vector => self.vector(row, out)?,
            Format::Enum { places, number } => number.write(i128::from(*places.get(self.bytes(row)?)?), out)?,
            Format::Set { bits, number } => number.write(i128::from(mask(self.bytes(row)?, bits)?.0), out)?,
            Format::EnumName { places } => {
                let name = self.bytes(row)?;
                // Place 0 is not a name: it is MySQL's error value.
                places.get(name).filter(|&&place| place > 0)?;
                out.extend_from_slice(name);
            }
            Format::SetNames { bits } => {
                let names = self.bytes(row)?;
                mask(names, bits)?.1.then(|| out.extend_from_slice(names))?;
            }
            Format::Raw => out.extend_from_slice(self.bytes(row)?),
            Format::Escaped { escapes } => escapes.get().write(self.bytes(row)?, out),
            Format::Base64 => text::base64(self.bytes(row)?, out),
            Format::Above { limit, texts } => {
                out.extend_from_slice(&texts[usize::from(self.integer(row)? > *limit)]);
            }
            Format::Integer { number } => number.write(self.integer(row)?, out)?,
            Format::Big => out.extend_from_slice(&u64::try_from(self.integer(row)?).ok()?.to_be_bytes()),
            Format::Bits { double } => match self.values {
                Values::Float(values) => {
                    let number = *values.get(row)?;
                    match (number.is_finite(), double) {
                        (false, _) => return None,
                        (_, true) => out.extend_from_slice(&f64::from(number).to_le_bytes()),
                        (_, false) => out.extend_from_slice(&number.to_le_bytes()),
                    }
                }
                Values::Double(values) => {
                    let number = *values.get(row)?;
                    number.is_finite().then(|| out.extend_from_slice(&number.to_le_bytes()))?;
                }
                _ => return None,
            },
            Format::Unscaled { scale } => match self.values {
                Values::Decimal { values, .. } => binary::shortest(i256::from_i128(*values.get(row)?), out),
                _ => {
                    let found = self.bytes(row).filter(|text| text::is_decimal(text))?;
                    binary::shortest(binary::unscaled(found, *scale)?, out);
                }
            },
            Format::BitBytes { width } => {
                let bytes = u64::try_from(self.integer(row)?).ok()?.to_be_bytes();
                let needed = bytes.iter().position(|&byte| byte != 0).map_or(0, |first| bytes.len() - first);
                out.extend_from_slice(&bytes[bytes.len() - needed.max((*width).min(bytes.len()))..]);
            }
        }
        Some(())
    }

    fn vector(&self, row: usize, out: &mut Vec<u8>) -> Option<()> {
        let Values::Floats { ends, items } = self.values else {
            return None;
        };
        out.push(b'[');
        for (place, &number) in items.get(*ends.get(row)? as usize..*ends.get(row + 1)? as usize)?.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            text::float(f64::from(number), true, out)?;
        }
        out.push(b']');
        Some(())
    }
}

impl Number {
    fn write(self, number: i128, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Number::Digits => text::unsigned(u64::try_from(number).ok()?, out),
            Number::Unsigned => uvarint(u64::try_from(number).ok()?, out),
            Number::Zigzag => match i64::try_from(number) {
                Ok(number) => varint(number, out),
                Err(_) => varint(u64::try_from(number).ok()? as i64, out),
            },
        }
        Some(())
    }
}

/// The mask of a SET's names, and whether they stand in the order of their bits. A name must not stand there twice.
fn mask(names: &[u8], bits: &AHashMap<Vec<u8>, u64>) -> Option<(u64, bool)> {
    let (mut mask, mut ordered) = (0, true);
    if names.is_empty() {
        return Some((mask, ordered));
    }
    for name in names.split(|&byte| byte == b',') {
        let bit = *bits.get(name).filter(|_| !name.is_empty())?;
        if mask & bit != 0 {
            return None;
        }
        ordered &= bit > mask;
        mask |= bit;
    }
    Some((mask, ordered))
}
