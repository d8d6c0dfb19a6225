"""How Canal-JSON names types and prints values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from tidewire.codec.gotext import plain_decimal, plain_integer, plain_number
from tidewire.model import Column, JavaSQLType, MySQLType, Value
from tidewire.model.types import ENUM_SET, FACTS, FLOATS, INTEGERS, STRINGS, TEMPORAL, TEXTS, default_length

PROTOCOL: Final = "canal-json"
WATERMARK_TYPE: Final = "TIDB_WATERMARK"

WIDER: Mapping[MySQLType, tuple[int, JavaSQLType]] = {
    MySQLType.TINYINT: (0x7F, JavaSQLType.SMALLINT),
    MySQLType.SMALLINT: (0x7FFF, JavaSQLType.INTEGER),
    MySQLType.INT: (0x7FFFFFFF, JavaSQLType.BIGINT),
    MySQLType.BIGINT: (0x7FFFFFFFFFFFFFFF, JavaSQLType.DECIMAL),
}
"""The largest value the Java type of an unsigned column holds, and the type that holds the larger ones."""


def java_type(column: Column, value: Value) -> JavaSQLType:
    """``sqlType`` of a column; for unsigned integers it depends on the value."""
    if column.is_binary:
        return JavaSQLType.BLOB
    if column.unsigned and isinstance(value, int) and column.type in WIDER:
        limit, wider = WIDER[column.type]
        if value > limit:
            return wider
    return FACTS[column.type].java


def full_type(column: Column) -> str:
    """``mysqlType`` as official Canal has it: with parameters, those of MySQL where none were declared."""
    if column.length is None and column.type not in FLOATS:
        column = replace(column, length=default_length(column.type, column.unsigned))
    return column.mysql_type


def value_text(column: Column, value: Any) -> str | bytes:
    """A value as the text inside the JSON string; bytes are text that is not UTF-8."""
    return _TEXTS[column.type](column, value)


def _text(value: Any) -> str | bytes:
    if not isinstance(value, str | bytes):
        raise TypeError("text was expected")
    return value


def _string(column: Column, value: Any) -> str | bytes:
    if not column.is_binary:
        return _text(value)
    return (value.encode() if isinstance(value, str) else value).decode("latin-1")


_TEXTS: Mapping[MySQLType, Callable[[Column, Any], str | bytes]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, lambda _, value: plain_integer(value)),
    **dict.fromkeys(FLOATS, lambda column, value: plain_number(value, single=column.type is MySQLType.FLOAT)),
    **dict.fromkeys(ENUM_SET, lambda _, value: plain_integer(value.index, signed=False)),
    **dict.fromkeys(TEMPORAL, lambda _, value: str(value.text)),
    **dict.fromkeys(TEXTS, lambda _, value: _text(value)),
    **dict.fromkeys(STRINGS, _string),
    MySQLType.BIT: lambda _, value: plain_integer(value, signed=False),
    MySQLType.DECIMAL: lambda _, value: plain_decimal(value),
}
