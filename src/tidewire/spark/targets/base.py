"""The contract of a target: tables in one place, in one table format.

A target knows names, columns and versions, and nothing of TiDB. Every commit to a table carries a tag: which step of
which plan it belongs to, and the epoch of the driver that made it. The tag does two things:

- *A step is done once.* A step that was committed is found again by its id, so it is never repeated. A step that
  takes several commits tags all but the last one with the number of the part.
- *A driver that was replaced is refused.* A commit first looks for a newer epoch in the table, and raises ``Fenced``
  if there is one. Commits that the target makes itself compare and swap, so a newer driver's commit in between is
  noticed.

Rows are changed by files: :meth:`Target.stored` says what a table is made of, and :meth:`Target.write` commits new
files and dead rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol, TypeAlias

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from tidewire.ddl.edits import ColumnPosition
from tidewire.errors import ColumnError, Fenced
from tidewire.errors import TargetError as TargetError
from tidewire.model import TableName
from tidewire.spark.sessions import activate, cloned
from tidewire.spark.targets.files import FileChange, StoredTable
from tidewire.sync.table_options import TableOptions

RESERVED: Final = ("_tidewire", "_tidewire_dropped", "_tidewire_moving")
"""The databases that are tidewire's own: no table of the upstream can be in them."""


_LONGEST: Final = 200
"""Characters of what a Java exception says that are told."""

AT_END: Final = ColumnPosition()
"""The place of a column that comes after all others."""


Java: TypeAlias = Any
"""An object in Spark's Java process."""


@dataclass(frozen=True, slots=True)
class CommitTag:
    """Which step of which plan of which sync a commit belongs to, and the epoch of the driver that makes it.

    ``part`` counts the commits of a step that takes several; the commit that completes the step has none.
    """

    sync: str
    epoch: int
    sequence: int
    step: str
    part: int | None = None


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


@dataclass(frozen=True, slots=True)
class Adoptable:
    """A table that another program made: what it is called in SQL, its columns, and which of them cannot be NULL.

    ``key`` are the columns that it says tell rows apart, if it says so; ``problem`` is why it cannot be taken over.
    """

    relation: str
    fields: tuple[Field, ...]
    required: frozenset[str] = frozenset()
    key: tuple[str, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """Add a column. One that is there already is left alone.

    Existing rows have ``default`` in it. Without :meth:`Target.has_defaults` it must be NULL.
    """

    field: Field
    place: ColumnPosition = AT_END
    default: pa.Scalar | None = None


@dataclass(frozen=True, slots=True)
class DropColumn:
    """Drop a column. A missing one is fine."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """Rename a column; its values stay where they are. A missing one is fine."""

    name: str
    new: str


@dataclass(frozen=True, slots=True)
class WidenColumn:
    """Change a column's type without touching its values."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class MoveColumn:
    """Move a column."""

    name: str
    place: ColumnPosition


ColumnChange: TypeAlias = AddColumn | DropColumn | RenameColumn | WidenColumn | MoveColumn
"""A change of a table's columns that touches no values. Columns are found whatever the case of their letters."""


class Target(Protocol):
    """Tables in one place. Names are those in the target; every method may be called from several threads.

    Methods that commit return the version that their commit made.
    """

    uri: str
    context: SparkContext

    def relation(self, name: TableName) -> str:
        """What a table is called in SQL, quoted."""
        ...

    def session(self, tag: CommitTag | None = None) -> SparkSession:
        """This thread's session, with its own settings and temporary views; commits made in it carry the tag."""
        ...

    def close(self) -> None:
        """Release the sessions of all threads. The target can still be used: threads get new sessions."""
        ...

    # Looking

    def exists(self, name: TableName) -> bool:
        """Is there a table of that name?"""
        ...

    def names(self) -> tuple[TableName, ...]:
        """All tables there are."""
        ...

    def fields(self, name: TableName) -> tuple[Field, ...]:
        """The columns of a table, in order."""
        ...

    def size(self, name: TableName) -> Size:
        """What a table takes."""
        ...

    def row_count(self, name: TableName) -> int | None:
        """How many rows a table has, or ``None`` if only reading it would tell."""
        ...

    def rows_at(self, version: str) -> int | None:
        """How many rows a version has, or ``None`` if asking would take time."""
        ...

    def version(self, name: TableName) -> str:
        """The table's current version, for :meth:`read`. It begins with the table's identity and ``@``."""
        ...

    def read(self, name: TableName, version: str | None = None) -> DataFrame:
        """The rows of a table, now or as of a version.

        A version can be read whatever becomes of the name: a rename, a drop, another table under it.
        """
        ...

    def can_widen(self, old: str, new: str) -> bool:
        """Can a column of one type get another without its values being touched?"""
        ...

    def has_defaults(self, name: TableName) -> bool:
        """Can a new column of a table have a default for the rows that are there, without new files?"""
        ...

    def partition_columns(self, name: TableName) -> tuple[str, ...]:
        """The columns that say which partition a row belongs in."""
        ...

    # Steps

    def find(self, name: TableName, step: str) -> str | None:
        """The version of a table in which a step was completed, whatever the epoch; ``None`` if it was not."""
        ...

    def parts(self, name: TableName, step: str) -> int:
        """How many parts of a step that is not complete were committed to a table."""
        ...

    def moved(self, tag: CommitTag) -> bool:
        """Has a step changed the name of a table, even if it is not complete?"""
        ...

    def check_epoch(self, name: TableName, tag: CommitTag) -> None:
        """Raise ``Fenced`` if a driver with a newer epoch than the tag's has committed to the table."""
        ...

    def fence(self, name: TableName, tag: CommitTag) -> None:
        """Make commits of drivers with an older epoch fail; rows and columns stay. A missing table needs no fence."""
        ...

    def create(
        self,
        name: TableName,
        fields: Iterable[Field],
        tag: CommitTag,
        *,
        identity: str | None = ...,
        options: TableOptions = ...,
    ) -> str:
        """Make an empty table, and its namespace if that is missing.

        A table of that name is dropped first. If ``identity`` is given, only the table with that identity is.
        Raises ``OptionError`` if the format does not have what ``options`` ask for.
        """
        ...

    def adoptable(self, name: TableName) -> Adoptable | None:
        """A table that another program put where a table of this name would be; ``None`` if there is no such table."""
        ...

    def adopt(self, name: TableName, tag: CommitTag) -> str:
        """Take over such a table. Its files stay as they are."""
        ...

    def drop(self, name: TableName, tag: CommitTag, *, identity: str | None = ...) -> None:
        """Take a table's name away; a missing table is fine. Its versions can be read until :meth:`purge`.

        Raises ``TargetError`` if ``identity`` is given and the table of that name is another one.
        """
        ...

    def rename(
        self, moves: Iterable[tuple[TableName, TableName]], tag: CommitTag, *, identities: Mapping[TableName, str] = ...
    ) -> dict[TableName, str]:
        """Move tables, all at once (chains and swaps are fine); the versions under the new names.

        Doing it again completes a rename that a crash interrupted, and does nothing once it is complete. Raises
        ``TargetError`` if a table's identity is given and the table under its old name is another one.
        """
        ...

    def truncate(self, name: TableName, tag: CommitTag) -> str:
        """Remove all rows."""
        ...

    def stored(self, name: TableName, *, listed: bool = ...) -> StoredTable:
        """What a table is made of now; with ``listed`` everything that the format knows of its files."""
        ...

    def write(self, name: TableName, change: FileChange, tag: CommitTag) -> str:
        """Commit new files and dead rows; ``Retry`` if another program changed the table since it was searched."""
        ...

    def alter(self, name: TableName, changes: Iterable[ColumnChange], tag: CommitTag) -> str:
        """Change columns, all in one commit. Without changes it is an empty commit with the tag."""
        ...

    # Maintenance. It changes neither rows nor the record of steps, may be interrupted anywhere, and may be repeated.
    # With a tag the epoch is checked first, and what is committed carries the sync and its epoch.

    def replace(self, name: TableName, change: FileChange, tag: CommitTag | None = ...) -> None:
        """Commit files that have the same rows as those that go; ``Retry`` if another program changed the table."""
        ...

    def tidy(self, name: TableName, tag: CommitTag | None = ...) -> None:
        """Put what the format keeps about files in order, if that is worth it."""
        ...

    def expire(
        self, name: TableName, before: datetime, keep: Mapping[str, str | None] = ..., tag: CommitTag | None = ...
    ) -> None:
        """Remove versions from before a moment, except the current one and those to ``keep`` (of any tables).

        A version with a label is marked with it, if the format can do that, so that other programs keep it too.
        """
        ...

    def sweep(self, name: TableName, before: datetime, tag: CommitTag | None = ...) -> int:
        """Delete files that are older than a moment and belong to no version; how many."""
        ...

    def purge(self, before: datetime, keep: Collection[str] = ..., tag: CommitTag | None = ...) -> int:
        """Delete the files of tables that were dropped before a moment; how many tables that were.

        Tables with a version to ``keep`` stay.
        """
        ...


def java_kind(error: BaseException) -> str:
    """The class of the Java exception behind an error, without its package; empty without a Java exception."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    return "" if java is None else str(java.getClass().getSimpleName())


def root_cause(error: BaseException) -> str:
    """The class and the first line of the innermost Java exception behind an error that says something."""
    java: Java = getattr(error, "java_exception", None)
    found = type(error).__name__
    while java is not None:
        text = str(java.getMessage() or "").strip().partition("\n")[0]
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
        found = f"{java.getClass().getSimpleName()}: {text}" if text else found
        java = java.getCause()
    return found


def first_line(error: Exception) -> str:
    """The first line of what an exception says."""
    java = getattr(error, "java_exception", None)
    text = str(error) if java is None else f"{java_kind(error)}: {java.getMessage()}"
    return text.partition("\n")[0] or type(error).__name__


def refuse_older(name: TableName, newest: int, tag: CommitTag) -> None:
    """Raise ``Fenced`` if a table has a newer epoch than the tag's."""
    if newest > tag.epoch:
        raise Fenced(f"epoch {newest} has taken over {name}: another driver runs this sync, and this one stops")


def refuse_other(name: TableName, identity: str | None, found: str) -> None:
    """Raise ``TargetError`` if a table is not the one that was planned on."""
    if identity is not None and identity != found:
        raise TargetError(
            f"{name} is not the table that the plan was made for: its identity is {found} instead of {identity}. "
            "Another program replaced it; rename its table, and start the sync again"
        )


def refuse_reserved(name: TableName) -> None:
    """Raise ``TargetError`` for a table in one of tidewire's own databases, except its own."""
    if name.schema in RESERVED[1:]:
        raise TargetError(
            f"table {name} cannot be made: the database {name.schema} is reserved for tidewire; give it another name"
        )


def spelled(names: Iterable[str], column: str) -> str | None:
    """How a table spells a column; ``None`` if it has no such column."""
    return next((name for name in names if name.lower() == column.lower()), None)


def existing(names: Iterable[str], table: TableName, column: str) -> str:
    """How a table spells a column; ``ColumnError`` if it has no such column."""
    found = spelled(names, column)
    if found is None:
        raise ColumnError(f"there is no column {column} in {table}")
    return found


class Sessions:
    """Clones of one session, one for each thread: tags are settings, and threads must not share settings."""

    def __init__(self, spark: SparkSession, release: Callable[[SparkSession], None] = lambda session: None) -> None:
        self._spark = spark
        self._release = release
        self._mine = threading.local()
        self._all: list[SparkSession] = []

    def get(self, settings: Mapping[str, str | None]) -> SparkSession:
        """The session of this thread, with these settings; ``None`` takes a setting away."""
        session: SparkSession | None = getattr(self._mine, "session", None)
        if session is None:
            session = self._mine.session = cloned(self._spark)
            self._all.append(session)
        for name, value in settings.items():
            if value is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, value)
        return session

    def close(self) -> None:
        """Release all sessions; they hold connections to their catalogs."""
        sessions, self._all, self._mine = self._all, [], threading.local()
        for session in sessions:
            self._release(session)
        activate(self._spark)  # not one of those that are closed


def quoted(*parts: str) -> str:
    """A name of one or more parts, as Spark SQL writes it, whatever characters are in it.

    >>> quoted("shop", "odd`name")
    '`shop`.`odd``name`'
    """
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def text_literal(text: str) -> str:
    """A string in quotes, as Spark SQL writes it.

    >>> print(text_literal("it's"))
    'it\\'s'
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
