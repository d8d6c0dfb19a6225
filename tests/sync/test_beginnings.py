"""A sync knows of which tables it has seen the beginning, and says so of the others."""

from __future__ import annotations

from dataclasses import replace

from sync.scenes import Scene, T, ddl, put, shaped, watermark
from tidewire.ddl.edits import CreateTable, DropTable, RenameTable, TruncateTable
from tidewire.model import TableName
from tidewire.sync.beginnings import Beginning, Origin, incomplete, missing_rows
from tidewire.sync.plan import Planned
from tidewire.sync.rules import Rules

U = TableName("d", "u")


def lacking(planned: Planned) -> dict[TableName, int]:
    return incomplete(planned.state.tables, planned.state.beginnings)


def test_a_table_that_is_known_from_rows_lacks_its_older_rows() -> None:
    scene = Scene()

    planned = scene.flow(put(10, 1, "a"), put(12, 2, "b"), watermark(20))

    assert lacking(planned) == {T: 10}
    assert planned.publication is not None
    assert planned.publication.rows_since == {T: 10}
    assert planned.notes == (missing_rows(T, 10),)
    assert lacking(scene.flow(put(25, 1, "c"), watermark(30))) == {T: 10}


def test_a_table_whose_creation_was_read_is_whole() -> None:
    scene = Scene()

    planned = scene.flow(ddl(5, CreateTable(shaped(T))), put(10, 1, "a"), watermark(20))

    assert lacking(planned) == {}
    assert planned.notes == ()


def test_truncate_makes_a_table_whole() -> None:
    scene = Scene()
    scene.flow(put(10, 1, "a"), watermark(20))

    planned = scene.flow(ddl(30, TruncateTable(T)), put(40, 2, "b"), watermark(50))

    assert lacking(planned) == {}
    assert planned.state.beginnings[T] == Beginning(30, Origin.TRUNCATE)


def test_what_is_missing_moves_with_a_table() -> None:
    scene = Scene()
    scene.flow(put(10, 1, "a"), watermark(20))

    planned = scene.flow(ddl(30, RenameTable(T, U)), put(40, 2, "b", shaped(U)), watermark(50))

    assert lacking(planned) == {U: 10}


def test_a_table_that_is_made_anew_is_whole() -> None:
    scene = Scene()
    scene.flow(put(10, 1, "a"), watermark(20))

    planned = scene.flow(ddl(30, DropTable(T)), ddl(35, CreateTable(shaped(T))), put(40, 2, "b"), watermark(50))

    assert lacking(planned) == {}


def test_a_table_made_like_an_unknown_one_is_whole() -> None:
    scene = Scene()

    planned = scene.flow(ddl(5, CreateTable(shaped(T), like=U)), put(10, 1, "a"), watermark(20))

    assert lacking(planned) == {}


def test_a_table_that_comes_into_sight_lacks_its_older_rows() -> None:
    scene = Scene()
    scene.settings = replace(scene.settings, rules=Rules(follow=("d.u",)))

    planned = scene.flow(
        ddl(5, CreateTable(shaped(T))), ddl(30, RenameTable(T, U)), put(40, 2, "b", shaped(U)), watermark(50)
    )

    assert lacking(planned) == {U: 40}


def test_a_table_of_an_older_release_cannot_be_vouched_for() -> None:
    assert incomplete([T], {}) == {T: 0}
    assert (
        missing_rows(T, 0)
        == "d.t: rows from before the first message are not here; tidewire load --replace brings them"
    )
