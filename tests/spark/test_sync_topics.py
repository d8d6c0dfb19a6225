"""Recorded topics become the tables their SQL made, at every recorded moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import topic_files
from sync_checks import assert_equal, assert_others_read, job_of, synced, written
from tidewire.spark.apply import Mode
from tidewire.spark.targets import open_target
from tidewire.sync.config import read_config

CASES = [
    ("seed11", "canal-json.faults", "iceberg", Mode.MIRROR),
    ("seed11", "open-protocol.faults", "iceberg", Mode.MIRROR),
    ("seed23", "simple-json.faults", "iceberg", Mode.MIRROR),
    ("seed23-classic", "simple-avro.faults", "iceberg", Mode.MIRROR),
    ("seed23-classic", "craft.faults", "iceberg", Mode.MIRROR),
    ("seed11-classic", "canal-json", "delta", Mode.MIRROR),
    ("seed23", "canal-json", "iceberg", Mode.SCD2),
    ("seed11-classic", "open-protocol", "iceberg", Mode.HISTORY),
]


PARTITIONED = """
[[tables]]
match = ["test.order_items*"]
partition = ["bucket(3, order_id)", "truncate(2, line_no)"]
sort = ["line_no"]

[[tables]]
match = ["test.sessions"]
partition = ["bucket(3, token)"]

[[tables]]
match = ["*.*"]
partition = ["bucket(3, id)"]
"""


@pytest.mark.slow
def test_partitioned_tables_equal_the_upstream(spark: SparkSession, tmp_path: Path) -> None:
    topic, name = "seed11", "canal-json.faults"
    recorded, rules = topic_files.expected(topic), read_config(PARTITIONED, {}, []).rules
    topics, target = written(tmp_path / "topics", topic, name), tmp_path / "target"
    middle = recorded["watermarks"][len(recorded["watermarks"]) // 2]
    job = job_of(topic, name, tmp_path, rules=rules, until=middle["ts"])

    assert synced(spark, topics, target, job).applied == middle["ts"]
    assert_equal(spark, target, middle)
    assert assert_others_read(spark, target, "iceberg", middle) >= 3
    state = synced(spark, topics, target, replace(job, until=None))

    assert not state.holds
    assert_equal(spark, target, recorded["end"])
    assert_equal(spark, target, middle, middle["ts"])
    place = open_target(spark, str(target), "iceberg")
    assert all(place.partition_columns(each) for each in place.names() if each.schema == "test")


@pytest.mark.slow
@pytest.mark.parametrize(("topic", "name", "format_", "mode"), CASES)
def test_tables_equal_the_upstream(
    spark: SparkSession, tmp_path: Path, topic: str, name: str, format_: str, mode: Mode
) -> None:
    recorded, floats = topic_files.expected(topic), not name.startswith("craft")
    topics, target = written(tmp_path / "topics", topic, name), tmp_path / "target"
    middle = recorded["watermarks"][len(recorded["watermarks"]) // 2]
    job = job_of(topic, name, tmp_path, format=format_, mode=mode, until=middle["ts"])

    state = synced(spark, topics, target, job)

    assert state.applied == middle["ts"]
    assert_equal(spark, target, middle, floats=floats)
    if mode is Mode.MIRROR:
        assert assert_others_read(spark, target, format_, middle, floats=floats) >= 3
    if format_ == "delta":
        return  # The rest takes minutes there, and ``make matrix`` has it.

    synced(spark, topics, target, replace(job, until=None))

    assert_equal(spark, target, recorded["end"], floats=floats)
    assert_equal(spark, target, middle, middle["ts"], floats=floats)
