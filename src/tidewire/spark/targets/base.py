"""The contract of a target: tables in one place, in one table format.

A target knows names, columns and versions, and nothing of TiDB. What is done to a table's rows is SQL, the same for
every format, and runs in a session that the target gives out: commits made there carry the step's mark.

A mark says that a step is done. So a step that takes several statements gives the mark to the last one only, and the
others, in a session without a mark, must be safe to repeat.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from tidewire.ddl.edits import Place
from tidewire.errors import TargetError as TargetError
from tidewire.model import TableName


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """Which step of which plan of which sync a commit belongs to."""

    sync: str
    sequence: int
    step: int

    def __str__(self) -> str:
        return f"{self.sync}/{self.sequence}/{self.step}"

    @classmethod
    def parse(cls, text: str) -> Mark:
        """A mark out of its text."""
        sync, sequence, step = text.rsplit("/", 2)
        return cls(sync, int(sequence), int(step))


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a target's table, its type in Spark's words."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Size:
    """What a table takes now: files of rows, their bytes, deletions kept beside them, and versions in its history."""

    files: int = 0
    deletes: int = 0
    bytes: int = 0
    versions: int = 0


class Target(Protocol):
    """Tables in one place. Names are the upstream's; every method may be called from several threads."""

    def relation(self, name: TableName) -> str:
        """What a table is called in SQL, quoted."""
        ...

    def session(self, mark: Mark | None = None) -> SparkSession:
        """This thread's session, with its own settings and temporary views; the next commit in it carries the mark.

        A format may skip a second commit with the same mark, so a mark is good for one statement.
        """
        ...

    def has(self, name: TableName, mark: Mark) -> bool:
        """Did a commit with this mark, or a later one of the same sync, change the table? No for a missing table."""
        ...

    def stamp(self, name: TableName, mark: Mark) -> None:
        """Put a mark on the table itself: for a step without rows, such as a change of columns. A later one stays."""
        ...

    def keep_marks(self, name: TableName) -> None:
        """Make the table's marks survive the removal of old versions; to be called before that."""
        ...

    def exists(self, name: TableName) -> bool:
        """Is there a table of that name?"""
        ...

    def fields(self, name: TableName) -> tuple[Field, ...]:
        """The columns of a table, in order."""
        ...

    def create(
        self, name: TableName, fields: Iterable[Field], properties: Mapping[str, str] = ..., mark: Mark | None = ...
    ) -> None:
        """Make an empty table, and its namespace where that is missing. A table that is there already goes first.

        The new table carries the mark from the beginning.
        """
        ...

    def drop(self, name: TableName) -> None:
        """Remove a table; a missing one is fine. Its files, and so its versions, stay until :meth:`purge`."""
        ...

    def rename(self, moves: Iterable[tuple[TableName, TableName]], mark: Mark) -> None:
        """Move tables, all at once: chains and swaps are fine.

        Doing it again completes what a crash left half done, and does nothing once it is complete.
        """
        ...

    def add_column(self, name: TableName, field: Field, place: Place = ...) -> None:
        """Add a column, NULL in existing rows. One that is there already is left alone.

        Columns are found whatever the case of their letters, here and below, and keep their spelling.
        """
        ...

    def drop_column(self, name: TableName, column: str) -> None:
        """Drop a column; a missing one is fine."""
        ...

    def rename_column(self, name: TableName, column: str, new: str) -> None:
        """Rename a column, as a rename: its values stay where they are. A missing one is fine."""
        ...

    def widen_column(self, name: TableName, column: str, type_: str) -> bool:
        """Change a column's type without touching its values, where the format can; ``False`` where it cannot."""
        ...

    def move_column(self, name: TableName, column: str, place: Place) -> None:
        """Move a column."""
        ...

    def version(self, name: TableName) -> str:
        """The table's current version, for :meth:`read`."""
        ...

    def read(self, name: TableName, version: str | None = None) -> DataFrame:
        """The rows of a table, now or as of a version.

        A version outlives whatever becomes of the name: a rename, a drop, another table under it.
        """
        ...

    def names(self) -> tuple[TableName, ...]:
        """All tables there are."""
        ...

    def purge(self, before: datetime, keep: Collection[str] = ...) -> int:
        """Delete the files of tables that were dropped before a moment; says how many tables that were.

        Tables that one of the versions to ``keep`` is of stay.
        """
        ...

    # Maintenance. All of it leaves rows and marks as they are, may be cut short anywhere, and may be done again.

    def size(self, name: TableName) -> Size:
        """What a table takes."""
        ...

    def compact(self, name: TableName) -> None:
        """Make few large files of many small ones, without rows that are deleted; a table in order is left alone."""
        ...

    def expire(self, name: TableName, before: datetime, keep: Collection[str] = ...) -> None:
        """Remove versions from before a moment, with the files that only they have.

        The current version stays, and so do those to ``keep``, which may be of any tables.
        """
        ...

    def sweep(self, name: TableName, before: datetime) -> int:
        """Delete files from before a moment that no version has, which writers that failed left; how many."""
        ...
