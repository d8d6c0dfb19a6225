"""A recorded topic as the files of a storage sink, with restarts and new days."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import topic_files
from sync_checks import written
from tidewire.changefeed.config.settings import StorageSettings
from tidewire.changefeed.sink.storage import StorageSink, records_for
from tidewire.changefeed.source import Resolved, Upstream, open_source
from tidewire.codec import Options, Resources
from tidewire.model import Ddl, RowChange
from tidewire.storage import Storage


def upstream(topic: str, folder: Path) -> list[Upstream]:
    """What happened in a recorded topic, in order, with its watermarks."""
    written(folder, topic, "simple-json")
    zone = topic_files.expected(topic)["time_zone"]
    happened = open_source(f"file:{folder}?protocol=simple&follow=false&time-zone={zone}").read(0)
    times = [moment["ts"] for moment in moments(topic)]
    marks = [(ts, 1, Resolved(ts, {})) for ts in times]
    changes = [(item.commit_ts or 0, 0, item) for item in happened if isinstance(item, RowChange | Ddl)]
    return [item for *_, item in sorted([*changes, *marks], key=lambda each: each[:2])]


class StorageFeed:
    """A changefeed into a store, played by hand. Its clock is set to another day after every few watermarks."""

    def __init__(self, store: Storage, protocol: str, zone: str, days: int = 3, **settings: Any) -> None:
        self.store = store
        self._made = StorageSettings("unused", file_size=4096, **settings)
        self._records = records_for(
            protocol, self._made, Options(enable_tidb_extension=True, time_zone=zone), Resources()
        )
        self._today = datetime(2026, 11, 16)
        self._days = days
        self._seen = 0
        self.restart(1)

    def restart(self, ts: int) -> None:
        """Begin again at a checkpoint. What is played then is sent again."""
        self.sink = StorageSink(
            self.store, self._records, self._made, ts, today=lambda: self._today, clock=_SteadyClock()
        )

    def play(self, items: Sequence[Upstream], upto: int | None = None) -> None:
        """Send items up to a ts; the files are written whenever there is a watermark."""
        for item in items:
            match item:
                case Resolved(ts=ts):
                    if upto is not None and ts > upto:
                        return
                    self.sink.flush()
                    self.sink.watermark(ts, ())
                    self._seen += 1
                    self._today += timedelta(days=self._seen % self._days == 0)
                case Ddl():
                    self.sink.ddl(item)
                case RowChange():
                    self.sink.rows([item])


class _SteadyClock:
    """A clock on which every look is an hour after the one before."""

    def __init__(self) -> None:
        self._now = 0.0

    def __call__(self) -> float:
        self._now += 3600
        return self._now


def moments(topic: str) -> Sequence[Mapping[str, Any]]:
    """The recorded contents of the tables at several watermarks."""
    found: Sequence[Mapping[str, Any]] = topic_files.expected(topic)["watermarks"]
    return found
