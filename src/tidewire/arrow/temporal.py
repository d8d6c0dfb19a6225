"""Dates and times, a whole column of MySQL's texts at once, to typed arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.invalid_values import MISFIT, Reader, Suspects, demand, without
from tidewire.arrow.policy import Policy
from tidewire.model import Column, MySQLType

_DAY = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_ANY_DAY = "[0-9]{4}-(0[0-9]|1[0-2])-([0-2][0-9]|3[01])"
_CLOCK = r" ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"

USUAL_FORMS: Mapping[MySQLType, str] = {
    **dict.fromkeys((MySQLType.DATE, MySQLType.NEWDATE), _DAY),
    **dict.fromkeys((MySQLType.DATETIME, MySQLType.TIMESTAMP), _DAY + _CLOCK),
}
"""What the texts of dates look like that the calendar has."""

GO_LOCAL: Final = "Local"
"""What Go calls the zone of the machine it runs on: the server's, whichever that is."""


def lenient(column: Column, read: Reader, policy: Policy) -> Reader:
    """The reader with the policy that dates which the calendar does not have become NULL, if it is the policy."""
    if not policy.nulls_zeros(column):
        return read

    def without_zeros(values: Sequence[Any]) -> pa.Array:
        try:
            return read(values)
        except MISFIT as error:
            listed = values.to_pylist() if isinstance(values, pa.Array) else values
            rows = error.rows if isinstance(error, Suspects) else range(len(listed))
            zeros = [row for row in rows if listed[row] is not None and _impossible(listed[row])]
            if not zeros:
                raise
            array = read(without(values, zeros))
            policy.count("zero dates", len(zeros))
            return array

    return without_zeros


def _impossible(value: Any) -> bool:
    """Is this a well-formed date that the calendar does not have?"""
    text = getattr(value, "text", value)
    if not isinstance(text, str) or len(text) < 10 or text[4] != "-" or text[7] != "-":
        return False
    year, month, day = text[:4], text[5:7], text[8:10]
    if not (year + month + day).isdecimal():
        return False
    try:
        datetime(int(year), int(month), int(day))
    except ValueError:
        return True
    return False


def kept_texts(column: Column) -> Reader:
    """Reads dates that stay MySQL's text: those of the calendar and those with a month or day it does not have."""
    dated = column.type in (MySQLType.DATE, MySQLType.NEWDATE)
    pattern = f"^{_ANY_DAY}{'' if dated else _CLOCK}$"

    def read(values: Sequence[Any]) -> pa.Array:
        texts = pa.array(values, pa.string())
        demand(pc.match_substring_regex(texts, pattern), f"not a {column.type.name}")
        return texts

    return read


def kept_values(column: Column, policy: Policy) -> Reader:
    """As :func:`kept_texts`, of values that have a ``text`` and perhaps a ``zone``: all in the server's zone then."""
    read = kept_texts(column)

    def text(value: Any) -> str:
        zone = getattr(value, "zone", None)
        found: str = value.text
        return found if zone in (None, "", GO_LOCAL, policy.time_zone) else _moved(found, zone, policy.time_zone)

    return lambda values: read([None if value is None else text(value) for value in values])


def _moved(text: str, zone: str, other: str) -> str:
    """A moment's text in another zone; a date that the calendar does not have is the same in all."""
    if _impossible(text):
        return text
    whole, point, fraction = text.partition(".")
    moment = datetime.strptime(whole, "%Y-%m-%d %H:%M:%S").replace(tzinfo=ZoneInfo(zone)).astimezone(ZoneInfo(other))
    return moment.replace(tzinfo=None).isoformat(" ") + point + fraction


def dates(_: Column, __: Policy) -> Reader:
    """Reads DATEs."""
    return lambda values: pc.cast(pa.array(values, pa.string()), pa.date32())


def moments(column: Column, policy: Policy) -> Reader:
    """Reads DATETIMEs and TIMESTAMPs."""

    def read(values: Sequence[Any]) -> pa.Array:
        return zoned(pc.cast(pa.array(values, pa.string()), pa.timestamp("us")), column, policy)

    return read


def zoned(found: pa.Array, column: Column, policy: Policy, zone: str | None = None) -> pa.Array:
    """DATETIMEs as they are; TIMESTAMPs out of their zone, which is the server's unless they tell, into UTC."""
    if column.type is not MySQLType.TIMESTAMP:
        return found
    known = pc.assume_timezone(found, zone or policy.time_zone, ambiguous="earliest", nonexistent="latest")
    return pc.cast(known, pa.timestamp("us", "UTC"))


def zoned_values(column: Column, policy: Policy) -> Reader:
    """Reads TIMESTAMPs that have a ``text`` and a ``zone``; rows of several servers may have several zones."""

    def read(values: Sequence[Any]) -> pa.Array:
        texts = pa.array([None if value is None else value.text for value in values], pa.string())
        found = pc.cast(texts, pa.timestamp("us"))
        zones = [None if value is None or value.zone == GO_LOCAL else value.zone or None for value in values]
        known = {zone for zone, value in zip(zones, values, strict=True) if value is not None}
        if len(known) < 2:
            return zoned(found, column, policy, *known)
        nothing = pa.scalar(None, found.type)
        return pc.coalesce(
            *(zoned(pc.if_else([own == zone for own in zones], found, nothing), column, policy, zone) for zone in known)
        )

    return read


def spans(_: Column, __: Policy) -> Reader:
    """Reads TIMEs into microseconds."""

    def read(values: Sequence[Any]) -> pa.Array:
        found = _times_of_day(values)
        if found is None:
            found = pa.array([None if value is None else _span(value) for value in values], pa.int64())
        return found

    return read


def _times_of_day(values: Sequence[Any]) -> pa.Array | None:
    """TIMEs that are all times of a day, in microseconds: Arrow reads those as moments of its first day."""
    texts = pa.array(values, pa.string())
    shortest = pc.min(pc.binary_length(texts)).as_py()
    if shortest is None or shortest < len("00:00:00"):
        return None
    try:
        found = pc.cast(pc.binary_join_element_wise("1970-01-01", texts, " "), pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None
    return found.cast(pa.int64())


def _span(text: str) -> int:
    """A TIME in microseconds."""
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    if not (len(minutes) == len(whole) == 2 and (hours.removeprefix("-") + minutes + whole + fraction).isdecimal()):
        raise ValueError(f"{text!r} is not a TIME")
    if len(fraction) > 6:
        raise ValueError(f"{text!r} is finer than a microsecond")
    size = (int(hours.removeprefix("-")) * 60 + int(minutes)) * 60 + int(whole)
    micros = size * 1_000_000 + int(fraction.ljust(6, "0"))
    return -micros if hours[0] == "-" else micros


TEXT_READERS: Mapping[MySQLType, Callable[[Column, Policy], Reader]] = {
    MySQLType.DATE: dates,
    MySQLType.NEWDATE: dates,
    MySQLType.DATETIME: moments,
    MySQLType.TIMESTAMP: moments,
    MySQLType.TIME: spans,
}
