"""Syncs out of a real Kafka, while an independent producer writes to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

import topic_files
from integration.kafka import Cluster, kafka
from integration.live import Background, Follower, created, emptied, grown, send, send_lines, sync_of
from sync_checks import assert_equal, job_of
from tidewire.codec import Options, Resources, protocol
from tidewire.errors import SyncError
from tidewire.model import Column, Ddl, DdlType, Event, Message, Position, RowChange, TableName, TableSchema, Watermark
from tidewire.registry import FileRegistry
from tidewire.spark.kafka import KafkaSource
from tidewire.spark.kafka_fetch import Range, fetched
from tidewire.spark.kafka_place import KafkaPlace
from tidewire.spark.snapshot import snapshot
from tidewire.spark.sync import Job
from tidewire.sync.manifest import Partition
from tidewire.workload import Delivery, Habits, Workload, expectation, produce

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with kafka() as running:
        yield running


def test_a_topic_that_is_there_becomes_its_tables(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    topic, name = "seed11", "canal-json.faults"
    moment = topic_files.expected(topic)["watermarks"][12]
    lines = topic_files.lines_until(topic, name, moment["ts"])
    created(cluster, "whole")
    send_lines(cluster, "whole", lines)
    uri = f"kafka://{cluster.bootstrap}/whole?consumer-group=tidewire&max-offsets-per-batch={len(lines) * 2 // 3}"
    observer = Follower(moment["ts"])

    sync_of(spark, uri, tmp_path / "target", job_of(topic, name, tmp_path), observer).run(once=True)

    assert_equal(spark, tmp_path / "target", moment)
    assert observer.batches >= 2
    committed = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "tidewire"}).committed(
        [TopicPartition("whole", number) for number in range(3)]
    )
    counts = [sum(line["partition"] == number for line in lines) for number in range(3)]
    assert [position.offset for position in committed] == counts


def test_a_running_sync_follows_through_a_broker_restart_and_a_new_partition(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    topic, name = "seed11", "open-protocol.faults"
    created(cluster, "live")
    lines = topic_files.lines(topic, name)
    recorded = topic_files.expected(topic)
    observer = Follower(recorded["end"]["ts"])
    running = sync_of(
        spark, f"kafka://{cluster.bootstrap}/live", tmp_path / "target", job_of(topic, name, tmp_path), observer
    )

    def write() -> None:
        third = len(lines) // 3
        send_lines(cluster, "live", lines[:third])
        cluster.brokers[0].stop()
        cluster.brokers[0].start()
        cluster.wait()
        send_lines(cluster, "live", lines[third : 2 * third])
        grown(cluster, "live", 4)
        send_lines(cluster, "live", lines[2 * third :])
        last = [line for line in lines if line["partition"] == 0][-1]
        send_lines(cluster, "live", [{**last, "partition": 3}])  # a watermark, as every partition gets one

    writer = Background(write)
    running.run(once=False)
    writer.done()

    assert_equal(spark, tmp_path / "target", recorded["end"])


def test_several_topics_are_followed_together(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    settings = {
        "enable-tidb-extension": "true",
        "avro-enable-watermark": "true",
        "schema-registry": (tmp_path / "schemas.json").as_uri(),
    }
    workload = Workload(3, transactions=30, tables=2, habits=Habits(statements=0))
    production = produce(
        workload,
        Delivery("avro", Options.parse(settings), "several", 2),
        resources=Resources(registry=FileRegistry(tmp_path / "schemas.json")),
    )
    topics = sorted({sent.topic for sent in production.sent})
    assert len(topics) > 2
    created(cluster, *topics, partitions=2)
    send(cluster, ((sent.topic, sent.partition, sent.message) for sent in production.sent))

    uri = f"kafka://{cluster.bootstrap}/{','.join(topics)}"
    state = sync_of(spark, uri, tmp_path / "target", Job("avro", settings), Follower(production.marks[-1])).run(
        once=True
    )

    assert state.applied == production.marks[-1]
    assert_equal(spark, tmp_path / "target", expectation(production, settings, [])["end"])


def table(name: str) -> TableSchema:
    return TableSchema(TableName("shop", name), (Column.of("id", "bigint", primary_key=True),))


def made(name: str, ts: int) -> Ddl:
    query = f"CREATE TABLE `{name}` (`id` BIGINT PRIMARY KEY)"
    return Ddl(TableName("shop", name), ts, query, DdlType.CREATE_TABLE, table_schema=table(name))


def test_topics_come_and_go_while_a_sync_runs(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    end = 120
    observer = Follower(end)
    uri = rf"kafka://{cluster.bootstrap}/?pattern=shop\..*"
    running = sync_of(spark, uri, tmp_path / "target", Job("open-protocol"), observer)
    found: list[list[str]] = []

    def told(topic: str, *events: Event) -> None:
        encoded = (message for event in events for message in protocol("open-protocol").encode([event]))
        send(cluster, ((topic, 0, message) for message in encoded))

    def write() -> None:
        created(cluster, "elsewhere", "shop.feed", "shop.old", partitions=1)
        told("elsewhere", made("no", 10))
        told("shop.old", made("old", 10), RowChange(table("old"), 20, after={"id": 1}), Watermark(30))
        told("shop.feed", Watermark(30))
        observer.wait(30)
        found.append(sorted(snapshot(spark, str(tmp_path / "target"))))
        created(cluster, "shop.new", partitions=1)
        told("shop.new", made("new", 40), RowChange(table("new"), 50, after={"id": 2}), Watermark(60))
        told("shop.old", Watermark(60))
        told("shop.feed", Watermark(60))
        observer.wait(60)
        drop = Ddl(TableName("shop", "old"), 70, "DROP TABLE `old`", DdlType.DROP_TABLE, table_schema=table("old"))
        told("shop.old", drop, Watermark(80))  # the last it hears, because its last table is gone
        for ts in (80, 100, end, end + 20):
            told("shop.new", Watermark(ts))
            told("shop.feed", Watermark(ts))

    writer = Background(write)
    running.run(once=False)
    writer.done()

    assert found == [["shop.old"]]
    tables = snapshot(spark, str(tmp_path / "target"))
    assert (tables.ts or 0) >= end
    assert {name: [row.id for row in tables[name].collect()] for name in tables} == {"shop.new": [2]}


def test_a_topic_whose_messages_are_all_gone_holds_nobody_back(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    created(cluster, "mall.dead", "mall.feed", partitions=1)
    encoder = protocol("open-protocol")
    dead: list[Event] = [made("dead", 10), RowChange(table("dead"), 20, after={"id": 1}), Watermark(30)]
    fed: list[Event] = [made("t", 40), RowChange(table("t"), 50, after={"id": 2}), Watermark(60), Watermark(80)]
    for topic, events in (("mall.dead", dead), ("mall.feed", fed)):
        send(cluster, ((topic, 0, message) for event in events for message in encoder.encode([event])))
    emptied(cluster, "mall.dead")
    uri = rf"kafka://{cluster.bootstrap}/?pattern=mall\..*"

    state = sync_of(spark, uri, tmp_path / "target", Job("open-protocol"), Follower(80)).run(once=True)

    assert state.applied == 80
    assert [*snapshot(spark, str(tmp_path / "target"))] == ["shop.t"]


def test_messages_are_found_by_their_places(spark: SparkSession, cluster: Cluster) -> None:
    created(cluster, "places", partitions=2)
    send(
        cluster, (("places", number % 2, Message(b"k" if number % 3 else None, b"%d" % number)) for number in range(20))
    )
    source = KafkaSource(spark, KafkaPlace.parse(f"kafka://{cluster.bootstrap}/places"))

    found = source.fetch([Position("places", 0, 9), Position("places", 0, 0), Position("places", 1, 4)])

    assert found == {
        Position("places", 0, 0): Message(None, b"0"),
        Position("places", 0, 9): Message(None, b"18"),
        Position("places", 1, 4): Message(None, b"9"),
    }
    assert source.fetch([]) == {}
    assert {message.value for message in source.sample(2)} == {b"0", b"1", b"2", b"3"}
    assert source.ends() == {Partition("places", 0): 10, Partition("places", 1): 10}


def test_tasks_fetch_just_the_ranges_that_were_planned(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    created(cluster, "ranges", partitions=2)
    send(cluster, (("ranges", number % 2, Message(None, b"%d" % number)) for number in range(40)))
    source = KafkaSource(spark, KafkaPlace.parse(f"kafka://{cluster.bootstrap}/ranges?max-offsets-per-batch=30"))
    found: list[list[Range]] = []

    def take(messages: DataFrame, batch: int) -> None:
        found.append([Range.parse(row[0]) for row in source.batch(messages).collect()])

    query = source.stream(spark).writeStream.foreachBatch(take).option("checkpointLocation", str(tmp_path))
    query.trigger(availableNow=True).start().awaitTermination()

    assert [sorted((each.partition, each.start, each.end) for each in batch) for batch in found] == [
        [(0, 0, 15), (1, 0, 15)],
        [(0, 15, 20), (1, 15, 20)],
    ]
    for range_ in (each for batch in found for each in batch):
        (messages,) = fetched(range_)
        assert messages.column("offset").to_pylist() == list(range(range_.start, range_.end))
        values = [b"%d" % (2 * offset + range_.partition) for offset in range(range_.start, range_.end)]
        assert messages.column("value").to_pylist() == values
        assert messages.column("key").null_count == len(values)
        assert set(zip(*(messages.column(name).to_pylist() for name in ("topic", "partition")), strict=True)) == {
            ("ranges", range_.partition)
        }


def test_a_range_whose_messages_are_gone_is_an_error(cluster: Cluster) -> None:
    created(cluster, "short", partitions=1)
    send(cluster, (("short", 0, Message(None, b"%d" % number)) for number in range(10)))
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_records([TopicPartition("short", 0, 4)]).values():
        future.result()
    client = {"bootstrap.servers": cluster.bootstrap}

    with pytest.raises(SyncError, match="short, partition 0: messages from offset 2 on are gone"):
        list(fetched(Range("short", 0, 2, 8, client)))
    with pytest.raises(SyncError, match="nothing came from offset 10 on"):
        list(fetched(Range("short", 0, 4, 12, client), patience=0.1))


def test_a_topic_or_broker_that_is_not_there_is_named(spark: SparkSession, cluster: Cluster) -> None:
    source = KafkaSource(spark, KafkaPlace.parse(f"kafka://{cluster.bootstrap}/missing,unknown"))

    with pytest.raises(SyncError, match=r"there is no topic missing, unknown; create it, or name topics by \?pattern="):
        source.stream(spark)
    assert source.ends() == {}
    assert list(source.sample(5)) == []
