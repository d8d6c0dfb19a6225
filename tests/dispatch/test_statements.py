"""Statements about several tables become one DDL for each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidewire.dispatch import per_table
from tidewire.dispatch.statements import old_name
from tidewire.model import Column, Ddl, DdlKind, DdlType, TableName, TableSchema


def ddl(query: str, type_: int | None, name: str = "test.a", old: TableName | None = None) -> Ddl:
    schema, table = name.split(".")
    return Ddl(TableName(schema, table), 9, query, type_, start_ts=8, old_name=old)


def named(parts: tuple[Ddl, ...]) -> list[tuple[str, str]]:
    return [(str(part.old_name or ""), str(part.table)) for part in parts]


def test_a_rename_of_several_tables() -> None:
    parts = per_table(ddl("rename table a to b, `other`.c to d", DdlType.RENAME_TABLES, "test.b"))

    assert named(parts) == [("test.a", "test.b"), ("other.c", "test.d")]
    assert [part.query for part in parts] == [
        "RENAME TABLE `test`.`a` TO `test`.`b`;",
        "RENAME TABLE `other`.`c` TO `test`.`d`;",
    ]
    assert {(part.type, part.commit_ts, part.start_ts) for part in parts} == {(14, 9, 8)}


def test_a_swap_is_a_move_for_each_table_whatever_the_steps() -> None:
    columns = [Column.of("id", "bigint", primary_key=True)]
    a, b = (TableSchema.build(TableName("test", name), columns, table_id=number) for number, name in enumerate("ab"))
    parts = per_table(
        ddl("RENAME TABLE a TO tmp, b TO a, tmp TO b", DdlType.RENAME_TABLES, "test.b"), {a.name: a, b.name: b}
    )

    assert named(parts) == [("test.a", "test.b"), ("test.b", "test.a")]
    assert [(part.pre_table_schema, part.table_schema) for part in parts] == [
        (a, replace(a, name=b.name)),
        (b, replace(b, name=a.name)),
    ]


def test_names_keep_the_letters_they_are_known_by() -> None:
    known = TableSchema(TableName("test", "Orders"))
    parts = per_table(ddl("RENAME TABLE ORDERS TO BILLS, c TO d", 14, "test.Bills"), {known.name: known})

    assert named(parts)[0] == ("test.Orders", "test.Bills")
    assert parts[0].pre_table_schema is known


def test_the_schema_the_event_tells_is_that_of_its_table() -> None:
    told = TableSchema(TableName("test", "b"), version=5)
    statement = replace(ddl("RENAME TABLE a TO b, c TO d", DdlType.RENAME_TABLES, "test.b"), table_schema=told)

    assert [part.table_schema for part in per_table(statement)] == [told, None]


def test_names_with_quotes_stay_names() -> None:
    parts = per_table(ddl("RENAME TABLE `a``b` TO `c.d`, e TO f", DdlType.RENAME_TABLE))

    assert parts[0].query == "RENAME TABLE `test`.`a``b` TO `test`.`c.d`;"
    assert parts[0].table == TableName("test", "c.d")


def test_a_drop_of_several_tables() -> None:
    parts = per_table(ddl("drop table if exists a, other.b", DdlType.DROP_TABLE))

    assert [(str(part.table), part.query) for part in parts] == [
        ("test.a", "DROP TABLE IF EXISTS `test`.`a`;"),
        ("other.b", "DROP TABLE IF EXISTS `other`.`b`;"),
    ]


def test_several_creates_in_one_text() -> None:
    text = "CREATE TABLE a (id INT PRIMARY KEY COMMENT ';'); CREATE TABLE x.b (k INT PRIMARY KEY, v TEXT);"
    parts = per_table(ddl(text, DdlType.CREATE_TABLES))

    assert [(str(part.table), part.query, part.type) for part in parts] == [
        ("test.a", "CREATE TABLE a (id INT PRIMARY KEY COMMENT ';');", 3),
        ("x.b", "CREATE TABLE x.b (k INT PRIMARY KEY, v TEXT);", 3),
    ]
    assert parts[1].table_schema is not None
    assert [column.name for column in parts[1].table_schema.columns] == ["k", "v"]


@pytest.mark.parametrize(
    ("query", "type_"),
    [
        ("CREATE TABLE a (id INT PRIMARY KEY)", DdlType.CREATE_TABLE),
        ("DROP TABLE a", DdlType.DROP_TABLE),
        ("ALTER TABLE a ADD b INT, ADD c INT", DdlType.MULTI_SCHEMA_CHANGE),
        ("TRUNCATE TABLE a", DdlType.TRUNCATE_TABLE),
        ("DROP TABLE a, ", DdlType.DROP_TABLE),
        ("nonsense", DdlType.RENAME_TABLES),
        ("", DdlType.DROP_TABLE),
    ],
)
def test_every_other_statement_stays_as_it_is(query: str, type_: int) -> None:
    statement = ddl(query, type_)

    assert per_table(statement) == (statement,)


def test_a_rename_of_one_table_keeps_its_text_and_gets_its_old_name() -> None:
    (part,) = per_table(ddl("rename table `a` to b", DdlType.RENAME_TABLE, "test.b"))

    assert (part.query, part.old_name) == ("rename table `a` to b", TableName("test", "a"))


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (ddl("RENAME TABLE a TO b", DdlType.RENAME_TABLE, "test.b"), "test.a"),
        (ddl("ALTER TABLE a RENAME TO b", DdlType.RENAME_TABLE, "test.b"), "test.a"),
        (ddl("RENAME TABLE a TO b", DdlType.RENAME_TABLE, "test.b", TableName("told", "x")), "told.x"),
        (ddl("ALTER TABLE b ADD c INT", DdlType.ADD_COLUMN, "test.b"), "None"),
        (ddl("nonsense", DdlType.RENAME_TABLE, "test.b"), "None"),
        (Ddl(TableName("test", "b"), 9, "RENAME TABLE x.a TO test.b", kind=DdlKind.RENAME), "x.a"),
    ],
)
def test_the_name_before_a_statement(statement: Ddl, expected: str) -> None:
    assert str(old_name(statement)) == expected
