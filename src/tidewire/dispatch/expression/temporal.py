"""Dates and times in expressions: the texts and numbers that MySQL reads as one, and the functions over them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from tidewire.dispatch.expression.values import Function, Json, Numbered, Sql, number_of, text_of
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
"""By the number of digits: how many of them are the year, and to how many the number is filled up with zeros."""


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
    """A value as a duration in seconds; ``None`` if it is not one. The number 123456 is 12:34:56."""
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
            return _duration(text) if ":" in text else _digit_duration(text)


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


def _duration(text: str) -> Decimal | None:
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    sign, days, hours, minutes, seconds, fraction = found.groups()
    whole = (int(days or 0) * 24 + int(hours)) * 3600 + int(minutes) * 60 + int(seconds or 0)
    return (-1 if sign else 1) * (whole + _fraction(fraction))


def _digit_duration(text: str) -> Decimal | None:
    found = _DIGITS.fullmatch(text)
    if found is None:
        return None
    digits = found[2].zfill(6)
    whole = int(digits[:-4]) * 3600 + int(digits[-4:-2]) * 60 + int(digits[-2:])
    return (-1 if found[1] else 1) * (whole + _fraction(found[3]))


def _of_timestamp(part: Callable[[Timestamp], Sql]) -> Function:
    """A function of a day and its time; NULL if the value is not a date."""

    def function(value: Sql) -> Sql:
        timestamp = timestamp_of(value)
        return None if timestamp is None else part(timestamp)

    return function


def _of_day(part: Callable[[datetime.date], Sql]) -> Function:
    """A function of a day that is in the calendar; NULL if it is not."""

    def on_calendar(timestamp: Timestamp) -> Sql:
        try:
            return part(datetime.date(timestamp.year, timestamp.month, timestamp.day))
        except ValueError:
            return None

    return _of_timestamp(on_calendar)


def _of_seconds(part: Callable[[int], Sql]) -> Function:
    """A function of the seconds of a time."""

    def function(value: Sql) -> Sql:
        seconds = seconds_of(value)
        timestamp = timestamp_of(value) if seconds is None else None
        if timestamp is not None:
            return part(timestamp.hour * 3600 + timestamp.minute * 60 + timestamp.second)
        return None if seconds is None else part(abs(int(seconds)))

    return function


def _time(value: Sql) -> Sql:
    seconds = seconds_of(value)
    if seconds is None:
        return None
    whole, fraction = divmod(abs(seconds), 1)
    digits = f"{fraction:f}".partition(".")[2].rstrip("0")
    text = f"{int(whole) // 3600:02d}:{int(whole) // 60 % 60:02d}:{int(whole) % 60:02d}"
    return Time("-" * (seconds < 0) + text + (digits and f".{digits}"))


PARTS: Mapping[str, Function] = {
    "YEAR": _of_timestamp(lambda timestamp: timestamp.year),
    "QUARTER": _of_timestamp(lambda timestamp: (timestamp.month + 2) // 3),
    "MONTH": _of_timestamp(lambda timestamp: timestamp.month),
    "DAY": _of_timestamp(lambda timestamp: timestamp.day),
    "HOUR": _of_seconds(lambda seconds: seconds // 3600),
    "MINUTE": _of_seconds(lambda seconds: seconds // 60 % 60),
    "SECOND": _of_seconds(lambda seconds: seconds % 60),
}
"""The parts of a timestamp, which EXTRACT knows by the same names."""

FUNCTIONS: Mapping[str, tuple[Function, int, int]] = {
    **{name: (part, 1, 1) for name, part in PARTS.items()},
    "DAYOFMONTH": (PARTS["DAY"], 1, 1),
    "DATE": (_of_timestamp(lambda timestamp: Date(timestamp.date_text)), 1, 1),
    "TIME": (_time, 1, 1),
    "DAYOFWEEK": (_of_day(lambda day: day.isoweekday() % 7 + 1), 1, 1),
    "WEEKDAY": (_of_day(lambda day: day.weekday()), 1, 1),
    "DAYOFYEAR": (_of_day(lambda day: day.timetuple().tm_yday), 1, 1),
}
"""Each function with the fewest and the most arguments it takes."""
