"""The steps of a plan: in order for a table, once after every crash, and one impossible step stops only its tables."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark.apply.staging import change, stage
from spark.targets.tags import tag
from tidewire.ddl.column_steps import NamedColumn, NewColumn, TypedColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.errors import Fenced, StepImpossible
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Applier, Mode, Outcome
from tidewire.spark.apply import run as running
from tidewire.spark.apply.execute import UnfinishedStep
from tidewire.spark.apply.run import predecessors
from tidewire.spark.targets import CommitTag, Target, iceberg_swap
from tidewire.spark.targets.iceberg_catalog import IcebergCatalog
from tidewire.sync.steps import Alter, Create, Drop, Merge, Rename, Step, Truncate

ID = Column.of("id", "int", primary_key=True)
NAME = Column.of("name", "varchar(20)")
on_iceberg = pytest.mark.parametrize("target", ["iceberg"], indirect=True)


def table(name: str, *columns: Column) -> TableSchema:
    return TableSchema(TableName("plans", name), columns or (ID, NAME))


@pytest.fixture
def applier(target: Target) -> Iterator[Applier]:
    applier = Applier(target, workers=2)
    yield applier
    applier.close()


def run(
    applier: Applier,
    steps: list[Step],
    mode: Mode = Mode.MIRROR,
    *,
    sync: str = "plans",
    epoch: int = 1,
    sequence: int = 1,
    **more: Any,
) -> dict[str, Outcome | StepImpossible]:
    def tagged(step: Step) -> CommitTag:
        return tag(step.id, sync=sync, epoch=epoch, sequence=sequence)

    return applier.run(steps, [mode] * len(steps), tag=tagged, **more)


def rows_of(target: Target, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = target.read(TableName("plans", name)).orderBy("id").toArrow().to_pylist()
    return rows


A, B, C = (TableName("plans", name) for name in "abc")
PLAN: tuple[Step, ...] = (Drop(A, 1), Drop(B, 1), Rename(((A, C),), 2), Truncate(table("B"), 3), Drop(C, 4))


def test_a_step_follows_the_last_ones_of_its_tables() -> None:
    assert predecessors(PLAN) == [set(), set(), {0}, {1}, {2}]


def plan(folder: Path) -> list[Step]:
    """Two tables, of which one gets other columns; they swap their names; then one is dropped and made anew."""
    one, two = table("one"), table("two")
    wide = table("one", ID, Column.of("other", "varchar(20)"), Column.of("n", "varchar(9)"))
    steps: list[Step] = []
    for each in (one, two):
        piece = stage(folder, each, [change(5, 1, None, {"id": 1, "name": each.name.table})])
        steps += [Create(each, 1), Merge(each, (piece,), 5)]
    changes = (
        NamedColumn("name", "other"),
        NewColumn(Column.of("n", "int"), ColumnPosition(), "7"),
        TypedColumn(Column.of("n", "int"), Column.of("n", "varchar(9)")),
    )
    last = stage(folder, one, [change(9, 2, None, {"id": 2, "name": "new"})])
    return [
        *steps,
        Alter(one, wide, changes, 6),
        Rename(((one.name, two.name), (two.name, one.name)), 7),
        Drop(one.name, 8),
        Create(one, 8),
        Merge(one, (last,), 9),
    ]


class Crash(BaseException):
    """The process dies."""


@on_iceberg
@pytest.mark.slow
def test_a_plan_that_is_run_again_after_every_crash_is_done_once(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every third thing that changes the target is the last one of its process, and its answer is lost."""
    steps, crashes, left = plan(tmp_path), 0, 0

    def dying(write: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any) -> Any:
            nonlocal left
            if left <= 0:
                raise Crash
            left -= 1
            answer = write(*arguments)
            if left <= 0:
                raise Crash
            return answer

        return wrapper

    writers: list[tuple[Any, str]] = [
        (iceberg_swap, "exchange"),
        (IcebergCatalog, "rename"),
        (IcebergCatalog, "set_namespace_property"),
        (SparkSession, "sql"),
    ]
    while True:
        left = 3
        applier = Applier(target, workers=1)
        try:
            with monkeypatch.context() as patch:
                for owner, name in writers:
                    patch.setattr(owner, name, dying(getattr(owner, name)))
                outcomes = run(applier, steps, sync="crash", epoch=crashes + 1)
            break
        except Crash:
            crashes += 1
        finally:
            applier.close()

    assert crashes > 5
    assert len(outcomes) == len(steps)
    assert rows_of(target, "one") == [{"id": 2, "name": "new"}]
    assert rows_of(target, "two") == [{"id": 1, "other": "one", "n": "7"}]
    (last,) = (outcomes[step.id] for step in steps[-1:])
    assert isinstance(last, Outcome)
    assert last.version == target.version(TableName("plans", "one"))


def test_a_plan_is_recognised_under_another_sequence(target: Target, applier: Applier, tmp_path: Path) -> None:
    """A plan is made again without a step that proved impossible; the other steps are done already."""
    old, new = table("again"), table("again_new")
    piece = stage(tmp_path, old, [change(5, 1, None, {"id": 1, "name": "a"})])
    steps: list[Step] = [Create(old, 1), Merge(old, (piece,), 5), Rename(((old.name, new.name),), 6), Create(old, 7)]
    first = run(applier, steps, sequence=1)
    versions = {name: target.version(name) for name in (old.name, new.name)}

    again = run(applier, steps, sequence=2)

    assert {name: target.version(name) for name in (old.name, new.name)} == versions
    renamed = again[steps[2].id]
    assert isinstance(renamed, Outcome)
    assert renamed.renamed == {new.name: versions[new.name]}
    assert again[steps[3].id] == Outcome(versions[old.name])
    assert all(isinstance(outcome, Outcome) for outcome in first.values())


@on_iceberg
def test_an_impossible_step_stops_its_tables_and_no_others(target: Target, applier: Applier, tmp_path: Path) -> None:
    bad, after, other, third = table("bad"), table("bad", ID, Column.of("name", "int")), table("other"), table("third")
    first = stage(tmp_path, bad, [change(5, 1, None, {"id": 1, "name": "abc"})])
    late = stage(tmp_path, other, [change(8, 2, None, {"id": 2, "name": "late"})])
    done: list[Step] = [Create(bad, 1), Merge(bad, (first,), 5), Create(other, 1)]
    impossible = Alter(bad, after, (TypedColumn(NAME, after.columns[1]),), 6)
    skipped: list[Step] = [Rename(((bad.name, third.name),), 7), Truncate(third, 8)]
    fine: list[Step] = [Merge(other, (late,), 8)]
    told: list[Step] = []

    found = run(applier, [*done, impossible, *skipped, *fine], on_step=told.append)

    failure = found.pop(impossible.id)
    assert isinstance(failure, StepImpossible)
    assert (failure.step, failure.tables) == (impossible.id, (bad.name,))
    assert found.keys() == {step.id for step in (*done, *fine)} == {step.id for step in told}
    assert not target.exists(third.name)
    assert rows_of(target, "other") == [{"id": 2, "name": "late"}]


@on_iceberg
def test_a_driver_that_was_replaced_begins_no_further_step(target: Target) -> None:
    first, second = table("fenced"), table("not_begun")
    applier = Applier(target, workers=1)
    run(applier, [Create(first, 1)], sync="fenced", epoch=1)
    target.fence(first.name, tag(sync="fenced", epoch=2))

    with pytest.raises(Fenced, match=r"epoch 2 has taken over plans\.fenced"):
        run(applier, [Truncate(first, 2), Create(second, 3)], sync="fenced", epoch=1)
    applier.close()
    assert not target.exists(second.name)


def test_steps_that_run_are_waited_for_when_another_one_fails(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    began, failed, ended = threading.Event(), threading.Event(), []

    def work_of(step: Drop, *_: object) -> UnfinishedStep:
        yield from ()
        if step.name == A:
            began.wait()
            failed.set()
            raise OSError("the catalog is not there")
        began.set()
        failed.wait()
        ended.append(step.name)
        return Outcome()

    monkeypatch.setattr(running, "work_of", work_of)
    applier = Applier(target, workers=2)
    with pytest.raises(OSError, match="the catalog is not there"):
        run(applier, [Drop(A, 1), Drop(B, 1), Drop(C, 1), Drop(B, 2)])

    assert ended == [B]
    applier.close()


def test_no_step_begins_after_the_callback_raised(target: Target) -> None:
    shape = table("after")
    applier = Applier(target, workers=1)

    def die(step: Step) -> None:
        raise Crash

    with pytest.raises(Crash):
        run(applier, [Create(shape, 1), Drop(shape.name, 2)], on_step=die)

    assert target.exists(shape.name)
    applier.close()


def open_files(spark: SparkSession) -> list[int]:
    """How many files this process has open, and Spark's."""
    java: Any = spark._jvm
    pids = (os.getpid(), java.java.lang.ProcessHandle.current().pid())
    return [len([*Path(f"/proc/{pid}/fd").iterdir()]) for pid in pids]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="open files are counted in /proc")
@on_iceberg
def test_plans_leave_no_files_open(target: Target, spark: SparkSession) -> None:
    """A pool of threads for each plan left eight files open each time: connections to the catalogs of sessions."""
    shapes = [table(f"open_{number}") for number in range(2)]
    applier = Applier(target, workers=2)
    run(applier, [Create(shape, 1) for shape in shapes], Mode.SCD2)

    def rounds(first: int, count: int) -> list[int]:
        for number in range(first, first + count):
            run(applier, [Truncate(shape, 10 + number) for shape in shapes], Mode.SCD2, sequence=number)
        return open_files(spark)

    before, after = rounds(2, 5), rounds(7, 20)
    applier.close()

    assert max(now - then for then, now in zip(before, after, strict=True)) <= 4
    assert open_files(spark)[1] < after[1]
