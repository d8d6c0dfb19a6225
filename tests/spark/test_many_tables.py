"""A batch does work in proportion to what changed, and not to how many tables there are."""

from __future__ import annotations

import json
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
from tidewire.spark.apply import Mode
from tidewire.spark.published import Published, PublishedTable, documents, forget, newest, publish, versions
from tidewire.spark.snapshot import snapshot
from tidewire.spark.source import FileSource
from tidewire.spark.sync import Job, Sync
from tidewire.spark.targets import TARGETS, Field, Target
from tidewire.spark.work import Work


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

    def create(self, name: TableName, fields: Any, *rest: Any) -> None:
        """Make a table, and note how many are being made."""
        with self._lock:
            self._making += 1
            self.most_at_once = max(self.most_at_once, self._making)
        try:
            self._target.create(name, fields, *rest)
        finally:
            with self._lock:
                self._making -= 1


@contextmanager
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """The bytes of documents that are written, by their folders."""
    sizes: Counter[str] = Counter()
    write = Work.write

    def counting(self: Work, name: str, document: Any) -> None:
        sizes[name.partition("/")[0]] += len(json.dumps(document))
        write(self, name, document)

    with monkeypatch.context() as patch:
        patch.setattr(Work, "write", counting)
        yield sizes


def one_of(count: int, spark: SparkSession, folder: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a batch costs that changes one of so many tables: calls, and bytes by folder."""
    feed = Feed(folder / "topics", [table(number) for number in range(count)])
    feed.create()
    feed.put(range(5))
    target = folder / "lake"
    synced(spark, feed.topics, target, job)
    for number in range(2):
        feed.put(range(number, number + 5), "again")
        counted = Counted(TARGETS[job.format](spark, str(target)))
        with written(monkeypatch) as sizes:
            Sync(spark, FileSource(feed.topics), counted, Work.of(target), job).run(once=True)
    rows = {row["id"]: row["c1"] for row in snapshot(spark, str(target))["shop.t000"].collect()}
    assert rows == feed.rows[feed.tables[0].name]
    assert len(snapshot(spark, str(target))) == count
    return counted.calls, sizes


@pytest.mark.slow
@pytest.mark.parametrize("format_", TARGETS)
def test_a_batch_that_changes_one_table_costs_the_same_among_many(
    spark: SparkSession, tmp_path: Path, format_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = replace(JOB, format=format_)

    few_calls, few = one_of(2, spark, tmp_path / "few", job, monkeypatch)
    many_calls, many = one_of(4, spark, tmp_path / "many", job, monkeypatch)

    assert many_calls == few_calls
    assert many.keys() == few.keys()
    for folder in ("state", "published", "plans", "steps"):
        assert many[folder] <= few[folder] + 100, folder


@pytest.mark.slow
def test_tables_in_topics_of_their_own_come_out_right_a_few_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    tables = [table(number) for number in range(12)]
    feed = Feed(tmp_path / "topics", tables, topic_of=lambda table: f"of-{table.name.table}")
    feed.create()
    for number in range(0, 12, 3):
        feed.put(range(number + 1), "x", into=number)
    target, job = tmp_path / "lake", replace(JOB, parallel=3)
    counted = Counted(TARGETS["iceberg"](spark, str(target)))

    Sync(spark, FileSource(feed.topics), counted, Work.of(target), job).run(once=True)

    found = snapshot(spark, str(target))
    assert {name: found[name].count() for name in found} == {str(name): len(rows) for name, rows in feed.rows.items()}
    assert 1 < counted.most_at_once <= 3


def test_a_catalogue_of_many_tables_is_read_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, name = TARGETS["delta"](spark, str(tmp_path)), TableName("shop", "t")
    target.create(name, [Field("id", "bigint")])
    reads: Counter[str] = Counter()
    read = Work.read

    def counting(self: Work, document: str) -> Any:
        reads[document] += 1
        return read(self, document)

    monkeypatch.setattr(Work, "read", counting)
    for _ in range(5):
        assert target.exists(name)
        target.relation(name)
    assert reads["catalog.json"] <= 1

    TARGETS["delta"](spark, str(tmp_path)).drop(name)
    assert not target.exists(name)


# Publications


def published(sequence: int, ts: int | None, versions_: dict[int, str]) -> Published:
    tables = (PublishedTable(table(number), version, Mode.MIRROR) for number, version in versions_.items())
    return Published(sequence, ts, {each.schema.name: each for each in tables})


def test_a_publication_tells_what_changed_and_gives_all_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work, tables = Work(tmp_path), dict.fromkeys(range(30), "v0")
    before, told = None, []
    for sequence in range(1, 40):
        tables = {**tables, sequence % 7: f"v{sequence}"}
        if sequence == 20:
            del tables[25]
        with written(monkeypatch) as sizes:
            before = publish(work, published(sequence, sequence * 10, tables), before)
        told.append(sizes["published"])
        assert newest(work) == before
        assert newest(work, sequence * 10 + 5) == before

    whole = max(told)
    assert sum(told) < len(told) * whole / 3
    assert newest(work, 9) is None
    middle = newest(work, 155)
    assert middle is not None
    assert (middle.sequence, len(middle.tables), len(newest(work).tables)) == (15, 30, 29)  # type: ignore[union-attr]


def test_versions_of_moments_that_stay_are_known_and_others_are_forgotten(tmp_path: Path) -> None:
    work = Work(tmp_path)
    before = None
    for sequence, tables in enumerate(({0: "a1", 1: "b1"}, {0: "a2", 1: "b1"}, {0: "a3"}, {0: "a3", 2: "c1"}), 1):
        before = publish(work, published(sequence, sequence, tables), before)
    names = documents(work)

    assert versions(work, names) == {"a1", "b1", "a2", "a3", "c1"}
    assert versions(work, names[1:3]) == {"a2", "b1", "a3"}
    forget(work, names[:3], names[3:])
    assert documents(work) == names[3:]
    assert newest(work) == before
    assert newest(work, 3) is None
    assert len(work.names("published/tables")) <= 2
