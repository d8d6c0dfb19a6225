//! What the kernel asks of a protocol.

use crate::avro::FieldSpec;
use crate::table::Tables;
use ahash::AHashMap;
use std::hash::Hash;

/// Why a message was not read.
#[derive(Debug, PartialEq)]
pub enum Unread {
    /// It is Python's.
    Left,
    /// The event of this number is a row whose shape is not known: Python may teach it.
    Unknown { sub: usize },
}

/// Reads the rows of messages whose shapes Python taught it.
pub trait Protocol: Send + Sync {
    /// Do messages that are left change what the messages behind them mean? Then Python reads each at once.
    fn stops(&self) -> bool {
        false
    }

    /// Put all rows of a message into tables, or none.
    fn message(
        &mut self,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        pos: i32,
        tables: &mut Tables,
    ) -> Result<(), Unread>;

    /// Rows of the shape that was unknown are those of a table, of a partition if the protocol does not say it. False, and rows of this shape are left to Python, if
    /// the table does not have the columns of the row.
    fn learn(&mut self, table: usize, partition: Option<i64>, tables: &Tables) -> bool;

    /// The fields of key and value, for a protocol whose messages do not say them. False if a type is not known.
    fn describe(&mut self, key: Vec<FieldSpec>, value: Vec<FieldSpec>) -> bool {
        let _ = (key, value);
        false
    }

    /// Rows of the shape that was unknown are left to Python from now on.
    fn refuse(&mut self);

    /// Shapes may have come to mean something else: they have to be learnt again.
    fn forget(&mut self) {}
}

const KEPT: usize = 4096;

/// Forget everything if it has become too much: it can be learnt again.
pub fn bounded<K: Eq + Hash, V>(known: &mut AHashMap<K, V>) {
    if known.len() >= KEPT {
        known.clear();
    }
}

/// Are these bytes text?
#[inline]
pub fn is_text(bytes: &[u8]) -> bool {
    bytes.is_ascii() || simdutf8::basic::from_utf8(bytes).is_ok()
}

/// JSON is read by bytes, so they must be text.
#[inline]
pub fn utf8(text: &[u8]) -> Result<(), Unread> {
    simdutf8::basic::from_utf8(text).map(|_| ()).map_err(|_| Unread::Left)
}
