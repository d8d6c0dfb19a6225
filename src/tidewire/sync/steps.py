"""Steps: what the planner tells a target to do, in order.

A step is complete in itself: it names tables, files and types, and depends on no memory of another step. Its number
within its batch identifies it, so that a target can tell which steps it has done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidewire.ddl.edits import Place
from tidewire.model import Column, TableName, TableSchema
from tidewire.sync.manifest import StagedFile

REJECTS = TableName("_tidewire", "rejects")
"""The table of messages that cannot be read."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of a staged file with ``from_ts <= ts <= to_ts``."""

    file: StagedFile
    from_ts: int
    to_ts: int


@dataclass(frozen=True, slots=True)
class Merge:
    """Bring a table up to ``ts`` with the last change of every key in these slices.

    ``table`` is the table as it is at that time: the rows' values become its types. The order of changes is
    (ts, upsert over delete, position).
    """

    table: TableSchema
    slices: tuple[Slice, ...]
    ts: int

    @property
    def tables(self) -> frozenset[TableName]:
        """What this step touches."""
        return frozenset({self.table.name})


@dataclass(frozen=True, slots=True)
class Create:
    """Make an empty table, with its database where that is missing. What is there under that name goes first."""

    table: TableSchema
    ts: int

    @property
    def tables(self) -> frozenset[TableName]:
        """What this step touches."""
        return frozenset({self.table.name})


@dataclass(frozen=True, slots=True)
class Drop:
    """Remove a table."""

    name: TableName
    ts: int

    @property
    def tables(self) -> frozenset[TableName]:
        """What this step touches."""
        return frozenset({self.name})


@dataclass(frozen=True, slots=True)
class Truncate:
    """Remove all rows of a table."""

    table: TableSchema
    ts: int

    @property
    def tables(self) -> frozenset[TableName]:
        """What this step touches."""
        return frozenset({self.table.name})


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
class NewColumn:
    """Add a column and give existing rows ``fill``, the text of a default, or NULL."""

    column: Column
    place: Place
    fill: str | bytes | None


@dataclass(frozen=True, slots=True)
class GoneColumn:
    """Drop a column."""

    name: str


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """Rename a column; its values stay."""

    name: str
    new: str


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """Convert a column's values to another type."""

    old: Column
    new: Column


@dataclass(frozen=True, slots=True)
class PlacedColumn:
    """Move a column."""

    name: str
    place: Place


ColumnStep: TypeAlias = NewColumn | GoneColumn | NamedColumn | TypedColumn | PlacedColumn


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
