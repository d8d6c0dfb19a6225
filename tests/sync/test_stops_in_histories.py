"""Random histories with stops: policies that freeze, messages that cannot be read, moments to end at, gaps."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from sync.consumer import Batch, Clumsy, Wrong
from sync.following import failure
from sync.histories import Changefeed
from sync.upstream import DATABASES, TABLES
from tidewire.model import Position, TableName
from tidewire.sync.manifest import Manifest, Partition, Rejected
from tidewire.sync.plan import Planned
from tidewire.sync.policy import ChangeKind, DdlPolicy
from tidewire.sync.rules import Rules
from tidewire.sync.state import OnBad, State

SEEDS = range(150, 300)


class Patient(Clumsy):
    """Looks at the tables when none is held."""

    def _check(self, planned: Planned) -> None:
        publication = planned.publication
        if planned.state.holds and publication is not None:
            self.applied = publication.ts or 0
        else:
            super()._check(planned)


class Frozen(Patient):
    """Freezes some kinds of DDL for a while, others after that, and nothing in the end."""

    def _next(self, *, everything: bool) -> Batch:
        kinds = [] if everything else self.random.sample(list(ChangeKind), self.random.choice((0, 1, 3, 9)))
        self.settings = replace(self.settings, rules=Rules(ddl=dict.fromkeys(kinds, DdlPolicy.FREEZE)))
        return super()._next(everything=everything)


class Bothered(Patient):
    """Meets messages that cannot be read and were none of the upstream's; in the end it passes over them."""

    bad = False

    def _next(self, *, everything: bool) -> Batch:
        skips = everything or self.random.random() < 0.1
        self.settings = replace(self.settings, on_bad=OnBad.SKIP if skips else OnBad.HOLD)
        self.bad = not everything and self.random.random() < 0.3
        return super()._next(everything=everything)

    def stage(self, state: State, batch: Batch) -> Manifest:
        random = Random(batch.number)
        names = [None, *(TableName(schema, table) for schema in DATABASES for table in TABLES)]
        rejected = [
            Rejected(
                Position(at.topic, at.number, random.randrange(start, end)),
                "nobody can read it",
                table=random.choice(names),
                commit_ts=random.choice((None, state.applied + random.randint(-5, 30))),
            )
            for at, (start, end) in batch.read.items()
            if self.bad and random.random() < 0.5
        ]
        return replace(super().stage(state, batch), rejected=tuple(rejected))


class Ending(Clumsy):
    """Ends at one moment after the other."""

    def _next(self, *, everything: bool) -> Batch:
        ends = not everything and self.random.random() < 0.7
        self.settings = replace(self.settings, until=self.applied + self.random.randint(-10, 40) if ends else None)
        return super()._next(everything=everything)


class Jumping(Clumsy):
    """Reads pieces of partitions in any order, as files may come."""

    def __init__(self, feed: Changefeed, seed: int) -> None:
        super().__init__(feed, seed)
        self.pieces: dict[Partition, list[tuple[int, int]]] = {}
        self.cut: dict[Partition, int] = {}

    def run(self) -> None:
        while self.now < self.history.end:
            self.now += self.random.choice((1.0, 2.0, 4.0, 20.0))
            self.work(self._next(everything=False))
        self.now = self.history.end
        while (batch := self._next(everything=True)).read:
            self.work(batch)
        self.work(batch)
        if self.applied != self.history.last:
            raise Wrong(f"the tables stay at {self.applied}; the last watermark is {self.history.last}")

    def _next(self, *, everything: bool) -> Batch:
        random, read = self.random, {}
        for partition in self.history.born:
            pieces = self.pieces.setdefault(partition, [])
            start, end = self.cut.get(partition, 0), self._end(partition, self.now)
            while start < end:
                middle = random.randint(start + 1, end)
                pieces.append((start, middle))
                self.cut[partition] = start = middle
            if pieces and (everything or random.random() < 0.7):
                read[partition] = pieces.pop(random.randrange(len(pieces)))
        self.number += 1
        return Batch(self.number, read, self._ends(0.0 if everything else random.choice((0.0, 2.0))))


def test_tables_that_were_frozen_equal_the_upstream_when_they_go_on() -> None:
    message = failure(SEEDS, Frozen)

    assert not message, message


def test_tables_that_were_held_equal_the_upstream_when_they_go_on() -> None:
    message = failure(SEEDS, Bothered)

    assert not message, message


def test_tables_equal_the_upstream_at_any_moment_to_end_at() -> None:
    message = failure(SEEDS, Ending)

    assert not message, message


def test_pieces_that_are_read_before_those_in_front_of_them_wait_for_them() -> None:
    message = failure(SEEDS, Jumping)

    assert not message, message
