"""TiCDC Simple protocol: one event to a message, in JSON or Avro, with schemas sent apart from the rows.

A table's schema travels in BOOTSTRAP and DDL messages; a row names the schema version it was written with, and its
values mean nothing without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidewire.codec.capabilities import Capabilities
from tidewire.codec.options import IntegrityCheck, Options
from tidewire.codec.simple.decoder import Decoder
from tidewire.codec.simple.encoder import Encoder
from tidewire.codec.simple.inspector import inspect
from tidewire.codec.simple.schema import SchemaCache
from tidewire.model import Event, Message

__all__ = ["Decoder", "Encoder", "SchemaCache", "capabilities", "decode", "encode", "inspect"]


def encode(events: Iterable[Event], **options: Any) -> Iterator[Message]:
    """The messages these events make."""
    return Encoder(Options(**options)).encode(events)


def decode(message: Message, **options: Any) -> Iterator[Event]:
    """The event in one message. A row needs a :class:`Decoder` that has seen its schema."""
    return Decoder(Options(**options)).decode(message)


def capabilities(options: Options = Options()) -> Capabilities:
    """What Simple can say: nearly everything, since it sends whole schemas; column ids and start ts it leaves out."""
    checksum = {"checksum"} if options.integrity_check_level is IntegrityCheck.CORRECTNESS else frozenset[str]()
    return Capabilities(
        row=_ROW_FACTS | checksum,
        ddl=frozenset({"commit ts", "table name", "kind", "table schema"}),
        bootstrap=True,
        needs_schema=True,
    )


_ROW_FACTS = frozenset(
    {
        "commit ts",
        "table id",
        "logical table id",
        "partition",
        "schema version",
        "indexes",
        "handle key",
        "old values",
        "deleted values",
        "column types",
        "nullability",
        "lengths",
        "scales",
        "charsets",
        "collations",
        "enum elements",
        "defaults",
        "enum texts",
        "time zones",
    }
)
