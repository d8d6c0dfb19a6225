"""Moments as the Open API writes them; all of them in UTC."""

from __future__ import annotations

from datetime import datetime, timezone

from tidewire.model.tso import to_datetime


def moment_text(moment: datetime) -> str:
    """RFC 3339, as in ``create_time``.

    >>> moment_text(datetime(2024, 2, 26, 5, 1, 1, 858000, tzinfo=timezone.utc))
    '2024-02-26T05:01:01.858000Z'
    """
    return moment.astimezone(timezone.utc).isoformat().replace("+00:00", "Z")


def seconds_text(seconds: float) -> str:
    """RFC 3339 of seconds since the epoch."""
    return moment_text(datetime.fromtimestamp(seconds, timezone.utc))


def clock_text(moment: datetime) -> str:
    """Date and time to the millisecond, as in ``checkpoint_time``."""
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def tso_text(tso: int) -> str:
    """The clock of a timestamp.

    >>> tso_text(447984084414103554)
    '2024-02-26 05:01:01.858'
    """
    return clock_text(to_datetime(tso))
