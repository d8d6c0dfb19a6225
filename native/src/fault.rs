//! A panic is a fault of this kernel. Python gets a RuntimeError in its place, and does the same work itself.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What some work gives; a RuntimeError if it panics.
pub fn guarded<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|_| PyRuntimeError::new_err("a panic"))
}

/// An error that should not be, too.
pub fn fault(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}
