"""Avro values to column values, by the column's type and the Avro type that carries it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from tidewire.codec.avro.wire import AvroType, unsigned
from tidewire.model import Column, EnumValue, MySQLType, SetValue, Value, grammar
from tidewire.model.types import TEMPORAL, TEXTS

ValueReader: TypeAlias = Callable[[Column, Any], Value]

MAX_DIGITS = 65
"""The most digits MySQL's DECIMAL has."""

_MAX_DECIMAL = 10**MAX_DIGITS
_MAX_DECIMAL_BYTES = (_MAX_DECIMAL.bit_length() + 8) // 8
_MAX_BIT_BYTES = 8


def _bigint(column: Column, raw: int) -> int:
    return grammar.integer(column, unsigned(raw) if column.unsigned else raw)


def _decimal(column: Column, raw: bytes) -> Decimal:
    if not 0 < len(raw) <= _MAX_DECIMAL_BYTES:
        raise ValueError(f"{len(raw)} bytes are no DECIMAL")
    unscaled = int.from_bytes(raw, "big", signed=True)
    if abs(unscaled) >= _MAX_DECIMAL:
        raise ValueError(f"more than {MAX_DIGITS} digits")
    sign, digits, _ = Decimal(unscaled).as_tuple()
    return Decimal((sign, digits, -(column.decimal or 0)))


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
    try:
        number = int(grammar.INTEGER.check(text))
    except ValueError:
        number = -1
    if not 0 <= number <= highest:
        raise ValueError(f"{grammar.shown(text)} is not one of the allowed names")
    return number


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None


def _of_text(column: Column, raw: bytes) -> Value:
    return grammar.read_text(column, _text(raw))


READERS: Mapping[tuple[MySQLType, AvroType], ValueReader] = {
    (MySQLType.INT, "int"): grammar.integer,
    (MySQLType.INT, "long"): grammar.integer,
    (MySQLType.BIGINT, "long"): _bigint,
    (MySQLType.BIGINT, "string"): _of_text,
    (MySQLType.YEAR, "int"): grammar.integer,
    (MySQLType.FLOAT, "float"): grammar.floating,
    (MySQLType.FLOAT, "double"): grammar.floating,  # from servers before 6.5.2
    (MySQLType.DOUBLE, "double"): grammar.floating,
    (MySQLType.DECIMAL, "bytes"): _decimal,
    (MySQLType.BIT, "bytes"): _bit,
    (MySQLType.VARCHAR, "string"): _string,
    (MySQLType.LONGBLOB, "bytes"): lambda _, raw: bytes(raw),
    (MySQLType.ENUM, "string"): _enum,
    (MySQLType.SET, "string"): _set,
    **{(type_, "string"): _of_text for type_ in (MySQLType.DECIMAL, *TEXTS, *TEMPORAL - {MySQLType.NEWDATE})},
}
