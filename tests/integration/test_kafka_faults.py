"""Three brokers, one of which is lost; a topic that grows; a sync that is killed again and again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import topic_files
from integration.kafka import kafka
from integration.kafka_topics import PATIENCE, created, grown, send_lines
from sync_checks import assert_equal
from tidewire.spark.report import Point
from tidewire.spark.snapshot import snapshot

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SCRIPT = Path(__file__).with_name("followed_sync.py")
TOPIC, NAME = "seed23", "simple-avro.faults"
MOMENT = topic_files.expected(TOPIC)["watermarks"][12]
"""Where the topic ends here: every start of Spark costs more than the rest of it would show."""


@contextmanager
def following(root: Path, uri: str) -> Iterator[subprocess.Popen[str]]:
    """A sync in a process of its own that says each point it comes to; it is gone after the block."""
    with (root / "errors").open("a") as errors:
        running = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(root), uri, TOPIC, NAME, str(MOMENT["ts"])],
            env=os.environ
            | {"PYTHONPATH": os.pathsep.join((str(SCRIPT.parents[1]), os.environ.get("PYTHONPATH", "")))},
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    with running:
        try:
            yield running
        finally:
            running.kill()


def heard(running: subprocess.Popen[str], point: Point, count: int) -> bool:
    """Wait until a sync says a point for the n-th time; ``False`` where it ends before."""
    assert running.stdout is not None
    said = (line.strip() == point for line in running.stdout)
    return sum(islice((each for each in said if each), count)) == count


def test_tables_are_right_after_five_kills_a_lost_broker_and_a_new_partition(
    spark: SparkSession, tmp_path: Path
) -> None:
    lines, chance = topic_files.lines_until(TOPIC, NAME, MOMENT["ts"]), random.Random(TOPIC)
    points = [Point.STAGED, Point.KEPT, Point.STEP, Point.APPLIED, Point.PUBLISHED]
    chance.shuffle(points)
    size = len(lines) // (len(points) + 1) + 1
    parts = [lines[begin : begin + size] for begin in range(0, len(lines), size)]
    with kafka(3) as cluster:
        created(cluster, "feed", copies=3)
        uri = f"kafka://{cluster.bootstrap}/feed?max-offsets-per-batch=500"

        for life, point in enumerate(points):
            send_lines(cluster, "feed", parts[life])
            with following(tmp_path, uri) as running:
                if life == 1:
                    cluster.brokers[1].kill()
                assert heard(running, point, 2 if point is Point.STEP else 1), (tmp_path / "errors").read_text()[-3000:]
            assert running.returncode == -signal.SIGKILL
            if life == 1:
                cluster.brokers[1].start()
            if life == 3:
                grown(cluster, "feed", 4)

        cluster.wait()
        send_lines(cluster, "feed", parts[-1])
        last = [line for line in lines if line["partition"] == 0][-1]
        send_lines(cluster, "feed", [{**last, "partition": 3}])  # a watermark, as every partition gets one
        with following(tmp_path, uri) as running:
            running.communicate(timeout=2 * PATIENCE)
        assert running.returncode == 0, (tmp_path / "errors").read_text()[-3000:]

    assert_equal(spark, tmp_path / "target", MOMENT)
    found = snapshot(spark, str(tmp_path / "target"))
    assert all(found[name].count() == found[name].distinct().count() for name in found)
