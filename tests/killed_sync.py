"""A sync in a process of its own that is killed at a chosen point: ``killed_sync.py ROOT POINT COUNT``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from spark_sessions import small_session
from sync_checks import synced
from tidewire.spark.sync import Job, Point, Report
from tidewire.topic.files import FileTopics

JOB = Job("open-protocol")


class Killer:
    """Kills its own process when a point is reached for the n-th time."""

    def __init__(self, point: Point, count: int) -> None:
        self._point = point
        self._left = count

    def reached(self, point: Point) -> None:
        """Count down, and go without a word."""
        if point is self._point:
            self._left -= 1
            if not self._left:
                os.kill(os.getpid(), signal.SIGKILL)

    def finished(self, report: Report) -> None:
        """A batch is done."""


def main() -> None:
    root, point, count = sys.argv[1:]
    folder = Path(root)
    with small_session(folder / "spark") as spark:
        synced(spark, FileTopics(folder / "topics"), folder / "target", JOB, Killer(Point(point), int(count)))


if __name__ == "__main__":
    main()
