//! What the kernel asks of a protocol.

use crate::avro::FieldSpec;
use crate::table::Tables;
use ahash::AHashMap;
use std::borrow::Borrow;
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

const MOST_ALIKE: usize = 256;

/// Add a shape to those that begin alike; if they are too many, the others can be learnt again.
pub fn put<V>(shapes: &mut Vec<V>, shape: V) {
    if shapes.len() >= MOST_ALIKE {
        shapes.clear();
    }
    shapes.push(shape);
}

/// What is known of the messages that have the same bytes in certain places. Often one is like the one before it.
pub struct Shapes<Q: ToOwned + ?Sized, V> {
    numbers: AHashMap<Q::Owned, usize>,
    all: Vec<(Q::Owned, V)>,
    last: usize,
    unknown: Option<Q::Owned>,
}

impl<Q: ToOwned + Hash + Eq + ?Sized, V> Shapes<Q, V>
where
    Q::Owned: Hash + Eq + Clone,
{
    pub fn new() -> Self {
        Shapes { numbers: AHashMap::new(), all: Vec::new(), last: 0, unknown: None }
    }

    /// What is known of messages with these bytes; if nothing is, `keep` may say it.
    #[inline]
    pub fn find(&mut self, key: &Q) -> Result<&mut V, Unread> {
        if self.all.get(self.last).is_none_or(|(last, _)| Borrow::<Q>::borrow(last) != key) {
            let Some(&number) = self.numbers.get(key) else {
                self.unknown = Some(key.to_owned());
                return Err(Unread::Unknown { sub: 0 });
            };
            self.last = number;
        }
        Ok(&mut self.all[self.last].1)
    }

    /// What was not known when it was looked for. False if it is not looked for any more.
    pub fn keep(&mut self, value: V) -> bool {
        let Some(key) = self.unknown.take() else { return false };
        bounded(&mut self.numbers);
        if self.numbers.is_empty() {
            self.all.clear();
        }
        self.numbers.insert(key.clone(), self.all.len());
        self.all.push((key, value));
        true
    }

    pub fn clear(&mut self) {
        self.numbers.clear();
        self.all.clear();
    }
}

/// Are these bytes text?
#[inline]
pub fn is_text(bytes: &[u8]) -> bool {
    is_ascii(bytes) || simdutf8::basic::from_utf8(bytes).is_ok()
}

/// Most texts are short, so they are looked at word by word and not by a call.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<8>();
    let word = words.iter().fold(0, |all, &word| all | u64::from_le_bytes(word));
    let byte = rest.iter().fold(0, |all, &byte| all | byte);
    word & 0x8080_8080_8080_8080 == 0 && byte < 0x80
}

/// JSON is read by bytes, so they must be text.
#[inline]
pub fn utf8(text: &[u8]) -> Result<(), Unread> {
    simdutf8::basic::from_utf8(text).map(|_| ()).map_err(|_| Unread::Left)
}
