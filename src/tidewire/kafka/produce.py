"""Sending messages: an idempotent producer with a bounded buffer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from tidewire.errors import BrokerError, MissingExtra
from tidewire.kafka.client import explained, unusable
from tidewire.kafka.settings import configured
from tidewire.model import Message

try:
    from confluent_kafka import KafkaError, KafkaException, Producer
except ImportError as error:
    raise MissingExtra("confluent-kafka", "kafka") from error

_WAIT_SECONDS: Final = 0.1


class MessageProducer:
    """Sends messages in order. Raises :class:`BrokerError` if one could not be delivered.

    ``settings`` are librdkafka's, and say how long a message is tried.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._brokers = str(settings["bootstrap.servers"])
        self._failure: KafkaError | None = None
        try:
            self._producer = Producer(configured(settings, on_delivery=self._delivered, error_cb=self._failed))
        except (KafkaException, ValueError) as error:
            raise unusable(self._brokers, error) from error

    def send(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        """Hand messages to librdkafka; waits while its buffer is full."""
        for message in messages:
            headers = {"headers": list(message.headers)} if message.headers else {}
            self._produce(topic, partition, message.key, message.value, headers)
        self._producer.poll(0)
        self._raise_failure()

    def flush(self) -> None:
        """Wait until the brokers have acknowledged everything."""
        while self._producer.flush(_WAIT_SECONDS):
            self._raise_failure()
        self._raise_failure()

    def close(self) -> None:
        """Drop what was not sent and close the connections."""
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
                raise self._not_sent(error.args[0]) from error
            else:
                return

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._not_sent(self._failure)

    def _not_sent(self, error: KafkaError) -> BrokerError:
        return BrokerError(self._brokers, f"a message was not taken: {explained(error)} ({error.name()})")

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def _failed(self, error: KafkaError) -> None:
        """Troubles of the client itself; it gets over all of them except the fatal ones."""
        if error.fatal() and self._failure is None:
            self._failure = error
