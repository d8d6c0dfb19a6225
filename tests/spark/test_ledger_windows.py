"""A driver may die at any point of a pass: the next one leaves the same tables, does no step twice and loses no file.

Each case is a row of the table in :mod:`tidewire.spark.ledger`.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from scripted import OPTIONS, Script, table
from sync_checks import synced
from tidewire.errors import Fenced
from tidewire.model import DdlType
from tidewire.spark.ledger import ledger_of, newest_plan, plan_numbers
from tidewire.spark.loop import Job, PassReport, Point
from tidewire.spark.publications import Publications
from tidewire.spark.snapshot import snapshot
from tidewire.topic.files import FileTopics

JOB = Job("canal-json", OPTIONS)
A = table("a", id="int", v="varchar(20)")
A_WIDER = table("a", id="int", v="varchar(20)", n="int")
B = table("b", id="int", v="varchar(20)")


class Death(Exception):
    """The driver dies here."""


class Dies:
    """An observer that raises when a point is reached for the n-th time."""

    def __init__(self, point: Point, count: int = 1) -> None:
        self._point = point
        self._left = count

    def reached(self, point: Point) -> None:
        """Die here, if it is the place."""
        if point is self._point:
            self._left -= 1
            if not self._left:
                raise Death(point)

    def finished(self, report: PassReport) -> None:
        """A pass is done."""

    def note(self, line: str) -> None:
        """There is something to say."""


def script(folder: Path, *, impossible: bool = False) -> FileTopics:
    """Two tables with rows, a new column with a default, a rename; or a statement that no row can follow."""
    made = Script()
    made.ddl("a", "CREATE TABLE `shop`.`a` (`id` INT PRIMARY KEY, `v` VARCHAR(20))")
    made.ddl("b", "CREATE TABLE `shop`.`b` (`id` INT PRIMARY KEY, `v` VARCHAR(20))")
    for number in range(3):
        made.insert(A, id=number, v=f"a{number}")
        made.insert(B, id=number, v=f"b{number}")
    made.watermark()
    if impossible:
        made.ddl("a", "ALTER TABLE `shop`.`a` MODIFY COLUMN `v` INT", DdlType.MODIFY_COLUMN)
        made.insert(B, id=7, v="b7")
    else:
        made.ddl("a", "ALTER TABLE `shop`.`a` ADD COLUMN `n` INT DEFAULT 5", DdlType.ADD_COLUMN)
        made.insert(A_WIDER, id=1, v="changed", n=6)
        made.delete(B, id=0, v="b0")
        made.ddl("c", "RENAME TABLE `shop`.`b` TO `shop`.`c`", DdlType.RENAME_TABLE)
    made.watermark()
    return made.write(folder)


def rows(spark: SparkSession, target: Path | str) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of all tables."""
    found = snapshot(spark, str(target))
    return {name: sorted(map(tuple, found[name].collect())) for name in found}


EXPECTED = {
    "shop.a": [(0, "a0", 5), (1, "changed", 6), (2, "a2", 5)],
    "shop.c": [(1, "b1"), (2, "b2")],
}

WINDOWS = [
    pytest.param(Point.STAGED, 1, id="2: before the plan is kept"),
    pytest.param(Point.KEPT, 1, id="3: after the plan is kept"),
    *(pytest.param(Point.STEP, count, id=f"4: after step {count}") for count in range(1, 8)),
    pytest.param(Point.APPLIED, 1, id="5: after the last step"),
    pytest.param(Point.PUBLISHED, 1, id="6: after the publication"),
    pytest.param(Point.CLEANED, 1, id="7: after cleaning"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("point", "count"), WINDOWS)
def test_a_driver_that_dies_changes_nothing(spark: SparkSession, tmp_path: Path, point: Point, count: int) -> None:
    topics, target = script(tmp_path / "topics"), tmp_path / "target"

    with pytest.raises(Death):
        synced(spark, topics, target, JOB, Dies(point, count))
    with suppress(Death):  # once more, right after the next driver fenced the tables of an unfinished plan
        synced(spark, topics, target, JOB, Dies(Point.FENCED))
    state = synced(spark, topics, target, JOB)

    assert rows(spark, target) == EXPECTED
    assert not state.holds
    storage = ledger_of(str(target))
    plan = newest_plan(storage)
    published = Publications(storage).newest()
    assert plan is not None
    assert published is not None
    assert published.sequence == plan.sequence
    needed = {each.file.path for each in state.pending}
    left = {storage.path(entry.name) for entry in storage.list("staged", recursive=True)}
    assert needed <= left


@pytest.mark.slow
@pytest.mark.parametrize("point", [None, Point.REPLANNED, Point.PUBLISHED], ids=["8", "9", "6"])
def test_a_step_that_proves_impossible_holds_its_table_alone(
    spark: SparkSession, tmp_path: Path, point: Point | None
) -> None:
    topics, target = script(tmp_path / "topics", impossible=True), tmp_path / "target"
    if point is not None:
        with pytest.raises(Death):
            synced(spark, topics, target, JOB, Dies(point))

    state = synced(spark, topics, target, JOB)

    assert rows(spark, target) == {
        "shop.a": [(0, "a0"), (1, "a1"), (2, "a2")],
        "shop.b": [(0, "b0"), (1, "b1"), (2, "b2"), (7, "b7")],
    }
    (hold,) = state.holds
    assert (str(hold.table), hold.kind) == ("shop.a", "statement")
    assert "MODIFY COLUMN" in hold.reason
    assert len(plan_numbers(ledger_of(str(target)))) <= 3


@pytest.mark.slow
@pytest.mark.parametrize("step", [2, 3])
def test_a_driver_that_sleeps_between_steps_does_not_hold_what_a_newer_one_renamed(
    spark: SparkSession, tmp_path: Path, step: int
) -> None:
    topics, target = script(tmp_path / "topics"), tmp_path / "target"
    job = replace(JOB, parallel=1)

    class Sleeps(Dies):
        """Sleeps at a step until a newer driver has done everything, and goes on."""

        def reached(self, point: Point) -> None:
            with suppress(Death):
                super().reached(point)
                return
            synced(spark, topics, target, job, take_over=True)

    with pytest.raises(Fenced):
        synced(spark, topics, target, job, Sleeps(Point.STEP, step))

    assert rows(spark, target) == EXPECTED
    assert not synced(spark, topics, target, job).holds
