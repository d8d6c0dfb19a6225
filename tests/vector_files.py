"""The reference vectors: real messages of both servers, with the events they mean.

They were made by running TiCDC's own encoders on real SQL. A file's name is ``<scenario>.<config>.<server>``, where
the server is ``ticdc`` (the new architecture) or ``tiflow`` (the classic one).
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from tidewire.codec import Options
from tidewire.codec.claim_check import MemoryStore
from tidewire.model import Event, Message
from tidewire.plain import event_from_plain, message_from_plain

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
    def claim_checks(self) -> MemoryStore:
        files = self.line.get("claim_check_files") or {}
        return MemoryStore({name: base64.b64decode(data) for name, data in files.items()})


def files(protocol: str, pattern: str = "*") -> list[str]:
    """The names of a protocol's files, those of refused inputs left out unless asked for."""
    found = (VECTORS / protocol).glob(f"{pattern}.jsonl.gz")
    names = sorted(path.name.removesuffix(".jsonl.gz") for path in found)
    return [name for name in names if name.endswith(".errors") == pattern.endswith(".errors")]


@cache
def vectors(protocol: str, name: str) -> tuple[Vector, ...]:
    """All lines of one file."""
    return tuple(_read(VECTORS / protocol / f"{name}.jsonl.gz"))


def _read(path: Path) -> Iterator[Vector]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield Vector(json.loads(line))
