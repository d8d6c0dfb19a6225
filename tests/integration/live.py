"""Syncs that follow topics of a real Kafka."""

from __future__ import annotations

import threading
from pathlib import Path

from pyspark.sql import SparkSession

from integration.kafka_topics import PATIENCE
from tidewire.spark.loop import Job, Loop
from tidewire.spark.report import PassReport, Point
from tidewire.spark.source import open_source
from tidewire.spark.targets import open_target


class Follower:
    """Hears how far a sync is, lets others wait for it, and stops it at an end."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.running: Loop | None = None
        self.passes = 0
        self._applied = 0
        self._changed = threading.Condition()

    def reached(self, point: Point) -> None:
        """A pass came to a point."""

    def finished(self, report: PassReport) -> None:
        """A pass is done."""
        with self._changed:
            self.passes += 1
            self._applied = report.applied
            self._changed.notify_all()
        if self.running is not None and report.applied >= self.end:
            self.running.stop()

    def note(self, line: str) -> None:
        """There is something to say to people."""

    def wait(self, ts: int) -> None:
        """Wait until the tables are at a moment."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._applied >= ts, PATIENCE), f"{self._applied} instead of {ts}"


def sync_of(spark: SparkSession, uri: str, target: Path, job: Job, observer: Follower) -> Loop:
    """A sync from Kafka that the observer can stop."""
    place = open_target(spark, str(target), job.format)
    observer.running = Loop(spark, open_source(uri), place, job, observer)
    return observer.running
