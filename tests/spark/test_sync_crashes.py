"""A driver that is killed leaves nothing that the next one does not put right."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import topic_files
from sync_checks import assert_equal, job_of, synced, written
from tidewire.spark.snapshot import snapshot
from tidewire.spark.sync import Point
from tidewire.spark.work import Work

TOPIC, NAME = "seed11", "simple-json.faults"
KILLER = Path(__file__).parents[1] / "killed_sync.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "count"),
    [(Point.STAGED, 1), (Point.STEP, 9), (Point.APPLIED, 1), (Point.PUBLISHED, 1), (Point.SAVED, 1)],
)
def test_a_killed_driver_changes_nothing(spark: SparkSession, tmp_path: Path, point: Point, count: int) -> None:
    topics = written(tmp_path / "topics", TOPIC, NAME)
    killed = subprocess.run(
        [sys.executable, str(KILLER), str(tmp_path), TOPIC, NAME, point, str(count)],
        cwd=KILLER.parent,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]

    target = tmp_path / "target"
    synced(spark, topics, target, job_of(TOPIC, NAME, tmp_path))

    assert_equal(spark, target, topic_files.expected(TOPIC)["end"])
    found = snapshot(spark, str(target))
    assert all(found[name].count() == found[name].distinct().count() for name in found)
    left = {path.name for path in Path(Work.of(target).path("staged")).rglob("*.parquet")}
    assert len(left) <= len(found) * 3  # the rows of the last moment stay at hand; nothing else does
