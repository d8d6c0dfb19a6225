"""Consumers that meet bad messages: they read them again later, or wait until the producer has sent them again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from zlib import crc32

from sync.consumer import Batch, Clumsy, Wrong
from sync.histories import DEFAULT_TOPIC, Changefeed, Message
from sync.upstream import RowEvent
from tidewire.model import Position, Watermark
from tidewire.sync.documents import encode
from tidewire.sync.holds import release
from tidewire.sync.manifest import Rejected
from tidewire.sync.plan import Planned
from tidewire.sync.state import Hold

BEGINNING = 5
"""A checkpoint before everything that happens."""


class Patient(Clumsy):
    """Looks at the tables that are not held."""

    def _check(self, planned: Planned) -> None:
        publication = planned.publication
        if not planned.state.holds or publication is None:
            super()._check(planned)
            return
        self.applied = publication.ts or 0
        pictures = self.history.pictures(self.applied)
        for table in publication.tables:
            if table.name in publication.held:
                continue
            rows = self.target.tables[self.rules.route(table.name)].rows
            known = [picture[table.name] for picture in pictures if table.name in picture]
            if rows not in [self.seen(told) for told in known]:
                raise Wrong(f"at {self.applied} {table.name}, which is not held, has the rows {rows}")

    def release(self, holds: Iterable[Hold]) -> None:
        """Give up what holds tables."""
        state = self.state
        for hold in holds:
            if hold in state.holds:  # one release gives up a message for all tables that it holds
                state = release(state, hold.id, "now")
        self.document = encode(state)


class Troubled(Patient):
    """Cannot read some messages. Of some it can tell the table, of some the commit ts."""

    rate = 12

    def __init__(self, feed: Changefeed, seed: int) -> None:
        super().__init__(feed, seed)
        self.feed = feed
        self.seed = seed
        self.right: dict[object, int] = {}

    def reject(self, at: Position, message: Message) -> Rejected | None:
        chance = crc32(f"{self.seed} {at}".encode())
        if chance % 256 >= self.rate or at.offset >= self.right.get((at.topic, at.partition), at.offset + 1):
            return None
        rows = [event for event in message.events if isinstance(event, RowEvent)]
        if any(isinstance(event, Watermark) and event.ts > self.feed.entries[-1].ts for event in message.events):
            return None  # without its last watermarks a history has no end
        times = sorted(event.ts for event in message.events if hasattr(event, "ts"))
        tables = {row.table.name for row in rows}
        told = len(tables) == 1 and len(rows) == len(message.events) and chance & 0x300 != 0
        timed = bool(times) and chance & 0xC00 != 0
        return Rejected(
            at,
            "not JSON",
            table=tables.pop() if told else None,
            commit_ts=times[0] if timed else None,
            last_ts=times[-1] if timed else None,
        )

    def nothing_is_bad_from_here(self) -> None:
        """What is written from now on can be read."""
        self.right = {(at.topic, at.number): len(messages) for at, messages in self.log.items()}


class Retrying(Troubled):
    """Reads bad messages again, some soon, all in the end."""

    def _next(self, *, everything: bool) -> Batch:
        again = {hold.at for hold in self.state.holds if everything or self.random.random() < 0.1}
        return replace(super()._next(everything=everything), again=tuple(sorted(again)))

    def run(self) -> None:
        """Read to the end. Bad messages of the last piece are read again after it."""
        while self.now < self.history.end:
            self.now += self.random.choice((1.0, 2.0, 4.0, 20.0))
            self.work(self._next(everything=False))
        self.now = self.history.end
        self.work(self._next(everything=True))
        super().run()


class Replayed(Troubled):
    """Waits until the producer has sent bad messages again. It restarts in the end, before everything."""

    def run(self) -> None:
        """Read to the end, through a restart; what could not be told of is released then."""
        self._read_all()
        self.nothing_is_bad_from_here()
        self.feed.restart(BEGINNING)
        self._read_all()
        for hold in self.state.holds:
            # The topic of a table that is made after the checkpoint, or dropped soon, may lack watermarks that tell it.
            if hold.first_ts is not None and hold.at.topic == DEFAULT_TOPIC:
                raise Wrong(f"everything was sent again, and yet there is {hold}")
        self.release(self.state.holds)
        super().run()

    def _read_all(self) -> None:
        while self.now < self.history.end:
            self.now += self.random.choice((1.0, 2.0, 4.0, 20.0))
            self.work(self._next(everything=False))
        self.now = self.history.end
        self.work(self._next(everything=True))
        self.work(self._next(everything=True))
