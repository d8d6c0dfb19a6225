"""Dates and times of one type as those of another, whole columns at once.

A *clock* is a DATETIME: what a clock on the wall shows, without a time zone. An *instant* is a TIMESTAMP. A text that
is not a date or time becomes NULL.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.numbers import trim, where

CLOCK: Final = pa.timestamp("us")
INSTANT: Final = pa.timestamp("us", "UTC")

_SECOND: Final = 1_000_000
_EPOCH: Final = datetime(1970, 1, 1)
_MICRO: Final = timedelta(microseconds=1)
_CALENDAR: Final = 146_097
"""The days after which the calendar repeats: 400 years."""

_FAR: Final = (datetime(2037, 1, 1) - _EPOCH) // _MICRO
"""Arrow does not know changes of the time zones from here on, in microseconds since 1970."""

_EARLY: Final = (datetime(2, 1, 1) - _EPOCH) // _MICRO


# Time zones


def local_clock(instants: pa.Array, zone: str) -> pa.Array:
    """What the clock of a time zone showed at these instants."""
    micros = instants.cast(pa.int64())
    if zone == "UTC":
        return micros.cast(CLOCK)
    if _is_far(micros):
        return _moved(micros, _offset_at(ZoneInfo(zone)), 1).cast(CLOCK)
    return pc.local_timestamp(micros.cast(pa.timestamp("us", zone)))


def instant(clocks: pa.Array, zone: str) -> pa.Array:
    """The instants at which the clock of a time zone showed this.

    A time that the clock showed twice is the earlier instant. A time that the clock left out, when it was put forward,
    is as much later as the clock was put forward.
    """
    micros = clocks.cast(pa.int64())
    if zone == "UTC":
        return micros.cast(INSTANT)
    if _is_far(micros):
        return _moved(micros, _offset_of(ZoneInfo(zone)), -1).cast(INSTANT)
    before = pc.assume_timezone(clocks, zone, ambiguous="earliest", nonexistent="earliest")
    offset = pc.subtract(pc.local_timestamp(before).cast(pa.int64()), before.cast(pa.int64()))
    return pc.subtract(micros, offset).cast(INSTANT)


def _is_far(micros: pa.Int64Array) -> bool:
    latest = pc.max(micros).as_py()
    return latest is not None and latest >= _FAR


def _moved(micros: pa.Int64Array, offset: Callable[[datetime], timedelta | None], sign: int) -> pa.Int64Array:
    """Times by their offset from UTC, each alone.

    The offsets after _FAR repeat every 400 years, as the calendar does; those of early years are all the same.
    """
    cycle = _CALENDAR * 86_400 * _SECOND

    def moved(micro: int) -> int:
        near = _FAR + (micro - _FAR) % cycle if micro >= _FAR else max(micro, _EARLY)
        return micro + sign * ((offset(_EPOCH + near * _MICRO) or timedelta()) // _MICRO)

    return pa.array([None if micro is None else moved(micro) for micro in micros.to_pylist()], pa.int64())


def _offset_at(zone: ZoneInfo) -> Callable[[datetime], timedelta | None]:
    return lambda instant: instant.replace(tzinfo=timezone.utc).astimezone(zone).utcoffset()


def _offset_of(zone: ZoneInfo) -> Callable[[datetime], timedelta | None]:
    return lambda clock: clock.replace(tzinfo=zone).utcoffset()


# Rounding


def round_clock(clocks: pa.Array, digits: int) -> pa.Array:
    """Clocks or instants rounded to a number of digits of the second's fraction; half a unit is rounded up."""
    unit = 10 ** (6 - digits)
    later = pc.add(clocks.cast(pa.int64()), unit // 2).cast(clocks.type)
    return pc.floor_temporal(later, unit, "microsecond")


def round_time(times: pa.Int64Array, digits: int) -> pa.Int64Array:
    """TIMEs rounded to a number of digits of the second's fraction; half a unit is rounded away from zero."""
    unit = 10 ** (6 - digits)
    farther = pc.add(times, pc.multiply(pc.sign(times).cast(pa.int64()), unit // 2))
    return pc.multiply(pc.divide(farther, unit), unit)


def time_of_day(clocks: pa.Array) -> pa.Int64Array:
    """The time since midnight, in microseconds."""
    return pc.subtract(clocks.cast(pa.int64()), pc.floor_temporal(clocks, unit="day").cast(pa.int64()))


def midnights(clocks: pa.Array) -> pa.Array:
    """The dates of clocks that show midnight; NULL for others."""
    return where(pc.equal(time_of_day(clocks), 0), clocks).cast(pa.date32())


# To text


def clock_text(clocks: pa.Array, digits: int | None) -> pa.StringArray:
    """Date and time with a number of digits of the second's fraction; further digits are cut off."""
    return pc.utf8_slice_codeunits(clocks.cast(pa.string()), 0, 20 + digits if digits else 19)


def time_text(times: pa.Int64Array, digits: int | None) -> pa.StringArray:
    """TIMEs as MySQL prints them: ``-838:59:59.000``."""
    size = pc.abs(times)

    def part(unit: int, most: int | None = None, width: int = 2) -> pa.StringArray:
        number = pc.divide(size, unit)
        rest = number if most is None else pc.subtract(number, pc.multiply(pc.divide(number, most), most))
        return pc.utf8_lpad(rest.cast(pa.string()), width, "0")

    sign = pc.if_else(pc.less(times, 0), "-", "")
    parts = [part(3600 * _SECOND), part(60 * _SECOND, 60), part(_SECOND, 60)]
    clock = pc.binary_join_element_wise(sign, pc.binary_join_element_wise(*parts, ":"), "")
    if not digits:
        return clock
    return pc.binary_join_element_wise(clock, pc.utf8_slice_codeunits(part(1, _SECOND, 6), 0, digits), ".")


# From text

_DATE: Final = re.compile(r"([+-]?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_CLOCK_TIME: Final = r"[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?)?)?"
_CLOCK: Final = re.compile(rf"([+-]?)([0-9]{{4,6}})(?:-([0-9]{{1,2}})(?:-([0-9]{{1,2}})(?:{_CLOCK_TIME})?)?)?")
_USUAL_DATE: Final = "^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_USUAL_CLOCK: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"
_TIME: Final = (
    "^(?P<sign>-?)(?P<hours>[0-9]{1,9}):(?P<minutes>[0-9]{2}):(?P<seconds>[0-9]{2})"
    r"(?P<fraction>\.[0-9]*)?$"
)


def _read(texts: pa.StringArray, usual: str, type_: pa.DataType, read: Callable[[str], Any]) -> pa.Array:
    """Texts as values of a type: those of the ``usual`` form by Arrow, each other one by ``read``."""
    form = pc.match_substring_regex(texts, usual)
    try:
        found = where(form, texts).cast(type_)
    except pa.ArrowInvalid:
        form = pa.array([False] * len(texts))
        found = pa.nulls(len(texts), type_)
    if pc.all(form, min_count=0).as_py():
        return found
    others = where(pc.invert(form), texts).to_pylist()
    return pc.coalesce(found, pa.array([None if text is None else read(text) for text in others], type_))


def read_dates(texts: pa.StringArray) -> pa.Array:
    """The dates of texts. A text without day or month is the first one; a time behind the date is left out."""
    return _read(trim(texts), _USUAL_DATE, pa.date32(), _date)


def read_clocks(texts: pa.StringArray) -> pa.Array:
    """The dates and times of texts; digits after the sixth behind the second are cut off."""
    return _read(trim(texts), _USUAL_CLOCK, CLOCK, _clock)


def read_times(texts: pa.StringArray) -> pa.Int64Array:
    """The TIMEs of texts in microseconds; digits after the sixth behind the second are cut off."""
    parts = pc.extract_regex(texts, _TIME)
    hours, minutes, seconds = (_number(parts, name) for name in ("hours", "minutes", "seconds"))
    digits = pc.utf8_rpad(pc.utf8_slice_codeunits(pc.struct_field(parts, "fraction"), 1, 7), 6, "0")
    whole = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60), minutes), 60), seconds)
    size = pc.add(pc.multiply(whole, _SECOND), digits.cast(pa.int64()))
    return pc.if_else(pc.equal(pc.struct_field(parts, "sign"), "-"), pc.negate(size), size)


def _number(parts: pa.StructArray, name: str) -> pa.Int64Array:
    return pc.struct_field(parts, name).cast(pa.int64())


def _date(text: str) -> int | None:
    match = _DATE.fullmatch(text)
    days = None if match is None else _days(*match.groups())
    return days if days is not None and -(2**31) <= days < 2**31 else None


def _days(sign: str, year: str, month: str | None, day: str | None) -> int | None:
    """Days since 1970; ``None`` if the calendar does not have the date."""
    number = -int(year) if sign == "-" else int(year)
    cycles, near = divmod(number, 400)
    try:
        found = date(near + 400, int(month or 1), int(day or 1)).toordinal()
    except ValueError:
        return None
    return found + (cycles - 1) * _CALENDAR - date(1970, 1, 1).toordinal()


def _clock(text: str) -> int | None:
    match = _CLOCK.fullmatch(text)
    if match is None:
        return None
    sign, year, month, day, *clock, fraction = match.groups()
    days = _days(sign, year, month, day)
    hours, minutes, seconds = (int(part or 0) for part in clock)
    if days is None or hours > 23 or minutes > 59 or seconds > 59:
        return None
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    micros = whole * _SECOND + int((fraction or "")[:6].ljust(6, "0"))
    return micros if -(2**63) <= micros < 2**63 else None
