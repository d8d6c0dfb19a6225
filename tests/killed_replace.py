"""A sync that replaces a table and dies at a chosen point: ``killed_replace.py ROOT POINT COUNT``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from killed_sync import Killer
from spark_sessions import small_session
from sync_checks import job_of
from tidewire.spark.loop import Loop, Point
from tidewire.spark.report import Observer, Silent
from tidewire.spark.source import FileSource
from tidewire.spark.targets import open_target
from tidewire.sync.state import State
from tidewire.topic.files import FileTopics

from pyspark.sql import SparkSession  # isort: skip

NAME = "canal-json"
MESSAGES = 60
"""A pass reads so few messages that the sync and the replacement take turns."""


def go_on(spark: SparkSession, folder: Path, observer: Observer = Silent(), format_: str = "iceberg") -> State:
    """Sync what there is, in small passes."""
    job = job_of("seed11", NAME, folder, format=format_)
    source = FileSource(FileTopics(folder / "topics"), max_messages=MESSAGES)
    return Loop(spark, source, open_target(spark, str(folder / "target"), format_), job, observer).run(once=True)


def main() -> None:
    root, point, count = sys.argv[1:]
    folder = Path(root)
    with small_session(folder / "spark") as spark:
        go_on(spark, folder, Killer(Point(point), int(count), os.getpid()))


if __name__ == "__main__":
    main()
