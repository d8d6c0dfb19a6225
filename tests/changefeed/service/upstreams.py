"""An upstream that a test fills while changefeeds read it, and waiting for what they make of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

from changefeed.pieces import create, insert, table
from tidewire.changefeed.service.lifecycle import State
from tidewire.changefeed.service.service import Service
from tidewire.changefeed.service.store import FeedKey
from tidewire.changefeed.source import Resolved, ResumePosition, Upstream
from tidewire.model import Ddl, RowChange, TableSchema

PATIENCE = 60.0
START = 470_000_000_000_000_000
KEY = FeedKey("default", "feed")


class Live:
    """A database that never ends. ``error`` is raised by whoever reads it; ``now`` is its clock."""

    def __init__(self, tables: Sequence[TableSchema] = (), now: int = START) -> None:
        self.tables = tables
        self.now = now
        self.error: Exception | None = None
        self.items: list[Upstream] = []
        self.changed = threading.Condition()

    def happen(self, *items: Upstream) -> int:
        """Let things happen; the moment up to which everything is told."""
        with self.changed:
            self.items += items
            self.now += 1000
            self.items.append(Resolved(self.now, {"index": len(self.items) + 1}))
            self.changed.notify_all()
            return self.now

    def begin(self, rows: int = 3) -> int:
        """A table and some rows; a statement, so the checkpoint follows at once."""
        of = table()
        self.happen(create(of, self.now + 1))
        return self.insert(*range(rows))

    def insert(self, *ids: int) -> int:
        """New rows."""
        rows: list[RowChange] = [insert(id_, self.now + 1) for id_ in ids]
        return self.happen(*rows)

    def open(self) -> Reading:
        """The database as a source."""
        return Reading(self)


class Reading:
    """One connection to the database."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._closed = False

    def now(self) -> int:
        """Its clock."""
        return self._live.now

    def tables(self) -> Sequence[TableSchema]:
        """Its tables."""
        return self._live.tables

    def read(self, start_ts: int, place: ResumePosition | None = None) -> Iterator[Upstream]:
        """What happens after a place, or after a moment."""
        at = 0 if place is None else int(place["index"])
        while not self._closed:
            if self._live.error is not None:
                raise self._live.error
            with self._live.changed:
                fresh = self._live.items[at:]
                if not fresh:
                    self._live.changed.wait(0.02)
            at += len(fresh)
            for item in fresh or self._live.items[at - 1 : at]:
                if isinstance(item, Resolved) or (
                    isinstance(item, RowChange | Ddl) and (item.commit_ts or 0) > start_ts
                ):
                    yield item

    def close(self) -> None:
        """End the reading."""
        self._closed = True


def until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.03)


def until_state(service: Service, state: State, key: FeedKey = KEY) -> None:
    """Wait until a changefeed is in a state."""
    until(lambda: service.view(key).feed.state is state)


def until_checkpoint(service: Service, ts: int, key: FeedKey = KEY) -> None:
    """Wait until everything up to a moment is safe."""
    until(lambda: service.view(key).feed.progress.checkpoint.ts >= ts)
