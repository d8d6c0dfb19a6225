"""A sync in a process of its own that says where it is: ``followed_sync.py ROOT URI TOPIC NAME TS``.

Every point of a pass is a line on standard output. It ends by itself once the tables are at a moment.
"""

from __future__ import annotations

import sys
from pathlib import Path

from integration.live import Follower, sync_of
from spark_sessions import small_session
from sync_checks import job_of
from tidewire.spark.report import Point


class Telling(Follower):
    """Says every point."""

    def reached(self, point: Point) -> None:
        """Say it at once."""
        print(point, flush=True)


def main() -> None:
    root, uri, topic, name, ts = sys.argv[1:]
    folder = Path(root)
    observer = Telling(int(ts))
    with small_session(folder / "spark") as spark:
        sync_of(spark, uri, folder / "target", job_of(topic, name, folder), observer).run(once=False)


if __name__ == "__main__":
    main()
