"""Column values in their canonical plain form.

==========================  ====================================================
NULL                        ``null``
integers, YEAR, BIT         decimal digits as a string
FLOAT, DOUBLE               the shortest text that reads back the same
DECIMAL                     text with the column's scale
dates and times             MySQL's text
ENUM, SET                   ``{"index": n, "text": "a,b"}``; no text where it is not known
text, JSON, VECTOR          a string
binary, text not in UTF-8   ``{"base64": "..."}``
==========================  ====================================================
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from tidewire.codec.gotext import json_number
from tidewire.model import (
    Column,
    Date,
    DateTime,
    EnumValue,
    MySQLType,
    SetValue,
    Temporal,
    Time,
    Timestamp,
    Value,
)
from tidewire.model.types import ENUM_SET, INTEGERS
from tidewire.model.values import float32

Plain: TypeAlias = Any


def value_to_plain(value: Value, column: Column | None = None) -> Plain:
    """A value in canonical form; the column tells a FLOAT from a DOUBLE."""
    match value:
        case None | str():
            return value
        case int():
            return str(value)
        case float() if not math.isfinite(value):
            return str(value)  # TiDB stores none, but Craft's corrupted FLOATs can look like one
        case float():
            return json_number(value, single=column is not None and column.type is MySQLType.FLOAT)
        case Decimal():
            return format(value, "f")
        case bytes():
            return {"base64": base64.b64encode(value).decode()}
        case Temporal():
            return value.text
        case EnumValue(index, text) | SetValue(index, text):
            return {"index": index} if text is None else {"index": index, "text": text}


def _float32(plain: str) -> float:
    return float32(float(plain))


def _numbered(plain: str) -> Value:
    raise ValueError('an object with "index" was expected')


_FROM_TEXT: Mapping[MySQLType, Callable[[str], Value]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR, MySQLType.BIT}, int),
    MySQLType.FLOAT: _float32,
    MySQLType.DOUBLE: float,
    **dict.fromkeys(ENUM_SET, _numbered),
    MySQLType.DECIMAL: Decimal,
    MySQLType.DATE: Date,
    MySQLType.NEWDATE: Date,
    MySQLType.DATETIME: DateTime,
    MySQLType.TIMESTAMP: Timestamp,
    MySQLType.TIME: Time,
}

_FROM_INDEX: Mapping[MySQLType, Callable[[int, str | None], Value]] = {
    MySQLType.ENUM: EnumValue,
    MySQLType.SET: SetValue,
}


def value_from_plain(plain: Plain, column: Column) -> Value:
    """The value of a canonical form; raises ``ValueError`` if it is not one."""
    try:
        match plain:
            case None:
                return None
            case {"base64": str(encoded)}:
                return base64.b64decode(encoded, validate=True)
            case {"index": int(index)}:
                return _FROM_INDEX[column.type](index, plain.get("text"))
            case str():
                return _FROM_TEXT.get(column.type, str)(plain)
            case _:
                raise ValueError("not a canonical value")
    except (ValueError, KeyError, InvalidOperation, OverflowError) as error:
        raise ValueError(f"column {column.name} ({column.mysql_type}): {plain!r} does not fit: {error}") from error
