"""Kafka as a queue: an idempotent producer with a bounded buffer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any

from tidewire.changefeed.config.settings import KafkaSettings
from tidewire.changefeed.sink.kafka_client import INVALID, Cluster, connection, producing
from tidewire.changefeed.sink.partitions import NEW_TOPIC, PartitionCounts
from tidewire.errors import ChangefeedError, MissingExtra
from tidewire.model import Message

try:
    from confluent_kafka import KafkaError, KafkaException, Producer
except ImportError as error:
    raise MissingExtra("confluent-kafka", "kafka") from error

NOT_SENT = "CDC:ErrKafkaAsyncSendMessage"
_WAIT_SECONDS = 0.1


class KafkaQueue:
    """Topics of a Kafka cluster. The default topic is there, and its settings are checked, once this is made."""

    def __init__(self, settings: KafkaSettings, default_topic: str, clock: Callable[[], float] = monotonic) -> None:
        self._cluster = Cluster(settings, NEW_TOPIC)
        self._counts = PartitionCounts(self._cluster.partitions, default_topic, settings.partition_num, clock)
        self.message_limit = self._cluster.message_limit(default_topic)
        self._failure: KafkaError | None = None
        callbacks = {"on_delivery": self._delivered, "error_cb": self._failed}
        try:
            self._producer = Producer({**connection(settings), **producing(settings), **callbacks})
        except (KafkaException, ValueError) as error:
            raise ChangefeedError(INVALID, f"Kafka's client does not take the settings: {error}") from error

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; it is made if there is none of that name."""
        return self._counts.of(topic)

    def send(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        """Hand messages to the producer; waits where too many are on their way already."""
        for message in messages:
            headers = {"headers": list(message.headers)} if message.headers else {}
            self._produce(topic, partition, message.key, message.value, headers)
        self._look()

    def flush(self) -> None:
        """Wait until the brokers have acknowledged everything; an error where they do not."""
        while self._producer.flush(_WAIT_SECONDS):
            self._raise_failure()
        self._raise_failure()

    def close(self) -> None:
        """Drop what was not sent and let go of the connections."""
        self._producer.purge()
        self._producer.flush(_WAIT_SECONDS)

    def _produce(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: dict[str, Any]
    ) -> None:
        while True:
            try:
                self._producer.produce(topic, value=value, key=key, partition=partition, **headers)
            except BufferError:
                self._producer.poll(_WAIT_SECONDS)
                self._raise_failure()
            except KafkaException as error:
                raise _not_sent(error.args[0]) from error
            else:
                return

    def _look(self) -> None:
        self._producer.poll(0)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise _not_sent(self._failure)

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def _failed(self, error: KafkaError) -> None:
        """Troubles of the client itself; it gets over all of them but the fatal ones."""
        if error.fatal() and self._failure is None:
            self._failure = error


def _not_sent(error: KafkaError) -> ChangefeedError:
    return ChangefeedError(NOT_SENT, f"Kafka did not take a message: {error.str()} ({error.name()})")
