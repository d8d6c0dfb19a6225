"""Steps: what the planner tells a target to do, in order.

A step is complete in itself: it names tables, files and types, and depends on no memory of another step. Its ``id``
says kind, tables and ts, and has a digest of everything in it: equal steps have equal ids in every process, so that a
target can tell which steps it has done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from tidewire.ddl.column_steps import ColumnStep
from tidewire.model import TableName, TableSchema
from tidewire.sync.manifest import StagedFile
from tidewire.sync.records import digest
from tidewire.sync.table_options import NO_OPTIONS, TableOptions

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


class Identified:
    """A step that knows its id."""

    __slots__ = ()

    kind: ClassVar[str]

    @property
    def tables(self) -> frozenset[TableName]:
        """The tables that this step touches."""
        raise NotImplementedError

    @property
    def id(self) -> str:
        """The step's name in every process, for example ``merge:shop.orders:450171:1f0c5e3ab277``."""
        names = sorted(map(str, self.tables))
        more = f"+{len(names) - 2}" if len(names) > 2 else ""
        return f"{self.kind}:{','.join(names[:2])}{more}:{getattr(self, 'ts', 0)}:{digest(self)}"


@dataclass(frozen=True, slots=True)
class OfTable(Identified):
    """A step that is about one table, as it is at that time."""

    table: TableSchema

    @property
    def tables(self) -> frozenset[TableName]:
        """The tables that this step touches."""
        return frozenset({self.table.name})


@dataclass(frozen=True, slots=True)
class Merge(OfTable):
    """Bring a table up to ``ts`` with the last change of every key in these slices.

    The rows' values become the types of ``table``. The order of changes is (ts, upsert over delete, position).
    ``sources`` names the columns that rows call otherwise, or, with ``None``, that rows do not have whatever they call
    theirs.
    """

    kind: ClassVar[str] = "merge"

    slices: tuple[Slice, ...]
    ts: int
    sources: Mapping[str, str | None] = field(default_factory=dict, hash=False)

    def source(self, column: str) -> str | None:
        """What rows call a column of the table, in lower case."""
        name = self.sources.get(column, column)
        return None if name is None else name.lower()


@dataclass(frozen=True, slots=True)
class Fill(OfTable):
    """Put rows that a load has read into a table that was just made: no two of them have the same key.

    ``sources`` names columns as in :class:`Merge`.
    """

    kind: ClassVar[str] = "fill"

    slices: tuple[Slice, ...]
    ts: int
    sources: Mapping[str, str | None] = field(default_factory=dict, hash=False)

    @property
    def merge(self) -> Merge:
        """The step that would do the same to a table with rows."""
        return Merge(self.table, self.slices, self.ts, self.sources)


@dataclass(frozen=True, slots=True)
class Create(OfTable):
    """Make an empty table, with its database where that is missing. What is there under that name goes first."""

    kind: ClassVar[str] = "create"

    ts: int
    options: TableOptions = NO_OPTIONS


@dataclass(frozen=True, slots=True)
class Adopt(OfTable):
    """Take over a table that another program made and filled; its rows and columns stay as they are."""

    kind: ClassVar[str] = "adopt"

    ts: int


@dataclass(frozen=True, slots=True)
class Drop(Identified):
    """Remove a table, or, with ``keep``, give it a name that says since when it is gone."""

    kind: ClassVar[str] = "drop"

    name: TableName
    ts: int
    keep: bool = False

    @property
    def tables(self) -> frozenset[TableName]:
        """The tables that this step touches."""
        return frozenset({self.name})


@dataclass(frozen=True, slots=True)
class Truncate(OfTable):
    """Remove all rows of a table."""

    kind: ClassVar[str] = "truncate"

    ts: int


@dataclass(frozen=True, slots=True)
class Rename(Identified):
    """Move tables to other names, all at once: chains and swaps are fine."""

    kind: ClassVar[str] = "rename"

    moves: tuple[tuple[TableName, TableName], ...]
    ts: int

    @property
    def tables(self) -> frozenset[TableName]:
        """The tables that this step touches."""
        return frozenset(name for move in self.moves for name in move)


@dataclass(frozen=True, slots=True)
class Alter(Identified):
    """Change the columns of a table, in order. ``before`` and ``after`` are the whole table around the change."""

    kind: ClassVar[str] = "alter"

    before: TableSchema
    after: TableSchema
    columns: tuple[ColumnStep, ...]
    ts: int

    @property
    def tables(self) -> frozenset[TableName]:
        """The tables that this step touches."""
        return frozenset({self.after.name})


@dataclass(frozen=True, slots=True)
class SetAside(Identified):
    """Append messages that cannot be read to the rejects table."""

    kind: ClassVar[str] = "set-aside"

    files: tuple[str, ...]

    @property
    def tables(self) -> frozenset[TableName]:
        """The table of rejects, which is not one of the upstream's."""
        return frozenset({REJECTS})


Step: TypeAlias = Merge | Fill | Create | Adopt | Drop | Truncate | Rename | Alter | SetAside
