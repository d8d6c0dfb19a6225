"""Craft's values, the raw bytes of a whole column, to typed arrays: integers are varints, most of the rest is text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.convert import finite, integers_in_range, plain, text_reader
from tidewire.arrow.invalid_values import Reader
from tidewire.arrow.policy import Policy
from tidewire.arrow.scan.varints import reinterpreted, signed, unsigned
from tidewire.arrow.types import arrow_type
from tidewire.model import Column, MySQLType
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS, STRINGS

_DOUBLE_BYTES: Final = 8


def raw_reader(column: Column, policy: Policy) -> Reader:
    """Reads the bytes of a column's values, given as a binary array."""
    return _READERS.get(column.type, text_reader)(column, policy)


def _integers(column: Column, _: Policy) -> Reader:
    # YEAR is signed, although TiDB flags every YEAR column as unsigned.
    numbers = unsigned if column.unsigned and column.type is not MySQLType.YEAR else signed
    in_range = integers_in_range(column)
    return lambda values: in_range(numbers(values))


def _bits(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)
    return lambda values: unsigned(values).cast(type_)


def _doubles(column: Column, policy: Policy) -> Reader:
    type_ = arrow_type(column)

    def read(values: pa.BinaryArray) -> pa.Array:
        filled = values.fill_null(bytes(_DOUBLE_BYTES)) if values.null_count else values
        for length in pc.unique(pc.binary_length(filled)).to_pylist():
            if length != _DOUBLE_BYTES:
                raise ValueError(f"{length} bytes, {_DOUBLE_BYTES} were expected")
        numbers = reinterpreted(filled, pa.float64())
        if values.null_count:
            numbers = pc.if_else(values.is_valid(), numbers, pa.scalar(None, pa.float64()))
        return finite(numbers.cast(type_), policy)

    return read


def _nothing(column: Column, _: Policy) -> Reader:
    """For types without values: NULL, whatever the bytes."""
    type_ = arrow_type(column)
    return lambda values: pa.nulls(len(values), type_)


_READERS: Mapping[MySQLType, Callable[[Column, Policy], Reader]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _integers),
    **dict.fromkeys(ENUM_SET | {MySQLType.BIT}, _bits),
    **dict.fromkeys(FLOATS, _doubles),
    **dict.fromkeys((MySQLType.UNSPECIFIED, MySQLType.NULL, MySQLType.GEOMETRY), _nothing),
    **dict.fromkeys(STRINGS, plain),
}
