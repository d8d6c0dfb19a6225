"""The statements of the vectors and topics, replayed: tables must come out as the servers describe them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

import topic_files
import vector_files
from tidewire.ddl import edits as e
from tidewire.ddl.parse import edits
from tidewire.ddl.shape import altered
from tidewire.model import Bootstrap, Column, ColumnFlag, Ddl, DdlType, TableName, TableSchema
from tidewire.plain import event_from_plain

FOLDERS = ("canal-json", "craft", "open-protocol", "simple-avro", "simple-json")
TOPICS = ("seed11", "seed11-classic", "seed23", "seed23-classic")
Tables = dict[TableName, TableSchema]


def vector_files_with_ddl() -> Iterator[tuple[str, str]]:
    for folder in FOLDERS:
        for file in vector_files.files(folder):
            if any(plain["kind"] == "ddl" for vector in vector_files.vectors(folder, file) for plain in vector.plain):
                yield folder, file


FILES = list(vector_files_with_ddl())
WHOLE_FILES = [(folder, file) for folder, file in FILES if "lz4" not in file and "snappy" not in file]
"""Those with every statement of their scenario."""


def ddl_events(folder: str, file: str) -> list[Ddl]:
    """The DDL events of a file in their full form, as the server knew them."""
    plain = [plain for vector in vector_files.vectors(folder, file) for plain in vector.plain]
    events = (event_from_plain(event) for event in plain if event["kind"] == "ddl")
    return [event for event in events if isinstance(event, Ddl)]


def apply(tables: Tables, changes: Iterable[e.Edit]) -> None:
    """Do to the tables what the edits say; a table that is not known stays unknown."""
    for edit in changes:
        match edit:
            case e.CreateTable(table, None):
                tables[table.name] = table
            case e.CreateTable(table, like) if like is not None:
                tables[table.name] = replace(tables[like], name=table.name)
            case e.DropTable(name):
                tables.pop(name, None)
            case e.RenameTable(old, new):
                tables[new] = replace(tables.pop(old), name=new)
            case e.AlterTable(name, columns) if name in tables:
                tables[name] = altered(tables[name], columns)


def described(column: Column) -> tuple[object, ...]:
    default = column.default.encode() if isinstance(column.default, str) else column.default
    return (
        *(column.name, column.mysql_type, column.length, column.decimal or 0, column.charset, column.collation),
        *(column.nullable, column.primary_key, column.handle_key, column.generated, default),
        # The servers do not mark a generated handle key column in its bits.
        column.effective_flags & ~ColumnFlag.HANDLE_KEY,
    )


def without_hidden(table: TableSchema) -> TableSchema:
    """A table without what TiDB adds behind an index over an expression."""
    columns = [column for column in table.columns if not column.name.startswith("_V$_")]
    hidden = {column.name for column in table.columns} - {column.name for column in columns}
    indexes = [index for index in table.indexes if hidden.isdisjoint(index.columns)]
    return replace(table, columns=tuple(columns), indexes=tuple(indexes))


@pytest.mark.parametrize(("folder", "file"), WHOLE_FILES, ids=str)
def test_every_statement_gives_the_table_the_server_describes(folder: str, file: str) -> None:
    tables: Tables = {}
    compared = 0
    for ddl in ddl_events(folder, file):
        apply(tables, edits(replace(ddl, table_schema=None, pre_table_schema=None, old_name=None)))
        if ddl.table_schema is None or ddl.table not in tables:
            continue
        ours, theirs = tables[ddl.table], without_hidden(ddl.table_schema)
        assert [described(column) for column in ours.columns] == [described(column) for column in theirs.columns]
        assert ours.indexes == theirs.indexes, ddl.query
        assert (ours.handle_key, ours.pk_is_handle) == (theirs.handle_key, theirs.pk_is_handle), ddl.query
        compared += 1
    assert compared > 0


@pytest.mark.parametrize(("folder", "file"), FILES, ids=str)
def test_what_a_statement_does_is_what_its_type_says(folder: str, file: str) -> None:
    for ddl in ddl_events(folder, file):
        bare = replace(ddl, type=None, kind=None, table_schema=None, pre_table_schema=None, old_name=None)

        expected = NOTHING if ddl.query == EXPRESSION_INDEX else EXPECTED[DdlType(ddl.type or 0)]
        assert {type(edit) for edit in edits(bare)} == expected, ddl.query


NOTHING: set[type] = set()
EXPECTED: dict[DdlType, set[type]] = {
    DdlType.CREATE_SCHEMA: {e.CreateDatabase},
    DdlType.DROP_SCHEMA: {e.DropDatabase},
    DdlType.CREATE_TABLE: {e.CreateTable},
    DdlType.DROP_TABLE: {e.DropTable},
    DdlType.TRUNCATE_TABLE: {e.TruncateTable},
    DdlType.RENAME_TABLE: {e.RenameTable},
    DdlType.ADD_COLUMN: {e.AlterTable},
    DdlType.DROP_COLUMN: {e.AlterTable},
    DdlType.MODIFY_COLUMN: {e.AlterTable},
    DdlType.SET_DEFAULT_VALUE: {e.AlterTable},
    DdlType.MULTI_SCHEMA_CHANGE: {e.AlterTable},
    DdlType.ADD_INDEX: {e.AlterTable},
    DdlType.DROP_INDEX: {e.AlterTable},
    DdlType.RENAME_INDEX: {e.AlterTable},
    DdlType.ADD_PRIMARY_KEY: {e.AlterTable},
    DdlType.DROP_PRIMARY_KEY: {e.AlterTable},
    DdlType.MODIFY_TABLE_CHARSET_AND_COLLATE: {e.AlterTable},
    DdlType.DROP_TABLE_PARTITION: {e.Impossible},
    DdlType.TRUNCATE_TABLE_PARTITION: {e.Impossible},
    DdlType.EXCHANGE_TABLE_PARTITION: {e.Impossible},
    **dict.fromkeys(
        (
            DdlType.REBASE_AUTO_ID,
            DdlType.MODIFY_TABLE_COMMENT,
            DdlType.ADD_FOREIGN_KEY,
            DdlType.DROP_FOREIGN_KEY,
            DdlType.ADD_TABLE_PARTITION,
            DdlType.REORGANIZE_PARTITION,
            DdlType.ALTER_TABLE_PARTITIONING,
            DdlType.REMOVE_PARTITIONING,
            DdlType.ALTER_INDEX_VISIBILITY,
            DdlType.ALTER_TTL_INFO,
            DdlType.ALTER_TTL_REMOVE,
            DdlType.CREATE_VIEW,
            DdlType.DROP_VIEW,
        ),
        NOTHING,
    ),
}
EXPRESSION_INDEX = "ALTER TABLE `ddl`.`t1x` ADD INDEX `ie`((`c`+1))"


def test_an_exchange_of_rows_concerns_both_tables() -> None:
    for folder, file in FILES:
        for ddl in ddl_events(folder, file):
            if ddl.type == DdlType.EXCHANGE_TABLE_PARTITION:
                names = [edit.name for edit in edits(ddl) if isinstance(edit, e.Impossible)]
                assert names == [TableName("ddl", "p1"), TableName("ddl", "px")]


def shown_tables() -> dict[str, TableSchema]:
    """What SHOW CREATE TABLE prints of each table, and the table."""
    found = {}
    for file in vector_files.files("simple-json"):
        for vector in vector_files.vectors("simple-json", file):
            event = event_from_plain(vector.plain[0]) if vector.plain else None
            if vector.line.get("ddl") and isinstance(event, Bootstrap):
                found[vector.line["ddl"]] = event.table_schema
    return found


def test_the_text_of_show_create_table_gives_the_same_table() -> None:
    shown = shown_tables()
    assert len(shown) > 40
    for text, theirs in shown.items():
        (edit,) = edits(Ddl(theirs.name, 1, text))
        assert isinstance(edit, e.CreateTable)
        assert [described(column) for column in edit.table.columns] == [described(column) for column in theirs.columns]
        assert set(edit.table.indexes) == set(theirs.indexes)
        assert edit.table.handle_key == theirs.handle_key


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topics_statements_give_the_columns_and_keys_of_every_watermark(topic: str) -> None:
    expected = topic_files.expected(topic)
    waiting = [Ddl(TableName("test", ""), ddl["commit_ts"], ddl["query"]) for ddl in expected["ddl_events"]]
    tables: Tables = {}
    for moment in [*expected["watermarks"], expected["end"]]:
        while waiting and (waiting[0].commit_ts or 0) <= moment["ts"]:
            apply(tables, edits(waiting.pop(0)))
        assert {str(name): shape(table) for name, table in tables.items()} == {
            name: (table["columns"], table["key"]) for name, table in moment["tables"].items()
        }
    assert not waiting


def shape(table: TableSchema) -> tuple[list[str], list[str]]:
    return [column.name for column in table.columns], list(table.handle_key)


@pytest.mark.parametrize("topic", ["seed11", "seed23-classic"])
@pytest.mark.parametrize("name", ["open-protocol", "canal-json", "simple-json", "simple-avro"])
def test_each_protocol_tells_the_same_of_a_topics_statements(topic: str, name: str) -> None:
    tables: Tables = {}
    seen = set()
    for _, events in topic_files.events(topic, name):
        for ddl in events:
            if isinstance(ddl, Ddl) and ddl.query not in seen:
                seen.add(ddl.query)
                apply(tables, edits(ddl))

    end: dict[str, Any] = topic_files.expected(topic)["end"]["tables"]
    assert {str(name): shape(table) for name, table in tables.items()} == {
        name: (table["columns"], table["key"]) for name, table in end.items()
    }
