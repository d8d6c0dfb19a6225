"""What a consumer meets and what it has to do about it, one situation at a time."""

from __future__ import annotations

from itertools import permutations

import pytest

from sync.histories import Event
from sync.scenes import P0, P1, P2, SHAPE, Scene, T, ddl, delete, put, row, shaped, watermark
from sync.upstream import column
from tidewire.ddl.edits import (
    AddColumn,
    AlterTable,
    CreateTable,
    DropTable,
    RenameTable,
    TruncateTable,
)
from tidewire.errors import SyncError
from tidewire.model import Bootstrap, TableName, TableSchema
from tidewire.sync.frontier import Frontier, Progress
from tidewire.sync.manifest import Partition, ReadRange
from tidewire.sync.plan import PlanSettings
from tidewire.sync.rules import Rules
from tidewire.sync.steps import Merge

A, B, C, D = (TableName("d", name) for name in "abcd")
WIDE = TableSchema(T, (*SHAPE.columns, column("n", "int", default="7")))
ADD_N = AlterTable(T, (AddColumn(WIDE.columns[-1]),))


# Watermarks


def test_a_watermark_that_falls_back_is_ignored() -> None:
    scene = Scene()
    scene.flow(put(10, 1, "a"), watermark(20))

    planned = scene.flow(watermark(5))

    assert planned.state.applied == 20
    assert planned.publication is None


def test_nothing_is_applied_before_every_partition_has_its_watermark() -> None:
    scene = Scene(P0, P1)
    scene.send(P0, put(10, 1, "a"), watermark(20))
    scene.send(P1, put(10, 2, "b"))

    assert scene.read().steps == ()
    scene.send(P1, watermark(20))
    planned = scene.read()

    assert [type(step) for step in planned.steps if isinstance(step, Merge)] == [Merge]
    assert scene.table() == {1: "a", 2: "b"}


def test_rows_above_the_watermark_stay_out_of_sight() -> None:
    scene = Scene()

    scene.flow(put(10, 1, "a"), put(30, 1, "b"), watermark(20))

    assert scene.table() == {1: "a"}
    scene.flow(watermark(30))
    assert scene.table() == {1: "b"}


def test_a_partition_that_exists_and_was_not_read_holds_everything() -> None:
    scene = Scene(P0, P1)
    scene.send(P0, put(10, 1, "a"), watermark(20))

    assert scene.read().state.applied == 0


def test_a_batch_without_anything_new_does_nothing() -> None:
    scene = Scene()
    scene.flow(put(10, 1, "a"), watermark(20))

    planned = scene.read()

    assert (planned.steps, planned.publication) == ((), None)


# Rows


def test_a_row_below_the_applied_watermark_is_a_replay() -> None:
    scene = Scene()
    scene.flow(put(10, 1, "a"), put(15, 1, "b"), watermark(20))

    assert scene.flow(put(10, 1, "a")).steps == ()
    assert scene.table() == {1: "b"}


def test_a_row_at_the_applied_watermark_is_applied() -> None:
    scene = Scene()
    scene.flow(put(10, 1, "a"), watermark(20))

    scene.flow(put(20, 2, "b"))

    assert scene.table() == {1: "a", 2: "b"}


def test_half_a_transaction_replayed_at_the_watermark_changes_nothing() -> None:
    scene = Scene()
    scene.flow(put(10, 1, "a"), delete(20, 1, "a"), put(20, 1, "b"), watermark(20))

    scene.flow(watermark(10), delete(20, 1, "a"))

    assert scene.table() == {1: "b"}


def test_rows_that_arrive_out_of_order_are_put_in_order() -> None:
    scene = Scene()

    scene.flow(put(12, 1, "b"), put(11, 1, "a"), watermark(20))

    assert scene.table() == {1: "b"}


def test_a_message_that_comes_twice_counts_once() -> None:
    scene = Scene()
    change = row(11, {"id": 1, "v": "a"}, {"id": 2, "v": "a"})

    scene.flow(put(10, 1, "a"), put(10, 1, "a"), change, change, watermark(20))

    assert scene.table() == {2: "a"}


def test_an_update_of_a_row_that_is_not_there_puts_it_there() -> None:
    scene = Scene()

    scene.flow(row(10, {"id": 1, "v": "a"}, {"id": 1, "v": "b"}), watermark(20))

    assert scene.table() == {1: "b"}


def test_a_delete_of_a_row_that_is_not_there_is_no_error() -> None:
    scene = Scene()

    scene.flow(delete(10, 1, "a"), watermark(20))

    assert scene.table() == {}


def test_columns_go_by_the_names_in_the_message() -> None:
    swapped = TableSchema(T, SHAPE.columns[::-1])
    scene = Scene()

    scene.flow(put(10, 1, "a"), row(11, None, {"v": "b", "id": 2}, swapped), watermark(20))

    assert scene.table() == {1: "a", 2: "b"}


def test_one_message_may_hold_several_tables_out_of_order() -> None:
    scene = Scene()
    scene.send_together(P0, put(12, 1, "late"), put(11, 1, "x", shaped(A)), put(11, 1, "early"))

    scene.flow(watermark(20))

    assert (scene.table(), scene.table(A)) == ({1: "late"}, {1: "x"})


def test_partitions_of_a_table_are_not_in_order_with_each_other() -> None:
    scene = Scene()

    scene.flow(put(15, 1, "p1"), put(14, 2, "p0"), watermark(14))
    assert scene.table() == {2: "p0"}
    scene.flow(watermark(15))
    assert scene.table() == {1: "p1", 2: "p0"}


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_halves_of_a_key_swap_come_from_two_partitions_in_any_order(order: tuple[int, ...]) -> None:
    scene = Scene(P0, P1)
    scene.send(P0, put(5, 1, "one"), put(5, 2, "two"))
    halves = [(P0, delete(10, 1, "one")), (P1, put(10, 1, "two")), (P1, delete(10, 2, "two")), (P0, put(10, 2, "one"))]
    for number in order:
        scene.send(*halves[number])
        scene.read(halves[number][0])

    scene.everywhere(watermark(10))
    scene.read()

    assert scene.table() == {1: "two", 2: "one"}


@pytest.mark.parametrize("turned", [False, True])
def test_delete_and_insert_of_a_key_in_one_transaction_come_in_any_order(turned: bool) -> None:
    scene = Scene()
    halves = [delete(10, 1, "a"), put(10, 1, "b")]

    scene.flow(put(5, 1, "a"), *(halves[::-1] if turned else halves), watermark(10))

    assert scene.table() == {1: "b"}


def test_a_row_whose_dispatch_column_changed_is_in_two_partitions() -> None:
    scene = Scene(P0, P1)
    scene.send(P0, put(10, 1, "a"))
    scene.send(P1, row(11, {"id": 1, "v": "a"}, {"id": 1, "v": "b"}))
    scene.send(P0, row(12, {"id": 1, "v": "b"}, {"id": 1, "v": "a again"}))
    scene.everywhere(watermark(20))

    scene.read(P1)
    scene.read(P0)

    assert scene.table() == {1: "a again"}


def test_a_row_may_be_in_every_partition() -> None:
    scene = Scene(P0, P1, P2)
    for ts, to in ((13, P0), (11, P1), (12, P2)):
        scene.send(to, put(ts, 1, f"at {ts}"))
    scene.everywhere(watermark(12))

    scene.read()

    assert scene.table() == {1: "at 12"}


# Restarts and crashes


def test_a_full_replay_changes_nothing() -> None:
    scene = Scene(P0, P1)
    story: list[Event] = [
        ddl(5, CreateTable(shaped(A)), table=A, query="create"),
        put(6, 1, "a", shaped(A)),
        ddl(7, TruncateTable(A), table=A, query="truncate"),
        put(8, 2, "b", shaped(A)),
        ddl(9, RenameTable(A, B), table=B, query="rename"),
        put(10, 3, "c", shaped(B)),
    ]
    scene.send(P0, *story)
    scene.everywhere(watermark(20))
    scene.read()

    scene.send(P0, watermark(1), *story)
    scene.everywhere(watermark(20))
    planned = scene.read()

    assert planned.steps == ()
    assert (scene.table(A), scene.table(B)) == (None, {2: "b", 3: "c"})


def scene_with_many_steps() -> Scene:
    scene = Scene(P0, P1)
    scene.send(P0, put(5, 1, "a", shaped(A)), put(5, 1, "b", shaped(B)), put(5, 1, "t"))
    swap = [ddl(10, RenameTable(A, B), table=B), ddl(10, RenameTable(B, A), table=A)]
    scene.send(P0, *swap, ddl(11, ADD_N), ddl(12, TruncateTable(A), table=A), put(13, 2, "new", shaped(A)))
    scene.everywhere(watermark(20))
    return scene


def test_a_crash_after_any_step_leaves_nothing_undone_and_nothing_done_twice() -> None:
    whole = scene_with_many_steps()
    steps = len(whole.read().steps)
    assert steps > 6

    for survived in range(steps + 1):
        scene = scene_with_many_steps()
        batch = scene.next()
        planned = scene.planned(batch)
        scene.execute(planned, survived)
        scene.execute(planned)
        assert scene.target.tables == whole.target.tables, survived


def test_a_crash_between_the_watermarks_of_two_partitions_loses_no_row() -> None:
    scene = Scene(P0, P1)
    scene.send(P0, put(10, 1, "a"), watermark(20))
    scene.read(P0)
    scene.send(P1, put(10, 2, "b"), watermark(20))
    batch = scene.next()
    scene.planned(batch)

    scene.work(batch)

    assert scene.table() == {1: "a", 2: "b"}


def test_the_same_batch_gives_the_same_plan() -> None:
    scene = scene_with_many_steps()
    state = scene.state
    manifest = scene.stage(state, scene.next())

    assert scene.plan(state, manifest) == scene.plan(scene.state, manifest)


# Topics and partitions


def test_a_topic_whose_last_table_went_holds_no_table_back() -> None:
    own = Partition("feed-a", 0)
    scene = Scene(P0, own)
    scene.send(own, put(5, 1, "a", shaped(A)), watermark(5), ddl(10, DropTable(A), table=A))
    scene.send(P0, watermark(5), put(12, 1, "t"), watermark(15), watermark(20))

    planned = scene.read()

    assert planned.state.applied == 20
    assert (scene.table(A), scene.table()) == (None, {1: "t"})


def test_a_topic_that_was_found_after_the_watermark_was_read_holds_it() -> None:
    own = Partition("feed-a", 0)
    scene = Scene(P0)
    scene.send(P0, watermark(20))
    scene.send(own, ddl(10, CreateTable(shaped(A)), table=A), put(11, 1, "a", shaped(A)))

    assert scene.read(P0).state.applied == 0
    scene.send(own, watermark(20))
    assert scene.read().state.applied == 20
    assert scene.table(A) == {1: "a"}


def test_a_topic_that_was_not_listed_brings_its_table_late_and_whole() -> None:
    own = Partition("feed-a", 0)
    scene = Scene(P0)
    scene.flow(put(10, 1, "t"), watermark(15), watermark(20))
    create = ddl(10, CreateTable(shaped(A)), table=A)
    scene.send(own, put(11, 1, "a", shaped(A)), create, watermark(15), put(16, 2, "b", shaped(A)), watermark(20))

    for _ in range(5):
        scene.work(scene.next_message(own))

    assert (scene.table(), scene.table(A)) == ({1: "t"}, {1: "a", 2: "b"})


def test_a_new_partition_stops_the_watermark_until_it_has_its_own() -> None:
    scene = Scene(P0)
    scene.flow(put(10, 1, "a"), watermark(20))
    scene.send(P1, put(25, 1, "b"))
    scene.send(P0, watermark(30))
    assert scene.read().state.applied == 20

    scene.send(P1, watermark(30))
    scene.read()

    assert scene.table() == {1: "b"}


def test_a_replay_into_a_new_partition_takes_nothing_back() -> None:
    scene = Scene(P0)
    scene.flow(put(10, 1, "a"), put(11, 1, "b"), watermark(20))
    scene.send(P1, put(10, 1, "a"), watermark(10))
    scene.read()

    scene.everywhere(watermark(30))
    scene.read()

    assert scene.table() == {1: "b"}


def test_partitions_of_one_number_in_two_topics_are_two() -> None:
    other = Partition("other", 0)
    scene = Scene(P0, other)
    scene.send(P0, put(10, 1, "a"), watermark(20))
    scene.send(other, put(10, 2, "b"))

    assert scene.read().state.applied == 0


@pytest.mark.parametrize("ranges", [[(4, 5)], [(2, 5)], [(3, 4), (5, 6)], [(3, 5), (4, 6)]])
def test_offsets_that_are_missing_or_read_twice_are_refused(ranges: list[tuple[int, int]]) -> None:
    frontier = Frontier({P0: Progress(next=3)})

    with pytest.raises(SyncError, match=r"feed\[0\] was read from offset \d on, but the next offset is \d"):
        frontier.read({P0: [ReadRange(*each) for each in ranges]}, {}, applied=0)


def test_pieces_of_a_partition_are_joined_and_the_first_one_begins_anywhere() -> None:
    pieces = [ReadRange(9, 12, 30, 20), ReadRange(7, 9, 10)]

    frontier = Frontier().read({P0: pieces}, {P0: 12, P1: 0}, applied=5)

    assert frontier.partitions == {P0: Progress(12, 30, 20, 5), P1: Progress(joined_at=5)}


# Schemas that come late


def test_rows_before_their_schema_wait_and_hold_the_watermark() -> None:
    scene = Scene(P0, P1, schemas_first=True)
    one, two = shaped(A, 1), shaped(B, 1)
    scene.send(P1, put(10, 1, "a", one), put(11, 1, "b", two), put(12, 2, "a", one))
    scene.everywhere(watermark(20))
    assert scene.read().state.applied == 9

    scene.send(P0, Bootstrap(one))
    assert scene.read().state.applied == 10
    assert (scene.table(A), scene.table(B)) == ({1: "a"}, None)

    scene.send(P0, Bootstrap(two))
    assert scene.read().state.applied == 20
    assert (scene.table(A), scene.table(B)) == ({1: "a", 2: "a"}, {1: "b"})


def test_rows_of_a_table_that_is_not_followed_hold_no_table_back() -> None:
    scene = Scene(schemas_first=True)
    scene.rules = Rules(("d.*",))
    scene.settings = PlanSettings(rules=scene.rules)
    unknown, own = shaped(TableName("x", "t"), 1), shaped(T, 1)

    planned = scene.flow(Bootstrap(own), put(5, 1, "x", unknown), put(6, 1, "a", own), watermark(9))

    assert (planned.state.applied, planned.state.parked) == (9, ())
    assert scene.table() == {1: "a"}


# Without watermarks


def test_without_watermarks_offsets_are_the_order() -> None:
    scene = Scene()
    scene.settings = PlanSettings(has_watermarks=False)
    story = [put(0, 1, "a"), delete(1, 1, "a"), put(2, 1, "b")]
    scene.flow(*story)
    assert scene.table() == {1: "b"}

    scene.flow(*(event._replace(ts=event.ts + 3) for event in story))

    assert scene.table() == {1: "b"}
