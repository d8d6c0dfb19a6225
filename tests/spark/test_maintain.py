"""Maintenance makes tables small, and nothing else: rows, steps, publications and running syncs are as before."""

from __future__ import annotations

import os
import tarfile
import time
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from growing_topic import JOB, Feed, Reports, table
from spark.targets.rows import put
from sync_checks import synced
from tidewire.errors import SyncError
from tidewire.model import Position, TableName
from tidewire.model.tso import LOGICAL_BITS
from tidewire.spark.apply import Mode
from tidewire.spark.apply.compact import compact
from tidewire.spark.ledger import KeptPlan, Ledger, Request, ledger_of, newest_plan, read_plans, required_owner
from tidewire.spark.loop import Loop
from tidewire.spark.maintain import (
    Every,
    Maintained,
    MaintenanceSettings,
    TableUpkeep,
    Upkeep,
    maintain,
    upkeep_line,
)
from tidewire.spark.maintain.run import Maintenance
from tidewire.spark.publications import Publications
from tidewire.spark.report import Point, Silent
from tidewire.spark.snapshot import snapshot
from tidewire.spark.source import FileSource
from tidewire.spark.targets import TARGETS, CommitTag, Field, IcebergTarget, Size, Target, open_target
from tidewire.spark.targets.iceberg_catalog import IcebergTable
from tidewire.storage import Storage, open_storage
from tidewire.sync.documents import encode
from tidewire.sync.state import Hold, State

NOW = MaintenanceSettings(older_than=timedelta(0), keep=1)
NAME = TableName("sh op", "or`ders")
HOUR = 3_600_000
DAYS_AGO = 3 * 86400


# Tables


@pytest.fixture(scope="module", params=TARGETS)
def format_(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def tag(step: str) -> CommitTag:
    return CommitTag("s", 1, 1, step)


def merged(target: Target, name: TableName, batch: int) -> None:
    """A step that adds fifty rows and changes fifty."""
    keys = [number + batch * 50 for number in range(100)]
    put(target, name, tag(f"step {batch}"), {"id": keys, "s": [f"b{batch}"] * 100})


def contents(target: Target, name: TableName, version: str | None = None) -> list[tuple[int, str]]:
    return sorted(tuple(row) for row in target.read(name, version).collect())


def data_files(folder: Path) -> list[Path]:
    return [path for path in (folder / "data").rglob("*.parquet") if "_delta_log" not in path.parts]


def aged(*paths: Path | str) -> None:
    """Let files be some days old."""
    for path in paths:
        os.utime(path, (time.time() - DAYS_AGO, time.time() - DAYS_AGO))


def iceberg_table(target: Target, name: TableName) -> IcebergTable:
    assert isinstance(target, IcebergTarget)
    found = target._catalog.table(name)
    assert found is not None
    return found


def tags(target: Target, name: TableName) -> int:
    """How many versions of a table have a tag of maintenance."""
    return sum(ref.startswith("tidewire-") for ref in iceberg_table(target, name).metadata()["refs"])


def expired_by_another_program(target: Target, name: TableName) -> None:
    """Expire all snapshots but those that have a name, as any program may."""
    iceberg_table(target, name).java.expireSnapshots().expireOlderThan(2**62).retainLast(1).commit()


def swept(target: Target, folder: Path, *names: TableName) -> None:
    """Delete files that belong to no version, as if they were old."""
    aged(*data_files(folder))
    for name in names:
        target.sweep(name, datetime.now(timezone.utc) - timedelta(days=2))


@pytest.mark.slow
def test_files_and_versions_go_and_rows_steps_and_named_versions_stay(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    folder = tmp_path / "a (lake)"
    target = TARGETS[format_](spark, str(folder))
    target.create(NAME, [Field("id", "bigint"), Field("s", "string")], tag("create"))
    for batch in range(5):
        merged(target, NAME, batch)
    named, rows = target.version(NAME), contents(target, NAME)
    merged(target, NAME, 5)
    wanted, before, files = contents(target, NAME), target.size(NAME), data_files(folder)

    compact(target, NAME, tag("maintenance"))
    for _ in range(2):
        target.expire(NAME, datetime.now(timezone.utc), {named: None}, tag("maintenance"))

    after = target.size(NAME)
    assert (before.files > 4, after.files, after.deletes) == (True, 1, 0)
    assert after.bytes < before.bytes
    assert contents(target, NAME) == wanted
    assert contents(target, NAME, named) == rows
    assert target.find(NAME, "step 5") is not None
    assert target.find(NAME, "step 6") is None

    compact(target, NAME, tag("maintenance"))
    assert target.size(NAME) == after  # a table in order is left alone
    target.expire(NAME, datetime.now(timezone.utc), {}, tag("maintenance"))
    assert contents(target, NAME) == wanted
    assert target.find(NAME, "step 5") is not None
    assert len(files) > 1
    swept(target, folder, NAME)
    assert len(data_files(folder)) == 1


@pytest.mark.slow
def test_files_that_a_writer_left_are_swept_once_they_are_old(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    target = TARGETS[format_](spark, str(tmp_path / "lake"))
    target.create(NAME, [Field("id", "bigint"), Field("s", "string")], tag("create"))
    merged(target, NAME, 1)
    used = data_files(tmp_path / "lake")
    old, new = used[0].with_name("old.parquet"), used[0].with_name("new.parquet")
    two_days_ago = time.time() - 2 * 86400
    for path in (old, new):
        path.write_bytes(b"half a file")
    for path in (old, *used, *(tmp_path / "lake").rglob(f"_delta_log/{0:020}.json")):
        os.utime(path, (two_days_ago, two_days_ago))

    yesterday = datetime.now(timezone.utc) - timedelta(days=1)
    target.expire(NAME, yesterday)
    target.sweep(NAME, yesterday)

    assert sorted(data_files(tmp_path / "lake")) == sorted([*used, new])
    assert len(contents(target, NAME)) == 100


@pytest.mark.slow
def test_a_dropped_table_stays_while_a_version_of_it_is_named(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    target = TARGETS[format_](spark, str(tmp_path / "lake"))
    target.create(NAME, [Field("id", "bigint"), Field("s", "string")], tag("create"))
    merged(target, NAME, 1)
    version, later = target.version(NAME), datetime.now(timezone.utc) + timedelta(minutes=1)
    target.drop(NAME, tag("drop"))

    assert target.purge(later, {version}) == 0
    assert len(contents(target, NAME, version)) == 100
    assert target.purge(later, ()) == 1
    assert data_files(tmp_path / "lake") == []


# A target


class Crash(Exception):
    """The end of the process."""


class Crashing(Silent):
    """An observer that ends the sync at a point."""

    def __init__(self, point: Point) -> None:
        self._point = point

    def reached(self, point: Point) -> None:
        """Crash, if this is where."""
        if point is self._point:
            raise Crash


def feed(folder: Path) -> Feed:
    """A topic with one table and some rows."""
    made = Feed(folder, [table(0)])
    made.create()
    made.put(range(20), "first")
    return made


def rows_of(spark: SparkSession, target: Path, at: int | None = None) -> dict[int, str]:
    return {row["id"]: row["c1"] for row in snapshot(spark, str(target), at)["shop.t000"].collect()}


def alone(place: Target, target: Path, settings: MaintenanceSettings = NOW) -> Maintained:
    """A round for a target that no sync drives, as ``tidewire maintain`` does it."""
    storage = ledger_of(str(target))
    ledger = Ledger.open(storage, required_owner(storage))
    try:
        tag = CommitTag(ledger.owner.id, ledger.epoch.number, ledger.sequence, "maintenance")
        return maintain(place, storage, settings, tag, ledger.epoch.look)
    finally:
        ledger.close()


@pytest.mark.slow
def test_maintenance_between_a_commit_and_its_publication_is_no_reason_to_do_the_step_again(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    """A history shows what was done twice."""
    target, job = tmp_path / "lake", replace(JOB, format=format_, mode=Mode.HISTORY)
    made = feed(tmp_path / "topics")
    for number in range(4):
        made.put(range(number), f"{number}")
        synced(spark, made.topics, target, job)
    made.put(range(5, 30), "again")
    with pytest.raises(Crash):
        synced(spark, made.topics, target, job, Crashing(Point.APPLIED))
    place = open_target(spark, str(target), format_)

    rounds = [alone(place, target) for _ in range(3)]
    state = synced(spark, made.topics, target, job)

    assert [done.problems for done in rounds] == [()] * 3
    assert rounds[0].tables[0].after.files < rounds[0].tables[0].before.files
    assert state.applied == made.ts
    (name,) = place.names()
    assert rows_of(spark, target) == made.rows[name]
    assert snapshot(spark, str(target)).changes(str(name)).count() == 51


@pytest.mark.slow
def test_publications_that_stay_can_be_read_and_others_are_gone(spark: SparkSession, tmp_path: Path) -> None:
    target, found = tmp_path / "lake", dict[int, dict[int, str]]()
    storage, place = ledger_of(str(target)), open_target(spark, str(target), "iceberg")
    made = Feed(tmp_path / "topics", [table(0)])
    made.create()
    for batch in range(6):
        made.put(range(batch * 10, batch * 10 + 20), f"b{batch}", later=(20 * HOUR) << LOGICAL_BITS)
        state = synced(spark, made.topics, target, JOB)
        found[state.applied] = dict(made.rows[made.tables[0].name])
    left = Path(storage.path("staged", "00000001", "00000099", "left-behind.parquet"))
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(b"")
    aged(left)

    looked = alone(place, target, replace(NOW, dry_run=True))
    assert len(Publications(storage).names()) == 6
    assert left.exists()
    done = alone(place, target, MaintenanceSettings(timedelta(days=3), keep=2))

    assert (looked.publications, looked.kept_publications, looked.leftovers) == (5, 1, 1)
    assert [each.before for each in looked.tables] == [each.after for each in looked.tables]
    assert not left.exists()
    newest = max(found)
    stay = [ts for ts in found if newest - ts < 72 * HOUR << LOGICAL_BITS]
    assert (done.publications, done.kept_publications) == (6 - len(stay), len(stay))
    assert tags(place, made.tables[0].name) == len(stay)
    expired_by_another_program(place, made.tables[0].name)
    for ts in stay:
        assert rows_of(spark, target, ts) == found[ts]
    with pytest.raises(SyncError, match="has no publication that is not after"):
        snapshot(spark, str(target), min(found))
    alone(place, target)
    assert tags(place, made.tables[0].name) == 1
    assert rows_of(spark, target) == made.rows[made.tables[0].name]


@pytest.mark.slow
def test_a_running_sync_does_a_round_that_is_asked_of_it(spark: SparkSession, tmp_path: Path) -> None:
    target, made = tmp_path / "lake", feed(tmp_path / "topics")
    storage = ledger_of(str(target))
    for number in range(4):
        made.put(range(10 * number, 10 * number + 20), f"{number}")
        synced(spark, made.topics, target, JOB)
    storage.put("requests/r", encode(Request("r", "maintain", {"older-than": "0s", "keep": "1"})))
    made.put(range(3), "last")

    synced(spark, made.topics, target, JOB)

    answered = storage.read("answers/r")
    assert answered is not None
    assert storage.list("requests") == []
    (name,) = (each.name for each in made.tables)
    place = open_target(spark, str(target), "iceberg")
    assert place.size(name).files < 4
    assert rows_of(spark, target) == made.rows[name]


@pytest.mark.slow
def test_a_sync_maintains_its_tables_between_passes_and_publishes_them_so(spark: SparkSession, tmp_path: Path) -> None:
    """A quiet table too: its old files can go once no publication names them."""
    made, target = Feed(tmp_path / "topics", [table(0), table(1)]), tmp_path / "lake"
    made.create()
    synced(spark, made.topics, target, JOB)
    for batch in range(6):
        made.put(range(batch, batch + 5), f"b{batch}")
    made.put(range(3), "other", into=1)
    made.mark()
    place, reports = open_target(spark, str(target), "iceberg"), Reports()
    storage, (first, second) = ledger_of(str(target)), (each.name for each in made.tables)

    source = FileSource(made.topics, max_messages=6)
    Loop(spark, source, place, replace(JOB, maintain=Every(passes=7)), reports).run(once=True)

    (line,) = reports.lines
    assert line.startswith(f"maintenance of {first}: files 6 to 1")
    published = Publications(storage).required()
    assert published.tables[first].version == place.version(first)
    assert place.size(first).files == 1
    assert rows_of(spark, target) == made.rows[first]
    assert snapshot(spark, str(target))[str(second)].count() == 3

    alone(place, target)
    swept(place, target, first, second)
    assert len(data_files(target)) == 2
    assert rows_of(spark, target) == made.rows[first]


# Leftovers


def leave(storage: Storage, *names: str) -> list[Path]:
    """Files that some driver left."""
    for name in names:
        storage.put(name, b"")
    return [Path(storage.path(name)) for name in names]


def cleaned(storage: Storage, **settings: timedelta) -> int:
    return Maintenance(Nothing(), storage, MaintenanceSettings(**settings)).clean()  # type: ignore[arg-type]


def test_files_of_another_epoch_are_deleted_by_age_alone(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    names = [f"{kind}/{epoch:08}/00000001/a.parquet" for kind in ("staged", "parked") for epoch in (1, 2)]
    old = leave(storage, *names, "answers/r")
    young = leave(storage, *(name.replace("a.parquet", "b.parquet") for name in names), "answers/s")
    rejects = leave(storage, "rejects/00000001/00000001/a.parquet")
    aged(*old, *rejects)

    assert cleaned(storage) == len(old)

    assert [path.exists() for path in (*old, *young, *rejects)] == [False] * 5 + [True] * 6
    assert cleaned(storage, older_than=timedelta(days=1)) == 1
    assert not rejects[0].exists()


@pytest.mark.slow
def test_files_that_plans_and_held_tables_need_are_spared(spark: SparkSession, tmp_path: Path) -> None:
    target, made = tmp_path / "lake", Feed(tmp_path / "topics", [table(0)], partitions=2)
    storage = ledger_of(str(target))
    made.create()
    made.put(range(10), "torn", stalled={1})
    waiting = synced(spark, made.topics, target, JOB)
    made.put(range(10, 20), "next")
    with pytest.raises(Crash):
        synced(spark, made.topics, target, JOB, Crashing(Point.KEPT))
    plan = newest_plan(storage)
    assert plan is not None
    assert plan.steps
    needed = {file.path for kept in read_plans(storage) if kept.manifest for file in kept.manifest.files}
    needed |= {each.file.path for each in waiting.pending}
    aged(*needed)

    done = alone(open_target(spark, str(target), "iceberg"), target)
    state = synced(spark, made.topics, target, JOB)

    assert done.leftovers == 0
    assert state.applied == made.ts
    assert rows_of(spark, target) == made.rows[made.tables[0].name]


def test_messages_that_hold_a_table_are_kept_as_long_as_they_do(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)
    hold = Hold(1, Position("t", 0, 7), "it cannot be read")
    storage.put("plans/000000000001", encode(KeptPlan(1, 1, "", State("s", holds=(hold,)))))
    (rejects,) = leave(storage, "rejects/00000001/00000001/a.parquet")
    aged(rejects)

    assert cleaned(storage, older_than=timedelta(days=1)) == 0
    storage.put("plans/000000000001", encode(KeptPlan(1, 1, "", State("s"))))
    assert cleaned(storage, older_than=timedelta(days=1)) == 1


def test_the_staged_files_of_a_target_of_0_1_are_spared(tmp_path: Path) -> None:
    """Before the first pass of a newer release, only the state of 0.1 names them."""
    with tarfile.open(Path(__file__).parent / "data" / "target-0.1-delta.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    storage = ledger_of(str(tmp_path / "lake"))
    for path in (tmp_path / "lake" / "_tidewire" / "state").rglob("*.json"):
        path.write_text(path.read_text().replace("/srv/tidewire-0.1/delta", str(tmp_path)))
    staged = [Path(storage.path(entry.name)) for entry in storage.list("staged", recursive=True)]
    aged(*staged)

    assert cleaned(storage) == 0
    assert staged
    assert all(path.exists() for path in staged)


# The schedule


class Nothing:
    """A target without tables, or one that cannot be asked."""

    def __init__(self, *, broken: bool = False) -> None:
        self._broken = broken

    def size(self, name: TableName) -> Size:
        """Nothing, if it can be told."""
        if self._broken:
            raise OSError("the store does not answer\nat all")
        return Size()

    def version(self, name: TableName) -> str:
        """Always the same."""
        return "v@1"

    def compact(self, *_: object) -> None:
        """Nothing to do."""

    def expire(self, *_: object) -> None:
        """Nothing to do."""

    def sweep(self, *_: object) -> int:
        """Nothing to delete."""
        return 0


A, B = TableName("shop", "a"), TableName("shop", "b")


def test_a_table_is_due_after_so_many_plans_that_changed_it_also_over_restarts(tmp_path: Path) -> None:
    storage = open_storage(tmp_path)

    def upkeep() -> Upkeep:
        return Upkeep(Every.parse("3b"), Nothing(), storage)  # type: ignore[arg-type]

    first = upkeep()
    for name in (A, B, A):
        first.changed(name)
    assert first.due() is None
    first.save()
    second = upkeep()
    second.changed(A)
    assert second.due() == A
    second.tend(A)
    assert second.due() is None
    for _ in range(2):
        second.changed(B)
    assert second.due() == B
    second.forget(B)
    assert second.due() is None


def test_a_table_is_due_some_time_after_it_changed_and_the_one_that_waits_longest_comes_first(tmp_path: Path) -> None:
    clock = [1000.0]
    upkeep = Upkeep(Every.parse("1h"), Nothing(), open_storage(tmp_path), clock=lambda: clock[0])  # type: ignore[arg-type]

    upkeep.changed(B)
    clock[0] += 1
    upkeep.changed(A)
    upkeep.changed(B)
    clock[0] += 3598
    assert upkeep.due() is None
    clock[0] += 2
    assert upkeep.due() == B
    upkeep.tend(B)
    assert upkeep.due() == A
    seldom = Upkeep(Every.parse("100b"), Nothing(), open_storage(tmp_path / "seldom"), clock=lambda: clock[0])  # type: ignore[arg-type]
    seldom.changed(A)
    clock[0] += 86_400
    assert seldom.due() == A
    never = Upkeep(Every.parse("never"), Nothing(), open_storage(tmp_path))  # type: ignore[arg-type]
    for _ in range(10_000):
        never.changed(A)
    assert never.due() is None


def test_what_goes_wrong_with_a_table_is_only_told(tmp_path: Path) -> None:
    upkeep = Upkeep(Every.parse("1b"), Nothing(broken=True), open_storage(tmp_path))  # type: ignore[arg-type]

    assert upkeep.tend(A) == TableUpkeep(A, problem="the store does not answer")
    assert upkeep_line(upkeep.tend(A)) == f"maintenance of {A}: the store does not answer"
