"""A step is done once, says which version it made, and what does not fit is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark.apply.staging import change, stage
from spark.targets.tags import tag
from tidewire.arrow.policy import Policy
from tidewire.ddl.column_steps import ColumnStep, GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.errors import StepImpossible
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Mode, Outcome, execute, invalid_changes
from tidewire.spark.apply.columns import Abilities, phases
from tidewire.spark.apply.modes import LAYOUTS
from tidewire.spark.apply.rewrite import Converted, Default, Rewrite
from tidewire.spark.targets import (
    AddColumn,
    DropColumn,
    Field,
    MoveColumn,
    RenameColumn,
    Target,
    TargetError,
    WidenColumn,
    delta_commit,
    iceberg_swap,
)
from tidewire.sync.steps import REJECTS, Alter, Create, Drop, Fill, Merge, Rename, SetAside, Truncate

ID = Column.of("id", "int", primary_key=True)
NAME = Column.of("name", "varchar(20)")


def table(name: str, *columns: Column) -> TableSchema:
    return TableSchema(TableName("steps", name), columns or (ID, NAME))


def rows_of(target: Target, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = target.read(TableName("steps", name)).orderBy("id").toArrow().to_pylist()
    return rows


def made(target: Target, folder: Path, shape: TableSchema, *rows: dict[str, Any], mode: Mode = Mode.MIRROR) -> None:
    """A table with rows."""
    execute(Create(shape, 1), target, tag(), mode)
    piece = stage(folder, shape, [change(5, number, None, row) for number, row in enumerate(rows)])
    execute(Merge(shape, (piece,), 5), target, tag(), mode)


def test_every_step_names_the_version_that_it_made_also_when_it_is_done_again(target: Target, tmp_path: Path) -> None:
    shape = table("versions")
    piece = stage(tmp_path, shape, [change(5, 1, None, {"id": 1, "name": "a"})])
    wide = table("versions", ID, NAME, Column.of("n", "int"))
    steps = (
        Create(shape, 1),
        Merge(shape, (piece,), 5),
        Alter(shape, wide, (NewColumn(wide.columns[2], ColumnPosition(), None),), 6),
        Truncate(wide, 7),
    )
    made_ = []

    for step in steps:
        first = execute(step, target, tag(step.id), Mode.MIRROR)
        again = execute(step, target, tag(step.id, epoch=2), Mode.MIRROR)
        assert (first.changed, again) == (True, Outcome(first.version))
        assert first.version == target.version(shape.name)
        made_.append(first.version)

    assert [None if version is None else target.read(shape.name, version).count() for version in made_] == [0, 1, 1, 0]
    assert target.find(shape.name, steps[1].id) == made_[1]


def test_no_rows_are_no_commit(target: Target, tmp_path: Path) -> None:
    shape = table("empty")
    rows = [change(5, 1, None, {"id": 1, "name": "a"}), change(9, 2, None, {"id": 2, "name": "a"})]
    execute(Create(shape, 1), target, tag(), Mode.MIRROR)
    before = target.version(shape.name)

    piece = stage(tmp_path, shape, rows, from_ts=6, to_ts=8)
    outcome = execute(Merge(shape, (piece,), 8), target, tag(), Mode.MIRROR)

    assert outcome == Outcome()
    assert target.version(shape.name) == before


@pytest.fixture
def misfit(target: Target, tmp_path: Path) -> Merge:
    """Two changes, of which one does not fit its table."""
    shape = table("misfit", ID, Column.of("price", "decimal"))
    declared = table("misfit", ID, Column.of("price", "decimal(4,2)"))
    execute(Create(declared, 1), target, tag(), Mode.MIRROR)
    rows = [change(5, 1, None, {"id": 1, "price": "1.5"}), change(6, 2, None, {"id": 2, "price": "1.555"})]
    return Merge(declared, (stage(tmp_path, shape, rows, number=3),), 6)


def test_a_change_that_does_not_fit_is_left_out_and_named(target: Target, misfit: Merge) -> None:
    first = execute(misfit, target, tag(misfit.id), Mode.MIRROR)
    again = execute(misfit, target, tag(misfit.id), Mode.MIRROR)

    (rejected,) = first.rejected
    assert (rejected.at.topic, rejected.at.partition, rejected.at.offset) == ("topic", 3, 2)
    assert rejected.reason == "column price (decimal(4,2)): 1.555 does not fit"
    assert (rejected.table, rejected.commit_ts) == (misfit.table.name, 6)
    assert [row["id"] for row in rows_of(target, "misfit")] == [1]
    assert again == Outcome(first.version)
    assert invalid_changes(misfit, target) == first.rejected


def test_a_key_without_a_value_is_a_misfit(target: Target, tmp_path: Path) -> None:
    shape = table("days", Column.of("day", "date", primary_key=True), ID)
    piece = stage(tmp_path, shape, [change(5, 1, None, {"day": None, "id": 1})])
    execute(Create(shape, 1), target, tag(), Mode.MIRROR)

    outcome = execute(Merge(shape, (piece,), 5), target, tag(), Mode.MIRROR)

    assert [each.reason for each in outcome.rejected] == ["column day (date): a key without a value"]
    assert rows_of(target, "days") == []


def test_messages_are_set_aside_once(target: Target, tmp_path: Path) -> None:
    path = tmp_path / "rejects[1]{2}*.parquet"
    message = {"topic": "t", "offset": 7, "key": b"k", "value": b"v", "reason": "why", "at": "$.x", "part": "value"}
    rejects = pa.Table.from_pylist([message]).append_column("partition", pa.array([1], pa.int32()))
    pq.write_table(rejects.append_column("batch", pa.array([3])), path)
    step = SetAside((str(path),))

    outcomes = [execute(step, target, tag(step.id), Mode.MIRROR) for _ in range(2)]

    assert [outcome.changed for outcome in outcomes] == [True, False]
    assert {outcome.version for outcome in outcomes} == {target.version(REJECTS)}
    assert target.read(REJECTS).toArrow().to_pylist() == [{**message, "partition": 1, "batch": 3}]


# Columns


def _phases(*columns: ColumnStep, mode: Mode = Mode.MIRROR) -> list[object]:
    step = Alter(table("t"), table("t"), columns, 6)
    can = Abilities(lambda old, new: (old, new) == ("int", "bigint"), defaults=False)
    return list(phases(step, LAYOUTS[mode], Policy(), can))


def test_changes_that_touch_no_values_are_collected_between_conversions() -> None:
    number, text = Column.of("n", "int"), Column.of("n", "varchar(9)")
    found = _phases(
        NamedColumn("name", "other"),
        NewColumn(Column.of("m", "int"), ColumnPosition(), None),
        NewColumn(number, ColumnPosition(first=True), "7"),
        TypedColumn(number, text),
        PlacedColumn("n", ColumnPosition(after="id")),
        TypedColumn(Column.of("w", "int"), Column.of("w", "bigint")),
        GoneColumn("m"),
    )

    added = (
        RenameColumn("name", "other"),
        AddColumn(Field("m", "int")),
        AddColumn(Field("n", "int"), ColumnPosition(first=True)),
    )
    making = AddColumn(Field("_tw_new_n", "string"), ColumnPosition(after="n"))
    rest = (DropColumn("n"), RenameColumn("_tw_new_n", "n"), MoveColumn("n", ColumnPosition(after="id")))
    assert found == [
        added,
        Rewrite((("n", Default("7", number)),)),
        (making,),
        Rewrite((("_tw_new_n", Converted("n", number, text)),)),
        (*rest, WidenColumn("w", "bigint"), DropColumn("m")),
    ]


def test_columns_beside_a_column_change_with_it() -> None:
    (made_, rewritten, done) = _phases(TypedColumn(NAME, Column.of("name", "int")), mode=Mode.HISTORY)

    assert [change.field.name for change in made_] == ["_tw_new_name", "_tw_new__tw_old_name"]  # type: ignore[attr-defined]
    assert [column for column, _ in rewritten.values] == ["_tw_new_name", "_tw_new__tw_old_name"]  # type: ignore[attr-defined]
    assert len(done) == 4  # type: ignore[arg-type]


class Crash(BaseException):
    """The process dies."""


@contextmanager
def crash(monkeypatch: pytest.MonkeyPatch, at: int, *, done: bool) -> Iterator[None]:
    """Commits of the target and statements of Spark go well until a certain one, which dies before it or after it."""
    left = at

    def crashing(write: Callable[..., Any]) -> Callable[..., Any]:
        def wrapper(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0 and not done:
                raise Crash
            answer = write(*arguments)
            if left < 0:
                raise Crash
            return answer

        return wrapper

    with monkeypatch.context() as patch:
        for module in (iceberg_swap, delta_commit):
            patch.setattr(module, "exchange", crashing(module.exchange))
        patch.setattr("pyspark.sql.SparkSession.sql", crashing(_sql()))
        yield


def _sql() -> Callable[..., Any]:
    from pyspark.sql import SparkSession

    return SparkSession.sql


@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_an_alter_goes_on_where_a_crash_left_it(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: bool
) -> None:
    """TIME to BIGINT changes values in place: doing it twice would spoil them."""
    span, day = Column.of("t", "time"), Column.of("d", "varchar(20)")
    crashes = 0
    while True:
        shape = table(f"halfway_{done}_{crashes}", ID, span, day)
        after = table(shape.name.table, ID, Column.of("t", "bigint"), Column.of("e", "int"), Column.of("n", "int"))
        made(target, tmp_path, shape, {"id": 1, "t": 3_723_000_000, "d": "12"})
        columns = (
            TypedColumn(span, Column.of("t", "bigint")),
            NamedColumn("d", "e"),
            TypedColumn(replace(day, name="e"), Column.of("e", "int")),
            NewColumn(Column.of("n", "int"), ColumnPosition(), "7"),
        )
        step = Alter(shape, after, columns, 6)
        try:
            with crash(monkeypatch, crashes, done=done):
                execute(step, target, tag(step.id), Mode.MIRROR)
        except Crash:
            crashes += 1
            execute(step, target, tag(step.id, epoch=2), Mode.MIRROR)
            assert rows_of(target, shape.name.table) == [{"id": 1, "t": 10203, "e": 12, "n": 7}]
        else:
            break

    assert crashes == 4  # each conversion, and the swap after it; the last one has the new column with its default


@pytest.mark.parametrize("target", ["iceberg"], indirect=True)
def test_a_value_that_cannot_be_converted_makes_the_step_impossible(target: Target, tmp_path: Path) -> None:
    shape, after = table("unfit"), table("unfit", ID, Column.of("name", "int"))
    made(target, tmp_path, shape, {"id": 1, "name": "abc"})
    step = Alter(shape, after, (TypedColumn(NAME, after.columns[1]),), 6)

    for _ in range(2):
        with pytest.raises(StepImpossible, match=r"column name: 'abc' of varchar\(20\) cannot become int") as caught:
            execute(step, target, tag(step.id), Mode.MIRROR)

    assert (caught.value.step, caught.value.tables) == (step.id, (shape.name,))
    assert "'abc'" in caught.value.reason
    assert "\n" not in caught.value.reason
    assert [row["name"] for row in rows_of(target, "unfit")] == ["abc"]


def test_a_column_that_is_not_there_makes_the_step_impossible(target: Target) -> None:
    shape = table("gone")
    execute(Create(shape, 1), target, tag(), Mode.MIRROR)
    step = Alter(shape, shape, (PlacedColumn("missing", ColumnPosition(first=True)),), 6)

    with pytest.raises(StepImpossible, match=r"steps\.gone: there is no column missing in steps\.gone"):
        execute(step, target, tag(step.id), Mode.MIRROR)


def test_columns_that_rows_call_otherwise_are_found_and_those_they_lack_are_not(target: Target, tmp_path: Path) -> None:
    shape, kept = (
        table("called"),
        table("called", Column.of("key", "int", primary_key=True), NAME, Column.of("n", "int")),
    )
    execute(Create(kept, 1), target, tag(), Mode.MIRROR)
    came = [change(2, 1, None, {"id": 1, "name": "a"}), change(3, 2, None, {"id": 2, "name": "b"})]
    moved = [change(4, 3, {"id": 2, "name": "b"}, {"id": 3, "name": "c"})]
    sources = {"key": "ID", "name": None, "n": "name_"}

    execute(Merge(kept, (stage(tmp_path, shape, [*came, *moved]),), 4, sources), target, tag(), Mode.MIRROR)

    rows = target.read(kept.name).orderBy("key").toArrow().to_pylist()
    assert rows == [{"key": 1, "name": None, "n": None}, {"key": 3, "name": None, "n": None}]


def test_a_key_may_be_renamed_in_the_statement_that_fills_a_column(target: Target, tmp_path: Path) -> None:
    shape = table("renamed_key")
    key = replace(ID, name="id2")
    added = replace(Column.of("c", "int", nullable=False), default="5")
    made(target, tmp_path, shape, {"id": 1, "name": "a"})
    columns = (NamedColumn("id", "id2"), NewColumn(added, ColumnPosition(), "5"))
    step = Alter(shape, table("renamed_key", key, NAME, added), columns, 6)

    execute(step, target, tag(step.id), Mode.MIRROR)

    assert target.read(shape.name).toArrow().to_pylist() == [{"id2": 1, "name": "a", "c": 5}]


def test_a_date_in_year_0_is_a_row_like_others(target: Target, tmp_path: Path) -> None:
    """Arrow has the year 0 and Python does not."""
    shape = table("year_0", ID, Column.of("day", "date"))
    execute(Create(shape, 1), target, tag(), Mode.MIRROR)
    piece = stage(tmp_path, shape, [change(5, 1, None, {"id": 1, "day": None})])
    rows = pq.read_table(piece.file.path)
    days = pa.array([-719_450], pa.int32()).cast(pa.date32())
    image = pa.StructArray.from_arrays([pa.array([1], pa.int32()), days], ["id", "day"])
    pq.write_table(rows.set_column(rows.column_names.index("after"), "after", image), piece.file.path)

    for _ in range(2):
        execute(Merge(shape, (piece,), 5), target, tag(), Mode.MIRROR)

    found = target.read(shape.name).selectExpr("unix_date(day)").collect()
    assert [tuple(row) for row in found] == [(-719_450,)]


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SCD2])
def test_a_column_that_another_program_added_keeps_its_values(target: Target, tmp_path: Path, mode: Mode) -> None:
    shape = table(f"foreign_{mode}")
    made(target, tmp_path, shape, {"id": 1, "name": "a"}, {"id": 2, "name": "b"}, mode=mode)
    target.alter(shape.name, [AddColumn(Field("note", "string"))], tag())
    target.session().sql(f"UPDATE {target.relation(shape.name)} SET note = 'mine' WHERE id = 1")
    changes = [change(6, 7, {"id": 1, "name": "a"}, {"id": 1, "name": "c"}), change(6, 8, None, {"id": 3, "name": "d"})]

    execute(Merge(shape, (stage(tmp_path, shape, changes),), 6), target, tag(), mode)

    notes = {(row["name"], row["note"]) for row in target.read(shape.name).collect()}
    stays = {("c", "mine")} if mode is Mode.MIRROR else {("a", "mine"), ("c", None)}
    assert notes == {*stays, ("b", None), ("d", None)}


def test_a_column_or_table_that_another_program_dropped_makes_the_step_impossible(
    target: Target, tmp_path: Path
) -> None:
    """Nothing is written until people have decided: the values of the column would be lost."""
    shape = table("lost")
    made(target, tmp_path, shape, {"id": 1, "name": "a"})
    relation, sql = target.relation(shape.name), target.session().sql
    update = change(6, 7, {"id": 1, "name": "a"}, {"id": 1, "name": "b"})
    step = Merge(shape, (stage(tmp_path, shape, [update]),), 6)

    sql(f"ALTER TABLE {relation} RENAME COLUMN name TO title")
    with pytest.raises(
        StepImpossible, match=r"there is no column name in steps\.lost: another program dropped or renam"
    ):
        execute(step, target, tag("late"), Mode.MIRROR)
    sql(f"ALTER TABLE {relation} RENAME COLUMN title TO name")
    assert execute(step, target, tag("late"), Mode.MIRROR).changed

    target.drop(shape.name, tag())
    with pytest.raises(StepImpossible, match=r"there is no table steps\.lost.*: another program dropped or renamed it"):
        execute(step, target, tag("gone"), Mode.MIRROR)


def test_a_key_is_found_in_files_from_before_its_type_was_widened(target: Target, tmp_path: Path) -> None:
    """Delta widens DATE to DATETIME without new files; bounds of older files are those of dates."""
    day, moment = Column.of("d", "date", primary_key=True), Column.of("d", "datetime", primary_key=True)
    shape, after = table("widened", day, NAME), table("widened", moment, NAME)
    made(target, tmp_path, shape, {"d": date(2024, 1, 1), "name": "a"})
    target.stored(shape.name)
    step = Alter(shape, after, (TypedColumn(day, moment),), 6)
    execute(step, target, tag(step.id), Mode.MIRROR)
    row = {"d": datetime(2024, 1, 1), "name": "b"}

    execute(Merge(after, (stage(tmp_path, after, [change(7, 9, None, row)]),), 7), target, tag(), Mode.MIRROR)

    assert target.read(shape.name).toArrow().to_pylist() == [row]


# Names


def test_a_table_that_is_kept_has_a_name_that_says_since_when(target: Target) -> None:
    shape = table("kept")
    made_ = execute(Create(shape, 1), target, tag(), Mode.MIRROR).version
    assert made_ is not None
    dropping = Drop(shape.name, 7, keep=True)

    first, again = (execute(dropping, target, tag(dropping.id), Mode.MIRROR) for _ in range(2))

    (kept,) = first.renamed
    assert kept == TableName("steps", "kept__dropped_7")
    assert again.renamed == first.renamed == {kept: target.version(kept)}
    assert not target.exists(shape.name)
    assert rows_of(target, kept.table) == []
    assert execute(Rename((), 8), target, tag(), Mode.MIRROR) == Outcome()


def test_a_table_that_another_program_replaced_is_not_touched(target: Target) -> None:
    shape = table("replaced")
    planned = execute(Create(shape, 1), target, tag(), Mode.MIRROR).version
    assert planned is not None
    target.create(shape.name, (Field("foreign", "int"),), tag())
    known = {shape.name: planned}

    for step in (Drop(shape.name, 7), Create(shape, 8), Rename(((shape.name, TableName("steps", "other")),), 9)):
        with pytest.raises(TargetError, match=r"steps\.replaced is not the table that the plan was made for"):
            execute(step, target, tag(), Mode.MIRROR, known=known)

    assert [field.name for field in target.fields(shape.name)] == ["foreign"]


def test_a_load_whose_rows_do_not_fit_commits_none_of_them(target: Target, tmp_path: Path) -> None:
    shape = table("unfit")
    execute(Create(shape, 1), target, tag(), Mode.MIRROR)
    rows: list[dict[str, Any]] = [{"id": 1, "name": "a"}, {"id": None, "name": "b"}]
    fill, step = (
        Fill(shape, (stage(tmp_path, shape, [change(5, n, None, row) for n, row in enumerate(rows)]),), 5),
        tag(),
    )

    for _ in range(2):  # the second time is after a crash
        with pytest.raises(StepImpossible, match="rows do not fit: column id"):
            execute(fill, target, step, Mode.MIRROR)

    assert rows_of(target, "unfit") == []
