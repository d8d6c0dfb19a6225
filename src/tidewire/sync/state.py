"""The state of a sync: everything that must survive from one batch to the next, in one JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from tidewire.errors import StateError
from tidewire.model import Position, TableName, TableSchema
from tidewire.sync.copies import Copy
from tidewire.sync.floors import Floors
from tidewire.sync.frontier import Frontier, Progress
from tidewire.sync.manifest import (
    FoundDdl,
    Parked,
    Partition,
    ReadRange,
    StagedFile,
    ddl_from_plain,
    ddl_to_plain,
    file_from_plain,
    file_to_plain,
    parked_from_plain,
    parked_to_plain,
)
from tidewire.sync.shapes import Shapes, schemas_from_plain

VERSION = 2
"""The form of the document; a newer one than this is refused."""


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


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a table, or every table, stays at ``ts``; ``frozen``: because a DDL policy says so."""

    ts: int
    at: Position
    reason: str
    table: TableName | None = None
    frozen: bool = False


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
    the tables are complete. ``marks`` has the ts of each name's last DDL. ``log`` lists the DDL that were executed,
    ``queue`` those to come. ``schemas`` are those that rows may refer to, or, without DDL, the shapes rows have had.
    ``tables`` are the upstream's, ``copies`` what the target has of them, and ``kept`` what it has beyond them.
    """

    sync: str
    sequence: int = 0
    batch: int = -1
    applied: int = 0
    frontier: Frontier = field(default_factory=Frontier)
    tables: Mapping[TableName, TableSchema] = field(default_factory=dict)
    marks: Mapping[TableName, int] = field(default_factory=dict)
    pending: tuple[Pending, ...] = ()
    queue: tuple[FoundDdl, ...] = ()
    log: tuple[DdlId, ...] = ()
    schemas: tuple[TableSchema, ...] = ()
    parked: tuple[Parked, ...] = ()
    holds: tuple[Hold, ...] = ()
    rejected: int = 0
    copies: Mapping[TableName, Copy | None] = field(default_factory=dict)
    kept: tuple[TableSchema, ...] = ()

    def floors(self) -> Floors:
        """What staging may leave out of the next batch."""
        return Floors(
            {at: self.applied for at, progress in self.frontier.partitions.items() if not progress.late},
            dict.fromkeys((name.folded for name in self.tables), -1) | dict(self.marks),
            self.applied,
        )

    def to_json(self) -> str:
        """The document as text."""
        return json.dumps(self.to_plain(), ensure_ascii=False, separators=(",", ":"))

    def to_plain(self) -> dict[str, Any]:
        """The document."""
        return _to_plain(self)

    @classmethod
    def from_json(cls, text: str) -> State:
        """The state in a text; :class:`StateError` where it is none of ours."""
        try:
            plain = json.loads(text)
        except ValueError as error:
            raise StateError("not a state document") from error
        return cls.from_plain(plain)

    @classmethod
    def from_plain(cls, plain: Any) -> State:
        """The state in a document; :class:`StateError` where it is none of ours."""
        try:
            version = plain["version"]
        except (KeyError, TypeError) as error:
            raise StateError("not a state document") from error
        if version != VERSION:
            raise StateError(f"the state document has version {version}, this release reads {VERSION}")
        try:
            return _from_plain(plain)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise StateError(f"the state document is damaged: {error!r}") from error


def _to_plain(state: State) -> dict[str, Any]:
    shapes = Shapes()
    plain = {
        "version": VERSION,
        "sync": state.sync,
        "sequence": state.sequence,
        "batch": state.batch,
        "applied": state.applied,
        "rejected": state.rejected,
        "partitions": [
            [at.topic, at.number, *_progress_to_plain(progress)] for at, progress in state.frontier.partitions.items()
        ],
        "retired": sorted(state.frontier.retired),
        "tables": [shapes.number(schema) for schema in state.tables.values()],
        "marks": [[*name, ts] for name, ts in state.marks.items()],
        "pending": [[file_to_plain(each.file, shapes), each.since, each.fresh] for each in state.pending],
        "queue": [ddl_to_plain(found) for found in state.queue],
        "log": [[each.ts, *each.table, each.query] for each in state.log],
        "schemas": [shapes.number(schema) for schema in state.schemas],
        "parked": [parked_to_plain(parked) for parked in state.parked],
        "holds": [[each.ts, asdict(each.at), each.reason, each.table, each.frozen] for each in state.holds],
        "copies": [
            [*name, *([None] if copy is None else copy.to_plain(shapes.number(copy.table)))]
            for name, copy in state.copies.items()
        ],
        "kept": [shapes.number(table) for table in state.kept],
    }
    return plain | {"shapes": shapes.plain}


def _from_plain(plain: Mapping[str, Any]) -> State:
    schema = schemas_from_plain(plain["shapes"]).__getitem__
    return State(
        sync=plain["sync"],
        sequence=plain["sequence"],
        batch=plain["batch"],
        applied=plain["applied"],
        rejected=plain["rejected"],
        frontier=Frontier(
            {
                Partition(topic, number): _progress_from_plain(*progress)
                for topic, number, *progress in plain["partitions"]
            },
            frozenset(plain["retired"]),
        ),
        tables={schema(number).name: schema(number) for number in plain["tables"]},
        marks={TableName(database, table): ts for database, table, ts in plain["marks"]},
        pending=tuple(Pending(file_from_plain(file, schema), *rest) for file, *rest in plain["pending"]),
        queue=tuple(ddl_from_plain(each) for each in plain["queue"]),
        log=tuple(DdlId(ts, TableName(database, table), query) for ts, database, table, query in plain["log"]),
        schemas=tuple(schema(number) for number in plain["schemas"]),
        parked=tuple(parked_from_plain(parked) for parked in plain["parked"]),
        holds=tuple(
            Hold(ts, Position(**at), reason, None if table is None else TableName(*table), frozen)
            for ts, at, reason, table, frozen in plain["holds"]
        ),
        copies={
            TableName(database, table): None if number is None else Copy.from_plain(schema(number), *differing)
            for database, table, number, *differing in plain["copies"]
        },
        kept=tuple(schema(number) for number in plain["kept"]),
    )


def _progress_to_plain(progress: Progress) -> list[Any]:
    ahead = [[range_.start, range_.end, range_.watermark, range_.previous] for range_ in progress.ahead]
    return [progress.next, progress.watermark, progress.previous, progress.joined_at, ahead]


def _progress_from_plain(next_: int, watermark: int, previous: int, joined_at: int, ahead: list[list[int]]) -> Progress:
    return Progress(next_, watermark, previous, joined_at, tuple(ReadRange(*range_) for range_ in ahead))
