"""The last change of every key: ties, moves and what is missing."""

from __future__ import annotations

from itertools import pairwise, permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sync.memory_target import MemoryTarget
from sync.reduce import Change, last_changes
from sync.upstream import column
from tidewire.model import Position, Row, TableName, TableSchema, Value
from tidewire.sync.manifest import Partition, StagedFile
from tidewire.sync.steps import Create, Merge, Slice


def change(ts: int, before: Row | None, after: Row | None, offset: int = 0, sub: int = 0) -> Change:
    return Change(ts, Position("t", 0, offset), sub, before, after)


ONE: Row = {"id": 1, "v": "a"}
ONE_NEW: Row = {"id": 1, "v": "b"}
TWO: Row = {"id": 2, "v": "a"}
MOVED_ONE: Row = {"id": 2, "v": "was one"}
MOVED_TWO: Row = {"id": 1, "v": "was two"}


def test_a_later_change_wins_wherever_it_was_read() -> None:
    changes = [change(6, ONE, ONE_NEW, offset=1), change(5, None, ONE, offset=2)]

    assert last_changes(changes, ["id"]) == {(1,): ONE_NEW}


def test_a_delete_is_a_change_too() -> None:
    assert last_changes([change(5, None, ONE), change(6, ONE, None)], ["id"]) == {(1,): None}


@pytest.mark.parametrize("offsets", [(1, 2), (2, 1)])
def test_at_one_ts_a_row_wins_over_a_delete(offsets: tuple[int, int]) -> None:
    changes = [change(5, ONE, None, offsets[0]), change(5, None, ONE_NEW, offsets[1])]

    assert last_changes(changes, ["id"]) == {(1,): ONE_NEW}


def test_rows_of_one_ts_go_by_offset_and_then_by_place_in_the_message() -> None:
    places = [(8, 1), (8, 0), (7, 9)]
    changes = [change(5, None, {"id": 1, "v": str(place)}, *place) for place in places]

    assert last_changes(changes, ["id"]) == {(1,): {"id": 1, "v": "(8, 1)"}}


def test_a_change_of_key_deletes_the_old_one_and_sets_the_new_one() -> None:
    assert last_changes([change(5, ONE, TWO)], ["id"]) == {(1,): None, (2,): TWO}


def test_an_old_key_that_is_not_told_did_not_change() -> None:
    assert last_changes([change(5, {"v": "a"}, ONE_NEW)], ["id"]) == {(1,): ONE_NEW}


def test_a_part_of_a_key_may_change_alone() -> None:
    new: Row = {"a": 1, "b": 3}

    assert last_changes([change(5, {"b": 2}, new)], ["a", "b"]) == {(1, 2): None, (1, 3): new}


@pytest.mark.parametrize("order", list(permutations(range(2))))
def test_two_rows_swap_keys_in_any_order(order: tuple[int, ...]) -> None:
    swap = [change(5, ONE, MOVED_ONE), change(5, TWO, MOVED_TWO)]

    assert last_changes([swap[number] for number in order], ["id"]) == {(1,): MOVED_TWO, (2,): MOVED_ONE}


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_split_halves_of_a_swap_arrive_in_any_order(order: tuple[int, ...]) -> None:
    halves: list[tuple[Row | None, Row | None]] = [(ONE, None), (TWO, None), (None, MOVED_ONE), (None, MOVED_TWO)]
    changes = [change(5, *halves[number], offset) for offset, number in enumerate(order)]

    assert last_changes(changes, ["id"]) == {(1,): MOVED_TWO, (2,): MOVED_ONE}


@settings(deadline=None)
@given(st.data())
def test_neither_the_order_nor_repetition_of_changes_matters(data: st.DataObject) -> None:
    rows: st.SearchStrategy[Row] = st.fixed_dictionaries({"id": st.integers(1, 3), "v": st.integers(0, 9)})
    images: st.SearchStrategy[tuple[Row | None, Row | None]] = st.one_of(
        st.tuples(st.none(), rows), st.tuples(rows, st.none()), st.tuples(rows, rows)
    )
    drawn = data.draw(st.lists(st.tuples(st.integers(1, 3), images), max_size=8))
    changes = [change(ts, old, new, offset) for offset, (ts, (old, new)) in enumerate(drawn)]
    shuffled = data.draw(st.permutations(changes + data.draw(st.sampled_from([[], changes]))))

    assert last_changes(shuffled, ["id"]) == last_changes(changes, ["id"])


def test_what_a_change_does_not_tell_is_what_it_was() -> None:
    stored: dict[tuple[Value, ...], Row] = {(1,): {"id": 1, "v": "stored", "w": "stored"}}
    changes = [change(5, None, {"id": 1, "v": "a"}), change(6, None, {"id": 1, "x": 7})]

    assert last_changes(changes, ["id"], stored) == {(1,): {"id": 1, "v": "a", "w": "stored", "x": 7}}


def test_nothing_is_left_of_a_row_that_was_deleted_in_between() -> None:
    stored: dict[tuple[Value, ...], Row] = {(1,): ONE}
    changes = [change(5, ONE, None), change(6, None, {"id": 1, "x": 7})]

    assert last_changes(changes, ["id"], stored) == {(1,): {"id": 1, "x": 7}}


@settings(deadline=None)
@given(st.data())
def test_where_batches_end_makes_no_difference(data: st.DataObject) -> None:
    part: st.SearchStrategy[Row] = st.fixed_dictionaries(
        {"id": st.integers(1, 2)}, optional={"v": st.integers(0, 9), "w": st.none() | st.integers(0, 9)}
    )
    images: st.SearchStrategy[tuple[Row | None, Row | None]] = st.one_of(
        st.tuples(st.none(), part), st.tuples(part, st.none()), st.tuples(part, part)
    )
    drawn = data.draw(st.lists(st.tuples(st.integers(1, 9), images), max_size=8))
    drawn.sort(key=lambda each: each[0])
    changes = [change(ts, old, new, offset) for offset, (ts, (old, new)) in enumerate(drawn)]
    # What happens at one ts is complete when it is merged.
    ends = sorted(data.draw(st.sets(st.sampled_from([each.ts for each in changes] or [1]))))
    columns = (column("id", "int", True), column("v", "int", default="3"), column("w", "int"))
    table = TableSchema(TableName("d", "t"), columns)

    def merged(*bounds: tuple[int, int]) -> dict[tuple[Value, ...], dict[str, Value]]:
        target = MemoryTarget(lambda piece: [each for each in changes if piece.from_ts < each.ts <= piece.to_ts])
        target.execute(Create(table, 0))
        file = StagedFile("", table, Partition("t", 0), 1, 0, 9, 0, 9)
        for bound in bounds:
            target.execute(Merge(table, (Slice(file, *bound),), bound[1]))
        return target.tables[table.name].rows

    assert merged(*pairwise([0, *ends, 10])) == merged((0, 10))


def test_rows_without_a_key_are_refused() -> None:
    with pytest.raises(ValueError, match="without a handle key"):
        last_changes([change(5, None, ONE)], [])


def test_a_row_that_lacks_its_key_is_refused_with_its_place() -> None:
    with pytest.raises(ValueError, match=r"t\[0\]@7 lacks the key column 'id'"):
        last_changes([change(5, None, {"v": 1}, offset=7)], ["id"])
