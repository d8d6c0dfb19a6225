"""A command in a process of its own that waits or dies at a chosen point: ``stopped_load.py PLAN ARGUMENT...``.

``PLAN`` is a JSON document. ``kill`` is a :class:`Point`, or ``chunk`` for the end of a chunk, and ``count`` how often
it is reached before the process is killed with SIGKILL; ``when`` is a place of :mod:`killed_replace` from which on that
counts. ``tasks``: chunks are read in Spark tasks. ``gate`` is a folder: the first chunk writes to the pipe ``reached``
in it, and waits until another process opens the pipe ``go``. ``CHUNK_ROWS`` and ``MOST_CHUNKS`` are those of live
tables. ``ARGUMENT...`` is what ``tidewire`` is called with.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import killed_replace
from killed_sync import Killer
from tidewire.cli import load as verb
from tidewire.cli.app import app
from tidewire.load import chunks, live, live_tidb
from tidewire.load.rows import Rows
from tidewire.load.source import Opened, Place
from tidewire.spark.load import run, task
from tidewire.spark.load.task import ChunkReport
from tidewire.spark.loop import Point
from tidewire.storage import Storage


@dataclass(frozen=True, slots=True)
class GatedRows(chunks.DumpedRows):
    """A chunk that waits at a gate."""

    gate: str

    def read(self) -> Iterator[tuple[Place, Rows]]:
        """Its rows, when the gate is open."""
        gate = Path(self.gate)
        (gate / "reached").write_text("reached")
        (gate / "go").read_text()
        return super(GatedRows, self).read()


def gate_first_chunk(gate: str) -> None:
    """Let the first chunk of a dump wait."""
    opened = chunks.DumpSource.opened

    @contextmanager
    def gated(*arguments: Any) -> Iterator[Opened]:
        with opened(*arguments) as found:
            first, *others = found.chunks
            assert isinstance(first, chunks.DumpedRows)
            waits = GatedRows(first.dump, first.table, first.dialect, first.chunk, gate)
            yield replace(found, chunks=(waits, *others))

    chunks.DumpSource.opened = gated  # type: ignore[method-assign, assignment]


def kill_at_chunk(count: int) -> None:
    """Die when so many chunks are read in this run, here or in Spark tasks."""
    stage, reports = task.ChunkWork.run, task.reports
    first: dict[str, int] = {}

    def seen(ledger: Storage, folder: str, known: Mapping[str, ChunkReport] = {}) -> list[tuple[str, ChunkReport]]:
        found = [*reports(ledger, folder, known)]
        if len(found) - first.setdefault(folder, len(found)) >= count:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    def staged(work: task.ChunkWork) -> int:
        rows = stage(work)
        seen(work.ledger, work.folder)
        return rows

    vars(run)["reports"] = seen
    task.ChunkWork.run = staged  # type: ignore[method-assign, assignment]


def main() -> None:
    plan = json.loads(sys.argv[1])
    if plan.get("tasks"):
        run.FEW_BYTES = run.FEW_ROWS = 0  # type: ignore[misc]
    for module, name in product((live, live_tidb), ("CHUNK_ROWS", "MOST_CHUNKS")):
        setattr(module, name, plan.get(name, getattr(module, name)))
    if "gate" in plan:
        gate_first_chunk(plan["gate"])
    if plan.get("kill") == "chunk":
        kill_at_chunk(plan["count"])
    elif "kill" in plan:
        point = Point(plan["kill"])
        killer: Any = Killer(point, plan.get("count", 1), os.getpid())
        if "when" in plan:
            killer = killed_replace.Armed(plan["when"], point)
        verb._Lines.reached = lambda self, point: killer.reached(point)  # type: ignore[method-assign]
    app(sys.argv[2:])


if __name__ == "__main__":
    main()
