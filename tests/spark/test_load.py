"""Dumps become tables, and their topics continue them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import topic_files
from dump_files import KINDS, ODD_DIALECT, SEED11_TS, unpack
from sync_checks import assert_equal, job_of, synced, written
from tidewire.load.dialect import Dialect
from tidewire.load.dumpling import read_dump
from tidewire.spark.apply import Mode
from tidewire.spark.job import Job
from tidewire.spark.load.run import Loaded, LoadJob, load
from tidewire.spark.targets import open_target
from tidewire.storage import open_storage

CASES = [
    ("csv", "canal-json.faults", "iceberg", Mode.MIRROR),
    ("csv-odd", "open-protocol", "iceberg", Mode.MIRROR),
    ("sql-chunks", "simple-json.faults", "iceberg", Mode.MIRROR),
    ("parquet", "simple-avro", "delta", Mode.MIRROR),
    ("csv-gzip", "canal-json", "iceberg", Mode.SCD2),
]


def wanted(folder: Path, kind: str, **settings: int) -> LoadJob:
    storage = open_storage(folder / kind)
    dump = read_dump(storage)
    assert dump.ts is not None
    dialect = Dialect.parse(ODD_DIALECT) if kind == "csv-odd" else Dialect()
    return LoadJob(storage, dump.tables, dump.ts, dialect, **settings)


def loaded(spark: SparkSession, target: Path, job: Job, of: LoadJob) -> Loaded:
    return load(spark, open_target(spark, str(target), job.format), replace(job, protocol=""), of)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "format_", "mode"), CASES)
def test_a_dump_and_its_topic_equal_the_upstream(
    spark: SparkSession, tmp_path: Path, kind: str, name: str, format_: str, mode: Mode
) -> None:
    assert kind in KINDS
    recorded, target = topic_files.expected("seed11"), tmp_path / "target"
    topics = written(tmp_path / "topics", "seed11", name)
    job = job_of("seed11", name, tmp_path, format=format_, mode=mode)
    moments = {moment["ts"]: moment for moment in recorded["watermarks"]}
    later = [moment for ts, moment in moments.items() if ts > SEED11_TS]

    result = loaded(spark, target, job, wanted(unpack("seed11", tmp_path), kind, chunk_bytes=2000))

    assert (sum(result.rows.values()), result.rejected, result.holds) == (126, 0, ())
    assert_equal(spark, target, moments[SEED11_TS])
    state = synced(spark, topics, target, replace(job, until=later[2]["ts"]))
    assert state.holds == ()
    assert_equal(spark, target, later[2])
    if format_ == "iceberg":
        synced(spark, topics, target, job)
        assert_equal(spark, target, recorded["end"])
