"""Mode mirror: the table equals upstream, column for column and row for row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pyspark.sql import DataFrame

from tidewire.arrow.policy import Policy
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply.changes import LAST, Changes, last_per
from tidewire.spark.apply.layout import key_names, same_key, user_fields
from tidewire.spark.apply.statements import run, run_with
from tidewire.spark.targets import Field, Mark, Target
from tidewire.spark.targets.sql_text import quoted


class Mirror:
    """Tables that hold what upstream's hold, and nothing else."""

    needs_key: ClassVar[bool] = True
    keeps_past: ClassVar[bool] = False
    fill_where: ClassVar[str] = "true"

    def fields(self, table: TableSchema, policy: Policy) -> tuple[Field, ...]:
        """The table's own columns."""
        return user_fields(table, policy)

    def copies(self, column: str) -> tuple[str, ...]:
        """None."""
        return ()

    def merge(self, target: Target, mark: Mark, changes: Changes, bounds: tuple[int, int]) -> None:
        """Delete, update and insert by the last change of every key."""
        table = changes.table
        names = [quoted(column.name) for column in table.columns]
        updates = ", ".join(
            f"{quoted(column.name)} = {_value(column, number, changes.lacks)}"
            for number, column in enumerate(table.columns)
        )
        last = last_per(changes.effects(), key_names(changes.key), LAST)
        run_with(
            target,
            mark,
            last.select("live", "missing", "row", *key_names(changes.key)),
            f"MERGE INTO {target.relation(table.name)} AS t USING {{source}} AS s ON {same_key(changes.key)} "
            f"WHEN MATCHED AND NOT s.live THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {updates} "
            f"WHEN NOT MATCHED AND s.live THEN INSERT ({', '.join(names)}) "
            f"VALUES ({', '.join(f's.row.{name}' for name in names)})",
        )

    def truncate(self, target: Target, mark: Mark, name: TableName, ts: int) -> None:
        """Delete all rows."""
        run(target, mark, f"DELETE FROM {target.relation(name)}")

    def current(self, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
        """All rows."""
        return rows


def _value(column: Column, number: int, lacks: frozenset[str]) -> str:
    """What an update sets a column to: what a change does not tell stays."""
    told, stored = f"s.row.{quoted(column.name)}", quoted("t", column.name)
    return f"IF(array_contains(s.missing, {number}), {stored}, {told})" if column.name in lacks else told
