"""The default of a new column: kept in the schema where the format can do it, read by every reader, ours included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from spark.apply.staging import change, stage
from spark.targets.tags import tag
from tidewire.arrow.cast import default_value
from tidewire.ddl.column_steps import NewColumn, TypedColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Mode, execute
from tidewire.spark.apply.fold import FILES
from tidewire.spark.targets import IcebergTarget, Target
from tidewire.sync.steps import Alter, Create, Merge

ID, NAME = Column.of("id", "int", primary_key=True), Column.of("name", "varchar(20)")

DEFAULTS: dict[str, str | bytes] = {
    "tinyint unsigned": "255",
    "int": "-7",
    "bigint": "-9223372036854775808",
    "bigint unsigned": "18446744073709551615",
    "float": "0.1",
    "double": "-1e300",
    "decimal(10,4)": "12.5000",
    "decimal(38,0)": "9" * 38,
    "year": "1999",
    "date": "0001-01-01",
    "datetime(6)": "2024-02-03 04:05:06.000007",
    "timestamp": "2024-02-03 04:05:06",
    "time": "-01:02:03",
    "varchar(20)": "it's \\ \"é\U0001f600",
    "char(3)": "",
    "varchar(12)": "2024-02-03",
    "binary(2)": b"\x00\xff",
    "enum('a','b')": "b",
    "json": '{"a": 1}',
    "bit(3)": "5",
}


def altered(before: TableSchema, *columns: Column) -> TableSchema:
    return TableSchema(before.name, (*before.columns, *columns))


def filled(target: Target, folder: Path, table: TableSchema, mode: Mode, *rows: dict[str, Any]) -> None:
    execute(Create(table, 1), target, tag(), mode)
    merged(target, folder, table, mode, 5, *((None, row) for row in rows))


def merged(
    target: Target,
    folder: Path,
    table: TableSchema,
    mode: Mode,
    ts: int,
    *images: Any,
    shape: TableSchema | None = None,
) -> None:
    piece = stage(folder, shape or table, [change(ts, ts + number, *pair) for number, pair in enumerate(images)])
    execute(Merge(table, (piece,), ts), target, tag(), mode)


def added(target: Target, table: TableSchema, mode: Mode, ts: int, *news: tuple[Column, str | bytes]) -> TableSchema:
    after = altered(table, *(column for column, _ in news))
    steps = tuple(NewColumn(column, ColumnPosition(), default) for column, default in news)
    execute(Alter(table, after, steps, ts), target, tag(), mode)
    return after


def rows(target: Target, table: TableSchema, version: str | None = None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = target.read(table.name, version).orderBy("id").toArrow().to_pylist()
    return found


def paths(target: Target, table: TableSchema) -> set[str]:
    return {file.path for file in target.stored(table.name, listed=True).files}


@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
def test_defaults_of_every_type_touch_no_file_and_every_reader_sees_them(target: IcebergTarget, tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    table = TableSchema(TableName("defaults", "types"), (ID, NAME))
    filled(target, tmp_path, table, Mode.MIRROR, {"id": 1, "name": "a"})
    files, old = paths(target, table), target.version(table.name)
    news = [(Column.of(f"c{number}", type_), text) for number, (type_, text) in enumerate(DEFAULTS.items())]

    after = added(target, table, Mode.MIRROR, 6, *news)

    version = target.version(table.name)
    assert paths(target, table) == files
    assert rows(target, table, old) == [{"id": 1, "name": "a"}]
    wanted = pa.table(
        {"id": pa.array([1], pa.int32()), "name": ["a"]}
        | {column.name: pa.repeat(default_value(text, column), 1) for column, text in news}
    )
    assert_same(target.read(after.name).toArrow(), wanted)
    catalog = load_catalog(target.catalog, type="sql", uri=f"sqlite:///{target.uri}/catalog.db")
    found = catalog.load_table("defaults.types").scan(snapshot_id=int(version.split("@")[1])).to_arrow()
    assert_same(found, wanted)


@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
def test_a_default_that_pyiceberg_cannot_read_is_written_into_files(target: IcebergTarget, tmp_path: Path) -> None:
    from pyiceberg.catalog import load_catalog

    table = TableSchema(TableName("defaults", "year_0"), (ID, NAME))
    filled(target, tmp_path, table, Mode.MIRROR, {"id": 1, "name": "a"})

    added(target, table, Mode.MIRROR, 6, (Column.of("d", "date"), "0000-01-01"))

    catalog = load_catalog(target.catalog, type="sql", uri=f"sqlite:///{target.uri}/catalog.db")
    found = catalog.load_table("defaults.year_0").scan().to_arrow()
    assert found["d"].cast(pa.int32()).to_pylist() == [-719528]


def assert_same(found: pa.Table, wanted: pa.Table) -> None:
    """Compared as Arrow has values: Python has no year 0."""
    for field, values in zip(wanted.schema, found.columns, strict=True):
        assert values.cast(field.type) == wanted[field.name], field


@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SCD2])
def test_rows_that_are_written_again_keep_a_default_that_their_file_lacks(
    target: Target, tmp_path: Path, mode: Mode
) -> None:
    table = TableSchema(TableName("defaults", f"again_{mode}"), (ID, NAME))
    filled(target, tmp_path, table, mode, {"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"})
    number = Column.of("n", "int")
    after = added(target, table, mode, 6, (number, "7"))

    # Rows of the old shape do not tell the new column: the stored row does.
    merged(target, tmp_path, after, mode, 10, ({"id": 1, "name": "a"}, {"id": 1, "name": "z"}), shape=table)
    for ts in range(20, 20 + FILES):  # folds the file that lacks the column
        merged(target, tmp_path, after, mode, ts, (None, {"id": ts, "name": "x", "n": None}))
    wider = altered(table, Column.of("n", "varchar(9)"))
    execute(Alter(after, wider, (TypedColumn(number, wider.columns[-1]),), 40), target, tag(), mode)

    found = rows(target, wider)
    current = {row["id"]: row["n"] for row in found if row.get("_tw_valid_to") is None}
    assert current == {1: "7", 2: "7", 3: "7"} | dict.fromkeys(range(20, 20 + FILES), None)
    assert mode is Mode.MIRROR or {row["n"] for row in found if row["_tw_valid_to"] is not None} == {"7"}


@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
@pytest.mark.parametrize("mode", list(Mode))
def test_a_key_is_found_by_a_column_that_older_files_lack(target: Target, tmp_path: Path, mode: Mode) -> None:
    table = TableSchema(TableName("defaults", f"key_{mode}"), (ID, NAME))
    filled(target, tmp_path, table, mode, {"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    part = Column.of("part", "varchar(9)", primary_key=True)
    after = added(target, table, mode, 6, (part, "eu"))
    images = (
        ({"id": 1, "name": "a", "part": "eu"}, {"id": 1, "name": "z", "part": "eu"}),
        ({"id": 2, "name": "b", "part": "eu"}, None),
        (None, {"id": 1, "name": "n", "part": "us"}),
    )

    for _ in range(2):  # the second time is a replay
        merged(target, tmp_path, after, mode, 10, *images)

    found = rows(target, after)
    if mode is Mode.HISTORY:
        assert len(found) == 5
        return
    current = sorted((row["id"], row["part"], row["name"]) for row in found if row.get("_tw_valid_to") is None)
    assert current == [(1, "eu", "z"), (1, "us", "n")]
    assert len(found) == (2 if mode is Mode.MIRROR else 4)


def test_rows_of_deletes_get_no_default(spark: SparkSession, target: Target, tmp_path: Path) -> None:
    table = TableSchema(TableName("defaults", "history"), (ID, NAME))
    filled(target, tmp_path, table, Mode.HISTORY, {"id": 1, "name": "a"})
    merged(target, tmp_path, table, Mode.HISTORY, 7, ({"id": 1, "name": "a"}, None))

    after = added(target, table, Mode.HISTORY, 8, (Column.of("n", "int"), "7"))

    found = {row["_tw_op"]: row["n"] for row in rows(target, after)}
    assert found == {"insert": 7, "delete": None}


@pytest.mark.parametrize("format_version", [2, 3])
def test_version_2_of_the_format_and_delta_write_files_anew(
    spark: SparkSession, tmp_path: Path, format_version: int
) -> None:
    target = IcebergTarget(spark, tmp_path / "lake", format_version=format_version)
    table = TableSchema(TableName("defaults", "files"), (ID, NAME))
    filled(target, tmp_path, table, Mode.MIRROR, {"id": 1, "name": "a"})
    files = paths(target, table)

    after = added(target, table, Mode.MIRROR, 6, (Column.of("n", "int"), "7"))

    assert rows(target, after) == [{"id": 1, "name": "a", "n": 7}]
    assert (paths(target, table) == files) == (format_version == 3)
