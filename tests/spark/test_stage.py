"""Staging on Spark: whole topics become exactly the rows of the codec, and everything else is in the manifest."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import topic_files
from staging import (
    COLUMNS,
    OTHER,
    TABLE,
    Messages,
    encoded,
    ends,
    frame,
    insert,
    read_by_codec,
    reader,
    record_batch,
    recorded,
    staged,
    without_paths,
    written,
)
from tidewire.codec import Resources
from tidewire.model import Bootstrap, Ddl, Message, Position, Watermark
from tidewire.spark.stage import Reader, stage, sweep
from tidewire.spark.stage.task import by_partition
from tidewire.spark.work import Work
from tidewire.sync.floors import Floors
from tidewire.sync.manifest import Manifest, Parked, Partition

TOPICS = [
    ("seed11", "avro"),
    ("seed11", "canal-json"),
    ("seed11", "open-protocol"),
    ("seed11-classic", "craft"),
    ("seed11-classic", "simple-avro"),
    ("seed11", "simple-json"),
]
"""One of each protocol; all others are staged without Spark."""

CANAL = Reader("canal-json", {"enable-tidb-extension": "true"})
SIMPLE = Reader("simple")


def staged_from(
    spark: SparkSession,
    messages: Messages,
    folder: Path,
    reader: Reader,
    *,
    batch: int = 0,
    parked: tuple[Parked, ...] = (),
) -> Manifest:
    """A batch with these messages, a task for each partition."""
    source = folder / f"messages-{batch}"
    source.mkdir(exist_ok=True)
    for partition, rows in by_partition(record_batch(messages)):
        pq.write_table(pa.Table.from_batches([rows]), source / f"{partition.number}.parquet")
    frame = spark.read.schema(COLUMNS).parquet(str(source))
    return stage(frame, batch, reader, Floors(), Work(folder), ends=dict, parked=parked)


@pytest.mark.parametrize(("topic", "name"), TOPICS)
def test_a_whole_topic_becomes_the_rows_of_the_codec(
    spark: SparkSession, tmp_path: Path, topic: str, name: str
) -> None:
    messages, how = recorded(topic, name), reader(topic, name, tmp_path)
    topics = written(messages, tmp_path / "topics")

    manifest = stage(frame(spark, topics), 3, how, Floors(), Work.of(tmp_path / "target"), ends=lambda: ends(topics))

    rows, misfits = read_by_codec(messages, how, Resources(registry=topic_files.registry(topic)))
    assert misfits == set() or name == "craft"  # whose FLOATs the server corrupts
    assert staged(manifest) == rows
    assert {rejected.at for rejected in manifest.rejected} == misfits
    events = [event for _, found in topic_files.events(topic, name) for event in found]
    assert len(manifest.ddls) == sum(isinstance(event, Ddl) for event in events)
    assert Counter(found.ddl.query for found in manifest.ddls) == Counter(
        event.query for event in events if isinstance(event, Ddl)
    )
    assert set(manifest.schemas) == {
        schema
        for event in events
        for schema in (
            (event.table_schema,)
            if isinstance(event, Bootstrap)
            else (event.table_schema, event.pre_table_schema)
            if isinstance(event, Ddl)
            else ()
        )
        if schema is not None
    }
    assert manifest.parked == ()
    assert manifest.batch == 3
    assert manifest.ends == ends(topics)
    assert {partition: found.end for partition, found in manifest.read.items()} == ends(topics)
    assert {found.start for found in manifest.read.values()} == {0}
    watermarks: dict[Partition, int] = dict.fromkeys(manifest.read, 0)
    for (of, number), found in topic_files.events(topic, name):
        partition = Partition(of or "t", number)
        marks = (event.ts for event in found if isinstance(event, Watermark))
        watermarks[partition] = max(watermarks[partition], *marks, 0)
    assert {partition: found.watermark for partition, found in manifest.read.items()} == watermarks


def test_a_batch_staged_again_gives_the_same_manifest(spark: SparkSession, tmp_path: Path) -> None:
    messages = dict(recorded("seed11", "canal-json"))
    for at in list(messages)[100:1000:100]:
        messages[at] = Message(None, b"garbage")
    topics, work = written(messages, tmp_path / "topics"), Work(tmp_path / "work")

    def once(rows: DataFrame) -> Manifest:
        return stage(rows, 0, CANAL, Floors(), work, ends=dict)

    first, second = once(frame(spark, topics)), once(frame(spark, topics))
    shuffled = once(frame(spark, topics).repartition(3))

    assert len(first.rejected) == 9
    assert without_paths(first) == without_paths(second)
    assert {file.path for file in first.files}.isdisjoint(file.path for file in second.files)
    assert staged(shuffled) == staged(first)
    assert (shuffled.read, shuffled.ddls, shuffled.rejected) == (first.read, first.ddls, first.rejected)


def test_a_message_nobody_can_read_is_set_aside_with_its_reason(spark: SparkSession, tmp_path: Path) -> None:
    messages = encoded(
        CANAL, Watermark(5), insert(1, 6), b"\x00garbage", Watermark(9), Watermark(7), b"{}", insert(2, 10)
    )

    manifest = staged_from(spark, messages, tmp_path, CANAL, batch=4)

    assert sorted(at.offset for at, _ in staged(manifest)) == [1, 6]
    assert [(rejected.at.offset, rejected.after, rejected.table) for rejected in manifest.rejected] == [
        (2, 5, None),
        (5, 9, None),
    ]
    assert manifest.read == {Partition("t", 0): replace(manifest.read[Partition("t", 0)], start=0, end=7, watermark=9)}
    kept = [row for path in manifest.reject_files for row in pq.read_table(path).to_pylist()]
    assert sorted((row["offset"], row["value"], row["batch"]) for row in kept) == [
        (2, b"\x00garbage", 4),
        (5, b"{}", 4),
    ]
    assert {row["offset"]: row["reason"] for row in kept} == {
        rejected.at.offset: rejected.reason for rejected in manifest.rejected
    }


def test_a_row_waits_for_its_schema_over_batches(spark: SparkSession, tmp_path: Path) -> None:
    early = encoded(SIMPLE, insert(1, 11), insert(1, 12, table=OTHER), insert(2, 13), Watermark(14))

    first = staged_from(spark, early, tmp_path, SIMPLE)
    second = staged_from(spark, encoded(SIMPLE, insert(3, 15), first=4), tmp_path, SIMPLE, batch=1, parked=first.parked)
    late = encoded(SIMPLE, Bootstrap(TABLE), insert(4, 16), first=5)
    third = staged_from(spark, late, tmp_path, SIMPLE, batch=2, parked=second.parked)
    known = replace(SIMPLE, schemas=third.schemas)
    last = encoded(known, Bootstrap(OTHER), partition=1)
    fourth = staged_from(spark, last, tmp_path, known, batch=3, parked=third.parked)

    assert (first.files, second.files) == ((), ())
    assert [(parked.at.offset, parked.table, parked.version, parked.commit_ts) for parked in second.parked] == [
        (0, TABLE.name, 100, 11),
        (1, OTHER.name, 100, 12),
        (2, TABLE.name, 100, 13),
        (4, TABLE.name, 100, 15),
    ]
    assert sorted((at.offset, row["_ts"]) for (at, _), row in staged(third).items()) == [
        (0, 11),
        (2, 13),
        (4, 15),
        (6, 16),
    ]
    assert [parked.at.offset for parked in third.parked] == [1]
    assert third.read[Partition("t", 0)].start == 5
    assert [(at, row["table"]) for (at, _), row in staged(fourth).items()] == [(Position("t", 0, 1), OTHER.name)]
    assert fourth.parked == ()
    assert [schema.name for schema in (*third.schemas, *fourth.schemas)] == [TABLE.name, OTHER.name]


def test_a_schema_may_come_in_another_partition_of_the_same_batch(spark: SparkSession, tmp_path: Path) -> None:
    messages = {
        **encoded(SIMPLE, insert(1, 11), b"garbage"),
        **encoded(SIMPLE, Bootstrap(TABLE), insert(2, 12), partition=1),
    }

    manifest = staged_from(spark, messages, tmp_path, SIMPLE)

    assert sorted(row["after"]["id"] for row in staged(manifest).values()) == [1, 2]
    assert manifest.parked == ()
    assert len(manifest.rejected) == len(manifest.reject_files) == 1


def test_what_no_manifest_names_is_swept(spark: SparkSession, tmp_path: Path) -> None:
    messages = {
        **encoded(SIMPLE, Bootstrap(TABLE), insert(1, 11), b"garbage"),
        **encoded(SIMPLE, insert(1, 12, table=OTHER), partition=1),
    }
    work = Work(tmp_path)
    staged_from(spark, messages, tmp_path, SIMPLE)
    other_batch = staged_from(spark, messages, tmp_path, SIMPLE, batch=1)
    manifest = staged_from(spark, messages, tmp_path, SIMPLE)
    keep = {
        *(file.path for file in manifest.files),
        *(parked.path for parked in manifest.parked),
        *manifest.reject_files,
    }

    sweep(work, keep, 0)

    assert {*work.files("staged/0"), *work.files("parked/0"), *work.files("rejects/0")} == keep
    assert len(keep) == 3
    assert work.files("staged/1") == [file.path for file in other_batch.files]


def test_a_file_stream_takes_segments_in_the_order_they_were_appended(spark: SparkSession, tmp_path: Path) -> None:
    topics = written({}, tmp_path / "topics")
    for number in range(6):
        topics.append("t" if number % 2 else "s", 5 - number, [Message(None, b"%d" % number)])
    (topics.folder / ".appending-left-behind").mkdir()
    (topics.folder / ".appending-left-behind" / "0.parquet").write_bytes(b"half")
    seen: list[list[bytes]] = []

    def take(rows: DataFrame, _: int) -> None:
        seen.append([bytes(row.value) for row in rows.collect()])

    stream = spark.readStream.schema(COLUMNS).option("recursiveFileLookup", "true").option("maxFilesPerTrigger", "2")
    query = (
        stream.parquet(str(topics.folder))
        .writeStream.foreachBatch(take)
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    assert [set(values) for values in seen] == [{b"0", b"1"}, {b"2", b"3"}, {b"4", b"5"}]
