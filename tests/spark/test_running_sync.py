"""A sync that runs: one driver at a time, plans that are kept as they are, and what waiting costs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from scripted import OPTIONS, Script, table
from sync_checks import synced
from tidewire.errors import AlreadyRunning, Fenced
from tidewire.load.chunks import DumpSource
from tidewire.load.dumpling import read_dump
from tidewire.spark import execution, loop
from tidewire.spark.ledger import ask, await_answer, leave, ledger_of
from tidewire.spark.load import replace as load_replace
from tidewire.spark.load.run import ask_replacement
from tidewire.spark.loop import Job, Loop, PassReport, Point
from tidewire.spark.publications import Publications
from tidewire.spark.snapshot import snapshot
from tidewire.spark.source import FileSource
from tidewire.spark.targets import open_target
from tidewire.storage import open_storage
from tidewire.sync.loads import plan_load
from tidewire.sync.plan import Planned, plan
from tidewire.topic.files import FileTopics

JOB = Job("canal-json", OPTIONS)
A = table("a", id="int", v="varchar(20)")
_PATIENCE = 120.0


class Listener:
    """Hears passes, and lets a test wait for them; it can hold a sync at a point."""

    def __init__(self, hold_at: Point | None = None) -> None:
        self._hold_at = hold_at
        self.held = threading.Event()
        self.released = threading.Event()
        self.reports: list[PassReport] = []
        self._changed = threading.Condition()

    def reached(self, point: Point) -> None:
        """Stay here until the test says so."""
        if point is self._hold_at:
            self._hold_at = None
            self.held.set()
            assert self.released.wait(_PATIENCE)

    def finished(self, report: PassReport) -> None:
        """A pass is done."""
        with self._changed:
            self.reports.append(report)
            self._changed.notify_all()

    def note(self, line: str) -> None:
        """There is something to say."""

    def wait(self, ts: int) -> None:
        """Wait until the tables are at a ts."""
        with self._changed:
            assert self._changed.wait_for(lambda: any(each.applied >= ts for each in self.reports), _PATIENCE)


class Running:
    """A sync in a thread of its own."""

    def __init__(self, spark: SparkSession, topics: FileTopics, target: Path, listener: Listener) -> None:
        place = open_target(spark, str(target), "iceberg")
        self._sync = Loop(spark, FileSource(topics), place, JOB, listener)
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._sync.run(once=False)
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """Ask it to end, and wait for that."""
        self._sync.stop()
        self.join()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join(_PATIENCE)
        assert not self._thread.is_alive()


@contextmanager
def running(spark: SparkSession, topics: FileTopics, target: Path, listener: Listener) -> Iterator[Running]:
    """A sync that runs during a block."""
    found = Running(spark, topics, target, listener)
    try:
        yield found
    finally:
        listener.released.set()
        found.stop()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes follow each other at once."""
    monkeypatch.setattr(loop, "PASS_SECONDS", 0.05)


def begun(folder: Path) -> tuple[Script, int]:
    """A table with a row, and the ts at which it is complete."""
    made = Script()
    made.ddl("a", "CREATE TABLE `shop`.`a` (`id` INT PRIMARY KEY, `v` VARCHAR(20))")
    made.insert(A, id=1, v="one")
    ts = made.watermark()
    made.write(folder)
    return made, ts


def rows(spark: SparkSession, target: Path) -> dict[str, list[tuple[Any, ...]]]:
    found = snapshot(spark, str(target))
    return {name: sorted(map(tuple, found[name].collect())) for name in found}


@pytest.mark.slow
def test_a_living_sync_refuses_a_second_one_until_it_takes_over(spark: SparkSession, tmp_path: Path) -> None:
    topics, target, listener = FileTopics(tmp_path / "topics"), tmp_path / "target", Listener()
    script, ts = begun(topics.folder)
    with running(spark, topics, target, listener) as older:
        listener.wait(ts)
        with pytest.raises(AlreadyRunning):
            synced(spark, topics, target, JOB)

        newer = Loop(spark, FileSource(topics), open_target(spark, str(target), "iceberg"), JOB)
        script.insert(A, id=2, v="two")
        script.watermark()
        script.write(topics.folder)
        state = newer.run(once=True, take_over=True)
        older.join()

    assert isinstance(older.error, Fenced), older.error
    assert rows(spark, target) == {"shop.a": [(1, "one"), (2, "two")]}
    storage = ledger_of(str(target))
    left = {storage.path(entry.name) for entry in storage.list("staged", recursive=True)}
    assert {each.file.path for each in state.pending} <= left


@pytest.mark.slow
@pytest.mark.parametrize("point", [Point.KEPT, Point.STEP, Point.APPLIED])
def test_a_driver_that_wakes_up_after_a_take_over_stops_and_changes_nothing(
    spark: SparkSession, tmp_path: Path, point: Point
) -> None:
    topics, target, listener = FileTopics(tmp_path / "topics"), tmp_path / "target", Listener(hold_at=point)
    script, _ = begun(topics.folder)
    with running(spark, topics, target, listener) as older:
        assert listener.held.wait(_PATIENCE)
        script.insert(A, id=1, v="changed")
        script.watermark()
        script.write(topics.folder)
        newer = Loop(spark, FileSource(topics), open_target(spark, str(target), "iceberg"), JOB)
        newer.run(once=True, take_over=True)
        versions = Publications(ledger_of(str(target))).newest()

        listener.released.set()
        older.join()

    assert isinstance(older.error, Fenced), older.error
    assert rows(spark, target) == {"shop.a": [(1, "changed")]}
    assert Publications(ledger_of(str(target))).newest() == versions


@pytest.mark.slow
def test_a_kept_plan_is_carried_out_and_not_made_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fix for a crash is deployed before the restart: what was kept must not depend on the planner of today."""
    topics, target = FileTopics(tmp_path / "topics"), tmp_path / "target"
    begun(topics.folder)

    class Dies(Listener):
        def reached(self, point: Point) -> None:
            if point is Point.KEPT:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        synced(spark, topics, target, JOB, Dies())
    calls: list[str] = []

    class Notes(Listener):
        def reached(self, point: Point) -> None:
            calls.append(point)

    def noted(*given: Any) -> Planned:
        calls.append("planned")
        return plan(*given)

    monkeypatch.setattr(execution, "plan", noted)
    synced(spark, topics, target, JOB, Notes())

    assert calls[: calls.index("planned")][-2:] == [Point.PUBLISHED, Point.CLEANED]
    assert rows(spark, target) == {"shop.a": [(1, "one")]}


@pytest.mark.slow
def test_waiting_runs_no_spark_job_and_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    topics, target, listener = FileTopics(tmp_path / "topics"), tmp_path / "target", Listener()
    script, ts = begun(topics.folder)
    with running(spark, topics, target, listener):
        listener.wait(ts)
        place = open_target(spark, str(target), "iceberg")
        (name,) = place.names()
        version, published = place.version(name), len(Publications(ledger_of(str(target))).names())
        tracker = spark.sparkContext.statusTracker()
        before = tracker.getJobIdsForGroup(None)
        for _ in range(12):
            ts = script.watermark()
            script.write(topics.folder)
            listener.wait(ts)

        assert tracker.getJobIdsForGroup(None) == before
        assert place.version(name) == version
        assert len(Publications(ledger_of(str(target))).names()) <= published + 2
    assert snapshot(spark, str(target)).ts == ts  # what was in memory is kept when it stops


@pytest.mark.slow
def test_a_running_sync_answers_requests(spark: SparkSession, tmp_path: Path) -> None:
    topics, target, listener = FileTopics(tmp_path / "topics"), tmp_path / "target", Listener()
    _, ts = begun(topics.folder)
    storage = ledger_of(str(target))
    with running(spark, topics, target, listener):
        listener.wait(ts)
        nothing = ask(storage, "retry", {}, seconds=_PATIENCE)
        unknown = ask(storage, "release", {"hold": "00000000"}, seconds=_PATIENCE)
        done = ask(storage, "maintain", {"older-than": "7d", "keep": "10"}, seconds=_PATIENCE)

    assert nothing is not None
    assert nothing.ok
    assert nothing.lines == ("there is nothing to try again",)
    assert unknown is not None
    assert not unknown.ok
    assert "there is no hold 00000000" in unknown.lines[0]
    assert done is not None
    assert done.ok


def dump(folder: Path, ts: int) -> DumpSource:
    """A dump with another row than the topic has."""
    folder.mkdir()
    (folder / "metadata").write_text(f"SHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: {ts}\nFinished dump at: now\n")
    (folder / "shop.a-schema.sql").write_text("CREATE TABLE `a` (`id` INT PRIMARY KEY, `v` VARCHAR(20));")
    (folder / "shop.a.000.csv").write_text('"id","v"\r\n1,"loaded"\r\n')
    storage = open_storage(folder)
    return DumpSource(storage, read_dump(storage).tables, ts)


@pytest.mark.slow
def test_a_running_sync_goes_on_while_a_table_is_filled_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics, target, listener = FileTopics(tmp_path / "topics"), tmp_path / "target", Listener()
    script, ts = begun(topics.folder)
    filling, released = threading.Event(), threading.Event()

    def slow(*arguments: Any, **settings: Any) -> Planned:
        filling.set()
        assert released.wait(_PATIENCE)
        return plan_load(*arguments, **settings)

    monkeypatch.setattr(load_replace, "plan_load", slow)
    with running(spark, topics, target, listener):
        listener.wait(ts)
        asked = ask_replacement(spark, open_target(spark, str(target), "iceberg"), Job(""), dump(tmp_path / "dump", ts))
        assert filling.wait(_PATIENCE)
        script.insert(A, id=2, v="two")
        later = script.watermark()
        script.write(topics.folder)
        listener.wait(later)
        before = rows(spark, target)
        other = ask_replacement(
            spark, open_target(spark, str(target), "iceberg"), Job(""), dump(tmp_path / "other", ts)
        )
        cancelling = leave(ledger_of(str(target)), "cancel", {"request": other.request})
        swept = ask(ledger_of(str(target)), "maintain", {"older-than": "0s", "keep": "1"}, seconds=_PATIENCE)
        released.set()
        answer = await_answer(ledger_of(str(target)), asked.request)
        cancelled = await_answer(ledger_of(str(target)), cancelling.id)
        place = open_target(spark, str(target), "iceberg")
        early = ask_replacement(spark, place, Job(""), dump(tmp_path / "early", ts - (1 << 40)))
        refused = await_answer(ledger_of(str(target)), early.request)

    assert cancelled is not None
    assert cancelled.lines == (f"{other.request} is taken back",)
    assert swept is not None
    assert swept.ok
    assert before == {"shop.a": [(1, "one"), (2, "two")]}
    assert answer is not None
    assert answer.ok
    assert refused is not None
    assert not refused.ok
    assert "shop.a cannot be replaced: t[0] begins at" in refused.lines[0]
    assert [name for name in place.names() if name.schema == "_tidewire"] == []
    assert rows(spark, target) == {"shop.a": [(1, "loaded"), (2, "two")]}
