"""Durations as Go writes them: ``300ms``, ``1m30s``, ``-1.5h``. We keep them as whole nanoseconds."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

_UNITS: Mapping[str, int] = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_PART = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE = re.compile(rf"([+-]?)((?:{_PART.pattern})+)")
_MOST = 2**63 - 1


class Nanoseconds(int):
    """A duration."""

    @property
    def seconds(self) -> float:
        """The duration in seconds."""
        return self / _UNITS["s"]

    def __str__(self) -> str:
        return duration_text(self)


def parse_duration(text: str) -> Nanoseconds:
    """Parse a duration in Go's form; raises ``ValueError`` if it is not valid.

    >>> int(parse_duration("1m30s"))
    90000000000
    """
    if text in ("0", "+0", "-0"):
        return Nanoseconds(0)
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise ValueError(f"must be a duration such as 10s or 1m30s, not {text!r}")
    amount = sum(int(Fraction(number.rstrip(".")) * _UNITS[unit]) for number, unit in _PART.findall(whole[2]))
    if amount > _MOST:
        raise ValueError(f"must be a duration below 292 years, not {text!r}")
    return Nanoseconds(-amount if whole[1] == "-" else amount)


def duration_text(nanoseconds: int) -> str:
    """A duration in the largest units that express it exactly.

    >>> duration_text(90_000_000_000)
    '1m30s'
    """
    if nanoseconds == 0:
        return "0s"
    parts, rest = [], abs(nanoseconds)
    for unit in ("h", "m", "s", "ms", "us", "ns"):
        count, rest = divmod(rest, _UNITS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "-" * (nanoseconds < 0) + "".join(parts)
