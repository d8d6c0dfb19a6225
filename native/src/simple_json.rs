//! Simple in JSON: one row in a message, its values as text. The columns' types come from schemas that were sent before.

use crate::column::{Column, Kind, Zeros};
use crate::image::{Member, full};
use crate::json::Cursor;
use crate::open::base64;
use crate::protocol::{Protocol, Shapes, Unread, utf8};
use crate::simple::{Header, is_on_clock};
use crate::table::{Head, Image, Op, Tables};
use crate::text;

/// Which columns an image has, in which order.
struct Layout {
    members: Vec<Member>,
    missing: Vec<i16>,
}

/// Rows of one physical table and version.
struct Known {
    /// `None` if its rows are left to Python.
    table: Option<usize>,
    partition: Option<i64>,
    layouts: Vec<Layout>,
}

pub struct SimpleJson {
    /// By names, id and version as they stand in a message.
    known: Shapes<[u8], Known>,
    zone: Vec<u8>,
    buffer: Vec<u8>,
    key: Vec<u8>,
}

const MOST_LAYOUTS: usize = 64;

impl SimpleJson {
    pub fn new(zone: &str) -> SimpleJson {
        let zone = zone.as_bytes().to_vec();
        SimpleJson { known: Shapes::new(), zone, buffer: Vec::new(), key: Vec::new() }
    }
}

impl Protocol for SimpleJson {
    fn stops(&self) -> bool {
        true
    }

    fn message(&mut self, _: Option<&[u8]>, value: Option<&[u8]>, pos: i32, tables: &mut Tables) -> Result<(), Unread> {
        let value = value.unwrap_or_default();
        utf8(value)?;
        let mut cursor = Cursor::new(value);
        let header = header(&mut cursor, &mut self.buffer, &mut self.key).ok_or(Unread::Left)?;
        let known = self.known.find(&self.key)?;
        let table = known.table.ok_or(Unread::Left)?;
        let mut reader = Reader { buffer: &mut self.buffer, zone: &self.zone };
        tables.message(pos, |tables| row(cursor, header, known, table, pos, tables, &mut reader).ok_or(Unread::Left))
    }

    fn learn(&mut self, table: usize, partition: Option<i64>, _: &Tables) -> bool {
        self.known.keep(Known { table: Some(table), partition, layouts: Vec::new() })
    }

    fn refuse(&mut self) {
        self.known.keep(Known { table: None, partition: None, layouts: Vec::new() });
    }

    fn forget(&mut self) {
        self.known.clear();
    }
}

/// What stands before the images; names, id and version go to `key`.
#[inline]
fn header(cursor: &mut Cursor, buffer: &mut Vec<u8>, key: &mut Vec<u8>) -> Option<Header> {
    cursor.expect(b"{\"version\":1")?;
    let start = cursor.at;
    cursor.expect(b",\"database\":")?;
    cursor.string(buffer)?;
    cursor.expect(b",\"table\":")?;
    cursor.string(buffer)?;
    cursor.expect(b",\"tableID\":")?;
    text::signed(cursor.integer()?).filter(|&id| id != 0)?;
    key.clear();
    key.extend_from_slice(&cursor.text[start..cursor.at]);
    cursor.expect(b",\"type\":\"")?;
    let op = if cursor.pass(b"INSERT") {
        Op::Insert
    } else if cursor.pass(b"UPDATE") {
        Op::Update
    } else {
        cursor.expect(b"DELETE")?;
        Op::Delete
    };
    cursor.expect(b"\",\"commitTs\":")?;
    let commit_ts = text::signed(cursor.integer()?).filter(|&ts| ts > 0)?;
    cursor.expect(b",\"buildTs\":")?;
    text::signed(cursor.integer()?)?;
    let start = cursor.at;
    cursor.expect(b",\"schemaVersion\":")?;
    text::unsigned(cursor.integer()?).filter(|&version| version != 0)?;
    key.extend_from_slice(&cursor.text[start..cursor.at]);
    let key_only = if cursor.pass(b",\"handleKeyOnly\":") { cursor.boolean()? } else { false };
    if cursor.pass(b",\"checksum\":{\"version\":") {
        text::unsigned(cursor.integer()?).filter(|&version| version < 1 << 31)?;
        cursor.expect(b",\"corrupted\":")?;
        cursor.boolean()?;
        for name in [b",\"current\":".as_slice(), b",\"previous\":"] {
            cursor.expect(name)?;
            text::unsigned(cursor.integer()?).filter(|&sum| sum < 1 << 32)?;
        }
        cursor.expect(b"}")?;
    }
    Some(Header { op, commit_ts, key_only })
}

struct Reader<'a> {
    buffer: &'a mut Vec<u8>,
    zone: &'a [u8],
}

#[inline]
fn row(
    mut cursor: Cursor,
    header: Header,
    known: &mut Known,
    table: usize,
    pos: i32,
    tables: &mut Tables,
    reader: &mut Reader,
) -> Option<()> {
    let Header { op, commit_ts, key_only } = header;
    let (table, zeros) = tables.begin(table, pos)?;
    let rows = table.len();
    if op != Op::Delete {
        cursor.expect(b",\"data\":")?;
        image(&mut cursor, known, &mut table.after, rows, zeros, reader)?;
    }
    if op != Op::Insert {
        cursor.expect(b",\"old\":")?;
        let layout = image(&mut cursor, known, &mut table.before, rows, zeros, reader)?;
        table.gaps.extend_from_slice(&layout.missing);
    }
    cursor.expect(b"}")?;
    if !cursor.is_at_end() {
        return None;
    }
    table.end(&Head { op, commit_ts: Some(commit_ts), pos, sub: 0, partition: known.partition, key_only });
    Some(())
}

/// An image in a layout that is known or new.
fn image<'a>(
    cursor: &mut Cursor,
    known: &'a mut Known,
    image: &mut Image,
    rows: usize,
    zeros: &mut Zeros,
    reader: &mut Reader,
) -> Option<&'a Layout> {
    for number in 0..known.layouts.len() {
        let (mut at, counted) = (*cursor, zeros.counted);
        if read(&mut at, &known.layouts[number], image, zeros, reader).is_some() {
            *cursor = at;
            known.layouts.swap(0, number);
            return known.layouts.first();
        }
        image.truncate(rows);
        zeros.counted = counted;
    }
    let layout = layout(*cursor, image, reader)?;
    if known.layouts.len() >= MOST_LAYOUTS || known.layouts.iter().any(|other| other.members == layout.members) {
        return None;
    }
    read(cursor, &layout, image, zeros, reader)?;
    known.layouts.push(layout);
    known.layouts.last()
}

#[inline]
fn read(cursor: &mut Cursor, layout: &Layout, image: &mut Image, zeros: &mut Zeros, reader: &mut Reader) -> Option<()> {
    let columns = image.columns();
    full(cursor, &layout.members, columns, |cursor, column, _| value(cursor, column, zeros, reader))?;
    for &number in &layout.missing {
        columns.get_mut(usize::try_from(number).ok()?)?.null();
    }
    Some(())
}

/// The layout of the image that stands here, whose columns all must be known.
fn layout(mut cursor: Cursor, image: &Image, reader: &mut Reader) -> Option<Layout> {
    let (mut members, mut missing): (Vec<Member>, Vec<bool>) = (Vec::new(), vec![true; image.width()]);
    cursor.members(reader.buffer, |cursor, start, name, buffer| {
        let column = image.number(&name)?;
        std::mem::replace(missing.get_mut(column)?, false).then_some(())?;
        members.push(Member { text: cursor.text[start..cursor.at].into(), column });
        match cursor.peek()? {
            b'n' => cursor.expect(b"null"),
            b'{' => cursor.members(&mut Vec::new(), |cursor, _, _, buffer| cursor.string(buffer).map(drop)),
            _ => cursor.string(buffer).map(drop),
        }
    })?;
    let missing = (0..).zip(missing).filter_map(|(number, missing)| missing.then_some(number)).collect();
    (!members.is_empty()).then_some(Layout { members, missing })
}

#[inline]
fn value(cursor: &mut Cursor, column: &mut Column, zeros: &mut Zeros, reader: &mut Reader) -> Option<()> {
    if cursor.pass(b"null") {
        column.null();
        return Some(());
    }
    match column.kind {
        Kind::Bytes => {
            let found = cursor.string(reader.buffer)?;
            let text = found.get(reader.buffer);
            column.filled(|bytes| base64(text, bytes))
        }
        Kind::Clock { utc: true } | Kind::Local if cursor.pass(b"{\"location\":") => {
            let found = cursor.string(reader.buffer)?;
            let zone = found.get(reader.buffer);
            is_on_clock(zone, reader.zone).then_some(())?;
            cursor.expect(b",\"value\":")?;
            let found = cursor.string(reader.buffer)?;
            column.text(found.get(reader.buffer), zeros)?;
            cursor.expect(b"}")
        }
        _ => {
            let found = cursor.string(reader.buffer)?;
            column.text(found.get(reader.buffer), zeros)
        }
    }
}
