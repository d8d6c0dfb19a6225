"""Steps: what the planner tells a target to do, in order.

A step is complete in itself: it names tables, files and types, and depends on no memory of another step. Its number
within its batch identifies it, so that a target can tell which steps it has done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tidewire.ddl.column_steps import ColumnStep
from tidewire.model import TableName, TableSchema
from tidewire.sync.manifest import StagedFile

REJECTS = TableName("_tidewire", "rejects")
"""The table of messages that cannot be read."""


def gone_name(name: TableName, ts: int) -> TableName:
    """What a table is called that is gone upstream and kept."""
    return TableName(name.schema, gone(name.table, ts))


def gone(name: str, ts: int) -> str:
    """A name, of a table or column, that says since when it is gone upstream."""
    return f"{name}__dropped_{ts}"


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of a staged file with ``from_ts <= ts <= to_ts``."""

    file: StagedFile
    from_ts: int
    to_ts: int


@dataclass(frozen=True, slots=True)
class OfTable:
    """A step that is about one table, as it is at that time."""

    table: TableSchema

    @property
    def tables(self) -> frozenset[TableName]:
        """What this step touches."""
        return frozenset({self.table.name})


@dataclass(frozen=True, slots=True)
class Merge(OfTable):
    """Bring a table up to ``ts`` with the last change of every key in these slices.

    The rows' values become the types of ``table``. The order of changes is (ts, upsert over delete, position).
    ``sources`` names the columns that rows call otherwise, or, with ``None``, that rows do not have whatever they call
    theirs.
    """

    slices: tuple[Slice, ...]
    ts: int
    sources: Mapping[str, str | None] = field(default_factory=dict, hash=False)

    def source(self, column: str) -> str | None:
        """What rows call a column of the table, in lower case."""
        name = self.sources.get(column, column)
        return None if name is None else name.lower()


@dataclass(frozen=True, slots=True)
class Create(OfTable):
    """Make an empty table, with its database where that is missing. What is there under that name goes first."""

    ts: int


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove a table, or, with ``keep``, give it a name that says since when it is gone."""

    name: TableName
    ts: int
    keep: bool = False

    @property
    def tables(self) -> frozenset[TableName]:
        """What this step touches."""
        return frozenset({self.name})


@dataclass(frozen=True, slots=True)
class Truncate(OfTable):
    """Remove all rows of a table."""

    ts: int


@dataclass(frozen=True, slots=True)
class Rename:
    """Move tables to other names, all at once: chains and swaps are fine."""

    moves: tuple[tuple[TableName, TableName], ...]
    ts: int

    @property
    def tables(self) -> frozenset[TableName]:
        """What this step touches."""
        return frozenset(name for move in self.moves for name in move)


@dataclass(frozen=True, slots=True)
class Alter:
    """Change the columns of a table, in order. ``before`` and ``after`` are the whole table around the change."""

    before: TableSchema
    after: TableSchema
    columns: tuple[ColumnStep, ...]
    ts: int

    @property
    def tables(self) -> frozenset[TableName]:
        """What this step touches."""
        return frozenset({self.after.name})


@dataclass(frozen=True, slots=True)
class SetAside:
    """Append messages that cannot be read to the rejects table."""

    files: tuple[str, ...]

    @property
    def tables(self) -> frozenset[TableName]:
        """What this step touches: none of the upstream's tables."""
        return frozenset({REJECTS})


Step: TypeAlias = Merge | Create | Drop | Truncate | Rename | Alter | SetAside
