"""A sync in a process of its own that dies at a chosen point: ``killed_sync.py ROOT POINT COUNT WHAT [FORMAT|PLACE]``.

``WHAT`` is killed with SIGKILL: ``python`` (Java may go on for a while), ``java`` or ``both``. ``FORMAT`` is the format
of the target. If the target is not in ``ROOT``, ``PLACE`` is a JSON document with its URI, its catalog and the job's
protocol and options.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path

from spark_sessions import small_session
from sync_checks import synced
from tidewire.spark.loop import Job, PassReport, Point
from tidewire.sync.catalog_settings import CatalogSettings
from tidewire.topic.files import FileTopics

JOB = Job("open-protocol")


class Killer:
    """Kills processes when a point is reached for the n-th time."""

    def __init__(self, point: Point, count: int, *processes: int) -> None:
        self._point = point
        self._left = count
        self._processes = processes

    def reached(self, point: Point) -> None:
        """Count down, and kill."""
        if point is self._point:
            self._left -= 1
            if not self._left:
                for process in self._processes:
                    os.kill(process, signal.SIGKILL)

    def finished(self, report: PassReport) -> None:
        """A pass is done."""

    def note(self, line: str) -> None:
        """There is something to say."""


def main() -> None:
    root, point, count, what, *elsewhere = sys.argv[1:]
    folder = Path(root)
    target, job = str(folder / "target"), JOB
    if elsewhere and not elsewhere[0].startswith("{"):
        job = replace(job, format=elsewhere[0])
    elif elsewhere:
        told = json.loads(elsewhere[0])
        target = told["target"]
        job = Job(told["protocol"], told["options"], catalog=CatalogSettings(**told["catalog"]))
    with small_session(folder / "spark") as spark:
        java = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]
        processes = {"python": [os.getpid()], "java": [java], "both": [java, os.getpid()]}[what]
        killer = Killer(Point(point), int(count), *processes)
        synced(spark, FileTopics(folder / "topics"), target, job, killer)


if __name__ == "__main__":
    main()
