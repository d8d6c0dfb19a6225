"""Column values, exact.

Integers (YEAR and BIT too) are ``int``, FLOAT and DOUBLE ``float``, DECIMAL ``Decimal`` with its scale,
text ``str``, binary ``bytes`` (also text that is not valid UTF-8), JSON and VECTOR their text, SQL NULL ``None``.
Dates and times stay MySQL's text, wrapped, because no Python type holds ``0000-00-00`` or ``-838:59:59.000001``.
ENUM and SET keep the number that identifies them and, where the protocol tells it, the text.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Temporal:
    """A date or time as MySQL prints it."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def is_zero(self) -> bool:
        """Is this MySQL's zero value, or one with a zero month or day?"""
        head = self.text.split(" ")[0].split("-")
        return len(head) == 3 and (head[1] == "00" or head[2] == "00")


@dataclass(frozen=True, slots=True)
class Date(Temporal):
    """A DATE: ``2024-02-29``."""

    def to_date(self) -> date | None:
        """As a Python date; ``None`` for a zero date. ``ValueError`` where the calendar has no such day."""
        return None if self.is_zero else date.fromisoformat(self.text)


@dataclass(frozen=True, slots=True)
class DateTime(Temporal):
    """A DATETIME: ``2024-02-29 12:00:00.500``. It has no time zone."""

    def to_datetime(self) -> datetime | None:
        """As a naive Python datetime; ``None`` for a zero date."""
        return None if self.is_zero else datetime.fromisoformat(self.text)


LOCAL_ZONE: Final = "Local"
"""What Go calls the time zone of its own machine. In a message it means the zone of the TiCDC server."""


@dataclass(frozen=True, slots=True)
class Timestamp(DateTime):
    """A TIMESTAMP in the time zone of the TiCDC server.

    ``zone`` is that zone's name where the protocol sends it (only Simple does). It is a remark, not part of the
    value: two timestamps with the same text are equal.
    """

    zone: str | None = field(default=None, compare=False)


_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?")


@dataclass(frozen=True, slots=True)
class Time(Temporal):
    """A TIME, a signed span of up to 838 hours: ``-838:59:59.000001``."""

    def to_timedelta(self) -> timedelta:
        """As a Python timedelta, exact to the microsecond."""
        match = _TIME.fullmatch(self.text)
        if match is None:
            raise ValueError(f"not a MySQL TIME: {self.text!r}")
        sign, hours, minutes, seconds, fraction = match.groups()
        micros = int((fraction or "").ljust(6, "0"))
        span = timedelta(hours=int(hours), minutes=int(minutes), seconds=int(seconds), microseconds=micros)
        return -span if sign else span


@dataclass(frozen=True, slots=True)
class EnumValue:
    """One of an ENUM's names: its 1-based index, 0 for MySQL's empty error value."""

    index: int
    text: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class SetValue:
    """Some of a SET's names: a bit mask whose lowest bit is the first name."""

    index: int
    text: str | None = field(default=None, compare=False)


Value: TypeAlias = int | float | Decimal | str | bytes | Date | DateTime | Time | EnumValue | SetValue | None


def float32(number: float) -> float:
    """The nearest value FLOAT can hold; ``OverflowError`` beyond its range."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def enum_text(index: int, elements: tuple[str, ...]) -> str | None:
    """The name behind an ENUM's index; empty for 0, ``None`` if the list does not tell."""
    if index == 0:
        return ""
    return elements[index - 1] if 0 < index <= len(elements) else None


def set_text(mask: int, elements: tuple[str, ...]) -> str | None:
    """The names behind a SET's mask, joined by commas; ``None`` if the list does not tell."""
    if mask >> len(elements):
        return None
    return ",".join(element for bit, element in enumerate(elements) if mask >> bit & 1)
