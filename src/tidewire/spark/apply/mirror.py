"""Mode mirror: tables that hold what upstream's hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from pyspark.sql import DataFrame

from tidewire.arrow.policy import Policy
from tidewire.model import Column, TableSchema
from tidewire.spark.apply.effects import effects_of, sources_of
from tidewire.spark.apply.find import Search
from tidewire.spark.apply.layout import (
    Batch,
    Edit,
    key_names,
    lacking,
    places_of,
    rows_of,
    user_fields,
    with_other_columns,
)
from tidewire.spark.apply.rewrite import Rewrite, Where
from tidewire.spark.targets.base import Field
from tidewire.spark.targets.files import DataFile, StoredTable


class Mirror:
    """Tables that hold what upstream's hold, column for column and row for row."""

    needs_key: ClassVar[bool] = True
    keeps_past: ClassVar[bool] = False
    old_rows: ClassVar[bool] = False
    filled: ClassVar[Where | None] = None

    def fields(self, table: TableSchema, policy: Policy) -> tuple[Field, ...]:
        """The table's own columns."""
        return user_fields(table, policy)

    def order(self, table: TableSchema) -> tuple[str, ...]:
        """The key."""
        return key_names(table)

    def group(self, table: StoredTable, file: DataFile) -> int:
        """All files are of one kind."""
        return 0

    def copies(self, column: str) -> tuple[str, ...]:
        """None."""
        return ()

    def edit(self, batch: Batch) -> Edit:
        """The last row of every key is written; all rows that any of the keys has are dead."""
        changes, effects = batch.changes, effects_of(batch.changes, batch.keys)
        last = effects.is_last
        sources = {number: sources_of(effects, told)[last] for number, told in changes.told.items()}
        final = effects.at(last)
        lacks = lacking(changes, sources, final.live)
        found = batch.search.find(batch.key, effects.keys)
        stored = batch.stored_values(found, lacks)
        live = final.live
        picked = {number: source[live] for number, source in sources.items()}
        at = places_of(found, len(effects.keys))[final.ids[live]]
        rows = rows_of(changes, final.record[live], picked, stored, at)
        return Edit((with_other_columns(batch, rows, found, at),), found)

    def truncation(self, stored: StoredTable, search: Search, ts: int) -> Edit | Rewrite | None:
        """All rows go."""
        return None

    def current(self, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
        """All rows."""
        return rows
