"""Checkpoints: how far a changefeed has come, stored for the next start."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidewire.changefeed.source.base import ResumePosition
from tidewire.errors import ChangefeedError
from tidewire.storage import open_storage

UNREADABLE = "CDC:ErrDecodeFailed"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything with a commit ts up to ``ts`` is safe in the sink; the source resumes at ``place``."""

    ts: int
    place: ResumePosition | None = None


class CheckpointStore(Protocol):
    """Stores the checkpoint of one changefeed."""

    def load(self) -> Checkpoint | None:
        """The last checkpoint; ``None`` if none was saved yet."""
        ...

    def save(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint; it survives a crash once this returns."""
        ...


class MemoryCheckpoints:
    """A checkpoint in memory, lost with the process."""

    def __init__(self, checkpoint: Checkpoint | None = None) -> None:
        self.checkpoint = checkpoint

    def load(self) -> Checkpoint | None:
        """The last checkpoint."""
        return self.checkpoint

    def save(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint."""
        self.checkpoint = checkpoint


class FileCheckpoints:
    """A checkpoint in a JSON file, which is replaced as a whole."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._storage = open_storage(self.path.parent, "checkpoint")

    def load(self) -> Checkpoint | None:
        """The last checkpoint; raises ``ChangefeedError`` if the file is not one."""
        data = self._storage.read(self.path.name)
        if data is None:
            return None
        try:
            found = json.loads(data)
            return Checkpoint(int(found["checkpoint-ts"]), found["place"])
        except (ValueError, KeyError, TypeError) as error:
            raise ChangefeedError(
                UNREADABLE, f"{self.path} is not a checkpoint ({error}); restore it, or remove it to begin at start-ts"
            ) from error

    def save(self, checkpoint: Checkpoint) -> None:
        """Replace the file."""
        data = json.dumps({"checkpoint-ts": checkpoint.ts, "place": checkpoint.place})
        self._storage.put(self.path.name, data.encode())
