"""The state of a sync: everything that must survive from one batch to the next, in one document."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tidewire.model import Position, TableName, TableSchema
from tidewire.sync.beginnings import Beginning
from tidewire.sync.frontier import Frontier
from tidewire.sync.manifest import FoundDdl, Parked, Partition, StagedFile
from tidewire.sync.replays import Replays
from tidewire.sync.target_tables import TargetTable


class OnBad(StrEnum):
    """What becomes of a table when one of its messages cannot be read."""

    HOLD = "hold"
    SKIP = "skip"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class Pending:
    """A staged file that is not done: rows from ``fresh`` on are not applied, those from ``since`` on still count.

    The two differ at the applied watermark: its rows stay at hand, because a replay may bring one half of a
    transaction again, which means nothing without the other half.
    """

    file: StagedFile
    since: int = 0
    fresh: int = 0


class HoldKind(StrEnum):
    """What holds a table: a message, a statement, rows that cannot be applied, a policy, or what its load lacks."""

    MESSAGE = "message"
    STATEMENT = "statement"
    ROWS = "rows"
    POLICY = "policy"
    LOAD = "load"


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a table, or every table if ``table`` is ``None``, stays at ``ts``.

    ``at`` is the message, statement or first row that holds it, ``since`` the time when it began. ``count`` is the
    number of messages it stands for. ``first_ts`` is the least ts of what is held, if that is known, and ``last_ts``
    the watermark that covers all of it.

    A message hold ends by itself after a replay. ``fell``: the watermark of its partition has fallen below
    ``first_ts``, so the producer sends the message again. ``resent``: it has done so, and the message is before these
    offsets of the partitions.
    """

    ts: int
    at: Position
    reason: str
    table: TableName | None = None
    kind: HoldKind = HoldKind.MESSAGE
    since: str = ""
    count: int = 1
    first_ts: int | None = None
    last_ts: int | None = None
    fell: bool = False
    resent: Mapping[Partition, int] | None = field(default=None, hash=False)

    @property
    def id(self) -> str:
        """The name of the hold for people: the same for the same table and place."""
        return hashlib.sha256(f"{self.table or '*'} {self.at}".encode()).hexdigest()[:8]

    @property
    def way_out(self) -> str:
        """What to do about it."""
        if self.count > 1:
            return f"tidewire holds release TARGET {self.id} to go on without these {self.count} messages"
        return _WAYS_OUT[self.kind].format(id=self.id)


_WAYS_OUT: Final[Mapping[HoldKind, str]] = {
    HoldKind.MESSAGE: (
        "tidewire holds retry TARGET {id} after its cause is gone, or make the producer send it again, "
        "or tidewire holds release TARGET {id} to go on without it"
    ),
    HoldKind.STATEMENT: (
        "tidewire holds retry TARGET {id} after its cause is gone, "
        "or tidewire holds release TARGET {id} to go on without the statement"
    ),
    HoldKind.ROWS: (
        "tidewire holds retry TARGET {id} after its cause is gone, "
        "or tidewire holds release TARGET {id} to go on without these rows"
    ),
    HoldKind.LOAD: (
        "do what the reason says, or load again with --replace, "
        "or tidewire holds release TARGET {id} to go on without what is missing"
    ),
    HoldKind.POLICY: "change the option that the reason names, and start the sync again",
}


@dataclass(frozen=True, slots=True)
class Loss:
    """What a release gave up, for the history of its table. ``ts`` is where the table was then."""

    table: TableName | None
    at: Position
    ts: int
    reason: str
    released: str


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A statement in the queue that a release gave up for one table, or for all if ``table`` is ``None``."""

    at: Position
    table: TableName | None


@dataclass(frozen=True, slots=True)
class DdlId:
    """What makes two DDL messages the same statement."""

    ts: int
    table: TableName
    query: str


@dataclass(frozen=True, slots=True)
class State:
    """Everything a sync remembers.

    ``sequence`` counts plans, ``batch`` is the engine's last batch in here. ``applied`` is the watermark up to which
    the tables are complete. ``last_ddl_ts`` has the ts of each name's last DDL. ``log`` lists the executed DDL that a
    replay may bring again, ``log_floor`` is the ts up to which every DDL was executed or is too old to matter.
    ``queue`` are the DDL to come, ``passed_over`` what is not done of them. ``schemas`` are those that rows may refer
    to, or, without DDL, the shapes rows have had. ``tables`` are the upstream's, ``target_tables`` what the target has
    of them, and ``kept`` what it has beyond them. ``losses`` are the newest releases. ``given_up`` are bad messages
    that hold no table any more, because they were released or sent again; their rows may still be staged.
    ``beginnings`` say from when on tables are known.
    """

    sync: str
    sequence: int = 0
    batch: int = -1
    applied: int = 0
    frontier: Frontier = field(default_factory=Frontier)
    tables: Mapping[TableName, TableSchema] = field(default_factory=dict)
    last_ddl_ts: Mapping[TableName, int] = field(default_factory=dict)
    pending: tuple[Pending, ...] = ()
    queue: tuple[FoundDdl, ...] = ()
    log: tuple[DdlId, ...] = ()
    log_floor: int = 0
    schemas: tuple[TableSchema, ...] = ()
    parked: tuple[Parked, ...] = ()
    holds: tuple[Hold, ...] = ()
    rejected: int = 0
    target_tables: Mapping[TableName, TargetTable | None] = field(default_factory=dict)
    kept: tuple[TableSchema, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    losses: tuple[Loss, ...] = ()
    given_up: tuple[Position, ...] = ()
    beginnings: Mapping[TableName, Beginning] = field(default_factory=dict)

    def replays(self) -> Replays:
        """Which rows and DDL are replays that the tables already have."""
        held: dict[TableName, int] = {}
        waiting = [(hold.table, hold.ts + 1) for hold in self.holds] + [
            (each.table, each.commit_ts) for each in self.parked
        ]
        for table, ts in waiting:
            if table is not None:
                held[table.folded] = min(ts, held.get(table.folded, ts))
        partitions = {at: self.applied for at, progress in self.frontier.partitions.items() if not progress.late}
        for hold in self.holds:
            if hold.table is None and (at := Partition.of(hold.at)) in partitions:
                partitions[at] = min(partitions[at], hold.ts + 1)
        return Replays(
            partitions,
            dict.fromkeys((name.folded for name in self.tables), -1) | dict(self.last_ddl_ts),
            self.applied,
            held,
        )
