"""Wire values and defaults as their table declares them.

Where a protocol does not tell the type of a column, its values are staged as the wire has them: the text of a DECIMAL,
the index of an ENUM, the mask of a SET. Here these become values of the declared type. A value that the declared type
cannot hold does not raise: it becomes NULL, and a mask tells it from a value that was NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.clocks import clock_text, instant, local_clock, midnights, read_clocks, read_dates, time_text
from tidewire.arrow.convert import scalar_of_text
from tidewire.arrow.invalid_values import READ_ERRORS
from tidewire.arrow.numbers import (
    exact,
    float_text,
    number_text,
    plain_float_text,
    there_and_back,
    to_float,
    where,
    whole_texts,
)
from tidewire.arrow.policy import Policy
from tidewire.arrow.types import UNSIGNED_BIGINT, engines
from tidewire.errors import SyncError
from tidewire.model import Column, MySQLType
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS
from tidewire.model.values import set_text

Values: TypeAlias = pa.Array | pa.ChunkedArray
Step: TypeAlias = Callable[[pa.Array], pa.Array]
"""Makes an array of another type out of an array; NULL for a value that the other type cannot hold."""


class Cast(NamedTuple):
    """How values are cast; ``step`` is None if they stay as they are.

    ``may_fail`` says that not every value fits. If the cast is not ``possible``, only NULL fits.
    """

    step: Step | None = None
    may_fail: bool = False
    possible: bool = True


def cast(
    values: Values, wire: Column, declared: Column, policy: Policy = Policy()
) -> tuple[Values, pa.BooleanArray | None]:
    """The values of a staged column in the type its table declares, and which of them do not fit.

    A value that does not fit is NULL in the result and true in the mask; the mask is None if all values fit.

    >>> found, bad = cast(pa.array(["1.5", "x"]), Column.of("c", "decimal"), Column.of("c", "decimal(10,2)"))
    >>> found.to_pylist(), bad.to_pylist()
    ([Decimal('1.50'), None], [False, True])
    """
    step = _cast(wire, declared, policy).step
    if step is None:
        return values, None
    found = apply_step(step, values, policy.type_of(wire), policy.type_of(declared))
    return found, lost(values, found)


def may_fail(wire: Column, declared: Column, policy: Policy = Policy()) -> bool:
    """Can there be a value on the wire that the declared type cannot hold?"""
    return _cast(wire, declared, policy).may_fail


def can_cast(wire: Column, declared: Column, policy: Policy = Policy()) -> bool:
    """Is there a value on the wire, other than NULL, that the declared type can hold?"""
    return _cast(wire, declared, policy).possible


def apply_step(step: Step, values: Values, source: pa.DataType, goal: pa.DataType) -> Values:
    """What a step makes of values; chunks stay chunks."""
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([apply_step(step, chunk, source, goal) for chunk in values.chunks], goal)
    return step(values if values.type == source else values.cast(source))


def lost(values: Values, found: Values) -> pa.BooleanArray | None:
    """Which values became NULL; None if none did."""
    if found.null_count == values.null_count:
        return None
    mask = pc.and_(values.is_valid(), found.is_null())
    return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask


def _cast(wire: Column, declared: Column, policy: Policy) -> Cast:
    if declared.type in ENUM_SET and wire.type is declared.type and bool(wire.elements) != bool(declared.elements):
        return _NAMES[declared.type, bool(declared.elements)](declared.elements or wire.elements)
    source, goal = policy.type_of(wire), policy.type_of(declared)
    if source == goal:
        return Cast()
    if goal == pa.string() and source != pa.binary():
        return Cast(lambda values: text_of(values, wire, policy))
    move = _ZONED.get((wire.type, declared.type))
    if move is not None:
        return Cast(lambda values: move(values, policy.time_zone))
    return _KINDS.get((_kind(source), _kind(goal)), _impossible)(source, goal)


def _kind(type_: pa.DataType) -> str:
    return "decimal" if pa.types.is_decimal(type_) else engines(type_).spark


def _impossible(_: pa.DataType, goal: pa.DataType) -> Cast:
    return Cast(lambda values: pa.nulls(len(values), goal), may_fail=True, possible=False)


def _always(_: pa.DataType, goal: pa.DataType) -> Cast:
    return Cast(lambda values: values.cast(goal))


_WHOLE_DIGITS: Mapping[pa.DataType, int] = {pa.int32(): 10, pa.int64(): 19}


def _number(source: pa.DataType, goal: pa.DataType) -> Cast:
    return Cast(lambda values: exact(values, goal), may_fail=not _has_room(source, goal))


def _has_room(source: pa.DataType, goal: pa.DataType) -> bool:
    """Has the goal all digits that whole or decimal numbers of the source can have?"""
    if not pa.types.is_decimal(goal):
        return bool((source, goal) == (pa.int32(), pa.int64()))
    scale = source.scale if pa.types.is_decimal(source) else 0
    whole = source.precision - scale if pa.types.is_decimal(source) else _WHOLE_DIGITS[source]
    return bool(goal.scale >= scale and goal.precision - goal.scale >= whole)


def _same_back(_: pa.DataType, goal: pa.DataType) -> Cast:
    return Cast(lambda values: there_and_back(values, goal), may_fail=True)


def _decimal_text(_: pa.DataType, goal: pa.DataType) -> Cast:
    return Cast(lambda values: exact(values, goal), may_fail=True)


def _whole_text(_: pa.DataType, goal: pa.DataType) -> Cast:
    return Cast(lambda values: exact(whole_texts(values), goal), may_fail=True)


def _float_number(_: pa.DataType, goal: pa.DataType) -> Cast:
    return Cast(lambda values: to_float(values, goal), may_fail=True)


_EXACT_BELOW: Mapping[pa.DataType, int] = {pa.float32(): 2**24, pa.float64(): 2**53}
"""Up to here a floating-point type holds every whole number."""


def _whole_to_float(_: pa.DataType, goal: pa.DataType) -> Cast:
    most = _EXACT_BELOW[goal]
    return Cast(
        lambda values: to_float(
            where(pc.and_(pc.greater_equal(values, -most), pc.less_equal(values, most)), values), goal
        ),
        may_fail=True,
    )


_INFINITE_FLOAT: Final = 3.4028235677973366e38
"""From here on a number rounds to a FLOAT's infinity."""


def _double_to_float(_: pa.DataType, goal: pa.DataType) -> Cast:
    return Cast(lambda values: to_float(where(pc.less(pc.abs(values), _INFINITE_FLOAT), values), goal), may_fail=True)


def read_utf8(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as text; NULL if they are not UTF-8."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([None if value is None else _text(value) for value in values.to_pylist()], pa.string())


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


_KINDS: Mapping[tuple[str, str], Callable[[pa.DataType, pa.DataType], Cast]] = {
    **{(source, goal): _number for source in ("int", "bigint", "decimal") for goal in ("int", "bigint", "decimal")},
    **{(source, goal): _whole_to_float for source in ("int", "bigint") for goal in ("float", "double")},
    **{("decimal", goal): _same_back for goal in ("float", "double")},
    **{(source, goal): _same_back for source in ("float", "double") for goal in ("int", "bigint", "decimal")},
    ("int", "double"): _always,
    ("float", "double"): _always,
    ("double", "float"): _double_to_float,
    **{("string", goal): _whole_text for goal in ("int", "bigint")},
    **{("string", goal): _float_number for goal in ("float", "double")},
    ("string", "decimal"): _decimal_text,
    ("string", "date"): lambda _, __: Cast(read_dates, may_fail=True),
    ("string", "timestamp_ntz"): lambda _, __: Cast(read_clocks, may_fail=True),
    ("string", "binary"): _always,
    ("binary", "string"): lambda _, __: Cast(read_utf8, may_fail=True),
    ("date", "timestamp_ntz"): _always,
    ("timestamp_ntz", "date"): lambda _, __: Cast(midnights, may_fail=True),
}
"""A cast for each pair of types that one value can have, by their names in Spark."""

_ZONED: Mapping[tuple[MySQLType, MySQLType], Callable[[pa.Array, str], pa.Array]] = {
    (MySQLType.DATETIME, MySQLType.TIMESTAMP): instant,
    (MySQLType.TIMESTAMP, MySQLType.DATETIME): local_clock,
}


# Names of ENUM and SET


def _enum_names(names: tuple[str, ...]) -> Cast:
    texts = pa.array(["", *names], pa.string())

    def step(indexes: pa.Array) -> pa.Array:
        return texts.take(where(pc.and_(pc.greater_equal(indexes, 0), pc.less_equal(indexes, len(names))), indexes))

    return Cast(step, may_fail=True)


def _enum_index(names: tuple[str, ...]) -> Cast:
    known: dict[str, int] = {}
    for index, name in enumerate(("", *names)):
        known.setdefault(name, index)
    texts, indexes = pa.array(known, pa.string()), pa.array(known.values(), pa.int32())
    return Cast(lambda values: indexes.take(pc.index_in(values, value_set=texts)), may_fail=True)


def _set_names(names: tuple[str, ...]) -> Cast:
    def text(mask: int) -> str | None:
        return set_text(mask, names) if mask >= 0 else None

    return Cast(lambda masks: _each_once(masks, lambda mask: text(int(mask)), pa.string()), may_fail=True)


def _set_mask(names: tuple[str, ...]) -> Cast:
    def mask(text: str) -> int | None:
        parts = set(text.split(","))
        if text and not parts <= set(names):
            return None
        return sum(1 << bit for bit, name in enumerate(names) if name in parts)

    return Cast(lambda texts: _each_once(texts, mask, UNSIGNED_BIGINT), may_fail=True)


def _each_once(values: pa.Array, read: Callable[..., object], type_: pa.DataType) -> pa.Array:
    """What a function makes of values, called once for equal values."""
    encoded = values.dictionary_encode()
    return pa.array([read(value) for value in encoded.dictionary.to_pylist()], type_).take(encoded.indices)


_NAMES: Mapping[tuple[MySQLType, bool], Callable[[tuple[str, ...]], Cast]] = {
    (MySQLType.ENUM, True): _enum_names,
    (MySQLType.ENUM, False): _enum_index,
    (MySQLType.SET, True): _set_names,
    (MySQLType.SET, False): _set_mask,
}
"""Numbers to names, or names to numbers, by the names."""


# The text of values


def family(column: Column, policy: Policy) -> str:
    """The kind of values a column has, as far as conversions are concerned."""
    if policy.keeps_text(column):
        return "text"
    if column.is_binary:
        return "bytes"
    return _FAMILIES.get(column.type, "text")


_FAMILIES: Mapping[MySQLType, str] = {
    **dict.fromkeys(INTEGERS | {MySQLType.BIT}, "whole"),
    **dict.fromkeys(FLOATS, "float"),
    MySQLType.YEAR: "year",
    MySQLType.DECIMAL: "decimal",
    MySQLType.DATE: "date",
    MySQLType.NEWDATE: "date",
    MySQLType.DATETIME: "datetime",
    MySQLType.TIMESTAMP: "timestamp",
    MySQLType.TIME: "time",
    MySQLType.ENUM: "enum",
    MySQLType.SET: "set",
    MySQLType.VECTOR: "vector",
}


def text_of(values: pa.Array, column: Column, policy: Policy = Policy()) -> pa.StringArray:
    """MySQL's text of a column's values; NULL for bytes that are not UTF-8."""
    return _TEXTS[family(column, policy)](values, column, policy)


def _vector_text(values: pa.ListArray, _: Column, __: Policy) -> pa.StringArray:
    ends = pc.cumulative_sum(pc.fill_null(pc.list_value_length(values), 0))
    numbers = plain_float_text(values.flatten())
    lists = pa.ListArray.from_arrays(pa.concat_arrays([pa.array([0], ends.type), ends]), numbers)
    texts = pc.binary_join_element_wise("[", pc.binary_join(lists, ","), "]", "")
    return where(values.is_valid(), texts)


_TEXTS: Mapping[str, Callable[[pa.Array, Column, Policy], pa.StringArray]] = {
    **dict.fromkeys(("text", "whole", "decimal", "date", "enum", "set"), lambda values, _, __: number_text(values)),
    "year": lambda values, _, __: pc.utf8_lpad(number_text(values), 4, "0"),
    "float": lambda values, _, __: float_text(values),
    "bytes": lambda values, _, __: read_utf8(values),
    "datetime": lambda values, column, _: clock_text(values, column.decimal),
    "timestamp": lambda values, column, policy: clock_text(local_clock(values, policy.time_zone), column.decimal),
    "time": lambda values, column, _: time_text(values, column.decimal),
    "vector": _vector_text,
}


# Defaults


def default_value(text: str | bytes | None, column: Column, policy: Policy = Policy()) -> pa.Scalar:
    """A default, as a column's schema keeps it, as a value of the column; ``None`` is NULL.

    The text is read as a value on the wire is: a TIMESTAMP is in the server's time zone, and the policy decides about
    a date that the calendar does not have. Raises SyncError if the text is not a value of the column.

    >>> default_value("7", Column.of("n", "int"))
    <pyarrow.Int32Scalar: 7>
    """
    type_ = policy.type_of(column)
    if text is None:
        return pa.scalar(None, type_)
    try:
        if isinstance(text, bytes) or (column.type in ENUM_SET and column.elements):
            return pa.scalar(text, type_)
        return scalar_of_text(text, column, policy)
    except READ_ERRORS as error:
        raise SyncError(f"column {column.name}: {text!r} is not a value of {column.mysql_type}: {error}") from error
