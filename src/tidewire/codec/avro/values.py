"""Avro values to column values, by the column's type and the Avro type that carries it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from tidewire.codec.avro.wire import AvroType, unsigned
from tidewire.model import Column, Date, DateTime, EnumValue, MySQLType, SetValue, Time, Timestamp, Value
from tidewire.model.values import float32

ValueReader: TypeAlias = Callable[[Column, Any], Value]

MAX_DIGITS = 65
"""The most digits MySQL's DECIMAL has."""

_MAX_DECIMAL = 10**MAX_DIGITS
_MAX_DECIMAL_BYTES = (_MAX_DECIMAL.bit_length() + 8) // 8
_MAX_BIT_BYTES = 8


def _integer(column: Column, raw: int) -> int:
    if column.unsigned and raw < 0:
        raise ValueError(f"{raw} is not unsigned")
    return raw


def _bigint(column: Column, raw: int) -> int:
    return unsigned(raw) if column.unsigned else raw


def _bigint_text(column: Column, raw: bytes) -> int:
    number = int(_matching(_INTEGER, raw))
    low, high = (0, 1 << 64) if column.unsigned else (-1 << 63, 1 << 63)
    if not low <= number < high:
        raise ValueError(f"{number} is not {'an unsigned' if column.unsigned else 'a signed'} 64-bit integer")
    return number


def _float_from_double(_: Column, raw: float) -> float:
    return float32(raw)  # servers before 6.5.2 send FLOAT as an Avro double


def _decimal(column: Column, raw: bytes) -> Decimal:
    if not 0 < len(raw) <= _MAX_DECIMAL_BYTES:
        raise ValueError(f"{len(raw)} bytes are no DECIMAL")
    unscaled = int.from_bytes(raw, "big", signed=True)
    if abs(unscaled) >= _MAX_DECIMAL:
        raise ValueError(f"more than {MAX_DIGITS} digits")
    sign, digits, _ = Decimal(unscaled).as_tuple()
    return Decimal((sign, digits, -(column.decimal or 0)))


def _decimal_text(_: Column, raw: bytes) -> Decimal:
    return Decimal(_matching(_DECIMAL, raw))


def _bit(_: Column, raw: bytes) -> int:
    if not 0 < len(raw) <= _MAX_BIT_BYTES:
        raise ValueError(f"{len(raw)} bytes are no BIT")
    return int.from_bytes(raw, "big")


def _string(_: Column, raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _enum(column: Column, raw: bytes) -> EnumValue:
    text = _text(raw)
    index = _index(text, column)
    if index is not None:
        return EnumValue(index + 1, text)
    return EnumValue(0, "") if text == "" else EnumValue(_number_of(text, len(column.elements)))


def _set(column: Column, raw: bytes) -> SetValue:
    text = _text(raw)
    if text == "":
        return SetValue(0, "")
    mask = 0
    for name in text.split(","):
        index = _index(name, column)
        if index is None:
            return SetValue(_number_of(text, (1 << len(column.elements)) - 1))
        mask |= 1 << index
    return SetValue(mask, text)


def _index(name: str, column: Column) -> int | None:
    """Where a name is among the allowed ones, which the server wrote with fewer quotes than it may have."""
    plainer = name.replace(r"\'", "'").replace("''", "'")
    return column.elements.index(plainer) if plainer in column.elements else None


def _number_of(text: str, highest: int) -> int:
    """The number behind a text that is no known name: servers may send it in place of the name."""
    if _INTEGER.fullmatch(text) is None or not 0 <= (number := int(text)) <= highest:
        raise ValueError(f"{text!r} is none of the allowed names")
    return number


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None


def _matching(pattern: re.Pattern[str], raw: bytes) -> str:
    text = _text(raw)
    if pattern.fullmatch(text) is None:
        raise ValueError(f"{text[:80]!r} is not a number")
    return text


_INTEGER = re.compile(r"-?\d{1,20}", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,100}(\.\d{1,100})?", re.ASCII)

READERS: Mapping[tuple[MySQLType, AvroType], ValueReader] = {
    (MySQLType.INT, "int"): _integer,
    (MySQLType.INT, "long"): _integer,
    (MySQLType.BIGINT, "long"): _bigint,
    (MySQLType.BIGINT, "string"): _bigint_text,
    (MySQLType.YEAR, "int"): _integer,
    (MySQLType.FLOAT, "float"): lambda _, raw: float(raw),
    (MySQLType.FLOAT, "double"): _float_from_double,
    (MySQLType.DOUBLE, "double"): lambda _, raw: float(raw),
    (MySQLType.DECIMAL, "bytes"): _decimal,
    (MySQLType.DECIMAL, "string"): _decimal_text,
    (MySQLType.BIT, "bytes"): _bit,
    (MySQLType.VARCHAR, "string"): _string,
    (MySQLType.LONGBLOB, "bytes"): lambda _, raw: bytes(raw),
    (MySQLType.ENUM, "string"): _enum,
    (MySQLType.SET, "string"): _set,
    (MySQLType.JSON, "string"): lambda _, raw: _text(raw),
    (MySQLType.VECTOR, "string"): lambda _, raw: _text(raw),
    (MySQLType.DATE, "string"): lambda _, raw: Date(_text(raw)),
    (MySQLType.DATETIME, "string"): lambda _, raw: DateTime(_text(raw)),
    (MySQLType.TIMESTAMP, "string"): lambda _, raw: Timestamp(_text(raw)),
    (MySQLType.TIME, "string"): lambda _, raw: Time(_text(raw)),
}
