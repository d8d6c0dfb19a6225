"""What a DDL statement does to tables, in no dialect's words.

A statement becomes a tuple of edits, in the order it does them. The multi-table forms of RENAME and DROP become one
edit per table; edits of one statement happen at one moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidewire.model import Column, Index, TableName, TableSchema


@dataclass(frozen=True, slots=True)
class CreateDatabase:
    """A database came to be; it has no tables yet."""

    schema: str


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """A database went, with all its tables."""

    schema: str


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A table came to be, empty. Where it is a copy, ``like`` names the table whose shape it takes."""

    table: TableSchema
    like: TableName | None = None


@dataclass(frozen=True, slots=True)
class DropTable:
    """A table went, with its rows."""

    name: TableName


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """A table lost all its rows."""

    name: TableName


@dataclass(frozen=True, slots=True)
class RenameTable:
    """A table moved to another name, rows and all."""

    old: TableName
    new: TableName


@dataclass(frozen=True, slots=True)
class ColumnPosition:
    """Where a column goes: first, after another column, or, with neither, last (new) or where it is (changed)."""

    first: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A column is new; existing rows have its default, which is in ``column.default``.

    A charset the statement does not name is ``None``: the table decides it. With ``if_not_exists`` a column that is
    there already stays as it is.
    """

    column: Column
    place: ColumnPosition = ColumnPosition()
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    """A column is gone. With ``if_exists`` it may be so already."""

    name: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """A column has another name, type or place; values are kept, converted."""

    name: str
    column: Column
    place: ColumnPosition = ColumnPosition()
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class RenameColumn:
    """A column has another name, and nothing else changed."""

    name: str
    new: str
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class SetDefault:
    """The default of a column for rows to come."""

    name: str
    default: str | bytes | None


@dataclass(frozen=True, slots=True)
class ConvertText:
    """Every text column has another charset; its values stay, except that ``binary`` makes bytes of them."""

    charset: str
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class AddIndex:
    """An index is new; a primary one makes its columns the primary key. One without a name gets MySQL's."""

    index: Index
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropIndex:
    """An index is gone; the name of the primary key is ``PRIMARY``. One that is not known makes no difference."""

    name: str


@dataclass(frozen=True, slots=True)
class RenameIndex:
    """An index has another name."""

    name: str
    new: str


ColumnEdit: TypeAlias = (
    AddColumn | DropColumn | ChangeColumn | RenameColumn | SetDefault | ConvertText | AddIndex | DropIndex | RenameIndex
)


@dataclass(frozen=True, slots=True)
class AlterTable:
    """A table has another shape."""

    name: TableName
    changes: tuple[ColumnEdit, ...]


@dataclass(frozen=True, slots=True)
class Impossible:
    """The statement changes rows in a way no message tells, so the table cannot be followed past it."""

    name: TableName | None
    reason: str


Edit: TypeAlias = (
    CreateDatabase | DropDatabase | CreateTable | DropTable | TruncateTable | RenameTable | AlterTable | Impossible
)
