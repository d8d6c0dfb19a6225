"""Wire values and defaults as their table is declared, in SQL.

What a protocol does not tell is staged as the wire has it: the text of a DECIMAL, the index of an ENUM, the mask of a
SET. The expressions here make of it what ``tidewire.arrow.declare`` makes of whole columns. They never raise: a value
that does not fit gives NULL, and :func:`misfit_sql` tells it from one that was NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from tidewire.arrow.convert import text_reader
from tidewire.arrow.policy import Policy
from tidewire.arrow.types import engines
from tidewire.errors import SyncError
from tidewire.model import Column, MySQLType
from tidewire.model.types import NUMBERED
from tidewire.spark.apply.conversions import instant_sql, local_sql, text_sql
from tidewire.spark.targets.base import text_literal

Template: TypeAlias = Callable[[str], str]
"""An expression around another one."""


class Cast(NamedTuple):
    """How a value is cast, and when that gives NULL because it does not fit; no ``misfit`` if it always fits.

    If the cast is not ``possible``, no value fits but NULL.
    """

    value: Template
    misfit: Template | None = None
    possible: bool = True


def spark_type(column: Column, policy: Policy = Policy()) -> str:
    """What a column's type is called in Spark."""
    return engines(policy.type_of(column)).spark


def cast_sql(expr: str, wire: Column, declared: Column, policy: Policy = Policy()) -> str:
    """The value of a staged column in the type its table declares.

    >>> cast_sql("x", Column.of("c", "decimal"), Column.of("c", "decimal(10,2)"))
    'try_cast(x AS decimal(10,2))'
    """
    return _cast(wire, declared, policy).value(expr)


def misfit_sql(expr: str, wire: Column, declared: Column, policy: Policy = Policy()) -> str | None:
    """Is the value one that the declared type cannot hold? ``None`` where every value fits."""
    misfit = _cast(wire, declared, policy).misfit
    return None if misfit is None else misfit(expr)


def may_fail(wire: Column, declared: Column, policy: Policy = Policy()) -> bool:
    """Can there be a value on the wire that the declared type cannot hold?"""
    return _cast(wire, declared, policy).misfit is not None


def can_cast(wire: Column, declared: Column, policy: Policy = Policy()) -> bool:
    """Is there a value on the wire, other than NULL, that the declared type can hold?"""
    return _cast(wire, declared, policy).possible


def _cast(wire: Column, declared: Column, policy: Policy) -> Cast:
    if declared.type in NUMBERED and wire.type is declared.type and bool(wire.elements) != bool(declared.elements):
        return _NUMBERED[declared.type, bool(declared.elements)](declared if declared.elements else wire)
    source, goal = policy.type_of(wire), policy.type_of(declared)
    if source == goal:
        return Cast(lambda expr: expr)
    if goal == pa.string() and source != pa.binary():
        return Cast(lambda expr: text_sql(expr, wire, policy))
    zoned = _ZONED.get((wire.type, declared.type))
    if zoned is not None and not policy.keeps_text(declared):
        return Cast(lambda expr: zoned(expr, policy))
    make = _KINDS.get((_kind(source), _kind(goal)), _impossible)
    return make(source, goal)


def _kind(type_: pa.DataType) -> str:
    return "decimal" if pa.types.is_decimal(type_) else engines(type_).spark


def _name(type_: pa.DataType) -> str:
    return engines(type_).spark


def _impossible(_: pa.DataType, goal: pa.DataType) -> Cast:
    return Cast(lambda expr: f"CAST(NULL AS {_name(goal)})", lambda expr: f"{expr} IS NOT NULL", False)


def _safe(_: pa.DataType, goal: pa.DataType) -> Cast:
    return Cast(lambda expr: f"CAST({expr} AS {_name(goal)})")


def _parsed(_: pa.DataType, goal: pa.DataType) -> Cast:
    def value(expr: str) -> str:
        return f"try_cast({expr} AS {_name(goal)})"

    return Cast(value, lambda expr: f"{expr} IS NOT NULL AND {value(expr)} IS NULL")


def _exact(source: pa.DataType, goal: pa.DataType) -> Cast:
    """A cast that counts only if the value is the same on the way back."""

    def value(expr: str) -> str:
        return f"try_cast({expr} AS {_name(goal)})"

    def misfit(expr: str) -> str:
        return f"{expr} IS NOT NULL AND NOT coalesce(try_cast({value(expr)} AS {_name(source)}) = {expr}, false)"

    return Cast(value, misfit)


_WHOLE_DIGITS: Mapping[pa.DataType, int] = {pa.int32(): 10, pa.int64(): 19}


def _number(source: pa.DataType, goal: pa.DataType) -> Cast:
    """Whole and decimal numbers; where the goal has room for all digits nothing can go wrong."""
    if pa.types.is_decimal(goal):
        scale = source.scale if pa.types.is_decimal(source) else 0
        whole = source.precision - scale if pa.types.is_decimal(source) else _WHOLE_DIGITS[source]
        if goal.scale >= scale and goal.precision - goal.scale >= whole:
            return _safe(source, goal)
    return _safe(source, goal) if (source, goal) == (pa.int32(), pa.int64()) else _exact(source, goal)


def _decimal_text(_: pa.DataType, goal: pa.DataType) -> Cast:
    """Spark rounds the text of a number to the scale; a digit that this loses does not fit."""
    parsed = _parsed(_, goal)
    assert parsed.misfit is not None
    unread = parsed.misfit

    def misfit(expr: str) -> str:
        digits = f"length(rtrim('0', {expr})) - instr({expr}, '.')"
        return f"({unread(expr)}) OR (instr({expr}, '.') > 0 AND {digits} > {goal.scale})"

    return Cast(parsed.value, misfit)


_EXACT_BELOW: Mapping[pa.DataType, int] = {pa.float32(): 2**24, pa.float64(): 2**53}
"""Up to here a floating-point type holds every whole number."""


def _rounding(_: pa.DataType, goal: pa.DataType) -> Cast:
    most = _EXACT_BELOW[goal]
    return Cast(lambda expr: f"CAST({expr} AS {_name(goal)})", lambda expr: f"{expr} NOT BETWEEN -{most} AND {most}")


def _float(_: pa.DataType, __: pa.DataType) -> Cast:
    return Cast(
        lambda expr: f"CAST({expr} AS float)", lambda expr: f"isnotnull({expr}) AND abs({expr}) > {_MOST_FLOAT}"
    )


_MOST_FLOAT = "3.4028235677973366E38D"
"""From here on a number rounds to a FLOAT's infinity."""


def _utf8(_: pa.DataType, __: pa.DataType) -> Cast:
    return Cast(
        lambda expr: f"try_validate_utf8(CAST({expr} AS string))",
        lambda expr: f"NOT is_valid_utf8(CAST({expr} AS string))",
    )


_KINDS: Mapping[tuple[str, str], Callable[[pa.DataType, pa.DataType], Cast]] = {
    **{(source, goal): _number for source in ("int", "bigint", "decimal") for goal in ("int", "bigint", "decimal")},
    **{(source, goal): _rounding for source in ("int", "bigint") for goal in ("float", "double")},
    **{("decimal", goal): _exact for goal in ("float", "double")},
    **{(source, goal): _exact for source in ("float", "double") for goal in ("int", "bigint", "decimal")},
    ("int", "double"): _safe,
    ("float", "double"): _safe,
    ("double", "float"): _float,
    **{("string", goal): _parsed for goal in ("int", "bigint", "float", "double", "date", "timestamp_ntz")},
    ("string", "decimal"): _decimal_text,
    ("string", "binary"): _safe,
    ("binary", "string"): _utf8,
    ("date", "timestamp_ntz"): _safe,
    ("timestamp_ntz", "date"): _exact,
}
"""A cast for each pair of Spark types that one value can have."""

_ZONED: Mapping[tuple[MySQLType, MySQLType], Callable[[str, Policy], str]] = {
    (MySQLType.DATETIME, MySQLType.TIMESTAMP): instant_sql,
    (MySQLType.TIMESTAMP, MySQLType.DATETIME): local_sql,
}


def names_sql(column: Column) -> str:
    """The names of an ENUM or SET as an array."""
    return f"array({', '.join(map(text_literal, column.elements))})"


def _enum_names(column: Column) -> Cast:
    return Cast(
        lambda expr: f"CASE {expr} WHEN 0 THEN '' ELSE get({names_sql(column)}, {expr} - 1) END",
        lambda expr: f"{expr} NOT BETWEEN 0 AND {len(column.elements)}",
    )


def _enum_index(column: Column) -> Cast:
    def value(expr: str) -> str:
        return (
            f"CAST(CASE {expr} WHEN '' THEN 0 ELSE nullif(array_position({names_sql(column)}, {expr}), 0) END AS int)"
        )

    return Cast(value, lambda expr: f"{expr} IS NOT NULL AND {value(expr)} IS NULL")


def _set_names(column: Column) -> Cast:
    most = 2 ** len(column.elements) - 1

    def value(expr: str) -> str:
        # The highest of 64 bits is the sign of a bigint.
        bits = f"CAST(IF({expr} > 9223372036854775807, {expr} - 18446744073709551616, {expr}) AS bigint)"
        named = f"transform({names_sql(column)}, (name, bit) -> IF(getbit({bits}, bit) = 1, name, NULL))"
        return f"CASE WHEN {expr} BETWEEN 0 AND {most} THEN concat_ws(',', {named}) END"

    return Cast(value, lambda expr: f"{expr} NOT BETWEEN 0 AND {most}")


def _set_mask(column: Column) -> Cast:
    def value(expr: str) -> str:
        bits = " + ".join(
            f"IF(array_contains(split({expr}, ','), {text_literal(name)}), {2**bit}, 0)"
            for bit, name in enumerate(column.elements)
        )
        return f"CASE WHEN {expr} IS NOT NULL THEN CAST({bits} AS decimal(20,0)) END"

    known = names_sql(column)
    return Cast(value, lambda expr: f"{expr} <> '' AND size(array_except(split({expr}, ','), {known})) > 0")


_NUMBERED: Mapping[tuple[MySQLType, bool], Callable[[Column], Cast]] = {
    (MySQLType.ENUM, True): _enum_names,
    (MySQLType.ENUM, False): _enum_index,
    (MySQLType.SET, True): _set_names,
    (MySQLType.SET, False): _set_mask,
}
"""Numbers to names, or names to numbers, by the column that has the names."""


# Defaults


def literal_sql(text: str | bytes | None, column: Column, policy: Policy = Policy()) -> str:
    """A default, as a column's schema keeps it, in the column's Spark type; ``None`` is NULL.

    The text is read as a value on the wire is: a TIMESTAMP is in the server's time zone, a date that the calendar does
    not have is what the policy says.

    >>> literal_sql("7", Column.of("n", "int"))
    "CAST('7' AS int)"
    """
    type_ = policy.type_of(column)
    value = None if text is None else _default(text, column, policy)
    if value is None:
        return f"CAST(NULL AS {engines(type_).spark})"
    return _LITERALS.get(type_, _literal)(value, type_)


def _default(text: str | bytes, column: Column, policy: Policy) -> Any:
    if isinstance(text, bytes):
        return text
    if column.type in NUMBERED and column.elements:
        return text
    try:
        read = text_reader(column, policy)([text])
    except (ValueError, pa.ArrowException) as error:
        raise SyncError(f"column {column.name}: {text!r} is not a value of {column.mysql_type}: {error}") from error
    # Numbers of microseconds and days, which hold what Python's own types do not.
    plain = {"timestamp": pa.int64(), "date32": pa.int32()}
    for name, number in plain.items():
        if str(read.type).startswith(name):
            read = read.cast(number)
    return read[0].as_py()


def _literal(value: Any, type_: pa.DataType) -> str:
    return f"CAST('{value}' AS {engines(type_).spark})"


_LITERALS: Mapping[pa.DataType, Callable[[Any, pa.DataType], str]] = {
    pa.string(): lambda value, _: text_literal(value),
    pa.binary(): lambda value, _: f"X'{value.hex()}'",
    pa.date32(): lambda value, _: f"date_from_unix_date({value})",
    pa.timestamp("us"): lambda value, _: f"timestampadd(MICROSECOND, {value}, TIMESTAMP_NTZ '1970-01-01 00:00:00')",
    pa.timestamp("us", "UTC"): lambda value, _: f"timestamp_micros({value})",
    pa.list_(pa.float32()): lambda value, _: (
        f"CAST(array({', '.join(f'{number!r}D' for number in value)}) AS array<float>)"
    ),
}
"""Types whose values have another literal than their text, cast."""
