"""Deletes row files in folders of dates that are a number of days before the checkpoint. Schema files stay."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone

from tidewire.changefeed.config.settings import StorageSettings
from tidewire.changefeed.sink.storage.cron import Cron
from tidewire.codec.storage_sink.layout import DateSeparator
from tidewire.model.tso import physical_ms
from tidewire.storage import Storage

_DATE = re.compile(r"(?:^|/)(\d{4}-\d{2}-\d{2})/")


class Expiry:
    """Removes files that are too old, when the clock strikes."""

    def __init__(self, store: Storage, days: int, cron: Cron, now: Callable[[], datetime]) -> None:
        self._store = store
        self._days = days
        self._cron = cron
        self._now = now
        self._looked = now()

    @classmethod
    def of(cls, settings: StorageSettings, store: Storage, now: Callable[[], datetime]) -> Expiry | None:
        """What the settings ask for; ``None`` where files are kept, or not sorted by day."""
        if settings.file_expiration_days <= 0 or settings.date_separator is not DateSeparator.DAY:
            return None
        return cls(store, settings.file_expiration_days, Cron.parse(settings.file_cleanup_cron_spec), now)

    def look(self, checkpoint_ts: int) -> None:
        """Remove what is too old as of a checkpoint, if it is time to."""
        now = self._now()
        after, self._looked = self._looked, now
        if self._cron.strikes(after, now):
            reached = datetime.fromtimestamp(physical_ms(checkpoint_ts) / 1000, timezone.utc).date()
            limit = reached - timedelta(days=self._days)
            names = (entry.name for entry in self._store.list(recursive=True))
            self._store.delete([name for name in names if is_older(name, limit)])


def is_older(path: str, than: date) -> bool:
    """Is a file in a folder of a date before that one?"""
    found = _DATE.search(path)
    return found is not None and found[1] < than.isoformat()
