"""Ages as people write them: ``7d``, ``12h``, ``1d12h``, ``0s``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from tidewire.errors import OptionError

_UNITS: Final = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_AGE = re.compile(r"(?:\d{1,6}[dhms])+", re.ASCII)
_PART = re.compile(r"(\d+)([dhms])", re.ASCII)


def parse_age(text: str, option: str = "older-than") -> timedelta:
    """The age that a text says.

    >>> parse_age("1d12h").total_seconds() / 3600
    36.0
    """
    if not _AGE.fullmatch(text):
        raise OptionError(option, f"{text!r} is no age; write days, hours, minutes or seconds, such as 7d, 12h, 1d12h")
    return sum((timedelta(**{_UNITS[unit]: int(number)}) for number, unit in _PART.findall(text)), timedelta())
