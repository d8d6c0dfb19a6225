//! Craft: several rows in a message, each in one or two groups of columns, whose names are in the message's dictionary.
//!
//! What a group's columns are stands before its values, the same bytes in row after row. So it is compared and not read
//! again.

use crate::column::{Column, Kind, Zeros};
use crate::image::Bytes;
use crate::protocol::{Protocol, Unread, bounded, is_text, put};
use crate::reader::Reader;
use crate::table::{Head, Op, Tables};
use ahash::AHashMap;

/// How a value is written.
#[derive(Clone, Copy, PartialEq)]
enum Wire {
    Unsigned,
    Signed,
    Double,
    Text,
}

/// A column of a group.
#[derive(Clone, PartialEq)]
struct Described {
    /// The number of its name in the dictionary.
    term: i64,
    type_: u64,
    flags: u64,
}

/// Rows whose first groups describe the same columns.
struct Shape {
    /// The numbers of the schema's and the table's name.
    heading: (i64, i64),
    /// What stands before the lengths of the values.
    prefix: Bytes,
    columns: Vec<Described>,
    wires: Vec<Wire>,
    /// `None` if rows of this shape are left to Python.
    table: Option<usize>,
}

struct Unknown {
    dictionary: Bytes,
    shape: Shape,
}

/// What the header and the size tables say of an event.
struct Event {
    commit_ts: i64,
    partition: Option<i64>,
    heading: (i64, i64),
    /// The number of its groups.
    groups: usize,
}

/// Where everything is in a message. The lists are kept for the next message.
#[derive(Default)]
struct Layout {
    numbers: Vec<i64>,
    sizes: Vec<usize>,
    groups: Vec<usize>,
    events: Vec<Event>,
    /// The columns of an old row that is not whole.
    places: Vec<usize>,
}

#[derive(Default)]
pub struct Craft {
    /// By the bytes of the dictionary.
    known: AHashMap<Bytes, Vec<Shape>>,
    /// The bytes of all dictionaries together.
    size: usize,
    unknown: Option<Unknown>,
    layout: Layout,
}

const VERSION: u8 = 1;
const ROW: u64 = 1;
const NEW: u8 = 1;
const OLD: u8 = 2;
const MOST_BYTES: usize = 1 << 24;

impl Protocol for Craft {
    fn message(&mut self, _: Option<&[u8]>, value: Option<&[u8]>, pos: i32, tables: &mut Tables) -> Result<(), Unread> {
        let data = value.unwrap_or_default();
        let (start, dictionary) = self.layout.read(data).ok_or(Unread::Left)?;
        let known = self.known.get(dictionary).map_or(&[][..], Vec::as_slice);
        let Layout { groups, events, places, .. } = &mut self.layout;
        let (mut rest, mut sizes) = (data.get(start..).ok_or(Unread::Left)?, groups.as_slice());
        let unknown = &mut self.unknown;
        tables.message(pos, |tables| {
            for (sub, event) in (0..).zip(events.iter()) {
                let own = sizes.split_off(..event.groups).ok_or(Unread::Left)?;
                let mut next = |size: &usize| rest.split_off(..*size);
                let groups = match own {
                    [only] => next(only).map(|first| (first, None)),
                    [first, second] => next(first).zip(next(second)).map(|(first, second)| (first, Some(second))),
                    _ => None,
                };
                let (first, second) = groups.ok_or(Unread::Left)?;
                let shape =
                    known.iter().find(|known| known.heading == event.heading && first.starts_with(&known.prefix));
                let Some(shape) = shape else {
                    let shape = described(first, event.heading).ok_or(Unread::Left)?;
                    *unknown = Some(Unknown { dictionary: dictionary.into(), shape });
                    return Err(Unread::Unknown { sub: sub as usize });
                };
                row(first, second, shape, event, (pos, sub), tables, places).ok_or(Unread::Left)?;
            }
            Ok(())
        })
    }

    fn learn(&mut self, table: usize, _: Option<i64>, tables: &Tables) -> bool {
        let Some(mut unknown) = self.unknown.take() else { return false };
        let names = terms(&unknown.dictionary).and_then(|terms| {
            let name = |column: &Described| terms.get(usize::try_from(column.term).ok()?).map(|name| name.to_vec());
            unknown.shape.columns.iter().map(name).collect::<Option<Vec<_>>>()
        });
        let known = names.is_some_and(|names| tables.all.get(table).is_some_and(|table| table.has(&names)));
        unknown.shape.table = known.then_some(table);
        self.keep(unknown);
        known
    }

    fn refuse(&mut self) {
        if let Some(unknown) = self.unknown.take() {
            self.keep(unknown);
        }
    }
}

impl Craft {
    fn keep(&mut self, Unknown { dictionary, shape }: Unknown) {
        if self.size >= MOST_BYTES {
            self.known.clear();
        }
        bounded(&mut self.known);
        if self.known.is_empty() {
            self.size = 0;
        }
        self.size += dictionary.len() + shape.prefix.len();
        put(self.known.entry(dictionary).or_default(), shape);
    }
}

impl Layout {
    /// The sections of a message that holds rows: where the events begin, and the dictionary.
    fn read<'a>(&mut self, data: &'a [u8]) -> Option<(usize, &'a [u8])> {
        let Layout { numbers, sizes, groups, events, .. } = self;
        let (&version, sections) = data.split_first()?;
        let (length, end) = trailing_length(sections)?;
        let (sections, size_tables) = sections.get(..end)?.split_at(end.checked_sub(length)?);
        let mut reader = Reader { data: size_tables, at: 0 };
        sizes.clear();
        read_sizes(&mut reader, sizes)?;
        let &[header_size, dictionary_size] = sizes.as_slice() else { return None };
        sizes.clear();
        read_sizes(&mut reader, sizes)?;
        let (header, rest) = sections.split_at_checked(header_size)?;
        let (bodies, dictionary) = rest.split_at_checked(rest.len().checked_sub(dictionary_size)?)?;
        (version == VERSION && sum(sizes)? == bodies.len()).then_some(())?;
        groups.clear();
        events.clear();
        for &size in sizes.iter() {
            let known = groups.len();
            read_sizes(&mut reader, groups)?;
            (sum(&groups[known..])? == size).then_some(())?;
            events.push(Event { commit_ts: 0, partition: None, heading: (0, 0), groups: groups.len() - known });
        }
        reader.is_at_end().then_some(())?;
        read_header(header, events, numbers)?;
        Some((1 + header_size, dictionary))
    }
}

/// The number that the message ends with, which is written backwards, and where it begins.
fn trailing_length(data: &[u8]) -> Option<(usize, usize)> {
    let mut backwards = [0; 10];
    for (to, &from) in backwards.iter_mut().zip(data.iter().rev()) {
        *to = from;
    }
    let mut reader = Reader { data: backwards.get(..data.len().min(10))?, at: 0 };
    let length = usize::try_from(reader.unsigned()?).ok()?;
    Some((length, data.len() - reader.at))
}

/// Sizes behind their count, each as the difference to the one before.
fn read_sizes(reader: &mut Reader, sizes: &mut Vec<usize>) -> Option<()> {
    let mut last = 0i64;
    let count = reader.unsigned()?;
    for _ in 0..count {
        last = last.checked_add(reader.signed()?)?;
        sizes.push(usize::try_from(last).ok()?);
    }
    (count > 0).then_some(())
}

fn sum(sizes: &[usize]) -> Option<usize> {
    sizes.iter().try_fold(0usize, |sum, &size| sum.checked_add(size))
}

/// Commit ts, kind, partition, schema and table of all events, one list behind the other.
fn read_header(header: &[u8], events: &mut [Event], numbers: &mut Vec<i64>) -> Option<()> {
    let mut reader = Reader { data: header, at: 0 };
    let mut last = 0u64;
    for event in events.iter_mut() {
        last = last.wrapping_add(reader.unsigned()?);
        event.commit_ts = i64::try_from(last).ok()?;
    }
    for _ in events.iter() {
        (reader.unsigned()? == ROW).then_some(())?;
    }
    numbers.clear();
    for _ in 0..3 {
        let mut last = 0i64;
        for _ in events.iter() {
            last = last.wrapping_add(reader.signed()?);
            numbers.push(last);
        }
    }
    let (partitions, terms) = numbers.split_at(events.len());
    let (schemas, names) = terms.split_at(events.len());
    for (((event, &partition), &schema), &name) in events.iter_mut().zip(partitions).zip(schemas).zip(names) {
        event.partition = if partition == -1 { None } else { Some(u64::try_from(partition).ok()? as i64) };
        event.heading = (schema, name);
    }
    reader.is_at_end().then_some(())
}

/// The names of a dictionary.
fn terms(dictionary: &[u8]) -> Option<Vec<&[u8]>> {
    let mut reader = Reader { data: dictionary, at: 0 };
    let mut lengths = Vec::new();
    for _ in 0..reader.unsigned()? {
        lengths.push(usize::try_from(reader.unsigned()?).ok()?);
    }
    lengths.into_iter().map(|length| reader.take(length)).collect()
}

/// The shape of a row whose first group this is.
fn described(group: &[u8], heading: (i64, i64)) -> Option<Shape> {
    let mut reader = Reader { data: group, at: 1 };
    let mut columns = Vec::new();
    let count = reader.unsigned()?;
    let mut term = 0i64;
    for _ in 0..count {
        term = term.wrapping_add(reader.signed()?);
        columns.push(Described { term, type_: 0, flags: 0 });
    }
    for column in &mut columns {
        column.type_ = reader.unsigned()?;
    }
    for column in &mut columns {
        column.flags = reader.unsigned()?;
    }
    let wires = columns.iter().map(wire).collect::<Option<Vec<_>>>()?;
    let known = matches!(*group.first()?, NEW | OLD) && count > 0;
    known.then(|| Shape { heading, prefix: group[..reader.at].into(), columns, wires, table: None })
}

const UNSIGNED: u64 = 0x80;

/// How values of TiDB's types are written.
fn wire(column: &Described) -> Option<Wire> {
    Some(match column.type_ {
        1..=3 | 8 | 9 if column.flags & UNSIGNED == 0 => Wire::Signed,
        1..=3 | 8 | 9 => Wire::Unsigned,
        4 | 5 => Wire::Double,
        // A YEAR is signed, although TiDB flags it as unsigned.
        13 => Wire::Signed,
        16 | 247 | 248 => Wire::Unsigned,
        7 | 10..=12 | 14 | 15 | 225 | 245 | 246 | 249..=254 => Wire::Text,
        _ => return None,
    })
}

#[inline]
fn row(
    first: &[u8],
    second: Option<&[u8]>,
    shape: &Shape,
    event: &Event,
    (pos, sub): (i32, i32),
    tables: &mut Tables,
    places: &mut Vec<usize>,
) -> Option<()> {
    let (table, zeros) = tables.begin(shape.table?, pos)?;
    let op = match (*first.first()?, second.map(<[u8]>::first)) {
        (NEW, None) => Op::Insert,
        (NEW, Some(Some(&OLD))) => Op::Update,
        (OLD, None) => Op::Delete,
        _ => return None,
    };
    let image = if op == Op::Delete { &mut table.before } else { &mut table.after };
    whole(first.get(shape.prefix.len()..)?, shape, image.columns(), zeros)?;
    if let Some(old) = second {
        let (described, columns) = (&shape.prefix[1..], table.before.columns());
        match old[1..].strip_prefix(described) {
            Some(values) => whole(values, shape, columns, zeros)?,
            None => partial(&old[1..], shape, columns, zeros, places, &mut table.gaps)?,
        }
    }
    let Event { commit_ts, partition, .. } = *event;
    table.end(&Head { op, commit_ts: Some(commit_ts), pos, sub, partition, key_only: false });
    Some(())
}

/// Read a row that has all columns.
#[inline]
fn whole(data: &[u8], shape: &Shape, columns: &mut [Column], zeros: &mut Zeros) -> Option<()> {
    let (mut lengths, mut values) = cells(data, shape.wires.len())?;
    for (column, &wire) in columns.iter_mut().zip(&shape.wires) {
        cell(&mut lengths, &mut values, wire, column, zeros)?;
    }
    values.is_empty().then_some(())
}

/// Read a row that may leave out columns; their numbers go to `gaps`. The others are those of the shape, in its order.
fn partial(
    data: &[u8],
    shape: &Shape,
    columns: &mut [Column],
    zeros: &mut Zeros,
    places: &mut Vec<usize>,
    gaps: &mut Vec<i16>,
) -> Option<()> {
    let mut reader = Reader { data, at: 0 };
    let count = reader.unsigned()?;
    let (mut term, mut next) = (0i64, 0);
    places.clear();
    for _ in 0..count {
        term = term.wrapping_add(reader.signed()?);
        next += shape.columns.get(next..)?.iter().position(|column| column.term == term)? + 1;
        places.push(next - 1);
    }
    for &place in places.iter() {
        (shape.columns[place].type_ == reader.unsigned()?).then_some(())?;
    }
    for &place in places.iter() {
        (shape.columns[place].flags == reader.unsigned()?).then_some(())?;
    }
    let (mut lengths, mut values) = cells(data.get(reader.at..)?, places.len())?;
    let mut there = places.iter().peekable();
    for (number, (column, &wire)) in columns.iter_mut().zip(&shape.wires).enumerate() {
        if there.next_if(|&&place| place == number).is_some() {
            cell(&mut lengths, &mut values, wire, column, zeros)?;
        } else {
            column.null();
            gaps.push(i16::try_from(number).ok()?);
        }
    }
    (count > 0 && values.is_empty()).then_some(())
}

/// The lengths of so many values, and the values.
#[inline]
fn cells(data: &[u8], count: usize) -> Option<(Reader<'_>, &[u8])> {
    let end = if data.get(..count)?.is_ascii() {
        count
    } else {
        let last = data.iter().enumerate().filter(|(_, byte)| byte.is_ascii()).nth(count.checked_sub(1)?)?;
        last.0 + 1
    };
    let (lengths, values) = data.split_at(end);
    Some((Reader { data: lengths, at: 0 }, values))
}

#[inline]
fn cell(lengths: &mut Reader, values: &mut &[u8], wire: Wire, column: &mut Column, zeros: &mut Zeros) -> Option<()> {
    let length = lengths.signed()?;
    if length == -1 {
        column.null();
        return Some(());
    }
    let value = values.split_off(..usize::try_from(length).ok()?)?;
    match wire {
        Wire::Unsigned => column.integer(integer(value)?),
        Wire::Signed => {
            let number = integer(value)?;
            column.signed((number >> 1) as i64 ^ -((number & 1) as i64))
        }
        Wire::Double => column.float(f64::from_le_bytes(value.try_into().ok()?)),
        Wire::Text => match column.kind {
            Kind::Bytes => column.bytes(value),
            Kind::Text if is_text(value) => column.bytes(value),
            Kind::Text => None,
            _ => column.text(value, zeros),
        },
    }
}

/// An integer that fills its bytes.
#[inline]
fn integer(value: &[u8]) -> Option<u64> {
    if let [byte @ ..0x80] = *value {
        return Some(u64::from(byte));
    }
    let mut reader = Reader { data: value, at: 0 };
    let number = reader.unsigned()?;
    reader.is_at_end().then_some(number)
}
