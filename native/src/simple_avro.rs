//! Simple in Avro: one row in a message, its columns a map in any order. Their types come from schemas that were sent
//! before.

use crate::column::{Column, Kind, Zeros};
use crate::encode::varint;
use crate::image::Bytes;
use crate::protocol::{Protocol, Shapes, Unread, is_text};
use crate::reader::Reader;
use crate::simple::{Header, is_on_clock};
use crate::table::{Head, Image, Op, Tables};
use ahash::AHashMap;

/// Rows of one physical table and version.
struct Known {
    /// `None` if its rows are left to Python.
    table: Option<usize>,
    partition: Option<i64>,
    columns: Columns,
}

/// The numbers of columns by their names. The server writes them in another order in each row.
#[derive(Default)]
struct Columns {
    numbers: AHashMap<Bytes, usize>,
    /// Short names as they stand in a message, with their numbers: each at its place, unless another one is there.
    places: Vec<(Short, usize)>,
    /// What places are computed with.
    factor: u64,
}

/// The first and the last eight bytes of a short name behind its length.
type Short = (u64, u64);

/// In place of a column's number where no name is.
const NO_COLUMN: usize = usize::MAX;

/// With one of these, most names have a place of their own.
const FACTORS: [u64; 16] = {
    let mut factors = [0x9e37_79b9_7f4a_7c15; 16];
    let mut number = 1;
    while number < factors.len() {
        factors[number] = 0xbf58_476d_1ce4_e5b9u64.wrapping_mul(factors[number - 1]);
        number += 1;
    }
    factors
};

impl Columns {
    fn new<'a>(names: impl Iterator<Item = &'a [u8]>) -> Columns {
        let numbers: AHashMap<Bytes, usize> = names.zip(0..).map(|(name, number)| (name.into(), number)).collect();
        let short = |(name, &number): (&Bytes, &usize)| {
            let mut written = Vec::new();
            varint(name.len() as i64, &mut written);
            written.extend_from_slice(name);
            written.extend_from_slice(&[0; 8]);
            Some((Columns::short(&written)?.0, number))
        };
        let short: Vec<(Short, usize)> = numbers.iter().filter_map(short).collect();
        let mut columns = Columns { numbers, places: Vec::new(), factor: 0 };
        let mut most = None;
        for factor in FACTORS {
            let mut places = vec![((0, 0), NO_COLUMN); (8 * short.len()).next_power_of_two()];
            let mut placed = 0;
            for &(name, number) in &short {
                let place = Columns::place(name, factor, places.len());
                if places[place].1 == NO_COLUMN {
                    places[place] = (name, number);
                    placed += 1;
                }
            }
            if most < Some(placed) {
                most = Some(placed);
                (columns.places, columns.factor) = (places, factor);
            }
            if placed == short.len() {
                break;
            }
        }
        columns
    }

    /// The name that these bytes begin with, and its size; None if it is not short, or at the end.
    #[inline]
    fn short(bytes: &[u8]) -> Option<(Short, usize)> {
        let first = u64::from_le_bytes(*bytes.first_chunk()?);
        let size = usize::from(bytes[0] / 2) + 1;
        let last = match size {
            0..=8 => return Some(((first & u64::MAX >> (64 - 8 * size), 0), size)),
            9..=16 => u64::from_le_bytes(*bytes.get(size - 8..)?.first_chunk()?),
            _ => return None,
        };
        Some(((first, last), size))
    }

    /// Which of so many places belongs to a name.
    #[inline]
    fn place((first, last): Short, factor: u64, places: usize) -> usize {
        ((first ^ last.rotate_left(29)).wrapping_mul(factor) >> 32) as usize & places.wrapping_sub(1)
    }

    /// The number of the column whose name is next.
    #[inline]
    fn next(&self, reader: &mut Reader) -> Option<usize> {
        if let Some((short, size)) = Columns::short(reader.data.get(reader.at..)?)
            && let Some((found, number)) = self.places.get(Columns::place(short, self.factor, self.places.len()))
            && *found == short
        {
            reader.at += size;
            return Some(*number);
        }
        self.numbers.get(reader.bytes()?).copied()
    }
}

pub struct SimpleAvro {
    /// By names, id and version as they stand in a message.
    known: Shapes<[u8], Known>,
    zone: Vec<u8>,
    key: Vec<u8>,
}

impl SimpleAvro {
    pub fn new(zone: &str) -> SimpleAvro {
        SimpleAvro { known: Shapes::new(), zone: zone.as_bytes().to_vec(), key: Vec::new() }
    }
}

/// The branch Message, the type DML, the branch DML, the version 1.
const START: &[u8] = b"\x16\x06\x06\x02";

/// Branches of unions as they are written.
const NULL: u8 = 0;
const THERE: u8 = 2;

impl Protocol for SimpleAvro {
    fn stops(&self) -> bool {
        true
    }

    fn message(&mut self, _: Option<&[u8]>, value: Option<&[u8]>, pos: i32, tables: &mut Tables) -> Result<(), Unread> {
        let data = value.filter(|data| data.starts_with(START)).ok_or(Unread::Left)?;
        let mut reader = Reader { data, at: START.len() };
        let header = header(&mut reader, &mut self.key).ok_or(Unread::Left)?;
        let known = self.known.find(&self.key)?;
        let table = known.table.ok_or(Unread::Left)?;
        tables.message(pos, |tables| row(reader, header, known, table, pos, tables, &self.zone).ok_or(Unread::Left))
    }

    fn learn(&mut self, table: usize, partition: Option<i64>, tables: &Tables) -> bool {
        let Some(known) = tables.all.get(table) else { return false };
        self.known.keep(Known { table: Some(table), partition, columns: Columns::new(known.after.names()) })
    }

    fn refuse(&mut self) {
        self.known.keep(Known { table: None, partition: None, columns: Columns::default() });
    }

    fn forget(&mut self) {
        self.known.clear();
    }
}

/// What stands before the images; names, id and version go to `key`.
#[inline]
fn header(reader: &mut Reader, key: &mut Vec<u8>) -> Option<Header> {
    let start = reader.at;
    reader.bytes()?;
    reader.bytes()?;
    reader.signed()?;
    key.clear();
    key.extend_from_slice(&reader.data[start..reader.at]);
    let op = match reader.signed()? {
        0 => Op::Insert,
        1 => Op::Update,
        2 => Op::Delete,
        _ => return None,
    };
    let commit_ts = reader.signed().filter(|&ts| ts >= 0)?;
    reader.signed()?;
    let start = reader.at;
    reader.signed().filter(|&version| version >= 0)?;
    key.extend_from_slice(&reader.data[start..reader.at]);
    // A row that is kept elsewhere is Python's.
    (reader.byte()? == NULL).then_some(())?;
    let key_only = match reader.byte()? {
        NULL => false,
        THERE => reader.boolean()?,
        _ => return None,
    };
    match reader.byte()? {
        NULL => {}
        THERE => {
            i32::try_from(reader.signed()?).ok().filter(|&version| version >= 0)?;
            reader.boolean()?;
            for _ in 0..2 {
                u32::try_from(reader.signed()?).ok()?;
            }
        }
        _ => return None,
    }
    Some(Header { op, commit_ts, key_only })
}

#[inline]
fn row(
    mut reader: Reader,
    header: Header,
    known: &Known,
    table: usize,
    pos: i32,
    tables: &mut Tables,
    zone: &[u8],
) -> Option<()> {
    let Header { op, commit_ts, key_only } = header;
    let (table, zeros) = tables.begin(table, pos)?;
    let rows = table.len();
    (reader.byte()? == if op == Op::Delete { NULL } else { THERE }).then_some(())?;
    if op != Op::Delete {
        image(&mut reader, known, &mut table.after, rows, zeros, zone, |_| {})?;
    }
    (reader.byte()? == if op == Op::Insert { NULL } else { THERE }).then_some(())?;
    if op != Op::Insert {
        image(&mut reader, known, &mut table.before, rows, zeros, zone, |number| table.gaps.push(number))?;
    }
    reader.is_at_end().then_some(())?;
    table.end(&Head { op, commit_ts: Some(commit_ts), pos, sub: 0, partition: known.partition, key_only });
    Some(())
}

/// Read the columns of an image, each once; `missing` gets the numbers of those that are not there.
#[inline]
fn image(
    reader: &mut Reader,
    known: &Known,
    image: &mut Image,
    rows: usize,
    zeros: &mut Zeros,
    zone: &[u8],
    mut missing: impl FnMut(i16),
) -> Option<()> {
    let columns = image.columns();
    let mut total = 0;
    loop {
        // A block that tells its size has a negative count, which no server writes.
        let count = u64::try_from(reader.signed()?).ok()?;
        if count == 0 {
            break;
        }
        for _ in 0..count {
            let column = columns.get_mut(known.columns.next(reader)?)?;
            (column.len() == rows).then_some(())?;
            value(reader, column, zeros, zone)?;
            total += 1;
        }
    }
    if total < columns.len() {
        for (number, column) in (0..).zip(columns).filter(|(_, column)| column.len() == rows) {
            column.null();
            missing(number);
        }
    }
    Some(())
}

#[inline]
fn value(reader: &mut Reader, column: &mut Column, zeros: &mut Zeros, zone: &[u8]) -> Option<()> {
    match reader.byte()? {
        NULL => {
            column.null();
            Some(())
        }
        LONG => column.signed(reader.signed()?),
        FLOAT => column.float(f64::from(f32::from_le_bytes(reader.array()?))),
        DOUBLE => column.float(f64::from_le_bytes(reader.array()?)),
        STRING => {
            let found = reader.bytes()?;
            match column.kind {
                Kind::Text if is_text(found) => column.bytes(found),
                // What the codec refuses, or what no server sends.
                Kind::Text
                | Kind::Bytes
                | Kind::Int32 { .. }
                | Kind::Wide
                | Kind::Bits
                | Kind::Float
                | Kind::Double
                | Kind::Enum { .. }
                | Kind::Set { .. }
                | Kind::Local
                | Kind::Clock { utc: true } => None,
                _ => column.text(found, zeros),
            }
        }
        BYTES if matches!(column.kind, Kind::Bytes) => column.bytes(reader.bytes()?),
        TIMESTAMP if matches!(column.kind, Kind::Clock { utc: true } | Kind::Local) => {
            let found = reader.bytes()?;
            is_on_clock(found, zone).then_some(())?;
            column.text(reader.bytes()?, zeros)
        }
        UNSIGNED if matches!(column.kind, Kind::Wide) => column.unsigned(reader.signed()? as u64),
        _ => None,
    }
}

const LONG: u8 = 2;
const FLOAT: u8 = 4;
const DOUBLE: u8 = 6;
const STRING: u8 = 8;
const BYTES: u8 = 10;
const TIMESTAMP: u8 = 12;
const UNSIGNED: u8 = 14;
