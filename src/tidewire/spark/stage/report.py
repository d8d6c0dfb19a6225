"""What a task found, on its way to the driver."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from tidewire.model import Position
from tidewire.sync.manifest import Manifest, Partition

Rising = Mapping[Partition, Sequence[tuple[int, int]]]
"""Of each partition the watermarks that are above all before them: offset and ts, in order."""


class Report(NamedTuple):
    """The manifest of a task's own messages, and what it takes to make one manifest of many.

    ``first_seen`` says where each of the manifest's schemas was first.
    """

    manifest: Manifest
    rising: Rising
    first_seen: Sequence[Position]

    def to_json(self) -> str:
        """The report as one line."""
        rising = [[at.topic, at.number, marks] for at, marks in self.rising.items()]
        places = [asdict(at) for at in self.first_seen]
        return json.dumps([self.manifest.to_plain(), rising, places], separators=(",", ":"))

    @classmethod
    def from_json(cls, line: str) -> Report:
        """The report of a line."""
        manifest, rising, places = json.loads(line)
        return cls(
            Manifest.from_plain(manifest),
            {Partition(topic, number): [(at, ts) for at, ts in marks] for topic, number, marks in rising},
            [Position(**at) for at in places],
        )
