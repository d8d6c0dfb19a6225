"""Random histories with stops: policies that freeze, messages that cannot be read, moments to end at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from sync.consumer import Batch, Clumsy
from sync.following import failure
from sync.healing import Patient
from sync.histories import changefeed
from sync.upstream import DATABASES, TABLES
from tidewire.model import Position, TableName
from tidewire.sync import plan as planning
from tidewire.sync.manifest import Manifest, Rejected
from tidewire.sync.plan import Planned
from tidewire.sync.policies import ChangeKind, DdlPolicy
from tidewire.sync.rules import Rules
from tidewire.sync.state import OnBad, State

SEEDS = range(150, 300)


class Frozen(Patient):
    """Freezes some kinds of DDL for a while, others after that, and nothing in the end."""

    def _next(self, *, everything: bool) -> Batch:
        kinds = [] if everything else self.random.sample(list(ChangeKind), self.random.choice((0, 1, 3, 9)))
        self.settings = replace(self.settings, rules=Rules(ddl=dict.fromkeys(kinds, DdlPolicy.FREEZE)))
        return super()._next(everything=everything)


class Bothered(Patient):
    """Meets messages that cannot be read and are not the upstream's; in the end it releases them."""

    bad = False

    def _next(self, *, everything: bool) -> Batch:
        skips = self.random.random() < 0.1
        self.settings = replace(self.settings, on_bad=OnBad.SKIP if skips else OnBad.HOLD)
        self.bad = not everything and self.random.random() < 0.3
        self.release([hold for hold in self.state.holds if everything or self.random.random() < 0.05])
        return super()._next(everything=everything)

    def stage(self, state: State, batch: Batch) -> Manifest:
        random = Random(batch.number)
        names = [None, *(TableName(schema, table) for schema in DATABASES for table in TABLES)]
        rejected = [
            Rejected(
                Position(at.topic, at.number, random.randrange(start, end)),
                "not JSON",
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


class Ahead(Clumsy):
    """Stages a batch while the one before it is applied, so by the limits that were true before that."""

    older: State | None = None

    def planned(self, batch: Batch) -> Planned:
        state = self.state
        known = None if self.schemas_first else self.older  # what is parked must be known
        return self.plan(state, self.stage(known or state, batch))

    def commit(self, planned: Planned) -> None:
        self.older = self.state
        super().commit(planned)


class Splitting(Clumsy):
    """Reports what it read of a partition in several pieces."""

    def stage(self, state: State, batch: Batch) -> Manifest:
        manifest, random = super().stage(state, batch), Random(batch.number)
        read = {}
        for at, (start, end) in batch.read.items():
            cuts = sorted({start, end, *(random.randint(start, end) for _ in range(2))})
            pieces = [super(Splitting, self).stage(state, replace(batch, read={at: each})) for each in pairwise(cuts)]
            read[at] = tuple(range_ for piece in pieces for range_ in random.sample(piece.read[at], 1))
        return replace(manifest, read=read)


def test_what_is_forgotten_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    def horizon(times: Iterable[int], floor: int, applied: int) -> int:
        return max([floor, *(ts for ts in times if ts <= applied - 15)])

    monkeypatch.setattr(planning, "log_horizon", horizon)
    # In a partition that is new, everything that comes again is taken for new, unless its last DDL is remembered.
    message = failure(seed for seed in SEEDS[:80] if not changefeed(seed).manners.grows)

    assert not message, message


def test_tables_that_were_frozen_equal_the_upstream_when_they_go_on() -> None:
    message = failure(SEEDS, Frozen)

    assert not message, message


def test_tables_that_were_held_equal_the_upstream_when_they_go_on() -> None:
    message = failure(SEEDS, Bothered)

    assert not message, message


def test_tables_equal_the_upstream_at_any_moment_to_end_at() -> None:
    message = failure(SEEDS, Ending)

    assert not message, message


def test_a_batch_may_be_staged_before_the_last_one_is_planned() -> None:
    message = failure(SEEDS[:80], Ahead)

    assert not message, message


def test_ranges_may_be_told_in_pieces() -> None:
    message = failure(SEEDS[:30], Splitting)

    assert not message, message
