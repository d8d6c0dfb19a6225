"""Columns as a snapshot selects them, and the answers as exact values.

A session answers in UTF-8 and UTC. What its plain answer would lose is asked for in another way: a FLOAT as a double,
an ENUM, a SET and a BIT as their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from decimal import Decimal
from typing import TypeAlias

from tidewire.changefeed.source.mysql.temporal import timestamp_in_zone
from tidewire.ddl.quoting import quoted
from tidewire.model import Column, Date, DateTime, EnumValue, MySQLType, SetValue, TableName, Time, Value
from tidewire.model.types import INTEGERS
from tidewire.model.values import enum_text, set_text

Form: TypeAlias = Callable[[bytes, Column, tzinfo], Value]

_ASKED_AS_TEXT: Mapping[MySQLType, str] = dict.fromkeys((MySQLType.FLOAT, MySQLType.DOUBLE), "{} + 0e0")

_ASKED: Mapping[MySQLType, str] = {
    **_ASKED_AS_TEXT,
    **dict.fromkeys((MySQLType.ENUM, MySQLType.SET, MySQLType.BIT), "CAST({} AS UNSIGNED)"),
}


def full_name(name: TableName) -> str:
    """A table's name, with its database, as SQL writes it."""
    return quoted(*name)


def asked(column: Column) -> str:
    """What to select to get a column's value whole."""
    return _ASKED.get(column.type, "{}").format(quoted(column.name))


def asked_as_text(column: Column) -> str:
    """What to select to get a column's value as text that loses nothing: names of an ENUM or SET, bytes of a BIT."""
    return _ASKED_AS_TEXT.get(column.type, "{}").format(quoted(column.name))


def answer(raw: bytes | None, column: Column, zone: tzinfo) -> Value:
    """The value in an answer."""
    return None if raw is None else _FORMS.get(column.type, _text)(raw, column, zone)


def _text(raw: bytes, column: Column, zone: tzinfo) -> Value:
    return raw if column.is_binary else raw.decode()


def _enum(raw: bytes, column: Column, zone: tzinfo) -> Value:
    return EnumValue(int(raw), enum_text(int(raw), column.elements))


def _set(raw: bytes, column: Column, zone: tzinfo) -> Value:
    return SetValue(int(raw), set_text(int(raw), column.elements))


_FORMS: Mapping[MySQLType, Form] = {
    **dict.fromkeys((*INTEGERS, MySQLType.YEAR, MySQLType.BIT), lambda raw, column, zone: int(raw)),
    **dict.fromkeys((MySQLType.FLOAT, MySQLType.DOUBLE), lambda raw, column, zone: float(raw)),
    MySQLType.DECIMAL: lambda raw, column, zone: Decimal(raw.decode()),
    MySQLType.DATE: lambda raw, column, zone: Date(raw.decode()),
    MySQLType.TIME: lambda raw, column, zone: Time(raw.decode()),
    MySQLType.DATETIME: lambda raw, column, zone: DateTime(raw.decode()),
    MySQLType.TIMESTAMP: lambda raw, column, zone: timestamp_in_zone(raw.decode(), zone),
    MySQLType.ENUM: _enum,
    MySQLType.SET: _set,
}
