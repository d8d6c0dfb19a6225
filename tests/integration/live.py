"""Topics in a real Kafka that are written message by message, and syncs that follow them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]
from pyspark.sql import SparkSession

from integration.kafka import Cluster
from tidewire.model import Message
from tidewire.plain import message_from_plain
from tidewire.spark.source import open_source
from tidewire.spark.sync import Job, Point, Report, Sync
from tidewire.spark.targets import open_target
from tidewire.spark.work import Work

PATIENCE = 300
"""Seconds after which something that was waited for does not come any more."""


def created(cluster: Cluster, *names: str, partitions: int = 3, copies: int = 1) -> None:
    """Make topics."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([NewTopic(name, partitions, copies) for name in names]).values():
        future.result()


def grown(cluster: Cluster, name: str, partitions: int) -> None:
    """Give a topic more partitions."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_partitions([NewPartitions(name, partitions)]).values():
        future.result()


def emptied(cluster: Cluster, name: str) -> None:
    """Remove all messages of a topic of one partition, as its retention does in time."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_records([TopicPartition(name, 0, OFFSET_END)]).values():
        future.result()


def send(cluster: Cluster, messages: Iterable[tuple[str, int, Message]]) -> None:
    """Write messages to topics and partitions, each acknowledged by all brokers that keep it."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    for topic, partition, message in messages:
        producer.produce(topic, key=message.key, value=message.value, partition=partition)
        producer.poll(0)
    assert producer.flush(PATIENCE) == 0


def send_lines(cluster: Cluster, topic: str, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write recorded messages to the partitions they were recorded in."""
    send(cluster, ((line.get("topic", topic), line["partition"], message_from_plain(line)) for line in lines))


class Follower:
    """Hears how far a sync is, lets others wait for it, and stops it at an end."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.running: Sync | None = None
        self.batches = 0
        self._applied = 0
        self._changed = threading.Condition()

    def reached(self, point: Point) -> None:
        """A batch came to a point."""

    def finished(self, report: Report) -> None:
        """A batch is done."""
        with self._changed:
            self.batches += 1
            self._applied = report.applied
            self._changed.notify_all()
        if self.running is not None and report.applied >= self.end:
            self.running.stop()

    def wait(self, ts: int) -> None:
        """Wait until the tables are at a moment."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._applied >= ts, PATIENCE), f"{self._applied} instead of {ts}"


def sync_of(spark: SparkSession, uri: str, target: Path, job: Job, observer: Follower) -> Sync:
    """A sync from Kafka that the observer can stop."""
    place = open_target(spark, str(target), job.format)
    observer.running = Sync(spark, open_source(spark, uri), place, Work.of(target), job, observer)
    return observer.running


class Background(threading.Thread):
    """Work beside the test; ``done`` waits for it and raises what it raised."""

    def __init__(self, work: Any) -> None:
        super().__init__()
        self._work = work
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Do the work."""
        try:
            self._work()
        except BaseException as error:
            self._error = error

    def done(self) -> None:
        """Wait for the end of it."""
        self.join(PATIENCE)
        assert not self.is_alive()
        if self._error is not None:
            raise self._error
