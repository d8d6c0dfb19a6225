//! The native kernel of tidewire: messages to Arrow columns, for `tidewire.arrow.native`, and back, for
//! `tidewire.arrow.encode`.

mod avro;
mod canal;
mod capsule;
mod column;
mod craft;
mod encode;
mod fault;
mod image;
mod json;
mod open;
mod protocol;
mod reader;
mod simple;
mod simple_avro;
mod simple_json;
mod table;
mod text;

use column::Kind;
use fault::{fault, guarded};
use protocol::{Protocol, Unread};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use table::{Table, Tables};

/// A column: its name, its kind, a decimal's precision and scale, an integer's range, the names of an ENUM or SET.
type ColumnSpec = (String, String, (u8, u8), (i64, i64), Vec<String>);

/// Rows of tables by their numbers, the messages that were left, and how many zero dates became NULL.
type Taken = (Vec<(usize, Batch)>, Vec<i32>, usize);

/// Reads messages of one protocol.
///
/// `scan` stops where the shape of a row is unknown. The caller then adds a table, or finds the one it has, and says
/// with `learn` or `refuse` what becomes of such rows; the next `scan` begins at the same message.
#[pyclass(module = "tidewire_native")]
struct Kernel {
    protocol: Box<dyn Protocol>,
    tables: Tables,
    left: Vec<i32>,
    before: bool,
}

#[pymethods]
impl Kernel {
    #[new]
    fn new(protocol: &str, before: bool, zeros_to_null: bool, zone: &str) -> PyResult<Kernel> {
        let protocol: Box<dyn Protocol> = match protocol {
            "avro" => Box::new(avro::Avro::new()),
            "canal-json" => Box::new(canal::Canal::new()),
            "craft" => Box::new(craft::Craft::default()),
            "open-protocol" => Box::new(open::Open::default()),
            "simple-avro" => Box::new(simple_avro::SimpleAvro::new(zone)),
            "simple-json" => Box::new(simple_json::SimpleJson::new(zone)),
            _ => {
                return Err(PyValueError::new_err(format!("the protocol {protocol} is not known")));
            }
        };
        Ok(Kernel { protocol, tables: Tables::new(zeros_to_null), left: Vec::new(), before })
    }

    /// Add a table; its number.
    fn add_table(&mut self, columns: Vec<ColumnSpec>) -> PyResult<usize> {
        let kinds = columns.into_iter().map(|(name, kind, digits, range, names)| {
            let found = Kind::of(&kind, digits, range, names);
            found
                .map(|found| (name, found))
                .ok_or_else(|| PyValueError::new_err(format!("the kind {kind} is not known")))
        });
        let kinds = kinds.collect::<PyResult<Vec<_>>>()?;
        guarded(|| {
            self.tables.all.push(Table::new(&kinds));
            self.tables.all.len() - 1
        })
    }

    /// Read messages from one on. The message, and the event in it, whose shape is unknown; None at the end.
    ///
    /// If messages that are left change what the messages behind them mean, the scan stops at each, without an event.
    fn scan(
        &mut self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        start: usize,
    ) -> PyResult<Option<(usize, Option<usize>)>> {
        use arrow_array::Array;
        let (keys, values) = (capsule::import(keys)?, capsule::import(values)?);
        if keys.len() != values.len() {
            return Err(PyValueError::new_err("not as many keys as values"));
        }
        let mut at = start;
        let read = || {
            while at < values.len() {
                let key = keys.is_valid(at).then(|| keys.value(at));
                let value = values.is_valid(at).then(|| values.value(at));
                match self.protocol.message(key, value, at as i32, &mut self.tables) {
                    Ok(()) => {}
                    Err(Unread::Left) if self.protocol.stops() => return Some((at, None)),
                    Err(Unread::Left) => self.left.push(at as i32),
                    Err(Unread::Unknown { sub }) => return Some((at, Some(sub))),
                }
                at += 1;
            }
            None
        };
        py.detach(|| guarded(read)).map_err(|panic| fault(format!("{} at message {at}", panic.value(py))))
    }

    /// Rows of the unknown shape are those of a table, if the table has their columns.
    fn learn(&mut self, table: usize, partition: Option<i64>) -> PyResult<bool> {
        guarded(|| self.protocol.learn(table, partition, &self.tables))
    }

    /// The fields of the unknown shape, for `learn`; False if a type is not known.
    fn describe(&mut self, key: Vec<avro::FieldSpec>, value: Vec<avro::FieldSpec>) -> PyResult<bool> {
        guarded(|| self.protocol.describe(key, value))
    }

    /// Rows of the unknown shape are left to the caller from now on.
    fn refuse(&mut self) -> PyResult<()> {
        guarded(|| self.protocol.refuse())
    }

    /// Shapes may have come to mean something else: they have to be learnt again.
    fn forget(&mut self) -> PyResult<()> {
        guarded(|| self.protocol.forget())
    }

    /// The rows of each table that has some, the messages that were left, and how many zero dates became NULL.
    fn take(&mut self) -> PyResult<Taken> {
        let mut batches = Vec::new();
        for (number, table) in self.tables.all.iter_mut().enumerate().filter(|(_, table)| table.len() > 0) {
            let rows = guarded(|| table.finish(self.before))?.map_err(fault)?;
            batches.push((number, Batch { rows }));
        }
        Ok((batches, std::mem::take(&mut self.left), std::mem::take(&mut self.tables.zeros.counted)))
    }
}

/// A record batch, for any library that knows the PyCapsule interface.
#[pyclass(module = "tidewire_native", frozen)]
struct Batch {
    rows: arrow_array::StructArray,
}

#[pymethods]
impl Batch {
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema; // It is a wish, which the interface allows to be ignored.
        capsule::export(py, &self.rows)
    }
}

#[pymodule]
mod tidewire_native {
    #[pymodule_export]
    use super::encode::{CraftEncoder, Encoder, Escapes};
    #[pymodule_export]
    use super::{Batch, Kernel};

    /// The version of the calls between tidewire and this kernel.
    #[pymodule_export]
    const CONTRACT: u32 = 4;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// The protocols that this kernel reads.
    #[pymodule_export]
    const PROTOCOLS: [&str; 6] = ["avro", "canal-json", "craft", "open-protocol", "simple-avro", "simple-json"];
}
