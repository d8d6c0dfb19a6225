"""Rows as their table is declared, out of rows as the wire told them.

Open Protocol, Craft and, by default, Canal-JSON send no scale of a DECIMAL, no names of an ENUM or SET and no length of
a BIT, so their batches hold the text, the index, the mask and a wide number. Where the table's declaration is known
from elsewhere, from a DDL or another protocol, these become what they are declared to be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.convert import names, text_reader
from tidewire.arrow.invalid_values import InvalidValues, Reader, read_column
from tidewire.arrow.policy import Policy
from tidewire.arrow.types import arrow_type
from tidewire.model import Column, MySQLType, TableSchema
from tidewire.model.types import TEMPORAL


def declared(rows: pa.RecordBatch, table: TableSchema) -> tuple[pa.RecordBatch, InvalidValues]:
    """The rows with the types the table declares, and those with a value that does not fit.

    Columns keep their places; one that the table does not declare keeps its type, and so do dates kept as text.
    """
    columns = {column.name: column for column in table.columns}
    invalid: InvalidValues = {}
    arrays, fields = [], []
    for field, array in zip(rows.schema, rows.columns, strict=True):
        if field.name in ("after", "before"):
            array = _image(array, columns, invalid)
        arrays.append(array)
        fields.append(field.with_type(array.type))
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), invalid


def _image(image: pa.StructArray, columns: Mapping[str, Column], invalid: InvalidValues) -> pa.StructArray:
    arrays, fields = [], []
    for number, field in enumerate(image.type):
        array = image.field(number)
        column = columns.get(field.name)
        if column is not None and arrow_type(column) != array.type and not _kept(column, array.type):
            array, reasons = read_column(array, _reader(column), arrow_type(column))
            for row, reason in reasons.items():
                invalid.setdefault(row, f"column {column.name} ({column.mysql_type}): {reason}")
        arrays.append(array)
        fields.append(field.with_type(array.type))
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=image.is_null())


def _kept(column: Column, type_: pa.DataType) -> bool:
    """Are these dates that a policy kept as text?"""
    return column.type in TEMPORAL and type_ == pa.string()


def _reader(column: Column) -> Reader:
    return _READERS.get(column.type, _cast)(column)


def _cast(column: Column) -> Reader:
    type_ = arrow_type(column)
    return lambda values: pc.cast(values, type_)


def _decimal(column: Column) -> Reader:
    read, cast = text_reader(column, Policy()), _cast(column)
    return lambda values: read(values) if values.type == pa.string() else cast(values)


def _named(column: Column) -> Reader:
    if not column.elements:
        return _cast(column)
    name = names(column)

    def read(values: Any) -> pa.Array:
        return pa.array([None if value is None else name(int(value)) for value in values.to_pylist()], pa.string())

    return read


_READERS: Mapping[MySQLType, Callable[[Column], Reader]] = {
    MySQLType.DECIMAL: _decimal,
    MySQLType.ENUM: _named,
    MySQLType.SET: _named,
}
