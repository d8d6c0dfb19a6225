"""What one micro-batch brought: staged files of rows, and everything that is not a row.

Staging happens on executors and row values stay in files; only this small document comes back to the driver.
A row's *ts* is its commit ts, or its offset where the protocol sends no commit ts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidewire.model import Ddl, Position, TableName, TableSchema


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
    be an update that changes the key which the shape tells? ``memory`` is how many bytes the rows take in memory; 0 if
    an older release wrote the file.
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
    memory: int = 0

    @property
    def table(self) -> TableName:
        """Whose rows these are."""
        return self.shape.name


def newest(watermarks: Iterable[int]) -> tuple[int, int]:
    """The largest watermark and the largest below it; 0 for each that does not exist."""
    largest, previous, *_ = sorted({*watermarks, 0, -1}, reverse=True)
    return largest, max(previous, 0)


@dataclass(frozen=True, slots=True)
class ReadRange:
    """Offsets of a partition that were read, from ``start`` up to ``end``, which is excluded.

    ``first_ts`` is the least ts of its changes, replays included, or ``None`` if the range has no changes. It takes
    no part in comparisons.
    ``watermark`` is the largest watermark in it, ``previous`` the largest below that: every active topic has received
    the latter. ``turns`` are the watermarks, each with its offset, at which their course begins, ends or turns: a fall
    means that the producer has restarted.
    """

    start: int
    end: int
    watermark: int = 0
    previous: int = 0
    turns: tuple[tuple[int, int], ...] = ()
    first_ts: int | None = field(default=None, compare=False)

    @classmethod
    def of(
        cls, start: int, end: int, watermarks: Iterable[tuple[int, int]] = (), first_ts: int | None = None
    ) -> ReadRange:
        """A range, given its watermarks as pairs of offset and ts, in any order.

        >>> ReadRange.of(0, 9, [(1, 10), (3, 20), (5, 30), (7, 15)])
        ReadRange(start=0, end=9, watermark=30, previous=20, turns=((1, 10), (5, 30), (7, 15)), first_ts=None)
        """
        found = sorted(watermarks)
        return cls(start, end, *newest(ts for _, ts in found), tuple(_turns(found)), first_ts)


def _turns(watermarks: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The first and the last one, and those between that are above or below both neighbours."""
    course = [each for number, each in enumerate(watermarks) if number == 0 or each[1] != watermarks[number - 1][1]]
    for number, (offset, ts) in enumerate(course):
        inside = 0 < number < len(course) - 1
        if not inside or (course[number - 1][1] < ts) != (ts < course[number + 1][1]):
            yield offset, ts


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
    complete without it. ``table`` is set if the message certainly holds rows of that table and nothing else; a DDL may
    touch other tables, so it has none. ``commit_ts`` is the least commit ts in the message, ``last_ts`` the largest if
    the message has several; both are ``None`` if they cannot be told.
    """

    at: Position
    reason: str
    after: int = 0
    table: TableName | None = None
    commit_ts: int | None = None
    last_ts: int | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """One micro-batch.

    ``read`` has the disjoint ranges of each partition; each begins where the one before it ended. ``ends`` are the end
    offsets of *all* partitions, listed after the batch was read. ``retried`` are messages that could not be read before
    and can be now; what is in them is in the manifest with their own offsets.
    """

    batch: int
    files: tuple[StagedFile, ...] = ()
    read: Mapping[Partition, tuple[ReadRange, ...]] = field(default_factory=dict)
    ends: Mapping[Partition, int] = field(default_factory=dict)
    ddls: tuple[FoundDdl, ...] = ()
    schemas: tuple[TableSchema, ...] = ()
    parked: tuple[Parked, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    reject_files: tuple[str, ...] = ()
    retried: tuple[Position, ...] = ()
