//! Record batches to messages. `tidewire.arrow.encode` is its one caller.
//!
//! Python says of what parts a table's messages are: what is the same in each, and how the values between stand there.

mod binary;
mod craft;
mod escape;
mod frame;
mod text;
mod value;

pub use binary::varint;
pub use craft::CraftEncoder;
pub use escape::Escapes;

use crate::Batch;
use crate::capsule;
use crate::fault::{fault, guarded};
use arrow_array::{Array, StructArray};
use arrow_schema::ArrowError;
use frame::{Frame, Messages};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use value::{Column, Format};

/// Which struct of the batch a value is in: facts about the change, the new row, the old row.
const SOURCES: [&str; 3] = ["about", "after", "before"];

/// A value in a message: source, number of its column, format and what it needs; what stands before it, in place of
/// it if it is NULL, and behind it; whether its length stands before it, as Avro has it.
type ValueSpec = (
    (String, usize),
    (String, Option<i128>, Vec<Vec<u8>>, Option<Py<Escapes>>),
    (Vec<u8>, Option<Vec<u8>>, Vec<u8>),
    bool,
);

/// A part of a message: bytes that are the same in all, or a value.
#[derive(FromPyObject)]
enum PartSpec<'py> {
    Same(Bound<'py, PyBytes>),
    Value(ValueSpec),
}

enum Part {
    Same(Vec<u8>),
    Value(Box<Value>),
}

struct Value {
    source: usize,
    column: usize,
    format: Format,
    before: Vec<u8>,
    null: Option<Vec<u8>>,
    behind: Vec<u8>,
    counted: bool,
}

impl Value {
    fn of(spec: ValueSpec) -> PyResult<Value> {
        let ((source, column), (name, size, texts, escapes), (before, null, behind), counted) = spec;
        let unknown = || PyValueError::new_err(format!("the format {name} of {source} is not known"));
        let format = Format::of(&name, size, texts, escapes).ok_or_else(unknown)?;
        let source = SOURCES.iter().position(|&known| known == source).ok_or_else(unknown)?;
        Ok(Value { source, column, format, before, null, behind, counted })
    }

    /// Its column in a batch.
    fn column<'a>(&self, sources: &Sources<'a>) -> Option<Column<'a>> {
        Column::of(sources[self.source]?.columns().get(self.column)?)
    }
}

/// The structs of a batch; those that it does not have are None.
type Sources<'a> = [Option<&'a StructArray>; 3];

impl Part {
    fn of(spec: PartSpec<'_>) -> PyResult<Part> {
        Ok(match spec {
            PartSpec::Same(bytes) => Part::Same(bytes.as_bytes().to_vec()),
            PartSpec::Value(value) => Part::Value(Box::new(Value::of(value)?)),
        })
    }

    fn all(specs: Vec<PartSpec<'_>>) -> PyResult<Vec<Part>> {
        specs.into_iter().map(Part::of).collect()
    }
}

/// A part with the column of a batch.
enum BoundPart<'a> {
    Same(&'a [u8]),
    Value(&'a Value, Column<'a>),
}

impl<'a> BoundPart<'a> {
    fn of(part: &'a Part, sources: &Sources<'a>) -> Option<BoundPart<'a>> {
        Some(match part {
            Part::Same(bytes) => BoundPart::Same(bytes),
            Part::Value(value) => BoundPart::Value(value, value.column(sources)?),
        })
    }

    /// The bytes of this part in the message of a row.
    #[inline]
    fn write(&self, row: usize, out: &mut Vec<u8>) -> Option<()> {
        let (value, column) = match self {
            BoundPart::Same(bytes) => {
                out.extend_from_slice(bytes);
                return Some(());
            }
            BoundPart::Value(value, column) => (value, column),
        };
        if column.is_null(row) {
            out.extend_from_slice(value.null.as_ref()?);
            return Some(());
        }
        out.extend_from_slice(&value.before);
        if value.counted {
            binary::counted(out, |out| column.write(row, &value.format, out))?;
        } else {
            column.write(row, &value.format, out)?;
        }
        out.extend_from_slice(&value.behind);
        Some(())
    }
}

/// What a message of an insert, an update or a delete is made of. A key or a value of None is NULL.
struct Shape {
    key: Option<Vec<Part>>,
    value: Option<Vec<Part>>,
}

type ShapeSpec<'py> = (Option<Vec<PartSpec<'py>>>, Option<Vec<PartSpec<'py>>>);

/// Writes the rows of one table as messages of one protocol.
#[pyclass(module = "tidewire_native", frozen)]
pub struct Encoder {
    shapes: Vec<Option<Shape>>,
    frame: Frame,
}

#[pymethods]
impl Encoder {
    /// `shapes` are those of inserts, updates and deletes; rows without one are left to the codec.
    #[new]
    fn new(shapes: [Option<ShapeSpec<'_>>; 3], frame: Frame) -> PyResult<Encoder> {
        let read = |spec: Option<ShapeSpec<'_>>| {
            spec.map(|(key, value)| {
                Ok(Shape { key: key.map(Part::all).transpose()?, value: value.map(Part::all).transpose()? })
            })
            .transpose()
        };
        Ok(Encoder { shapes: guarded(|| shapes.into_iter().map(read).collect::<PyResult<_>>())??, frame })
    }

    /// The messages of a batch with the structs `about`, `after` and `before`; None if they are for the codec.
    fn encode(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<Option<Batch>> {
        encoded(py, rows, |rows| Some(self.messages(rows)?.finish()))
    }
}

impl Encoder {
    fn messages(&self, rows: &StructArray) -> Option<Messages<'_>> {
        let (sources, ops) = opened(rows)?;
        let mut shapes = [None, None, None];
        for (op, shape) in self.shapes.iter().enumerate().filter(|(op, _)| ops.contains(op)) {
            let shape = shape.as_ref()?;
            shapes[op] = Some((bound(&shape.key, &sources)?, bound(&shape.value, &sources)?));
        }
        let mut messages = Messages::new(&self.frame, rows.len());
        for (row, &op) in ops.iter().enumerate() {
            let (key, value) = shapes[op].as_ref()?;
            messages.row(|out| write(key.as_deref(), row, out), |out| write(value.as_deref(), row, out))?;
        }
        messages.end()?;
        Some(messages)
    }
}

/// A batch of Python's, given to work that does not need Python.
fn encoded(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    work: impl Fn(&StructArray) -> Option<Result<StructArray, ArrowError>> + Send + Sync,
) -> PyResult<Option<Batch>> {
    let rows = capsule::import_array(rows)?;
    let rows = rows.as_any().downcast_ref::<StructArray>().ok_or_else(|| PyValueError::new_err("not a batch"))?;
    // After a fault the caller leaves the whole batch to the codec.
    let found = py.detach(|| guarded(|| work(rows)))?.transpose().map_err(fault)?;
    Ok(found.map(|rows| Batch { rows }))
}

/// The structs of a batch, and what each row is: 0 an insert, 1 an update, 2 a delete. None if a row is nothing of it.
fn opened(rows: &StructArray) -> Option<(Sources<'_>, Vec<usize>)> {
    let sources: Sources<'_> = SOURCES.map(|name| rows.column_by_name(name)?.as_any().downcast_ref());
    let [_, after, before] = sources;
    let there = |image: Option<&StructArray>, row| image.is_some_and(|image| image.is_valid(row));
    let ops = (0..rows.len()).map(|row| match (there(after, row), there(before, row)) {
        (true, false) => Some(0),
        (true, true) => Some(1),
        (false, true) => Some(2),
        (false, false) => None,
    });
    Some((sources, ops.collect::<Option<_>>()?))
}

/// The parts of a key or value with their columns; the outer None says that a column cannot be written.
fn bound<'a>(parts: &'a Option<Vec<Part>>, sources: &Sources<'a>) -> Option<Option<Vec<BoundPart<'a>>>> {
    let bind = |parts: &'a Vec<Part>| parts.iter().map(|part| BoundPart::of(part, sources)).collect::<Option<_>>();
    parts.as_ref().map(bind).map_or(Some(None), |parts| parts.map(Some))
}

/// The bytes of all parts; false if there are none to write, because the key or value is NULL.
fn write(parts: Option<&[BoundPart<'_>]>, row: usize, out: &mut Vec<u8>) -> Option<bool> {
    let Some(parts) = parts else {
        return Some(false);
    };
    for part in parts {
        part.write(row, out)?;
    }
    Some(true)
}
