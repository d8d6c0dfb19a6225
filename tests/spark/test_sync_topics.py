"""Recorded topics become the tables their SQL made, at every recorded moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import topic_files
from sync_checks import assert_equal, assert_others_read, job_of, synced, written
from tidewire.spark.apply import Mode

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


@pytest.mark.slow
@pytest.mark.parametrize(("topic", "name", "format_", "mode"), CASES)
def test_tables_equal_the_upstream(
    spark: SparkSession, tmp_path: Path, topic: str, name: str, format_: str, mode: Mode
) -> None:
    recorded, floats = topic_files.expected(topic), not name.startswith("craft")
    moments = recorded["watermarks"]
    stops = [moments[len(moments) // 2]] if format_ == "iceberg" else []
    topics = written(tmp_path / "topics", topic, name)
    for moment in stops:
        job = job_of(topic, name, tmp_path, format=format_, mode=mode, until=moment["ts"])
        state = synced(spark, topics, tmp_path / "target", job)
        assert state.applied == moment["ts"]
        assert_equal(spark, tmp_path / "target", moment, floats=floats)
    synced(spark, topics, tmp_path / "target", job_of(topic, name, tmp_path, format=format_, mode=mode))
    assert_equal(spark, tmp_path / "target", recorded["end"], floats=floats)
    if mode is Mode.MIRROR:
        assert assert_others_read(spark, tmp_path / "target", format_, recorded["end"], floats=floats) >= 3
    for moment in stops:
        assert_equal(spark, tmp_path / "target", moment, moment["ts"], floats=floats)
