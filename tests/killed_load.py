"""A load in a process of its own that dies at a chosen point: ``killed_load.py ROOT POINT COUNT``.

``POINT`` is a :class:`Point`, or ``chunk`` for the end of a chunk. The process is killed with SIGKILL.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from killed_sync import Killer
from spark_sessions import small_session
from tidewire.load.chunks import DumpSource
from tidewire.load.dumpling import read_dump
from tidewire.spark.job import Job
from tidewire.spark.load.run import load
from tidewire.spark.load.task import ChunkWork
from tidewire.spark.loop import Point
from tidewire.spark.targets import open_target
from tidewire.storage import open_storage

CHUNK_BYTES = 1500


def job_of(dump: Path) -> DumpSource:
    """The load of a dump in many chunks."""
    storage = open_storage(dump)
    found = read_dump(storage)
    assert found.ts is not None
    return DumpSource(storage, found.tables, found.ts, chunk_bytes=CHUNK_BYTES)


def main() -> None:
    root, point, count = sys.argv[1:]
    folder = Path(root)
    killer = Killer(Point.CLEANED if point == "chunk" else Point(point), int(count), os.getpid())
    stage = ChunkWork.run

    def staged(work: ChunkWork) -> int:
        rows = stage(work)
        killer.reached(Point.CLEANED)
        return rows

    if point == "chunk":
        ChunkWork.run = staged  # type: ignore[method-assign, assignment]
    with small_session(folder / "spark") as spark:
        target = open_target(spark, str(folder / "target"), "iceberg")
        load(spark, target, Job(""), job_of(folder / "dump"), killer)


if __name__ == "__main__":
    main()
