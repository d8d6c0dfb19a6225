"""Deletes old row files of a storage sink, at the times of a cron expression. Schema files stay.

Files are old if their folder's date is a number of days before the checkpoint.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from itertools import product

from tidewire.changefeed.config.parameters import STORAGE_INVALID
from tidewire.changefeed.config.settings import StorageSettings
from tidewire.codec.storage_sink.layout import DateSeparator
from tidewire.errors import ChangefeedError
from tidewire.model.tso import physical_ms
from tidewire.storage import Storage

_RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 6))

_DATE = re.compile(r"(?:^|/)(\d{4}-\d{2}-\d{2})/")


@dataclass(frozen=True, slots=True)
class Cron:
    """``second minute hour day month weekday``, as in ``0 0 2 * * *``.

    A field is ``*``, a number, a range ``1-5``, any of these with a step ``/2``, or a list.
    """

    times: tuple[time, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> Cron:
        """Parse a cron expression; raises ``CDC:ErrStorageSinkInvalidConfig`` if it is not valid."""
        fields = text.split()
        try:
            seconds, minutes, hours, days, months, weekdays = (
                _numbers(field, *limits) for field, limits in zip(fields, _RANGES, strict=True)
            )
        except ValueError as error:
            raise ChangefeedError(
                STORAGE_INVALID, f"file-cleanup-cron-spec {text!r}: {error}; write six fields such as 0 0 2 * * *"
            ) from None
        times = tuple(time(*each) for each in product(sorted(hours), sorted(minutes), sorted(seconds)))
        return cls(times, days, months, weekdays)

    def is_due(self, after: datetime, until: datetime) -> bool:
        """Does the expression match a time after ``after`` and not after ``until``?"""
        day = after.date()
        while day <= until.date():
            if day.day in self.days and day.month in self.months and day.isoweekday() % 7 in self.weekdays:
                due = (datetime.combine(day, time) for time in self.times)
                if any(after < time <= until for time in due):
                    return True
            day += timedelta(days=1)
        return False


def _numbers(field: str, least: int, most: int) -> frozenset[int]:
    return frozenset(number for part in field.split(",") for number in _part(part, least, most))


def _part(part: str, least: int, most: int) -> range:
    values, _, step = part.partition("/")
    first, dash, last = values.partition("-")
    begin = least if values in ("*", "?") else int(first)
    end = most if values in ("*", "?") or (step and not dash) else int(last or first)
    if not least <= begin <= end <= most:
        raise ValueError(f"{part!r} is not between {least} and {most}")
    return range(begin, end + 1, int(step or 1))


class Expiry:
    """Deletes files that are too old, when the cron expression says so."""

    def __init__(self, store: Storage, days: int, cron: Cron, now: Callable[[], datetime]) -> None:
        self._store = store
        self._days = days
        self._cron = cron
        self._now = now
        self._last_run = now()

    @classmethod
    def of(cls, settings: StorageSettings, store: Storage, now: Callable[[], datetime]) -> Expiry | None:
        """The cleanup that the settings ask for; ``None`` if files are kept, or are not in folders of days."""
        if settings.file_expiration_days <= 0 or settings.date_separator is not DateSeparator.DAY:
            return None
        return cls(store, settings.file_expiration_days, Cron.parse(settings.file_cleanup_cron_spec), now)

    def run_if_due(self, checkpoint_ts: int) -> None:
        """Delete what is too old as of a checkpoint, if the cron expression was due since the last call."""
        now = self._now()
        after, self._last_run = self._last_run, now
        if self._cron.is_due(after, now):
            reached = datetime.fromtimestamp(physical_ms(checkpoint_ts) / 1000, timezone.utc).date()
            limit = reached - timedelta(days=self._days)
            names = (entry.name for entry in self._store.list(recursive=True))
            self._store.delete([name for name in names if is_older(name, limit)])


def is_older(path: str, than: date) -> bool:
    """Is a file in a folder of an earlier date?"""
    found = _DATE.search(path)
    return found is not None and found[1] < than.isoformat()
