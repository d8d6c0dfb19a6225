"""The contract of a mode: what a table looks like in it, and what the steps of a plan do to its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Protocol

from pyspark.sql import DataFrame

from tidewire.arrow.policy import Policy
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply.casts import spark_type
from tidewire.spark.apply.changes import Changes
from tidewire.spark.apply.keys import fold_sql
from tidewire.spark.targets import Field, Mark, Target
from tidewire.spark.targets.sql_text import quoted, text_literal

META = "_tw_"
"""How the names of columns begin that a mode adds."""


class Layout(Protocol):
    """A mode. Every method that changes rows makes one commit, with the mark."""

    needs_key: ClassVar[bool]
    """Must rows be told apart by a key?"""

    keeps_past: ClassVar[bool]
    """Does a table that is dropped upstream stay, under another name?"""

    fill_where: ClassVar[str]
    """The rows that get the default of a new column."""

    def fields(self, table: TableSchema, policy: Policy) -> tuple[Field, ...]:
        """The columns of a table in this mode."""
        ...

    def copies(self, column: str) -> tuple[str, ...]:
        """The columns beside it that hold other values of a column, and change with it."""
        ...

    def merge(self, target: Target, mark: Mark, changes: Changes, bounds: tuple[int, int]) -> None:
        """Apply changes, all with a ts within the bounds."""
        ...

    def truncate(self, target: Target, mark: Mark, name: TableName, ts: int) -> None:
        """Leave a table without current rows."""
        ...

    def current(self, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
        """The rows the table has upstream, out of all it has here."""
        ...


def user_fields(table: TableSchema, policy: Policy) -> tuple[Field, ...]:
    """The table's own columns."""
    return tuple(Field(column.name, spark_type(column, policy)) for column in table.columns)


def user_columns(names: Iterable[str]) -> list[str]:
    """The names of the table's own columns among all."""
    return [name for name in names if not name.lower().startswith(META)]


def same_key(key: Sequence[Column]) -> str:
    """Is a row of the table, called ``t``, one with the key of the source, called ``s``?"""
    return " AND ".join(
        f"{fold_sql(quoted('t', column.name), column)} = s.k{number}" for number, column in enumerate(key)
    )


def folded_keys(key: Sequence[Column], prefix: str = "") -> list[str]:
    """The columns ``k0``, ``k1``… of rows, out of columns with a prefix."""
    return [f"{fold_sql(quoted(prefix + column.name), column)} AS k{number}" for number, column in enumerate(key)]


def key_names(key: Sequence[object]) -> list[str]:
    """``k0``, ``k1``…"""
    return [f"k{number}" for number in range(len(key))]


def completed(
    changes: DataFrame, rows: DataFrame, table: TableSchema, key: Sequence[Column], lacks: frozenset[str]
) -> DataFrame:
    """Changes whose row has the current values of columns that nobody told.

    ``rows`` are the current ones, and ``row`` of a change is made anew.
    """
    if not lacks or not key:
        return changes
    now = rows.selectExpr(*folded_keys(key), "struct(*) AS now")
    values = []
    for number, column in enumerate(table.columns):
        value = quoted("row", column.name)
        if column.name in lacks:
            value = f"IF(array_contains(missing, {number}) AND now IS NOT NULL, {quoted('now', column.name)}, {value})"
        values.append(f"{text_literal(column.name)}, {value}")
    others = [name for name in changes.columns if name != "row"]
    joined = changes.join(now, key_names(key), "left")
    return joined.selectExpr(*map(quoted, others), f"IF(row IS NULL, NULL, named_struct({', '.join(values)})) AS row")
