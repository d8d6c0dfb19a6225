"""SQL functions over dates and times."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping

from tidewire.dispatch.expression.operators import Function
from tidewire.dispatch.expression.timestamps import Timestamp, seconds_of, timestamp_of
from tidewire.dispatch.expression.values import Sql
from tidewire.model import Date, Time


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
