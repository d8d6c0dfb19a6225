"""Kafka as a queue: settings for Kafka's client, topics, and the messages that a changefeed sends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any, Final

from tidewire.changefeed.config.parameters import KAFKA_INVALID
from tidewire.changefeed.config.settings import Acks, KafkaSettings
from tidewire.changefeed.sink.base import NEW_TOPIC, PartitionCounts
from tidewire.errors import BrokerError, ChangefeedError, OptionError
from tidewire.kafka.client import KafkaClient
from tidewire.kafka.produce import MessageProducer
from tidewire.model import Message

UNREACHABLE: Final = "CDC:ErrKafkaNewProducer"
NOT_CREATED: Final = "CDC:ErrKafkaCreateTopic"
NOT_SENT: Final = "CDC:ErrKafkaAsyncSendMessage"
HEADROOM: Final = 128
"""The bytes that TiCDC leaves free below a topic's limit."""


def client_settings(settings: KafkaSettings) -> dict[str, Any]:
    """The settings of every client of a changefeed: how to reach the brokers."""
    try:
        security = settings.security.settings(settings.brokers)
    except OptionError as error:
        raise ChangefeedError(KAFKA_INVALID, f"{error.name}: {error.reason}") from error
    return {
        **security,
        "client.id": settings.client_id,
        "socket.timeout.ms": _milliseconds(settings.read_timeout),
        "socket.connection.setup.timeout.ms": max(1000, _milliseconds(settings.dial_timeout)),
    }


def wait_seconds(settings: KafkaSettings) -> float:
    """How many seconds to wait for brokers."""
    return max(1.0, settings.dial_timeout + settings.read_timeout)


def producer_settings(settings: KafkaSettings) -> dict[str, Any]:
    """The settings of a producer: messages are sent in order and once, and fail after ``max-retry`` retries."""
    tried = _milliseconds(settings.write_timeout) * (settings.max_retry + 1)
    idempotent = settings.required_acks is Acks.ALL
    return {
        "acks": settings.required_acks.value,
        "enable.idempotence": idempotent,
        **({} if idempotent else {"max.in.flight.requests.per.connection": 1}),
        "compression.type": settings.compression,
        "linger.ms": 5,
        "message.timeout.ms": max(tried, 1000),
        "request.timeout.ms": max(1, min(_milliseconds(settings.write_timeout), 900_000)),
        "queue.buffering.max.messages": 100_000,
        "queue.buffering.max.kbytes": 64 * 1024,
        "message.max.bytes": 1_000_000_000,
        "delivery.report.only.error": True,
    }


@contextmanager
def ticdc_codes(transient: str, final: str) -> Iterator[None]:
    """Raise broker errors with TiCDC's codes: one for transient errors, one for final ones."""
    try:
        yield
    except BrokerError as error:
        raise ChangefeedError(transient if error.transient else final, str(error)) from error


class KafkaQueue:
    """Topics of a Kafka cluster. Creating this checks the settings, and creates the default topic if it is missing."""

    def __init__(self, settings: KafkaSettings, default_topic: str, clock: Callable[[], float] = monotonic) -> None:
        topics = _Topics(settings)
        self._counts = PartitionCounts(topics.partitions, default_topic, settings.partition_num, clock)
        self.message_limit = topics.message_limit(default_topic)
        with ticdc_codes(UNREACHABLE, KAFKA_INVALID):
            self._producer = MessageProducer(client_settings(settings) | producer_settings(settings))

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; it is created if it does not exist."""
        return self._counts.of(topic)

    def send(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        """Hand messages to the producer; waits if too many are on their way already."""
        with ticdc_codes(NOT_SENT, NOT_SENT):
            self._producer.send(topic, partition, messages)

    def flush(self) -> None:
        """Wait until the brokers have acknowledged everything. Raises an error if they do not."""
        with ticdc_codes(NOT_SENT, NOT_SENT):
            self._producer.flush()

    def close(self) -> None:
        """Drop what was not sent and close the connections."""
        self._producer.close()


class _Topics:
    """How many partitions topics have, how large their messages may be, creating new ones."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._checked = False
        seconds = wait_seconds(settings)
        with ticdc_codes(UNREACHABLE, KAFKA_INVALID):
            self._client = KafkaClient(client_settings(settings), first_seconds=seconds, later_seconds=seconds)

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; it is created if it does not exist and may be created."""
        found = self._found(topic)
        if found:
            return found
        if not self._settings.auto_create_topic:
            raise ChangefeedError(
                KAFKA_INVALID, f"topic {topic} does not exist and auto-create-topic is false; create it or allow it"
            )
        self._check_replicas()
        with ticdc_codes(NOT_CREATED, NOT_CREATED):
            self._client.create_topic(
                topic, self._settings.partition_num or NEW_TOPIC, self._settings.replication_factor
            )
        return self._found(topic)

    def message_limit(self, topic: str) -> int:
        """The largest message: ``max-message-bytes``, or less if the topic does not take so much."""
        with ticdc_codes(UNREACHABLE, KAFKA_INVALID):
            limit = self._client.topic_setting(topic, "max.message.bytes")
        wanted = self._settings.max_message_bytes
        return wanted if limit is None else max(1, min(wanted, int(limit) - HEADROOM))

    def _found(self, topic: str) -> int:
        """The partitions of a topic, 0 if there is no such topic."""
        with ticdc_codes(UNREACHABLE, KAFKA_INVALID):
            known = self._client.topics([topic]).get(topic)
        return 0 if known is None else len(known.partitions)

    def _check_replicas(self) -> None:
        """With ``required-acks`` -1, a new topic needs at least ``min.insync.replicas`` replicas."""
        if self._settings.required_acks is not Acks.ALL or self._checked:
            return
        self._checked = True
        with ticdc_codes(UNREACHABLE, KAFKA_INVALID):
            least = self._client.broker_setting("min.insync.replicas")
        factor = self._settings.replication_factor
        if least is not None and factor < int(least):
            raise ChangefeedError(
                KAFKA_INVALID,
                f"replication-factor is {factor}, but with required-acks -1 the brokers want "
                f"min.insync.replicas={least}; set replication-factor to at least {least}",
            )


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
