"""Typed columns back to the model's values: what a table holds, in MySQL's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidewire.codec.gotext import plain_number
from tidewire.model import Column, Date, DateTime, EnumValue, MySQLType, SetValue, Time, Timestamp, Value

ToModel = Callable[[Any], Value]
"""Turns a value that Arrow gives to Python, and that is not NULL, into one of the model."""


class Fractions(StrEnum):
    """How many digits the fraction of a second has if the column does not declare it.

    If it does, as DATETIME(3), the fraction has the declared digits, whatever is asked for here.
    """

    ALIKE = "alike"
    """As many as the longest fraction of the column's values needs: for display."""
    OWN = "own"
    """As many as the value itself needs, without trailing zeros: its text depends on nothing but the value."""


def model_values(
    values: pa.Array | pa.ChunkedArray,
    column: Column,
    time_zone: str = "UTC",
    *,
    fractions: Fractions = Fractions.ALIKE,
) -> list[Value]:
    """The values of a column; TIMESTAMP in the server's time zone, and a DECIMAL that is text in Arrow as that text."""
    listed: list[Any] = values.to_pylist()
    if column.type is MySQLType.DECIMAL:
        return listed
    if column.type in _MICROS and column.decimal is None and fractions is Fractions.ALIKE:
        shown = (_MICROS[column.type](value) for value in listed if value is not None and not isinstance(value, str))
        column = replace(column, decimal=max((len(f"{each:06}".rstrip("0")) for each in shown), default=0))
    convert = to_model(column, time_zone)
    return [None if value is None else convert(value) for value in listed]


def to_model(column: Column, time_zone: str = "UTC") -> ToModel:
    """How a column's values become those of the model.

    The fraction of a second has the digits that the column declares, or as many as the value needs. Dates that a policy
    kept as text stay as they are, and so do indexes of an ENUM or SET whose names are not known.
    """
    build = _BUILDERS.get(column.type)
    return _same if build is None else build(column, time_zone)


def _same(value: Any) -> Value:
    found: Value = value
    return found


def _decimal(_: Column, __: str) -> ToModel:
    return lambda value: Decimal(value) if isinstance(value, str) else value


def _kept(wrap: Callable[[str], Value], convert: ToModel) -> ToModel:
    """Dates, which may be text."""
    return lambda value: wrap(value) if isinstance(value, str) else convert(value)


def _date(_: Column, __: str) -> ToModel:
    return _kept(Date, lambda value: Date(value.isoformat()))


def _datetime(column: Column, _: str) -> ToModel:
    return _kept(DateTime, lambda value: DateTime(_clock(value, column)))


def _timestamp(column: Column, time_zone: str) -> ToModel:
    zone = ZoneInfo(time_zone)
    return _kept(Timestamp, lambda value: Timestamp(_clock(value.astimezone(zone), column)))


def _clock(value: datetime, column: Column) -> str:
    return value.replace(microsecond=0, tzinfo=None).isoformat(" ") + _fraction(value.microsecond, column)


def _fraction(micros: int, column: Column) -> str:
    """The fraction of a second with its point: the column's digits, or those the value needs if it has none."""
    if column.decimal is None:
        return f".{micros:06}".rstrip("0").rstrip(".")
    return f".{micros:06}"[: column.decimal + 1] if column.decimal else ""


def _time(column: Column, _: str) -> ToModel:
    def convert(value: int) -> Value:
        seconds, micros = divmod(abs(value), 1_000_000)
        minutes, second = divmod(seconds, 60)
        hours, minute = divmod(minutes, 60)
        return Time(f"{'-' * (value < 0)}{hours:02}:{minute:02}:{second:02}{_fraction(micros, column)}")

    return convert


def _integer(_: Column, __: str) -> ToModel:
    return int


def _vector(_: Column, __: str) -> ToModel:
    return lambda value: f"[{','.join(plain_number(number, single=True) for number in value)}]"


def _enum(column: Column, _: str) -> ToModel:
    # The empty text is the error value, unless the column has an empty name.
    indexes = {name: index for index, name in enumerate(("", *column.elements))}
    return lambda value: EnumValue(indexes[value], value) if isinstance(value, str) else EnumValue(int(value))


def _set(column: Column, _: str) -> ToModel:
    bits = {name: 1 << bit for bit, name in enumerate(column.elements)}

    def convert(value: Any) -> Value:
        if not isinstance(value, str):
            return SetValue(int(value))
        return SetValue(sum(bits[name] for name in value.split(",") if name), value)

    return convert


_MICROS: Mapping[MySQLType, Callable[[Any], int]] = {
    MySQLType.DATETIME: lambda value: value.microsecond,
    MySQLType.TIMESTAMP: lambda value: value.microsecond,
    MySQLType.TIME: lambda value: abs(value) % 1_000_000,
}
"""The fraction of a second in a stored value, in microseconds."""

_BUILDERS: Mapping[MySQLType, Callable[[Column, str], ToModel]] = {
    MySQLType.BIGINT: _integer,
    MySQLType.BIT: _integer,
    MySQLType.DECIMAL: _decimal,
    MySQLType.DATE: _date,
    MySQLType.NEWDATE: _date,
    MySQLType.DATETIME: _datetime,
    MySQLType.TIMESTAMP: _timestamp,
    MySQLType.TIME: _time,
    MySQLType.ENUM: _enum,
    MySQLType.SET: _set,
    MySQLType.VECTOR: _vector,
}
"""Types that are not listed are the same in Arrow and in the model."""
