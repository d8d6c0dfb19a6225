"""How MySQL's values read as text: one form and one range per type.

A protocol states only where it differs: Open Protocol sends numbers as JSON numbers, Avro sends bytes. Every codec
reads texts here, and a batch decoder takes no text that is not of these forms. What it does not take the codec reads.

==================  =====================================================================  ====================
type                text                                                                   range
==================  =====================================================================  ====================
integers            ``-?`` and up to 20 digits; ``-0`` is 0                                the type's
YEAR                as an integer                                                          0 to 2155
BIT, SET            as an integer                                                          unsigned, 64 bits
ENUM                as an integer                                                          unsigned, 64 bits
DECIMAL             ``-?`` digits, and perhaps a point and digits                          none
FLOAT, DOUBLE       a sign, digits with a point anywhere, an exponent; all but digits
                    may be missing                                                         finite in the type
DATE                ``YYYY-MM-DD``, month 00 to 12, day 00 to 31                           the form's
DATETIME,           a DATE, a space, ``hh:mm:ss`` of a day, up to 6 digits of a second     the form's
TIMESTAMP
TIME                ``-?``, 1 to 3 digits of hours, ``:mm:ss``, up to 6 digits             the form's
VECTOR              numbers as of a FLOAT in brackets, with commas and perhaps a blank     each finite in FLOAT
other types         any text in UTF-8
==================  =====================================================================  ====================

A day that its month does not have, and a zero month or day, are of the form of a DATE: MySQL stores them, and a policy
says what becomes of them in a table. So a value of this grammar need not fit a table: nor do a number that is beyond
the names of an ENUM or SET, and a DECIMAL of more digits than its column declares.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from tidewire.model.table import Column
from tidewire.model.types import FACTS, FLOATS, INTEGERS, MySQLType
from tidewire.model.values import (
    Date,
    DateTime,
    EnumValue,
    SetValue,
    Time,
    Timestamp,
    Value,
    enum_text,
    float32,
    set_text,
)


class Form:
    """What texts of a kind look like. Their ``pattern`` is of whole texts.

    Python's ``re`` and RE2 read it alike, and both in linear time. A text may have ``longest`` characters.
    """

    def __init__(self, what: str, pattern: str, longest: int) -> None:
        self.what, self.pattern, self.longest = what, pattern, longest

    @cached_property
    def _matches(self) -> Callable[[str], object]:
        return re.compile(self.pattern).fullmatch

    def matches(self, text: str) -> bool:
        """Is the text of this form?"""
        return len(text) <= self.longest and self._matches(text) is not None

    def check(self, text: str) -> str:
        """The text; raises ``ValueError`` if it is not of this form."""
        if not self.matches(text):
            raise ValueError(f"{shown(text)} is not {self.what}")
        return text


_DAY: Final = "[0-9]{4}-(0[0-9]|1[0-2])-([0-2][0-9]|3[01])"
_MINUTES: Final = ":[0-5][0-9]:[0-5][0-9]([.][0-9]{1,6})?"
_NUMBER: Final = "[-+]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][-+]?[0-9]+)?"

INTEGER: Final = Form("an integer", "-?[0-9]{1,20}", 21)
DECIMAL: Final = Form("a decimal number", "-?[0-9]+([.][0-9]+)?", 250)
FLOAT: Final = Form("a number", _NUMBER, 1000)
DATE: Final = Form("a date", _DAY, 10)
DATETIME: Final = Form("a date and time", f"{_DAY} ([01][0-9]|2[0-3]){_MINUTES}", 26)
TIME: Final = Form("a time", f"-?[0-9]{{1,3}}{_MINUTES}", 17)
VECTOR: Final = Form("a vector", rf"\[({_NUMBER}(, ?{_NUMBER})*)?\]", 1 << 20)

FORMS: Final[Mapping[MySQLType, Form]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR, MySQLType.BIT, MySQLType.ENUM, MySQLType.SET}, INTEGER),
    **dict.fromkeys(FLOATS, FLOAT),
    MySQLType.DECIMAL: DECIMAL,
    MySQLType.DATE: DATE,
    MySQLType.NEWDATE: DATE,
    MySQLType.DATETIME: DATETIME,
    MySQLType.TIMESTAMP: DATETIME,
    MySQLType.TIME: TIME,
    MySQLType.VECTOR: VECTOR,
}
"""The form of each type's texts. Types that are not listed hold any text."""

_UNSIGNED_64: Final = (0, (1 << 64) - 1)
_RANGES: Final[Mapping[MySQLType, tuple[int, int]]] = {
    MySQLType.YEAR: (0, 2155),
    **dict.fromkeys((MySQLType.BIT, MySQLType.ENUM, MySQLType.SET), _UNSIGNED_64),
}


def integer_range(column: Column) -> tuple[int, int]:
    """The smallest and the largest number of a column of integers, YEAR, BIT, ENUM or SET.

    >>> integer_range(Column.of("age", "tinyint unsigned"))
    (0, 255)
    """
    bits = FACTS[column.type].bits
    if bits is None:
        return _RANGES[column.type]
    return (0, (1 << bits) - 1) if column.unsigned else (-1 << bits - 1, (1 << bits - 1) - 1)


def integer(column: Column, number: Any) -> int:
    """A number that the column holds; ``ValueError`` for any other, and for what is not an integer."""
    low, high = integer_range(column)
    if type(number) is not int or not low <= number <= high:
        kind = "a signed" if low < 0 else "an unsigned"
        bits = f"{kind} {(high - low).bit_length()}-bit integer" if column.type is not MySQLType.YEAR else "a year"
        raise ValueError(f"{shown(number)} is not {bits}")
    return number


def floating(column: Column, number: float) -> float:
    """The number as the column, a FLOAT or DOUBLE, holds it; raises ``ValueError`` if it is infinite or too large."""
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a number that MySQL has" if number != number else "the number is too large")
    if column.type is not MySQLType.FLOAT:
        return number
    try:
        return float32(number)
    except OverflowError:
        raise ValueError(f"{number} is too large for a FLOAT") from None


def decimal(text: str) -> Decimal:
    """The number in a DECIMAL's text."""
    return Decimal(DECIMAL.check(text))


def vector(text: str) -> list[float]:
    """The numbers in a VECTOR's text."""
    try:
        return [float32(float(number)) for number in VECTOR.check(text)[1:-1].split(",") if number]
    except OverflowError:
        raise ValueError(f"{shown(text)} has a number that is too large for a FLOAT") from None


def enum_value(column: Column, index: Any) -> EnumValue:
    """The ENUM's value of this number, with its name where the column's names are known and it is one of them."""
    return EnumValue(integer(column, index), enum_text(index, column.elements) if column.elements else None)


def set_value(column: Column, mask: Any) -> SetValue:
    """The SET's value of this mask, with its names where the column's names are known and it is made of them."""
    return SetValue(integer(column, mask), set_text(mask, column.elements) if column.elements else None)


def utf8(text: str) -> str:
    """Text that can be UTF-8: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{shown(text)} is not UTF-8") from None
    return text


def _integer(column: Column, text: str) -> int:
    return integer(column, _number(text))


def _number(text: str) -> int | str:
    return int(text) if INTEGER.matches(text) else text


def _text(column: Column, text: str) -> str:
    form = FORMS.get(column.type)
    return utf8(text) if form is None else form.check(text)


def _vector(_: Column, text: str) -> str:
    vector(text)
    return text


READERS: Final[Mapping[MySQLType, Callable[[Column, str], Value]]] = {
    **dict.fromkeys(MySQLType, _text),
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR, MySQLType.BIT}, _integer),
    **dict.fromkeys(FLOATS, lambda column, text: floating(column, float(FLOAT.check(text)))),
    MySQLType.DECIMAL: lambda _, text: decimal(text),
    MySQLType.DATE: lambda _, text: Date(DATE.check(text)),
    MySQLType.NEWDATE: lambda _, text: Date(DATE.check(text)),
    MySQLType.DATETIME: lambda _, text: DateTime(DATETIME.check(text)),
    MySQLType.TIMESTAMP: lambda _, text: Timestamp(DATETIME.check(text)),
    MySQLType.TIME: lambda _, text: Time(TIME.check(text)),
    MySQLType.ENUM: lambda column, text: enum_value(column, _number(text)),
    MySQLType.SET: lambda column, text: set_value(column, _number(text)),
    MySQLType.VECTOR: _vector,
}
"""How a value is read from its text, by type."""


def read_text(column: Column, text: str) -> Value:
    """The value behind a text; raises ``ValueError`` if it is not one of the column's type.

    >>> read_text(Column.of("price", "decimal(10,2)"), "1.50")
    Decimal('1.50')
    """
    return READERS[column.type](column, text)


def shown(value: Any) -> str:
    """A value as an error may quote it: short, however large or deep it is."""
    return _SHORT.repr(value)


_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 60
