"""Topics in a real Kafka that are written message by message."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

from integration.kafka import Cluster
from tidewire.kafka.client import KafkaClient
from tidewire.model import Message
from tidewire.plain import message_from_plain

PATIENCE = 300
"""Seconds after which something that was waited for does not come any more."""


def created(
    cluster: Cluster, *names: str, partitions: int = 3, copies: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Make topics."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics(
        [NewTopic(name, partitions, copies, config=dict(config or {})) for name in names]
    ).values():
        future.result()


def grown(cluster: Cluster, name: str, partitions: int) -> None:
    """Give a topic more partitions."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_partitions([NewPartitions(name, partitions)]).values():
        future.result()


def emptied(cluster: Cluster, name: str, partition: int = 0, *, before: int = OFFSET_END) -> None:
    """Remove the messages of a partition before an offset, or all, as its retention does in time."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_records([TopicPartition(name, partition, before)]).values():
        future.result()


def deleted(cluster: Cluster, name: str) -> None:
    """Delete a topic and wait until it is gone."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.delete_topics([name]).values():
        future.result()
    deadline = time.monotonic() + PATIENCE
    while name in admin.list_topics(timeout=PATIENCE).topics:
        assert time.monotonic() < deadline


def ends(cluster: Cluster, name: str) -> dict[tuple[str, int], int]:
    """The end offset of every partition of a topic. If a new topic has no leaders yet, this waits for them."""
    client = KafkaClient({"bootstrap.servers": cluster.bootstrap})
    topics = client.topics([name])
    places = [(name, number) for number in topics[name].partitions] if topics else []
    return {place: offsets.end for place, offsets in client.offsets(places).items()}


def send(cluster: Cluster, messages: Iterable[tuple[str, int, Message]]) -> None:
    """Write messages to topics and partitions, each acknowledged by all brokers that keep it."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True})
    for topic, partition, message in messages:
        try:
            producer.produce(topic, key=message.key, value=message.value, partition=partition)
        except BufferError:
            producer.flush(PATIENCE)
            producer.produce(topic, key=message.key, value=message.value, partition=partition)
    assert producer.flush(PATIENCE) == 0


def send_lines(cluster: Cluster, topic: str, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write recorded messages to the partitions they were recorded in."""
    send(cluster, ((line.get("topic", topic), line["partition"], message_from_plain(line)) for line in lines))


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
