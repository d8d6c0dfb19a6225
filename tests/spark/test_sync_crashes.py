"""A driver that is killed leaves nothing that the next one does not put right.

Real processes are killed here, where tables are half done; ``test_ledger_windows`` has every point, and
``integration/test_kafka_faults`` kills syncs from Kafka.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from killed_sync import JOB
from sync_checks import assert_equal, put, synced
from tidewire.codec import Options
from tidewire.spark.ledger import ledger_of
from tidewire.spark.loop import Point
from tidewire.spark.snapshot import snapshot
from tidewire.workload import Delivery, Habits, Workload, expectation, produce

KILLER = Path(__file__).parents[1] / "killed_sync.py"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "count", "what", "format_"),
    [
        (Point.STEP, 3, "python", "iceberg"),
        (Point.STEP, 2, "java", "iceberg"),
        (Point.APPLIED, 1, "both", "iceberg"),
        (Point.STEP, 5, "both", "delta"),
        pytest.param(Point.STEP, 3, "java", "delta", marks=pytest.mark.matrix),
        pytest.param(Point.STEP, 4, "python", "delta", marks=pytest.mark.matrix),
        pytest.param(Point.APPLIED, 1, "both", "delta", marks=pytest.mark.matrix),
    ],
)
def test_a_killed_driver_changes_nothing(
    spark: SparkSession, tmp_path: Path, point: Point, count: int, what: str, format_: str
) -> None:
    workload = Workload(11, transactions=8, tables=2, habits=Habits(statements=2))
    production = produce(workload, Delivery("open-protocol", Options()), ["restart"])
    topics, _ = put(production, tmp_path / "topics")
    killed = subprocess.run(
        [sys.executable, str(KILLER), str(tmp_path), point, str(count), what, format_],
        cwd=KILLER.parent,
        capture_output=True,
        check=False,
    )
    assert killed.returncode != 0, killed.stderr.decode()[-2000:]

    target = tmp_path / "target"
    state = synced(spark, topics, target, replace(JOB, format=format_))

    assert_equal(spark, target, expectation(production, {}, [])["end"])
    found = snapshot(spark, str(target))
    assert all(found[name].count() == found[name].distinct().count() for name in found)
    storage = ledger_of(str(target))
    left = {storage.path(entry.name) for entry in storage.list("staged", recursive=True)}
    assert {each.file.path for each in state.pending} <= left
