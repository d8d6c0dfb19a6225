"""Tables that another program loaded become the sync's, if they fit; their files stay."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import topic_files
from dump_files import SEED11_TS, unpack
from sync_checks import assert_equal, job_of, synced, written
from tidewire.arrow.policy import Policy
from tidewire.errors import LoadError
from tidewire.load.chunks import DumpSource
from tidewire.load.dumpling import read_dump
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Mode
from tidewire.spark.job import Job
from tidewire.spark.ledger import ledger_of
from tidewire.spark.load.adopt import differences
from tidewire.spark.load.run import load
from tidewire.spark.publications import Publications
from tidewire.spark.snapshot import snapshot
from tidewire.spark.targets import Adoptable, Field, open_target
from tidewire.storage import open_storage
from tidewire.topic.files import FileTopics

NAMES = (TableName("test", "accounts"), TableName("test", "wide"))
NAME = "canal-json"


def made_elsewhere(spark: SparkSession, folder: Path, target: Path, format_: str, dump: DumpSource) -> None:
    """Tables in a target that no sync has written to, as Spark makes them."""
    load(spark, open_target(spark, str(folder / "other"), "iceberg"), Job(""), dump)
    found, place = snapshot(spark, str(folder / "other")), open_target(spark, str(target), format_)
    for name in NAMES:
        rows = found[str(name)]
        if format_ == "delta":
            rows.write.format("delta").save(str(target / "data" / str(name)))
        else:
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {place.relation(name).rpartition('.')[0]}")
            rows.writeTo(place.relation(name)).using("iceberg").create()


@pytest.mark.slow
@pytest.mark.parametrize("format_", ["iceberg", "delta"])
def test_tables_of_another_program_are_adopted_and_synced(spark: SparkSession, tmp_path: Path, format_: str) -> None:
    recorded, target = topic_files.expected("seed11"), tmp_path / "target"
    storage = open_storage(unpack("seed11", tmp_path) / "csv")
    tables = tuple(each for each in read_dump(storage).tables if each.schema.name in NAMES)
    dump = DumpSource(storage, tables, SEED11_TS)
    made_elsewhere(spark, tmp_path, target, format_, dump)
    before = {path.name for path in target.rglob("*.parquet")}
    place, job = open_target(spark, str(target), format_), job_of("seed11", NAME, tmp_path, format=format_)

    found = load(spark, place, replace(job, protocol=""), dump, adopts=True)

    assert (found.ts, found.was_done, found.holds) == (SEED11_TS, False, ())
    assert found.rows == {NAMES[0]: 25, NAMES[1]: 24}
    assert {path.name for path in target.rglob("*.parquet")} == before
    assert load(spark, place, replace(job, protocol=""), dump, adopts=True).was_done
    moment = next(each for each in recorded["watermarks"] if each["ts"] == SEED11_TS)
    assert_equal(spark, target, {"tables": {str(name): moment["tables"][str(name)] for name in NAMES}})
    later = [each for each in recorded["watermarks"] if each["ts"] > SEED11_TS][2]
    job = replace(job, rules=replace(job.rules, follow=tuple(map(str, NAMES))))
    assert (
        synced(spark, written(tmp_path / "topics", "seed11", NAME), target, replace(job, until=later["ts"])).holds == ()
    )
    assert_equal(spark, target, {"tables": {str(name): later["tables"][str(name)] for name in NAMES}})
    if format_ == "delta":  # its commits take long
        return
    synced(spark, FileTopics(tmp_path / "topics"), target, job)
    followed = {
        name: table for name, table in recorded["end"]["tables"].items() if TableName(*name.split(".")) in NAMES
    }
    assert_equal(spark, target, {"tables": followed})


@pytest.mark.slow
def test_a_table_whose_rows_share_a_key_is_not_adopted(spark: SparkSession, tmp_path: Path) -> None:
    storage = open_storage(unpack("seed11", tmp_path) / "csv")
    tables = tuple(each for each in read_dump(storage).tables if each.schema.name in NAMES)
    dump, target = DumpSource(storage, tables, SEED11_TS), tmp_path / "target"
    made_elsewhere(spark, tmp_path, target, "iceberg", dump)
    place = open_target(spark, str(target), "iceberg")
    place.read(NAMES[1]).limit(1).writeTo(place.relation(NAMES[1])).append()

    with pytest.raises(LoadError, match=r"test\.wide cannot be adopted: it has several rows with one key"):
        load(spark, place, Job(""), dump, adopts=True)

    assert Publications(ledger_of(str(target))).names() == []


def test_all_that_differs_is_said() -> None:
    table = TableSchema(
        TableName("shop", "orders"),
        (
            replace(Column.of("id", "bigint", nullable=False), handle_key=True),
            Column.of("v", "varchar(9)"),
            Column.of("n", "int"),
        ),
    )
    there = (Field("ID", "bigint"), Field("v", "string"), Field("n", "int"))

    def said(*fields: Field, required: str = "", key: tuple[str, ...] = (), problem: str | None = None) -> list[str]:
        found = Adoptable("r", fields, frozenset({required} - {""}), key, problem)
        return list(differences(found, table, Mode.MIRROR, Policy()))

    assert said(*there, key=("ID",)) == []
    assert said(there[0], Field("v", "binary"), Field("m", "int")) == [
        "column v is of type binary, not string",
        "it lacks column n (int)",
        "it has a column m too many",
    ]
    assert said(there[1], there[0], there[2]) == ["its columns are in the order v, id, n, not id, v, n"]
    assert said(*there, required="v", key=("v",), problem="p") == [
        "p",
        "column v cannot be NULL there",
        "its key is v, not id",
    ]
