"""TiCDC Open Protocol: length-prefixed JSON, many events to a message.

::

    key   = version (8 bytes, 1) { length (8 bytes) event key }
    value = { length (8 bytes) event value }

An event key says when, where and what kind; an event value holds the columns, each with its type and flags.
"""

from __future__ import annotations

from tidewire.codec.base import Codec
from tidewire.codec.capabilities import Capabilities
from tidewire.codec.open_protocol.decoder import Decoder
from tidewire.codec.open_protocol.encoder import Encoder
from tidewire.codec.open_protocol.inspector import inspect
from tidewire.codec.options import Options

__all__ = ["CODEC", "Decoder", "Encoder", "capabilities", "decode", "encode", "inspect"]


def capabilities(options: Options = Options()) -> Capabilities:
    """What Open Protocol can say: columns with types and flags, but neither schemas nor names behind ENUM and SET."""
    old = frozenset({"old values"} if options.output_old_value and not options.only_output_updated_columns else ())
    deleted = frozenset(() if options.delete_only_output_handle_key_columns else {"deleted values"})
    return Capabilities(
        row=old | deleted | {"commit ts", "partition", "handle key", "column types", "column flags", "nullability"},
        ddl=frozenset({"commit ts", "table name", "database name", "type"}),
    )


CODEC = Codec("open-protocol", Encoder, Decoder, inspect, capabilities)
encode, decode = CODEC.encode, CODEC.decode
