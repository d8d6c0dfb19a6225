"""Without watermarks: rows and statements in the order of their offsets, replays, and several topics."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from sync.consumer import Batch, Consumer
from sync.histories import Event, Message
from sync.scenes import P0, SHAPE, Scene, T, ddl, put, row, shaped
from sync.upstream import DdlEvent, Entry, Habits, RowEvent, Upstream, column
from tidewire.ddl.edits import AddColumn, AlterTable, DropColumn, RenameColumn, RenameTable
from tidewire.model import TableName, TableSchema
from tidewire.sync.manifest import Partition
from tidewire.sync.plan import PlanSettings
from tidewire.sync.policies import ChangeKind, DdlPolicy
from tidewire.sync.rules import Rules
from tidewire.sync.state import HoldKind

A, B = TableName("d", "a"), TableName("d", "b")
OF_A, OF_B = Partition("feed-a", 0), Partition("feed-b", 0)


def scene(*partitions: Partition, statements: bool = True) -> Scene:
    """A scene without watermarks; a row's ts is its offset."""
    made = Scene(*partitions)
    made.settings = PlanSettings(has_watermarks=False, ddl=statements, understand=made.understand)
    return made


# Topics


@pytest.mark.parametrize("at_once", [True, False])
def test_rows_of_the_new_name_are_in_another_topic_and_have_small_offsets(at_once: bool) -> None:
    made = scene(OF_A, OF_B)
    made.send(OF_A, put(0, 1, "x", shaped(A)), put(1, 2, "y", shaped(A)), ddl(0, RenameTable(A, B), table=B))
    if not at_once:
        made.read()

    made.send(OF_B, put(0, 3, "z", shaped(B)))
    made.read()

    assert (made.table(A), made.table(B)) == (None, {1: "x", 2: "y", 3: "z"})


# Replays


def again(made: Scene, *events: Event) -> None:
    """Write and read events, each row with its offset for a ts."""
    at = len(made.topics[P0])
    made.flow(*(e._replace(ts=at + n) if isinstance(e, RowEvent) else e for n, e in enumerate(events)))


def test_a_replayed_rename_leaves_the_table_that_was_renamed() -> None:
    made = scene()
    rename = ddl(0, RenameTable(A, B), table=B)
    again(made, put(0, 1, "old", shaped(A)), put(0, 2, "x", shaped(A)), rename, put(0, 3, "z", shaped(B)))

    again(made, put(0, 2, "x", shaped(A)), rename, put(0, 3, "z", shaped(B)))

    assert (made.table(A), made.table(B)) == (None, {1: "old", 2: "x", 3: "z"})


@pytest.mark.parametrize(
    "changes",
    [
        (RenameColumn("v", "n"),),
        (AddColumn(column("n", "varchar(20)")), DropColumn("v")),
        (DropColumn("v"), AddColumn(column("n", "varchar(20)"))),
    ],
)
def test_a_replayed_alter_leaves_no_column_from_before_it(changes: tuple[AddColumn | DropColumn, ...]) -> None:
    made = scene()
    after = replace(SHAPE, columns=(SHAPE.columns[0], column("n", "varchar(20)")))
    story: list[Event] = [put(0, 1, "a"), ddl(0, AlterTable(T, changes)), row(0, None, {"id": 2, "n": "b"}, after)]
    again(made, *story)
    once = made.full()

    again(made, *story)

    assert made.full() == once
    assert made.target.tables[T].names == ["id", "n"]


def test_replayed_rows_by_the_name_that_a_key_had_before_are_passed_over() -> None:
    made = scene()
    after = replace(SHAPE, columns=(column("uid", "int", True), SHAPE.columns[1]))
    rename = ddl(0, AlterTable(T, (RenameColumn("id", "uid"),)))
    story: list[Event] = [put(0, 1, "a"), rename, row(0, None, {"uid": 1, "v": "b"}, after)]
    again(made, *story)

    again(made, *story)

    assert made.full() == [{"uid": 1, "v": "b"}]


class Replayed(Upstream):
    """An upstream whose replays converge: names of tables stay, because a name that was reused means two tables."""

    def _rename(self, entry: Entry) -> None:
        self._truncate(entry)


def offset_order(seed: int) -> str:
    """What is wrong with the tables of a history that was read in offset order, in pieces and with a replay."""
    random = Random(seed)
    upstream = Replayed(random, Habits(swaps=False, partial_old=seed % 3 == 0))
    upstream.live(random.choice((4, 8, 12)))
    events: list[RowEvent | DdlEvent] = []
    for entry in upstream.entries:
        events += [*entry.rows, *entry.ddls]
    died = random.randint(0, len(events))
    checkpoint = events[random.randint(0, max(died - 1, 0))].ts if events else 0
    sent = [*events[:died], *(event for event in events if event.ts >= checkpoint)]
    log = [
        Message(0.0, (event._replace(ts=offset) if isinstance(event, RowEvent) else event,))
        for offset, event in enumerate(sent)
    ]
    consumer = Consumer({P0: log})
    consumer.settings = PlanSettings(has_watermarks=False, understand=consumer.understand)
    cuts = sorted({0, len(log), *(random.randint(0, len(log)) for _ in range(3))})
    for number, part in enumerate(pairwise(cuts)):
        consumer.work(Batch(number, {P0: part}, {P0: len(log)}))
    made = {name: (set(table.names), table.rows) for name, table in consumer.target.tables.items()}
    told = {
        name: (set(table.columns), table.rows) for name, table in upstream.picture.items() if table.told or name in made
    }
    return "" if made == told else f"{seed}: the tables are {made}, not {told}; sent was {sent}"


def test_the_tables_equal_the_upstream_once_a_replay_has_been_read() -> None:
    # None of these has a column whose type changes twice so that its values do not fit the first change any more.
    wrong = [text for seed in range(300) if (text := offset_order(seed))]

    assert not wrong, wrong[0]


# Rows that tell of another key


def keyed(name: str) -> TableSchema:
    """Two columns, one of them the key."""
    return TableSchema(T, (column("id", "int", name == "id"), column("u", "int", name == "u")))


@pytest.mark.parametrize("at_once", [True, False])
def test_rows_tell_that_the_key_is_another_one(at_once: bool) -> None:
    made = scene(statements=False)
    made.send(P0, row(0, None, {"id": 1, "u": 1}, keyed("id")), row(1, None, {"id": 1, "u": 2}, keyed("id")))
    if not at_once:
        made.read()

    made.flow(row(2, None, {"id": 1, "u": 3}, keyed("u")))

    assert made.full() == [{"id": 1, "u": 2}, {"id": 1, "u": 3}]


def test_a_policy_can_freeze_rows_before_their_key_changes() -> None:
    made = scene(statements=False)
    rules = Rules(ddl={ChangeKind.CHANGE_KEY: DdlPolicy.FREEZE})
    made.settings = replace(made.settings, rules=rules)

    made.flow(row(0, None, {"id": 1, "u": 1}, keyed("id")), row(1, None, {"id": 1, "u": 2}, keyed("u")))

    assert made.full() == [{"id": 1, "u": 1}]
    assert [hold.kind for hold in made.state.holds] == [HoldKind.POLICY]
