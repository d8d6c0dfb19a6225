//! Open Protocol: several rows in a message, each with its types and flags.

use crate::column::{Column, Kind, Zeros};
use crate::image::{Bytes, Member, full, partial};
use crate::json::Cursor;
use crate::protocol::{Protocol, Unread, bounded, put, utf8};
use crate::table::{Head, Op, Tables};
use crate::text;
use ahash::AHashMap;

/// Rows with the same columns, types and flags.
struct Shape {
    /// `None` if rows of this shape are left to Python.
    table: Option<usize>,
    members: Vec<Member>,
    /// Whether the values of each column are in Base64.
    packed: Vec<bool>,
}

struct Unknown {
    name: Bytes,
    shape: Shape,
    columns: Vec<Vec<u8>>,
}

/// The key of an event, as far as it says something about a row. The names are as they stand in the key.
#[derive(Clone, Default)]
struct Key {
    ts: i64,
    name: Bytes,
    partition: Option<i64>,
    key_only: bool,
}

#[derive(Default)]
pub struct Open {
    shapes: AHashMap<Bytes, Vec<Shape>>,
    last_key: (Vec<u8>, Key),
    unknown: Option<Unknown>,
    buffer: Vec<u8>,
    packed: Vec<u8>,
}

const VERSION: &[u8] = &[0, 0, 0, 0, 0, 0, 0, 1];

impl Protocol for Open {
    fn message(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        pos: i32,
        tables: &mut Tables,
    ) -> Result<(), Unread> {
        let value = value.unwrap_or_default();
        let key = key.unwrap_or_default();
        let mut keys = key.strip_prefix(VERSION).ok_or(Unread::Left)?;
        let mut values = value;
        tables.message(pos, |tables| {
            let mut sub = 0;
            while !keys.is_empty() {
                let key = frame(&mut keys).ok_or(Unread::Left)?;
                let value = frame(&mut values).ok_or(Unread::Left)?;
                utf8(key)?;
                utf8(value)?;
                self.row(key, value, pos, sub, tables)?;
                sub += 1;
            }
            if values.is_empty() && sub > 0 { Ok(()) } else { Err(Unread::Left) }
        })
    }

    fn learn(&mut self, table: usize, _: Option<i64>, tables: &Tables) -> bool {
        let Some(mut unknown) = self.unknown.take() else { return false };
        let known = tables.all.get(table).is_some_and(|table| table.has(&unknown.columns));
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

/// The next payload behind its length.
fn frame<'a>(data: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = data.split_first_chunk::<8>()?;
    let (payload, rest) = rest.split_at_checked(usize::try_from(u64::from_be_bytes(*length)).ok()?)?;
    *data = rest;
    Some(payload)
}

impl Open {
    fn keep(&mut self, unknown: Unknown) {
        bounded(&mut self.shapes);
        put(self.shapes.entry(unknown.name).or_default(), unknown.shape);
    }

    fn row(&mut self, key: &[u8], value: &[u8], pos: i32, sub: usize, tables: &mut Tables) -> Result<(), Unread> {
        if self.last_key.0 != key || key.is_empty() {
            let read = read_key(key, &mut self.buffer).ok_or(Unread::Left)?;
            self.last_key = (key.to_vec(), read);
        }
        let key = &self.last_key.1;
        let cursor = Cursor::new(value);
        let shapes = self.shapes.get_mut(&key.name);
        if let Some(shapes) = shapes {
            for number in 0..shapes.len() {
                let Some(table) = shapes[number].table else { continue };
                let scratch = (&mut self.buffer, &mut self.packed);
                if row(cursor, key, &shapes[number], table, (pos, sub as i32), tables, scratch).is_some() {
                    shapes.swap(0, number);
                    return Ok(());
                }
                tables.discard(table);
            }
        }
        let (shape, columns) = described(cursor, &mut self.buffer).ok_or(Unread::Left)?;
        let same =
            |known: &Shape| known.members.iter().map(|member| &member.text).eq(shape.members.iter().map(|m| &m.text));
        if self.shapes.get(&key.name).is_some_and(|shapes| shapes.iter().any(same)) {
            return Err(Unread::Left);
        }
        self.unknown = Some(Unknown { name: key.name.clone(), shape, columns });
        Err(Unread::Unknown { sub })
    }
}

fn read_key(text: &[u8], buffer: &mut Vec<u8>) -> Option<Key> {
    let mut cursor = Cursor::new(text);
    cursor.expect(b"{\"ts\":")?;
    let ts = text::signed(cursor.integer()?).filter(|&ts| ts > 0)?;
    let start = cursor.at;
    cursor.expect(b",\"scm\":")?;
    cursor.string(buffer)?;
    cursor.expect(b",\"tbl\":")?;
    cursor.string(buffer)?;
    let name = text[start..cursor.at].into();
    if cursor.pass(b",\"rid\":") {
        text::signed(cursor.integer()?).filter(|&number| number != 0)?;
    }
    cursor.expect(b",\"t\":1")?;
    let mut key = Key { ts, name, partition: None, key_only: false };
    if cursor.pass(b",\"ohk\":") {
        key.key_only = cursor.boolean()?;
    }
    if cursor.pass(b",\"ptn\":") {
        key.partition = Some(text::signed(cursor.integer()?).filter(|&number| number > 0)?);
    }
    cursor.expect(b"}")?;
    cursor.is_at_end().then_some(key)
}

#[inline]
fn row(
    mut cursor: Cursor,
    key: &Key,
    shape: &Shape,
    table: usize,
    (pos, sub): (i32, i32),
    tables: &mut Tables,
    (buffer, packed): (&mut Vec<u8>, &mut Vec<u8>),
) -> Option<()> {
    let (table, zeros) = tables.begin(table, pos)?;
    let mut value = |cursor: &mut Cursor, column: &mut Column, number: usize| {
        read(cursor, column, shape.packed.get(number) == Some(&true), zeros, buffer, packed)
    };
    let op = if cursor.pass(b"{\"d\":") {
        full(&mut cursor, &shape.members, table.before.columns(), &mut value)?;
        Op::Delete
    } else {
        cursor.expect(b"{\"u\":")?;
        full(&mut cursor, &shape.members, table.after.columns(), &mut value)?;
        if cursor.pass(b",\"p\":") {
            partial(&mut cursor, &shape.members, table.before.columns(), &mut table.gaps, &mut value)?;
            Op::Update
        } else {
            Op::Insert
        }
    };
    cursor.expect(b"}")?;
    if !cursor.is_at_end() {
        return None;
    }
    table.end(&Head { op, commit_ts: Some(key.ts), pos, sub, partition: key.partition, key_only: key.key_only });
    Some(())
}

/// A value and the brace behind it.
#[inline]
fn read(
    cursor: &mut Cursor,
    column: &mut Column,
    is_packed: bool,
    zeros: &mut Zeros,
    buffer: &mut Vec<u8>,
    packed: &mut Vec<u8>,
) -> Option<()> {
    if cursor.pass(b"null") {
        column.null();
        return cursor.expect(b"}");
    }
    match column.kind {
        Kind::Int32 { .. } | Kind::Int64 { .. } | Kind::Wide | Kind::Bits => {
            let digits = cursor.integer()?;
            if digits == b"-0" {
                return None; // Python reads it as a floating-point number.
            }
            column.text(digits, zeros)?;
        }
        Kind::Float | Kind::Double => column.float(text::float(cursor.number()?)?)?,
        Kind::Enum { .. } | Kind::Set { .. } => return None,
        Kind::Text if is_packed => {
            packed.clear();
            base64(cursor.string(buffer)?.get(buffer), packed)?;
            utf8(packed).ok()?;
            column.bytes(packed)?;
        }
        Kind::Bytes => {
            let found = cursor.string(buffer)?;
            let text = found.get(buffer);
            column.filled(|bytes| if is_packed { base64(text, bytes) } else { unquote(text, bytes) })?;
        }
        _ => {
            let found = cursor.string(buffer)?;
            column.text(found.get(buffer), zeros)?;
        }
    }
    cursor.expect(b"}")
}

/// The shape of a row, and the names of its columns.
fn described(mut cursor: Cursor, buffer: &mut Vec<u8>) -> Option<(Shape, Vec<Vec<u8>>)> {
    let mut shape = Shape { table: None, members: Vec::new(), packed: Vec::new() };
    let mut names = Vec::new();
    if !cursor.pass(b"{\"u\":") {
        cursor.expect(b"{\"d\":")?;
    }
    cursor.members(buffer, |cursor, start, name, buffer| {
        cursor.expect(b"{\"t\":")?;
        let type_ = text::unsigned(cursor.integer()?)?;
        if cursor.pass(b",\"h\":") {
            cursor.boolean()?;
        }
        cursor.expect(b",\"f\":")?;
        cursor.integer()?;
        cursor.expect(b",\"v\":")?;
        shape.members.push(Member { text: cursor.text[start..cursor.at].into(), column: names.len() });
        shape.packed.push(BLOBS.contains(&type_));
        names.push(name);
        match cursor.peek()? {
            b'"' => cursor.string(buffer).map(|_| ())?,
            b'n' => cursor.expect(b"null")?,
            _ => cursor.number().map(|_| ())?,
        }
        cursor.expect(b"}")
    })?;
    (!names.is_empty()).then_some((shape, names))
}

/// TiDB's type bytes of TINYBLOB, MEDIUMBLOB, LONGBLOB and BLOB.
const BLOBS: std::ops::RangeInclusive<u64> = 249..=252;

/// Bytes in Base64, with padding.
pub fn base64(text: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    let (quads, rest) = text.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    let Some((last, quads)) = quads.split_last() else { return Some(()) };
    bytes.reserve(text.len() / 4 * 3);
    for quad in quads {
        let [a, b, c, d] = quad.map(|byte| SIXES[usize::from(byte)]);
        if (a | b | c | d) & 0xc0 != 0 {
            return None;
        }
        bytes.extend_from_slice(&[a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d]);
    }
    let padding = last.iter().rev().take_while(|&&byte| byte == b'=').count();
    let mut sixes = last.map(|byte| SIXES[usize::from(byte)]);
    if padding > 2 {
        return None;
    }
    sixes[4 - padding..].fill(0);
    let [a, b, c, d] = sixes;
    let found = [a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d];
    if (a | b | c | d) & 0xc0 != 0 || found[3 - padding..].iter().any(|&byte| byte != 0) {
        return None;
    }
    bytes.extend_from_slice(&found[..3 - padding]);
    Some(())
}

/// The six bits of each character of Base64; 255 for others.
const SIXES: [u8; 256] = {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut table = [255; 256];
    let mut number = 0;
    while number < letters.len() {
        table[letters[number] as usize] = number as u8;
        number += 1;
    }
    table
};

/// Bytes as Go's `strconv.Quote` prints them, without the outer quotes.
fn unquote(text: &[u8], bytes: &mut Vec<u8>) -> Option<()> {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        bytes.extend_from_slice(&rest[..at]);
        let letter = *rest.get(at + 1)?;
        rest = &rest[at + 2..];
        let simple = match letter {
            b'a' => 7,
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'\\' | b'"' | b'\'' => letter,
            b'x' => {
                let (digits, behind) = rest.split_at_checked(2)?;
                rest = behind;
                u8::try_from(hex(digits)?).ok()?
            }
            b'u' | b'U' => {
                let (digits, behind) = rest.split_at_checked(if letter == b'u' { 4 } else { 8 })?;
                rest = behind;
                let character = char::from_u32(hex(digits)?)?;
                bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        bytes.push(simple);
    }
    bytes.extend_from_slice(rest);
    Some(())
}

fn hex(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0u32, |code, &digit| code.checked_mul(16)?.checked_add((digit as char).to_digit(16)?))
}
