//! Avro with a schema registry: one row in a message, in a record whose fields Python describes.

use crate::column::{Column, Kind, Zeros};
use crate::protocol::{Protocol, Shapes, Unread, is_text};
use crate::reader::{Reader, begins};
use crate::table::{Head, Op, Tables};
use crate::text;

/// How a value is written.
#[derive(Clone, Copy, PartialEq)]
pub enum Wire {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
}

/// What a field means.
pub enum Target {
    Column(usize),
    Op,
    CommitTs,
    Checksum,
    /// A field about the change that no batch has.
    Other,
    /// The old row, whose columns are those of the new one.
    Before(Vec<Field>),
}

/// A field of a record.
pub struct Field {
    wire: Wire,
    /// The byte that stands before a NULL, and the one before a value.
    union: Option<(u8, u8)>,
    target: Target,
    /// The number of the key's field that must have the same bytes.
    key: Option<usize>,
}

/// A field as Python describes it: its type, the place of null in a union, what it means, the key's field.
pub type FieldSpec = (String, Option<u8>, String, usize, Option<usize>);

impl Field {
    /// The fields of a record; those of the old row follow its own field.
    pub fn all(specs: Vec<FieldSpec>) -> Option<Vec<Field>> {
        let mut specs = specs.into_iter().peekable();
        let mut fields = Vec::new();
        while let Some((wire, null_at, target, number, key)) = specs.next() {
            let union = null_at.map(|at| (2 * at, 2 - 2 * at));
            if target == "before" {
                let inner = specs.by_ref().take(number).collect();
                fields.push(Field { wire: Wire::Bytes, union, target: Target::Before(Field::all(inner)?), key });
                continue;
            }
            let wire = match wire.as_str() {
                "boolean" => Wire::Boolean,
                "int" => Wire::Int,
                "long" => Wire::Long,
                "float" => Wire::Float,
                "double" => Wire::Double,
                "bytes" => Wire::Bytes,
                "string" => Wire::String,
                _ => return None,
            };
            let target = match target.as_str() {
                "column" => Target::Column(number),
                "op" => Target::Op,
                "commit ts" => Target::CommitTs,
                "checksum" => Target::Checksum,
                "other" => Target::Other,
                _ => return None,
            };
            fields.push(Field { wire, union, target, key });
        }
        Some(fields)
    }
}

/// Messages whose parts begin alike.
struct Shape {
    /// `None` if they are left to Python.
    table: Option<usize>,
    key: Vec<Field>,
    /// Empty if there is no record: the row of the key was deleted.
    value: Vec<Field>,
}

pub struct Avro {
    /// By the heads of key and value.
    shapes: Shapes<[[u8; 5]; 2], Shape>,
    /// What Python says of the shape that was unknown.
    described: Option<(Vec<Field>, Vec<Field>)>,
    /// Where the key's values are in the key.
    spans: Vec<(usize, usize)>,
}

impl Avro {
    pub fn new() -> Avro {
        Avro { shapes: Shapes::new(), described: None, spans: Vec::new() }
    }
}

/// In place of the head of a part that is not there.
const NOTHING: [u8; 5] = [0xff; 5];
const RECORD: u8 = 0;
const DELETE: u8 = 3;

impl Protocol for Avro {
    fn message(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        pos: i32,
        tables: &mut Tables,
    ) -> Result<(), Unread> {
        let value = value.unwrap_or_default();
        let deleted = value.is_empty() || (key.is_some() && value[0] == DELETE);
        let head = |part: &[u8]| part.first_chunk::<5>().copied().filter(|head| head[0] == RECORD).ok_or(Unread::Left);
        let heads = [key.map_or(Ok(NOTHING), head)?, if deleted { NOTHING } else { head(value)? }];
        if heads == [NOTHING; 2] {
            return Err(Unread::Left);
        }
        let shape = self.shapes.find(&heads)?;
        let table = shape.table.ok_or(Unread::Left)?;
        let key = key.unwrap_or_default();
        tables.message(pos, |tables| {
            if deleted {
                delete(key, value, shape, table, pos, tables)
            } else {
                row(key, value, shape, table, pos, tables, &mut self.spans)
            }
            .ok_or(Unread::Left)
        })
    }

    fn describe(&mut self, key: Vec<FieldSpec>, value: Vec<FieldSpec>) -> bool {
        self.described = Field::all(key).zip(Field::all(value));
        self.described.is_some()
    }

    fn learn(&mut self, table: usize, _: Option<i64>, _: &Tables) -> bool {
        let Some((key, value)) = self.described.take() else { return false };
        self.shapes.keep(Shape { table: Some(table), key, value })
    }

    fn refuse(&mut self) {
        self.shapes.keep(Shape { table: None, key: Vec::new(), value: Vec::new() });
    }

    fn forget(&mut self) {
        self.shapes.clear();
    }
}

impl Reader<'_> {
    /// Is there a value behind a union's branch?
    #[inline]
    fn is_there(&mut self, field: &Field) -> Option<bool> {
        let Some((null, value)) = field.union else { return Some(true) };
        let branch = self.byte()?;
        if branch == value { Some(true) } else { (branch == null).then_some(false) }
    }
}

/// The row of a key was deleted.
fn delete(key: &[u8], value: &[u8], shape: &Shape, table: usize, pos: i32, tables: &mut Tables) -> Option<()> {
    let commit_ts = match value {
        [] => None,
        [_, ts @ ..] => Some(i64::try_from(u64::from_be_bytes(ts.try_into().ok()?)).ok()?),
    };
    let (table, zeros) = tables.begin(table, pos)?;
    let mut reader = Reader { data: key, at: 5 };
    let columns = table.before.columns();
    for field in &shape.key {
        let Target::Column(number) = field.target else { return None };
        let column = columns.get_mut(number)?;
        if reader.is_there(field)? { read(&mut reader, field.wire, column, zeros)? } else { column.null() }
    }
    (reader.at == key.len()).then_some(())?;
    table.end(&Head { op: Op::Delete, commit_ts, pos, sub: 0, partition: None, key_only: false });
    Some(())
}

#[inline]
fn row(
    key: &[u8],
    value: &[u8],
    shape: &Shape,
    table: usize,
    pos: i32,
    tables: &mut Tables,
    spans: &mut Vec<(usize, usize)>,
) -> Option<()> {
    spans.clear();
    if !shape.key.is_empty() || !key.is_empty() {
        let mut reader = Reader { data: key, at: 5 };
        for field in &shape.key {
            // A NULL in a key is left to Python.
            reader.is_there(field)?.then_some(())?;
            let start = reader.at;
            skip(&mut reader, field.wire)?;
            spans.push((start, reader.at));
        }
        (reader.at == key.len()).then_some(())?;
    }
    let (table, zeros) = tables.begin(table, pos)?;
    let mut reader = Reader { data: value, at: 5 };
    let (mut op, mut commit_ts, mut old) = (None, None, None);
    let columns = table.after.columns();
    for field in &shape.value {
        let is_there = reader.is_there(field)?;
        if let Target::Column(number) = field.target {
            let column = columns.get_mut(number)?;
            if !is_there {
                field.key.is_none().then_some(())?;
                column.null();
                continue;
            }
            let start = reader.at;
            read(&mut reader, field.wire, column, zeros)?;
            if let Some(number) = field.key {
                let &(from, to) = spans.get(number)?;
                let found = &value[start..reader.at];
                (to - from == found.len() && begins(key.get(from..)?, found)).then_some(())?;
            }
            continue;
        }
        match &field.target {
            Target::Column(_) => {}
            _ if !is_there => old = Some(false),
            Target::Op => {
                op = Some(match reader.bytes()? {
                    b"c" => Op::Insert,
                    b"u" => Op::Update,
                    _ => return None,
                })
            }
            Target::CommitTs => commit_ts = Some(reader.signed().filter(|&ts| ts >= 0)?),
            Target::Checksum => {
                let digits = reader.bytes()?;
                let fits = digits.len() <= 10 && text::unsigned(digits).is_some_and(|sum| sum < 1 << 32);
                (fits || digits.is_empty()).then_some(())?;
            }
            Target::Other => skip(&mut reader, field.wire)?,
            Target::Before(fields) => {
                old = Some(true);
                let columns = table.before.columns();
                for field in fields {
                    let Target::Column(number) = field.target else { return None };
                    let column = columns.get_mut(number)?;
                    if reader.is_there(field)? { read(&mut reader, field.wire, column, zeros)? } else { column.null() }
                }
            }
        }
    }
    (reader.at == value.len()).then_some(())?;
    let op = match (op, old) {
        (None | Some(Op::Update), Some(true)) => Op::Update,
        (None | Some(Op::Insert), None | Some(false)) => Op::Insert,
        (Some(Op::Update), _) => {
            // The record does not tell the old row.
            for (number, column) in (0..).zip(table.before.columns()) {
                column.null();
                table.gaps.push(number);
            }
            Op::Update
        }
        _ => return None,
    };
    table.end(&Head { op, commit_ts, pos, sub: 0, partition: None, key_only: false });
    Some(())
}

/// Pass a value.
fn skip(reader: &mut Reader, wire: Wire) -> Option<()> {
    match wire {
        Wire::Boolean => (reader.byte()? < 2).then_some(()),
        Wire::Int => i32::try_from(reader.signed()?).ok().map(drop),
        Wire::Long => reader.signed().map(drop),
        Wire::Float => reader.take(4).map(drop),
        Wire::Double => reader.take(8).map(drop),
        Wire::Bytes | Wire::String => reader.bytes().map(drop),
    }
}

#[inline]
fn read(reader: &mut Reader, wire: Wire, column: &mut Column, zeros: &mut Zeros) -> Option<()> {
    match wire {
        Wire::Boolean => None,
        Wire::Int => column.signed(i64::from(i32::try_from(reader.signed()?).ok()?)),
        Wire::Long => {
            let number = reader.signed()?;
            // Those beyond the signed ones are written as the negative ones with the same bits.
            if matches!(column.kind, Kind::Wide) { column.unsigned(number as u64) } else { column.signed(number) }
        }
        Wire::Float => column.float(f64::from(f32::from_le_bytes(reader.array()?))),
        Wire::Double => column.float(f64::from_le_bytes(reader.array()?)),
        Wire::Bytes => {
            let found = reader.bytes()?;
            match column.kind {
                Kind::Bytes => column.bytes(found),
                Kind::Decimal { precision, .. } => {
                    let number = big_endian(found)?;
                    (number.unsigned_abs() < text::power(precision)?.unsigned_abs()).then_some(())?;
                    column.int128(number)
                }
                // A BIT.
                Kind::Bits | Kind::Int64 { .. } if (1..=8).contains(&found.len()) => {
                    let number = found.iter().fold(0u64, |number, &byte| number << 8 | u64::from(byte));
                    column.integer(number)
                }
                _ => None,
            }
        }
        Wire::String => {
            let found = reader.bytes()?;
            if matches!(column.kind, Kind::Text) {
                is_text(found).then(|| column.bytes(found))?
            } else {
                string(found, column, zeros)
            }
        }
    }
}

/// A value that is written as text, of a column of another kind.
fn string(found: &[u8], column: &mut Column, zeros: &mut Zeros) -> Option<()> {
    match &column.kind {
        Kind::Enum { names } => {
            is_listed(found, names)?;
            column.bytes(found)
        }
        Kind::Set { names } => {
            if !found.is_empty() {
                let mut rest = names.iter();
                // In the order of the declaration, each once.
                for part in found.split(|&byte| byte == b',') {
                    rest.find(|name| name.as_slice() == part)?;
                    is_listed(part, names)?;
                }
            }
            column.bytes(found)
        }
        Kind::Bytes => None,
        _ => column.text(found, zeros),
    }
}

/// The server quotes names in several ways; a name with a quote is left to Python.
fn is_listed(name: &[u8], names: &[Vec<u8>]) -> Option<()> {
    (!name.contains(&b'\'') && names.iter().any(|known| known == name)).then_some(())
}

fn big_endian(bytes: &[u8]) -> Option<i128> {
    let first = *bytes.first()?;
    if bytes.len() > 16 {
        return None;
    }
    let sign = if first & 0x80 == 0 { 0 } else { -1 };
    Some(if bytes.len() <= 8 {
        i128::from(bytes.iter().fold(sign as i64, |number, &byte| number << 8 | i64::from(byte)))
    } else {
        bytes.iter().fold(sign, |number: i128, &byte| number << 8 | i128::from(byte))
    })
}
