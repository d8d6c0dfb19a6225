"""Syncs out of a real Kafka, while an independent producer writes to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

import topic_files
from integration.certificates import Authority
from integration.kafka import BrokerSecurity, Cluster, kafka
from integration.kafka_topics import Background, created, deleted, emptied, grown, send, send_lines
from integration.live import Follower, sync_of
from sync_checks import assert_equal, job_of
from tidewire.codec import Options, Resources, protocol
from tidewire.errors import SyncError
from tidewire.model import Column, Ddl, DdlType, Event, RowChange, TableName, TableSchema, Watermark
from tidewire.registry import FileRegistry
from tidewire.spark.loop import Job
from tidewire.spark.snapshot import snapshot
from tidewire.workload import Delivery, Habits, Workload, expectation, produce

pytestmark = [pytest.mark.integration, pytest.mark.slow]


USER, PASSWORD = "reader", "p&s+s%20wrd"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    with kafka(security=BrokerSecurity(authority, {USER: PASSWORD})) as running:
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
    assert observer.passes >= 2
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


def test_a_topic_whose_messages_are_all_gone_holds_nothing_back(
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


def test_a_topic_that_was_created_again_stops_the_sync_although_it_is_longer(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    def told(*events: Event) -> None:
        encoded = (message for event in events for message in protocol("open-protocol").encode([event]))
        send(cluster, (("again", 0, message) for message in encoded))

    uri = f"kafka://{cluster.bootstrap}/again"
    created(cluster, "again", partitions=1)
    told(made("t", 10), RowChange(table("t"), 20, after={"id": 1}), Watermark(30))
    sync_of(spark, uri, tmp_path / "target", Job("open-protocol"), Follower(30)).run(once=True)
    deleted(cluster, "again")
    created(cluster, "again", partitions=1)
    told(made("t", 10), *(RowChange(table("t"), ts, after={"id": ts}) for ts in range(11, 40)), Watermark(50))

    with pytest.raises(SyncError, match="topic again was deleted and created again"):
        sync_of(spark, uri, tmp_path / "target", Job("open-protocol"), Follower(50)).run(once=True)

    assert [row.id for row in snapshot(spark, str(tmp_path / "target"))["shop.t"].collect()] == [1]


def test_transaction_markers_are_not_read_for_ever(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    created(cluster, "marked", partitions=1)
    settings = {"bootstrap.servers": cluster.bootstrap, "transactional.id": "marked", "log_level": 0}
    producer = Producer(settings)
    producer.init_transactions()
    producer.begin_transaction()
    for event in (made("t", 10), RowChange(table("t"), 20, after={"id": 1}), Watermark(30)):
        for message in protocol("open-protocol").encode([event]):
            producer.produce("marked", key=message.key, value=message.value, partition=0)
    producer.commit_transaction()
    uri = f"kafka://{cluster.bootstrap}/marked?consumer-group=marked"

    state = sync_of(spark, uri, tmp_path / "target", Job("open-protocol"), Follower(30)).run(once=True)
    again = Follower(30)
    sync_of(spark, uri, tmp_path / "target", Job("open-protocol"), again).run(once=True)

    assert state.applied == 30
    assert again.passes == 0
    group = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "marked"})
    assert [place.offset for place in group.committed([TopicPartition("marked", 0)])] == [4]


def test_a_sync_reads_over_tls_as_a_user_and_keeps_no_password(
    spark: SparkSession, cluster: Cluster, authority: Authority, tmp_path: Path
) -> None:
    workload = Workload(3, transactions=12, tables=1, habits=Habits(statements=0))
    production = produce(workload, Delivery("open-protocol", Options(), "secured", 2))
    created(cluster, "secured", partitions=2)
    send(cluster, ((sent.topic, sent.partition, sent.message) for sent in production.sent))
    options = {"enable-tls": "true", "ca": str(authority.ca), "sasl-user": USER, "sasl-password": PASSWORD}
    options |= {"sasl-mechanism": "SCRAM-SHA-512", "consumer-group": "secured"}
    uri = f"kafka://{cluster.at('SASL_SSL')}/secured?{urlencode(options)}"
    target = tmp_path / "target"

    sync_of(spark, uri, target, Job("open-protocol"), Follower(production.marks[-1])).run(once=True)

    assert_equal(spark, target, expectation(production, {}, [])["end"])
    kept = [path for path in target.rglob("*") if path.is_file() and path.suffix != ".parquet"]
    assert kept
    assert not any(PASSWORD.encode() in path.read_bytes() for path in kept)
