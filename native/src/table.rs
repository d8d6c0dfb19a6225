//! Rows of one table shape on their way into a record batch. `tidewire.arrow.plan` describes the columns.

use crate::column::{Column, Kind, MOST_ROOM, Zeros};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, StructArray,
    new_null_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields};
use std::sync::Arc;

/// What a row did: `_op` of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    Insert = 0,
    Update = 1,
    Delete = 2,
}

/// New or old rows.
pub struct Image {
    fields: Fields,
    columns: Vec<Column>,
    /// Rows without an image at the end, which the columns do not have yet.
    blank: usize,
}

impl Image {
    fn new(columns: &[(String, Kind)]) -> Image {
        let field = |(name, kind): &(String, Kind)| Field::new(name, kind.data_type(), true);
        Image {
            fields: columns.iter().map(field).collect(),
            columns: columns.iter().map(|(_, kind)| Column::new(kind.clone())).collect(),
            blank: 0,
        }
    }

    /// The columns, for the values of one row.
    pub fn columns(&mut self) -> &mut [Column] {
        if self.blank > 0 {
            for column in &mut self.columns {
                column.nulls(self.blank);
            }
            self.blank = 0;
        }
        &mut self.columns
    }

    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// The names of the columns.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.fields.iter().map(|field| field.name().as_bytes())
    }

    /// The number of the column with this name.
    pub fn number(&self, name: &[u8]) -> Option<usize> {
        self.names().position(|other| other == name)
    }

    /// Take back what is behind so many rows.
    pub fn truncate(&mut self, length: usize) {
        let built = self.columns.first().map_or(0, Column::len);
        self.blank = length.saturating_sub(built);
        for column in &mut self.columns {
            column.truncate(length);
        }
    }

    /// The rows, of which those are there that `valid` says.
    fn finish(&mut self, length: usize, valid: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
        if self.blank == length {
            self.blank = 0;
            return Ok(new_null_array(&DataType::Struct(self.fields.clone()), length));
        }
        let arrays = self.columns().iter_mut().map(Column::finish).collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), arrays, valid)?))
    }
}

/// What a row has beside its values.
pub struct Head {
    pub op: Op,
    pub commit_ts: Option<i64>,
    pub pos: i32,
    pub sub: i32,
    pub partition: Option<i64>,
    pub key_only: bool,
}

/// Values, each with how many rows in a row have it.
struct Runs<T>(Vec<(T, usize)>);

impl<T: Copy + PartialEq> Runs<T> {
    #[inline]
    fn push(&mut self, value: T) {
        match self.0.last_mut() {
            Some((last, count)) if *last == value => *count += 1,
            _ => self.0.push((value, 1)),
        }
    }

    /// Take back the last ones.
    fn discard(&mut self, mut count: usize) {
        while let Some((_, last)) = self.0.last_mut().filter(|_| count > 0) {
            if *last > count {
                *last -= count;
                return;
            }
            count -= *last;
            self.0.pop();
        }
    }

    /// Something of each value, one for each row.
    fn each<U: Clone>(&self, length: usize, of: impl Fn(T) -> U) -> Vec<U> {
        let mut found = Vec::with_capacity(length);
        for &(value, count) in &self.0 {
            found.resize(found.len() + count, of(value));
        }
        found
    }

    /// The rows whose values are so.
    fn valid(&self, is_valid: impl Fn(T) -> bool) -> Option<NullBuffer> {
        let mut valid = NullBufferBuilder::new(0);
        for &(value, count) in &self.0 {
            if is_valid(value) { valid.append_n_non_nulls(count) } else { valid.append_n_nulls(count) }
        }
        valid.finish()
    }
}

/// The rows of one table shape.
pub struct Table {
    pub after: Image,
    pub before: Image,
    /// The columns that the old row being read leaves out.
    pub gaps: Vec<i16>,
    ops: Runs<Op>,
    commit_ts: (Vec<i64>, NullBufferBuilder),
    positions: Vec<i32>,
    subs: Vec<i32>,
    partitions: Runs<Option<i64>>,
    key_only: Runs<bool>,
    /// The columns that old rows leave out, and how many each does.
    absent: (Vec<i16>, Runs<usize>),
    /// A message, and the rows and their gaps that were there before it.
    mark: (i32, usize, usize),
    /// The rows of the last batch.
    usual: usize,
}

impl Table {
    pub fn new(columns: &[(String, Kind)]) -> Table {
        Table {
            after: Image::new(columns),
            before: Image::new(columns),
            gaps: Vec::new(),
            ops: Runs(Vec::new()),
            commit_ts: (Vec::new(), NullBufferBuilder::new(0)),
            positions: Vec::new(),
            subs: Vec::new(),
            partitions: Runs(Vec::new()),
            key_only: Runs(Vec::new()),
            absent: (Vec::new(), Runs(Vec::new())),
            mark: (-1, 0, 0),
            usual: 0,
        }
    }

    /// Are these the names of the columns, in order?
    pub fn has(&self, names: &[Vec<u8>]) -> bool {
        self.after.names().eq(names.iter().map(Vec::as_slice))
    }

    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Begin a row of a message; `rollback` takes back all that begin with the same `pos`.
    pub fn begin(&mut self, pos: i32) {
        if self.positions.is_empty() {
            self.reserve();
        }
        if self.mark.0 != pos {
            self.mark = (pos, self.len(), self.absent.0.len());
        }
        self.gaps.clear();
    }

    /// Make room for as many rows as there were before.
    #[cold]
    fn reserve(&mut self) {
        self.positions.reserve(self.usual);
        self.subs.reserve(self.usual);
        self.commit_ts.0.reserve(self.usual);
        for column in self.after.columns.iter_mut().chain(&mut self.before.columns) {
            column.reserve();
        }
    }

    /// End a row whose values are in the columns of the images that are there.
    pub fn end(&mut self, head: &Head) {
        match head.op {
            Op::Insert => self.before.blank += 1,
            Op::Update => {}
            Op::Delete => self.after.blank += 1,
        }
        self.ops.push(head.op);
        self.commit_ts.0.push(head.commit_ts.unwrap_or_default());
        self.commit_ts.1.append(head.commit_ts.is_some());
        self.positions.push(head.pos);
        self.subs.push(head.sub);
        self.partitions.push(head.partition);
        self.key_only.push(head.key_only);
        let (numbers, counts) = &mut self.absent;
        numbers.extend_from_slice(&self.gaps);
        counts.push(self.gaps.len());
    }

    /// Take back a row that did not end.
    fn discard(&mut self) {
        let length = self.len();
        self.after.truncate(length);
        self.before.truncate(length);
    }

    /// Take back the rows of a message.
    pub fn rollback(&mut self, pos: i32) {
        if self.mark.0 != pos {
            return;
        }
        let (_, length, gaps) = self.mark;
        let lost = self.len() - length;
        self.after.truncate(length);
        self.before.truncate(length);
        self.positions.truncate(length);
        self.subs.truncate(length);
        self.commit_ts.0.truncate(length);
        self.commit_ts.1.truncate(length);
        self.ops.discard(lost);
        self.partitions.discard(lost);
        self.key_only.discard(lost);
        self.absent.0.truncate(gaps);
        self.absent.1.discard(lost);
        self.mark = (-1, 0, 0);
    }

    /// The batch of all rows. The table is empty afterwards.
    pub fn finish(&mut self, before: bool) -> Result<StructArray, ArrowError> {
        use std::mem::take;
        self.mark = (-1, 0, 0);
        let rows = self.len();
        self.usual = rows.min(MOST_ROOM);
        let mut fields = vec![
            Field::new("_op", DataType::Int8, false),
            Field::new("_commit_ts", DataType::Int64, true),
            Field::new("_pos", DataType::Int32, false),
            Field::new("_sub", DataType::Int32, false),
            Field::new("_partition", DataType::Int64, true),
            Field::new("_key_only", DataType::Boolean, false),
            Field::new("after", DataType::Struct(self.after.fields.clone()), true),
        ];
        let partitions = self.partitions.each(rows, Option::unwrap_or_default);
        let key_only = BooleanBuffer::from(self.key_only.each(rows, |only| only));
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(Int8Array::from(self.ops.each(rows, |op| op as i8))),
            Arc::new(Int64Array::try_new(take(&mut self.commit_ts.0).into(), self.commit_ts.1.finish())?),
            Arc::new(Int32Array::from(take(&mut self.positions))),
            Arc::new(Int32Array::from(take(&mut self.subs))),
            Arc::new(Int64Array::try_new(partitions.into(), self.partitions.valid(|number| number.is_some()))?),
            Arc::new(BooleanArray::new(key_only, None)),
            self.after.finish(rows, self.ops.valid(|op| op != Op::Delete))?,
        ];
        let old = self.before.finish(rows, self.ops.valid(|op| op != Op::Insert))?;
        if before {
            let (numbers, counts) = &mut self.absent;
            let item = Arc::new(Field::new_list_field(DataType::Int16, true));
            let ends = OffsetBuffer::from_lengths(counts.each(rows, |count| count));
            let numbers: ArrayRef = Arc::new(Int16Array::from(take(numbers)));
            let absent = ListArray::try_new(item, ends, numbers, counts.valid(|count| count > 0))?;
            fields.push(Field::new("before", DataType::Struct(self.before.fields.clone()), true));
            fields.push(Field::new("_absent", absent.data_type().clone(), true));
            arrays.push(old);
            arrays.push(Arc::new(absent));
        }
        self.ops.0.clear();
        self.partitions.0.clear();
        self.key_only.0.clear();
        self.absent.0.clear();
        self.absent.1.0.clear();
        StructArray::try_new(fields.into(), arrays, None)
    }
}

/// All tables, by the numbers that Python knows them by.
pub struct Tables {
    pub all: Vec<Table>,
    pub zeros: Zeros,
    /// The tables that have rows of the message being read.
    touched: Vec<usize>,
}

impl Tables {
    pub fn new(zeros_to_null: bool) -> Tables {
        Tables { all: Vec::new(), zeros: Zeros { to_null: zeros_to_null, counted: 0 }, touched: Vec::new() }
    }

    /// Begin a row of a message.
    #[inline]
    pub fn begin(&mut self, table: usize, pos: i32) -> Option<(&mut Table, &mut Zeros)> {
        let found = self.all.get_mut(table)?;
        if found.mark.0 != pos {
            self.touched.push(table);
        }
        found.begin(pos);
        Some((found, &mut self.zeros))
    }

    /// Take back a row that did not end.
    pub fn discard(&mut self, table: usize) {
        if let Some(table) = self.all.get_mut(table) {
            table.discard();
        }
    }

    /// Read one message: all of its rows, or none.
    pub fn message<T>(&mut self, pos: i32, read: impl FnOnce(&mut Tables) -> Result<(), T>) -> Result<(), T> {
        let zeros = self.zeros.counted;
        self.touched.clear();
        let outcome = read(self);
        if outcome.is_err() {
            self.zeros.counted = zeros;
            for &table in &self.touched {
                self.all[table].rollback(pos);
            }
        }
        outcome
    }
}
