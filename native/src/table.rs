//! Rows of one table shape on their way into a record batch. `tidewire.arrow.plan` describes the columns.

use crate::column::{Column, Kind, Validity, Zeros, offsets};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Int8Array, Int16Array, Int32Array, Int64Array, ListArray, StructArray,
    new_null_array,
};
use arrow_buffer::BooleanBuffer;
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
    valid: Validity,
    /// Rows without an image at the end, which the columns do not have yet.
    blank: usize,
}

impl Image {
    fn new(columns: &[(String, Kind)]) -> Image {
        let field = |(name, kind): &(String, Kind)| Field::new(name, kind.data_type(), true);
        Image {
            fields: columns.iter().map(field).collect(),
            columns: columns.iter().map(|(_, kind)| Column::new(kind.clone())).collect(),
            valid: Validity::default(),
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

    fn end(&mut self, there: bool) {
        self.valid.push(there);
        if !there {
            self.blank += 1;
        }
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
        self.valid.truncate(length);
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let length = self.valid.len();
        if self.blank == length {
            self.blank = 0;
            self.valid = Validity::default();
            return Ok(new_null_array(&DataType::Struct(self.fields.clone()), length));
        }
        let arrays = self.columns().iter_mut().map(Column::finish).collect::<Result<Vec<_>, _>>()?;
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), arrays, self.valid.finish())?))
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

/// The rows of one table shape.
pub struct Table {
    pub after: Image,
    pub before: Image,
    /// The columns that the old row being read leaves out.
    pub gaps: Vec<i16>,
    ops: Vec<i8>,
    commit_ts: (Vec<i64>, Validity),
    positions: Vec<i32>,
    subs: Vec<i32>,
    partitions: (Vec<i64>, Validity),
    key_only: Vec<bool>,
    absent: (Vec<i16>, Vec<i32>, Validity),
    /// A message, and the rows that were there before it.
    mark: (i32, usize),
}

impl Table {
    pub fn new(columns: &[(String, Kind)]) -> Table {
        Table {
            after: Image::new(columns),
            before: Image::new(columns),
            gaps: Vec::new(),
            ops: Vec::new(),
            commit_ts: Default::default(),
            positions: Vec::new(),
            subs: Vec::new(),
            partitions: Default::default(),
            key_only: Vec::new(),
            absent: Default::default(),
            mark: (-1, 0),
        }
    }

    /// Are these the names of the columns, in order?
    pub fn has(&self, names: &[Vec<u8>]) -> bool {
        self.after.names().eq(names.iter().map(Vec::as_slice))
    }

    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Begin a row of a message; `rollback` takes back all that begin with the same `pos`.
    pub fn begin(&mut self, pos: i32) {
        if self.mark.0 != pos {
            self.mark = (pos, self.len());
        }
        self.gaps.clear();
    }

    /// End a row whose values are in the columns of the images that are there.
    pub fn end(&mut self, head: &Head) {
        self.after.end(head.op != Op::Delete);
        self.before.end(head.op != Op::Insert);
        self.ops.push(head.op as i8);
        optional(&mut self.commit_ts, head.commit_ts);
        self.positions.push(head.pos);
        self.subs.push(head.sub);
        optional(&mut self.partitions, head.partition);
        self.key_only.push(head.key_only);
        let (numbers, ends, valid) = &mut self.absent;
        numbers.extend_from_slice(&self.gaps);
        ends.push(numbers.len() as i32);
        valid.push(!self.gaps.is_empty());
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
        let length = self.mark.1;
        self.after.truncate(length);
        self.before.truncate(length);
        self.ops.truncate(length);
        self.positions.truncate(length);
        self.subs.truncate(length);
        self.key_only.truncate(length);
        for (values, valid) in [&mut self.commit_ts, &mut self.partitions] {
            values.truncate(length);
            valid.truncate(length);
        }
        let (numbers, ends, valid) = &mut self.absent;
        ends.truncate(length);
        numbers.truncate(ends.last().map_or(0, |&end| end as usize));
        valid.truncate(length);
        self.mark = (-1, 0);
    }

    /// The batch of all rows. The table is empty afterwards.
    pub fn finish(&mut self, before: bool) -> Result<StructArray, ArrowError> {
        use std::mem::take;
        self.mark = (-1, 0);
        let mut fields = vec![
            Field::new("_op", DataType::Int8, false),
            Field::new("_commit_ts", DataType::Int64, true),
            Field::new("_pos", DataType::Int32, false),
            Field::new("_sub", DataType::Int32, false),
            Field::new("_partition", DataType::Int64, true),
            Field::new("_key_only", DataType::Boolean, false),
            Field::new("after", DataType::Struct(self.after.fields.clone()), true),
        ];
        let mut arrays: Vec<ArrayRef> = vec![
            Arc::new(Int8Array::from(take(&mut self.ops))),
            Arc::new(Int64Array::try_new(take(&mut self.commit_ts.0).into(), self.commit_ts.1.finish())?),
            Arc::new(Int32Array::from(take(&mut self.positions))),
            Arc::new(Int32Array::from(take(&mut self.subs))),
            Arc::new(Int64Array::try_new(take(&mut self.partitions.0).into(), self.partitions.1.finish())?),
            Arc::new(BooleanArray::new(BooleanBuffer::from(take(&mut self.key_only)), None)),
            self.after.finish()?,
        ];
        let old = self.before.finish()?;
        let (numbers, ends, valid) = &mut self.absent;
        let item = Arc::new(Field::new_list_field(DataType::Int16, true));
        let numbers: ArrayRef = Arc::new(Int16Array::from(take(numbers)));
        let absent = ListArray::try_new(item, offsets(take(ends)), numbers, valid.finish())?;
        if before {
            fields.push(Field::new("before", DataType::Struct(self.before.fields.clone()), true));
            fields.push(Field::new("_absent", absent.data_type().clone(), true));
            arrays.push(old);
            arrays.push(Arc::new(absent));
        }
        StructArray::try_new(fields.into(), arrays, None)
    }
}

fn optional((values, valid): &mut (Vec<i64>, Validity), value: Option<i64>) {
    values.push(value.unwrap_or_default());
    valid.push(value.is_some());
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
