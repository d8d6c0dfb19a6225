"""What can never be done is found out before it is kept, without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark.apply.staging import change, stage
from tidewire.arrow.policy import Policy, ZeroDates
from tidewire.ddl.column_steps import NewColumn, TypedColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import Mode, check
from tidewire.sync.steps import Alter, Create, Drop, Merge, Rename, SetAside, Step, Truncate

ID = Column.of("id", "int", primary_key=True)
NAME = Column.of("name", "varchar(20)")
NAMED = TableName("shop", "t")
TABLE = TableSchema(NAMED, (ID, NAME))


def altered(change: TypedColumn | NewColumn, *columns: Column) -> Alter:
    return Alter(TABLE, replace(TABLE, columns=(ID, *columns)), (change,), 5)


def retyped(old: str, new: str) -> Alter:
    column = Column.of("c", new)
    return altered(TypedColumn(Column.of("c", old), column), column)


def merged(folder: Path, wire: TableSchema, table: TableSchema = TABLE) -> Merge:
    row = {column.name: None for column in wire.columns}
    return Merge(table, (stage(folder, wire, [change(5, 1, None, row)]),), 5)


IMPOSSIBLE: list[tuple[Step, Mode, str]] = [
    (retyped("int", "datetime"), Mode.MIRROR, "column c: values of int cannot become datetime"),
    (retyped("time", "timestamp"), Mode.HISTORY, "column c: values of time cannot become timestamp"),
    (retyped("varchar(9)", "enum"), Mode.MIRROR, "the names of enum are not known"),
    (Alter(TABLE, replace(TABLE, columns=(NAME,)), (), 5), Mode.MIRROR, "neither a primary key"),
    (Alter(TABLE, replace(TABLE, columns=(NAME,)), (), 5), Mode.SCD2, "which mode scd2 needs"),
    (
        altered(NewColumn(Column.of("n", "int"), ColumnPosition(), "x")),
        Mode.MIRROR,
        "column n: 'x' is not a value of int",
    ),
    (Create(replace(TABLE, columns=(NAME,)), 1), Mode.MIRROR, "shop.t has neither a primary key"),
    (Create(replace(TABLE, columns=(ID, Column.of("_TW_x", "int"))), 1), Mode.HISTORY, "cannot be called _TW_x"),
    (
        Create(replace(TABLE, name=TableName("_tidewire_moving", "t")), 1),
        Mode.MIRROR,
        "_tidewire_moving is reserved for tidewire",
    ),
    (
        Create(replace(TABLE, name=TableName("_tidewire", "rejects")), 1),
        Mode.MIRROR,
        "_tidewire is reserved for tidewire",
    ),
    (
        Rename(((NAMED, TableName("_tidewire_dropped", "t")),), 3),
        Mode.MIRROR,
        "_tidewire_dropped is reserved for tidewire",
    ),
    (Rename(((NAMED, TableName("a", "b")), (TableName("a", "c"), TableName("a", "b"))), 3), Mode.MIRROR, "twice"),
]
FINE: list[tuple[Step, Mode]] = [
    (Create(TABLE, 1), Mode.SCD2),
    (Create(replace(TABLE, columns=(NAME,)), 1), Mode.HISTORY),
    (retyped("int", "varchar(20)"), Mode.MIRROR),
    (altered(NewColumn(Column.of("n", "int"), ColumnPosition(), "7"), Column.of("n", "int")), Mode.HISTORY),
    (Drop(NAMED, 3), Mode.MIRROR),
    (Truncate(TABLE, 3), Mode.SCD2),
    (Rename(((NAMED, TableName("a", "b")), (TableName("a", "b"), NAMED)), 3), Mode.MIRROR),
    (Rename((), 3), Mode.MIRROR),
    (SetAside(("file",)), Mode.MIRROR),
]


@pytest.mark.parametrize(("step", "mode", "reason"), IMPOSSIBLE, ids=lambda each: str(each)[:40])
def test_a_step_that_can_never_be_done_says_why(step: Step, mode: Mode, reason: str) -> None:
    found = check(step, mode)

    assert found is not None
    assert reason in found
    assert "\n" not in found


@pytest.mark.parametrize(("step", "mode"), FINE, ids=lambda each: str(each)[:40])
def test_nothing_speaks_against_other_steps(step: Step, mode: Mode) -> None:
    assert check(step, mode) is None


def test_rows_must_have_the_key_and_types_that_can_become_the_tables(tmp_path: Path) -> None:
    dated = replace(TABLE, columns=(ID, NAME, Column.of("d", "date")))
    vector = replace(dated, columns=(ID, NAME, Column.of("d", "vector(2)")))
    zero = replace(TABLE, columns=(ID, NAME, replace(Column.of("d", "date"), default="0000-00-00")))

    assert check(merged(tmp_path, TABLE), Mode.MIRROR) is None
    assert check(merged(tmp_path, TABLE, dated), Mode.MIRROR) is None
    keyless = merged(tmp_path, replace(TABLE, columns=(NAME,)))
    assert check(keyless, Mode.MIRROR) == "rows do not have column id, which is in the key"
    assert check(merged(tmp_path, vector, dated), Mode.MIRROR) == "column d: values of vector(2) cannot become date"
    assert check(merged(tmp_path, TABLE, zero), Mode.MIRROR) is None
    refused = check(merged(tmp_path, TABLE, zero), Mode.MIRROR, Policy(zero_dates=ZeroDates.REJECT))
    assert refused is not None
    assert "0000-00-00" in refused
