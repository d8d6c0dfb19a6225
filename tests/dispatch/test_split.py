"""UPDATEs that change a key, and what a transaction's rows come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.dispatch import changes_key, net_changes, ordered, split
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


def ops(changes: Sequence[RowChange]) -> list[tuple[Op, object]]:
    return [(change.op, (change.after or change.before or {})["id"]) for change in changes]


def test_delete_halves_stay_and_insert_halves_come_last() -> None:
    inserted = RowChange(TABLE, 9, after={**ROW, "id": 50})
    deleted = RowChange(TABLE, 9, before={**ROW, "id": 40})
    changes = [deleted, update(id=2), update(v=8), inserted]

    assert ops(ordered(changes)) == [
        (Op.DELETE, 40),
        (Op.DELETE, 1),
        (Op.UPDATE, 1),
        (Op.INSERT, 50),
        (Op.INSERT, 2),
    ]
    assert [op for op, _ in ops(ordered([inserted, *changes], classic=True))] == [
        *(Op.DELETE, Op.DELETE, Op.UPDATE),
        *(Op.INSERT, Op.INSERT, Op.INSERT),
    ]
    assert ordered([inserted, deleted], classic=True) == (inserted, deleted)


PLAIN = TableSchema.build(
    TableName("test", "p"), [Column.of("id", "bigint", primary_key=True), Column.of("v", "bigint")]
)


def step(before: tuple[int, int] | None, after: tuple[int, int] | None, table: TableSchema = PLAIN) -> RowChange:
    images = [None if pair is None else dict(zip(("id", "v"), pair, strict=True)) for pair in (before, after)]
    return RowChange(table, 9, before=images[0], after=images[1])


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([step(None, (1, 1)), step((1, 1), (1, 2))], [step(None, (1, 2))]),
        ([step(None, (1, 1)), step((1, 1), None)], []),
        ([step((1, 1), (1, 2)), step((1, 2), (1, 3))], [step((1, 1), (1, 3))]),
        ([step((1, 1), (1, 2)), step((1, 2), None)], [step((1, 1), None)]),
        ([step((1, 1), None), step(None, (1, 2))], [step((1, 1), (1, 2))]),
        ([step((1, 1), (2, 1)), step((2, 1), (3, 1))], [step((1, 1), (3, 1))]),
        ([step(None, (5, 1)), step((2, 2), None)], [step((2, 2), None), step(None, (5, 1))]),
        ([step((2, 2), None), step((1, 1), (2, 1))], [step((2, 2), None), step((1, 1), (2, 1))]),
    ],
)
def test_a_row_has_one_change_in_a_transaction(steps: list[RowChange], expected: list[RowChange]) -> None:
    assert list(net_changes(steps)) == expected


def test_rows_that_cannot_be_told_apart_stay_as_they_are() -> None:
    keyless = TableSchema.build(TableName("test", "k"), [Column.of("id", "bigint"), Column.of("v", "bigint")])
    steps = [step(None, (1, 1), keyless), step(None, (1, 1), keyless), step((1, 1), None, keyless)]

    assert sorted(change.op for change in net_changes(steps)) == sorted(change.op for change in steps)


@st.composite
def transactions(draw: st.DrawFn) -> tuple[dict[int, int], list[RowChange]]:
    """A table's rows, and the steps of a transaction on them."""
    rows = draw(st.dictionaries(st.integers(0, 4), st.integers(0, 3), max_size=4))
    now, steps = dict(rows), []
    for _ in range(draw(st.integers(0, 8))):
        key, value, target = draw(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 4)))
        if key not in now:
            steps.append(step(None, (key, value)))
            now[key] = value
        elif draw(st.booleans()):
            steps.append(step((key, now.pop(key)), None))
        elif target == key or target not in now:
            steps.append(step((key, now.pop(key)), (target, value)))
            now[target] = value
    return rows, steps


def applied(rows: dict[int, int], changes: Sequence[RowChange]) -> dict[int, int]:
    now = dict(rows)
    for change in changes:
        if change.before is not None:
            assert now.pop(change.before["id"]) == change.before["v"]  # type: ignore[arg-type]
        if change.after is not None:
            assert change.after["id"] not in now
            now[change.after["id"]] = change.after["v"]  # type: ignore[index, assignment]
    return now


@given(transaction=transactions())
def test_the_net_effect_split_in_order_is_the_effect_of_all_steps(
    transaction: tuple[dict[int, int], list[RowChange]],
) -> None:
    rows, steps = transaction

    assert applied(rows, ordered(net_changes(steps))) == applied(rows, steps)
