"""A table without a catalog and without Spark: the pieces of a step are done here, and their files are its rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark.apply.staging import change, stage
from tidewire.arrow.policy import Policy
from tidewire.model import TableSchema
from tidewire.spark.apply.changes import Staged
from tidewire.spark.apply.find import live_rows
from tidewire.spark.apply.history import OLD
from tidewire.spark.apply.layout import Mode
from tidewire.spark.apply.modes import LAYOUTS
from tidewire.spark.apply.task import Written, change_of, joined, merge_pieces
from tidewire.spark.targets import iceberg_files
from tidewire.spark.targets.files import DataFile, LocalAccess, StoredColumn, StoredTable, dead_positions
from tidewire.sync.steps import Merge

Pair = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]

_DOCUMENT = json.dumps({"spec-id": 0, "partition": []})
_TYPES = {"int": pa.int32(), "bigint": pa.int64(), "string": pa.string()}


class PlainTable:
    """Staged changes are applied to it in the way of a step."""

    def __init__(self, folder: Path, table: TableSchema, mode: Mode = Mode.MIRROR, format_version: int = 3) -> None:
        self.folder, self.table, self.mode = folder, table, mode
        self._ts, self._rows, layout, policy = 10, 0, LAYOUTS[mode], Policy()
        own = {column.name: policy.type_of(column) for column in table.columns}
        columns = [
            StoredColumn(field.name, number, own.get(field.name.removeprefix(OLD)) or _TYPES[field.type], field.name)
            for number, field in enumerate(layout.fields(table, policy), 1)
        ]
        key, data = tuple(layout.order(table)), folder / "data"
        self.stored = StoredTable("t@1", tuple(columns), (), LocalAccess(), str(data), key, format_version)

    def merge(self, *pairs: Pair) -> Written:
        """Apply changes, given as rows before and after, at a ts of their own."""
        self._ts += 10
        changes = [change(self._ts, self._ts * 1000 + number, *pair) for number, pair in enumerate(pairs)]
        merge = Merge(self.table, (stage(self.folder, self.table, changes),), self._ts)
        staged = Staged(old_rows=LAYOUTS[self.mode].old_rows)
        pieces = merge_pieces(merge, self.mode, self.stored, staged, "plain")
        made = joined([piece.run() for piece in pieces])
        self._commit(made)
        return made

    def retype(self, name: str, type_: pa.DataType) -> None:
        """What another program does that widens a column."""
        columns = (replace(each, type=type_) if each.name == name else each for each in self.stored.columns)
        self.stored = replace(self.stored, columns=tuple(columns))

    def rows(self) -> list[dict[str, Any]]:
        """All rows that are not dead."""
        return [row for file in self.stored.files for row in self._rows_of(file)]

    def _rows_of(self, file: DataFile) -> Iterable[dict[str, Any]]:
        access = self.stored.access
        for _, rows in live_rows(file, access, self.stored.columns, dead_positions(file, access)):
            yield from rows.to_pylist()

    def _commit(self, made: Written) -> None:
        edit = change_of(self.stored, made)
        dead, added = iceberg_files.write_dead_rows(edit, "plain"), []
        for new in made.added:
            lineage = self._rows, self._ts
            added.append(DataFile(new.path, new.rows, new.stats, (), _DOCUMENT, lineage, new.size))
            self._rows += new.rows
        self.stored = edit.after(f"t@{self._ts}", added, dead)
