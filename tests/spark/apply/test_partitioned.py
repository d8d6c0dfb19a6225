"""Partitioned and sorted tables: rows are in the files of their partitions, also when they move, or columns change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.apply.staging import change, stage
from spark.targets.tags import tag
from sync.reduce import Change
from tidewire.ddl.column_steps import GoneColumn, NamedColumn, NewColumn, TypedColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.errors import StepImpossible
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Mode, check, current_rows, execute
from tidewire.spark.apply import compact as module
from tidewire.spark.apply.compact import compact
from tidewire.spark.apply.find import Opened
from tidewire.spark.apply.fold import FILES
from tidewire.spark.targets import IcebergTarget, Target
from tidewire.spark.targets.files import DataFile, FileAccess
from tidewire.sync.steps import Alter, Create, Merge
from tidewire.sync.table_options import PartitionBy, TableOptions

ID = Column.of("id", "bigint", primary_key=True)
DAY, REGION = Column.of("day", "datetime"), Column.of("region", "int")
OPTIONS = TableOptions(partition=(PartitionBy("id", "bucket[4]"), PartitionBy("day", "month")))
BY_REGION = TableOptions(partition=(PartitionBy("REGION"),))

Rows = dict[int, dict[str, Any]]


def schema(name: str, *columns: Column) -> TableSchema:
    return TableSchema(TableName("partitioned", name), columns or (ID, DAY, REGION))


def row(key: int, month: int, region: int | None) -> dict[str, Any]:
    from datetime import datetime

    return {"id": key, "day": datetime(2024, month, 1, 12), "region": region}


class Feed:
    """A table and the rows it has upstream."""

    def __init__(self, target: Target, folder: Path, table: TableSchema, mode: Mode, options: TableOptions) -> None:
        self.target, self.folder, self.table, self.mode = target, folder, table, mode
        self.rows: Rows = {}
        self.ts = 10
        execute(Create(table, 1, options), target, tag(), mode)

    def put(self, *rows: dict[str, Any], again: bool = False) -> None:
        """Rows that come or change, perhaps twice."""
        pairs = [(self.rows.get(each["id"]), each) for each in rows]
        self._merge(pairs, again)
        self.rows |= {each["id"]: each for each in rows}

    def move(self, old: int, new: int) -> None:
        """A row gets another key."""
        before = self.rows.pop(old)
        self.rows[new] = {**before, "id": new}
        self._merge([(before, self.rows[new])], again=True)

    def delete(self, *keys: int) -> None:
        """Rows that go."""
        self._merge([(self.rows.pop(key), None) for key in keys], again=False)

    def _merge(self, pairs: Any, again: bool) -> None:
        self.ts += 10
        for _ in range(2 if again else 1):
            changes: list[Change] = [change(self.ts, self.ts + number, *pair) for number, pair in enumerate(pairs)]
            piece = stage(self.folder, self.table, changes)
            execute(Merge(self.table, (piece,), self.ts), self.target, tag(), self.mode)

    def alter(self, table: TableSchema, *columns: Any) -> None:
        """Change columns."""
        self.ts += 10
        execute(Alter(self.table, table, columns, self.ts), self.target, tag(), self.mode)
        self.table = table

    def check(self) -> None:
        """The rows are those of upstream, each once, for Spark, and for PyIceberg with a filter that prunes."""
        found = current_rows(self.mode, self.target.read(self.table.name), (ID,))
        got = sorted(found.toArrow().to_pylist(), key=lambda each: each["id"])
        assert got == [self.rows[key] for key in sorted(self.rows)]
        for key in [*self.rows][:3]:
            assert found.where(f"id = {key}").count() == 1


MODES = [("iceberg", mode) for mode in Mode]


@pytest.mark.parametrize(("target", "mode"), MODES, indirect=["target"])
@pytest.mark.parametrize("options", [OPTIONS, BY_REGION], ids=["bucket", "region"])
def test_rows_are_right_wherever_they_move(target: Target, mode: Mode, options: TableOptions, tmp_path: Path) -> None:
    feed = Feed(target, tmp_path, schema(f"moves_{mode}_{len(options.partition)}"), mode, options)
    feed.put(*(row(key, 1 + key % 3, key % 2) for key in range(12)))
    files = target.stored(feed.table.name, listed=True).files
    assert len(files) == len({file.partition for file in files}) > 1
    feed.put(*(row(key, 1 + key % 3, key % 2) for key in range(12)), again=True)
    feed.check()

    feed.put(row(3, 7, None), row(4, 1, 5), again=True)  # columns of the partition change
    feed.move(5, 105)  # the key does
    feed.delete(0, 1)
    feed.put(row(0, 9, 1))
    feed.check()

    for number in range(FILES + 1):  # small files are folded, each partition for itself
        feed.put(row(200 + number, 1, 1), row(6, 1 + number, number % 2))
    feed.check()
    compact(target, feed.table.name, tag(), feed.table, mode)
    feed.check()
    for file in target.stored(feed.table.name, listed=True).files:
        _assert_in_partition(target, feed.table, file)


def _assert_in_partition(target: Target, table: TableSchema, file: Any) -> None:
    """Every row of a file belongs in its partition."""
    stored = target.stored(table.name)
    columns = [next(column for column in stored.columns if column.id == each.source) for each in stored.partition]
    with Opened(file, stored.access) as opened:
        read = opened.read(range(len(opened.group_rows)), columns)
    for field, values, wanted in zip(stored.partition, read, file.partition, strict=True):
        assert set(field.of(values).to_pylist()) == {wanted}


@pytest.mark.parametrize("format_version", [2, 3])
def test_other_readers_find_rows_by_their_partitions(spark: SparkSession, tmp_path: Path, format_version: int) -> None:
    from pyiceberg.catalog import load_catalog

    target = IcebergTarget(spark, tmp_path / "lake", format_version=format_version)
    feed = Feed(target, tmp_path, schema("read"), Mode.MIRROR, OPTIONS)
    feed.put(*(row(key, 1 + key % 12, key % 2) for key in range(40)))
    feed.put(*(row(key, 1 + key % 11, 1) for key in range(0, 40, 3)))
    catalog = load_catalog(target.catalog, type="sql", uri=f"sqlite:///{target.uri}/catalog.db")
    table = catalog.load_table("partitioned.read")

    assert table.scan().to_arrow().num_rows == 40
    for key in range(0, 40, 7):
        assert table.scan(row_filter=f"id == {key}").to_arrow().to_pylist() == [feed.rows[key]]
    january = {key for key, each in feed.rows.items() if each["day"].month == 1}
    found = table.scan(row_filter="day < '2024-02-01T00:00:00'").to_arrow()["id"].to_pylist()
    assert set(found) == january
    assert spark.sql(f"SELECT * FROM {target.relation(feed.table.name)} WHERE day < '2024-02-01'").count() == len(
        january
    )
    spark.sql(f"DELETE FROM {target.relation(feed.table.name)} WHERE id = 7")
    del feed.rows[7]
    feed.put(row(8, 2, 2))
    feed.check()


def test_a_key_opens_the_files_of_its_partition_only(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = IcebergTarget(spark, tmp_path / "lake")
    only_bucket = TableOptions(partition=(PartitionBy("id", "bucket[8]"),))
    feed = Feed(target, tmp_path, schema("pruned"), Mode.MIRROR, only_bucket)
    feed.put(*(row(key, 1, 1) for key in range(100)))
    assert len(target.stored(feed.table.name).files) == 8
    opened: list[str] = []
    init = Opened.__init__

    def counted(self: Opened, file: DataFile, access: FileAccess) -> None:
        opened.append(file.path)
        init(self, file, access)

    monkeypatch.setattr(Opened, "__init__", counted)

    feed.put(row(50, 2, 2))

    assert len(set(opened)) == 1
    feed.check()


def test_columns_of_partitions_are_renamed_and_widened(spark: SparkSession, tmp_path: Path) -> None:
    target = IcebergTarget(spark, tmp_path / "lake")
    whole = TableOptions(partition=(PartitionBy("region"), PartitionBy("id", "bucket[4]")), sort=("day", "region"))
    key, wide = Column.of("id", "int", primary_key=True), Column.of("region", "bigint")
    feed = Feed(target, tmp_path, schema("ddl", key, DAY, REGION), Mode.MIRROR, whole)
    feed.put(*(row(each, 1, each % 3) for each in range(9)), again=True)

    feed.alter(schema("ddl", ID, DAY, wide), TypedColumn(REGION, wide), TypedColumn(key, ID))
    feed.put(row(2**40, 1, 2**40), row(3, 1, 2), again=True)
    feed.check()
    place = Column.of("place", "bigint")
    feed.alter(schema("ddl", ID, DAY, place), NamedColumn("region", "place"))
    again = Column.of("region", "int")  # a column with the old name of one that partitions
    feed.alter(schema("ddl", ID, DAY, place, again), NewColumn(again, ColumnPosition(), "5"))
    feed.rows = {
        number: {"id": number, "day": each["day"], "place": each["region"], "region": 5}
        for number, each in feed.rows.items()
    }
    feed.put({"id": 4, "day": None, "place": None, "region": None}, again=True)
    feed.check()
    without_day = schema("ddl", ID, place, again)
    feed.alter(without_day, GoneColumn("day"))  # it is in the order of rows
    for each in feed.rows.values():
        del each["day"]
    feed.put({"id": 5, "place": 0, "region": 1})
    feed.check()
    assert target.stored(feed.table.name).order == ("place",)

    for change_, table in (
        (GoneColumn("place"), schema("ddl", ID, again)),
        (
            TypedColumn(place, Column.of("place", "varchar(9)")),
            schema("ddl", ID, Column.of("place", "varchar(9)"), again),
        ),
    ):
        with pytest.raises(StepImpossible, match=r"column place partitions partitioned\.ddl, so it cannot be dropped"):
            feed.alter(table, change_)
        feed.table = without_day
    feed.put({"id": 6, "place": 1, "region": 1})
    feed.check()


def test_rows_are_in_the_order_that_a_rule_says(spark: SparkSession, tmp_path: Path) -> None:
    target = IcebergTarget(spark, tmp_path / "lake")
    feed = Feed(target, tmp_path, schema("sorted"), Mode.MIRROR, TableOptions(sort=("region", "id")))
    feed.put(*(row(key, 1, -key % 5) for key in range(20)))
    feed.put(row(3, 1, None))

    stored = target.stored(feed.table.name)
    columns = [stored.column("region"), stored.column("id")]
    with Opened(stored.files[0], stored.access) as opened:
        regions, keys = (values.to_pylist() for values in opened.read([0], columns))
    assert list(zip(regions, keys, strict=True)) == sorted(zip(regions, keys, strict=True))
    feed.check()


# What cannot be


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            TableOptions(partition=(PartitionBy("nothing"),)),
            "has column nothing in its partition, which the table does",
        ),
        (TableOptions(sort=("nothing",)), "has column nothing in its sort, which the table does not have"),
        (TableOptions(partition=(PartitionBy("id", "month"),)), r"column id cannot partition .* by month\(id\)"),
    ],
)
def test_a_rule_that_does_not_fit_a_table_holds_it(options: TableOptions, reason: str) -> None:
    import re

    assert re.search(reason, check(Create(schema("t"), 1, options), Mode.MIRROR) or "")


@pytest.mark.parametrize("target", ["delta"], indirect=True)
def test_delta_has_partitions_by_numbers_and_dates(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, name = Column.of("id", "int", primary_key=True), Column.of("name", "varchar(9)")
    table = schema("delta", key, DAY, REGION)
    feed = Feed(target, tmp_path, table, Mode.MIRROR, TableOptions(partition=(PartitionBy("region"),), sort=("day",)))
    feed.put(*(row(each, 1 + each % 2, each % 3) for each in range(9)))
    feed.put(row(3, 5, None), row(4, 1, -7), again=True)
    assert target.stored(table.name).order == ("day",)
    target.session().sql(f"OPTIMIZE {target.relation(table.name)}")  # its files do not have the column
    place = Column.of("place", "bigint")
    wider = TypedColumn(Column.of("place", "int"), place)
    feed.alter(schema("delta", key, DAY, place), NamedColumn("region", "place"), wider)
    feed.rows = {each: {"id": each, "day": old["day"], "place": old["region"]} for each, old in feed.rows.items()}
    feed.put({"id": 4, "day": None, "place": 2**40}, {"id": 5, "day": None, "place": None})
    monkeypatch.setattr(module, "FEW_FILES", 2)
    assert compact(target, table.name, tag(), feed.table)
    feed.check()

    by_name = TableOptions(partition=(PartitionBy("name"),))
    with pytest.raises(
        StepImpossible, match=r"name cannot partition partitioned\.texts: with Delta only whole numbers"
    ):
        execute(Create(schema("texts", key, name), 1, by_name), target, tag(), Mode.MIRROR)
