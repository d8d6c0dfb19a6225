"""Raw Avro values to typed arrays, a whole column at once. Text is still UTF-8 here, and a DECIMAL its bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any, Final, TypeAlias

import pyarrow as pa

from tidewire.arrow.convert import integers_in_range, names, plain, text_reader, value_reader
from tidewire.arrow.invalid_values import Reader
from tidewire.arrow.policy import Policy
from tidewire.arrow.types import UNSIGNED_BIGINT, arrow_type
from tidewire.model import Column, MySQLType
from tidewire.model.types import ENUM_SET, INTEGERS, STRINGS, TEMPORAL, TEXTS

Interpret: TypeAlias = Callable[[Any], Any]
"""A raw value as the event model has it: the codec's own way, one value at a time."""

_Builder: TypeAlias = Callable[[Column, Interpret, Policy], Reader]


def wire_reader(column: Column, avro: str, interpret: Interpret, policy: Policy) -> Reader:
    """Reads a column's raw values as ``interpret`` means them, and refuses what that refuses."""
    return _READERS.get((column.type, avro), _interpreted)(column, interpret, policy)


def _interpreted(column: Column, interpret: Interpret, policy: Policy) -> Reader:
    read = value_reader(column, policy)
    return lambda values: read([None if value is None else interpret(value) for value in values])


def _integers(column: Column, _: Interpret, __: Policy) -> Reader:
    return integers_in_range(column)


def _bigints(column: Column, _: Interpret, __: Policy) -> Reader:
    if not column.unsigned:
        return lambda values: pa.array(values, pa.int64())
    # Those beyond the signed ones are written as the negative ones with the same bits.
    return lambda values: pa.array(values, pa.int64()).view(pa.uint64()).cast(UNSIGNED_BIGINT)


def _floats(column: Column, _: Interpret, policy: Policy) -> Reader:
    return value_reader(column, policy)


def _strings(column: Column, _: Interpret, policy: Policy) -> Reader:
    return plain(column, policy)


def _texts(column: Column, _: Interpret, policy: Policy) -> Reader:
    return text_reader(column, policy)


def _numbered(column: Column, interpret: Interpret, policy: Policy) -> Reader:
    """For ENUM and SET, of whose values only a few are different."""
    if not column.elements:
        return _interpreted(column, interpret, policy)
    named = names(column)

    def read(values: Sequence[Any]) -> pa.Array:
        known = set(values) - {None}
        texts = {value: named(interpret(value).index) for value in known}
        return pa.array([texts.get(value) for value in values], pa.string())

    return read


_WORD: Final = 16
_SIGNS: Final = (bytes(_WORD), b"\xff" * _WORD)
"""What stands before a number that is not negative, and before one that is."""


def _decimals(column: Column, interpret: Interpret, policy: Policy) -> Reader:
    """Decimals as Arrow has them: an integer of 16 bytes each, the lowest byte first."""
    type_ = arrow_type(column)
    read_oddities = _interpreted(column, interpret, policy)

    def read(values: Sequence[bytes | None]) -> pa.Array:
        lengths = {len(value) for value in values if value is not None}
        if not all(0 < length <= _WORD for length in lengths):
            return read_oddities(values)
        # Avro has the highest byte first: joined in reverse and turned round as a whole, all is in order.
        words = [
            _SIGNS[0] if value is None else _SIGNS[value[0] >> 7][len(value) :] + value for value in reversed(values)
        ]
        valid = pa.array([value is not None for value in values], pa.bool_()).buffers()[1]
        numbers = pa.Array.from_buffers(type_, len(values), [valid, pa.py_buffer(b"".join(words)[::-1])])
        numbers.validate(full=True)
        return numbers

    return lambda values: read(values) if pa.types.is_decimal(type_) else read_oddities(values)


def _pairs(types: Iterable[MySQLType], *avro: str) -> Iterable[tuple[MySQLType, str]]:
    return product(types, avro)


_READERS: Mapping[tuple[MySQLType, str], _Builder] = {
    **dict.fromkeys(_pairs(INTEGERS | {MySQLType.YEAR}, "int", "long"), _integers),
    (MySQLType.BIGINT, "long"): _bigints,
    (MySQLType.FLOAT, "float"): _floats,
    (MySQLType.DOUBLE, "double"): _floats,
    (MySQLType.DECIMAL, "bytes"): _decimals,
    **dict.fromkeys(_pairs(STRINGS, "string", "bytes"), _strings),
    **dict.fromkeys(_pairs(ENUM_SET, "string", "long"), _numbered),
    **dict.fromkeys(_pairs(TEMPORAL | TEXTS | {MySQLType.DECIMAL}, "string"), _texts),
}
"""Those that can be read faster than by interpreting each value."""
