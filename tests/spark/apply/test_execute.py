"""Steps are done once, in order, and what does not fit is told."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.apply.staging import change, stage
from tidewire.ddl.column_steps import NamedColumn, NewColumn, TypedColumn
from tidewire.ddl.edits import Place
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import MemoryJournal, Mode, Outcome, Settings, execute, misfits, run_steps
from tidewire.spark.apply.changes import scans, surely_has_rows
from tidewire.spark.apply.columns import change_column
from tidewire.spark.apply.modes import LAYOUTS
from tidewire.spark.apply.run import finished, predecessors
from tidewire.spark.targets import Mark, Target
from tidewire.sync.steps import REJECTS, Alter, Create, Drop, Merge, Rename, SetAside, Step, Truncate

ID = Column.of("id", "int", primary_key=True)
NAME = Column.of("name", "varchar(20)")

_SEQUENCE = count(1)


@pytest.fixture
def sequence() -> int:
    """The number of a plan no other test has."""
    return next(_SEQUENCE)


def table(name: str, *columns: Column) -> TableSchema:
    return TableSchema(TableName("steps", name), columns or (ID, NAME))


def rows_of(target: Target, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = target.read(TableName("steps", name)).orderBy("id").toArrow().to_pylist()
    return rows


def test_files_with_the_same_bounds_are_read_together(tmp_path: Path) -> None:
    shape = table("t")
    rows = [change(5, 1, None, {"id": 1, "name": "a"}), change(9, 2, None, {"id": 2, "name": "a"})]
    whole = [stage(tmp_path, shape, rows) for _ in range(2)]
    cut = [stage(tmp_path, shape, rows, from_ts=6, number=number) for number in range(2)]

    found = scans([*whole, *cut])

    assert [(scan.bounds, len(scan.paths)) for scan in found] == [(None, 2), ((6, cut[0].to_ts), 2)]
    assert len(scans([*whole, *cut], by_partition=True)) == 3


def test_a_slice_that_may_be_empty_is_known(tmp_path: Path) -> None:
    rows = [change(5, 1, None, {"id": 1, "name": "a"}), change(9, 2, None, {"id": 2, "name": "a"})]

    assert surely_has_rows([stage(tmp_path, table("t"), rows, from_ts=9)])
    assert not surely_has_rows([stage(tmp_path, table("t"), rows, from_ts=6, to_ts=8)])


A, B, C = (TableName("steps", name) for name in "abc")
PLAN: tuple[Step, ...] = (Drop(A, 1), Drop(B, 1), Rename(((A, C),), 2), Truncate(table("B"), 3), Drop(C, 4))


def test_a_step_follows_the_last_ones_of_its_tables() -> None:
    assert predecessors(PLAN) == [set(), set(), {0}, {1}, {2}]


def test_a_step_before_a_recorded_one_of_its_table_is_done() -> None:
    journal = MemoryJournal({(2, None)})

    assert finished(PLAN, journal) == [True, False, True, False, False]


def test_no_rows_are_no_commit(target: Target, sequence: int, tmp_path: Path) -> None:
    shape = table("empty")
    rows = [change(5, 1, None, {"id": 1, "name": "a"}), change(9, 2, None, {"id": 2, "name": "a"})]
    execute(Create(shape, 1), target, Mark("steps", sequence, 0), Mode.MIRROR)
    before = target.version(shape.name)

    piece = stage(tmp_path, shape, rows, from_ts=6, to_ts=8)
    outcome = execute(Merge(shape, (piece,), 8), target, Mark("steps", sequence, 1), Mode.MIRROR)

    assert outcome == Outcome(False)
    assert target.version(shape.name) == before


@pytest.fixture
def misfit(target: Target, sequence: int, tmp_path: Path) -> Merge:
    """Two changes, of which one does not fit its table."""
    shape = table("misfit", ID, Column.of("price", "decimal"))
    declared = table("misfit", ID, Column.of("price", "decimal(4,2)"))
    execute(Create(declared, 1), target, Mark("misfit", sequence, 0), Mode.MIRROR)
    rows = [change(5, 1, None, {"id": 1, "price": "1.5"}), change(6, 2, None, {"id": 2, "price": "1.555"})]
    return Merge(declared, (stage(tmp_path, shape, rows, number=3),), 6)


def test_a_change_that_does_not_fit_is_left_out_and_named(target: Target, sequence: int, misfit: Merge) -> None:
    mark = Mark("misfit", sequence, 1)

    first = execute(misfit, target, mark, Mode.MIRROR)
    again = execute(misfit, target, mark, Mode.MIRROR)

    (rejected,) = first.rejected
    assert (rejected.at.topic, rejected.at.partition, rejected.at.offset) == ("topic", 3, 2)
    assert rejected.reason == "column price (decimal(4,2)): 1.555 does not fit"
    assert (rejected.table, rejected.commit_ts) == (misfit.table.name, 6)
    assert [row["id"] for row in rows_of(target, "misfit")] == [1]
    assert again == Outcome(False)
    assert misfits(misfit, target) == first.rejected


def test_a_key_without_a_value_is_a_misfit(target: Target, sequence: int, tmp_path: Path) -> None:
    shape = table("days", Column.of("day", "date", primary_key=True), ID)
    piece = stage(tmp_path, shape, [change(5, 1, None, {"day": None, "id": 1})])
    execute(Create(shape, 1), target, Mark("steps", sequence, 0), Mode.MIRROR)

    outcome = execute(Merge(shape, (piece,), 5), target, Mark("steps", sequence, 1), Mode.MIRROR)

    assert [each.reason for each in outcome.rejected] == ["column day (date): a key without a value"]
    assert rows_of(target, "days") == []


def test_messages_are_set_aside_once(target: Target, sequence: int, tmp_path: Path) -> None:
    path = tmp_path / "rejects[1]{2}*.parquet"
    message = {"topic": "t", "offset": 7, "key": b"k", "value": b"v", "reason": "why", "at": "$.x", "part": "value"}
    rejects = pa.Table.from_pylist([message]).append_column("partition", pa.array([1], pa.int32()))
    pq.write_table(rejects.append_column("batch", pa.array([sequence])), path)
    step = SetAside((str(path),))

    outcomes = [execute(step, target, Mark("steps", sequence, 0), Mode.MIRROR) for _ in range(2)]

    assert [outcome.changed for outcome in outcomes] == [True, False]
    found = target.read(REJECTS).where(f"batch = {sequence}").toArrow().to_pylist()
    assert found == [{**message, "partition": 1, "batch": sequence}]


class Crash(Exception):
    """The process dies."""


class Fragile(MemoryJournal):
    """A journal that dies after so many records, before the next one is kept."""

    left = 0

    def record(self, step: int, part: int | None = None) -> None:
        self.left -= 1
        if self.left < 0:
            raise Crash
        super().record(step, part)


def plan(folder: Path) -> Iterator[Step]:
    """Two tables, of which one gets other columns; then they swap their names, and one loses its row."""
    one, two = table("one"), table("two")
    wide = table("one", ID, Column.of("other", "varchar(20)"), Column.of("n", "varchar(9)"))
    for each in (one, two):
        yield Create(each, 1)
        piece = stage(folder, each, [change(5, 1, None, {"id": 1, "name": each.name.table})])
        yield Merge(each, (piece,), 5)
    changes = (
        NamedColumn("name", "other"),
        NewColumn(Column.of("n", "int"), Place(), "7"),
        TypedColumn(Column.of("n", "int"), Column.of("n", "varchar(9)")),
    )
    yield Alter(one, wide, changes, 6)
    yield Rename(((one.name, two.name), (two.name, one.name)), 7)
    yield Merge(one, (stage(folder, one, [change(8, 2, {"id": 1, "name": "two"}, None)]),), 8)


def test_a_plan_that_is_run_again_after_every_crash_is_done_once(target: Target, sequence: int, tmp_path: Path) -> None:
    steps = list(plan(tmp_path))
    journal = Fragile()
    crashes = 0

    while True:
        journal.left = 3
        try:
            run_steps(steps, target, sync="crash", sequence=sequence, modes=[Mode.MIRROR] * len(steps), journal=journal)
            break
        except Crash:
            crashes += 1

    assert crashes > 1
    assert rows_of(target, "one") == []
    assert rows_of(target, "two") == [{"id": 1, "other": "one", "n": "7"}]


def test_no_step_begins_after_the_callback_raised(target: Target, sequence: int) -> None:
    shape = table("after")

    def die(number: int, step: Step, outcome: Outcome) -> None:
        raise Crash

    with pytest.raises(Crash):
        run_steps(
            [Create(shape, 1), Drop(shape.name, 2)],
            target,
            sync="callback",
            sequence=sequence,
            modes=[Mode.MIRROR] * 4,
            journal=MemoryJournal(),
            on_step=die,
        )

    assert target.exists(shape.name)


def test_a_conversion_goes_on_where_a_crash_left_it(target: Target, sequence: int, tmp_path: Path) -> None:
    shape = table("halfway")
    step = TypedColumn(NAME, Column.of("name", "int"))
    execute(Create(shape, 1), target, Mark("steps", sequence, 0), Mode.MIRROR)
    piece = stage(tmp_path, shape, [change(5, 1, None, {"id": 1, "name": "12"})])
    execute(Merge(shape, (piece,), 5), target, Mark("steps", sequence, 1), Mode.MIRROR)
    layout, policy = LAYOUTS[Mode.MIRROR], Settings().policy

    change_column(step, target, shape.name, layout, policy)
    target.rename_column(shape.name, "name", "_tw_new_name")  # as before the last thing it does
    for _ in range(2):
        change_column(step, target, shape.name, layout, policy)

    assert rows_of(target, "halfway") == [{"id": 1, "name": 12}]


def test_columns_that_rows_call_otherwise_are_found_and_those_they_lack_are_not(
    target: Target, sequence: int, tmp_path: Path
) -> None:
    shape, kept = (
        table("called"),
        table("called", Column.of("key", "int", primary_key=True), NAME, Column.of("n", "int")),
    )
    execute(Create(kept, 1), target, Mark("steps", sequence, 0), Mode.MIRROR)
    came = [change(2, 1, None, {"id": 1, "name": "a"}), change(3, 2, None, {"id": 2, "name": "b"})]
    moved = [change(4, 3, {"id": 2, "name": "b"}, {"id": 3, "name": "c"})]
    sources = {"key": "ID", "name": None, "n": "name_"}

    execute(
        Merge(kept, (stage(tmp_path, shape, [*came, *moved]),), 4, sources),
        target,
        Mark("steps", sequence, 1),
        Mode.MIRROR,
    )

    rows = target.read(kept.name).orderBy("key").toArrow().to_pylist()
    assert rows == [{"key": 1, "name": None, "n": None}, {"key": 3, "name": None, "n": None}]


def test_a_table_that_is_kept_has_a_name_that_says_since_when(target: Target, sequence: int) -> None:
    shape = table("kept")
    execute(Create(shape, 1), target, Mark("steps", sequence, 0), Mode.MIRROR)
    dropping = Drop(shape.name, 7, keep=True)

    outcomes = [execute(dropping, target, Mark("steps", sequence, 1), Mode.MIRROR).changed for _ in range(2)]

    assert outcomes == [True, False]
    assert not target.exists(shape.name)
    assert rows_of(target, "kept__dropped_7") == []
    assert not execute(Rename((), 8), target, Mark("steps", sequence, 2), Mode.MIRROR).changed
