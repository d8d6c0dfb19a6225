"""Pieces of a step at their limits: odd keys, long values, full disks, columns that another program changed."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.apply.plain_table import PlainTable
from spark.apply.staging import change, stage
from tidewire.errors import StorageError
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Mode, fold, task
from tidewire.spark.apply.changes import Staged
from tidewire.spark.apply.fold import FILES
from tidewire.spark.apply.task import merge_pieces
from tidewire.sync.steps import Merge

NAME = TableName("task", "t")
KEY, NUMBER = Column.of("k", "int", primary_key=True), Column.of("v", "int")
TABLE = TableSchema(NAME, (KEY, NUMBER))


def row(key: Any, value: Any) -> dict[str, Any]:
    return {"k": key, "v": value}


@pytest.mark.parametrize("length", [100, 5_000, 70_000])
def test_very_long_keys_are_found_again(tmp_path: Path, length: int) -> None:
    """Parquet has no statistics of texts that are longer than 4 KiB."""
    table = PlainTable(tmp_path, TableSchema(NAME, (Column.of("k", "longtext", primary_key=True), NUMBER)))
    keys = [*("x" * length + str(number) for number in range(9)), *("é" * length + str(number) for number in range(5))]

    table.merge(*((None, row(key, 0)) for key in keys))
    for number in range(FILES):
        table.merge(*((row(key, 0), row(key, number)) for key in keys[number:]))
    table.merge((row(keys[0], 0), None))

    assert sorted(each["k"] for each in table.rows()) == sorted(keys[1:])


def test_a_key_beyond_the_hundredth_column_is_found_by_its_bounds(tmp_path: Path) -> None:
    columns = [Column.of(f"c{number}", "varchar(50)") for number in range(130)]
    columns[120] = Column.of("k", "varchar(50)", primary_key=True)
    table = PlainTable(tmp_path, TableSchema(NAME, tuple(columns)))

    def wide(number: int, value: str) -> dict[str, Any]:
        return dict.fromkeys((column.name for column in columns), value) | {"k": f"{'y' * 30}{number}"}

    table.merge(*((None, wide(number, "a")) for number in range(9)))
    table.merge((wide(3, "a"), wide(3, "b")))

    (key,) = (file.stats[121] for file in table.stored.files[:1])
    assert (key.lower, key.upper) == (b"y" * 30 + b"0", b"y" * 30 + b"8")
    assert len(table.stored.files[0].stats) == 101
    assert sorted(each["c0"] for each in table.rows()) == ["a"] * 8 + ["b"]


def test_zeros_of_both_signs_are_one_key(tmp_path: Path) -> None:
    table = PlainTable(tmp_path, TableSchema(NAME, (Column.of("k", "double", primary_key=True), NUMBER)))

    table.merge((None, row(-0.0, 1)), (None, row(5e-324, 1)))
    table.merge((row(-0.0, 1), row(0.0, 2)))
    table.merge((None, row(0.0, 3)))
    table.merge((None, row(-0.0, 4)))

    assert sorted((each["k"], each["v"]) for each in table.rows()) == [(0.0, 4), (5e-324, 1)]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize(("column", "type_"), [("k", pa.int64()), ("v", pa.int64()), ("k", pa.decimal128(20, 0))])
def test_a_column_that_another_program_widened_is_written_in_its_type(
    tmp_path: Path, mode: Mode, column: str, type_: pa.DataType
) -> None:
    table = PlainTable(tmp_path, TABLE, mode)
    table.merge((None, row(1, 0)), (None, row(2, 0)))
    table.retype(column, type_)

    for number in range(FILES):
        table.merge((row(1, number), row(1, number + 1)))
    table.merge((row(2, 0), None))

    found = table.rows()
    assert table.stored.column(column).type == type_
    assert len(table.stored.files) < FILES
    assert len(found) == {Mode.MIRROR: 1, Mode.SCD2: FILES + 2, Mode.HISTORY: FILES + 3}[mode]
    assert max(each["v"] for each in found if each["v"] is not None) == FILES


# Memory


def test_long_values_are_folded_as_far_as_they_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take little in files, for they are alike, and much in memory."""
    monkeypatch.setattr(fold, "_MOST_MEMORY", 3 << 20)
    table = PlainTable(tmp_path, TableSchema(NAME, (KEY, Column.of("v", "longtext"))))
    counts = []

    for number in range(2 * FILES):
        table.merge(*((None, row(100 * number + key, "long " * 4_000)) for key in range(50)))
        counts.append(len(table.stored.files))

    sizes = [pq.read_metadata(file.path).row_group(0).total_byte_size for file in table.stored.files]
    assert all(size > 50 * 20_000 for size in sizes)
    assert all(file.size < 50_000 for file in table.stored.files)
    assert 3 < counts[FILES - 1] <= max(counts) <= FILES  # not all at once
    assert sorted(each["k"] for each in table.rows()) == [
        100 * number + key for number in range(16) for key in range(50)
    ]


def test_few_changes_with_long_values_are_several_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "BYTES_PER_TASK", 1 << 20)
    table = PlainTable(tmp_path, TableSchema(NAME, (KEY, Column.of("v", "longtext"))))
    rows = [row(key, "x" * 100_000) for key in range(40)]
    piece = stage(tmp_path, table.table, [change(5, number, None, each) for number, each in enumerate(rows)])

    pieces = merge_pieces(Merge(table.table, (piece,), 5), Mode.MIRROR, table.stored, Staged(), "x")

    counts = [file.rows for piece in pieces for file in piece.run().added]
    assert len(counts) == 4
    assert sum(counts) == 40
    assert max(counts) <= 12


def test_only_short_values_that_come_again_have_a_dictionary(tmp_path: Path) -> None:
    columns = [KEY, *(Column.of(name, "text") for name in ("few", "many", "long"))]
    table = PlainTable(tmp_path, TableSchema(NAME, tuple(columns)))

    table.merge(*((None, {"k": key, "few": "abc"[key % 3], "many": str(key), "long": "x" * 2000}) for key in range(99)))

    group = pq.read_metadata(table.stored.files[0].path).row_group(0)
    found = {group.column(place).path_in_schema: group.column(place).has_dictionary_page for place in range(4)}
    assert found == {"k": False, "few": True, "many": False, "long": False}


# A full disk


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Files may not become larger, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)


def test_a_file_that_cannot_be_written_is_removed_and_named(tmp_path: Path) -> None:
    table = PlainTable(tmp_path, TableSchema(NAME, (KEY, Column.of("v", "longtext"))))
    table.merge((None, row(1, "short")))
    stored, files = table.stored, sorted((tmp_path / "data").iterdir())
    text = "".join(map(chr, range(0x4E00, 0x9000)))
    piece = stage(tmp_path, table.table, [change(50, number, None, row(number, text * 9)) for number in range(9)])
    (whole,) = merge_pieces(Merge(table.table, (piece,), 50), Mode.MIRROR, stored, Staged(), "x")

    with small_files(10_000), pytest.raises(StorageError, match=r"data, 'x-\w+\.parquet': File too large") as caught:
        whole.run()

    assert isinstance(caught.value.__cause__, OSError)
    assert sorted((tmp_path / "data").iterdir()) == files
    assert [each["v"] for each in table.rows()] == ["short"]
    assert whole.run().added
