"""TiCDC Craft: a binary protocol, many events to a message, everything of a kind side by side.

::

    value = version  header  body { body }  term dictionary  size tables  length of the size tables

The header holds when, what kind and where of all events, a body the columns of one. Names are numbers that the term
dictionary resolves. Nothing but the version can be found from the front: a reader starts at the last byte. There is
no message key.
"""

from __future__ import annotations

from tidewire.codec.base import Codec
from tidewire.codec.capabilities import Capabilities
from tidewire.codec.craft.decoder import Decoder
from tidewire.codec.craft.encoder import Encoder
from tidewire.codec.craft.inspector import inspect
from tidewire.codec.options import Options

__all__ = ["CODEC", "Decoder", "Encoder", "capabilities", "decode", "encode", "inspect"]


def capabilities(options: Options = Options()) -> Capabilities:
    """What Craft can say: the same as Open Protocol, more briefly."""
    deleted = frozenset(() if options.delete_only_output_handle_key_columns else {"deleted values"})
    return Capabilities(
        row=deleted
        | {"commit ts", "partition", "handle key", "old values", "column types", "column flags", "nullability"},
        ddl=frozenset({"commit ts", "table name", "database name", "type"}),
    )


CODEC = Codec("craft", Encoder, Decoder, inspect, capabilities)
encode, decode = CODEC.encode, CODEC.decode
