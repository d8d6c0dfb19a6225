"""A sync that replaces a table and dies: ``killed_replace.py ROOT WHEN POINT``.

``WHEN`` is ``fill``, ``catch-up`` or ``swap``. The process is killed with SIGKILL at the next point after that begins.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from killed_sync import Killer
from spark_sessions import small_session
from sync_checks import job_of
from tidewire.spark.load import replace as module
from tidewire.spark.loop import Loop, Point
from tidewire.spark.report import Observer, Silent
from tidewire.spark.source import FileSource
from tidewire.spark.targets import open_target
from tidewire.sync.state import State
from tidewire.topic.files import FileTopics

NAME = "canal-json"
MESSAGES = 300
"""A pass reads so few messages that the sync and the replacement take turns."""

PLACES: dict[str, tuple[Any, str]] = {
    "fill": (module, "plan_load"),
    "catch-up": (module.Replacement, "_check_reach"),
    "swap": (module, "plan_swap"),
}


def go_on(spark: SparkSession, folder: Path, observer: Observer = Silent(), name: str = NAME, **settings: Any) -> State:
    """Sync what there is, in small passes."""
    job = job_of("seed11", name, folder, **settings)
    source = FileSource(FileTopics(folder / "topics"), max_messages=MESSAGES)
    return Loop(spark, source, open_target(spark, str(folder / "target"), job.format), job, observer).run(once=True)


class Armed(Silent):
    """Kills this process at a point, once a function has been called."""

    def __init__(self, when: str, point: Point) -> None:
        self._killer: Killer | None = None
        owner, name = PLACES[when]
        function: Callable[..., Any] = getattr(owner, name)

        def called(*arguments: Any, **settings: Any) -> Any:
            self._killer = self._killer or Killer(point, 1, os.getpid())
            return function(*arguments, **settings)

        setattr(owner, name, called)

    def reached(self, point: Point) -> None:
        """Kill."""
        if self._killer is not None:
            self._killer.reached(point)


def main() -> None:
    root, when, point = sys.argv[1:]
    folder = Path(root)
    with small_session(folder / "spark") as spark:
        go_on(spark, folder, Armed(when, Point(point)))


if __name__ == "__main__":
    main()
