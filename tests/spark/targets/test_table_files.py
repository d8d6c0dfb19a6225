"""How both formats describe files: bounds, statistics, dead positions."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from tidewire.errors import SyncError
from tidewire.model import TableName
from tidewire.spark.apply.write import write_rows
from tidewire.spark.targets import delta_files, iceberg_files
from tidewire.spark.targets.files import (
    ColumnStats,
    DataFile,
    DeadRows,
    FileChange,
    LocalAccess,
    StoredColumn,
    StoredTable,
    dead_positions,
    framed,
    stats_of,
    unframed,
)

NAME = TableName("s", "t")

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int32(), [-(2**31), 0, 2**31 - 1]),
    (pa.int64(), [-(2**63), 7, 2**63 - 1]),
    (pa.float32(), [-1.5, 0.0, 3.25]),
    (pa.float64(), [-1e300, 0.1]),
    (pa.decimal128(10, 2), [Decimal("-1.28"), Decimal("1.27"), Decimal("99999999.99")]),
    (pa.decimal128(38, 10), [Decimal("-9999999999999999999999999999.5"), Decimal("0.0000000001")]),
    (pa.date32(), [date(1, 1, 1), date(1969, 12, 31), date(9999, 12, 31)]),
    (pa.timestamp("us"), [datetime(1, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29)]),
    (pa.timestamp("us", "UTC"), [datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=timezone.utc)]),
    (pa.string(), ["", "ä", "\U0010ffff"]),
    (pa.binary(), [b"", b"\xff\x00"]),
]
IDS = [str(type_) for type_, _ in VALUES]


def stored(tmp_path: Path, *types: pa.DataType) -> StoredTable:
    columns = tuple(StoredColumn(f"c{place}", place, type_, f"c{place}") for place, type_ in enumerate(types, 1))
    return StoredTable("t@1", columns, (), LocalAccess(), str(tmp_path), tuple(column.name for column in columns))


@pytest.mark.parametrize(("type_", "values"), VALUES, ids=IDS)
def test_iceberg_reads_the_bounds_that_are_written(type_: pa.DataType, values: list[Any]) -> None:
    stats = stats_of(pa.chunked_array([pa.array([*values, None], type_)]))

    for bound in (stats.lower, stats.upper):
        assert bound is not None
        assert iceberg_files._decoded(iceberg_files._encoded(bound, type_), type_) == bound
    assert stats.nulls == 1


@pytest.mark.parametrize(("type_", "values"), VALUES, ids=IDS)
def test_delta_s_log_holds_the_values_of_a_file(type_: pa.DataType, values: list[Any], tmp_path: Path) -> None:
    table = stored(tmp_path, type_)
    rows = pa.table({"c1": pa.array([*values, None], type_)})
    (file,) = write_rows(table, rows, "x")

    (action,) = delta_files.actions_of(FileChange(table, (file,)))
    read = delta_files._data_file(NAME, action["add"], table.columns, table.folder)

    assert read.path == file.path
    assert (read.rows, read.stats[1].nulls) == (len(values) + 1, 1)
    exact, told = file.stats[1], read.stats[1]
    assert told.lower is None or told.lower <= exact.lower  # type: ignore[operator]
    assert told.upper is None or told.upper >= exact.upper  # type: ignore[operator]
    if pa.types.is_integer(type_) or pa.types.is_decimal(type_) or pa.types.is_string(type_):
        assert (told.lower, told.upper) == (exact.lower, exact.upper)


def test_numbers_that_are_none_have_no_bounds(tmp_path: Path) -> None:
    rows = pa.chunked_array([pa.array([1.0, float("nan"), -2.0], pa.float64())])

    assert stats_of(rows) == ColumnStats(0, -2.0, 1.0, 1)
    (file,) = write_rows(stored(tmp_path, pa.float64()), pa.table({"c1": rows}), "x")
    (action,) = delta_files.actions_of(FileChange(stored(tmp_path, pa.float64()), (file,)))
    assert json.loads(action["add"]["stats"])["minValues"] == {}  # Delta takes NaN for the largest number


@given(st.sets(st.integers(0, 2**40), max_size=50))
def test_dead_positions_come_back(positions: set[int]) -> None:
    assert set(unframed(framed(bytes(BitMap64(positions).serialize())), "x")) == positions


def test_damaged_dead_positions_are_refused_by_name() -> None:
    frame = framed(bytes(BitMap64([1, 2, 3]).serialize()))

    for broken in (frame[:-1] + b"x", frame[:10] + bytes([frame[10] ^ 1]) + frame[11:], frame[:20]):
        with pytest.raises(SyncError, match=r"lake/v\.puffin is damaged"):
            unframed(broken, "lake/v.puffin")


@pytest.mark.parametrize("version", [2, 3])
def test_dead_positions_are_found_in_the_files_that_were_written(version: int, tmp_path: Path) -> None:
    base = StoredTable("t@1", (), (), LocalAccess(), str(tmp_path), format=version)
    dead = {f"{tmp_path}/{name}": {number, number + 5} for number, name in enumerate(("a.parquet", "b.parquet"))}
    document = json.dumps({"spec-id": 0, "partition": []})
    base = replace(base, files=tuple(DataFile(path, 9, {}, document=document) for path in dead))
    change = FileChange(base, (), {path: bytes(BitMap64(found).serialize()) for path, found in dead.items()})

    written = iceberg_files.write_dead_rows(change, "x")

    for path, found in dead.items():
        assert set(dead_positions(DataFile(path, 9, {}, (written[path],)), base.access)) == found
        assert (written[path].count, json.loads(written[path].document)["referenced-data-file"]) == (2, path)


def test_delta_finds_its_vectors_again(tmp_path: Path) -> None:
    table = stored(tmp_path, pa.int64())
    paths = [f"{tmp_path}/{name}" for name in ("a%20b.parquet", "ä.parquet")]
    adds = [{"path": quote(path.rpartition("/")[2]), "partitionValues": {}, "size": 1} for path in paths]
    files = tuple(delta_files._data_file(NAME, add, table.columns, table.folder) for add in adds)
    assert [file.path for file in files] == paths
    dead = {path: bytes(BitMap64([number]).serialize()) for number, path in enumerate(paths)}
    base = StoredTable("1", table.columns, files, LocalAccess(), str(tmp_path))

    actions = list(delta_files.actions_of(FileChange(base, (), dead)))

    again = [
        delta_files._data_file(NAME, each["add"], table.columns, table.folder) for each in actions if "add" in each
    ]
    assert [set(dead_positions(file, base.access)) for file in again] == [{0}, {1}]
    assert [each["remove"]["path"] for each in actions if "remove" in each] == [add["path"] for add in adds]


@given(st.uuids())
def test_the_id_of_a_file_of_vectors_has_a_short_text(id_: uuid.UUID) -> None:
    text = delta_files._packed(id_.bytes)

    assert len(text) == 20
    assert delta_files._unpacked(text) == id_.bytes


def test_rows_that_another_program_deletes_by_equality_are_refused() -> None:
    with pytest.raises(SyncError, match=r"s\.t: lake/eq\.parquet deletes rows by equality"):
        iceberg_files._dead_rows(NAME, {"content": "equality-deletes", "file-path": "lake/eq.parquet"})
    assert DeadRows("p", 0, 0, 1).document == ""
