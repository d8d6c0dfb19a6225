"""Events to bytes and back: one module per protocol, the same names in each."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from tidewire.codec.base import Codec, Decoder, Encoder, Field, Resources
from tidewire.codec.options import Options
from tidewire.errors import UnknownProtocol

__all__ = ["PROTOCOLS", "SYNC_PROTOCOLS", "Codec", "Decoder", "Encoder", "Field", "Options", "Resources", "protocol"]

PROTOCOLS: Mapping[str, str] = {
    "open-protocol": "tidewire.codec.open_protocol",
    "canal-json": "tidewire.codec.canal_json",
    "avro": "tidewire.codec.avro",
    "craft": "tidewire.codec.craft",
    "simple": "tidewire.codec.simple",
}
"""TiCDC's name of each protocol, and the module that speaks it; loaded when first asked for."""

SYNC_PROTOCOLS = (*PROTOCOLS, "csv")
"""What a sync reads: all protocols, and CSV, which is in the files of a storage sink only."""


def protocol(name: str) -> Codec:
    """The codec of that name."""
    try:
        module = PROTOCOLS[name]
    except KeyError:
        raise UnknownProtocol(name, known=PROTOCOLS) from None
    codec: Codec = import_module(module).CODEC
    return codec
