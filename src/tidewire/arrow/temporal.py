"""Dates and times, a whole column of MySQL's texts at once, to typed arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.invalid_values import READ_ERRORS, InvalidRows, Reader, without
from tidewire.arrow.policy import Policy
from tidewire.arrow.texts import DIGITS, as_texts, listed, of_form, of_letters
from tidewire.model import Column, MySQLType, grammar
from tidewire.model.values import LOCAL_ZONE


def lenient(column: Column, read: Reader, policy: Policy) -> Reader:
    """The reader with the policy that dates which the calendar does not have become NULL, if it is the policy."""
    if not policy.nulls_zeros(column):
        return read

    def without_zeros(values: Sequence[Any]) -> pa.Array:
        try:
            return read(values)
        except READ_ERRORS as error:
            found = listed(values)
            rows = error.rows if isinstance(error, InvalidRows) else range(len(found))
            zeros = [row for row in rows if found[row] is not None and _impossible(found[row], column)]
            if not zeros:
                raise
            array = read(without(values, zeros))
            policy.count("zero dates", len(zeros))
            return array

    return without_zeros


def _impossible(value: Any, column: Column) -> bool:
    """Is this a well-formed date that the calendar does not have?"""
    text = getattr(value, "text", value)
    try:
        grammar.FORMS[column.type].check(text)
    except ValueError:
        return False
    try:
        datetime(int(text[:4]), int(text[5:7]), int(text[8:10]))
    except ValueError:
        return True
    return False


_TIMESTAMP: Final = Column("", MySQLType.TIMESTAMP)


def kept_texts(column: Column) -> Reader:
    """Reads dates that stay MySQL's text: those of the calendar and those with a month or day it does not have."""
    return lambda values: of_form(values, grammar.FORMS[column.type])


def kept_values(column: Column, policy: Policy) -> Reader:
    """As :func:`kept_texts`, of values that have a ``text`` and perhaps a ``zone``: all in the server's zone then."""
    read = kept_texts(column)

    def text(value: Any) -> str:
        zone = getattr(value, "zone", None)
        found: str = value.text
        return found if zone in (None, "", LOCAL_ZONE, policy.time_zone) else _moved(found, zone, policy.time_zone)

    return lambda values: read([None if value is None else text(value) for value in values])


def _moved(text: str, zone: str, other: str) -> str:
    """A moment's text in another zone; a date that the calendar does not have is the same in all."""
    if _impossible(text, _TIMESTAMP):
        return text
    whole, point, fraction = text.partition(".")
    moment = datetime.strptime(whole, "%Y-%m-%d %H:%M:%S").replace(tzinfo=ZoneInfo(zone)).astimezone(ZoneInfo(other))
    return moment.replace(tzinfo=None).isoformat(" ") + point + fraction


def dates(_: Column, __: Policy) -> Reader:
    """Reads DATEs."""
    longest = grammar.DATE.longest
    return lambda values: pc.cast(of_letters(values, DIGITS + b"-", least=longest, most=longest), pa.date32())


def timestamps(column: Column, policy: Policy) -> Reader:
    """Reads DATETIMEs and TIMESTAMPs."""
    return lambda values: zoned(_clocks(values), column, policy)


def _clocks(values: Any) -> pa.Array:
    found = of_letters(values, DIGITS + b"-: .", least=len("2024-02-29 12:00:00"), most=grammar.DATETIME.longest)
    return pc.cast(found, pa.timestamp("us"))


def zoned(found: pa.Array, column: Column, policy: Policy, zone: str | None = None) -> pa.Array:
    """DATETIMEs as they are; TIMESTAMPs out of their zone, which is the server's unless they tell, into UTC."""
    if column.type is not MySQLType.TIMESTAMP:
        return found
    known = pc.assume_timezone(found, zone or policy.time_zone, ambiguous="earliest", nonexistent="latest")
    return pc.cast(known, pa.timestamp("us", "UTC"))


def zoned_values(column: Column, policy: Policy) -> Reader:
    """Reads TIMESTAMPs that have a ``text`` and a ``zone``; rows of several servers may have several zones."""

    def read(values: Sequence[Any]) -> pa.Array:
        found = _clocks([None if value is None else value.text for value in values])
        zones = [None if value is None or value.zone == LOCAL_ZONE else value.zone or None for value in values]
        known = {zone for zone, value in zip(zones, values, strict=True) if value is not None}
        if len(known) < 2:
            return zoned(found, column, policy, *known)
        nothing = pa.scalar(None, found.type)
        return pc.coalesce(
            *(zoned(pc.if_else([own == zone for own in zones], found, nothing), column, policy, zone) for zone in known)
        )

    return read


def durations(_: Column, __: Policy) -> Reader:
    """Reads TIMEs into microseconds."""

    def read(values: Sequence[Any]) -> pa.Array:
        found = _times_of_day(values)
        if found is None:
            found = pa.array([None if value is None else _duration(value) for value in listed(values)], pa.int64())
        return found

    return read


def _times_of_day(values: Sequence[Any]) -> pa.Array | None:
    """TIMEs that are all times of a day, in microseconds: Arrow reads those as moments of its first day."""
    texts = as_texts(values)
    shortest = pc.min(pc.binary_length(texts)).as_py()
    if shortest is None or shortest < len("00:00:00"):
        return None
    try:
        found = _clocks(pc.binary_join_element_wise("1970-01-01", texts, " "))
    except (pa.ArrowInvalid, InvalidRows):
        return None
    return found.cast(pa.int64())


def _duration(text: str) -> int:
    """A TIME in microseconds."""
    hours, minutes, seconds = grammar.TIME.check(text).split(":")
    whole, _, fraction = seconds.partition(".")
    size = (int(hours.removeprefix("-")) * 60 + int(minutes)) * 60 + int(whole)
    micros = size * 1_000_000 + int(fraction.ljust(6, "0"))
    return -micros if hours[0] == "-" else micros


TEXT_READERS: Mapping[MySQLType, Callable[[Column, Policy], Reader]] = {
    MySQLType.DATE: dates,
    MySQLType.NEWDATE: dates,
    MySQLType.DATETIME: timestamps,
    MySQLType.TIMESTAMP: timestamps,
    MySQLType.TIME: durations,
}
