"""Canal-JSON: the document's own examples, TiCDC's and official Canal's forms, limits, and what is refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidewire.codec import Options, Resources
from tidewire.codec.canal_json import Decoder, Encoder, decode, inspect
from tidewire.codec.canal_json.types import full_type, java_type
from tidewire.errors import DecodeError, EncodeError, MessageTooLarge, OptionError
from tidewire.model import (
    Bootstrap,
    Column,
    Date,
    DateTime,
    Ddl,
    DdlKind,
    DdlType,
    EnumValue,
    Event,
    Generated,
    Index,
    JavaSQLType,
    Message,
    Op,
    Row,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Value,
    Watermark,
)

DOCUMENT = json.loads((Path(__file__).parent / "documents" / "canal-json.json").read_text("utf-8"))
EXAMPLES: Mapping[str, dict[str, Any]] = {example["name"]: example["message"] for example in DOCUMENT["examples"]}
EXTENSION = Options(enable_tidb_extension=True)
CLOCK = Resources(clock=lambda: 1700000000000)
TSO = 429918007904436226


def message(wire: Any) -> Message:
    return Message(None, json.dumps(wire, ensure_ascii=False).encode())


def decoded(wire: Mapping[str, Any]) -> Event:
    (event,) = decode(message(wire))
    return event


def row_of(**wire: Any) -> RowChange:
    """A row change, of which only what matters is given."""
    whole = {
        "id": 0,
        "database": "test",
        "table": "t",
        "pkNames": None,
        "isDdl": False,
        "type": "INSERT",
        "es": 0,
        "ts": 0,
        "sql": "",
        "sqlType": {},
        "mysqlType": {"a": "int"},
        "data": [{"a": "1"}],
        "old": None,
        **wire,
    }
    event = decoded(whole)
    assert isinstance(event, RowChange)
    return event


def value_of(mysql_type: str, text: str | None) -> Value:
    return (row_of(mysqlType={"c": mysql_type}, data=[{"c": text}]).after or {})["c"]


def build(*columns: Column, indexes: tuple[Index, ...] = ()) -> TableSchema:
    key = tuple(column.name for column in columns if column.primary_key)
    primary = (Index("PRIMARY", key, unique=True, primary=True),) if key else ()
    return TableSchema.build(TableName("test", "t"), columns, primary + indexes)


def text_of(event: Event, **options: Any) -> str:
    (sent,) = Encoder(Options(**options), CLOCK).encode([event])
    assert sent.key is None
    assert sent.value is not None
    return sent.value.decode()


def wire_of(event: Event, **options: Any) -> dict[str, Any]:
    wire: dict[str, Any] = json.loads(text_of(event, **options))
    return wire


def data_text(type_: str, value: Value) -> str:
    """A value's text as it stands in the message, quotes included."""
    table = build(Column.of("c", type_))
    head, _, data = text_of(RowChange(table, 1, after={"c": value})).partition('"data":[{"c":')
    assert head
    return data.removesuffix("}]}")


# The document's examples. Its partial ones leave out what TP_INT and T say.

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


# Whole messages.

IDX = build(Column.of("idx", "bigint unsigned", primary_key=True), Column.of("a", "varchar(64)", nullable=False))
SMALL = build(Column.of("a", "tinyint", primary_key=True), Column.of("b", "tinyint"))


def test_a_whole_message_and_its_order() -> None:
    ts = 1767859044550 << 18

    assert text_of(RowChange(IDX, ts, after={"idx": 1, "a": "test"})) == (
        '{"id":0,"database":"test","table":"t","pkNames":["idx"],"isDdl":false,"type":"INSERT","es":1767859044550,'
        '"ts":1700000000000,"sql":"","sqlType":{"idx":-5,"a":12},"mysqlType":{"idx":"bigint unsigned","a":"varchar"},'
        '"old":null,"data":[{"idx":"1","a":"test"}]}'
    )
    ddl = list(wire_of(Ddl(TableName("test", "t"), ts, "x", 3), enable_tidb_extension=True))
    assert ddl[:-3] == list(wire_of(RowChange(IDX, ts, after={"idx": 1})))[:-2]
    assert ddl[-3:] == ["data", "old", "_tidb"], "data before old, unlike a row"


def test_the_text_null_is_not_null() -> None:
    assert '"data":[{"idx":"2","a":"null"}]' in text_of(RowChange(IDX, 1, after={"idx": 2, "a": "null"}))
    assert '"data":[{"idx":"2","a":null}]' in text_of(RowChange(IDX, 1, after={"idx": 2, "a": None}))
    assert value_of("varchar", "null") == "null"
    assert value_of("varchar", None) is None
    assert value_of("varchar", "") == ""


def test_images_of_insert_update_and_delete() -> None:
    old, new = {"a": 1, "b": 3}, {"a": 1, "b": 2}
    update = RowChange(SMALL, 1, before=old, after=new)

    def images(event: RowChange, **options: Any) -> tuple[str, Any, Any]:
        wire = wire_of(event, **options)
        return wire["type"], wire["old"], wire["data"]

    assert images(RowChange(SMALL, 1, after=old)) == ("INSERT", None, [{"a": "1", "b": "3"}])
    assert images(update) == ("UPDATE", [{"a": "1", "b": "3"}], [{"a": "1", "b": "2"}])
    assert images(RowChange(SMALL, 1, before=new)) == ("DELETE", None, [{"a": "1", "b": "2"}])
    for option in ("only_output_updated_columns", "content_compatible"):
        assert images(update, **{option: True}) == ("UPDATE", [{"b": "3"}], [{"a": "1", "b": "2"}])
        same = RowChange(SMALL, 1, before=new, after=new)
        assert images(same, **{option: True}) == ("UPDATE", [{}], [{"a": "1", "b": "2"}])
    lost = RowChange(SMALL, 1, before=old, after={"a": 1, "b": None})
    assert images(lost, only_output_updated_columns=True)[1] == [{"b": "3"}]


def test_only_changed_columns_are_compared_by_their_text() -> None:
    table = build(Column.of("a", "int", primary_key=True), Column.of("d", "decimal(9,2)"), Column.of("f", "double"))
    before: Row = {"a": 1, "d": Decimal("1.0"), "f": 0.0}
    after: Row = {"a": 1, "d": Decimal("1.00"), "f": -0.0}

    wire = wire_of(RowChange(table, 1, before=before, after=after), only_output_updated_columns=True)

    assert wire["old"] == [{"d": "1.0", "f": "0"}]


def test_primary_keys_are_listed_in_the_tables_order_and_unique_keys_never() -> None:
    table = build(
        Column.of("a", "tinyint", primary_key=True), Column.of("c", "int"), Column.of("b", "tinyint", primary_key=True)
    )
    unique = build(Column.of("u", "int", nullable=False), indexes=(Index("u", ("u",), unique=True),))

    assert wire_of(RowChange(table, 1, after={"a": 1, "c": 2, "b": 3}))["pkNames"] == ["a", "b"]
    assert wire_of(RowChange(unique, 1, after={"u": 1}))["pkNames"] == []


def test_deletes_with_their_key_only() -> None:
    unique = build(
        Column.of("u", "int", nullable=False), Column.of("v", "int"), indexes=(Index("u", ("u",), unique=True),)
    )
    keyless = build(Column.of("v", "int"))

    wire = wire_of(RowChange(unique, 1, before={"u": 1, "v": 2}), delete_only_output_handle_key_columns=True)
    assert (wire["sqlType"], wire["mysqlType"], wire["data"]) == ({"u": 4}, {"u": "int"}, [{"u": "1"}])
    wire = wire_of(RowChange(keyless, 1, before={"v": 2}), delete_only_output_handle_key_columns=True)
    assert (wire["sqlType"], wire["mysqlType"], wire["data"]) == (None, None, [{}])


def test_a_row_without_columns_is_refused_with_the_servers_code() -> None:
    virtual = replace(Column.of("v", "int"), generated=Generated.VIRTUAL)

    for event in (RowChange(build(virtual), 1, after={"v": 1}), RowChange(SMALL, 1, after={})):
        with pytest.raises(EncodeError) as refusal:
            text_of(event)
        assert refusal.value.code == "CDC:ErrCanalEncodeFailed"
    with pytest.raises(EncodeError, match="without a row"):
        text_of(RowChange(SMALL, 1))
    with pytest.raises(EncodeError, match="BOOTSTRAP"):
        text_of(Bootstrap(SMALL))


def test_the_extension_of_each_kind() -> None:
    row = RowChange(SMALL, 5, after={"a": 1, "b": 2}, row_key=b"t\x80")
    ddl = Ddl(TableName("test", "t"), 5, "x", 3)

    def extension(event: Event, **options: Any) -> Any:
        return wire_of(event, enable_tidb_extension=True, **options)["_tidb"]

    assert extension(row) == {"commitTs": 5}
    assert extension(replace(row, commit_ts=0)) == extension(replace(row, commit_ts=None)) == {"commitTs": 0}
    assert extension(row, output_row_key=True) == {"commitTs": 5, "rowkey": base64.b64encode(b"t\x80").decode()}
    assert extension(replace(row, row_key=None), output_row_key=True) == {"commitTs": 5, "rowkey": None}
    assert extension(ddl) == {"commitTs": 5}
    assert extension(replace(ddl, commit_ts=0)) == {}
    assert extension(Watermark(1024)) == {"watermarkTs": 1024}
    assert extension(Watermark(0)) == {}
    assert "_tidb" not in wire_of(row, output_row_key=True)
    assert list(Encoder(Options(), CLOCK).encode([Watermark(2333)])) == []
    watermark = wire_of(Watermark(1024), enable_tidb_extension=True)
    assert (watermark["es"], watermark["database"], watermark["data"]) == (0, "", None)
    assert wire_of(RowChange(SMALL, 417318403368288260, after={"a": 1}))["es"] == 1591943372224


DDL_WORDS = {
    "CREATE": [3],
    "ERASE": [4],
    "TRUNCATE": [11],
    "RENAME": [14, 47],
    "CINDEX": [7, 9, 32],
    "DINDEX": [8, 10, 33],
    "ALTER": [5, 6, 12, 37, 38, 13, 15, 17, 18, 19, 20, 23, 22, 41, 61, 64, 71, 72],
    "QUERY": [1, 2, 21, 24, 25, 26, 16, 27, 28, 29, 30, 31, 34, 35, 36, 39, 40, 42, 65, 67, 60, 0, 255],
}


@pytest.mark.parametrize("word", DDL_WORDS)
def test_a_ddl_has_the_word_of_its_type(word: str) -> None:
    for code in DDL_WORDS[word]:
        ddl = Ddl(TableName("test", "t"), 5, "x <y>", code)
        wire = wire_of(ddl, enable_tidb_extension=True)

        assert (wire["type"], wire["isDdl"], wire["sql"], wire["pkNames"]) == (word, True, "x <y>", None)
        back = decoded(wire)
        assert isinstance(back, Ddl)
        assert (back.table, back.commit_ts, back.query, back.kind) == (ddl.table, 5, "x <y>", DdlKind(word))
        assert back.type in (None, DdlType.RENAME_TABLE if code == DdlType.RENAME_TABLES else code)
    assert wire_of(Ddl(TableName("a", "b"), 1, "x", kind=DdlKind(word)))["type"] == word


# Types and values. Column, value, data, sqlType, mysqlType, full mysqlType.

VALUES: list[tuple[str, Value, str, int, str, str]] = [
    ("tinyint", 127, "127", -6, "tinyint", "tinyint(4)"),
    ("tinyint(1)", 1, "1", -6, "tinyint", "tinyint(1)"),
    ("tinyint unsigned", 127, "127", -6, "tinyint unsigned", "tinyint(3) unsigned"),
    ("tinyint unsigned", 128, "128", 5, "tinyint unsigned", "tinyint(3) unsigned"),
    ("smallint", 32767, "32767", 5, "smallint", "smallint(6)"),
    ("smallint unsigned", 32768, "32768", 4, "smallint unsigned", "smallint(5) unsigned"),
    ("mediumint", -8388608, "-8388608", 4, "mediumint", "mediumint(9)"),
    ("mediumint unsigned", 8388608, "8388608", 4, "mediumint unsigned", "mediumint(8) unsigned"),
    ("int", 2147483647, "2147483647", 4, "int", "int(11)"),
    ("int unsigned", 2147483648, "2147483648", -5, "int unsigned", "int(10) unsigned"),
    ("int zerofill", 7, "7", 4, "int unsigned zerofill", "int(10) unsigned zerofill"),
    ("bigint", -(2**63), "-9223372036854775808", -5, "bigint", "bigint(20)"),
    ("bigint unsigned", 2**63 - 1, "9223372036854775807", -5, "bigint unsigned", "bigint(20) unsigned"),
    ("bigint unsigned", 2**63, "9223372036854775808", 3, "bigint unsigned", "bigint(20) unsigned"),
    ("float", 3.140000104904175, "3.14", 7, "float", "float"),
    ("float(10,3)", 0.5, "0.5", 7, "float", "float(10,3)"),
    ("float(10)", 2.0, "2", 7, "float", "float"),
    ("double", 1e-7, "0.0000001", 8, "double", "double"),
    ("double", 1e21, "1000000000000000000000", 8, "double", "double"),
    ("double", -0.0, "-0", 8, "double", "double"),
    ("double unsigned zerofill", 2.0, "2", 8, "double unsigned zerofill", "double unsigned zerofill"),
    ("decimal", Decimal("2333"), "2333", 3, "decimal", "decimal(10,0)"),
    ("decimal(12,6)", Decimal("2333.654321"), "2333.654321", 3, "decimal", "decimal(12,6)"),
    ("decimal(4,2) unsigned", Decimal("0.50"), "0.50", 3, "decimal unsigned", "decimal(4,2) unsigned"),
    ("date", Date("2020-02-20"), "2020-02-20", 91, "date", "date"),
    ("date", Date("0000-00-00"), "0000-00-00", 91, "date", "date"),
    ("datetime(3)", DateTime("2020-02-20 02:20:20.000"), "2020-02-20 02:20:20.000", 93, "datetime", "datetime(3)"),
    ("datetime", DateTime("0000-00-00 00:00:00"), "0000-00-00 00:00:00", 93, "datetime", "datetime"),
    (
        "timestamp(6)",
        Timestamp("2024-03-11 08:51:01.461270"),
        "2024-03-11 08:51:01.461270",
        93,
        "timestamp",
        "timestamp(6)",
    ),
    ("time", Time("02:20:20"), "02:20:20", 92, "time", "time"),
    ("time(2)", Time("-838:59:59.00"), "-838:59:59.00", 92, "time", "time(2)"),
    ("year", 2020, "2020", 12, "year", "year(4)"),
    ("char(123)", "测试char", "测试char", 1, "char", "char(123)"),
    ("char", "", "", 1, "char", "char(1)"),
    ("varchar(123)", "测试varchar", "测试varchar", 12, "varchar", "varchar(123)"),
    *((name, "测试text", "测试text", 2005, name, name) for name in ("tinytext", "text", "mediumtext", "longtext")),
    ("binary(10)", bytes(range(1, 11)), "\x01\x02\x03\x04\x05\x06\x07\x08\t\n", 2004, "binary", "binary(10)"),
    ("binary", b"\0", "\0", 2004, "binary", "binary(1)"),
    ("varbinary(16)", b"\x89PNG\r\n\x1a\n", "\x89PNG\r\n\x1a\n", 2004, "varbinary", "varbinary(16)"),
    ("varbinary(16)", b"", "", 2004, "varbinary", "varbinary(16)"),
    ("mediumblob", b"ID3\3\0\0\0\0", "ID3\3\0\0\0\0", 2004, "mediumblob", "mediumblob"),
    ("blob", b"%PDF-1.4", "%PDF-1.4", 2004, "blob", "blob"),
    ("blob", "测试blob".encode(), "\xe6\xb5\x8b\xe8\xaf\x95blob", 2004, "blob", "blob"),
    ("tinyblob", b"\x7f\xff", "\x7f\xff", 2004, "tinyblob", "tinyblob"),
    ("longblob", b"x", "x", 2004, "longblob", "longblob"),
    ("enum('a','b','c')", EnumValue(1), "1", 4, "enum", "enum('a','b','c')"),
    ("enum('a')", EnumValue(0), "0", 4, "enum", "enum('a')"),
    ("set('a','b','c')", SetValue(2), "2", -7, "set", "set('a','b','c')"),
    ("set('a','b','c')", SetValue(3), "3", -7, "set", "set('a','b','c')"),
    ("set('a','b','c')", SetValue(0), "0", -7, "set", "set('a','b','c')"),
    ("bit(10)", 65, "65", -7, "bit", "bit(10)"),
    ("bit", 1, "1", -7, "bit", "bit(1)"),
    ("bit(64)", 2**64 - 1, "18446744073709551615", -7, "bit", "bit(64)"),
    ("json", '{"key1": "value1"}', '{"key1": "value1"}', 12, "json", "json"),
    ("vector(5)", "[1,2,3,4,5]", "[1,2,3,4,5]", 12, "vector", "vector(5)"),
    ("vector", "[1]", "[1]", 12, "vector", "vector"),
]


@pytest.mark.parametrize(("type_", "value", "data", "java", "short", "full"), VALUES)
def test_a_value_of_each_type(type_: str, value: Value, data: str, java: int, short: str, full: str) -> None:
    event = RowChange(build(Column.of("c", type_)), 1, after={"c": value})

    wire, compatible = wire_of(event), wire_of(event, content_compatible=True)

    assert (wire["data"], wire["sqlType"], wire["mysqlType"]) == ([{"c": data}], {"c": java}, {"c": short})
    assert (compatible["data"], compatible["sqlType"]) == (wire["data"], wire["sqlType"])
    assert compatible["mysqlType"] == {"c": full}
    for mysql_type in (short, full):
        back = value_of(mysql_type, data)
        assert (type(back), str(back) if isinstance(value, float) else back) == (
            type(value),
            str(value) if isinstance(value, float) else value,
        )
    null = wire_of(RowChange(build(Column.of("c", type_)), 1, after={"c": None}))
    base = java_type(Column.of("c", type_), 0)
    assert (null["data"], null["sqlType"], value_of(short, None)) == ([{"c": None}], {"c": base}, None)


def test_set_of_64_members_fills_64_bits() -> None:
    members = ",".join(f"'m{n}'" for n in range(64))

    value = value_of(f"set({members})", str(2**64 - 1))

    assert value == SetValue(2**64 - 1)
    assert isinstance(value, SetValue)
    assert value.text == members.replace("'", "")
    assert value_of("set", str(2**63)) == SetValue(2**63)


def test_the_java_type_of_an_update_is_that_of_the_new_value() -> None:
    table = build(Column.of("c", "tinyint unsigned"))

    assert wire_of(RowChange(table, 1, before={"c": 200}, after={"c": 1}))["sqlType"] == {"c": -6}
    assert wire_of(RowChange(table, 1, before={"c": 200}))["sqlType"] == {"c": 5}


def test_names_in_full_types_are_quoted() -> None:
    elements = ("it's", "a\nb", "c\rd", "e\0f", "g,h", "<")
    column = replace(Column.of("c", "enum"), elements=elements)

    text = full_type(column)

    assert text == r"enum('it''s','a\nb','c\rd','e\0f','g,h','<')"
    for number, element in enumerate(elements, 1):
        value = value_of(text, str(number))
        assert isinstance(value, EnumValue)
        assert (value.index, value.text) == (number, element)


# Strings.


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ('"', r"\""),
        ("\\", r"\\"),
        ("/'", "/'"),
        ("\n\r\t", r"\n\r\t"),
        ("\b\f\v\0\x1f", r"\u0008\u000c\u000b\u0000\u001f"),
        ("\x7f\x80", "\x7f\x80"),
        ("<a>&", r"\u003ca\u003e\u0026"),
        ("\u2028\u2029", r"\u2028\u2029"),
        ("😀 e\u0301 \ufeff \uffff", "😀 e\u0301 \ufeff \uffff"),
    ],
)
def test_strings_are_escaped_everywhere_alike(text: str, escaped: str) -> None:
    """In values, and in the names of schemas, tables and columns, and in DDL."""
    table = TableSchema(TableName(text, text), (Column.of(text, "varchar(9)", primary_key=True),))
    row = RowChange(table, 1, after={text: text})
    ddl = Ddl(TableName(text, text), 1, text, 3)
    quoted = f'"{escaped}"'

    sent = text_of(row)
    assert f'"database":{quoted},"table":{quoted},"pkNames":[{quoted}]' in sent
    assert f'"sqlType":{{{quoted}:12}},"mysqlType":{{{quoted}:"varchar"}}' in sent
    assert f'"data":[{{{quoted}:{quoted}}}]' in sent
    assert f'"sql":{quoted}' in text_of(ddl)
    back = decoded(json.loads(sent))
    assert isinstance(back, RowChange)
    assert (back.table.name, back.table.primary_key, back.after) == (table.name, (text,), row.after)


def test_text_that_is_not_utf_8_says_so_for_each_byte() -> None:
    assert data_text("varchar(9)", b"caf\xe9 \xff\xfe") == r'"caf\ufffd \ufffd\ufffd"'
    event = next(decode(Message(None, b'{"type":"INSERT","database":"","table":"","mysqlType":{"a":"char"},'
                                b'"data":[{"a":"caf\xe9"}]}')))  # fmt: skip
    assert isinstance(event, RowChange)
    assert event.after == {"a": b"caf\xe9"}


def test_binary_is_read_byte_by_byte() -> None:
    for byte in range(256):
        assert value_of("varbinary", chr(byte)) == bytes([byte])
    with pytest.raises(DecodeError, match="stands for no byte"):
        value_of("blob", "Ā")


# Official Canal, and older servers.


def test_official_canal_puts_several_rows_into_one_message() -> None:
    wire = {
        "data": [{"id": "1", "price": "1.5000", "state": "b"}, {"id": "2", "price": None, "state": "2"}],
        "database": "shop",
        "es": 1700000000000,
        "gtid": "",
        "id": 42,
        "isDdl": False,
        "mysqlType": {"id": "int(11) unsigned", "price": "decimal(10, 4)", "state": "enum('a','b')"},
        "old": [{"price": "1.0000"}, {"state": "a"}],
        "pkNames": ["id"],
        "sql": "",
        "sqlType": {"id": 4, "price": 3, "state": 4},
        "table": "orders",
        "ts": 1700000000001,
        "type": "UPDATE",
    }

    events = list(decode(message(wire)))

    assert [(event.before, event.after) for event in events if isinstance(event, RowChange)] == [
        ({"price": Decimal("1.0000")}, {"id": 1, "price": Decimal("1.5000"), "state": EnumValue(2)}),
        ({"state": EnumValue(1)}, {"id": 2, "price": None, "state": EnumValue(2)}),
    ]
    assert all(isinstance(event, RowChange) and event.commit_ts is None for event in events)


def test_a_number_is_an_index_before_it_is_a_name() -> None:
    """TiCDC writes numbers also where the names are digits; a number beyond the list can only be a name."""
    assert value_of("enum('2','1')", "1") == EnumValue(1)
    assert value_of("enum('2','1')", "0") == EnumValue(0)
    assert value_of("enum('10','20')", "20") == EnumValue(2)
    assert value_of("enum('a','b')", "b") == EnumValue(2)
    assert value_of("enum('a','b')", "") == EnumValue(0)
    assert value_of("enum('a','b')", "7") == EnumValue(7)
    assert value_of("set('2','1')", "1") == SetValue(1)
    assert value_of("set('x','y','z')", "x,z") == SetValue(5)
    assert value_of("set('8','9')", "9,8") == SetValue(3)
    assert value_of("set('a','b')", "") == SetValue(0)
    for type_, text in (("enum('a')", "b"), ("set('a')", "a,b"), ("enum", "a"), ("set", ""), ("enum('a')", "-1")):
        with pytest.raises(DecodeError, match="unsigned 64-bit"):
            value_of(type_, text)


def test_old_servers_write_old_differently() -> None:
    for op, image in (("DELETE", "before"), ("INSERT", "after")):
        for old in (None, [], [None], [{"a": "1"}], [{"gone": "1"}]):
            row = row_of(type=op, old=old)
            assert (getattr(row, image), row.op) == ({"a": 1}, Op(op.lower()))
    nothings: list[Any] = [None, [], [None], [{}]]
    for nothing in nothings:
        row = row_of(type="UPDATE", old=nothing)
        assert (row.before, row.after) == ({}, {"a": 1})
    assert row_of(type="UPDATE", old=[{"a": None}]).before == {"a": None}


def test_old_may_have_a_column_the_new_row_has_not() -> None:
    row = row_of(type="UPDATE", old=[{"b": "x"}], mysqlType={"a": "int", "b": "text"})

    assert (row.before, row.after) == ({"b": "x"}, {"a": 1})
    assert [column.name for column in row.table.columns] == ["a", "b"]


def test_the_extension_may_be_there_or_not() -> None:
    assert row_of().commit_ts is None
    assert row_of(_tidb=None).commit_ts is None
    assert row_of(_tidb={}).commit_ts is None
    assert row_of(_tidb={"commitTs": 0}).commit_ts == 0
    assert row_of(_tidb={"commitTs": TSO, "tableId": 5, "partitionId": 7}).commit_ts == TSO
    assert row_of(_tidb={"commitTs": 1, "onlyHandleKey": True}).handle_key_only
    assert row_of(_tidb={"rowkey": None}).row_key is None
    assert row_of(_tidb={"rowkey": "dIA="}).row_key == b"t\x80"
    watermark = EXAMPLES["watermark"]
    assert decoded(watermark | {"_tidb": {}}) == Watermark(0)
    for missing in (None, 0):
        with pytest.raises(DecodeError, match=r"an object was expected in value at \$._tidb"):
            decoded(watermark | {"_tidb": missing})


def test_a_header_may_be_there_twice_and_a_column_may_not() -> None:
    text = '{"type":"DELETE","type":"INSERT","database":"d","table":"t","mysqlType":{"a":"int","a":"int"},"data":[%s]}'

    (event,) = decode(Message(None, (text % '{"a":"1"}').encode()))
    assert isinstance(event, RowChange)
    assert event.after == {"a": 1}
    with pytest.raises(DecodeError) as refusal:
        list(decode(Message(None, (text % '{"a":"1","a":"2"}').encode())))
    assert (refusal.value.reason, refusal.value.at) == ("the column is there twice", "$.data[0].a")


EMPLOYEE = (
    '{"id":0,"database":"test","table":"employee","pkNames":["id"],"isDdl":false,"type":"INSERT","es":1668067205238,'
    '"ts":1668067206650,"sql":"","sqlType":{"FirstName":12,"HireDate":91,"LastName":12,"OfficeLocation":12,"id":4},'
    '"mysqlType":{"FirstName":"varchar","HireDate":"date","LastName":"varchar","OfficeLocation":"varchar","id":"int"},'
    '"data":[{"FirstName":"Bob","HireDate":"2014-06-04","LastName":"Smith","OfficeLocation":"New York","id":"101"}],'
    '"old":null}'
)


def test_a_line_of_a_storage_file_decodes_with_its_terminator() -> None:
    for end in ("", "\n", "\r\n", " "):
        (event,) = decode(Message(None, (EMPLOYEE + end).encode()))
        assert isinstance(event, RowChange)
        assert event.after == {
            "FirstName": "Bob",
            "HireDate": Date("2014-06-04"),
            "LastName": "Smith",
            "OfficeLocation": "New York",
            "id": 101,
        }
    with pytest.raises(DecodeError, match="Extra data"):
        list(decode(Message(None, f"{EMPLOYEE}\n{EMPLOYEE}".encode())))


def test_floats_of_any_notation_are_read() -> None:
    for text, number in {"1e-7": 1e-7, "+1.5E+3": 1500.0, ".5": 0.5, "5.": 5.0, "-0": -0.0}.items():
        assert str(value_of("double", text)) == str(number)


def test_type_texts_of_others_are_understood() -> None:
    for text, value, expected in (
        ("INT(10) UNSIGNED", "1", 1),
        ("int(10)unsigned", "1", 1),
        ("bigint(20) unsigned zerofill", "18446744073709551615", 2**64 - 1),
        ("boolean", "1", 1),
        ("numeric(5,1)", "1.5", Decimal("1.5")),
        ("datetime(6)", "2020-01-01 00:00:00.000000", DateTime("2020-01-01 00:00:00.000000")),
        ("ENUM('binary','x')", "1", EnumValue(1)),
        (" varchar ( 3 ) ", "a", "a"),
    ):
        assert value_of(text, value) == expected, text


# Limits.


def test_a_row_of_exactly_the_limit_is_sent_and_one_byte_less_refuses_it() -> None:
    event = RowChange(build(Column.of("a", "varchar(255)", primary_key=True)), 1, after={"a": "aa"})
    size = len(text_of(event).encode()) + 36

    assert text_of(event, max_message_bytes=size)
    assert text_of(event, max_message_bytes=300)
    for limit in (size - 1, 100):
        with pytest.raises(MessageTooLarge) as refusal:
            text_of(event, max_message_bytes=limit)
        assert (refusal.value.length, refusal.value.limit, refusal.value.table) == (size, limit, "test.t")


def test_every_row_is_a_message_of_its_own() -> None:
    events = [RowChange(SMALL, n, before={"a": 1, "b": 2}, after={"a": 1, "b": 3}) for n in range(1000)]

    assert len(list(Encoder(Options(max_batch_size=100), CLOCK).encode(events))) == 1000


def test_ddl_and_watermarks_know_no_limit() -> None:
    events: list[Event] = [Ddl(TableName("test", "t"), 1, "x" * 1000, 3), Watermark(1)]

    assert len(list(Encoder(replace(EXTENSION, max_message_bytes=1), CLOCK).encode(events))) == 2


def test_a_large_row_is_sent_with_its_key_only() -> None:
    options = Options.parse(
        {"enable-tidb-extension": True, "large-message-handle-option": "handle-key-only", "max-message-bytes": 310}
    )
    table = build(Column.of("a", "tinyint", primary_key=True), Column.of("b", "varchar(200)"))
    event = RowChange(table, 5, before={"a": 1, "b": "x" * 200}, after={"a": 1, "b": "y" * 200})

    (sent,) = Encoder(options, CLOCK).encode([event])

    wire = json.loads(sent.value or b"")
    assert (wire["sqlType"], wire["mysqlType"], wire["data"]) == ({"a": -6}, {"a": "tinyint"}, [{"a": "1"}])
    assert wire["old"] == [{"a": "1"}]
    assert sent.value is not None
    assert sent.value.endswith(b',"_tidb":{"commitTs":5,"onlyHandleKey":true}}')
    (back,) = decode(sent)
    assert isinstance(back, RowChange)
    assert back.handle_key_only
    partial = replace(options, only_output_updated_columns=True)
    (sent,) = Encoder(partial, CLOCK).encode([event])
    assert json.loads(sent.value or b"")["old"] == [{}]


def test_large_messages_need_the_extension() -> None:
    for option in ("handle-key-only", "claim-check"):
        with pytest.raises(OptionError, match="enable-tidb-extension"):
            Encoder(Options.parse({"large-message-handle-option": option}))


BAD_VALUES: list[tuple[str, Any]] = [
    ("int", 5.5),
    ("int", "5"),
    ("bigint", 2**64),
    ("bit(64)", -1),
    ("set('a')", SetValue(2**64)),
    ("enum('a')", "a"),
    ("enum('a')", 1),
    ("float", float("nan")),
    ("float", 1e39),
    ("double", float("inf")),
    ("decimal(5,2)", 1),
    ("decimal(5,2)", Decimal("NaN")),
    ("date", "2020-01-01"),
    ("json", {"a": 1}),
    ("varchar(5)", 5),
    ("blob", 5),
    ("geometry", "x"),
]


@pytest.mark.parametrize(("type_", "value"), BAD_VALUES)
def test_a_value_that_does_not_fit_its_column_is_refused(type_: str, value: Any) -> None:
    with pytest.raises(EncodeError, match="column c "):
        data_text(type_, value)


# What is refused, where, and how.

ROW = {"type": "INSERT", "database": "d", "table": "t", "mysqlType": {"a": "int"}, "data": [{"a": "1"}]}


@pytest.mark.parametrize(
    ("wire", "reason", "at"),
    [
        ([], "an object was expected", "$"),
        ({}, "text was expected", "$.type"),
        (ROW | {"isDdl": 1}, "true or false", "$.isDdl"),
        (ROW | {"type": "UPSERT"}, "'UPSERT' is no row change", "$.type"),
        (ROW | {"type": "insert"}, "is no row change", "$.type"),
        (ROW | {"database": None}, "text was expected", "$.database"),
        (ROW | {"table": 5}, "text was expected", "$.table"),
        (ROW | {"data": None}, "no row is there", "$.data"),
        (ROW | {"data": []}, "no row is there", "$.data"),
        (ROW | {"data": {"a": "1"}}, "a list of rows was expected", "$.data"),
        (ROW | {"data": [None]}, "an object was expected", "$.data[0]"),
        (ROW | {"data": ["a"]}, "an object was expected", "$.data[0]"),
        (ROW | {"data": [{"a": 1}]}, "column a (int): 1 is not text", "$.data[0].a"),
        (ROW | {"data": [{"a": True}]}, "is not text", "$.data[0].a"),
        (ROW | {"data": [{"a": ["1"]}]}, "is not text", "$.data[0].a"),
        (ROW | {"data": [{"a": "1"}, {"a": "x"}]}, "column a (int): 'x'", "$.data[1].a"),
        (ROW | {"data": [{"the b": "1"}]}, "text was expected", '$.mysqlType["the b"]'),
        (ROW | {"mysqlType": None}, "the columns' types are missing", "$.mysqlType"),
        (ROW | {"mysqlType": []}, "an object was expected", "$.mysqlType"),
        (ROW | {"mysqlType": {"a": 5}}, "text was expected", "$.mysqlType.a"),
        (ROW | {"mysqlType": {"a": "integral"}}, "not a MySQL type: 'integral'", "$.mysqlType.a"),
        (ROW | {"mysqlType": {"a": ""}}, "not a MySQL type", "$.mysqlType.a"),
        (ROW | {"mysqlType": {"a": "decimal(1,2,3)"}}, "not a MySQL type", "$.mysqlType.a"),
        (ROW | {"mysqlType": {"a": "enum('a"}}, "not", "$.mysqlType.a"),
        (ROW | {"pkNames": "a"}, "a list of names", "$.pkNames"),
        (ROW | {"pkNames": [{}]}, "a list of names", "$.pkNames"),
        (ROW | {"pkNames": {}}, "a list of names", "$.pkNames"),
        (ROW | {"type": "UPDATE", "old": {}}, "a list of rows", "$.old"),
        (ROW | {"type": "UPDATE", "old": [{}, {}]}, "2 old rows for 1 new ones", "$.old"),
        (ROW | {"type": "UPDATE", "old": ["x"]}, "an object was expected", "$.old[0]"),
        (ROW | {"type": "UPDATE", "old": [{"a": "x"}]}, "column a (int): 'x'", "$.old[0].a"),
        (ROW | {"_tidb": []}, "an object was expected", "$._tidb"),
        (ROW | {"_tidb": False}, "an object was expected", "$._tidb"),
        (ROW | {"_tidb": {"commitTs": "5"}}, "unsigned 64-bit integer", "$._tidb.commitTs"),
        (ROW | {"_tidb": {"commitTs": -1}}, "unsigned 64-bit integer", "$._tidb.commitTs"),
        (ROW | {"_tidb": {"commitTs": None}}, "unsigned 64-bit integer", "$._tidb.commitTs"),
        (ROW | {"_tidb": {"onlyHandleKey": 1}}, "true or false", "$._tidb.onlyHandleKey"),
        (ROW | {"_tidb": {"rowkey": "*"}}, "not Base64", "$._tidb.rowkey"),
        (ROW | {"_tidb": {"rowkey": 5}}, "text was expected", "$._tidb.rowkey"),
        (ROW | {"_tidb": {"claimCheckLocation": 5}}, "text was expected", "$._tidb.claimCheckLocation"),
        ({"isDdl": True}, "text was expected", "$.type"),
        ({"isDdl": True, "type": "CREATE"}, "text was expected", "$.sql"),
        ({"isDdl": True, "type": "CREATE", "sql": "x", "table": 1}, "text was expected", "$.table"),
        ({"type": "TIDB_WATERMARK"}, "an object was expected", "$._tidb"),
        ({"type": "TIDB_WATERMARK", "_tidb": {"watermarkTs": 2**64}}, "unsigned 64-bit", "$._tidb.watermarkTs"),
    ],
)
def test_what_is_wrong_is_refused_with_its_place(wire: Any, reason: str, at: str) -> None:
    with pytest.raises(DecodeError) as refusal:
        list(decode(message(wire)))

    assert reason in refusal.value.reason
    assert (refusal.value.at, refusal.value.part, refusal.value.protocol) == (at, "value", "canal-json")


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("int", ""),
        ("int", " 1"),
        ("int", "1.0"),
        ("int", "0x1"),
        ("int", "٣"),
        ("int", "9223372036854775808"),
        ("int unsigned", "-1"),
        ("bigint unsigned", "18446744073709551616"),
        ("year", "abcd"),
        ("bit", "-1"),
        ("bit", "9" * 5000),
        ("float", "1e39"),
        ("float", "nan"),
        ("double", "inf"),
        ("double", "1e999"),
        ("double", "1_0"),
        ("decimal", "1e5"),
        ("decimal", "NaN"),
        ("decimal", ".5"),
        ("decimal", "5."),
        ("set", "18446744073709551616"),
        ("varbinary", "\u0100"),
    ],
)
def test_a_text_that_is_no_value_of_its_type_is_refused(type_: str, text: str) -> None:
    with pytest.raises(DecodeError) as refusal:
        value_of(type_, text)

    assert f"column c ({type_}" in refusal.value.reason
    assert refusal.value.at == "$.data[0].c"
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b"nul", b"\xff", b"\xef\xbb\xbf{}", b"[" * 100_000, b'{"a":' * 5000]
)
def test_what_is_no_json_is_refused(value: bytes | None) -> None:
    with pytest.raises(DecodeError):
        list(decode(Message(None, value)))


def test_bytes_that_are_no_utf_8_are_refused_where_text_must_be() -> None:
    text = json.dumps(ROW)
    for old, new in (
        ('"d"', b'"\xff"'),
        ('"INSERT"', b'"\xff"'),
        ('"int"', b'"\xff"'),
        ('"a": "1"', b'"\xff": "1"'),
        ('"a": "1"', b'"\\ud800": "\xff"'),
        ('"1"', b'"\xff"'),
    ):
        with pytest.raises(DecodeError) as refusal:
            list(decode(Message(None, text.encode().replace(old.encode(), new))))
        str(refusal.value).encode()


def test_hostile_messages_do_not_hang() -> None:
    names = [f"c{n}" for n in range(20_000)]
    wide = {
        "mysqlType": dict.fromkeys(names, "int"),
        "data": [dict.fromkeys(names, "1")],
        "pkNames": [f"k{n}" for n in range(20_000)],
    }
    members = ",".join(f"'m{n}'" for n in range(20_000))
    many = ",".join(f"m{n}" for n in range(20_000))

    assert len(row_of(**wide).table.columns) == 20_000
    for wire in (
        {"mysqlType": {"a": "int" + " " * 50_000 + "x"}},
        {"mysqlType": {"a": "int(" + ")" * 50_000}},
        {"mysqlType": {"a": "enum(" + "'" * 50_001 + ")"}},
        {"mysqlType": {"a": f"set({members})"}, "data": [{"a": many}]},
    ):
        with pytest.raises(DecodeError):
            row_of(**wire)


# Inspection.


def test_inspection_names_what_it_sees() -> None:
    (sent,) = Encoder(EXTENSION, CLOCK).encode([RowChange(SMALL, TSO, after={"a": 1, "b": None})])
    meanings = {field.name: field.meaning for field in inspect(sent)}

    assert meanings["$.es"] == "committed 2021-12-20 13:30:49.196000 UTC"
    assert meanings["$.ts"] == "encoded 2023-11-14 22:13:20.000000 UTC"
    assert meanings["$.sqlType.a"] == "Java type TINYINT"
    assert meanings["$.mysqlType.a"] == "MySQL type tinyint"
    assert meanings["$.data[0].b"] == "NULL"
    assert meanings["$._tidb.commitTs"] == "TSO, 2021-12-20 13:30:49.196000 UTC"


def test_inspection_survives_anything() -> None:
    for value in (
        b'{"es":%d}' % 10**40,
        b'{"_tidb":{"commitTs":-%d}}' % 10**30,
        b'{"es":true,"ts":NaN,"id":[[[',
        b"[" * 100_000,
        b'"' + b"a\\n" * 300_000,
        b"\xff\xfe",
        b"}}}",
    ):
        fields = list(inspect(Message(None, value)))
        assert b"".join(field.data for field in fields) == value
    assert list(inspect(Message(None, None))) == []


def test_a_decoder_can_be_shared() -> None:
    decoder = Decoder()

    assert [list(decoder.decode(message(ROW))) for _ in range(2)] == [list(decode(message(ROW)))] * 2
