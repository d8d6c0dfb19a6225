"""Streams of people's own: ``tw.decode`` and ``tw.rows`` with ``foreachBatch``, against what ``tw.Sync`` makes."""

from __future__ import annotations

import os
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import tidewire
import tidewire.spark as tw
from scripted import OPTIONS, Script, table
from tidewire.model import RowChange

ORDERS = table("orders", id="bigint", state="varchar(20)", price="decimal(10,2)")
SCHEMA = "id bigint, state string, price decimal(10,2)"


class Feed:
    """The same messages as a topic of a sync, and as files of a stream."""

    def __init__(self, folder: Path) -> None:
        self._script = Script()
        self._folder = folder
        self._files = 0
        self._next = 0
        (folder / "messages").mkdir(parents=True)

    def step(self, *changes: tuple[dict[str, Any] | None, dict[str, Any] | None], create: bool = False) -> None:
        """Rows from old to new, then a watermark."""
        script = self._script
        if create:
            script.ddl("orders", "CREATE TABLE orders (id BIGINT PRIMARY KEY, state VARCHAR(20), price DECIMAL(10,2))")
        for before, after in changes:
            script.ts += 1 << 18
            script._add(RowChange(ORDERS, script.ts, before=before, after=after))
        script.watermark()
        sent = list(script.messages)
        script.write(self._folder / "topics")
        offsets = range(self._next, self._next + len(sent))
        self._next += len(sent)
        self._files += 1
        columns = {
            "topic": pa.array(["t"] * len(sent)),
            "partition": pa.array([0] * len(sent), pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "key": pa.array([each.key for each in sent], pa.binary()),
            "value": pa.array([each.value for each in sent], pa.binary()),
        }
        path = self._folder / "messages" / f"{self._files:03}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (self._files, self._files))  # a stream reads files by their time

    @property
    def topics(self) -> str:
        """Where the sync reads."""
        return (self._folder / "topics").as_uri()

    def stream(self, spark: SparkSession) -> DataFrame:
        """What a stream reads, one file at a time."""
        folder = str(self._folder / "messages")
        read = spark.readStream.schema(spark.read.parquet(folder).schema).option("maxFilesPerTrigger", "1")
        return read.parquet(folder)


def row(id_: int, state: str | None, price: str | None) -> dict[str, Any]:
    """A row of ``orders``, as codecs have values."""
    return {"id": id_, "state": state, "price": None if price is None else Decimal(price)}


@pytest.fixture(scope="module")
def feed(tmp_path_factory: pytest.TempPathFactory) -> Feed:
    made = Feed(tmp_path_factory.mktemp("own stream"))
    made.step((None, row(1, "new", "1.50")), (None, row(2, "new", "2.50")), (None, row(3, "new", None)), create=True)
    made.step((row(1, "new", "1.50"), row(1, "paid", "1.50")), (row(2, "new", "2.50"), row(20, "moved", "2.50")))
    made.step(
        (row(3, "new", None), None), (row(20, "moved", "2.50"), row(2, "back", "3.00")), (None, row(4, None, "9"))
    )
    return made


@pytest.fixture(scope="module")
def mirror(spark: SparkSession, feed: Feed, tmp_path_factory: pytest.TempPathFactory) -> Counter[Any]:
    """What the sync makes of it."""
    lake = tmp_path_factory.mktemp("own stream lake")
    tw.Sync(feed.topics, lake, protocol="canal-json", options=OPTIONS).run(spark)
    found = Counter(tuple(each) for each in tidewire.snapshot(spark, str(lake))["shop.orders"].collect())
    assert {each[0] for each in found} == {1, 2, 4}
    return found


SEQUENCE = "struct(_commit_ts, _offset, _sub)"
"""What orders the changes of a key."""

UPSERT = """
MERGE INTO {goal} t USING changes c ON t.id = c.id
WHEN MATCHED AND c._op = 'delete' THEN DELETE
WHEN MATCHED THEN UPDATE SET id = c.id, state = c.state, price = c.price
WHEN NOT MATCHED AND c._op <> 'delete' THEN INSERT (id, state, price) VALUES (c.id, c.state, c.price)
"""


@pytest.mark.slow
def test_an_upsert_of_rows_as_auto_cdc_does_it_is_the_mirror(
    spark: SparkSession, feed: Feed, mirror: Counter[Any], tmp_path: Path
) -> None:
    """AutoCDC takes keys, a sequence and what a delete is; the last change of each key counts."""
    goal = f"delta.`{tmp_path / 'goal'}`"
    spark.sql(f"CREATE TABLE {goal} ({SCHEMA}) USING delta")

    def upsert(batch: DataFrame, number: int) -> None:
        last = batch.groupBy("id").agg(F.max_by(F.struct(*batch.columns), F.expr(SEQUENCE)).alias("last"))
        last.select("last.*").createOrReplaceTempView("changes")
        batch.sparkSession.sql(UPSERT.format(goal=goal))

    rows = tw.rows(feed.stream(spark), "canal-json", "shop.orders", schema=SCHEMA, options=OPTIONS)
    writing = rows.writeStream.foreachBatch(upsert).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writing.trigger(availableNow=True).start().awaitTermination()

    assert Counter(tuple(each) for each in spark.table(goal).collect()) == mirror


@pytest.mark.slow
def test_a_stream_of_decoded_changes_with_foreach_batch_is_the_mirror(
    spark: SparkSession, feed: Feed, mirror: Counter[Any], tmp_path: Path
) -> None:
    """The rows of ``decode`` have both images, so what went is known without a split."""
    goal = str(tmp_path / "goal")
    spark.createDataFrame([], f"{SCHEMA}, _seen bigint").write.parquet(goal + "/0")

    def apply(batch: DataFrame, number: int) -> None:
        changes = batch.where("kind = 'row' AND table_name = 'orders'")
        order = "struct(commit_ts, offset, sub, new) AS at"
        gone = "from_json(before, 'id bigint').id AS id", order, "CAST(NULL AS string) AS after"
        came = "from_json(after, 'id bigint').id AS id", order, "after"
        old = changes.where("op <> 'insert'").withColumn("new", F.lit(0)).selectExpr(*gone)
        new = changes.where("op <> 'delete'").withColumn("new", F.lit(1)).selectExpr(*came)
        last = old.union(new).groupBy("id").agg(F.max_by("after", "at").alias("after"))
        stays = batch.sparkSession.read.parquet(f"{goal}/{number}").join(last, "id", "left_anti")
        rows = last.where("after IS NOT NULL").selectExpr(f"from_json(after, '{SCHEMA}') AS r", "0 AS _seen")
        stays.unionByName(rows.select("r.*", F.col("_seen").cast("bigint"))).write.parquet(f"{goal}/{number + 1}")

    decoded = tw.decode(feed.stream(spark), "canal-json", options=OPTIONS, values="json")
    writing = decoded.writeStream.foreachBatch(apply).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writing.trigger(availableNow=True).start().awaitTermination()

    newest = max(int(folder.name) for folder in (tmp_path / "goal").iterdir())
    assert newest > 1
    found = spark.read.parquet(f"{goal}/{newest}").select("id", "state", "price").collect()
    assert Counter(tuple(each) for each in found) == mirror
