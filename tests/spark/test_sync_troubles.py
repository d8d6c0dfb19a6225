"""Bad messages, replays, other owners and other readers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

import topic_files
from sync_checks import assert_equal, job_of, put, synced, written
from tidewire.codec import Options
from tidewire.errors import SyncError, SyncStopped
from tidewire.model import Position
from tidewire.spark.sync import Job
from tidewire.spark.targets import IcebergTarget
from tidewire.sync.state import OnBad
from tidewire.sync.steps import REJECTS
from tidewire.topic.files import FileTopics
from tidewire.workload import Delivery, Habits, Production, Workload, expectation, produce

OPTIONS = {"enable-tidb-extension": "true"}
JOB = Job("canal-json", OPTIONS)


def written_files(target: Path) -> dict[Path, int]:
    """All files, and when they were written; the lock is taken and left, and says nothing."""
    found = (path for path in target.rglob("*") if path.is_file() and path.name != "lock")
    return {path: path.stat().st_mtime_ns for path in found}


def with_garbage() -> Production:
    """A small workload, with garbage of every kind among its messages."""
    workload = Workload(5, transactions=60, tables=2, habits=Habits())
    return produce(workload, Delivery("canal-json", Options.parse(OPTIONS)), ["garbage"])


@pytest.mark.slow
def test_bad_messages_are_set_aside_and_hold_until_they_are_skipped(spark: SparkSession, tmp_path: Path) -> None:
    production = with_garbage()
    topics, bad = put(production, tmp_path / "topics")
    target = tmp_path / "target"
    assert len(set(bad.values())) >= 10
    with pytest.raises(SyncStopped, match="cannot be read"):
        synced(spark, topics, tmp_path / "stopped", replace(JOB, on_bad=OnBad.STOP))

    held = synced(spark, topics, target, JOB)

    assert {hold.at for hold in held.holds} <= bad.keys()
    assert held.applied < production.marks[-1]
    rejects = IcebergTarget(spark, target).read(REJECTS).collect()
    found = {Position(row.topic, row.partition, row.offset): row for row in rejects}
    assert found.keys() == bad.keys()
    assert len(rejects) == len(bad)
    for at, sent in production.placed():
        if at in bad:
            key, value = found[at].key, found[at].value
            assert (key and bytes(key), value if value is None else bytes(value)) == (
                sent.message.key,
                sent.message.value,
            )
            assert found[at].reason

    skipped = synced(spark, topics, target, replace(JOB, on_bad=OnBad.SKIP))

    assert not skipped.holds
    assert_equal(spark, target, expectation(production, OPTIONS, ["garbage"])["end"])


@pytest.mark.slow
def test_a_replay_and_a_second_run_change_nothing(spark: SparkSession, tmp_path: Path) -> None:
    production = produce(Workload(7, transactions=40, tables=2), Delivery("open-protocol", Options()))
    topics, _ = put(production, tmp_path / "topics")
    target, job = tmp_path / "target", Job("open-protocol")
    end = expectation(production, {}, [])["end"]

    first = synced(spark, topics, target, job)
    files = written_files(target)
    second = synced(spark, topics, target, job)
    assert second == first
    assert written_files(target) == files

    with topics.appending() as appending:
        for at, sent in production.placed(topics.ends()):
            appending.add(at, sent.message)
    third = synced(spark, topics, target, job)

    assert third.applied == first.applied
    assert third.tables == first.tables
    assert_equal(spark, target, end)


@pytest.mark.slow
def test_a_target_has_one_owner_and_other_engines_read_it(spark: SparkSession, tmp_path: Path) -> None:
    topic, name = "seed23", "canal-json"
    moment = topic_files.expected(topic)["watermarks"][8]
    topics, target = written(tmp_path / "topics", topic, name), tmp_path / "target"
    job = job_of(topic, name, tmp_path, until=moment["ts"])
    synced(spark, topics, target, job)

    with pytest.raises(SyncError, match="belongs to another sync: its mode is mirror, not scd2"):
        synced(spark, topics, target, job_of(topic, name, tmp_path, mode="scd2"))
    with pytest.raises(SyncError, match="belongs to another sync: its source"):
        synced(spark, FileTopics(tmp_path), target, job)

    place = IcebergTarget(spark, target)
    catalog = SqlCatalog(
        place.catalog, uri=f"sqlite:///{target / 'catalog.db'}", warehouse=str(target), init_catalog_tables="false"
    )
    for table, wanted in moment["tables"].items():
        rows = catalog.load_table(tuple(table.split("."))).scan().to_arrow()
        assert rows.column_names == wanted["columns"]
        assert rows.num_rows == len(wanted["rows"])
        keys = [tuple(str(row[column]) for column in wanted["key"]) for row in rows.to_pylist()]
        places = [wanted["columns"].index(column) for column in wanted["key"]]
        assert sorted(keys) == sorted(tuple(row[number] for number in places) for row in wanted["rows"])
