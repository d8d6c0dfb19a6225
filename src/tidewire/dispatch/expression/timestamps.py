"""Dates and times, and what reads as one: texts and numbers in the forms MySQL takes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

from tidewire.dispatch.expression.values import Json, Numbered, Sql, number_of, text_of
from tidewire.model import Date, DateTime, Time


class Timestamp(NamedTuple):
    """A day and a time of it. Month and day may be 0, as in MySQL's zero dates."""

    year: int
    month: int
    day: int
    hour: int = 0
    minute: int = 0
    second: int = 0
    fraction: Decimal = Decimal(0)

    @property
    def date_text(self) -> str:
        """The day as MySQL prints it."""
        return f"{self.year:04d}-{self.month:02d}-{self.day:02d}"

    @property
    def datetime_text(self) -> str:
        """Day and time as MySQL prints them."""
        fraction = format(self.fraction, "f").partition(".")[2].rstrip("0")
        return f"{self.date_text} {self.hour:02d}:{self.minute:02d}:{self.second:02d}" + (fraction and f".{fraction}")


_LARGEST = (12, 31, 23, 59, 59)
_DAY = re.compile(
    r"\s*(\d{4}|\d\d)[^\d\s](\d\d?)[^\d\s](\d\d?)"
    r"(?:[T\s]\s*(\d\d?)(?::(\d\d?)(?::(\d\d?)(\.\d*)?)?)?)?\s*"
)
_CLOCK = re.compile(r"\s*(-)?(?:(\d+)\s+)?(\d+):(\d\d?)(?::(\d\d?)(\.\d*)?)?\s*")
_DIGITS = re.compile(r"\s*(-?)(\d+)(\.\d*)?\s*")
_DATE_DIGITS = {8: (4, 8), 14: (4, 14), 5: (2, 6), 6: (2, 6), 11: (2, 12), 12: (2, 12)}
"""A number of so many digits has a year of so many, once it is filled up to so many."""


def timestamp_of(value: Sql) -> Timestamp | None:
    """A value as a day and a time; ``None`` if it is not one."""
    match value:
        case None | Json() | Time():
            return None
        case int() | float() | Decimal() | Numbered():
            return _from_digits(text_of(number_of(value)).text)
        case _:
            text = text_of(value).text
            return _from_text(text) or _from_digits(text)


def seconds_of(value: Sql) -> Decimal | None:
    """A value as a span of time in seconds; ``None`` if it is not one. The number 123456 is 12:34:56."""
    match value:
        case None | Json():
            return None
        case Date() | DateTime():
            timestamp = timestamp_of(value)
            return (
                timestamp
                and Decimal(timestamp.hour * 3600 + timestamp.minute * 60 + timestamp.second) + timestamp.fraction
            )
        case _:
            text = text_of(value).text
            return _span(text) if ":" in text else _digit_span(text)


def _from_text(text: str) -> Timestamp | None:
    found = _DAY.fullmatch(text)
    if found is None:
        return None
    parts = [int(part or 0) for part in found.groups()[1:6]]
    return _checked(_full_year(int(found[1]), len(found[1])), parts, found[7])


def _from_digits(text: str) -> Timestamp | None:
    """``20240102``, ``240102`` and ``20240102030405`` are dates as well, and ``0`` is the zero date."""
    if text.strip() == "0":
        return Timestamp(0, 0, 0)
    found = _DIGITS.fullmatch(text)
    if found is None or found[1] or len(found[2]) not in _DATE_DIGITS:
        return None
    years, width = _DATE_DIGITS[len(found[2])]
    digits = found[2].zfill(width)
    parts = [int(digits[at : at + 2]) for at in range(years, width, 2)]
    return _checked(_full_year(int(digits[:years]), years), [*parts, 0, 0, 0][:5], found[3])


def _full_year(year: int, digits: int) -> int:
    return year if digits == 4 else year + (2000 if year < 70 else 1900)


def _fraction(text: str | None) -> Decimal:
    return Decimal(f"0{text}0") if text else Decimal(0)


def _checked(year: int, parts: Sequence[int], fraction: str | None) -> Timestamp | None:
    month, day, hour, minute, second = parts
    fits = all(part <= most for part, most in zip(parts, _LARGEST, strict=True))
    return Timestamp(year, month, day, hour, minute, second, _fraction(fraction)) if fits else None


def _span(text: str) -> Decimal | None:
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    sign, days, hours, minutes, seconds, fraction = found.groups()
    whole = (int(days or 0) * 24 + int(hours)) * 3600 + int(minutes) * 60 + int(seconds or 0)
    return (-1 if sign else 1) * (whole + _fraction(fraction))


def _digit_span(text: str) -> Decimal | None:
    found = _DIGITS.fullmatch(text)
    if found is None:
        return None
    digits = found[2].zfill(6)
    whole = int(digits[:-4]) * 3600 + int(digits[-4:-2]) * 60 + int(digits[-2:])
    return (-1 if found[1] else 1) * (whole + _fraction(found[3]))
