"""The document's own examples and tables of Canal-JSON, read and written."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from codec.canal_json.canal_messages import DOCUMENT, EXAMPLES, TSO, data_text, decoded, value_of, wire_of
from codec.tables_and_values import build
from tidewire.codec.canal_json.types import java_type
from tidewire.model import (
    Column,
    Ddl,
    DdlKind,
    EnumValue,
    JavaSQLType,
    Row,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Watermark,
)

# The document's partial examples leave out what TP_INT and T say.
TP_INT = {
    "database": "test",
    "table": "tp_int",
    "pkNames": ["id"],
    "isDdl": False,
    "es": 1639633141221,
    "ts": 1639633142960,
    "sql": "",
    "sqlType": EXAMPLES["dml"]["sqlType"],
    "mysqlType": EXAMPLES["dml"]["mysqlType"],
}
OLD_ROW = {
    "c_bigint": 2**63 - 1,
    "c_int": 2**31 - 1,
    "c_mediumint": 2**23 - 1,
    "c_smallint": 2**15 - 1,
    "c_tinyint": 127,
    "id": 2,
}
NEW_ROW = OLD_ROW | {"c_int": 0, "c_tinyint": 0}
T = {
    "database": "test",
    "table": "t",
    "pkNames": ["id"],
    "type": "INSERT",
    "es": 0,
    "ts": 0,
    "sql": "",
    "sqlType": {},
    "data": [
        {
            "id": "1",
            "c_decimal": "123.4560",
            "c_char": "abc",
            "c_varchar": "abc",
            "c_binary": "abc" + "\0" * 13,
            "c_varbinary": "abc",
            "c_enum": "1",
            "c_set": "3",
            "c_bit": "65",
        }
    ],
}
T_ROW: Row = {
    "id": 1,
    "c_decimal": Decimal("123.4560"),
    "c_char": "abc",
    "c_varchar": "abc",
    "c_binary": b"abc" + bytes(13),
    "c_varbinary": b"abc",
    "c_enum": EnumValue(1),
    "c_set": SetValue(3),
    "c_bit": 65,
}
IMAGES: dict[str, tuple[dict[str, Any], Row | None, Row | None, int | None]] = {
    # example: what it leaves out, old row, new row, commit ts
    "dml": ({}, None, OLD_ROW, TSO),
    "ticdc update": (TP_INT, OLD_ROW, NEW_ROW, None),
    "canal update": (TP_INT, {"c_int": 2**31 - 1, "c_tinyint": 127}, NEW_ROW, None),
    "delete since v5.4": (TP_INT, NEW_ROW, None, None),
    "delete before v5.4": (TP_INT, NEW_ROW, None, None),
    "ticdc mysqlType": (T, None, T_ROW, None),
    "canal mysqlType": (T, None, T_ROW, None),
    "binary update": (
        {**TP_INT, "type": "UPDATE", "pkNames": None, "mysqlType": {"c_varbinary": "varbinary"}, "old": None},
        {},
        {"c_varbinary": bytes([5, 7, 10, 15, 36, 50, 43, 99, 120, 60, 38, 255, 254, 45, 55, 70])},
        None,
    ),
}


@pytest.mark.parametrize("name", IMAGES)
def test_the_documents_row_examples_decode(name: str) -> None:
    left_out, before, after, commit_ts = IMAGES[name]
    example = {**left_out, **EXAMPLES[name]}
    if example["data"] == [{}]:
        example["data"] = left_out["data"]

    event = decoded(example)

    assert isinstance(event, RowChange)
    assert (event.before, event.after, event.commit_ts) == (before, after, commit_ts)
    assert event.table.primary_key == tuple(example["pkNames"] or ())


def test_every_example_of_the_document_is_here() -> None:
    assert EXAMPLES.keys() == IMAGES.keys() | {"ddl", "watermark"}
    assert decoded(EXAMPLES["ddl"]) == Ddl(
        TableName("test", ""), TSO, "drop database if exists test", kind=DdlKind.QUERY
    )
    assert decoded(EXAMPLES["watermark"]) == Watermark(TSO)


def test_the_documents_official_types_have_their_parameters() -> None:
    event = decoded({**T, **EXAMPLES["canal mysqlType"], "data": T["data"]})

    assert isinstance(event, RowChange)
    types = {column.name: column for column in event.table.columns}
    assert (types["c_decimal"].length, types["c_decimal"].decimal) == (10, 4)
    assert types["c_decimal"].mysql_type == "decimal(10,4)"
    assert types["c_bit"].mysql_type == "bit(64)"
    assert types["c_enum"].elements == types["c_set"].elements == ("a", "b", "c")
    after = event.after or {}
    texts = [after[name].text for name in ("c_enum", "c_set")]  # type: ignore[union-attr]
    assert texts == ["a", "a,b"]


def test_the_documents_watermark_and_rows_are_written_alike() -> None:
    assert wire_of(Watermark(TSO), enable_tidb_extension=True) == EXAMPLES["watermark"] | {"ts": 1700000000000}
    columns = [Column.of(name, type_, primary_key=name == "id") for name, type_ in EXAMPLES["dml"]["mysqlType"].items()]
    table = TableSchema.build(TableName("test", "tp_int"), columns)
    made = wire_of(RowChange(table, TSO, after=OLD_ROW), enable_tidb_extension=True)
    # The document's `es` was not made from its commit ts.
    assert made == EXAMPLES["dml"] | {"ts": 1700000000000, "es": TSO >> 18}
    ddl = wire_of(Ddl(TableName("test", ""), TSO, "drop database if exists test", 2), enable_tidb_extension=True)
    assert ddl == EXAMPLES["ddl"] | {"ts": 1700000000000, "es": TSO >> 18}


def test_the_documents_java_types() -> None:
    for name, code in DOCUMENT["java types"].items():
        assert JavaSQLType[name] == code
    for name, code in DOCUMENT["java types of mysql types"].items():
        assert java_type(Column.of("c", name.lower()), None) == code, name


def test_the_documents_integer_ranges() -> None:
    for line in DOCUMENT["integer ranges"]:
        column = Column.of("c", line["type"])
        for value in (line["low"], line["high"], (line["low"] + line["high"]) // 2):
            assert java_type(column, value) == line["code"], (line, value)
            wire = wire_of(RowChange(build(column), 1, after={"c": value}))
            assert (wire["sqlType"], wire["mysqlType"], wire["data"]) == (
                {"c": line["code"]},
                {"c": line["type"]},
                [{"c": str(value)}],
            )
            assert value_of(line["type"], str(value)) == value


def test_the_documents_binary_table() -> None:
    """Later lines of the table are exceptions to earlier ones; its ``<`` has the number of the digit 8."""
    forms: dict[int, str] = {}
    for line in DOCUMENT["binary"]:
        for byte in range(line["low"], line["high"] + 1):
            named = {"escaped": f"\\u{byte:04x}", "itself": chr(byte), r"\u0038": r"\u003c", r"\u003E": r"\u003e"}
            forms[byte] = named.get(line["form"], line["form"])
    # What the table does not say: JSON itself needs two more.
    forms |= {ord('"'): r"\"", ord("\\"): r"\\"}

    for byte in range(256):
        assert data_text("varbinary(16)", bytes([byte])) == f'"{forms[byte]}"', byte
        assert data_text("blob", bytes([byte])) == f'"{forms[byte]}"', byte


def test_the_documents_binary_example_is_written_alike() -> None:
    (example,) = (example for example in DOCUMENT["examples"] if example["name"] == "binary update")
    data = bytes([5, 7, 10, 15, 36, 50, 43, 99, 120, 60, 38, 255, 254, 45, 55, 70])

    assert data_text("varbinary(16)", data) == example["wire"]
