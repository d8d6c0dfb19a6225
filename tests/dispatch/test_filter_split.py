"""UPDATEs that change a key, and what a transaction's rows come to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidewire.dispatch import changes_key, split
from tidewire.model import Column, Index, Op, Row, RowChange, TableName, TableSchema

COLUMNS = [
    Column.of("id", "bigint", primary_key=True),
    Column.of("a", "bigint", nullable=False),
    Column.of("b", "bigint", nullable=False),
    Column.of("c", "varchar(9)"),
    Column.of("d", "bigint"),
    Column.of("e", "bigint"),
    Column.of("v", "bigint"),
]
INDEXES = [
    Index("PRIMARY", ("id",), unique=True, primary=True),
    Index("ab", ("a", "b"), unique=True),
    Index("c", ("c",), unique=True, nullable=True),
    Index("de", ("d", "e"), unique=True, nullable=True),
    Index("v", ("v",)),
]
TABLE = TableSchema.build(TableName("test", "t"), COLUMNS, INDEXES)
ROW: Row = {"id": 1, "a": 2, "b": 3, "c": "x", "d": None, "e": 6, "v": 7}


def update(**changes: object) -> RowChange:
    after: Row = {**ROW, **changes}  # type: ignore[dict-item]
    return RowChange(TABLE, 9, before=ROW, after=after, start_ts=8, table_id=5)


@pytest.mark.parametrize(
    ("changes", "new", "classic"),
    [
        ({}, False, False),
        ({"v": 8}, False, False),
        ({"id": 2}, True, True),
        ({"a": 9}, True, True),
        ({"b": 9, "v": 1}, True, True),
        ({"c": "y"}, True, True),
        ({"c": None}, True, True),
        ({"d": 1}, False, True),
        ({"e": None}, False, True),
    ],
)
def test_an_update_is_split_when_it_changes_a_key(changes: dict[str, object], new: bool, classic: bool) -> None:
    change = update(**changes)

    assert changes_key(change) is new
    assert changes_key(change, classic=True) is classic
    assert len(split(change)) == (2 if new else 1)


def test_the_halves_have_one_image_each_and_all_the_rest() -> None:
    change = update(id=2)
    delete, insert = split(change)

    assert delete == replace(change, after=None)
    assert insert == replace(change, before=None)
    assert (delete.op, insert.op) == (Op.DELETE, Op.INSERT)


def test_the_classic_server_takes_null_for_the_text_null() -> None:
    row = {**ROW, "c": "null"}
    change = RowChange(TABLE, 9, before=row, after={**row, "c": None})

    assert changes_key(change)
    assert not changes_key(change, classic=True)


def test_flags_do_where_no_indexes_are_told() -> None:
    told = replace(TABLE, indexes=())
    one, other = (replace(update(**{name: 99}), table=told) for name in ("c", "d"))

    assert (changes_key(one), changes_key(one, classic=True)) == (True, True)
    assert (changes_key(other), changes_key(other, classic=True)) == (False, True)


def test_only_updates_are_split() -> None:
    for change in (RowChange(TABLE, 9, before=ROW), RowChange(TABLE, 9, after=ROW)):
        assert split(change) == (change,)
