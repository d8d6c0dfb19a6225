"""A sync in a process of its own that is killed at a chosen point: ``killed_sync.py ROOT TOPIC NAME POINT COUNT``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from spark_sessions import small_session
from sync_checks import job_of, synced
from tidewire.spark.sync import Point, Report
from tidewire.topic.files import FileTopics


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
    root, topic, name, point, count = sys.argv[1:]
    folder = Path(root)
    with small_session(folder / "spark") as spark:
        synced(
            spark,
            FileTopics(folder / "topics"),
            folder / "target",
            job_of(topic, name, folder),
            Killer(Point(point), int(count)),
        )


if __name__ == "__main__":
    main()
