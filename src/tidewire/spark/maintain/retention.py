"""Which publications stay: all of the last hour, one a minute for a day, one an hour for three days, then one a day."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta
from typing import Final

from tidewire.errors import OptionError
from tidewire.model.tso import physical_ms
from tidewire.spark.publications import sequence_of, ts_of

_MINUTE: Final = timedelta(minutes=1)
_HOUR: Final = timedelta(hours=1)
_DAY: Final = timedelta(days=1)

TIERS: Final = ((_HOUR, timedelta(0)), (_DAY, _MINUTE), (3 * _DAY, _HOUR), (timedelta.max, _DAY))
"""Up to which age one publication stays of how much time; of each such time it is the last one."""

_UNITS: Final = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_AGE = re.compile(r"(?:\d{1,6}[dhms])+", re.ASCII)
_PART = re.compile(r"(\d+)([dhms])", re.ASCII)


def parse_age(text: str, option: str = "older-than") -> timedelta:
    """The age that a text such as ``7d``, ``12h`` or ``1d12h`` says.

    >>> parse_age("1d12h").total_seconds() / 3600
    36.0
    """
    if not _AGE.fullmatch(text):
        raise OptionError(option, f"{text!r} is not an age: write days, hours, minutes or seconds: 7d, 12h, 1d12h")
    return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in _PART.findall(text)), timedelta())


def kept(names: Iterable[str], older_than: timedelta, least: int = 1) -> list[str]:
    """The publications that stay, in order.

    Ages are counted back from the newest publication, so a sync that stands still loses nothing. The newest ``least``
    stay however old they are. Without watermarks there are no ages, and only those stay.
    """
    ordered = sorted(names)
    if not ordered:
        return []
    now = physical_ms(ts_of(ordered[-1]))
    stay: dict[tuple[timedelta, int], str] = {}
    for name in ordered:
        age = timedelta(milliseconds=now - physical_ms(ts_of(name)))
        if ts_of(name) and age < older_than:
            stay[_slot(name, age)] = name
    return sorted({*stay.values(), *ordered[-max(1, least) :]})


def _slot(name: str, age: timedelta) -> tuple[timedelta, int]:
    """The stretch of time of which one publication stays: an hour by the clock, a day by the clock."""
    every = next(every for limit, every in TIERS if age < limit)
    if not every:
        return every, sequence_of(name)
    return every, physical_ms(ts_of(name)) // (every // timedelta(milliseconds=1))
