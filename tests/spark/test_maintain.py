"""Maintenance makes tables small, and nothing else: rows, marks, moments and running syncs are as before."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from growing_topic import JOB, Feed, Reports, table
from sync_checks import synced
from tidewire.errors import OptionError, SyncError
from tidewire.model import TableName
from tidewire.model.tso import LOGICAL_BITS
from tidewire.spark.maintain import Every, Schedule, Settings, maintain, parse_age
from tidewire.spark.maintain.moments import Moment, kept
from tidewire.spark.maintain.turns import turn
from tidewire.spark.published import newest
from tidewire.spark.snapshot import snapshot
from tidewire.spark.source import FileSource
from tidewire.spark.states import newest_state
from tidewire.spark.sync import Point, Report, Sync
from tidewire.spark.targets import TARGETS, Field, Mark, Target, open_target
from tidewire.spark.work import Work

NOW = Settings(older_than=timedelta(0), keep=1)
NAME = TableName("sh op", "or`ders")
HOUR = 3_600_000


# The rule about moments


def moments(*hours: float) -> list[Moment]:
    """Moments so many hours before a common one."""
    return [
        Moment(int(10_000 * HOUR - hour * HOUR) << LOGICAL_BITS, number, f"{number}.json")
        for number, hour in enumerate(sorted(hours, reverse=True))
    ]


def ages(found: list[Moment]) -> list[float]:
    return [10_000 - (moment.ts >> LOGICAL_BITS) / HOUR for moment in found]


def test_of_moments_all_of_the_last_day_stay_then_hourly_then_daily_ones() -> None:
    every_quarter = [quarter / 4 for quarter in range(24 * 4 * 10)]

    stay = ages(kept(moments(*every_quarter), timedelta(days=7)))

    assert sum(age < 24 for age in stay) == 24 * 4
    assert sum(24 <= age < 72 for age in stay) in (48, 49)
    assert sum(72 <= age < 168 for age in stay) in (4, 5)
    assert max(stay) < 168


def test_the_newest_moments_stay_however_old_they_are() -> None:
    assert ages(kept(moments(0, 1, 2, 3), timedelta(0), 2)) == [1, 0]
    without_time = [Moment(0, number, f"{number}.json") for number in range(5)]
    assert kept(without_time, timedelta(days=7), 2) == without_time[-2:]
    assert kept([], timedelta(days=7)) == []


@given(st.sets(st.integers(0, 400)), st.integers(0, 20), st.integers(1, 5))
def test_thinning_again_changes_nothing_and_keeps_what_a_longer_memory_would(
    hours: set[int], days: int, least: int
) -> None:
    stay = kept(moments(*hours), timedelta(days=days), least)

    assert kept(stay, timedelta(days=days), least) == stay
    assert set(stay) <= set(kept(moments(*hours), timedelta(days=days + 1), least))
    assert not hours or stay[-1] == moments(*hours)[-1]


@pytest.mark.parametrize(("text", "hours"), [("7d", 168), ("1d12h", 36), ("90m", 1.5), ("0s", 0)])
def test_ages_are_read_as_people_write_them(text: str, hours: float) -> None:
    assert parse_age(text) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "7", "d", "7 days", "-1d", "1w", "٣d"])
def test_other_texts_are_no_ages(text: str) -> None:
    with pytest.raises(OptionError, match="older-than"):
        parse_age(text)


@pytest.mark.parametrize("text", ["0b", "b", "0s", "sometimes", "1.5h", "100 b"])
def test_a_schedule_is_a_time_or_a_number_of_batches(text: str) -> None:
    assert Every.parse("1h") == Every(seconds=3600)
    assert Every.parse("20b") == Every(batches=20)
    assert Every.parse("never") == Every()
    with pytest.raises(OptionError, match="maintain-every"):
        Every.parse(text)


# Tables


@pytest.fixture(scope="module", params=TARGETS)
def format_(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def merged(target: Target, name: TableName, batch: int) -> None:
    """A batch that adds fifty rows and changes fifty."""
    target.session(Mark("s", batch, 1)).sql(
        f"MERGE INTO {target.relation(name)} t "
        f"USING (SELECT id + {batch * 50} AS id, 'b{batch}' AS s FROM range(100)) c "
        "ON t.id = c.id WHEN MATCHED THEN UPDATE SET s = c.s WHEN NOT MATCHED THEN INSERT (id, s) VALUES (c.id, c.s)"
    )


def contents(target: Target, name: TableName, version: str | None = None) -> list[tuple[int, str]]:
    return sorted(tuple(row) for row in target.read(name, version).collect())


def data_files(folder: Path) -> list[Path]:
    return [path for path in (folder / "data").rglob("*.parquet") if "_delta_log" not in path.parts]


@pytest.mark.slow
def test_files_and_versions_go_and_rows_marks_and_named_versions_stay(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    folder = tmp_path / "a (lake)"
    target = TARGETS[format_](spark, str(folder))
    target.create(NAME, [Field("id", "bigint"), Field("s", "string")])
    for batch in range(5):
        merged(target, NAME, batch)
    named, rows = target.version(NAME), contents(target, NAME)
    merged(target, NAME, 5)
    wanted, before, files = contents(target, NAME), target.size(NAME), data_files(folder)

    target.compact(NAME)
    target.expire(NAME, datetime.now(timezone.utc), {named})
    target.expire(NAME, datetime.now(timezone.utc), {named})

    after = target.size(NAME)
    assert (before.files > 4, after.files, after.deletes) == (True, 1, 0)
    assert after.bytes < before.bytes
    assert contents(target, NAME) == wanted
    assert contents(target, NAME, named) == rows
    assert target.has(NAME, Mark("s", 5, 1))
    assert not target.has(NAME, Mark("s", 5, 2))

    target.compact(NAME)
    assert target.size(NAME) == after  # a table in order is left alone
    target.expire(NAME, datetime.now(timezone.utc))
    assert contents(target, NAME) == wanted
    assert len(data_files(folder)) == 1 < len(files)
    assert target.has(NAME, Mark("s", 5, 1))


@pytest.mark.slow
def test_files_that_a_writer_left_are_swept_once_they_are_old(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    target = TARGETS[format_](spark, str(tmp_path / "lake"))
    target.create(NAME, [Field("id", "bigint"), Field("s", "string")])
    merged(target, NAME, 1)
    used = data_files(tmp_path / "lake")
    old, new = used[0].with_name("old.parquet"), used[0].with_name("new.parquet")
    two_days_ago = time.time() - 2 * 86400
    for path in (old, new):
        path.write_bytes(b"half a file")
    for path in (old, *used):
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
    target.create(NAME, [Field("id", "bigint"), Field("s", "string")])
    merged(target, NAME, 1)
    version, later = target.version(NAME), datetime.now(timezone.utc) + timedelta(minutes=1)
    target.drop(NAME)

    assert target.purge(later, {version}) == 0
    assert len(contents(target, NAME, version)) == 100
    assert target.purge(later, ()) == 1
    assert data_files(tmp_path / "lake") == []


# A target


class Crash(Exception):
    """The end of the process."""


class Crashing:
    """An observer that ends the sync at a point."""

    def __init__(self, point: Point) -> None:
        self._point = point

    def reached(self, point: Point) -> None:
        """Crash, if this is where."""
        if point is self._point:
            raise Crash

    def finished(self, report: Report) -> None:
        """A batch is done."""


def feed(folder: Path) -> Feed:
    """A topic with one table and some rows."""
    made = Feed(folder, [table(0)])
    made.create()
    made.put(range(20), "first")
    return made


def rows_of(spark: SparkSession, target: Path, at: int | None = None) -> dict[int, str]:
    return {row["id"]: row["c1"] for row in snapshot(spark, str(target), at)["shop.t000"].collect()}


@pytest.mark.slow
def test_maintenance_between_a_merge_and_its_state_is_no_reason_to_merge_again(
    spark: SparkSession, tmp_path: Path, format_: str
) -> None:
    target, job = tmp_path / "lake", replace(JOB, format=format_)
    made = feed(tmp_path / "topics")
    synced(spark, made.topics, target, job)
    made.put(range(5, 30), "again")
    with pytest.raises(Crash):
        synced(spark, made.topics, target, job, Crashing(Point.APPLIED))
    place = open_target(spark, str(target), format_)

    done = maintain(place, Work.of(target), NOW)
    (name,) = place.names()
    version = place.version(name)
    state = synced(spark, made.topics, target, job)

    assert not done.problems
    assert state.applied == made.ts
    assert place.version(name) == version
    assert rows_of(spark, target) == made.rows[name]


@pytest.mark.slow
def test_moments_that_stay_can_be_read_and_others_are_gone(spark: SparkSession, tmp_path: Path) -> None:
    target, moments_of = tmp_path / "lake", dict[int, dict[int, str]]()

    made = Feed(tmp_path / "topics", [table(0)])
    made.create()
    for batch in range(6):
        made.put(range(batch * 10, batch * 10 + 20), f"b{batch}", later=(20 * HOUR) << LOGICAL_BITS)
        state = synced(spark, made.topics, target, JOB)
        moments_of[state.applied] = dict(made.rows[made.tables[0].name])
    staged = Path(Work.of(target).path("staged", "0", "left-behind.parquet"))
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(b"")

    looked = maintain(open_target(spark, str(target), "iceberg"), Work.of(target), replace(NOW, dry_run=True))
    assert len(Work.of(target).names("published")) == 6
    assert staged.exists()
    done = maintain(open_target(spark, str(target), "iceberg"), Work.of(target), Settings(timedelta(days=3), keep=2))

    assert (looked.moments, looked.kept_moments) == (5, 1)
    assert [each.before for each in looked.tables] == [each.after for each in looked.tables]
    assert not staged.exists()
    newest = max(moments_of)
    stay = [ts for ts in moments_of if newest - ts < 72 * HOUR << LOGICAL_BITS]
    assert (done.moments, done.kept_moments) == (6 - len(stay), len(stay))
    for ts in stay:
        assert rows_of(spark, target, ts) == moments_of[ts]
    with pytest.raises(SyncError, match="nothing is published"):
        snapshot(spark, str(target), min(moments_of))
    assert rows_of(spark, target) == made.rows[made.tables[0].name]


@pytest.mark.slow
def test_a_sync_and_maintenance_take_turns_and_both_come_to_their_end(spark: SparkSession, tmp_path: Path) -> None:
    target = tmp_path / "lake"
    made = feed(tmp_path / "topics")
    synced(spark, made.topics, target, JOB)
    place = open_target(spark, str(target), "iceberg")
    with ThreadPoolExecutor(1) as pool:
        rounds = pool.submit(lambda: [maintain(place, Work.of(target), NOW) for _ in range(4)])
        while not rounds.done():
            made.put(range(40), f"at {made.ts}")
            synced(spark, made.topics, target, JOB)

    assert [done.problems for done in rounds.result()] == [()] * 4
    assert rows_of(spark, target) == made.rows[made.tables[0].name]
    state = newest_state(Work.of(target))
    assert state is not None
    assert state.applied == made.ts


@pytest.mark.slow
def test_a_sync_maintains_its_tables_between_batches_and_publishes_them_so(spark: SparkSession, tmp_path: Path) -> None:
    made, target = Feed(tmp_path / "topics", [table(0), table(1)]), tmp_path / "lake"
    made.create()
    for batch in range(6):
        made.put(range(batch, batch + 5), f"b{batch}")
    made.put(range(3), "other", into=1)
    place, reports = open_target(spark, str(target), "iceberg"), Reports()

    source = FileSource(made.topics, files_per_batch=1)
    Sync(spark, source, place, Work.of(target), replace(JOB, maintain=Every(batches=7)), reports).run(once=True)

    told = [bool([note for note in report.notes if "maintenance of 2 tables" in note]) for report in reports.all]
    assert told == [False] * 6 + [True, False]
    first, second = (each.name for each in made.tables)
    published = newest(Work.of(target))
    assert published is not None
    assert published.tables[first].version == place.version(first)
    assert place.size(first).files == 1
    assert rows_of(spark, target) == made.rows[first]
    assert snapshot(spark, str(target))[str(second)].count() == 3


def test_two_rounds_at_a_time_are_refused(tmp_path: Path) -> None:
    work = Work(tmp_path)
    with turn(work, "maintaining"), pytest.raises(SyncError, match="in use"), turn(work, "maintaining", wait=0):
        pass
    with turn(work, "maintaining", wait=0):
        pass


class Nothing:
    """A target that has no tables, and one that cannot be asked."""

    def __init__(self, *, broken: bool = False) -> None:
        self.rounds = 0
        self._broken = broken

    def names(self) -> tuple[TableName, ...]:
        """None."""
        self.rounds += 1
        if self._broken:
            raise OSError("the store does not answer\nat all")
        return ()

    def purge(self, before: datetime, keep: object) -> int:
        """Nothing to delete."""
        return 0


def test_a_schedule_counts_from_the_last_round_whoever_did_it(tmp_path: Path) -> None:
    clock, target, work = [1000.0], Nothing(), Work(tmp_path)

    def schedule(text: str) -> Schedule:
        return Schedule(Every.parse(text), target, work, clock=lambda: clock[0])  # type: ignore[arg-type]

    first = schedule("3b")
    assert [bool(first.after(plan)) for plan in range(1, 8)] == [False, False, True, False, False, True, False]
    assert schedule("3b").after(8) == ()
    assert schedule("3b").after(9) != ()
    hourly = schedule("1h")
    assert hourly.after(10) == ()
    clock[0] += 3600
    assert hourly.after(11) != ()
    assert hourly.after(12) == ()
    assert schedule("never").after(10**9) == ()
    assert target.rounds == 4


def test_whatever_goes_wrong_on_a_schedule_is_only_told(tmp_path: Path) -> None:
    schedule = Schedule(Every.parse("1b"), Nothing(broken=True), Work(tmp_path))  # type: ignore[arg-type]

    assert schedule.after(1) == ("maintenance: the store does not answer",)
