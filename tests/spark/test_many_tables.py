"""A pass does work in proportion to what changed, and not to how many tables there are."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from growing_topic import JOB, Feed, table
from sync_checks import synced
from tidewire.model import TableName
from tidewire.spark.loop import Job, Loop
from tidewire.spark.snapshot import snapshot
from tidewire.spark.source import FileSource
from tidewire.spark.targets import TARGETS, CommitTag, Field, Target
from tidewire.storage.folder import FolderStorage

TAG = CommitTag("s", 1, 1, "create")


class Counted:
    """A target that counts what it is asked, and how many tables are made at a time."""

    def __init__(self, target: Target) -> None:
        self.calls: Counter[str] = Counter()
        self.most_at_once = 0
        self._target = target
        self._making = 0
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            self.calls[name] += 1
        return getattr(self._target, name)

    def create(self, name: TableName, fields: Any, tag: CommitTag, **more: Any) -> str:
        """Make a table, and note how many are being made."""
        with self._lock:
            self._making += 1
            self.most_at_once = max(self.most_at_once, self._making)
        try:
            return self._target.create(name, fields, tag, **more)
        finally:
            with self._lock:
                self._making -= 1


@contextmanager
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """The bytes of documents that are written, by their folders."""
    sizes: Counter[str] = Counter()
    put, put_if_absent = FolderStorage.put, FolderStorage.put_if_absent

    def counting(self: FolderStorage, name: str, data: bytes) -> None:
        sizes[name.partition("/")[0].partition("-")[0]] += len(data)
        put(self, name, data)

    def counting_if_absent(self: FolderStorage, name: str, data: bytes) -> bool:
        sizes[name.partition("/")[0].partition("-")[0]] += len(data)
        return put_if_absent(self, name, data)

    with monkeypatch.context() as patch:
        patch.setattr(FolderStorage, "put", counting)
        patch.setattr(FolderStorage, "put_if_absent", counting_if_absent)
        yield sizes


def one_of(count: int, spark: SparkSession, folder: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a pass costs that changes one of so many tables: calls, and bytes by folder."""
    feed = Feed(folder / "topics", [table(number) for number in range(count)])
    feed.create()
    feed.put(range(5))
    target = folder / "lake"
    synced(spark, feed.topics, target, job)
    for number in range(2):
        feed.put(range(number, number + 5), "again")
        counted = Counted(TARGETS[job.format](spark, str(target)))
        with written(monkeypatch) as sizes:
            Loop(spark, FileSource(feed.topics), counted, job).run(once=True)
    rows = {row["id"]: row["c1"] for row in snapshot(spark, str(target))["shop.t000"].collect()}
    assert rows == feed.rows[feed.tables[0].name]
    assert len(snapshot(spark, str(target))) == count
    return counted.calls, sizes


@pytest.mark.slow
@pytest.mark.parametrize("format_", TARGETS)
def test_a_pass_that_changes_one_table_costs_the_same_among_many(
    spark: SparkSession, tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = replace(JOB, format=format_)

    few_calls, few = one_of(2, spark, tmp_path / "few", job, monkeypatch)
    many_calls, many = one_of(4, spark, tmp_path / "many", job, monkeypatch)

    assert many_calls == few_calls
    assert many.keys() == few.keys()
    assert {"plans", "published"} <= few.keys()
    for folder in few:
        assert many[folder] <= few[folder] + 400, folder  # a few dozen bytes for each table there is


@pytest.mark.slow
def test_tables_in_topics_of_their_own_come_out_right_a_few_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    tables = [table(number) for number in range(12)]
    feed = Feed(tmp_path / "topics", tables, topic_of=lambda table: f"of-{table.name.table}")
    feed.create()
    for number in range(0, 12, 3):
        feed.put(range(number + 1), "x", into=number)
    target, job = tmp_path / "lake", replace(JOB, parallel=3)
    counted = Counted(TARGETS["iceberg"](spark, str(target)))

    Loop(spark, FileSource(feed.topics), counted, job).run(once=True)

    found = snapshot(spark, str(target))
    assert {name: found[name].count() for name in found} == {str(name): len(rows) for name, rows in feed.rows.items()}
    assert 1 < counted.most_at_once <= 3


def test_a_catalogue_of_many_tables_is_read_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, name = TARGETS["delta"](spark, str(tmp_path)), TableName("shop", "t")
    target.create(name, [Field("id", "bigint")], TAG)
    reads: Counter[str] = Counter()
    read = FolderStorage.read

    def counting(self: FolderStorage, document: str, **more: Any) -> bytes | None:
        reads[document] += 1
        return read(self, document, **more)

    monkeypatch.setattr(FolderStorage, "read", counting)
    for _ in range(5):
        assert target.exists(name)
        target.relation(name)
    assert reads.total() <= 1

    TARGETS["delta"](spark, str(tmp_path)).drop(name, TAG)
    assert not target.exists(name)
