"""The target in memory: columns change step by step, values take their type, and nothing is lost in silence."""

from __future__ import annotations

from decimal import Decimal

import pytest

from sync.memory_target import MemoryTarget, cast
from sync.reduce import Change
from sync.scenes import SHAPE, T, shaped
from sync.upstream import column
from tidewire.ddl.column_steps import GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.model import Column, Date, EnumValue, Position, SetValue, TableName, TableSchema, Value
from tidewire.sync.manifest import Partition, StagedFile
from tidewire.sync.steps import Alter, Create, Drop, Merge, Rename, SetAside, Slice, Step

FILE = StagedFile("file", SHAPE, Partition("feed", 0), 1, 5, 5, 0, 0)


def target(*steps: Step) -> MemoryTarget:
    """A target whose staged file has one row, after some steps."""
    made = MemoryTarget(lambda _: [Change(5, Position("feed", 0, 0), 0, None, {"id": 1, "v": "7"})])
    for step in (Create(SHAPE, 1), Merge(SHAPE, (Slice(FILE, 0, 9),), 9), *steps):
        made.execute(step)
    return made


def test_columns_change_one_step_after_the_other() -> None:
    number, extra = column("v", "int"), column("x", "int", default="3")
    after = TableSchema(T, (extra, number, column("key", "int", True)))
    steps = (
        TypedColumn(SHAPE.columns[1], number),
        NewColumn(extra, ColumnPosition(first=True), "3"),
        NamedColumn("id", "key"),
        PlacedColumn("key", ColumnPosition(after="v")),
    )

    table = target(Alter(SHAPE, after, steps, 10)).tables[T]

    assert (table.names, table.key, table.rows) == (["x", "v", "key"], ("key",), {(1,): {"x": 3, "v": 7, "key": 1}})


def test_a_new_key_that_rows_share_is_refused_and_nothing_happens() -> None:
    made = target()
    made.tables[T].rows[(2,)] = {"id": 2, "v": "7"}
    by_value = TableSchema(T, (column("v", "varchar(20)", True),))

    with pytest.raises(ValueError, match="equal in their new key"):
        made.execute(Alter(SHAPE, by_value, (GoneColumn("id"),), 10))

    assert made.tables[T].names == ["id", "v"]


def test_a_step_is_taken_once() -> None:
    made = target(Drop(T, 10))

    assert made.execute(Create(SHAPE, 1)) is False
    assert made.tables == {}


def test_a_rename_onto_another_table_is_refused() -> None:
    other = TableName("d", "other")
    made = target(Create(shaped(other), 10))

    with pytest.raises(LookupError, match=r"d\.t cannot become d\.other"):
        made.execute(Rename(((T, other),), 11))


def test_a_step_on_a_table_that_is_not_there_is_refused() -> None:
    with pytest.raises(LookupError, match=r"there is no table d\.gone"):
        target(Rename(((TableName("d", "gone"), TableName("d", "new")),), 10))


def test_rejects_are_kept() -> None:
    assert target(SetAside(("a", "b"))).rejects == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "mysql_type", "expected"),
    [
        (None, "int", None),
        ("12", "bigint", 12),
        (Decimal("2.5"), "int", 3),
        ("1.005", "decimal(10,2)", Decimal("1.01")),
        (7, "varchar(9)", "7"),
        ("ab", "varbinary(9)", b"ab"),
        ("1.5", "double", 1.5),
        ("2024-02-29", "date", Date("2024-02-29")),
        ("b", "enum('a','b')", EnumValue(2)),
        ("a,c", "set('a','b','c')", SetValue(5)),
        (b"\x05", "bit(3)", 5),
    ],
)
def test_values_take_the_type_of_their_column(value: Value, mysql_type: str, expected: Value) -> None:
    assert cast(value, Column.of("c", mysql_type)) == expected
