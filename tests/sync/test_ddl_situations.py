"""Statements a consumer meets: copies, replays, renames, and rows on either side of them."""

from __future__ import annotations

import pytest

from sync.scenes import P0, P1, SHAPE, Scene, T, ddl, delete, put, row, shaped, watermark
from sync.upstream import column
from tidewire.ddl.edits import (
    AddColumn,
    AddIndex,
    AlterTable,
    ChangeColumn,
    ColumnEdit,
    ColumnPosition,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropIndex,
    DropTable,
    RenameColumn,
    RenameTable,
    SetDefault,
    TruncateTable,
)
from tidewire.errors import SyncStopped
from tidewire.model import Index, TableName, TableSchema
from tidewire.sync.manifest import Partition
from tidewire.sync.steps import Truncate

A, B, C, D = (TableName("d", name) for name in "abcd")
WIDE = TableSchema(T, (*SHAPE.columns, column("n", "int", default="7")))
ADD_N = AlterTable(T, (AddColumn(WIDE.columns[-1]),))


def test_a_ddl_at_the_applied_watermark_is_executed_when_it_comes() -> None:
    scene = Scene()
    scene.flow(put(10, 1, "a"), put(20, 2, "b"), watermark(20))
    assert scene.table() == {1: "a", 2: "b"}

    scene.flow(ddl(20, TruncateTable(T)), put(21, 3, "c"), watermark(25))

    assert scene.table() == {3: "c"}


def test_a_ddl_that_was_executed_is_not_executed_again() -> None:
    scene = Scene()
    scene.flow(put(10, 1, "a"), ddl(15, TruncateTable(T)), put(16, 2, "b"), watermark(20))

    scene.flow(ddl(15, TruncateTable(T)), put(16, 2, "b"), watermark(21))

    assert scene.table() == {2: "b"}


def test_an_unknown_ddl_from_the_past_stops_the_sync() -> None:
    scene = Scene()
    scene.flow(put(10, 1, "a"), watermark(20))

    with pytest.raises(SyncStopped, match="older than the tables"):
        scene.flow(ddl(15, TruncateTable(T)))


def test_copies_of_a_ddl_are_executed_once() -> None:
    scene = Scene(P0, P1)
    scene.everywhere(ddl(10, TruncateTable(T)))
    scene.send(P0, put(5, 1, "a"), put(11, 2, "b"))
    scene.everywhere(watermark(20))

    planned = scene.read()

    assert [type(step) for step in planned.steps].count(Truncate) == 1
    assert scene.table() == {2: "b"}


def test_ddl_are_executed_in_the_order_of_their_ts() -> None:
    scene = Scene()
    change = ddl(12, DropTable(T), query="drop")
    again = ddl(14, CreateTable(SHAPE), query="create")

    scene.flow(put(10, 1, "a"), again, change, put(15, 2, "b"), watermark(20))

    assert scene.table() == {2: "b"}


def test_rows_keep_the_schema_of_their_time_wherever_the_ddl_was_read() -> None:
    scene = Scene(P0, P1)
    scene.send(P0, ddl(15, ADD_N), watermark(20))
    scene.read(P0)
    scene.send(P1, put(10, 1, "old"), row(16, None, {"id": 2, "v": "new", "n": 9}, WIDE), watermark(20))

    scene.read(P1)

    assert scene.full() == [{"id": 1, "v": "old", "n": 7}, {"id": 2, "v": "new", "n": 9}]


def test_a_row_with_the_ts_of_a_truncate_goes_with_it_and_does_not_come_back() -> None:
    scene = Scene()
    truncate = ddl(10, TruncateTable(T))
    scene.flow(put(10, 1, "a"), truncate, watermark(10))
    assert scene.table() == {}

    scene.flow(put(10, 1, "a"), truncate, watermark(10))

    assert scene.table() == {}


def test_late_rows_do_not_bring_a_dropped_table_back() -> None:
    scene = Scene()
    scene.flow(put(9, 1, "a"), ddl(10, DropTable(T)), watermark(10))

    scene.flow(put(10, 1, "a"), put(9, 1, "a"), watermark(15))

    assert scene.table() is None


def test_dropping_a_database_takes_tables_along_that_only_rows_told_of() -> None:
    scene = Scene()

    scene.flow(put(9, 1, "a"), ddl(10, DropDatabase("d"), table=TableName("d", "")), watermark(15))

    assert scene.table() is None


def test_tables_of_one_statement_change_names_at_once() -> None:
    scene = Scene()
    for name in (A, B, C):
        scene.send(P0, put(5, 1, str(name), shaped(name)))
    moves = [RenameTable(A, D), RenameTable(B, A), RenameTable(C, B)]

    scene.flow(*(ddl(10, move, table=move.new) for move in reversed(moves)), watermark(20))

    assert [scene.table(name) for name in (A, B, C, D)] == [{1: "d.b"}, {1: "d.c"}, None, {1: "d.a"}]


def test_two_tables_may_swap_names() -> None:
    scene = Scene()
    scene.send(P0, put(5, 1, "was a", shaped(A)), put(5, 1, "was b", shaped(B)))

    scene.flow(ddl(10, RenameTable(A, B), table=B), ddl(10, RenameTable(B, A), table=A), watermark(20))

    assert (scene.table(A), scene.table(B)) == ({1: "was b"}, {1: "was a"})


def test_half_a_chain_of_renames_waits_for_the_half_that_makes_room() -> None:
    other = Partition("other", 0)
    scene = Scene(P0, other)
    scene.send(P0, put(5, 1, "was a", shaped(A)))
    scene.send(other, put(5, 1, "was b", shaped(B)))
    scene.everywhere(watermark(10))
    scene.send(other, ddl(10, RenameTable(B, A), table=A))
    scene.read()
    assert (scene.table(A), scene.table(B)) == ({1: "was a"}, {1: "was b"})

    scene.send(P0, ddl(10, RenameTable(A, C), table=C))
    scene.read()

    assert [scene.table(name) for name in (A, B, C)] == [{1: "was b"}, None, {1: "was a"}]


def test_rows_of_the_new_name_may_be_read_before_the_rename() -> None:
    old, new = Partition("feed-a", 0), Partition("feed-b", 0)
    scene = Scene(old, new)
    scene.send(old, put(5, 1, "a", shaped(A)), ddl(10, RenameTable(A, B), table=B), watermark(20))
    scene.send(new, put(11, 2, "b", shaped(B)), watermark(20))

    scene.read(new)
    scene.read(old)

    assert (scene.table(A), scene.table(B)) == (None, {1: "a", 2: "b"})


def test_a_name_that_tables_share_in_turn_takes_no_columns_from_the_other() -> None:
    scene = Scene()
    narrow = TableSchema(A, SHAPE.columns[:1])
    scene.send(P0, put(5, 1, "wide", shaped(A)), row(5, None, {"id": 1}, TableSchema(B, narrow.columns)))
    scene.send(P0, ddl(10, RenameTable(A, C), table=C), ddl(20, RenameTable(B, A), table=A))
    scene.send(P0, ddl(30, RenameTable(A, B), table=B), ddl(40, RenameTable(C, A), table=A))

    scene.flow(put(50, 2, "wide again", shaped(A)), watermark(60))

    assert scene.full(A) == [{"id": 1, "v": "wide"}, {"id": 2, "v": "wide again"}]
    assert scene.full(B) == [{"id": 1}]


def test_a_replay_in_other_words_is_a_replay() -> None:
    scene = Scene()
    scene.flow(put(5, 1, "a"), ddl(10, TruncateTable(T), query="truncate table t"), put(15, 2, "b"), watermark(20))

    scene.flow(ddl(10, TruncateTable(T), query="TRUNCATE TABLE `d`.`t`"), watermark(30))

    assert scene.table() == {2: "b"}
    with pytest.raises(SyncStopped, match="older than the tables"):
        scene.flow(ddl(10, TruncateTable(A), table=A, query="TRUNCATE TABLE `d`.`a`"))


def test_a_table_that_is_a_pattern_keeps_the_transaction_of_that_moment_at_hand() -> None:
    scene = Scene()
    like = ddl(20, CreateTable(TableSchema(A), like=T), table=A)
    scene.flow(put(5, 1, "a"), delete(20, 1, "a"), put(20, 1, "b"), like, watermark(20))

    scene.flow(watermark(10), delete(20, 1, "a"))

    assert scene.table() == {1: "b"}


def test_rows_before_an_alter_of_a_table_whose_shape_is_unknown_are_not_lost() -> None:
    scene = Scene()
    like = ddl(30, CreateTable(TableSchema(T), like=A))
    index = ddl(40, AlterTable(T, (AddIndex(Index("x", ("v",))),)))

    scene.flow(put(10, 1, "a"), ddl(20, DropTable(T)), like, put(35, 2, "b"), index, put(50, 3, "c"), watermark(60))

    assert scene.table() == {2: "b", 3: "c"}


def test_a_key_may_become_another_one_by_way_of_none() -> None:
    scene = Scene()
    scene.flow(ddl(1, CreateTable(SHAPE)), put(5, 1, "a"), put(5, 2, "b"), watermark(9))
    primary = Index("PRIMARY", ("v",), unique=True, primary=True)

    scene.flow(ddl(10, AlterTable(T, (DropIndex("PRIMARY"),))), watermark(11))
    scene.flow(ddl(12, AlterTable(T, (AddIndex(primary),))), put(15, 3, "b"), watermark(20))

    assert scene.table() == {1: "a", 3: "b"}


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        DropColumn("virtual"),
        RenameColumn("virtual", "other"),
        ChangeColumn("virtual", column("virtual", "bigint")),
        SetDefault("virtual", "7"),
        AddIndex(Index("x", ("id", "virtual"))),
    ],
)
def test_what_is_said_of_a_column_that_no_row_has_changes_nothing(change: ColumnEdit, at_once: bool) -> None:
    scene = Scene()
    scene.send(P0, put(5, 1, "a"), watermark(9))
    if not at_once:
        scene.read()

    add = AddColumn(WIDE.columns[-1], ColumnPosition(after="virtual"))
    planned = scene.flow(ddl(10, AlterTable(T, (change, add))), put(15, 2, "b"), watermark(20))

    assert not planned.state.holds
    assert scene.full() == [{"id": 1, "v": "a", "n": 7}, {"id": 2, "v": "b", "n": 7}]


def test_a_primary_key_over_a_column_that_no_row_has_holds_the_table() -> None:
    scene = Scene()
    primary = Index("PRIMARY", ("hidden",), unique=True, primary=True)

    planned = scene.flow(put(5, 1, "a"), ddl(10, AlterTable(T, (AddIndex(primary),))), put(15, 2, "b"), watermark(20))

    assert [hold.table for hold in planned.state.holds] == [T]
    assert scene.table() == {1: "a"}
