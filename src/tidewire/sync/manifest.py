"""What one micro-batch brought: staged files of rows, and everything that is not a row.

Staging happens on executors and row values stay in files; only this small document comes back to the driver.
A row's *ts* is its commit ts, or its offset where the protocol sends no commit ts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tidewire.model import Ddl, Position, TableName, TableSchema
from tidewire.plain import event_from_plain, event_to_plain
from tidewire.sync.shapes import Shapes, schemas_from_plain


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """One partition of one topic."""

    topic: str
    number: int

    @classmethod
    def of(cls, at: Position) -> Partition:
        """The partition a message is in."""
        return cls(at.topic, at.partition)

    def __str__(self) -> str:
        return f"{self.topic}[{self.number}]"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """Rows of one table in one column shape, out of one partition.

    ``shape`` is the table as the messages told it: its columns' wire types are those of the file. ``moves``: may there
    be an update that changes the key which the shape tells?
    """

    path: str
    shape: TableSchema
    partition: Partition
    rows: int
    min_ts: int
    max_ts: int
    first_offset: int
    last_offset: int
    moves: bool = True

    @property
    def table(self) -> TableName:
        """Whose rows these are."""
        return self.shape.name


def newest(watermarks: Iterable[int]) -> tuple[int, int]:
    """The largest watermark and the largest below it, 0 where there is none."""
    largest, previous, *_ = sorted({*watermarks, 0, -1}, reverse=True)
    return largest, max(previous, 0)


@dataclass(frozen=True, slots=True)
class ReadRange:
    """What was read of a partition: offsets ``start`` to ``end``, the latter excluded."""

    start: int
    end: int
    watermark: int = 0
    """The largest watermark in it."""
    previous: int = 0
    """The largest one below that: everybody who is still fed has received it."""


@dataclass(frozen=True, slots=True)
class FoundDdl:
    """A DDL and where it was read."""

    at: Position
    sub: int
    ddl: Ddl


@dataclass(frozen=True, slots=True)
class Parked:
    """A message whose schema has not come yet; its bytes are in the work directory's parking file."""

    at: Position
    table: TableName
    version: int
    commit_ts: int
    path: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message that cannot be read, without its bytes, which are in the rejects table.

    ``after`` is the largest watermark read before it in its partition during this batch: everything up to there is
    complete without it. ``table`` and ``commit_ts`` are set where they can be told.
    """

    at: Position
    reason: str
    after: int = 0
    table: TableName | None = None
    commit_ts: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One micro-batch. ``ends`` are the end offsets of *all* partitions there are, listed after the batch was read."""

    batch: int
    files: tuple[StagedFile, ...] = ()
    read: Mapping[Partition, ReadRange] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    ddls: tuple[FoundDdl, ...] = ()
    schemas: tuple[TableSchema, ...] = ()
    parked: tuple[Parked, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    reject_files: tuple[str, ...] = ()

    def to_plain(self) -> dict[str, Any]:
        """The manifest as a document: a batch that runs again is planned from it, not from another reading."""
        shapes = Shapes()
        plain = {
            "batch": self.batch,
            "files": [file_to_plain(file, shapes) for file in self.files],
            "read": [
                [*_pair(at), range_.start, range_.end, range_.watermark, range_.previous]
                for at, range_ in self.read.items()
            ],
            "ends": [[*_pair(at), end] for at, end in self.ends.items()],
            "ddls": [ddl_to_plain(found) for found in self.ddls],
            "schemas": [shapes.number(schema) for schema in self.schemas],
            "parked": [parked_to_plain(parked) for parked in self.parked],
            "rejected": [
                [asdict(each.at), each.reason, each.after, each.table, each.commit_ts] for each in self.rejected
            ],
            "reject_files": list(self.reject_files),
        }
        return plain | {"shapes": shapes.plain}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Manifest:
        """The manifest of a document."""
        schema = schemas_from_plain(plain["shapes"]).__getitem__
        return cls(
            batch=plain["batch"],
            files=tuple(file_from_plain(file, schema) for file in plain["files"]),
            read={Partition(topic, number): ReadRange(*range_) for topic, number, *range_ in plain["read"]},
            ends={Partition(topic, number): end for topic, number, end in plain["ends"]},
            ddls=tuple(ddl_from_plain(found) for found in plain["ddls"]),
            schemas=tuple(schema(number) for number in plain["schemas"]),
            parked=tuple(parked_from_plain(parked) for parked in plain["parked"]),
            rejected=tuple(
                Rejected(Position(**at), reason, after, None if table is None else TableName(*table), commit_ts)
                for at, reason, after, table, commit_ts in plain["rejected"]
            ),
            reject_files=tuple(plain["reject_files"]),
        )


def _pair(at: Partition) -> tuple[str, int]:
    return at.topic, at.number


def file_to_plain(file: StagedFile, shapes: Shapes) -> list[Any]:
    """A staged file as a list, its shape as a number."""
    return [
        file.path,
        shapes.number(file.shape),
        file.partition.topic,
        file.partition.number,
        file.rows,
        file.min_ts,
        file.max_ts,
        file.first_offset,
        file.last_offset,
        file.moves,
    ]


def file_from_plain(plain: list[Any], schema: Callable[[int], TableSchema]) -> StagedFile:
    """The staged file of a list."""
    path, shape, topic, number, *rest = plain
    return StagedFile(path, schema(shape), Partition(topic, number), *rest)


def ddl_to_plain(found: FoundDdl) -> dict[str, Any]:
    """A DDL and its place as a dict."""
    return {"at": asdict(found.at), "sub": found.sub, "ddl": event_to_plain(found.ddl)}


def ddl_from_plain(plain: Mapping[str, Any]) -> FoundDdl:
    """The DDL of a dict."""
    ddl = event_from_plain(plain["ddl"])
    assert isinstance(ddl, Ddl)
    return FoundDdl(Position(**plain["at"]), plain["sub"], ddl)


def parked_to_plain(parked: Parked) -> list[Any]:
    """A parked message as a list."""
    return [asdict(parked.at), *parked.table, parked.version, parked.commit_ts, parked.path]


def parked_from_plain(plain: list[Any]) -> Parked:
    """The parked message of a list."""
    at, database, table, *rest = plain
    return Parked(Position(**at), TableName(database, table), *rest)
