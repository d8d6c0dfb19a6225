"""The shape every codec has: the same four names, the same two ways to make one.

A codec module offers ``Encoder``, ``Decoder``, ``encode`` and ``decode``, and besides ``inspect`` for people and
``capabilities``, what the protocol can say. The functions are for one go, the classes for a loop.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidewire.codec.capabilities import Capabilities
from tidewire.codec.claim_check import ClaimCheckStore
from tidewire.codec.options import Options
from tidewire.model import Event, Message
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

    def decode(self, message: Message) -> Iterator[Event]:
        """The events in one message. ``DecodeError`` where it breaks the protocol's rules."""
        ...


class Codec(Protocol):
    """What a protocol's module offers; a module can satisfy it."""

    @property
    def Encoder(self) -> type[Encoder]: ...  # noqa: N802 - it is a class's name

    @property
    def Decoder(self) -> type[Decoder]: ...  # noqa: N802 - it is a class's name

    def encode(self, events: Iterable[Event], **options: Any) -> Iterator[Message]:
        """Encode once; options are :class:`Options`' attributes."""
        ...

    def decode(self, message: Message, **options: Any) -> Iterator[Event]:
        """Decode once; options are :class:`Options`' attributes."""
        ...

    def inspect(self, message: Message, options: Options = ..., resources: Resources = ...) -> Iterator[Field]:
        """Every byte of a message in order, with its meaning."""
        ...

    def capabilities(self, options: Options = ...) -> Capabilities:
        """What the protocol can say with these options."""
        ...
