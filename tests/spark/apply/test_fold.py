"""Passes of few rows leave few files, the right rows, and rows that keep their ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.apply.staging import change, stage
from spark.targets.tags import tag
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Mode, current_rows, execute
from tidewire.spark.apply.fold import FILES, foldable
from tidewire.spark.targets import Target
from tidewire.spark.targets.files import DataFile
from tidewire.sync.steps import Create, Merge

ID, NAME = Column.of("id", "int", primary_key=True), Column.of("name", "varchar(20)")
PASSES = 3 * FILES


def _passes(target: Target, folder: Path, table: TableSchema, mode: Mode) -> dict[int, str]:
    """Passes of a new row, a changed one, and now and then one that goes; the rows that are left."""
    execute(Create(table, 1), target, tag(), mode)
    rows: dict[int, str] = {}
    for number in range(PASSES):
        ts, old = 10 * number + 10, number // 2
        changes = [change(ts, 10 * number, None, {"id": number, "name": "new"})]
        rows[number] = "new"
        if number and old in rows:
            before, after = {"id": old, "name": rows[old]}, {"id": old, "name": f"pass {number}"}
            changes.append(change(ts + 1, 10 * number + 1, before, after))
            rows[old] = after["name"]  # type: ignore[assignment]
        if number % 5 == 4:
            gone = number - 3
            changes.append(change(ts + 2, 10 * number + 2, {"id": gone, "name": rows.pop(gone)}, None))
        execute(Merge(table, (stage(folder, table, changes),), ts + 2), target, tag(), mode)
    return rows


@pytest.mark.parametrize(
    ("target", "mode"), [*(("iceberg", mode) for mode in Mode), ("delta", Mode.MIRROR)], indirect=["target"]
)
def test_many_small_passes_leave_few_files_and_the_right_rows(target: Target, mode: Mode, tmp_path: Path) -> None:
    table = TableSchema(TableName("fold", f"t_{mode}"), (ID, NAME))

    rows = _passes(target, tmp_path, table, mode)

    found = current_rows(mode, target.read(table.name), (ID,)).toArrow().to_pylist()
    assert {row["id"]: row["name"] for row in found} == rows
    assert len(found) == len(rows)
    kinds = 2 if mode is Mode.SCD2 else 1
    assert len(target.stored(table.name, listed=True).files) <= kinds * 2 * FILES
    changes = target.read(table.name).count()
    assert mode is Mode.MIRROR or changes > len(rows)


@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
def test_rows_keep_their_ids_when_they_are_written_again(target: Target, tmp_path: Path) -> None:
    table = TableSchema(TableName("fold", "lineage"), (ID, NAME))
    execute(Create(table, 1), target, tag(), Mode.MIRROR)
    seen: dict[int, tuple[Any, ...]] = {}
    files: set[str] = set()
    for number in range(2 * FILES):
        piece = stage(tmp_path, table, [change(number + 5, number, None, {"id": number, "name": "x"})])
        execute(Merge(table, (piece,), number + 5), target, tag(), Mode.MIRROR)
        query = f"SELECT id, _row_id, _last_updated_sequence_number FROM {target.relation(table.name)}"
        found = {row[0]: tuple(row[1:]) for row in target.session().sql(query).collect()}
        assert {key: found[key] for key in seen} == seen
        assert len({row_id for row_id, _ in found.values()}) == len(found)
        seen = found
        files |= {file.path for file in target.stored(table.name).files}

    assert len(target.stored(table.name).files) < len(files)


def test_files_of_about_the_same_size_are_folded_together() -> None:
    def files(*rows: int) -> list[DataFile]:
        return [DataFile(str(number), count, {}) for number, count in enumerate(rows)]

    assert foldable(files(*[10] * (FILES - 2)), 10) == ()
    assert [file.rows for file in foldable(files(*[10] * (FILES - 1), 100_000), 10)] == [10] * (FILES - 1)
    cascade = foldable(files(*[10] * (FILES - 1), *[90] * (FILES - 1)), 10)
    assert sum(file.rows for file in cascade) == 100 * (FILES - 1)
    assert foldable(files(*[300_000] * FILES), 300_000) == ()


@given(st.lists(st.integers(1, 500), min_size=1, max_size=400))
def test_rows_are_written_again_a_few_times_only(passes: list[int]) -> None:
    files: list[DataFile] = []
    written = 0
    for number, rows in enumerate(passes):
        fold = foldable(files, rows)
        size = rows + sum(file.rows for file in fold)
        files = [file for file in files if file not in fold] + [DataFile(str(number), size, {})]
        written += size

    assert len(files) <= 5 * FILES
    assert written <= 8 * sum(passes)
