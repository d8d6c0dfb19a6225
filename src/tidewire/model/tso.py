"""A TSO is TiDB's clock: milliseconds since the epoch and an 18-bit counter below them, in one integer."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

LOGICAL_BITS = 18
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def physical_ms(tso: int) -> int:
    """The wall clock in a TSO, in milliseconds since the epoch."""
    return tso >> LOGICAL_BITS


def logical(tso: int) -> int:
    """The counter in a TSO."""
    return tso & (1 << LOGICAL_BITS) - 1


def to_datetime(tso: int) -> datetime:
    """The wall clock in a TSO.

    >>> to_datetime(429918007904436226).isoformat()
    '2021-12-20T13:30:49.196000+00:00'
    """
    return _EPOCH + timedelta(milliseconds=physical_ms(tso))


def from_datetime(moment: datetime, counter: int = 0) -> int:
    """The TSO of a moment; the moment needs a time zone."""
    if moment.tzinfo is None:
        raise ValueError("a moment without a time zone is not a moment")
    return (moment - _EPOCH) // timedelta(milliseconds=1) << LOGICAL_BITS | counter
