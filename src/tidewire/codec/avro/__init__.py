"""TiCDC Avro: one record per row in Confluent's framing, its schema in a registry.

::

    key, value = 0x00, schema id (4 bytes), Avro record
    value      = 0x01, JSON            a DDL        only with enable-tidb-extension
               | 0x02, ts (8 bytes)    a watermark  and avro-enable-watermark
               | 0x03, ts (8 bytes)    a delete

The key holds the primary key, the value the row after the change. A delete has no value, or one that says so.
"""

from __future__ import annotations

from tidewire.codec.avro.decoder import Decoder
from tidewire.codec.avro.encoder import Encoder
from tidewire.codec.avro.inspector import inspect
from tidewire.codec.base import Codec
from tidewire.codec.capabilities import Capabilities
from tidewire.codec.options import IntegrityCheck, Options

__all__ = ["CODEC", "Decoder", "Encoder", "capabilities", "decode", "encode", "inspect"]


def capabilities(options: Options = Options()) -> Capabilities:
    """What Avro can say: values with a rough type, and a schema per table; of the change itself little by default.

    A delete has a commit ts only where it has a value; a checksum is that of the row which is sent.
    """
    extension, before = options.enable_tidb_extension, options.avro_include_before_value
    controls = extension and options.avro_enable_watermark
    told = {
        "commit ts": extension and (controls or before),
        "old values": before,
        "deleted values": before,
        "checksum": extension and options.integrity_check_level is IntegrityCheck.CORRECTNESS,
    }
    return Capabilities(
        row=frozenset({"nullability", "enum elements", "enum texts"} | {fact for fact in told if told[fact]}),
        ddl=frozenset({"commit ts", "table name", "database name", "type"}) if controls else None,
        watermark=controls,
        needs_names=True,
    )


CODEC = Codec("avro", Encoder, Decoder, inspect, capabilities)
encode, decode = CODEC.encode, CODEC.decode
