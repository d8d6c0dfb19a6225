"""What every codec is: one object with the same members. The functions are for one message, the classes for a loop."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, Unpack

from tidewire.codec.capabilities import Capabilities
from tidewire.codec.claim_check import ClaimCheckStore, open_store
from tidewire.codec.options import LargeMessage, Options, OptionWords, options_of
from tidewire.model import Event, Message
from tidewire.registry import open_registry
from tidewire.registry.base import Registry


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _file_name() -> str:
    return f"{uuid.uuid4()}.json"


@dataclass(frozen=True, slots=True)
class Resources:
    """What a codec needs from outside: handed in, so that the codec itself touches nothing.

    ``claim_check`` holds the external parts of large messages and ``registry`` Avro's schemas; ``clock`` gives the
    milliseconds some protocols stamp their messages with, and ``file_name`` names the next external part.
    """

    claim_check: ClaimCheckStore | None = None
    registry: Registry | None = None
    clock: Callable[[], int] = _now_ms
    file_name: Callable[[], str] = _file_name

    @classmethod
    def of(cls, options: Options) -> Resources:
        """The registry and the store that options name; neither is contacted before it is needed."""
        checks = options.large_message_handle_option is LargeMessage.CLAIM_CHECK
        return cls(
            claim_check=open_store(options.claim_check_storage_uri) if checks else None,
            registry=open_registry(options.schema_registry) if options.schema_registry else None,
        )


@dataclass(frozen=True, slots=True)
class Field:
    """One stretch of bytes of a message and what it means."""

    part: str
    offset: int
    data: bytes = field(repr=False)
    name: str
    meaning: str


class Encoder(Protocol):
    """Events to messages."""

    def __init__(self, options: Options = ..., resources: Resources = ...) -> None: ...

    def encode(self, events: Iterable[Event]) -> Iterator[Message]:
        """The messages these events make, in order. Nothing is held back when the iterator ends."""
        ...


class Decoder(Protocol):
    """Messages to events."""

    def __init__(self, options: Options = ..., resources: Resources = ...) -> None: ...

    def decode(self, message: Message) -> list[Event]:
        """The events in one message: all, or none and ``DecodeError`` where it breaks the protocol's rules."""
        ...


@dataclass(frozen=True, slots=True)
class Codec:
    """A protocol: its name, its encoder and decoder, what it can say, and where each byte of a message comes from.

    ``inspect(message, options, resources)`` gives every byte of a message in order, with its meaning.
    ``capabilities(options)`` says what the protocol can say with these options.
    """

    name: str
    Encoder: type[Encoder]
    Decoder: type[Decoder]
    inspect: Callable[..., Iterator[Field]]
    capabilities: Callable[..., Capabilities]

    def encode(
        self, events: Iterable[Event], *, registry: Registry | None = None, **options: Unpack[OptionWords]
    ) -> Iterator[Message]:
        """The messages that these events make; Avro needs a registry for their schemas. Options are as in Options."""
        return self.Encoder(options_of(options), Resources(registry=registry)).encode(events)

    def decode(
        self, message: Message, *, registry: Registry | None = None, **options: Unpack[OptionWords]
    ) -> list[Event]:
        """The events in one message; Avro needs the registry of its schemas. Options are as in Options.

        A row of Simple needs a ``Decoder`` that has seen its schema.
        """
        return self.Decoder(options_of(options), Resources(registry=registry)).decode(message)
