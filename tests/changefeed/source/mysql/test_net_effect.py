"""The net effect of a transaction is what a reader needs to have the same rows, and no more."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidewire.changefeed.source.mysql.follower import Change, net_effect
from tidewire.model import Column, Row, TableName, TableSchema

KEYED = TableSchema.build(TableName("d", "t"), [Column.of("id", "int", primary_key=True), Column.of("v", "int")])
KEYLESS = TableSchema.build(TableName("d", "k"), [Column.of("v", "int")])

steps = st.lists(st.tuples(st.sampled_from(["put", "move", "drop"]), st.integers(0, 4), st.integers(0, 4)))


def history(start: dict[int, int], moves: list[tuple[str, int, int]]) -> tuple[list[Change], dict[int, int]]:
    """The changes a server would log for some steps, and the rows it has in the end."""
    held, changes = dict(start), []

    def row(key: int) -> Row | None:
        return {"id": key, "v": held[key]} if key in held else None

    for kind, key, other in moves:
        before = row(key)
        if kind == "put":
            held[key] = other
            changes.append(Change(KEYED, before, row(key)))
        elif kind == "drop" and before:
            del held[key]
            changes.append(Change(KEYED, before, None))
        elif kind == "move" and before and other not in held:
            held[other] = held.pop(key)
            changes.append(Change(KEYED, before, row(other)))
    return changes, held


@given(st.dictionaries(st.integers(0, 4), st.integers(0, 4)), steps)
def test_it_leads_to_the_same_rows_with_one_change_per_row(
    start: dict[int, int], moves: list[tuple[str, int, int]]
) -> None:
    changes, expected = history(start, moves)

    net = net_effect(changes)

    rows = {key: {"id": key, "v": value} for key, value in start.items()}
    for change in net:
        assert change.before != change.after
        if change.before is not None:
            assert rows.pop(change.before["id"]) == change.before  # type: ignore[arg-type]
        if change.after is not None:
            assert change.after["id"] not in rows
            rows[change.after["id"]] = dict(change.after)  # type: ignore[index, arg-type]
    assert rows == {key: {"id": key, "v": value} for key, value in expected.items()}
    keys = [(change.before or change.after or {})["id"] for change in net]
    assert len(keys) == len(set(keys))


def test_rows_without_a_key_are_all_kept_in_order() -> None:
    changes = [Change(KEYLESS, None, {"v": 1}), Change(KEYLESS, {"v": 1}, None), Change(KEYLESS, None, {"v": 1})]

    assert net_effect(changes) == changes
