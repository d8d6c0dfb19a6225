"""SQL values inside an expression: what columns hold, how strings compare, and how one kind of value becomes another.

Numbers are ``int``, ``Decimal`` and ``float``, NULL is ``None``, truth is 1 and 0, binary strings are ``bytes``, dates
and times the model's own. Text carries its collation; ENUM, SET and hexadecimal literals are a text and a number.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from tidewire.codec.gotext import plain_number
from tidewire.model import Column, Date, DateTime, EnumValue, MySQLType, SetValue, Time, Value
from tidewire.model.values import enum_text, set_text

BINARY = "binary"
DEFAULT = "utf8mb4_bin"
"""TiDB's default collation: that of literals, and of columns whose collation is unknown."""


def ignores_case(collation: str) -> bool:
    """Is ``a`` the same as ``A``?"""
    return collation.endswith("_ci")


def folded(text: str, collation: str) -> str:
    """A text in the form its collation compares: without case or accents if the collation ignores them."""
    if not ignores_case(collation):
        return text
    return text.casefold() if collation.endswith("_as_ci") else _without_marks(text).casefold()


def sort_key(text: str, collation: str) -> str:
    """The key to compare a text by. Most collations ignore spaces at the end.

    >>> sort_key("Café ", "utf8mb4_general_ci") == sort_key("CAFE", "utf8mb4_general_ci")
    True
    """
    counts_spaces = collation == BINARY or "_0900_" in collation
    return folded(text if counts_spaces else text.rstrip(" "), collation)


def _without_marks(text: str) -> str:
    if text.isascii():
        return text
    return "".join(letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter))


@dataclass(frozen=True, slots=True)
class Text:
    """A string of characters. ``explicit``: the collation is a column's or the user's, not a literal's."""

    text: str
    collation: str = DEFAULT
    explicit: bool = False


@dataclass(frozen=True, slots=True)
class Numbered:
    """A value that is text among texts and a number among numbers: ENUM, SET, a hexadecimal literal."""

    number: int
    text: Text | bytes


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON value, parsed; fractions are ``float``."""

    value: Any


Number: TypeAlias = int | Decimal | float
Temporal: TypeAlias = Date | DateTime | Time
Sql: TypeAlias = Number | Text | bytes | Numbered | Temporal | Json | None
Function: TypeAlias = Callable[..., Sql]


def from_column(value: Value, column: Column) -> Sql:
    """A column's value as a value of an expression."""
    collation = column.collation or (BINARY if column.is_binary else DEFAULT)
    match value:
        case EnumValue(index, text):
            known = enum_text(index, column.elements) if text is None else text
            return Numbered(index, Text(known or "", collation, explicit=True))
        case SetValue(index, text):
            known = set_text(index, column.elements) if text is None else text
            return Numbered(index, Text(known or "", collation, explicit=True))
        case str() if column.type is MySQLType.JSON:
            return _document(value)
        case str():
            return Text(value, collation, explicit=True)
        case _:
            return value


def _document(text: str) -> Sql:
    try:
        return Json(json.loads(text))
    except ValueError:
        return Text(text)


def text_of(value: Sql) -> Text:
    """A value as a string; not for NULL."""
    match value:
        case Text():
            return value
        case bytes():
            return Text(value.decode("utf-8", "surrogateescape"), BINARY, explicit=True)
        case Numbered(_, text):
            return text_of(text)
        case Json():
            return Text(json_text(value.value))
        case float():
            return Text(plain_number(value))
        case Decimal():
            return Text(format(value, "f"))
        case _:
            return Text(str(value))


def json_text(value: Any) -> str:
    """A JSON value as MySQL prints it."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


_NUMBER = re.compile(r"\s*([+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)")


_LARGEST_EXPONENT = 308
_LARGEST = Decimal("1.7976931348623157e308")


def number_of(value: Sql) -> Number:
    """A value as a number; not for NULL. Of a text, the number it begins with counts; without one it is 0."""
    match value:
        case int() | float() | Decimal():
            return value
        case Numbered(number, _):
            return number
        case Date() | DateTime() | Time():
            return _temporal_number(value.text)
        case Json(bool() | int() | float() as number):
            return int(number) if isinstance(number, bool) else number
        case Json(str() as text):
            return _text_number(text)
        case Json() | None:
            return 0
        case _:
            return _text_number(text_of(value).text)


def _text_number(text: str) -> Number:
    found = _NUMBER.match(text)
    number = Decimal(found[1]) if found else Decimal(0)
    return number if abs(number.adjusted()) < _LARGEST_EXPONENT else Decimal(0) if number.adjusted() < 0 else _LARGEST


def _temporal_number(text: str) -> Number:
    """``2024-01-02 03:04:05`` counts as 20240102030405."""
    digits = re.sub(r"[^\d.]", "", text)
    number = Decimal(digits) if "." in digits else int(digits or 0)
    return -number if text.startswith("-") else number


def truth(value: Sql) -> bool | None:
    """Is a value true? ``None`` if it is unknown."""
    return None if value is None else number_of(value) != 0


def boolean(value: bool | None) -> int | None:
    """Truth as a SQL value."""
    return None if value is None else int(value)
