"""TiCDC Simple protocol: one event to a message, in JSON or Avro, with schemas sent apart from the rows.

A table's schema travels in BOOTSTRAP and DDL messages; a row names the schema version it was written with, and its
values mean nothing without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidewire.codec.options import Options
from tidewire.codec.simple.decoder import Decoder
from tidewire.codec.simple.encoder import Encoder
from tidewire.codec.simple.inspector import inspect
from tidewire.codec.simple.schema import SchemaCache
from tidewire.model import Event, Message

__all__ = ["Decoder", "Encoder", "SchemaCache", "decode", "encode", "inspect"]


def encode(events: Iterable[Event], **options: Any) -> Iterator[Message]:
    """The messages these events make."""
    return Encoder(Options(**options)).encode(events)


def decode(message: Message, **options: Any) -> Iterator[Event]:
    """The event in one message. A row needs a :class:`Decoder` that has seen its schema."""
    return Decoder(Options(**options)).decode(message)
