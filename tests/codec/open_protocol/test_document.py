"""The document's own examples, formats and numbers of Open Protocol."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from codec.open_protocol.open_messages import event_of, message, put, row_of, value_of
from tidewire.codec.open_protocol import decode
from tidewire.errors import DecodeError
from tidewire.model import (
    ColumnFlag,
    Date,
    DateTime,
    Ddl,
    DdlType,
    EnumValue,
    Message,
    MySQLType,
    Op,
    RowChange,
    SetValue,
    TableName,
    Time,
    Timestamp,
    Value,
    Watermark,
)

DOCUMENT = json.loads((Path(__file__).parents[1] / "documents" / "open-protocol.json").read_text("utf-8"))


@pytest.mark.parametrize("log", DOCUMENT["logs"], ids=lambda log: f"log {log['number']}")
def test_the_documents_logs_decode(log: dict[str, Any]) -> None:
    key, value = json.loads(log["key"]), json.loads(log["value"] or "null")
    framed = message((log["key"], log["value"] or ""))

    for sent in [framed] if log["value"] else [framed, Message(framed.key, None)]:
        (event,) = decode(sent)

        match event:
            case Watermark(ts):
                assert (key["t"], value) == (3, None)
                assert ts == key["ts"]
            case Ddl():
                assert key["t"] == 2
                assert (event.table, event.commit_ts) == (("test", "t1"), key["ts"])
                assert (event.query, event.type) == (value["q"], DdlType.CREATE_TABLE)
            case RowChange():
                (kind, columns) = next(iter(value.items()))
                expected = {name: column["v"] for name, column in columns.items()}
                assert event.op is (Op.INSERT if kind == "u" else Op.DELETE)
                assert (event.after if kind == "u" else event.before) == expected
                assert event.table.handle_key == ("id",)
                assert [column.flags for column in event.table.columns] == [None] * len(columns)


def test_a_resolved_event_without_a_frame_for_its_value_is_truncated() -> None:
    framed = message(('{"ts":1,"t":3}', ""))

    with pytest.raises(DecodeError, match="more event keys than event values"):
        list(decode(Message(framed.key, b"")))


PLACEHOLDERS = {
    "<TS>": "415508856908021766",
    "<Schema Name>": '"test"',
    "<Table Name>": '"t1"',
    "<Column Type>": "3",
    "<Where Handle>": "true",
    "<Flag>": "11",
    "<Column Value>": "7",
    "<DDL Query>": '"drop table t1"',
    "<DDL Type>": '"4"',  # the document calls it a String
}


def filled(name: str) -> str:
    text: str = DOCUMENT["formats"][name]
    for placeholder, sample in PLACEHOLDERS.items():
        text = text.replace(placeholder, sample)
    for column in ("id", "other"):  # one name for each column of an image, and again in the next image
        text = text.replace("<Column Name>", f'"{column}"', 1)
    for column in ("id", "other"):
        text = text.replace("<Column Name>", f'"{column}"', 1)
    return text


def test_the_documents_formats_decode_when_their_blanks_are_filled() -> None:
    row = {"id": 7, "other": 7}
    images = {"insert": (None, row), "update": (row, row), "delete": (row, None)}

    for name, (before, after) in images.items():
        event = row_of(filled(name), filled("row key"))
        assert (event.before, event.after) == (before, after), name
        assert event.commit_ts == 415508856908021766

    assert event_of(filled("ddl value"), filled("ddl key")) == Ddl(
        TableName("test", "t1"), 415508856908021766, "drop table t1", DdlType.DROP_TABLE
    )
    assert event_of("", filled("resolved key")) == Watermark(415508856908021766)


DOCUMENT_VALUES: dict[str, list[Value]] = {
    "TINYINT/BOOL": [1],
    "SMALLINT": [1],
    "INT": [123],
    "FLOAT": [153.123],
    "DOUBLE": [153.123],
    "NULL": [None],
    "TIMESTAMP": [Timestamp("1973-12-30 15:30:00")],
    "BIGINT": [123],
    "MEDIUMINT": [123],
    "DATE": [Date("2000-01-01")],
    "TIME": [Time("23:59:59")],
    "DATETIME": [DateTime("2015-12-20 23:58:58")],
    "YEAR": [1970],
    "VARCHAR/VARBINARY": ["test", b"\x89PNG\r\n\x1a\n"],
    "BIT": [81],
    "JSON": ['{"key1": "value1"}'],
    "DECIMAL": [Decimal("129012.1230000")],
    "ENUM": [EnumValue(1)],
    "SET": [SetValue(3)],
    "TINTTEXT/TINTBLOB": ["测试text"],
    "MEDIUMTEXT/MEDIUMBLOB": ["测试text"],
    "LONGTEXT/LONGBLOB": ["测试text"],
    "TEXT/BLOB": ["测试text"],
    "CHAR/BINARY": ["test", b"\x89PNG\r\n\x1a\n"],
    "GEOMETRY": [],
}


@pytest.mark.parametrize("line", DOCUMENT["column types"], ids=lambda line: line["type"])
def test_the_documents_column_types_decode(line: dict[str, Any]) -> None:
    expected = DOCUMENT_VALUES[line["type"]]

    assert len(line["examples"]) == len(expected)
    for example, value in zip(line["examples"], expected, strict=True):
        for code in line["codes"]:
            column = json.loads(example) | {"t": code}
            if isinstance(value, bytes):
                column["f"] = 1  # the document leaves the flags out; the binary one decides
            decoded = value_of(json.dumps(column))
            if line["type"] == "FLOAT":
                assert decoded == pytest.approx(value)
            else:
                assert (type(decoded), decoded) == (type(value), value)


def test_the_documents_column_types_have_their_numbers() -> None:
    for line in DOCUMENT["column types"]:
        names = line["type"].replace("TINT", "TINY").split("/")
        for code in line["codes"]:
            assert {MySQLType.DATE: "DATE", MySQLType.NEWDATE: "DATE"}.get(MySQLType(code), names[0]) == names[0]


def test_the_documents_ddl_types_have_their_numbers() -> None:
    assert len(DOCUMENT["ddl types"]) == 36
    for name, code in DOCUMENT["ddl types"].items():
        event = event_of(json.dumps({"q": "x", "t": code}), '{"ts":1,"t":2}')

        assert isinstance(event, Ddl)
        assert DdlType(event.type or 0).name.replace("_", "") == name.upper().replace(" ", "")


def test_the_documents_flags_have_their_bits() -> None:
    names = {name: name.removesuffix("Flag") for name in DOCUMENT["flag bits"]} | {"GeneratedColumnFlag": "Generated"}
    flags = {flag.name.replace("_", ""): flag for flag in ColumnFlag if flag.name}
    for name, bit in DOCUMENT["flag bits"].items():
        assert flags[names[name].upper()] == bit
    for total, members in DOCUMENT["flag sums"].items():
        column = row_of(put('{"u":{"c":{"t":3,"f":%s,"v":1}}}', total)).table.column("c")
        assert column.flags is not None
        assert {flag.name for flag in column.flags} == {flags[names[member].upper()].name for member in members}
