"""Codecs for lines: one per set of options, with what the lines themselves bring along."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from tidewire.cli.lines import Line
from tidewire.codec import Encoder, Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.parking import Parking
from tidewire.errors import SchemaUnknown
from tidewire.model import Message
from tidewire.registry import MemoryRegistry, Registry, open_registry

_CARRIED = ("id", "topic", "partition", "offset")
_PARTS = ("key", "value")


def origin_of(number: int, line: Line) -> Line:
    """What ties an output line to its input: the number, the id and the position."""
    return {"message": number} | {name: line[name] for name in _CARRIED if name in line}


class LineCodecs:
    """Makes codecs for lines. Those with the same options are one, so that it remembers what earlier lines said.

    A line may bring the claim checks and the Avro schemas its message refers to, as ``claim_check_files`` and as
    ``key_schema``, ``value_schema`` and ``schema_ids``; and a line that is written brings them in turn.
    """

    def __init__(self, protocol_name: str, settings: Mapping[str, str]) -> None:
        self._codec = protocol(protocol_name)
        self._is_avro = protocol_name == "avro"
        self._settings = settings
        self._decoders: dict[Options, Parking[Line]] = {}
        self._shared: Encoder | None = None
        self._claim_checks = MemoryStore()
        self._schemas = MemoryRegistry()
        self._registries: dict[str, Registry] = {"": self._schemas}

    def decoder(self, line: Line) -> Parking[Line]:
        """The decoder for a line."""
        options, resources = self.received(line)
        if options not in self._decoders:
            self._decoders[options] = Parking(self._codec.Decoder(options, resources))
        return self._decoders[options]

    def encoder(self, line: Line) -> Encoder:
        """A fresh encoder for a line."""
        options, resources = self.received({name: line[name] for name in line if name != "claim_check_files"})
        return self._codec.Encoder(options, resources)

    def shared_encoder(self) -> Encoder:
        """The one encoder with the command's own options."""
        if self._shared is None:
            self._shared = self.encoder({})
        return self._shared

    def received(self, line: Line) -> tuple[Options, Resources]:
        """The command's options, overridden by the line's own, and what the codec needs from outside."""
        for name, data in (line.get("claim_check_files") or {}).items():
            self._claim_checks.put(name, base64.b64decode(data))
        for part, schema_id in (line.get("schema_ids") or {}).items():
            if schema_id and line.get(f"{part}_schema"):
                self._schemas.put(schema_id, line[f"{part}_schema"])
        options = Options.parse({**self._settings, **line.get("options", {})})
        uri = options.schema_registry
        if uri not in self._registries:
            self._registries[uri] = open_registry(uri)
        return options, Resources(claim_check=self._claim_checks, registry=self._registries[uri])

    def brought(self, message: Message) -> Line:
        """What a written line brings: claim checks put aside for it, and schemas that no registry keeps."""
        line: Line = {}
        files = self.taken_claim_checks()
        if files:
            line["claim_check_files"] = {name: base64.b64encode(data).decode() for name, data in files.items()}
        ids = dict(zip(_PARTS, map(self._schema_id, (message.key, message.value)), strict=True))
        if any(ids.values()):
            line["schema_ids"] = ids
            for part, schema_id in ids.items():
                line[f"{part}_schema"] = self._schemas.schema(schema_id) if schema_id else ""
        return line

    def taken_claim_checks(self) -> dict[str, bytes]:
        """The claim checks put aside since the last call."""
        taken, self._claim_checks.blobs = self._claim_checks.blobs, {}
        return taken

    def parked(self) -> list[tuple[Line, SchemaUnknown]]:
        """The lines that wait for a schema, and what they wait for."""
        return [(origin, missing) for decoder in self._decoders.values() for origin, _, missing in decoder.parked]

    def _schema_id(self, data: bytes | None) -> int:
        """The id in Confluent's frame; 0 if there is no frame, or if a registry keeps the schema."""
        if not self._is_avro or not data or data[0] != 0:
            return 0
        schema_id = int.from_bytes(data[1:5])
        return schema_id if schema_id in self._schemas.schemas() else 0
