"""What a target has to do to the columns of a table, one change at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidewire.ddl.edits import ColumnPosition
from tidewire.model import Column


@dataclass(frozen=True, slots=True)
class NewColumn:
    """Add a column and give existing rows ``fill``, the text of a default, or NULL."""

    column: Column
    place: ColumnPosition
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
    place: ColumnPosition


ColumnStep: TypeAlias = NewColumn | GoneColumn | NamedColumn | TypedColumn | PlacedColumn
