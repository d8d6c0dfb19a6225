//! Craft: several rows in a message, their values behind all of their lengths.

use super::binary::{uvarint, varint};
use super::frame::Part as Output;
use super::value::Column;
use super::{Sources, Value, ValueSpec, encoded, opened};
use crate::Batch;
use crate::fault::guarded;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, StructArray};
use pyo3::prelude::*;

/// What all messages of a table have in common. Sizes are in bytes.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Frame {
    version: Vec<u8>,
    /// The type of a row, in the header.
    row_type: Vec<u8>,
    /// The numbers of schema and table in the dictionary.
    schema: i64,
    table: i64,
    dictionary: Vec<u8>,
    /// In place of a partition's id if there is none.
    no_partition: i64,
    /// What a row and an image are reckoned with beside their values; a message ends with the row that crosses the
    /// limit, or that is the last of so many.
    row_overhead: usize,
    group_overhead: usize,
    limit: usize,
    rows: usize,
}

/// An image of a row: what stands before its values, and they.
struct Group {
    head: Vec<u8>,
    values: Vec<Value>,
}

type GroupSpec = (Vec<u8>, Vec<ValueSpec>);

/// Writes the rows of one table as Craft messages.
#[pyclass(module = "tidewire_native", frozen)]
pub struct CraftEncoder {
    shapes: Vec<Option<Vec<Group>>>,
    frame: Frame,
}

#[pymethods]
impl CraftEncoder {
    /// `shapes` are the groups of inserts, updates and deletes; rows without them are left to the codec.
    #[new]
    fn new(shapes: [Option<Vec<GroupSpec>>; 3], frame: Frame) -> PyResult<CraftEncoder> {
        let read = |(head, values): GroupSpec| {
            Ok(Group { head, values: values.into_iter().map(Value::of).collect::<PyResult<_>>()? })
        };
        let all = |groups: Option<Vec<GroupSpec>>| {
            groups.map(|groups| groups.into_iter().map(read).collect::<PyResult<_>>()).transpose()
        };
        Ok(CraftEncoder { shapes: guarded(|| shapes.into_iter().map(all).collect::<PyResult<_>>())??, frame })
    }

    /// The messages of a batch; None if they are for the codec. `about` has the commit timestamp and the partition.
    fn encode(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<Option<Batch>> {
        encoded(py, rows, |rows| Some(self.messages(rows)?.alone()))
    }
}

/// A group with the columns of a batch.
struct BoundGroup<'a> {
    head: &'a [u8],
    values: Vec<(&'a Value, Column<'a>)>,
}

impl<'a> BoundGroup<'a> {
    fn of(group: &'a Group, sources: &Sources<'a>) -> Option<BoundGroup<'a>> {
        let bind = |value: &'a Value| Some((value, value.column(sources)?));
        Some(BoundGroup { head: &group.head, values: group.values.iter().map(bind).collect::<Option<_>>()? })
    }

    /// The image of a row; the size of its values.
    fn write(&self, row: usize, content: &mut Vec<u8>, out: &mut Vec<u8>) -> Option<usize> {
        content.clear();
        out.extend_from_slice(self.head);
        for (value, column) in &self.values {
            if column.is_null(row) {
                varint(-1, out);
            } else {
                let start = content.len();
                column.write(row, &value.format, content)?;
                varint((content.len() - start) as i64, out);
            }
        }
        out.extend_from_slice(content);
        Some(content.len())
    }
}

/// The rows of the message being filled.
#[derive(Default)]
struct Filling {
    bodies: Vec<u8>,
    sizes: Vec<usize>,
    group_tables: Vec<u8>,
    estimate: usize,
}

impl CraftEncoder {
    fn messages(&self, rows: &StructArray) -> Option<Output> {
        let (sources, ops) = opened(rows)?;
        let [commit_ts, partitions] = sources[0]?.columns() else {
            return None;
        };
        let commit_ts = commit_ts.as_primitive_opt::<Int64Type>()?;
        let partitions = partitions.as_primitive_opt::<Int64Type>()?;
        if commit_ts.null_count() > 0 {
            return None;
        }
        let places = partitions.iter().map(|partition| match partition {
            Some(id) => (id >= 0).then_some(id),
            None => Some(self.frame.no_partition),
        });
        let places: Vec<i64> = places.collect::<Option<_>>()?;
        let mut shapes = [None, None, None];
        for (op, groups) in self.shapes.iter().enumerate().filter(|(op, _)| ops.contains(op)) {
            let bound = groups.as_ref()?.iter().map(|group| BoundGroup::of(group, &sources));
            shapes[op] = Some(bound.collect::<Option<Vec<_>>>()?);
        }
        let (mut out, mut filling, mut content) = (Output::new(rows.len()), Filling::default(), Vec::new());
        let (mut start, mut sizes) = (0, Vec::new());
        for (row, &op) in ops.iter().enumerate() {
            let before = filling.bodies.len();
            filling.estimate += self.frame.row_overhead;
            sizes.clear();
            for group in shapes[op].as_ref()? {
                let start = filling.bodies.len();
                let size = group.write(row, &mut content, &mut filling.bodies)?;
                filling.estimate += self.frame.group_overhead + size;
                sizes.push(filling.bodies.len() - start);
            }
            filling.sizes.push(filling.bodies.len() - before);
            size_table(&sizes, &mut filling.group_tables);
            if filling.estimate > self.frame.limit || filling.sizes.len() >= self.frame.rows || row + 1 == ops.len() {
                let end = row + 1;
                self.message(&filling, &commit_ts.values()[start..end], &places[start..end], &mut out)?;
                filling.bodies.clear();
                filling.sizes.clear();
                filling.group_tables.clear();
                filling.estimate = 0;
                start = end;
            }
        }
        Some(out)
    }

    fn message(&self, filling: &Filling, commit_ts: &[i64], partitions: &[i64], out: &mut Output) -> Option<()> {
        let bytes = &mut out.bytes;
        bytes.extend_from_slice(&self.frame.version);
        let start = bytes.len();
        deltas(commit_ts, bytes, |delta, out| uvarint(delta as u64, out));
        for _ in commit_ts {
            bytes.extend_from_slice(&self.frame.row_type);
        }
        deltas(partitions, bytes, varint);
        for number in [self.frame.schema, self.frame.table] {
            varint(number, bytes);
            bytes.resize(bytes.len() + commit_ts.len() - 1, 0);
        }
        let header = bytes.len() - start;
        bytes.extend_from_slice(&filling.bodies);
        bytes.extend_from_slice(&self.frame.dictionary);
        let tables = bytes.len();
        size_table(&[header, self.frame.dictionary.len()], bytes);
        size_table(&filling.sizes, bytes);
        bytes.extend_from_slice(&filling.group_tables);
        let mut last = Vec::with_capacity(10);
        uvarint((bytes.len() - tables) as u64, &mut last);
        bytes.extend(last.iter().rev());
        out.end(true)
    }
}

/// The first number, then what each one adds to the one before, modulo 2^64.
fn deltas(numbers: &[i64], out: &mut Vec<u8>, write: impl Fn(i64, &mut Vec<u8>)) {
    let mut last = 0;
    for &number in numbers {
        write(number.wrapping_sub(last), out);
        last = number;
    }
}

/// How many sizes, and the sizes.
fn size_table(sizes: &[usize], out: &mut Vec<u8>) {
    uvarint(sizes.len() as u64, out);
    let mut last = 0;
    for &size in sizes {
        varint(size as i64 - last, out);
        last = size as i64;
    }
}
