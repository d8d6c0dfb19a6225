//! Arrow arrays in and out of Python, by the PyCapsule interface.
//!
//! This is the only file with `unsafe`: a capsule holds a C struct behind a raw pointer.
#![allow(unsafe_code)]

use crate::fault::guarded;
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use arrow_array::{Array, ArrayRef, BinaryArray, StructArray, make_array};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::CStr;

const SCHEMA: &CStr = c"arrow_schema";
const ARRAY: &CStr = c"arrow_array";

/// An array of Python's, which must be one of binary values.
pub fn import(object: &Bound<'_, PyAny>) -> PyResult<BinaryArray> {
    let array = import_array(object)?;
    let binary = array.as_any().downcast_ref::<BinaryArray>();
    binary.cloned().ok_or_else(|| PyTypeError::new_err(format!("{} in place of binary", array.data_type())))
}

/// An array of Python's, or a record batch as a struct array.
pub fn import_array(object: &Bound<'_, PyAny>) -> PyResult<ArrayRef> {
    let pair = object.call_method0("__arrow_c_array__")?;
    let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.extract()?;
    let schema = schema.pointer_checked(Some(SCHEMA))?.cast::<FFI_ArrowSchema>();
    let array = array.pointer_checked(Some(ARRAY))?.cast::<FFI_ArrowArray>();
    // SAFETY: the capsules' names say what is behind the pointers. Moving the array out leaves one without a release
    // callback behind, as the interface asks for; the schema stays the capsule's, and is only read.
    let data = guarded(|| unsafe { from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) })?;
    let array = guarded(|| Ok::<_, PyErr>(make_array(data.map_err(refused)?)))??;
    if !guarded(|| is_whole(&array))? {
        return Err(PyValueError::new_err("an Arrow array is broken: a value ends before it begins"));
    }
    Ok(array)
}

/// Does each value end behind its beginning? How large a buffer is the interface does not say, so that the last value
/// ends in it is for the caller to check.
fn is_whole(array: &dyn Array) -> bool {
    if let Some(rows) = array.as_struct_opt() {
        return rows.columns().iter().all(|column| is_whole(column));
    }
    if let Some(lists) = array.as_list_opt::<i32>() {
        return rise(lists.value_offsets()) && is_whole(lists.values());
    }
    let text = array.as_string_opt::<i32>().map(|text| text.value_offsets());
    text.or_else(|| Some(array.as_binary_opt::<i32>()?.value_offsets())).is_none_or(rise)
}

fn rise(offsets: &[i32]) -> bool {
    let pairs = offsets.iter().zip(offsets.iter().skip(1));
    offsets.first().is_none_or(|&first| first >= 0) && pairs.fold(true, |rise, (start, end)| rise & (start <= end))
}

/// The two capsules of a record batch.
pub fn export<'py>(py: Python<'py>, batch: &StructArray) -> PyResult<Bound<'py, PyTuple>> {
    let (array, schema) = guarded(|| to_ffi(&batch.to_data()))?.map_err(refused)?;
    // Dropping the structs releases what their consumer has not moved out.
    let schema = PyCapsule::new_with_value(py, schema, SCHEMA)?;
    let array = PyCapsule::new_with_value(py, array, ARRAY)?;
    PyTuple::new(py, [schema, array])
}

fn refused(error: arrow_schema::ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
