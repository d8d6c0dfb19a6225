"""A driver that is killed leaves nothing that the next one does not put right.

Here it is killed where tables are half done; ``integration/test_kafka_faults`` kills it at every point.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from killed_sync import JOB
from sync_checks import assert_equal, put, synced
from tidewire.codec import Options
from tidewire.spark.snapshot import snapshot
from tidewire.spark.sync import Point
from tidewire.spark.work import Work
from tidewire.workload import Delivery, Habits, Workload, expectation, produce

KILLER = Path(__file__).parents[1] / "killed_sync.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "count"),
    [(Point.STEP, 3), (Point.APPLIED, 1), (Point.PUBLISHED, 1)],
)
def test_a_killed_driver_changes_nothing(spark: SparkSession, tmp_path: Path, point: Point, count: int) -> None:
    workload = Workload(11, transactions=8, tables=2, habits=Habits(statements=0))
    production = produce(workload, Delivery("open-protocol", Options()), ["restart"])
    topics, _ = put(production, tmp_path / "topics")
    killed = subprocess.run(
        [sys.executable, str(KILLER), str(tmp_path), point, str(count)],
        cwd=KILLER.parent,
        capture_output=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()[-2000:]

    target = tmp_path / "target"
    synced(spark, topics, target, JOB)

    assert_equal(spark, target, expectation(production, {}, [])["end"])
    found = snapshot(spark, str(target))
    assert all(found[name].count() == found[name].distinct().count() for name in found)
    left = list(Path(Work.of(target).path("staged")).rglob("*.parquet"))
    assert len(left) <= len(found) * 3  # the rows of the last moment stay at hand; nothing else does
