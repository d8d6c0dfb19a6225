"""Maintenance makes large files in order of the key: which ones it takes, and that rows and their ids stay."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from spark.apply.staging import change, stage
from spark.targets.tags import tag
from sync.reduce import Change
from tidewire.errors import Fenced, SyncError
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Mode, current_rows, execute
from tidewire.spark.apply import compact as module
from tidewire.spark.apply.compact import FEW_FILES, MOST_DEEP, Span, chosen, compact, spans
from tidewire.spark.apply.write import GROUP_ROWS, sorted_rows, write_rows
from tidewire.spark.targets import IcebergTarget, Target
from tidewire.spark.targets.files import ColumnStats, DataFile, LocalAccess, StoredColumn, StoredTable
from tidewire.sync.steps import Create, Merge

ID, NAME = Column.of("id", "int", primary_key=True), Column.of("name", "varchar(20)")
LARGE = 30 << 20


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three small files are worth a new one."""
    monkeypatch.setattr(module, "FEW_FILES", 3)


def passes(target: Target, folder: Path, table: TableSchema, mode: Mode) -> dict[int, str]:
    """A few passes of new, changed and deleted rows; the rows that are left."""
    execute(Create(table, 1), target, tag(), mode)
    rows: dict[int, str] = {}
    for number in range(4):
        ts = 10 * number + 10
        changes: list[Change] = []
        for key in range(number % 3, 60, 3):
            before = {"id": key, "name": rows[key]} if key in rows else None
            after = None if before and key % 4 == 0 else {"id": key, "name": f"{number}"}
            changes.append(change(ts, len(changes) + 100 * number, before, after))
            rows.pop(key, None)
            rows |= {key: f"{number}"} if after else {}
        execute(Merge(table, (stage(folder, table, changes),), ts), target, tag(), mode)
    return rows


def all_rows(target: Target, table: TableSchema, version: str | None = None) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, target.read(table.name, version).collect()), key=repr)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(
    ("target", "mode"), [*(("iceberg", mode) for mode in Mode), ("delta", Mode.MIRROR)], indirect=["target"]
)
def test_a_table_in_order_has_the_same_rows_in_few_files(
    target: Target, mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableSchema(TableName("compact", f"t_{mode}"), (ID, NAME))
    rows = passes(target, tmp_path, table, mode)
    before, old = all_rows(target, table), target.version(table.name)
    monkeypatch.setattr(module, "_RANGE_ROWS", 20)

    assert compact(target, table.name, tag(), table, mode)

    assert all_rows(target, table) == before == all_rows(target, table, old)
    found = current_rows(mode, target.read(table.name), (ID,)).toArrow().to_pylist()
    assert {row["id"]: row["name"] for row in found} == rows
    files = target.stored(table.name, listed=True).files
    assert not any(file.dead for file in files)
    first = target.stored(table.name).column("_tw_commit_ts" if mode is Mode.HISTORY else "id").id
    assert len(files) > 1
    if mode is not Mode.SCD2:  # versions that have ended are in files of their own
        bounds: list[Any] = sorted((file.stats[first].lower, file.stats[first].upper) for file in files)
        assert all(upper < lower for (_, upper), (lower, _) in pairwise(bounds))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("format_version", [2, 3])
def test_rows_keep_their_ids_and_dead_ones_are_gone(spark: SparkSession, tmp_path: Path, format_version: int) -> None:
    target = IcebergTarget(spark, tmp_path / "lake", format_version=format_version)
    table = TableSchema(TableName("compact", "lineage"), (ID, NAME))
    rows = passes(target, tmp_path, table, Mode.MIRROR)
    lineage = ", _row_id, _last_updated_sequence_number" if format_version >= 3 else ""
    query = f"SELECT id, name{lineage} FROM {target.relation(table.name)} ORDER BY id"
    before = spark.sql(query).collect()
    target._stored.clear()

    assert compact(target, table.name, tag(), table)

    assert spark.sql(query).collect() == before
    assert [(row[0], row[1]) for row in before] == sorted(rows.items())
    (file,) = target.stored(table.name).files
    assert not file.dead
    assert target.size(table.name).deletes == 0
    summary = target._table(table.name).java.currentSnapshot()
    assert summary.operation() == "replace"
    assert not compact(target, table.name, tag(), table)


@pytest.mark.usefixtures("few")
def test_rows_without_ids_wait_for_them(spark: SparkSession, tmp_path: Path) -> None:
    """The rows of a table whose format gets a later version have ids from the next commit on."""
    target = IcebergTarget(spark, tmp_path / "lake", format_version=2)
    table = TableSchema(TableName("compact", "upgraded"), (ID, NAME))
    rows = passes(target, tmp_path, table, Mode.MIRROR)
    spark.sql(f"ALTER TABLE {target.relation(table.name)} SET TBLPROPERTIES ('format-version' = '3')")

    assert not compact(target, table.name, tag(), table)
    target.alter(table.name, (), tag())
    assert compact(target, table.name, tag(), table)

    assert {row[0]: row[1] for row in all_rows(target, table)} == rows


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
def test_another_program_changes_the_table_and_the_work_begins_again(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableSchema(TableName("compact", "beside"), (ID, NAME))
    rows = passes(target, tmp_path, table, Mode.MIRROR)
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0))
    replace_, key, tries = target.replace, min(rows), []

    def overtaken(*arguments: Any) -> None:
        tries.append(arguments)
        if len(tries) == 1:
            target.session().sql(f"DELETE FROM {target.relation(table.name)} WHERE id = {key}")
        replace_(*arguments)

    monkeypatch.setattr(target, "replace", overtaken)
    compact(target, table.name, tag(), table)

    del rows[key]
    assert len(tries) == 2
    assert {row[0]: row[1] for row in all_rows(target, table)} == rows


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
def test_a_table_that_never_rests_is_left_and_said_so(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = TableSchema(TableName("compact", "busy"), (ID, NAME))
    passes(target, tmp_path, table, Mode.MIRROR)
    monkeypatch.setattr(module, "_PAUSES", (0.0, 0.0))
    replace_ = target.replace

    def overtaken(*arguments: Any) -> None:
        target.alter(table.name, (), tag())
        replace_(*arguments)

    monkeypatch.setattr(target, "replace", overtaken)
    with pytest.raises(SyncError, match=r"compact\.busy could not be compacted: another program changed"):
        compact(target, table.name, tag(), table)
    monkeypatch.setattr(target, "replace", replace_)
    target.fence(table.name, tag(epoch=5))
    with pytest.raises(Fenced):
        compact(target, table.name, tag(epoch=4), table)


# Which files


def stored(files: tuple[DataFile, ...]) -> StoredTable:
    columns = (StoredColumn("a", 1, pa.int64(), "a"), StoredColumn("b", 2, pa.int64(), "b"))
    return StoredTable("t@1", columns, files, LocalAccess(), "", ("a", "b"))


def large(name: str, lower: int, upper: int) -> DataFile:
    return DataFile(name, 1000, {1: ColumnStats(0, lower, upper)}, size=LARGE)


def test_only_small_worn_and_deep_files_are_taken() -> None:
    small = [DataFile(f"s{number}", 10, {}, size=100) for number in range(FEW_FILES)]
    base = [large(f"b{number}", 100 * number, 100 * number + 99) for number in range(20)]
    wide = [large(f"w{number}", 0, 2000) for number in range(MOST_DEEP)]

    assert chosen(stored(tuple(base + small[1:])), Mode.MIRROR) == []
    assert chosen(stored((*base, *small)), Mode.MIRROR) == [small]
    assert chosen(stored((*base, *wide[1:])), Mode.MIRROR) == []
    (deep,) = chosen(stored((*base, *wide)), Mode.MIRROR)
    assert len(deep) == MOST_DEEP + 1
    assert {file.path for file in wide} < {file.path for file in deep}


def test_full_files_of_few_bytes_are_not_written_again_and_again() -> None:
    """Ranges are cut by rows too, and files by the memory that their rows take."""
    narrow = [DataFile(f"n{number}", module._RANGE_ROWS, {}, size=16 << 20) for number in range(2 * FEW_FILES)]
    small = [DataFile(f"s{number}", 10, {}, size=100) for number in range(FEW_FILES)]

    assert chosen(stored(tuple(narrow)), Mode.MIRROR) == []
    assert chosen(stored((*narrow, *small)), Mode.MIRROR) == [small]

    fields = tuple(StoredColumn(f"c{number}", number, pa.int64(), f"c{number}") for number in range(1, 101))
    wide = tuple(DataFile(f"w{number}", 300_000, {}, size=1 << 20) for number in range(2 * FEW_FILES))
    table = replace(stored(wide), columns=fields, key=("c1",))
    assert chosen(table, Mode.MIRROR) == []


def test_files_of_long_texts_in_order_are_not_merged_again_and_again(tmp_path: Path) -> None:
    """Bounds of columns that rows are ordered by are whole: short ones of texts that begin alike would be the same."""
    url, id_ = StoredColumn("url", 1, pa.string(), "url"), StoredColumn("id", 2, pa.int64(), "id")
    base = StoredTable("t@1", (url, id_), (), LocalAccess(), str(tmp_path), ("id",), order=("url",))
    files = []
    for number in range(2 * MOST_DEEP):
        rows = pa.table({"url": [f"https://example.com/{number:02}/{each}" for each in "ab"], "id": [number, -number]})
        (new,) = write_rows(base, rows, "test")
        files.append(DataFile(new.path, new.rows, new.stats, size=LARGE))

    assert chosen(replace(base, files=tuple(files)), Mode.MIRROR) == []


def test_files_of_one_key_are_not_merged_again_and_again() -> None:
    same = [large(f"s{number}", 7, 7) for number in range(2 * MOST_DEEP)]

    assert chosen(stored(tuple(same)), Mode.MIRROR) == []


# Ranges


@given(
    st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.one_of(st.none(), st.integers(0, 5)))),
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=4),
)
def test_every_row_is_in_one_range(rows: list[tuple[int | None, int | None]], limits: list[tuple[int, int]]) -> None:
    columns = [pa.array([row[place] for row in rows], pa.int64()) for place in range(2)]
    cuts = sorted(set(limits))
    found = [Span(lower, upper) for lower, upper in zip([None, *cuts], [*cuts, None], strict=True)]
    counts = sum((span.has(columns).to_numpy(zero_copy_only=False).astype(int) for span in found), np.zeros(len(rows)))

    assert counts.tolist() == [1] * len(rows)
    for row, a, b in zip(rows, *(column.to_pylist() for column in columns), strict=True):
        stats = [None if value is None else ColumnStats(0, value, value) for value in (a, b)]
        (span,) = (
            each for each in found if each.has([pa.array([a], pa.int64()), pa.array([b], pa.int64())])[0].as_py()
        )
        assert span.may_have(stats), row


def test_ranges_cut_within_one_value_of_the_first_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of few tenants and many rows each."""
    monkeypatch.setattr(module, "_RANGE_ROWS", 10_000)
    base = replace(stored(()), folder=str(tmp_path))
    rows = pa.table({"a": np.arange(100_000) // 50_000, "b": np.random.default_rng(1).permutation(100_000)})
    (new,) = write_rows(base, sorted_rows(rows, ("a", "b")), "test")
    files = [DataFile(new.path, new.rows, new.stats, size=new.size)]

    found = spans(base, files, ("a", "b"))

    sizes = [len(rows.filter(span.has([rows["a"], rows["b"]]))) for span in found]
    assert len(found) == 10
    assert sum(sizes) == 100_000
    assert max(sizes) < 15_000
    assert pq.ParquetFile(new.path).metadata.num_row_groups == -(-100_000 // GROUP_ROWS)
