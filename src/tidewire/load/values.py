"""Values of a dump to typed columns, by the types and readers of the sync."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.convert import complete_text_reader, finite, plain
from tidewire.arrow.invalid_values import InvalidValues, Reader, demand, read_column
from tidewire.arrow.policy import Policy
from tidewire.load.dialect import BinaryFormat
from tidewire.model import Column, MySQLType
from tidewire.model.types import ENUM_SET


def typed(column: Column, values: pa.Array, policy: Policy, binary: BinaryFormat) -> tuple[pa.Array, InvalidValues]:
    """The values of a column, and the rows whose value does not fit, each with the reason."""
    type_ = policy.type_of(column)
    if column.type is MySQLType.BIT or pa.types.is_binary(type_):
        read = _bytes_reader(column, type_, binary)
    elif pa.types.is_binary(values.type) or pa.types.is_string(values.type):
        read = _of_text(column, policy)
    else:
        read = _of_values(column, type_, policy)
    found, invalid = read_column(values, read, type_)
    return found, {row: f"column {column.name} ({column.mysql_type}): {reason}" for row, reason in invalid.items()}


def _of_text(column: Column, policy: Policy) -> Reader:
    """Reads texts. An ENUM or SET is its names here, not their number."""
    return (plain if column.type in ENUM_SET and column.elements else complete_text_reader)(column, policy)


_DECODE: Final[Mapping[BinaryFormat, Callable[[bytes], bytes]]] = {
    BinaryFormat.HEX: lambda text: bytes.fromhex(text.decode()),
    BinaryFormat.BASE64: lambda text: base64.b64decode(text, validate=True),
}


def _bytes_reader(column: Column, type_: pa.DataType, binary: BinaryFormat) -> Reader:
    """Reads byte strings, and the bytes of a BIT, which begin with the highest."""
    decode = _DECODE.get(binary)

    def content(values: Sequence[Any]) -> pa.Array:
        if decode is None:
            return pa.array(values, pa.binary()) if not isinstance(values, pa.Array) else values.cast(pa.binary())
        return pa.array([None if value is None else decode(value) for value in _listed(values)], pa.binary())

    def numbers(values: Sequence[Any]) -> pa.Array:
        found = content(values)
        demand(pc.fill_null(pc.less_equal(pc.binary_length(found), 8), True), "more than 64 bits")
        return pa.array([None if each is None else int.from_bytes(each) for each in found.to_pylist()], type_)

    return numbers if column.type is MySQLType.BIT else content


def _listed(values: Sequence[Any]) -> list[Any]:
    return values.to_pylist() if isinstance(values, pa.Array) else list(values)


def _of_values(column: Column, type_: pa.DataType, policy: Policy) -> Reader:
    """Reads typed values of a Parquet file."""

    def read(values: Any) -> pa.Array:
        if column.type is MySQLType.TIMESTAMP and type_ != pa.string():
            moments = values.cast(pa.timestamp("us"))
            zoned = pc.assume_timezone(moments, policy.time_zone, ambiguous="earliest", nonexistent="latest")
            return zoned.cast(type_)
        if pa.types.is_floating(type_):
            return finite(values.cast(type_))
        return values.cast(type_)

    return read
