"""A table that is loaded anew takes the old one's place at the moment of all others."""

from __future__ import annotations

import pytest

from sync.histories import Event
from sync.scenes import P0, Scene, T, ddl, put, shaped, watermark
from tidewire.ddl.edits import CreateTable, DropTable, Impossible
from tidewire.errors import LoadError
from tidewire.model import TableName
from tidewire.sync.beginnings import Beginning, Origin
from tidewire.sync.loads import LoadedTable, plan_load
from tidewire.sync.replacing import Replacing, behind, is_beside, is_level, plan_swap
from tidewire.sync.rules import Rules, TableRule
from tidewire.sync.state import HoldKind, State
from tidewire.sync.steps import Drop, Rename

U = TableName("d", "u")
REPLACING = Replacing("r", 50, (LoadedTable(shaped(T), ()),))
BEGIN: list[Event] = [ddl(5, CreateTable(shaped(T))), ddl(5, CreateTable(shaped(U)), table=U), put(10, 1, "a")]


def both(*events: Event) -> tuple[Scene, Scene]:
    """A sync, and a table that was loaded at 50 and follows the same topic."""
    old, new = Scene(), Scene()
    loaded = plan_load(new.state, REPLACING.tables, 50, Rules(), now="")
    new.execute(loaded)
    new.commit(loaded)
    old.flow(*BEGIN, *events)
    new.flow(*BEGIN, *events)
    return old, new


def test_a_table_that_is_held_is_replaced_and_goes_on() -> None:
    impossible = ddl(30, Impossible(T, "no"))
    old, new = both(watermark(20), impossible, put(40, 2, "b"), put(55, 3, "c"), put(90, 4, "d"), watermark(60))
    assert [hold.kind for hold in old.state.holds] == [HoldKind.STATEMENT]
    assert behind(old.state, new.state, has_watermarks=True) is None
    assert is_level(old.state, new.state, 50, has_watermarks=True)

    planned = plan_swap(old.state, new.state, REPLACING, Rules(), has_watermarks=True)

    rename, drop = planned.steps
    beside, aside = REPLACING.beside(T), REPLACING.aside(T)
    assert isinstance(rename, Rename)
    assert isinstance(drop, Drop)
    assert (rename.moves, drop.name) == (((T, aside), (beside, T)), aside)
    assert planned.state.holds == ()
    assert planned.state.beginnings[T] == Beginning(50, Origin.LOAD)
    assert planned.publication is not None
    assert (planned.publication.ts, planned.publication.held, planned.publication.rows_since) == (60, {}, {})
    old.target.tables[beside] = new.target.tables[T]
    old.execute(planned)
    old.commit(planned)
    old.flow(impossible, put(55, 3, "c"), put(100, 5, "e"), watermark(110))
    assert old.state.holds == ()
    assert old.table() == {3: "c", 4: "d", 5: "e"}


def test_a_table_that_is_gone_since_its_load_is_not_replaced() -> None:
    old, new = both(watermark(20), ddl(55, DropTable(T)), watermark(60))

    with pytest.raises(LoadError, match=r"d\.t was renamed or dropped after 50: load as of a later moment"):
        plan_swap(old.state, new.state, REPLACING, Rules(), has_watermarks=True)


def test_a_table_waits_until_the_others_are_at_the_load() -> None:
    old, new = both(put(48, 2, "b"), watermark(40))

    assert not is_level(old.state, new.state, 50, has_watermarks=True)
    assert is_level(old.state, new.state, 50, has_watermarks=False)


def test_a_table_does_not_wait_if_no_topic_was_read() -> None:
    loaded = plan_load(State(""), REPLACING.tables, 50, Rules(), now="").state

    assert is_level(loaded, loaded, 50, has_watermarks=True)


def test_what_the_topic_lacks_since_the_load_keeps_a_table_behind() -> None:
    old, new = Scene(P0), Scene(P0)
    loaded = plan_load(new.state, REPLACING.tables, 50, Rules(), now="")
    new.commit(loaded)
    for scene in (old, new):
        scene.flow(put(70, 1, "a"), watermark(80))

    hold = behind(old.state, new.state, has_watermarks=True)

    assert hold is not None
    assert "--start-ts 50" in hold.reason


def test_the_rules_of_a_new_table_are_those_of_the_old_one_under_another_name() -> None:
    rules = Rules((), (TableRule(match=("d.*",), to="lake.{table}", mode="history"),))

    found = REPLACING.rules(rules)

    assert (found.wants(T), found.wants(U), found.mode(T, "mirror")) == (True, False, "history")
    assert found.route(T) == REPLACING.beside(T)
    assert is_beside(REPLACING.beside(T))
    assert not is_beside(T)
    assert rules.route(REPLACING.beside(T)) == REPLACING.beside(T)
