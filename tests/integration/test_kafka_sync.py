"""Syncs out of a real Kafka, while an independent producer writes to it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

import topic_files
from integration.kafka import Cluster, kafka
from sync_checks import assert_equal, job_of
from tidewire.plain import message_from_plain
from tidewire.spark.kafka import KafkaPlace, KafkaSource
from tidewire.spark.sync import Point, Report, Sync
from tidewire.spark.targets import open_target
from tidewire.spark.work import Work

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TOPIC, NAME = "seed11", "canal-json.faults"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with kafka() as running:
        yield running


def created(cluster: Cluster, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
        future.result()


def produce(cluster: Cluster, name: str, lines: list[dict[str, Any]]) -> None:
    """Write messages to the partitions they were recorded in, each acknowledged."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    for line in lines:
        message = message_from_plain(line)
        producer.produce(name, key=message.key, value=message.value, partition=line["partition"])
        producer.poll(0)
    assert producer.flush(60) == 0


class Counting:
    """Counts batches, and stops a sync once it is as far as it should be."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.batches = 0
        self.running: Sync | None = None

    def reached(self, point: Point) -> None:
        """A batch came to a point."""

    def finished(self, report: Report) -> None:
        """A batch is done."""
        self.batches += 1
        if self.running is not None and report.applied >= self.end:
            self.running.stop()


def sync_of(spark: SparkSession, uri: str, root: Path, observer: Counting) -> Sync:
    job = job_of(TOPIC, NAME, root)
    target = root / "target"
    source = KafkaSource(spark, KafkaPlace.parse(uri))
    running = Sync(spark, source, open_target(spark, str(target), "iceberg"), Work.of(target), job, observer)
    observer.running = running
    return running


def test_a_topic_that_is_there_becomes_its_tables(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    created(cluster, "whole", 3)
    produce(cluster, "whole", topic_files.lines(TOPIC, NAME))
    recorded = topic_files.expected(TOPIC)
    uri = f"kafka://{cluster.bootstrap}/whole?consumer-group=tidewire&max-offsets-per-batch=1200"

    sync_of(spark, uri, tmp_path, Counting(recorded["end"]["ts"])).run(once=True)

    assert_equal(spark, tmp_path / "target", recorded["end"])
    committed = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "tidewire"}).committed(
        [TopicPartition("whole", number) for number in range(3)]
    )
    counts = [sum(line["partition"] == number for line in topic_files.lines(TOPIC, NAME)) for number in range(3)]
    assert [position.offset for position in committed] == counts


def test_a_running_sync_follows_through_a_broker_restart_and_a_new_partition(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    created(cluster, "live", 3)
    lines = topic_files.lines(TOPIC, NAME)
    recorded = topic_files.expected(TOPIC)
    observer = Counting(recorded["end"]["ts"])
    running = sync_of(spark, f"kafka://{cluster.bootstrap}/live", tmp_path, observer)

    def write() -> None:
        third = len(lines) // 3
        produce(cluster, "live", lines[:third])
        cluster.brokers[0].stop()
        cluster.brokers[0].start()
        cluster.wait()
        produce(cluster, "live", lines[third : 2 * third])
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.create_partitions([NewPartitions("live", 4)]).values():
            future.result()
        produce(cluster, "live", lines[2 * third :])
        last = [line for line in lines if line["partition"] == 0][-1]
        produce(cluster, "live", [{**last, "partition": 3}])  # a watermark, as every partition gets one

    writer = threading.Thread(target=write)
    writer.start()
    running.run(once=False)
    writer.join()

    assert_equal(spark, tmp_path / "target", recorded["end"])
