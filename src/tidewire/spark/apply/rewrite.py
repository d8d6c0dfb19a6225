"""Files of a table written anew with other values in some columns: for a new column's default, another type, an end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.cast import default_value
from tidewire.arrow.modify import convert
from tidewire.arrow.policy import Policy
from tidewire.model import Column
from tidewire.spark.apply.find import live_rows
from tidewire.spark.apply.write import FileWriter
from tidewire.spark.targets.files import DataFile, NewFile, StoredTable, dead_positions


@dataclass(frozen=True, slots=True)
class Default:
    """The default of a column, as its schema keeps it."""

    text: str | bytes | None
    column: Column


@dataclass(frozen=True, slots=True)
class Converted:
    """The values of another column, converted as MODIFY COLUMN does."""

    source: str
    old: Column
    new: Column


@dataclass(frozen=True, slots=True)
class Literal:
    """One number for all rows."""

    number: int


Value: TypeAlias = Default | Converted | Literal


@dataclass(frozen=True, slots=True)
class Where:
    """Rows that have one of these values in a column; without values, those that have NULL there."""

    column: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The values that columns get, and the rows that get them; without ``where`` all rows."""

    values: tuple[tuple[str, Value], ...]
    where: Where | None = None


def rewritten(table: StoredTable, file: DataFile, rewrite: Rewrite, policy: Policy, label: str) -> NewFile | None:
    """A file written anew; ``None`` if no row of it is left."""
    dead = dead_positions(file, table.access)
    groups = (rows for _, rows in live_rows(file, table.access, table.columns, dead) if rows.num_rows)
    first = next(groups, None)
    if first is None:
        return None
    with FileWriter(table, label) as writer:
        for rows in chain([first], groups):
            changed = _changed(table, rows, rewrite, policy)
            writer.add([changed.get(column.name, rows[column.name]) for column in table.columns])
        return replace(writer.close(), partition=file.partition, replaces=file.document)


def may_change(table: StoredTable, file: DataFile, rewrite: Rewrite) -> bool:
    """May a file have rows that get other values?"""
    where = rewrite.where
    if where is None or where.values:
        return True
    stats = file.stats.get(table.column(where.column).id)
    return stats is None or stats.nulls != 0


def _changed(
    table: StoredTable, rows: pa.Table, rewrite: Rewrite, policy: Policy
) -> Mapping[str, pa.ChunkedArray | pa.Array]:
    mask = None
    if rewrite.where is not None:
        tested = rows[table.column(rewrite.where.column).name]
        values = rewrite.where.values
        mask = pc.is_in(tested, value_set=pa.array(values, tested.type)) if values else pc.is_null(tested)
    found = {}
    for name, value in rewrite.values:
        column = table.column(name)
        made = _VALUES[type(value)](value, table, rows, policy)
        made = made if made.type == column.type else made.cast(column.type)
        found[column.name] = made if mask is None else pc.if_else(mask, made, rows[column.name])
    return found


def _default(value: Default, table: StoredTable, rows: pa.Table, policy: Policy) -> pa.Array:
    return pa.repeat(default_value(value.text, value.column, policy), rows.num_rows)


def _converted(value: Converted, table: StoredTable, rows: pa.Table, policy: Policy) -> pa.Array:
    return convert(rows[table.column(value.source).name], value.old, value.new, policy)


def _literal(value: Literal, table: StoredTable, rows: pa.Table, policy: Policy) -> pa.Array:
    return pa.array(np.full(rows.num_rows, value.number, np.int64))


_VALUES: Mapping[type, Any] = {Default: _default, Converted: _converted, Literal: _literal}
