//! Canal-JSON: one row in a message.
//!
//! What stands before `es` tells table, key and kind; `mysqlType` tells the columns. Both are the same bytes for all
//! rows of a shape, so they are compared and not read again.

use crate::column::{Column, Kind, Zeros};
use crate::image::{Bytes, Member, full, partial};
use crate::json::Cursor;
use crate::protocol::{Protocol, Unread, bounded, put, utf8};
use crate::table::{Head, Op, Tables};
use ahash::{AHashMap, AHashSet};
use memchr::memmem::Finder;

/// Rows with the same columns.
struct Shape {
    /// `None` if rows of this shape are left to Python.
    table: Option<usize>,
    /// The last `sqlType` seen, which depends on the values of unsigned columns.
    sql_types: Bytes,
    types: Types,
    names: Vec<Member>,
}

/// The members of `mysqlType`, whose order may be another one in each message.
struct Types {
    text: Bytes,
    members: AHashMap<Bytes, usize>,
    /// For each member the number of the last message that had it.
    seen: Vec<u64>,
    message: u64,
}

impl Types {
    /// The types of a message; `cursor` is behind them afterwards.
    fn of(cursor: &mut Cursor, buffer: &mut Vec<u8>) -> Option<Types> {
        let start = cursor.at;
        let (mut members, mut names) = (AHashMap::new(), AHashSet::new());
        cursor.members(buffer, |cursor, start, name, buffer| {
            cursor.string(buffer)?;
            members.insert(cursor.text[start..cursor.at].into(), members.len());
            names.insert(name).then_some(())
        })?;
        let seen = vec![0; members.len()];
        Some(Types { text: cursor.text[start..cursor.at].into(), members, seen, message: 0 })
    }

    /// Pass these types, in any order.
    fn pass(&mut self, cursor: &mut Cursor, buffer: &mut Vec<u8>) -> Option<()> {
        if cursor.pass(&self.text) {
            return Some(());
        }
        self.message += 1;
        let mut count = 0;
        each_type(cursor, buffer, |member| {
            let seen = &mut self.seen[*self.members.get(member)?];
            count += 1;
            (std::mem::replace(seen, self.message) != self.message).then_some(())
        })?;
        (count == self.members.len()).then_some(())
    }
}

/// Each member of `mysqlType` as it stands there.
#[inline]
fn each_type<'a>(
    cursor: &mut Cursor<'a>,
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(&'a [u8]) -> Option<()>,
) -> Option<()> {
    cursor.expect(b"{")?;
    loop {
        let start = cursor.at;
        cursor.string(buffer)?;
        cursor.expect(b":")?;
        cursor.string(buffer)?;
        each(&cursor.text[start..cursor.at])?;
        if !cursor.pass(b",") {
            return cursor.expect(b"}");
        }
    }
}

pub struct Canal {
    border: Finder<'static>,
    shapes: AHashMap<Bytes, (Op, Vec<Shape>)>,
    unknown: Option<(Bytes, Op, Shape, Vec<Vec<u8>>)>,
    buffer: Vec<u8>,
}

impl Canal {
    pub fn new() -> Canal {
        Canal { border: Finder::new(b",\"es\":"), shapes: AHashMap::new(), unknown: None, buffer: Vec::new() }
    }

    fn keep(&mut self, head: Bytes, op: Op, shape: Shape) {
        bounded(&mut self.shapes);
        put(&mut self.shapes.entry(head).or_insert((op, Vec::new())).1, shape);
    }
}

impl Protocol for Canal {
    fn message(&mut self, _: Option<&[u8]>, value: Option<&[u8]>, pos: i32, tables: &mut Tables) -> Result<(), Unread> {
        let value = value.unwrap_or_default();
        utf8(value)?;
        let border = self.border.find(value).ok_or(Unread::Left)?;
        let head = &value[..border];
        let mut cursor = Cursor { text: value, at: border };
        times(&mut cursor).ok_or(Unread::Left)?;
        cursor.expect(b",\"sql\":\"\",\"sqlType\":").ok_or(Unread::Left)?;
        if let Some((op, shapes)) = self.shapes.get_mut(head) {
            let at = cursor;
            for number in 0..shapes.len() {
                let shape = &mut shapes[number];
                let mut cursor = at;
                if types(&mut cursor, shape, &mut self.buffer).is_none() {
                    continue;
                }
                let Some(table) = shape.table else {
                    if names(cursor, &mut self.buffer).is_some_and(|(raw, _)| raw == shape.names) {
                        return Err(Unread::Left);
                    }
                    continue;
                };
                let read = |tables: &mut Tables| {
                    row(cursor, *op, &shape.names, table, pos, tables, &mut self.buffer).ok_or(())
                };
                if tables.message(pos, read).is_ok() {
                    shapes.swap(0, number);
                    return Ok(());
                }
                if names(cursor, &mut self.buffer).is_some_and(|(raw, _)| raw == shape.names) {
                    return Err(Unread::Left);
                }
            }
        }
        self.unknown = unknown(head, cursor, &mut self.buffer);
        Err(if self.unknown.is_some() { Unread::Unknown { sub: 0 } } else { Unread::Left })
    }

    fn learn(&mut self, table: usize, _: Option<i64>, tables: &Tables) -> bool {
        let Some((head, op, mut shape, names)) = self.unknown.take() else {
            return false;
        };
        let known = tables.all.get(table).is_some_and(|table| table.has(&names));
        shape.table = known.then_some(table);
        self.keep(head, op, shape);
        known
    }

    fn refuse(&mut self) {
        if let Some((head, op, shape, _)) = self.unknown.take() {
            self.keep(head, op, shape);
        }
    }
}

fn times(cursor: &mut Cursor) -> Option<()> {
    for name in [b",\"es\":", b",\"ts\":"] {
        cursor.expect(name)?;
        if cursor.integer()?.starts_with(b"-") {
            return None;
        }
    }
    Some(())
}

/// Pass the types of a shape, if they are here.
#[inline]
fn types(cursor: &mut Cursor, shape: &mut Shape, buffer: &mut Vec<u8>) -> Option<()> {
    if !cursor.pass(&shape.sql_types) {
        let start = cursor.at;
        sql_types(cursor, buffer)?;
        shape.sql_types = cursor.text[start..cursor.at].into();
    }
    cursor.expect(MYSQL_TYPE)?;
    shape.types.pass(cursor, buffer)
}

const MYSQL_TYPE: &[u8] = b",\"mysqlType\":";

fn sql_types(cursor: &mut Cursor, buffer: &mut Vec<u8>) -> Option<()> {
    cursor.expect(b"{")?;
    loop {
        cursor.string(buffer)?;
        cursor.expect(b":")?;
        cursor.integer()?;
        if !cursor.pass(b",") {
            return cursor.expect(b"}");
        }
    }
}

/// A row, from behind the types.
#[inline]
fn row(
    mut cursor: Cursor,
    op: Op,
    names: &[Member],
    table: usize,
    pos: i32,
    tables: &mut Tables,
    buffer: &mut Vec<u8>,
) -> Option<()> {
    let (table, zeros) = tables.begin(table, pos)?;
    let mut read = |cursor: &mut Cursor, column: &mut Column, _| value(cursor, column, zeros, buffer);
    cursor.expect(b",\"old\":")?;
    if op == Op::Update {
        cursor.expect(b"[")?;
        partial(&mut cursor, names, table.before.columns(), &mut table.gaps, &mut read)?;
        cursor.expect(b"],\"data\":[")?;
    } else {
        cursor.expect(b"null,\"data\":[")?;
    }
    let image = if op == Op::Delete { &mut table.before } else { &mut table.after };
    full(&mut cursor, names, image.columns(), &mut read)?;
    cursor.expect(b"]")?;
    let (commit_ts, key_only) = extension(&mut cursor)?;
    cursor.expect(b"}")?;
    if !cursor.is_at_end() {
        return None;
    }
    table.end(&Head { op, commit_ts, pos, sub: 0, partition: None, key_only });
    Some(())
}

#[inline]
fn value(cursor: &mut Cursor, column: &mut Column, zeros: &mut Zeros, buffer: &mut Vec<u8>) -> Option<()> {
    if cursor.pass(b"null") {
        column.null();
        return Some(());
    }
    let found = cursor.string(buffer)?;
    let text = found.get(buffer);
    if matches!(column.kind, Kind::Bytes) {
        column.filled(|bytes| latin1(text, bytes))
    } else {
        column.text(text, zeros)
    }
}

/// Bytes as characters of the same number.
fn latin1(text: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    let text = std::str::from_utf8(text).ok()?;
    for character in text.chars() {
        bytes.push(u8::try_from(u32::from(character)).ok()?);
    }
    Some(())
}

/// TiDB's members: the commit ts, and whether there are only the handle key's columns.
fn extension(cursor: &mut Cursor) -> Option<(Option<i64>, bool)> {
    let (mut commit_ts, mut key_only) = (None, None);
    if !cursor.pass(b",\"_tidb\":{") {
        return Some((None, false));
    }
    loop {
        if commit_ts.is_none() && cursor.pass(b"\"commitTs\":") {
            commit_ts = Some(crate::text::signed(cursor.integer()?).filter(|&ts| ts > 0)?);
        } else if key_only.is_none() && cursor.pass(b"\"onlyHandleKey\":") {
            key_only = Some(cursor.boolean()?);
        } else {
            return None;
        }
        if !cursor.pass(b",") {
            cursor.expect(b"}")?;
            return Some((commit_ts, key_only == Some(true)));
        }
    }
}

/// The names of the columns in `data`, as they stand there up to the value, and their values.
fn names(mut cursor: Cursor, buffer: &mut Vec<u8>) -> Option<(Vec<Member>, Vec<Vec<u8>>)> {
    let (mut raw, mut names) = (Vec::new(), Vec::new());
    let mut texts = |cursor: &mut Cursor, buffer: &mut Vec<u8>, keep: bool| {
        cursor.members(buffer, |cursor, start, name, buffer| {
            if keep {
                raw.push(Member { text: cursor.text[start..cursor.at].into(), column: names.len() });
                names.push(name);
            }
            if cursor.pass(b"null") { Some(()) } else { cursor.string(buffer).map(|_| ()) }
        })
    };
    cursor.expect(b",\"old\":")?;
    if cursor.pass(b"[") {
        texts(&mut cursor, buffer, false)?;
        cursor.expect(b"]")?;
    } else {
        cursor.expect(b"null")?;
    }
    cursor.expect(b",\"data\":[")?;
    texts(&mut cursor, buffer, true)?;
    cursor.expect(b"]")?;
    Some((raw, names))
}

/// The shape of a row that has none yet; `cursor` is at `sqlType`.
fn unknown(head: &[u8], mut cursor: Cursor, buffer: &mut Vec<u8>) -> Option<(Bytes, Op, Shape, Vec<Vec<u8>>)> {
    let op = op(head, buffer)?;
    let start = cursor.at;
    sql_types(&mut cursor, buffer)?;
    let sql_types = cursor.text[start..cursor.at].into();
    cursor.expect(MYSQL_TYPE)?;
    let types = Types::of(&mut cursor, buffer)?;
    let (raw, names) = names(cursor, buffer)?;
    if names.is_empty() {
        return None;
    }
    Some((head.into(), op, Shape { table: None, sql_types, types, names: raw }, names))
}

/// What a message with this head did, if the head is as TiCDC writes it.
fn op(head: &[u8], buffer: &mut Vec<u8>) -> Option<Op> {
    let mut cursor = Cursor::new(head);
    cursor.expect(b"{\"id\":")?;
    cursor.integer()?;
    cursor.expect(b",\"database\":")?;
    cursor.string(buffer)?;
    cursor.expect(b",\"table\":")?;
    cursor.string(buffer)?;
    cursor.expect(b",\"pkNames\":[")?;
    if !cursor.pass(b"]") {
        loop {
            cursor.string(buffer)?;
            if !cursor.pass(b",") {
                break;
            }
        }
        cursor.expect(b"]")?;
    }
    cursor.expect(b",\"isDdl\":false,\"type\":")?;
    Some(match cursor.rest() {
        b"\"INSERT\"" => Op::Insert,
        b"\"UPDATE\"" => Op::Update,
        b"\"DELETE\"" => Op::Delete,
        _ => return None,
    })
}
