"""Schema files: names, contents, and checksums that the real server computes."""

from __future__ import annotations

import json
from dataclasses import replace

from tidewire.codec.storage_sink.schema_file import Definition
from tidewire.model import Column, Ddl, DdlType, TableName, TableSchema

TABLE = TableSchema(
    TableName("test", "table1"),
    (
        replace(Column.of("id", "int(11)", primary_key=True, nullable=False), id=1),
        replace(Column.of("name", "varchar(20)"), id=2),
    ),
)


def test_the_checksums_are_the_servers() -> None:
    assert Definition(TableName("schema1", ""), 1).checksum == 3233644819
    assert Definition.of_table(TABLE, 1).checksum == 2829009641


def test_the_checksum_is_of_names_and_columns_only() -> None:
    ddl = Ddl(TABLE.name, 99, "ALTER TABLE table1 COMMENT 'x'", DdlType.MODIFY_TABLE_COMMENT, table_schema=TABLE)
    shuffled = replace(TABLE, columns=TABLE.columns[::-1])

    assert Definition.of_ddl(ddl).checksum == Definition.of_table(shuffled, 7).checksum == 2829009641
    assert Definition.of_table(replace(TABLE, columns=TABLE.columns[:1]), 7).checksum != 2829009641
    assert Definition.of_ddl(ddl).file_name == "schema_99_2829009641.json"


def test_a_file_says_what_was_done_and_how_the_table_is() -> None:
    ddl = Ddl(TABLE.name, 99, "ALTER TABLE a ADD b <int>", DdlType.ADD_COLUMN, table_schema=TABLE)

    content = Definition.of_ddl(ddl).content().decode()

    assert json.loads(content) == {
        "Table": "table1",
        "Schema": "test",
        "Version": 1,
        "TableVersion": 99,
        "Query": "ALTER TABLE a ADD b <int>",
        "Type": 5,
        "TableColumns": [
            {
                "ColumnName": "id",
                "ColumnType": "INT",
                "ColumnPrecision": "11",
                "ColumnNullable": "false",
                "ColumnIsPk": "true",
            },
            {"ColumnName": "name", "ColumnType": "VARCHAR", "ColumnPrecision": "20"},
        ],
        "TableColumnsTotal": 2,
    }
    assert content.startswith('{\n    "Table": "table1",\n')
    assert r"ADD b \u003cint\u003e" in content


def test_columns_tell_what_there_is_to_tell() -> None:
    columns = (
        Column.of("a", "decimal(10,2) unsigned"),
        Column.of("b", "datetime(3)"),
        Column.of("c", "datetime"),
        replace(Column.of("d", "enum('x','y')", nullable=False), default="x"),
        Column.of("e", "bigint"),
        Column.of("f", "varbinary(9)"),
    )

    definition = Definition.of_table(TableSchema(TABLE.name, columns), 1, column_ids=True)

    assert [dict(column) for column in definition.columns] == [
        {"ColumnName": "a", "ColumnType": "DECIMAL UNSIGNED", "ColumnPrecision": "10", "ColumnScale": "2"},
        {"ColumnName": "b", "ColumnType": "DATETIME", "ColumnScale": "3"},
        {"ColumnName": "c", "ColumnType": "DATETIME"},
        {
            "ColumnName": "d",
            "ColumnType": "ENUM",
            "ColumnDefault": "x",
            "ColumnNullable": "false",
            "ColumnElems": ["x", "y"],
        },
        {"ColumnName": "e", "ColumnType": "BIGINT", "ColumnPrecision": "20"},
        {"ColumnName": "f", "ColumnType": "VARBINARY", "ColumnPrecision": "9"},
    ]
    assert Definition.of_table(TABLE, 1, column_ids=True).columns[1]["ColumnId"] == "2"
