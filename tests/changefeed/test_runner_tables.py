"""What the runner keeps in mind: the replicated tables, and the rows of a transaction in the order they are sent."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from changefeed.pieces import table
from tidewire.changefeed.runner import Tables, Transaction
from tidewire.changefeed.source.mysql.follower import Change, net_effect
from tidewire.dispatch import split
from tidewire.model import Column, Ddl, DdlType, Op, Row, RowChange, TableName, TableSchema


def renamed(old: str, new: str) -> Ddl:
    after = table(new)
    return Ddl(after.name, 10, "RENAME …", DdlType.RENAME_TABLES, table_schema=after, old_name=TableName("test", old))


def names(tables: Tables) -> set[str]:
    return {name.table for name in tables}


def test_tables_can_change_names_with_each_other() -> None:
    tables = Tables([table("a"), table("b")])

    tables.follow([renamed("a", "b"), renamed("b", "a")])

    assert names(tables) == {"a", "b"}


def test_a_table_that_gets_a_name_nobody_wants_is_gone() -> None:
    tables = Tables([table("a"), table("b")])

    tables.follow([renamed("a", "tmp_a")], lambda name: not name.table.startswith("tmp"))

    assert names(tables) == {"b"}


def test_a_dropped_schema_takes_its_tables_along() -> None:
    tables = Tables([table("a"), table("b", schema="other")])

    tables.follow([Ddl(TableName("test", ""), 10, "DROP DATABASE test", DdlType.DROP_SCHEMA)])

    assert names(tables) == {"b"}


TABLE = TableSchema.build(
    TableName("test", "p"), [Column.of("id", "bigint", primary_key=True), Column.of("v", "bigint", nullable=True)]
)


def change(before: tuple[int, int] | None, after: tuple[int, int] | None, ts: int = 9) -> RowChange:
    images: list[Row | None] = [pair and dict(zip(("id", "v"), pair, strict=True)) for pair in (before, after)]
    return RowChange(TABLE, ts, before=images[0], after=images[1])


def sent(changes: Iterable[RowChange]) -> list[RowChange]:
    transaction = Transaction()
    rows = [row for each in changes for row in transaction.add(each, split(each))]
    return [*rows, *transaction.end()]


def ops(changes: Iterable[RowChange]) -> list[tuple[Op, object]]:
    return [(each.op, (each.after or each.before or {})["id"]) for each in changes]


def test_delete_halves_stay_and_insert_halves_come_last() -> None:
    changes = [change((40, 0), None), change((1, 0), (2, 0)), change((3, 0), (3, 8)), change(None, (50, 0))]

    assert ops(sent(changes)) == [(Op.DELETE, 40), (Op.DELETE, 1), (Op.UPDATE, 3), (Op.INSERT, 50), (Op.INSERT, 2)]


def test_halves_do_not_leave_their_transaction() -> None:
    changes = [change((1, 0), (2, 0), ts=9), change((2, 0), (2, 1), ts=10)]

    assert ops(sent(changes)) == [(Op.DELETE, 1), (Op.INSERT, 2), (Op.UPDATE, 2)]


@st.composite
def transactions(draw: st.DrawFn) -> tuple[dict[int, int], list[RowChange]]:
    """A table's rows, and the steps of a transaction on them."""
    rows = draw(st.dictionaries(st.integers(0, 4), st.integers(0, 3), max_size=4))
    now, steps = dict(rows), []
    for _ in range(draw(st.integers(0, 8))):
        key, value, target = draw(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 4)))
        if key not in now:
            steps.append(change(None, (key, value)))
            now[key] = value
        elif draw(st.booleans()):
            steps.append(change((key, now.pop(key)), None))
        elif target == key or target not in now:
            steps.append(change((key, now.pop(key)), (target, value)))
            now[target] = value
    return rows, steps


def applied(rows: dict[int, int], changes: Iterable[RowChange]) -> dict[int, int]:
    now = dict(rows)
    for each in changes:
        if each.before is not None:
            assert now.pop(each.before["id"]) == each.before["v"]  # type: ignore[arg-type]
        if each.after is not None:
            assert each.after["id"] not in now
            now[each.after["id"]] = each.after["v"]  # type: ignore[index, assignment]
    return now


@given(transaction=transactions())
def test_the_net_effect_in_order_is_the_effect_of_all_steps(
    transaction: tuple[dict[int, int], list[RowChange]],
) -> None:
    rows, steps = transaction
    net = net_effect(Change(TABLE, each.before, each.after) for each in steps)

    changes = [RowChange(TABLE, 9, before=each.before, after=each.after) for each in net]
    assert applied(rows, sent(changes)) == applied(rows, steps)
