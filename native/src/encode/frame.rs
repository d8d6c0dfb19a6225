//! Rows into messages: one in each, or several.

use arrow_array::{Array, ArrayRef, BinaryArray, StructArray, new_null_array};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field};
use pyo3::prelude::*;
use std::sync::Arc;

/// How rows become messages. Sizes are in bytes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Frame {
    /// The most bytes of a message of one row, key and value.
    pub most: usize,
    /// If several rows share a message: what each message begins with.
    pub version: Option<Vec<u8>>,
    /// What an empty message, and each row in it, is reckoned with; from which size on, and how many rows are enough.
    pub overhead: usize,
    pub row_overhead: usize,
    pub limit: usize,
    pub rows: usize,
}

/// Keys or values of messages, one after the other.
pub struct Part {
    pub bytes: Vec<u8>,
    ends: Vec<i32>,
    valid: Vec<bool>,
}

impl Part {
    pub fn new(rows: usize) -> Part {
        Part { bytes: Vec::new(), ends: Vec::with_capacity(rows + 1), valid: Vec::with_capacity(rows) }
    }

    pub fn end(&mut self, valid: bool) -> Option<()> {
        self.ends.push(i32::try_from(self.bytes.len()).ok()?);
        self.valid.push(valid);
        Some(())
    }

    /// Messages with these values and no keys.
    pub fn alone(self) -> Result<StructArray, ArrowError> {
        let values = self.finish()?;
        batch(new_null_array(&DataType::Binary, values.len()), values)
    }

    fn finish(self) -> Result<ArrayRef, ArrowError> {
        let mut ends = self.ends;
        ends.insert(0, 0);
        let nulls = self.valid.contains(&false).then(|| NullBuffer::new(BooleanBuffer::from(self.valid)));
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        Ok(Arc::new(BinaryArray::try_new(ends, Buffer::from_vec(self.bytes), nulls)?))
    }
}

/// Messages with columns `key` and `value`.
fn batch(keys: ArrayRef, values: ArrayRef) -> Result<StructArray, ArrowError> {
    let field = |name| Field::new(name, DataType::Binary, true);
    StructArray::try_new(vec![field("key"), field("value")].into(), vec![keys, values], None)
}

/// Messages that are being written.
pub struct Messages<'a> {
    frame: &'a Frame,
    keys: Part,
    values: Part,
    /// The rows of the message being filled, and its size.
    rows: usize,
    size: usize,
}

const LENGTH: usize = 8;

impl<'a> Messages<'a> {
    pub fn new(frame: &'a Frame, rows: usize) -> Messages<'a> {
        Messages { frame, keys: Part::new(rows), values: Part::new(rows), rows: 0, size: 0 }
    }

    /// A row, whose key and value the functions append.
    #[inline]
    pub fn row(
        &mut self,
        key: impl FnOnce(&mut Vec<u8>) -> Option<bool>,
        value: impl FnOnce(&mut Vec<u8>) -> Option<bool>,
    ) -> Option<()> {
        let starts = (self.keys.bytes.len(), self.values.bytes.len());
        if self.frame.version.is_some() {
            return self.framed(starts, key, value);
        }
        let valid = (key(&mut self.keys.bytes)?, value(&mut self.values.bytes)?);
        if self.keys.bytes.len() - starts.0 + self.values.bytes.len() - starts.1 > self.frame.most {
            return None;
        }
        self.keys.end(valid.0)?;
        self.values.end(valid.1)
    }

    /// A row behind the lengths of its key and value, in the message of the row before if it has room.
    fn framed(
        &mut self,
        starts: (usize, usize),
        key: impl FnOnce(&mut Vec<u8>) -> Option<bool>,
        value: impl FnOnce(&mut Vec<u8>) -> Option<bool>,
    ) -> Option<()> {
        let frame = self.frame;
        let size = framed(&mut self.keys.bytes, key)? + framed(&mut self.values.bytes, value)? + frame.row_overhead;
        if size > frame.most {
            return None;
        }
        if self.rows > 0 && (self.rows >= frame.rows || self.size + size > frame.limit) {
            self.end_at(starts)?;
            self.rows = 0;
        }
        if self.rows == 0 {
            let version = frame.version.as_deref()?;
            self.keys.bytes.splice(starts.0..starts.0, version.iter().copied());
            self.size = frame.overhead;
        }
        self.rows += 1;
        self.size += size;
        Some(())
    }

    fn end_at(&mut self, (key, value): (usize, usize)) -> Option<()> {
        self.keys.ends.push(i32::try_from(key).ok()?);
        self.keys.valid.push(true);
        self.values.ends.push(i32::try_from(value).ok()?);
        self.values.valid.push(true);
        Some(())
    }

    /// End the message being filled.
    pub fn end(&mut self) -> Option<()> {
        if self.rows > 0 {
            self.end_at((self.keys.bytes.len(), self.values.bytes.len()))?;
        }
        Some(())
    }

    pub fn finish(self) -> Result<StructArray, ArrowError> {
        batch(self.keys.finish()?, self.values.finish()?)
    }
}

/// Append the length of what `fill` appends, and then that; the length.
fn framed(out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>) -> Option<bool>) -> Option<usize> {
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH]);
    fill(out)?.then_some(())?;
    let length = out.len() - start - LENGTH;
    out[start..start + LENGTH].copy_from_slice(&(length as u64).to_be_bytes());
    Some(length)
}
