"""What every mode has in common: the batch that it applies, the edit that it makes, and how rows are put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from tidewire.arrow.policy import Policy
from tidewire.arrow.types import engines
from tidewire.model import Column, TableSchema
from tidewire.spark.apply.changes import Changes, KeyRange, key_columns
from tidewire.spark.apply.effects import STORED
from tidewire.spark.apply.find import Found, Search
from tidewire.spark.apply.keys import Numbers
from tidewire.spark.apply.rewrite import Rewrite, Where
from tidewire.spark.targets.base import Field
from tidewire.spark.targets.files import LINEAGE, DataFile, PartitionValues, StoredColumn, StoredTable

META: Final = "_tw_"
"""How the names of columns begin that a mode adds."""

NEVER: Final = -(1 << 62)
"""A ts before all others."""


class Mode(StrEnum):
    """How a table is kept: as upstream has it now, every change of it, or every version of its rows."""

    MIRROR = "mirror"
    HISTORY = "history"
    SCD2 = "scd2"


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes, and the table that they are applied to."""

    changes: Changes
    stored: StoredTable
    search: Search
    keys: KeyRange

    @property
    def key(self) -> list[StoredColumn]:
        """The table's columns of the key."""
        return [self.stored.column(column.name) for column in key_columns(self.changes.table)]

    def column(self, name: str) -> StoredColumn:
        """A column of the table."""
        return self.stored.column(name)

    def stored_values(self, found: Found, columns: Mapping[int, str]) -> dict[int, pa.ChunkedArray]:
        """The values of columns, given by number and name, of rows that were found."""
        values = self.search.rows(found, [self.column(name) for name in columns.values()])
        return dict(zip(columns, values, strict=True))


class Edit(NamedTuple):
    """What a batch does to a table: rows to write, those of each group to files of their own, and rows that die."""

    rows: tuple[pa.Table, ...]
    dead: Found | None = None


class Layout(Protocol):
    """A mode."""

    needs_key: ClassVar[bool]
    """Must rows be told apart by a key?"""

    keeps_past: ClassVar[bool]
    """Does a table that is dropped upstream stay, under another name?"""

    old_rows: ClassVar[bool]
    """Are whole old rows needed?"""

    filled: ClassVar[Where | None]
    """The rows that get the default of a new column."""

    def fields(self, table: TableSchema, policy: Policy) -> tuple[Field, ...]:
        """The columns of a table in this mode."""
        ...

    def order(self, table: TableSchema) -> tuple[str, ...]:
        """The columns by which rows are ordered in files."""
        ...

    def group(self, table: StoredTable, file: DataFile) -> int:
        """The number of the group of rows that a file has."""
        ...

    def copies(self, column: str) -> tuple[str, ...]:
        """The columns beside it that hold other values of a column, and change with it."""
        ...

    def edit(self, batch: Batch) -> Edit:
        """What changes do to a table."""
        ...

    def truncation(self, stored: StoredTable, search: Search, ts: int) -> Edit | Rewrite | None:
        """What leaves a table without current rows; ``None`` if all its rows are removed."""
        ...

    def current(self, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
        """The rows the table has upstream, out of all it has here."""
        ...


def alike(layout: Layout, table: StoredTable) -> list[list[DataFile]]:
    """The files of a table whose rows may be in one file: those of one group of the mode, and of one partition."""
    found: dict[tuple[int, PartitionValues | None], list[DataFile]] = {}
    for file in table.files:
        found.setdefault((layout.group(table, file), file.partition), []).append(file)
    return list(found.values())


def lacking(changes: Changes, sources: Mapping[int, Numbers], live: Numbers) -> dict[int, str]:
    """The columns whose values only stored rows can tell."""
    return {
        number: changes.table.columns[number].name
        for number, source in sources.items()
        if bool(np.any(live & (source == STORED)))
    }


def places_of(found: Found, keys: int) -> Numbers:
    """Where the row of each key is among those that were found; -1 if it was not found."""
    at = np.full(keys, -1)
    at[found.ids] = np.arange(len(found))
    return at


def with_other_columns(batch: Batch, rows: pa.Table, found: Found, at: Numbers) -> pa.Table:
    """Rows with the stored values of columns that the table has beside those of the upstream.

    Another program may have added them. ``at`` says where the stored row of each row is among those that were found.
    """
    own = {name.lower() for name in rows.column_names}
    others = [column for column in batch.stored.columns if column.name.lower() not in own]
    for column, values in zip(others, batch.search.rows(found, others), strict=True):
        pool = pa.chunked_array([pa.nulls(1, column.type), *values.chunks], column.type)
        rows = rows.append_column(column.name, pool.take(pa.array(np.where(at >= 0, at + 1, 0))))
    return rows


def as_stored(stored: StoredTable, rows: pa.Table) -> pa.Table:
    """Rows with the names and types that a table has for its columns. Another program may have widened a type."""
    names, columns = [], []
    own = {column.name: column for column in LINEAGE}
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        column = own.get(name) or stored.column(name)
        names.append(column.name)
        columns.append(values if values.type == column.type else values.cast(column.type))
    return pa.table(columns, names=names)


def rows_of(
    changes: Changes,
    records: Numbers,
    sources: Mapping[int, Numbers],
    stored: Mapping[int, pa.ChunkedArray],
    at: Numbers,
) -> pa.Table:
    """The rows of changes, with what they do not tell from other changes or from stored rows.

    ``sources`` says which change tells a column, for each row; ``at`` where its stored row is in ``stored``. What
    cannot be found anywhere is the default, which changes have in columns that they do not tell.
    """
    columns = {}
    for number, (column, values) in enumerate(zip(changes.table.columns, changes.after, strict=True)):
        places, pool = records, values
        if number in sources:
            source = sources[number]
            places = np.where(source >= 0, source, records)
            if number in stored:
                type_ = stored[number].type
                pool = pa.chunked_array([*values.cast(type_).chunks, *stored[number].chunks], type_)
                places = np.where((source == STORED) & (at >= 0), len(values) + at, places)
        columns[column.name] = pool.take(pa.array(places))
    return pa.table(columns)


def user_fields(table: TableSchema, policy: Policy) -> tuple[Field, ...]:
    """The table's own columns."""
    return tuple(Field(column.name, spark_type(column, policy)) for column in table.columns)


def user_columns(names: Iterable[str]) -> list[str]:
    """The names of the table's own columns among all."""
    return [name for name in names if not name.lower().startswith(META)]


def spark_type(column: Column, policy: Policy = Policy()) -> str:
    """What a column's type is called in Spark."""
    return engines(policy.type_of(column)).spark


def key_names(table: TableSchema) -> tuple[str, ...]:
    return tuple(column.name for column in key_columns(table))
