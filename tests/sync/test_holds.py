"""Holds: what stops a table and nothing else, and the ways they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from sync.histories import Event, Message
from sync.scenes import P0, P1, SHAPE, Scene, T, ddl, put, row, shaped, watermark
from sync.upstream import column
from tidewire.ddl.edits import (
    AddColumn,
    AlterTable,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    Edit,
    Impossible,
    RenameTable,
    TruncateTable,
)
from tidewire.errors import SyncError, SyncStopped
from tidewire.model import Bootstrap, Position, TableName
from tidewire.sync import holds
from tidewire.sync.documents import encode
from tidewire.sync.holds import release, retry
from tidewire.sync.manifest import Manifest, Partition, Rejected
from tidewire.sync.plan import Planned
from tidewire.sync.policies import ChangeKind, DdlPolicy
from tidewire.sync.rules import Rules
from tidewire.sync.state import HoldKind, Loss, OnBad, State
from tidewire.sync.steps import Alter, Create, Drop, Merge, Step

A, B = TableName("d", "a"), TableName("d", "b")


class Trouble(Scene):
    """A scene in which some messages cannot be read."""

    def __init__(self, *partitions: Partition, schemas_first: bool = False) -> None:
        super().__init__(*partitions, schemas_first=schemas_first)
        self.settings = replace(self.settings, now="2026-01-01T00:00:00Z")
        self.bad: dict[Position, Rejected] = {}

    def spoil(
        self, table: TableName | None, ts: int | None, last: int | None = None, to: Partition = P0, *, lost: Event
    ) -> Position:
        """Write a message that cannot be read, and of which this much can be told."""
        at = Position(to.topic, to.number, len(self.topics[to]))
        self.send(to, lost)
        self.bad[at] = Rejected(at, "not JSON", 0, table, ts, last)
        return at

    def reject(self, at: Position, message: Message) -> Rejected | None:
        return self.bad.get(at)

    def read_again(self, at: Position) -> Planned:
        """Read one message once more; now it can be read."""
        del self.bad[at]
        return self.work(replace(self.next(), read={}, again=(at,)))

    def decide(self, change: Callable[[State], State]) -> Planned:
        """Change the state by hand, and go on."""
        self.document = encode(change(self.state))
        return self.read()


def trouble(*events: Event) -> Trouble:
    """A table with one row, another one, and a message of the first that cannot be read."""
    scene = Trouble()
    scene.flow(put(5, 1, "a"), put(5, 1, "a", shaped(A)), watermark(9))
    scene.spoil(T, 10, lost=put(10, 2, "bad"))
    scene.flow(put(11, 3, "c"), put(12, 2, "b", shaped(A)), *events, watermark(19))
    return scene


def test_a_bad_message_holds_its_table_and_the_others_go_on() -> None:
    scene = trouble()

    (hold,) = scene.state.holds
    assert (hold.ts, hold.table, hold.kind, hold.count) == (9, T, HoldKind.MESSAGE, 1)
    assert (hold.first_ts, hold.since) == (10, "2026-01-01T00:00:00Z")
    assert hold.id in hold.way_out
    assert "tidewire holds release TARGET" in hold.way_out
    assert (scene.table(), scene.table(A)) == ({1: "a"}, {1: "a", 2: "b"})
    assert scene.state.applied == 19


def test_a_hold_of_a_table_says_the_same_id_every_time() -> None:
    first, second = trouble().state.holds[0], trouble().state.holds[0]

    assert first.id == second.id == first.id.lower()
    assert first.id != replace(first, table=A).id != replace(first, at=Position("feed", 0, 99)).id


# Read again


def test_a_message_that_can_be_read_now_is_applied_in_order() -> None:
    scene = trouble(put(13, 2, "later"), ddl(15, AlterTable(T, (AddColumn(column("n", "int", default="7")),))))
    (hold,) = scene.state.holds

    planned = scene.read_again(hold.at)

    assert not planned.state.holds
    assert scene.full() == [{"id": 1, "v": "a", "n": 7}, {"id": 2, "v": "later", "n": 7}, {"id": 3, "v": "c", "n": 7}]


def test_each_bad_message_has_its_own_hold_and_the_earliest_limits_the_table() -> None:
    scene = trouble()
    scene.spoil(T, 21, lost=put(21, 4, "bad too"))
    scene.flow(put(22, 5, "e"), watermark(29))
    first, second = scene.state.holds
    assert scene.table() == {1: "a"}

    scene.read_again(first.at)
    assert scene.table() == {1: "a", 2: "bad", 3: "c"}
    scene.read_again(second.at)

    assert scene.table() == {1: "a", 2: "bad", 3: "c", 4: "bad too", 5: "e"}


def test_a_later_hold_that_ends_first_changes_nothing() -> None:
    scene = trouble()
    scene.spoil(T, 21, lost=put(21, 4, "bad too"))
    scene.flow(watermark(29))

    scene.read_again(scene.state.holds[1].at)

    assert [hold.first_ts for hold in scene.state.holds] == [10]
    assert scene.table() == {1: "a"}


def test_so_many_bad_messages_have_holds_and_the_last_one_stands_for_the_rest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(holds, "MOST", 3)
    scene = trouble()
    for number in range(5):
        scene.spoil(T, 25 - number, lost=put(25 - number, 4, "bad"))
    scene.spoil(A, 30, lost=put(30, 4, "bad", shaped(A)))
    scene.flow(watermark(39))

    assert [(hold.table, hold.ts, hold.count) for hold in scene.state.holds] == [
        (T, 9, 1),
        (T, 24, 1),
        (T, 20, 4),
        (A, 29, 1),
    ]
    last = scene.state.holds[2]
    assert last.way_out == f"tidewire holds release TARGET {last.id} to go on without these 4 messages"
    scene.read_again(last.at)
    assert last in scene.state.holds
    scene.decide(lambda state: release(state, last.id, "now"))
    assert [hold.ts for hold in scene.state.holds] == [9, 24, 29]


def test_many_bad_messages_take_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    state = trouble().state
    bad = tuple(Rejected(Position("feed", 0, 100 + n), "bad", 0, T, 100 + n) for n in range(5_000))

    found = Trouble().plan(state, Manifest(9, rejected=bad)).state

    assert len(found.holds) == holds.MOST
    assert sum(hold.count for hold in found.holds) == 5_001
    assert found.rejected == 5_001


# Sent again


def test_a_hold_ends_when_the_producer_has_sent_the_message_again() -> None:
    scene = trouble()

    scene.flow(watermark(9), put(10, 2, "right"), put(11, 3, "c"), put(12, 2, "b", shaped(A)))
    (hold,) = scene.state.holds
    assert (hold.fell, hold.resent) == (True, None)
    planned = scene.flow(watermark(10))

    assert not planned.state.holds
    assert scene.table() == {1: "a", 2: "right", 3: "c"}


def test_a_restart_after_the_message_does_not_end_its_hold() -> None:
    scene = trouble()

    scene.flow(watermark(29))
    scene.flow(watermark(15), put(16, 4, "d"), watermark(29))

    assert len(scene.state.holds) == 1


def test_a_restart_before_the_message_does_not_end_its_hold() -> None:
    scene = Trouble()
    scene.flow(put(5, 1, "a"), watermark(30))
    scene.send(P0, watermark(9), watermark(12))
    scene.spoil(T, 40, lost=put(40, 2, "bad"))

    scene.flow(watermark(50))

    assert [hold.fell for hold in scene.state.holds] == [False]


def test_a_message_may_be_sent_again_to_another_partition() -> None:
    scene = Trouble(P0, P1)
    scene.send(P0, put(5, 1, "a"))
    scene.everywhere(watermark(9))
    scene.spoil(T, 10, lost=put(10, 2, "bad"))
    scene.everywhere(watermark(19))
    scene.read()
    scene.send(P1, watermark(9), put(10, 2, "right"), watermark(19))
    scene.send(P0, watermark(9), watermark(19))

    planned = scene.read(P0)
    assert [hold.resent for hold in planned.state.holds] == [{P0: 6, P1: 5}]
    scene.read(P1)

    assert not scene.state.holds
    assert scene.table() == {1: "a", 2: "right"}


def test_all_rows_of_the_message_must_have_been_sent_again() -> None:
    scene = Trouble()
    scene.flow(put(5, 1, "a"), watermark(9))
    scene.spoil(T, 10, 20, lost=put(10, 2, "bad"))
    scene.flow(watermark(29))

    scene.flow(watermark(9), put(10, 2, "right"), watermark(15))
    assert scene.state.holds
    scene.flow(put(20, 3, "right too"), watermark(20))

    assert not scene.state.holds
    assert scene.table() == {1: "a", 2: "right", 3: "right too"}


def test_a_bad_ddl_holds_all_tables_until_it_is_sent_again() -> None:
    scene = Trouble()
    scene.flow(put(5, 1, "a"), put(5, 1, "a", shaped(A)), watermark(9))
    rename = ddl(10, RenameTable(T, B), table=B)
    scene.spoil(None, 10, lost=rename)
    scene.flow(put(11, 2, "b", shaped(B)), put(11, 2, "b", shaped(A)), watermark(19))
    assert (scene.table(), scene.table(A), scene.table(B)) == ({1: "a"}, {1: "a"}, None)

    scene.flow(watermark(9), watermark(10))
    assert [hold.table for hold in scene.state.holds] == [
        None
    ]  # the classic server sends a watermark before the DDL of its ts
    scene.flow(rename, put(11, 2, "b", shaped(B)), watermark(19))

    assert not scene.state.holds
    assert (scene.table(), scene.table(A), scene.table(B)) == (None, {1: "a", 2: "b"}, {1: "a", 2: "b"})


def test_a_ddl_that_is_bad_again_and_has_no_commit_ts_holds_all_tables_where_they_are() -> None:
    scene = Trouble()
    scene.flow(put(5, 1, "a"), watermark(9))
    truncate = ddl(10, TruncateTable(T))
    scene.spoil(None, 10, lost=truncate)
    scene.flow(put(11, 2, "b"), watermark(19))

    scene.send(P0, watermark(9))
    at = scene.spoil(None, None, lost=truncate)
    scene.flow(put(11, 2, "b"), watermark(19))

    assert [(hold.at, hold.ts) for hold in scene.state.holds] == [(at, 9)]
    scene.read_again(at)
    assert scene.table() == {2: "b"}


def test_a_bad_ddl_of_a_held_table_is_awaited_also_if_its_watermark_comes_first() -> None:
    scene = trouble()
    truncate = ddl(15, TruncateTable(T))
    scene.send(P0, watermark(9))
    scene.spoil(T, 10, lost=put(10, 2, "bad"))
    scene.spoil(None, 15, lost=truncate)
    scene.flow(watermark(19))
    assert {hold.table for hold in scene.state.holds} == {T}

    scene.flow(watermark(9), put(10, 2, "right"), put(11, 3, "c"), watermark(15))
    assert [hold.first_ts for hold in scene.state.holds] == [15]
    scene.flow(truncate, put(16, 4, "d"), watermark(19))

    assert not scene.state.holds
    assert scene.table() == {4: "d"}


def test_a_database_is_not_dropped_before_a_table_in_it_of_which_only_a_bad_message_told() -> None:
    scene = Trouble()
    at = scene.spoil(T, 5, lost=put(5, 1, "bad"))
    drop = ddl(10, DropDatabase("d"), table=TableName("d", ""))

    scene.flow(drop, ddl(12, CreateTable(shaped(A)), table=A), put(13, 1, "a", shaped(A)), watermark(19))
    assert scene.target.tables == {}
    scene.read_again(at)

    assert scene.target.tables.keys() == {A}


def test_without_a_commit_ts_a_hold_ends_by_release_after_the_replay() -> None:
    scene = Trouble()
    scene.flow(put(5, 1, "a"), watermark(9))
    scene.spoil(T, None, lost=put(10, 2, "bad"))
    scene.flow(put(11, 3, "c"), watermark(19))
    scene.flow(watermark(9), put(10, 2, "right"), put(11, 3, "c"), watermark(19))
    (hold,) = scene.state.holds
    assert (hold.ts, scene.table()) == (9, {1: "a"})

    scene.decide(lambda state: release(state, hold.id, "now"))

    assert scene.table() == {1: "a", 2: "right", 3: "c"}


@pytest.mark.parametrize(("table", "ts"), [(T, None), (None, None), (None, 10)])
def test_a_message_that_is_bad_again_and_tells_less_holds_its_table_none_the_less(
    table: TableName | None, ts: int | None
) -> None:
    scene = trouble()
    scene.send(P0, watermark(9))
    at = scene.spoil(table, ts, lost=put(10, 2, "bad"))

    scene.flow(put(11, 3, "c"), watermark(19))

    assert {hold.at for hold in scene.state.holds} == {at}
    assert [hold.ts for hold in scene.state.holds if hold.table == T] == [9]
    assert scene.table() == {1: "a"}
    scene.read_again(at)
    assert not scene.state.holds
    assert scene.table() == {1: "a", 2: "bad", 3: "c"}


def test_one_release_gives_up_a_message_for_all_tables_that_it_holds() -> None:
    scene = trouble()
    unknown = scene.spoil(None, None, lost=put(20, 4, "lost"))
    scene.flow(put(21, 5, "e", shaped(A)), watermark(29))
    several = [hold for hold in scene.state.holds if hold.at == unknown]
    assert {hold.table for hold in several} == {None, T}

    scene.decide(lambda state: release(state, several[0].id, "2026-01-02T00:00:00Z"))

    assert [hold.table for hold in scene.state.holds] == [T]
    assert unknown not in {hold.at for hold in scene.state.holds}
    assert scene.table(A) == {1: "a", 2: "b", 5: "e"}


def test_a_bad_message_in_a_new_partition_takes_nothing_back_from_its_table() -> None:
    scene = Trouble()
    scene.flow(put(10, 1, "old"), put(15, 1, "new"), watermark(20))
    scene.send(P1, put(25, 2, "b"))
    scene.spoil(T, None, to=P1, lost=put(26, 3, "bad"))
    scene.read()
    scene.flow(watermark(5), put(10, 1, "old"), watermark(12))

    (hold,) = scene.state.holds
    assert hold.ts == 19
    scene.decide(lambda state: release(state, hold.id, "now"))
    scene.everywhere(watermark(30))
    scene.read()

    assert scene.table() == {1: "new", 2: "b"}


def test_rows_that_cannot_be_applied_hold_their_table_after_what_it_has() -> None:
    scene = objected(lambda step: None, put(15, 1, "new"))
    scene.settings = replace(scene.settings, check=objecting(Merge))
    scene.send(P0, put(10, 1, "old"), put(25, 2, "b"), watermark(29))
    batch = scene.next()

    planned = scene.plan(scene.state, scene.stage(State("older"), batch))

    assert [(hold.table, hold.ts) for hold in planned.state.holds] == [(T, 18)]


def test_a_message_that_is_bad_again_holds_from_its_new_place() -> None:
    scene = trouble()
    scene.send(P0, watermark(9))
    at = scene.spoil(T, 10, lost=put(10, 2, "bad"))

    scene.flow(put(11, 3, "c"), watermark(19))

    assert [hold.at for hold in scene.state.holds] == [at]
    assert scene.table() == {1: "a"}


def test_rows_that_were_staged_for_a_held_table_are_replays_once_it_goes_on() -> None:
    scene = trouble()
    (hold,) = scene.state.holds
    staged = scene.state
    scene.read_again(hold.at)
    scene.send(P0, put(10, 2, "old"))

    manifest = scene.stage(staged, scene.next())
    planned = scene.plan(scene.state, manifest)

    assert [file.min_ts for file in manifest.files] == [10]
    assert planned.steps == ()
    assert planned.done == manifest.files


def test_a_replayed_row_without_its_schema_keeps_its_table_and_no_other() -> None:
    scene = Trouble(schemas_first=True)
    own, other = shaped(T, 1), shaped(A, 1)
    scene.flow(Bootstrap(own), Bootstrap(other), put(5, 1, "a", own), put(5, 1, "a", other), watermark(9))
    newer = shaped(T, 2)
    scene.spoil(T, 10, lost=put(10, 2, "bad", newer))
    scene.flow(watermark(19))

    scene.flow(watermark(9), put(10, 2, "right", newer), put(20, 2, "b", other), watermark(29))
    assert (scene.state.applied, len(scene.state.parked), scene.state.holds) == (29, 1, ())
    assert (scene.table(), scene.table(A)) == ({1: "a"}, {1: "a", 2: "b"})
    scene.flow(Bootstrap(newer))

    assert scene.table() == {1: "a", 2: "right"}


def test_skip_passes_over_messages_that_come_while_it_is_set_and_keeps_holds() -> None:
    scene = trouble()
    scene.settings = replace(scene.settings, on_bad=OnBad.SKIP)
    scene.spoil(A, 21, lost=put(21, 3, "bad", shaped(A)))
    scene.flow(put(22, 4, "d", shaped(A)), watermark(29))

    assert [hold.table for hold in scene.state.holds] == [T]
    assert (scene.table(), scene.table(A)) == ({1: "a"}, {1: "a", 2: "b", 4: "d"})


@pytest.mark.parametrize("on_bad", [OnBad.HOLD, OnBad.STOP])
@pytest.mark.parametrize("sent_again", [True, False])
def test_a_row_that_is_staged_and_given_up_does_not_hold_its_table_once_more(sent_again: bool, on_bad: OnBad) -> None:
    scene = trouble()
    (hold,) = scene.state.holds
    if sent_again:
        scene.flow(watermark(9), put(10, 2, "right"), put(11, 3, "c"), watermark(19))
    else:
        scene.decide(lambda state: release(state, hold.id, "now"))
    scene.settings = replace(scene.settings, on_bad=on_bad)

    bad = Rejected(hold.at, "does not fit", 0, T, 10)  # its row was staged, and is only now found to be bad
    planned = scene.plan(scene.state, Manifest(9, rejected=(bad,)))

    assert not planned.state.holds


# Statements that cannot be done


def objecting(
    kind: type[Step], table: TableName = T, reason: str = "cannot be converted"
) -> Callable[[Step], str | None]:
    """A check that objects to one kind of step."""
    return lambda step: reason if isinstance(step, kind) and table in step.tables else None


ADD = AlterTable(T, (AddColumn(column("n", "int")),))


def objected(check: Callable[[Step], str | None], *events: Event) -> Trouble:
    """A scene with three tables in which one step cannot be done."""
    scene = Trouble()
    scene.flow(put(5, 1, "a"), put(5, 1, "a", shaped(A)), put(5, 1, "b", shaped(B)), watermark(9))
    scene.settings = replace(scene.settings, check=check)
    scene.flow(*events, watermark(19))
    return scene


def test_a_statement_that_cannot_be_done_holds_its_table_before_it() -> None:
    scene = objected(objecting(Alter), put(10, 2, "b"), ddl(12, ADD), put(13, 3, "c"), put(13, 2, "b", shaped(A)))

    (hold,) = scene.state.holds
    assert (hold.ts, hold.table, hold.kind) == (11, T, HoldKind.STATEMENT)
    assert hold.reason.startswith("cannot be converted: (AlterTable(")
    assert (scene.table(), scene.table(A)) == ({1: "a", 2: "b"}, {1: "a", 2: "b"})
    assert len(scene.state.queue) == 1
    assert scene.state.tables[T] == SHAPE


def test_nothing_of_a_group_is_done_if_one_of_its_steps_cannot() -> None:
    swap = [ddl(12, RenameTable(T, A), table=A), ddl(12, RenameTable(A, T), table=T)]
    scene = objected(objecting(Drop, B), *swap, ddl(12, DropTable(B), table=B), put(13, 9, "z", shaped(A)))

    assert [(hold.table, hold.ts) for hold in scene.state.holds] == [(B, 11)]
    assert (scene.table(), scene.table(A), scene.table(B)) == ({1: "a"}, {1: "a"}, {1: "b"})
    scene.settings = replace(scene.settings, check=lambda step: None)
    scene.decide(lambda state: retry(state, state.holds[0].id))
    assert (scene.table(), scene.table(A), scene.table(B)) == ({1: "a"}, {1: "a", 9: "z"}, None)
    assert not scene.state.queue


def test_a_statement_is_not_tried_again_before_a_retry() -> None:
    asked = []

    def check(step: Step) -> str | None:
        asked.append(step)
        return "no" if isinstance(step, Alter) else None

    scene = objected(check, ddl(12, ADD))
    before = len(asked)

    scene.flow(watermark(29))
    assert len(asked) == before
    scene.decide(lambda state: retry(state, state.holds[0].id))

    assert len(asked) == before + 1
    assert len(scene.state.holds) == 1


@pytest.mark.parametrize(
    ("kind", "edit", "table", "tables"),
    [
        (Alter, AlterTable(T, (DropColumn("v"),)), T, {T: {1: "a", 2: "b"}, A: {1: "a"}, B: {1: "b"}}),
        (Drop, DropTable(T), T, {T: {1: "a", 2: "b"}, A: {1: "a"}, B: {1: "b"}}),
        (Drop, DropDatabase("d"), T, {T: {1: "a", 2: "b"}}),
    ],
)
def test_a_release_passes_over_a_statement_for_one_table(
    kind: type[Step], edit: Edit, table: TableName, tables: dict[TableName, object]
) -> None:
    scene = objected(objecting(kind, table), ddl(12, edit, table=table), put(13, 2, "b"))
    (hold,) = scene.state.holds
    assert scene.table() == {1: "a"}

    scene.decide(lambda state: release(state, hold.id, "2026-01-02"))

    assert {name: scene.table(name) for name in (T, A, B) if name in scene.target.tables} == tables
    assert scene.state.losses == (Loss(T, hold.at, 11, hold.reason, "2026-01-02"),)
    assert (scene.state.queue, scene.state.passed_over, scene.state.holds) == ((), (), ())
    scene.flow(watermark(9), ddl(12, edit, table=table), watermark(29))
    assert not scene.state.holds


def test_a_statement_that_no_message_tells_can_be_released() -> None:
    scene = trouble()
    scene.decide(lambda state: release(state, state.holds[0].id, "now"))
    scene.flow(ddl(20, Impossible(None, "rows go"), query="ALTER ..."), put(21, 4, "d"), watermark(29))
    (hold,) = scene.state.holds
    assert (hold.kind, hold.table, scene.state.applied) == (HoldKind.STATEMENT, None, 19)

    scene.decide(lambda state: release(state, hold.id, "now"))

    assert scene.table() == {1: "a", 3: "c", 4: "d"}
    assert [loss.reason for loss in scene.state.losses] == ["not JSON", "rows go: ALTER ..."]


# Rows that cannot be applied


def test_rows_that_cannot_be_applied_hold_their_table_before_the_first_of_them() -> None:
    scene = objected(objecting(Merge), put(12, 2, "b"), put(13, 2, "b", shaped(A)), put(14, 3, "c"))

    (hold,) = scene.state.holds
    assert (hold.ts, hold.table, hold.kind, hold.at.offset) == (11, T, HoldKind.ROWS, 4)
    assert (scene.table(), scene.table(A)) == ({1: "a"}, {1: "a", 2: "b"})
    scene.settings = replace(scene.settings, check=lambda step: None)
    scene.flow(put(21, 4, "d"), watermark(29))
    assert scene.table() == {1: "a"}
    scene.decide(lambda state: retry(state, hold.id))
    assert scene.table() == {1: "a", 2: "b", 3: "c", 4: "d"}


def test_a_release_gives_up_the_rows_that_cannot_be_applied() -> None:
    scene = objected(objecting(Merge), put(12, 2, "b"))
    scene.settings = replace(scene.settings, check=lambda step: None)
    scene.flow(put(21, 3, "c"), watermark(29))
    (hold,) = scene.state.holds

    scene.decide(lambda state: release(state, hold.id, "now"))

    assert scene.table() == {1: "a", 3: "c"}
    assert [loss.ts for loss in scene.state.losses] == [11]


def test_a_table_that_rows_would_make_is_not_made_if_it_cannot() -> None:
    new = TableName("d", "new")
    scene = objected(objecting(Create, new), put(12, 1, "x", shaped(new)), put(13, 2, "b"))

    assert [(hold.table, hold.ts) for hold in scene.state.holds] == [(new, 11)]
    assert new not in scene.state.tables
    assert new not in scene.state.target_tables
    assert scene.table() == {1: "a", 2: "b"}


def test_rows_in_offset_order_hold_their_partition() -> None:
    scene = Trouble(P0, P1)
    scene.settings = replace(scene.settings, has_watermarks=False, check=objecting(Merge))
    scene.send(P0, put(0, 1, "a"))
    scene.send(P1, put(0, 2, "b"), put(1, 3, "c"))

    scene.read()
    assert [(hold.ts, hold.at.partition) for hold in scene.state.holds] == [(-1, 0), (-1, 1)]
    scene.settings = replace(scene.settings, check=lambda step: None)
    scene.decide(lambda state: retry(state, state.holds[0].id))
    assert scene.table() == {1: "a"}
    scene.send(P1, put(2, 4, "d"))
    scene.decide(lambda state: release(state, state.holds[0].id, "now"))

    assert scene.table() == {1: "a", 4: "d"}


@pytest.mark.parametrize("event", [ddl(22, ADD), put(22, 2, "b")])
def test_with_stop_what_cannot_be_done_stops_the_sync(event: Event) -> None:
    scene = objected(lambda step: None)
    scene.settings = replace(scene.settings, check=lambda step: "no", on_bad=OnBad.STOP)

    with pytest.raises(SyncStopped, match="no"):
        scene.flow(event, watermark(29))


# What is refused


def test_a_policy_hold_cannot_be_released_and_says_which_option_to_change() -> None:
    scene = Trouble()
    scene.settings = replace(scene.settings, rules=Rules(ddl={ChangeKind.TRUNCATE_TABLE: DdlPolicy.FREEZE}))
    scene.flow(put(5, 1, "a"), ddl(10, TruncateTable(T)), watermark(19))
    (hold,) = scene.state.holds

    with pytest.raises(SyncError, match=r"cannot be released.*change the option"):
        release(scene.state, hold.id, "now")
    with pytest.raises(SyncError, match="asked again in every pass: change the option"):
        retry(scene.state, hold.id)
    assert "set ddl.truncate-table to evolve" in hold.reason
    scene.settings = replace(scene.settings, now="later")
    assert scene.flow(watermark(29)).state.holds == (hold,)


def test_an_unknown_hold_is_refused_by_its_id() -> None:
    with pytest.raises(SyncError, match="there is no hold 1234"):
        release(State("s"), "1234", "now")
    with pytest.raises(SyncError, match="there is no hold 1234"):
        retry(State("s"), "1234")


def test_a_message_is_not_retried_by_changing_the_state() -> None:
    state = trouble().state

    with pytest.raises(SyncError, match="about a message"):
        retry(state, state.holds[0].id)


def test_the_newest_losses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holds, "LOSSES", 2)
    scene = trouble()
    for ts in (20, 21):
        scene.spoil(T, ts, lost=put(ts, ts, "bad"))
    scene.flow(watermark(29))

    for number, hold in enumerate(scene.state.holds):
        scene.decide(lambda state, hold=hold, number=number: release(state, hold.id, str(number)))  # type: ignore[misc]

    assert [loss.released for loss in scene.state.losses] == ["1", "2"]


def test_a_table_that_its_ddl_made_stays_away_while_its_create_cannot_be_done() -> None:
    new = TableName("d", "new")
    scene = objected(objecting(Create, new), ddl(12, CreateTable(shaped(new)), table=new), put(13, 1, "x", shaped(new)))

    (hold,) = scene.state.holds
    assert (hold.table, hold.kind, hold.ts) == (new, HoldKind.STATEMENT, 11)
    scene.settings = replace(scene.settings, check=lambda step: None)
    scene.decide(lambda state: retry(state, hold.id))
    assert scene.table(new) == {1: "x"}


def test_a_row_change_of_a_held_table_is_a_replay_below_its_hold() -> None:
    scene = trouble()

    scene.flow(watermark(3), put(5, 1, "old"), row(5, None, {"id": 7, "v": "never"}), watermark(4))
    scene.read_again(scene.state.holds[0].at)

    assert scene.table() == {1: "a", 2: "bad", 3: "c"}
