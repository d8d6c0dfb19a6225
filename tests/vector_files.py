"""The reference vectors: real messages of both servers, with the events they mean.

They were made by running TiCDC's own encoders on real SQL. A file's name is ``<scenario>.<config>.<server>``, where
the server is ``ticdc`` (the new architecture) or ``tiflow`` (the classic one).
"""

from __future__ import annotations

import base64
import gzip
import json
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from tidewire.codec import Decoder, Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore
from tidewire.errors import SchemaUnknown
from tidewire.model import Event, Message
from tidewire.plain import event_from_plain, message_from_plain
from tidewire.registry import MemoryRegistry

VECTORS = Path(__file__).parent / "vectors"


class Vector:
    """One line of a vector file."""

    def __init__(self, line: dict[str, Any]) -> None:
        self.line = line
        self.id: str = line["id"]
        self.options = Options.parse(line["options"])
        self.plain: list[dict[str, Any]] = line["events"]
        self.error: str | None = line.get("error")

    def __repr__(self) -> str:
        return self.id

    @property
    def message(self) -> Message:
        return message_from_plain(self.line)

    @property
    def events(self) -> list[Event]:
        return [event_from_plain(plain) for plain in self.plain]

    @property
    def registry(self) -> MemoryRegistry:
        """The Avro schemas the message refers to."""
        ids = self.line.get("schema_ids") or {}
        return MemoryRegistry({ids[part]: self.line[f"{part}_schema"] for part in ids if ids[part]})

    @property
    def resources(self) -> Resources:
        return Resources(claim_check=self.claim_checks, registry=self.registry)

    @property
    def claim_checks(self) -> MemoryStore:
        files = self.line.get("claim_check_files") or {}
        return MemoryStore({name: base64.b64decode(data) for name, data in files.items()})


def files(folder: str, pattern: str = "*") -> list[str]:
    """The names of a folder's files, those of refused inputs left out unless asked for."""
    found = (VECTORS / folder).glob(f"{pattern}.jsonl.gz")
    names = sorted(path.name.removesuffix(".jsonl.gz") for path in found)
    return [name for name in names if name.endswith(".errors") == pattern.endswith(".errors")]


@cache
def vectors(folder: str, name: str) -> tuple[Vector, ...]:
    """All lines of one file."""
    with gzip.open(VECTORS / folder / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
        return tuple(Vector(json.loads(line) | {"file": (folder, name)}) for line in lines)


FOLDERS = {"simple": ("simple-json", "simple-avro")}
"""A protocol's folders, where they are not one with its name."""


def sample(name: str, lines: int = 6) -> list[Vector]:
    """A few lines of every file of a protocol."""
    found: list[Vector] = []
    for folder in FOLDERS.get(name, (name,)):
        for file in files(folder):
            every = vectors(folder, file)
            found += every[:: max(1, len(every) // lines)]
    return found


def decoder(name: str, vector: Vector) -> Decoder:
    """A decoder that knows what it needs to read this vector: its schemas and its claim checks."""
    made = protocol(name).Decoder(vector.options, vector.resources)
    if name == "simple":
        for message in _schemas(vector.line["file"]):
            with suppress(SchemaUnknown):
                list(made.decode(message))
    return made


@cache
def _schemas(file: tuple[str, str]) -> tuple[Message, ...]:
    """The messages of a file that bring schemas."""
    return tuple(
        vector.message
        for vector in vectors(*file)
        if any(plain["kind"] in ("bootstrap", "ddl") for plain in vector.plain)
    )
