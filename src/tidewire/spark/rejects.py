"""Messages that could not be read, as they are kept in the ledger's folder: position, reason and bytes.

The rejects table has the same messages for queries. The files serve to read a message again, and to look at one without
Spark. A message that was met more than once is listed once, as it was met last.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow.parquet as pq

from tidewire.model import Message, Position
from tidewire.storage import Storage

_FOLDER: Final = "rejects"


@dataclass(frozen=True, slots=True)
class KeptReject:
    """A message that could not be read, and the file it is in. ``part`` and ``place`` say where in the message."""

    at: Position
    message: Message
    reason: str
    part: str | None
    place: str | None
    path: str


def list_rejects(storage: Storage) -> list[KeptReject]:
    """All messages that are kept, by position."""
    found = {each.at: each for each in _read(storage)}
    return [found[at] for at in sorted(found)]


def find_rejects(storage: Storage, positions: Collection[Position]) -> dict[Position, str]:
    """The files that have the bytes of messages; a message whose bytes were not kept is left out."""
    return {
        each.at: each.path
        for each in (_read(storage) if positions else ())
        if each.at in positions and each.message != Message(None, None)
    }


def _read(storage: Storage) -> Iterator[KeptReject]:
    """Every message of every file, oldest file first."""
    for entry in sorted(storage.list(_FOLDER, recursive=True), key=lambda entry: (entry.modified, entry.name)):
        with storage.input(entry.name) as source, pq.ParquetFile(source) as file:
            for batch in file.iter_batches():
                for row in batch.to_pylist():
                    yield KeptReject(
                        Position(row["topic"], row["partition"], row["offset"]),
                        Message(row["key"], row["value"]),
                        row["reason"],
                        row["part"],
                        row["at"],
                        storage.path(entry.name),
                    )
