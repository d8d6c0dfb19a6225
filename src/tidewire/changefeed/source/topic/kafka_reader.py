"""Kafka's topics, read by position: a changefeed keeps its place itself and joins no group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidewire.changefeed.config.settings import KafkaSettings
from tidewire.changefeed.sink.kafka_client import UNREACHABLE, connection
from tidewire.changefeed.source.topic.gate import Partition
from tidewire.errors import ChangefeedError, MissingExtra
from tidewire.model import Message, Position

try:
    from confluent_kafka import Consumer, KafkaException, TopicPartition
except ImportError as error:
    raise MissingExtra("confluent-kafka", "kafka") from error

AT_ONCE = 5000
_WAIT_SECONDS = 0.2


class KafkaReader:
    """Topics of a Kafka cluster."""

    def __init__(self, settings: KafkaSettings, names: Sequence[str]) -> None:
        self._names = names
        self._patience = max(1.0, settings.dial_timeout + settings.read_timeout)
        self._assigned: dict[Partition, int] = {}
        self._consumer = Consumer(
            {
                **connection(settings),
                "group.id": settings.client_id,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
            }
        )

    def partitions(self) -> Sequence[Partition]:
        """The partitions there are now."""
        try:
            topics = self._consumer.list_topics(timeout=self._patience).topics
        except KafkaException as error:
            raise ChangefeedError(UNREACHABLE, f"no answer from Kafka: {error}") from error
        return [Partition(name, number) for name in self._names if name in topics for number in topics[name].partitions]

    def first(self, partition: Partition) -> int:
        """The offset of the first message a partition still has."""
        return self._offsets_of(partition)[0]

    def read(self, offsets: Mapping[Partition, int]) -> Iterator[tuple[Position, Message]]:
        """Some of what comes next in each partition."""
        if self._assigned.keys() != offsets.keys():
            self._assigned = dict(offsets)
            self._consumer.assign([TopicPartition(topic, number, at) for (topic, number), at in offsets.items()])
        return map(_taken, self._consumer.consume(AT_ONCE, _WAIT_SECONDS))

    def ends(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """The offsets that the next messages of these partitions will get."""
        return {partition: self._offsets_of(partition)[1] for partition in partitions}

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()

    def _offsets_of(self, partition: Partition) -> tuple[int, int]:
        try:
            first, end = self._consumer.get_watermark_offsets(TopicPartition(*partition), timeout=self._patience)
        except KafkaException as error:
            raise ChangefeedError(UNREACHABLE, f"no answer from Kafka: {error}") from error
        return first, end


def _taken(message: Any) -> tuple[Position, Message]:
    if message.error() is not None:
        raise ChangefeedError(UNREACHABLE, f"Kafka's messages cannot be read: {message.error().str()}")
    headers = tuple((name, value or b"") for name, value in message.headers() or ())
    at = Position(message.topic(), message.partition(), message.offset())
    return at, Message(message.key(), message.value(), headers)
