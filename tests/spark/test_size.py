"""Large things: a transaction, a row, a table that others are small beside, a partition that does not move on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from growing_topic import JOB, Feed, Reports, table
from sync_checks import synced
from tidewire.spark.ledger import ledger_of, newest_state
from tidewire.spark.publications import Publications
from tidewire.spark.snapshot import snapshot

MIB = 1 << 20


def staged(target: Path) -> set[str]:
    storage = ledger_of(str(target))
    return {storage.path(entry.name) for entry in storage.list("staged", recursive=True)}


def largest_plan(target: Path) -> int:
    """The bytes of the largest plan: everything the driver remembers is in there."""
    return max(entry.size for entry in ledger_of(str(target)).list("plans"))


def times(target: Path) -> set[int | None]:
    """The upstream times that are published."""
    publications = Publications(ledger_of(str(target)))
    return {publications.read(name).ts for name in publications.names()}


@pytest.mark.slow
def test_rows_of_a_stalled_partition_wait_on_disk_and_count_all_at_once(spark: SparkSession, tmp_path: Path) -> None:
    feed, target = Feed(tmp_path / "topics", [table(0)], partitions=2), tmp_path / "lake"
    feed.create()
    synced(spark, feed.topics, target, JOB)
    before = times(target)
    text, sizes = "x" * 1000, []
    for batch in range(3):  # one transaction after the other is torn: partition 1 does not say that it is complete
        feed.put(range(batch * 500, batch * 500 + 500), text, stalled={1})
        waiting = synced(spark, feed.topics, target, JOB)
        sizes.append(largest_plan(target))

    assert sum(each.file.rows for each in waiting.pending) == 1500
    assert {each.file.path for each in waiting.pending} == staged(target)
    assert snapshot(spark, str(target))["shop.t000"].count() == 0
    assert times(target) == before
    assert max(sizes) < 20_000 < 1500 * len(text) / 10  # names of files, and no rows

    feed.mark()
    state = synced(spark, feed.topics, target, JOB)

    assert state.applied == feed.ts
    assert snapshot(spark, str(target))["shop.t000"].count() == 1500
    assert times(target) == {*before, feed.ts}
    assert staged(target) == {each.file.path for each in state.pending}


@pytest.mark.slow
def test_a_huge_transaction_is_one_moment(spark: SparkSession, tmp_path: Path) -> None:
    feed, target = Feed(tmp_path / "topics", [table(0)], partitions=3), tmp_path / "lake"
    feed.create()
    feed.put(range(6000), "before")
    synced(spark, feed.topics, target, JOB)
    before = feed.ts
    feed.put(range(3000, 12_000), "after")
    reports = Reports()

    synced(spark, feed.topics, target, JOB, reports)

    def texts(at: int | None = None) -> dict[str, int]:
        rows = snapshot(spark, str(target), at)["shop.t000"].groupBy("c1").count().collect()
        return {row["c1"]: row["count"] for row in rows}

    assert texts(before) == texts(feed.ts - 1) == {"before": 6000}
    assert texts() == {"before": 3000, "after": 9000}
    assert [report.steps for report in reports.all if report.steps] == [1]


@pytest.mark.slow
def test_rows_of_a_mebibyte_pass(spark: SparkSession, tmp_path: Path) -> None:
    feed, target = Feed(tmp_path / "topics", [table(0)]), tmp_path / "lake"
    feed.create()
    for batch in range(2):
        feed.put(range(batch * 10, batch * 10 + 30), chr(ord("a") + batch) * MIB)

    state = synced(spark, feed.topics, target, JOB)

    rows = snapshot(spark, str(target))["shop.t000"]
    found = rows.select("id", F.length("c1").alias("size"), F.substring("c1", 1, 1).alias("first")).collect()
    assert {row["id"]: (row["size"], row["first"]) for row in found} == {
        key: (MIB, text[0]) for key, text in feed.rows[feed.tables[0].name].items()
    }
    assert state.applied == feed.ts


@pytest.mark.slow
def test_a_batch_for_python_is_bounded_in_bytes(spark: SparkSession) -> None:
    def sizes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.record_batch({"bytes": [batch.nbytes]})

    rows = spark.range(100).select(F.repeat(F.lit("x"), MIB).alias("value")).coalesce(1)

    found = [row["bytes"] for row in rows.mapInArrow(sizes, "bytes long").collect()]

    assert sum(found) >= 100 * MIB
    assert max(found) <= 40 * MIB


@pytest.mark.slow
def test_a_hot_table_is_reduced_to_its_last_rows_and_others_keep_up(spark: SparkSession, tmp_path: Path) -> None:
    feed, target = Feed(tmp_path / "topics", [table(number) for number in range(4)]), tmp_path / "lake"
    feed.create()
    for turn in range(60):
        feed.put(range(20), f"turn {turn}")
        if turn % 20 == 0:
            feed.put(range(2), f"turn {turn}", into=1 + turn // 20)
    reports = Reports()

    synced(spark, feed.topics, target, replace(JOB, parallel=2), reports)

    found = snapshot(spark, str(target))
    assert {row["id"]: row["c1"] for row in found["shop.t000"].collect()} == dict.fromkeys(range(20), "turn 59")
    assert [found[f"shop.t00{number}"].count() for number in (1, 2, 3)] == [2, 2, 2]
    assert max(max(report.tables.values(), default=0) for report in reports.all) == 60 * 20
    state = newest_state(ledger_of(str(target)))
    assert state is not None
    assert state.applied == feed.ts
