"""The names of protocols, and which of them a sink can speak."""

from __future__ import annotations

from collections.abc import Mapping

from tidewire.changefeed.config.uri import SinkKind
from tidewire.codec import PROTOCOLS

ALIASES: Mapping[str, str] = {"default": "open-protocol", "flat-avro": "avro"}

KNOWN = frozenset({*PROTOCOLS, "csv", "canal", "maxwell", "debezium", "debezium-avro"})
"""Every protocol TiCDC has a name for."""

SPOKEN: Mapping[SinkKind, frozenset[str]] = {
    SinkKind.KAFKA: frozenset(PROTOCOLS),
    SinkKind.FILE_TOPIC: frozenset(PROTOCOLS),
    SinkKind.STORAGE: frozenset({"csv", "canal-json"}),
}
"""What a sink can write; a blackhole takes anything."""


def protocol_name(text: str | None) -> str:
    """The plain name of a protocol, without case and aliases; the text itself if it is unknown."""
    name = (text or "").lower()
    name = ALIASES.get(name, name)
    return name if name in KNOWN else text or ""
