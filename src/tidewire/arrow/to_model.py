"""Typed columns back to the model's values: what a table holds, in MySQL's words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa

from tidewire.codec.gotext import plain_number
from tidewire.model import Column, Date, DateTime, EnumValue, MySQLType, SetValue, Time, Timestamp, Value

Restorer = Callable[[Any], Value]


class Fractions(StrEnum):
    """How many digits the fraction of a second has if the column does not declare it.

    If it does, as DATETIME(3), the fraction has the declared digits, whatever is asked for here.
    """

    ALIKE = "alike"
    """As many as the longest fraction of the column's values needs: for display."""
    OWN = "own"
    """As many as the value itself needs, without trailing zeros: its text depends on nothing but the value."""


def restored(
    values: pa.Array | pa.ChunkedArray,
    column: Column,
    time_zone: str = "UTC",
    *,
    fractions: Fractions = Fractions.ALIKE,
) -> list[Value]:
    """The values of a column; TIMESTAMP in the server's time zone."""
    listed: list[Any] = values.to_pylist()
    if pa.types.is_string(values.type) and column.type in _TEXTS:
        restore = _TEXTS[column.type](column)
    elif column.type in _RESTORERS:
        if column.type in _MICROS and column.decimal is None and fractions is Fractions.ALIKE:
            column = replace(column, decimal=_digits(map(_MICROS[column.type], filter(None, listed))))
        restore = _RESTORERS[column.type](column, time_zone)
    else:
        return listed
    return [None if value is None else restore(value) for value in listed]


def _digits(micros: Iterable[int]) -> int:
    """How many digits the longest of these fractions needs."""
    return max((len(f"{each:06}".rstrip("0")) for each in micros), default=0)


def _date(_: Column, __: str) -> Restorer:
    def restore(value: date) -> Value:
        return Date(value.isoformat())

    return restore


def _datetime(column: Column, _: str) -> Restorer:
    def restore(value: datetime) -> Value:
        return DateTime(value.replace(microsecond=0).isoformat(" ") + _fraction(value.microsecond, column))

    return restore


def _timestamp(column: Column, time_zone: str) -> Restorer:
    zone = ZoneInfo(time_zone)

    def restore(value: datetime) -> Value:
        local = value.astimezone(zone).replace(tzinfo=None, microsecond=0)
        return Timestamp(local.isoformat(" ") + _fraction(value.microsecond, column))

    return restore


def _fraction(micros: int, column: Column) -> str:
    """The fraction of a second with its point: the column's digits, or those the value needs if it has none."""
    if column.decimal is None:
        return f".{micros:06}".rstrip("0").rstrip(".")
    return f".{micros:06}"[: column.decimal + 1] if column.decimal else ""


def _time(column: Column, _: str) -> Restorer:
    def restore(value: int) -> Value:
        seconds, micros = divmod(abs(value), 1_000_000)
        minutes, second = divmod(seconds, 60)
        hours, minute = divmod(minutes, 60)
        return Time(f"{'-' * (value < 0)}{hours:02}:{minute:02}:{second:02}{_fraction(micros, column)}")

    return restore


def _integer(_: Column, __: str) -> Restorer:
    return int


def _vector(_: Column, __: str) -> Restorer:
    def restore(value: list[float]) -> Value:
        return f"[{','.join(plain_number(number, single=True) for number in value)}]"

    return restore


def _named_enum(column: Column) -> Restorer:
    indexes = {name: index for index, name in enumerate(column.elements, 1)} | {"": 0}
    return lambda text: EnumValue(indexes[text], text)


def _named_set(column: Column) -> Restorer:
    bits = {name: 1 << bit for bit, name in enumerate(column.elements)}
    return lambda text: SetValue(sum(bits[name] for name in text.split(",")) if text else 0, text)


_TEXTS: Mapping[MySQLType, Callable[[Column], Restorer]] = {
    MySQLType.ENUM: _named_enum,
    MySQLType.SET: _named_set,
    MySQLType.DATE: lambda _: Date,
    MySQLType.DATETIME: lambda _: DateTime,
    MySQLType.TIMESTAMP: lambda _: Timestamp,
}
"""Types that can be text in a table: names of an ENUM or SET, and dates where the policy keeps them as text."""

_MICROS: Mapping[MySQLType, Callable[[Any], int]] = {
    MySQLType.DATETIME: lambda value: value.microsecond,
    MySQLType.TIMESTAMP: lambda value: value.microsecond,
    MySQLType.TIME: lambda value: abs(value) % 1_000_000,
}
"""The fraction of a second in a stored value, in microseconds."""

_RESTORERS: Mapping[MySQLType, Callable[[Column, str], Restorer]] = {
    MySQLType.BIGINT: _integer,
    MySQLType.BIT: _integer,
    MySQLType.DATE: _date,
    MySQLType.NEWDATE: _date,
    MySQLType.DATETIME: _datetime,
    MySQLType.TIMESTAMP: _timestamp,
    MySQLType.TIME: _time,
    MySQLType.ENUM: lambda _, __: lambda index: EnumValue(int(index)),
    MySQLType.SET: lambda _, __: lambda mask: SetValue(int(mask)),
    MySQLType.VECTOR: _vector,
}
