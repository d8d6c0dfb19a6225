"""TiCDC Simple protocol: one event to a message, in JSON or Avro, with schemas sent apart from the rows.

A table's schema travels in BOOTSTRAP and DDL messages; a row names the schema version it was written with, and its
values mean nothing without it.
"""

from __future__ import annotations

from tidewire.codec.base import Codec
from tidewire.codec.capabilities import Capabilities
from tidewire.codec.options import IntegrityCheck, Options
from tidewire.codec.simple.decoder import Decoder
from tidewire.codec.simple.encoder import Encoder
from tidewire.codec.simple.inspector import inspect
from tidewire.codec.simple.schema import SchemaCache

__all__ = ["CODEC", "Decoder", "Encoder", "SchemaCache", "capabilities", "decode", "encode", "inspect"]


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


CODEC = Codec("simple", Encoder, Decoder, inspect, capabilities)
encode, decode = CODEC.encode, CODEC.decode
