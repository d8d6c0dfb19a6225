"""Codecs for lines: one per set of options, with what the lines themselves bring along."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from tidewire.cli.lines import Line
from tidewire.codec import Encoder, Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.parking import Parking
from tidewire.errors import SchemaUnknown

_CARRIED = ("id", "topic", "partition", "offset")


def origin_of(number: int, line: Line) -> Line:
    """What ties an output line to its input: the number, the id and the position."""
    return {"message": number} | {name: line[name] for name in _CARRIED if name in line}


class LineCodecs:
    """Makes codecs for lines. Decoders with the same options are one, so that it remembers what earlier lines said."""

    def __init__(self, protocol_name: str, settings: Mapping[str, str]) -> None:
        self._codec = protocol(protocol_name)
        self._settings = settings
        self._decoders: dict[Options, Parking[Line]] = {}
        self._claim_checks = MemoryStore()

    def decoder(self, line: Line) -> Parking[Line]:
        """The decoder for a line, which finds the claim checks the line brings."""
        options = self._options(line)
        for name, data in (line.get("claim_check_files") or {}).items():
            self._claim_checks.put(name, base64.b64decode(data))
        if options not in self._decoders:
            self._decoders[options] = Parking(self._codec.Decoder(options, self._resources()))
        return self._decoders[options]

    def encoder(self, line: Line) -> Encoder:
        """A fresh encoder for a line."""
        return self._codec.Encoder(self._options(line), self._resources())

    def taken_claim_checks(self) -> dict[str, bytes]:
        """The claim checks put aside since the last call."""
        taken, self._claim_checks.blobs = self._claim_checks.blobs, {}
        return taken

    def parked(self) -> list[tuple[Line, SchemaUnknown]]:
        """The lines that wait for a schema, and what they wait for."""
        return [(origin, missing) for decoder in self._decoders.values() for origin, _, missing in decoder.parked]

    def _options(self, line: Line) -> Options:
        return Options.parse({**self._settings, **line.get("options", {})})

    def _resources(self) -> Resources:
        return Resources(claim_check=self._claim_checks)
