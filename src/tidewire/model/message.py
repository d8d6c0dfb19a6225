"""What a queue holds: messages, and where each one is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a queue. ``None`` is an absent key or value, which is not the empty one."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()

    @classmethod
    def of(cls, message: Any) -> Message:
        """The message that a client of Kafka received: confluent-kafka, kafka-python or aiokafka.

        Key and value have to be bytes: a client must not deserialize them. Raises ``TypeError`` otherwise, and for a
        ``Message`` of confluent-kafka that is an event or an error and not a message.
        """
        error = _told(message, "error") if hasattr(message, "error") else None
        if error is not None:
            raise TypeError(f"not a message but an event of the client: {error}")
        key, value = (_bytes(_told(message, name), name) for name in ("key", "value"))
        headers: Iterable[tuple[str, bytes | None]] = _told(message, "headers") or ()
        return cls(key, value, tuple((name, data or b"") for name, data in headers))


def _told(message: Any, name: str) -> Any:
    """A fact of a client's message: what a method gives (confluent-kafka), or an attribute."""
    found: Any | Callable[[], Any] = getattr(message, name)
    return found() if callable(found) else found


def _bytes(data: Any, name: str) -> bytes | None:
    if data is None or isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"the {name} is of type {type(data).__name__}: use a consumer without a {name} deserializer")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where a message is."""

    topic: str
    partition: int
    offset: int

    @classmethod
    def of(cls, message: Any) -> Position:
        """Where a message is that a client of Kafka received: confluent-kafka, kafka-python or aiokafka."""
        topic, partition, offset = (_told(message, name) for name in ("topic", "partition", "offset"))
        return cls(topic, partition, offset)

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"
