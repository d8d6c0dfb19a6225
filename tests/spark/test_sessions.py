"""The session does what the sync will ask of it, on real tables of both formats."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from tidewire.errors import OptionError
from tidewire.spark.requirements import NEEDS
from tidewire.spark.sessions import cloned, iceberg_catalog_conf, java_process, own_session, session

COLUMNS = "id BIGINT, s STRING, v ARRAY<FLOAT>, at TIMESTAMP_NTZ, d DECIMAL(38,10), u DECIMAL(20,0), b BINARY"
PROPERTIES = "'format-version' = '3', 'write.merge.mode' = 'merge-on-read'"
MERGE = """
MERGE INTO {table} t USING changes c ON t.id = c.id
WHEN MATCHED AND c.gone THEN DELETE
WHEN MATCHED THEN UPDATE SET s = c.s, v = c.v, at = c.at, d = c.d, u = c.u, b = c.b
WHEN NOT MATCHED AND NOT c.gone THEN INSERT (id, s, v, at, d, u, b) VALUES (c.id, c.s, c.v, c.at, c.d, c.u, c.b)
"""
AT = dt.datetime(1000, 1, 2, 3, 4, 5, 678901)


def test_local_files_are_written_without_a_process_for_each(spark: SparkSession, tmp_path: Path) -> None:
    """Their permissions are what Hadoop asks for all the same."""
    jvm: Any = spark._jvm
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    files = jvm.org.apache.hadoop.fs.FileSystem.get(jvm.java.net.URI("file:///"), settings)
    permission = jvm.org.apache.hadoop.fs.permission.FsPermission
    ended = Path(f"/proc/{java_process(spark)}/stat")

    def faults_of_children() -> str:
        return ended.read_text().rpartition(")")[2].split()[8]

    before = faults_of_children()
    for name in ("a", "b c", "ü"):
        files.create(jvm.org.apache.hadoop.fs.Path(f"{tmp_path}/{name}")).close()
    files.setPermission(jvm.org.apache.hadoop.fs.Path(f"{tmp_path}/a"), permission("750"))
    after = faults_of_children()
    files.setPermission(jvm.org.apache.hadoop.fs.Path(f"{tmp_path}/b c"), permission("1777"))

    assert before == after
    assert {path.name: oct(path.stat().st_mode) for path in tmp_path.iterdir()} == {
        "a": "0o100750",
        "b c": "0o101777",
        "ü": "0o100644",
    }


def merge(spark: SparkSession, table: str, *changes: tuple[int, str, bool]) -> None:
    rows = [
        (key, text, [1.5, None], AT, Decimal("-1.5"), Decimal(2**64 - 1), b"\0\xff", gone)
        for key, text, gone in changes
    ]
    spark.createDataFrame(rows, f"{COLUMNS}, gone BOOLEAN").createOrReplaceTempView("changes")
    spark.sql(MERGE.format(table=table))


def texts(spark: SparkSession, table: str) -> dict[int, str]:
    return {row.id: row.s for row in spark.sql(f"SELECT id, s FROM {table}").collect()}


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An embedded Iceberg catalog, added to the running session under the name ``lake``; its folder."""
    folder = tmp_path_factory.mktemp("a lake (of 1%)")
    for name, value in iceberg_catalog_conf("lake", folder).items():
        spark.conf.set(name, value)
    spark.sql("CREATE NAMESPACE lake.shop")
    return folder


def test_iceberg_merges_renames_travels_and_pyiceberg_reads_it(spark: SparkSession, lake: Path) -> None:
    spark.sql(f"CREATE TABLE lake.shop.a ({COLUMNS}) USING iceberg TBLPROPERTIES ({PROPERTIES})")
    merge(spark, "lake.shop.a", (1, "one", False), (2, "two", False), (3, "three", False))
    first = spark.sql("SELECT snapshot_id FROM lake.shop.a.snapshots").collect()[0][0]
    merge(spark, "lake.shop.a", (1, "uno", False), (2, "", True), (4, "", True))
    spark.sql("ALTER TABLE lake.shop.a RENAME TO shop.b")

    assert texts(spark, "lake.shop.b") == {1: "uno", 3: "three"}
    assert texts(spark, f"lake.shop.b VERSION AS OF {first}") == {1: "one", 2: "two", 3: "three"}
    assert {row[0] for row in spark.sql("SELECT file_format FROM lake.shop.b.delete_files").collect()} == {"PUFFIN"}
    outside = SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=str(lake))
    rows = sorted(outside.load_table("shop.b").scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    outside.close()
    assert [row["s"] for row in rows] == ["uno", "three"]
    assert rows[0] == {
        "id": 1, "s": "uno", "v": [1.5, None], "at": AT, "d": Decimal("-1.5"), "u": Decimal(2**64 - 1), "b": b"\0\xff"
    }  # fmt: skip


def test_delta_merges_once_per_transaction_number(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path}/opaque`"
    mine = cloned(spark)
    mine.conf.set("spark.databricks.delta.write.txnAppId", "a sync")
    mine.sql(f"CREATE TABLE {table} ({COLUMNS}) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")

    for number, text in ((7, "one"), (7, "again"), (8, "two")):
        mine.conf.set("spark.databricks.delta.write.txnVersion", str(number))
        merge(mine, table, (1, text, False))
    spark.sql(f"ALTER TABLE {table} RENAME COLUMN s TO text")

    assert [row.text for row in spark.sql(f"SELECT * FROM {table}").collect()] == ["two"]
    assert texts(spark, f"{table} VERSION AS OF 1") == {1: "one"}
    assert spark.conf.get("spark.databricks.delta.write.txnAppId", "none") == "none"


def test_sessions_of_threads_keep_their_settings_apart_and_see_one_anothers_commits(
    spark: SparkSession, lake: Path
) -> None:
    tables = [f"lake.shop.t{number}" for number in range(3)]
    for table in tables:
        spark.sql(f"CREATE TABLE {table} ({COLUMNS}) USING iceberg TBLPROPERTIES ({PROPERTIES})")
        assert texts(spark, table) == {}

    def work(table: str) -> None:
        mine = cloned(spark)
        mine.conf.set("spark.sql.iceberg.snapshot-property.by", table)
        merge(mine, table, (1, table, False))

    with ThreadPoolExecutor(len(tables)) as pool:
        list(pool.map(work, tables))

    for table in tables:
        assert texts(spark, table) == {1: table}
        assert [row[0] for row in spark.sql(f"SELECT summary['by'] FROM {table}.snapshots").collect()] == [table]


def test_rows_pass_through_python_as_arrow_batches(spark: SparkSession) -> None:
    def doubled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pylist([{"twice": row["id"] * 2} for row in batch.to_pylist()])

    rows = spark.range(5).mapInArrow(doubled, "twice BIGINT").collect()

    assert sorted(row.twice for row in rows) == [0, 2, 4, 6, 8]


def test_spark_shows_no_secret_of_a_catalog(spark: SparkSession) -> None:
    hush = {
        f"spark.sql.catalog.hushed.{name}": "hush-hush"
        for name in ("credential", "oauth2.token", "jdbc.password", "s3.secret-access-key", "s3.access-key-id", "uri")
    }

    with own_session(spark) as own:
        for name, value in hush.items():
            own.conf.set(name, value)
        java: Any = own._jsparkSession
        options = spark._jvm.scala.collection.immutable.HashMap()  # type: ignore[union-attr]
        for name, value in hush.items():
            options = options.updated(name, value)
        shown = str(java.sessionState().conf().redactOptions(options))

    assert "hush-hush" not in shown
    assert shown.count("redacted") == len(hush)


def test_parquet_goes_between_arrow_and_spark_unharmed(spark: SparkSession, tmp_path: Path) -> None:
    instant = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
    schema = pa.schema(
        [
            ("u", pa.decimal128(20, 0)),
            ("local", pa.timestamp("us")),
            ("instant", pa.timestamp("us", "UTC")),
            ("v", pa.list_(pa.float32())),
        ]
    )
    row = {"u": Decimal(2**64 - 1), "local": AT, "instant": instant.replace(tzinfo=dt.timezone.utc), "v": [1.5, None]}
    pq.write_table(pa.Table.from_pylist([row], schema), tmp_path / "in.parquet")

    frame = spark.read.parquet(str(tmp_path / "in.parquet"))
    frame.coalesce(1).write.parquet(str(tmp_path / "out"))

    types = {"u": "decimal(20,0)", "local": "timestamp_ntz", "instant": "timestamp", "v": "array<float>"}
    assert dict(frame.dtypes) == types
    again = pq.read_table(tmp_path / "out")
    assert again.schema.field("instant").type == pa.timestamp("us", "UTC")
    assert again.to_pylist() == [row]


def test_an_error_reaches_the_caller_and_nobody_else(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AnalysisException, match="nowhere"):
        spark.sql("SELECT * FROM nowhere")

    assert capfd.readouterr() == ("", "")


def test_a_running_session_comes_back_with_new_settings(spark: SparkSession) -> None:
    again = session(conf={"spark.sql.catalog.later": "org.apache.iceberg.spark.SparkCatalog"})

    assert again.sparkContext is spark.sparkContext
    assert spark.conf.get("spark.sql.catalog.later") == "org.apache.iceberg.spark.SparkCatalog"
    spark.conf.unset("spark.sql.catalog.later")


def test_a_session_without_the_extensions_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NEEDS, "delta", NEEDS["delta"]._replace(extension="some.other.Extension"))

    with pytest.raises(OptionError, match=r"started without some\.other\.Extension"):
        session()


def test_a_catalog_in_a_folder_with_a_question_mark_is_refused() -> None:
    with pytest.raises(OptionError, match="question mark"):
        iceberg_catalog_conf("lake", "what?")
