"""A load, and the topic that continues it: what is in the load comes once, and what is missing is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sync.scenes import P0, P1, Scene, T, ddl, delete, put, shaped, watermark
from sync.upstream import column
from tidewire.ddl.edits import AddColumn, AlterTable, CreateTable, DropDatabase, DropTable, RenameTable, TruncateTable
from tidewire.errors import LoadError
from tidewire.model import Position, TableName
from tidewire.sync.holds import release
from tidewire.sync.loads import LoadedTable, plan_load
from tidewire.sync.manifest import Partition, ReadRange, Rejected, StagedFile
from tidewire.sync.plan import Planned
from tidewire.sync.rules import Rules
from tidewire.sync.seam import unreached
from tidewire.sync.state import State
from tidewire.sync.steps import Create, Fill

U = TableName("d", "u")


def loaded(scene: Scene, ts: int, *names: TableName, rejected: tuple[Rejected, ...] = ()) -> Planned:
    """A load of tables without rows, carried out."""
    tables = [LoadedTable(shaped(name), (), rejected) for name in names]
    planned = plan_load(scene.state, tables, ts, Rules())
    scene.execute(planned)
    scene.commit(planned)
    return planned


def left_out(planned: Planned) -> Planned:
    """A plan after which the target does not have the tables."""
    return replace(planned, state=replace(planned.state, target_tables={T.folded: None}))


def test_a_load_creates_and_fills_its_tables() -> None:
    file = StagedFile("f", shaped(T), Partition("load", 0), 2, 50, 50, 0, 1)

    planned = plan_load(State("s"), [LoadedTable(shaped(T), (file,))], 50, Rules())

    create, fill = planned.steps
    assert isinstance(create, Create)
    assert isinstance(fill, Fill)
    assert (fill.slices[0].file, fill.slices[0].from_ts, fill.slices[0].to_ts) == (file, 50, 50)
    assert planned.publication is not None
    assert (planned.publication.ts, planned.publication.held, planned.publication.rows_since) == (50, {}, {})
    assert planned.done == (file,)


def test_tables_are_loaded_beside_others() -> None:
    scene = Scene()
    loaded(scene, 50, T)
    scene.flow(put(40, 9, "z"), watermark(45), put(60, 1, "a"), put(60, 1, "b", shaped(U)))

    loaded(scene, 55, U)
    scene.flow(put(56, 2, "c", shaped(U)), watermark(100))

    assert (scene.table(), scene.table(U)) == ({1: "a"}, {1: "b", 2: "c"})
    with pytest.raises(LoadError, match=r"d\.t is there already: leave it out with --tables"):
        plan_load(scene.state, [LoadedTable(shaped(T), ())], 100, Rules())
    with pytest.raises(LoadError, match="read its topic up to 100, past the moment 99 of the load"):
        plan_load(scene.state, [LoadedTable(shaped(TableName("d", "v")), ())], 99, Rules())


def test_a_table_that_the_sync_left_out_can_be_loaded() -> None:
    scene = Scene()
    scene.commit(left_out(loaded(scene, 50, T)))

    loaded(scene, 50, T)

    assert scene.state.target_tables[T.folded] is not None


def test_changes_up_to_the_load_are_replays() -> None:
    scene = Scene()
    loaded(scene, 50, T)

    scene.flow(put(10, 1, "a"), watermark(20), put(50, 2, "b"), put(51, 3, "c"), delete(60, 4, "d"), watermark(100))

    assert scene.table() == {3: "c"}


def test_ddl_up_to_the_load_are_replays() -> None:
    scene = Scene()
    loaded(scene, 50, T)
    add = AlterTable(T, (AddColumn(column("n", "int")),))

    planned = scene.flow(
        *(
            watermark(4),
            ddl(5, CreateTable(shaped(T))),
            put(7, 1, "a"),
            ddl(10, TruncateTable(T)),
            ddl(20, DropTable(T)),
        ),
        *(ddl(30, DropDatabase("d")), ddl(40, CreateTable(shaped(T))), ddl(50, add), put(60, 2, "b"), watermark(100)),
    )

    assert scene.table() == {2: "b"}
    assert [type(step).__name__ for step in planned.steps] == ["Merge"]
    assert planned.state.tables[T].columns == shaped(T).columns


def test_ddl_after_the_load_are_followed() -> None:
    scene = Scene()
    loaded(scene, 50, T)

    scene.flow(watermark(20), put(60, 1, "a"), ddl(70, TruncateTable(T)), put(80, 2, "b"), watermark(100))

    assert scene.table() == {2: "b"}


def test_a_table_that_was_renamed_before_the_load_is_there_once() -> None:
    scene = Scene()
    loaded(scene, 50, T)

    planned = scene.flow(
        ddl(5, CreateTable(shaped(U))), put(10, 1, "a", shaped(U)), watermark(20), ddl(30, RenameTable(U, T)),
        put(60, 2, "b"), watermark(100),
    )  # fmt: skip

    assert set(planned.state.tables) == {T}
    assert scene.table() == {2: "b"}


def test_publications_wait_for_the_load() -> None:
    scene = Scene()
    loaded(scene, 50, T)

    planned = scene.flow(ddl(5, CreateTable(shaped(U))), put(10, 1, "a", shaped(U)), watermark(20))
    assert planned.publication is not None
    assert (planned.publication.ts, planned.publication.held) == (50, {U: 20})

    planned = scene.flow(watermark(60))
    assert planned.publication is not None
    assert (planned.publication.ts, planned.publication.held) == (60, {})


def test_a_topic_that_begins_after_the_load_holds_its_tables() -> None:
    scene = Scene()
    loaded(scene, 50, T)

    planned = scene.flow(put(60, 1, "a"), watermark(70), put(80, 2, "b"), watermark(100))

    (hold,) = planned.state.holds
    assert (hold.table, hold.ts, hold.at) == (T, 50, Position("feed", 0, 0))
    assert "begin the changefeed with --start-ts 50 or earlier" in hold.reason
    assert planned.steps == ()

    scene.commit(Planned((), release(planned.state, hold.id, "now"), None))
    assert scene.flow(watermark(110)).state.holds == ()
    assert scene.table() == {1: "a", 2: "b"}


def test_a_changefeed_that_begins_again_at_the_load_ends_the_hold() -> None:
    scene = Scene()
    loaded(scene, 50, T)
    scene.flow(put(60, 1, "a"), watermark(70))
    assert scene.state.holds

    planned = scene.flow(watermark(45), put(55, 3, "c"), put(60, 1, "a"), watermark(70), watermark(80))

    assert planned.state.holds == ()
    assert scene.table() == {1: "a", 3: "c"}


def test_a_partition_that_is_new_is_no_gap() -> None:
    state = loaded(Scene(), 50, T).state
    old, new, cut = ReadRange.of(7, 9, [(8, 40)]), ReadRange.of(0, 3, [(2, 90)], 80), ReadRange.of(3, 9, [(4, 90)])

    assert unreached(state, {P0: [old], P1: [new]}) == []
    assert len(unreached(state, {P1: [new]})) == 1
    assert len(unreached(state, {P0: [old], P1: [cut]})) == 1
    assert unreached(state, {P1: [ReadRange.of(0, 3, [(2, 90)], 50)]}) == []
    assert unreached(state, {P1: [ReadRange.of(3, 9, first_ts=80)]}) == []


def test_rows_that_could_not_be_loaded_hold_their_table() -> None:
    scene = Scene()

    planned = loaded(scene, 50, T, U, rejected=(Rejected(Position("d.t.000.csv", 0, 7), "line 7: not a number"),))

    assert [hold.table for hold in planned.state.holds] == [T, U]
    assert planned.state.holds[0].reason == "not loaded: line 7: not a number"
    assert planned.state.rejected == 2
    scene.flow(watermark(20), put(60, 1, "a"), watermark(100))
    assert scene.table() == {}
