"""Commit timestamps for a log that counts in seconds.

A transaction's timestamp is the time in its log entry, or one more than the last timestamp where that is not earlier.
So timestamps grow strictly, and reading again from a place, which keeps the last one, gives the same.
"""

from __future__ import annotations

from tidewire.model.tso import LOGICAL_BITS


def at_second(seconds: int) -> int:
    """The first timestamp of a second."""
    return seconds * 1000 << LOGICAL_BITS


def at_millisecond(milliseconds: int) -> int:
    """The first timestamp of a millisecond."""
    return milliseconds << LOGICAL_BITS


def following(last: int, seconds: int) -> int:
    """The timestamp of what was logged at a time, after everything up to ``last``."""
    return max(last + 1, at_second(seconds))


def settled_before(seconds: int) -> int:
    """The newest timestamp that nothing logged from this second on can have."""
    return at_second(seconds) - 1
