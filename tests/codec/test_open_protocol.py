"""Open Protocol: the document's own examples, the servers' oddities both ways, limits, and what is refused."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.open_protocol import Decoder, Encoder, decode, encode, inspect
from tidewire.codec.open_protocol.wire import VERSION, frame, go_quote, go_unquote
from tidewire.errors import DecodeError, EncodeError, MessageTooLarge, OptionError
from tidewire.model import (
    Bootstrap,
    Column,
    ColumnFlag,
    Date,
    DateTime,
    Ddl,
    DdlType,
    EnumValue,
    Event,
    Generated,
    Index,
    Message,
    MySQLType,
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

DOCUMENT = json.loads((Path(__file__).parent / "documents" / "open-protocol.json").read_text("utf-8"))
ROW_KEY = '{"ts":1,"scm":"test","tbl":"t","t":1}'


def message(*events: tuple[str | bytes, str | bytes]) -> Message:
    """Event keys and values in their frame."""
    keys, values = (
        b"".join(frame(part.encode() if isinstance(part, str) else part) for part in side)
        for side in zip(*events, strict=True)
    )
    return Message(VERSION + keys, values)


def put(template: str, *parts: object) -> str:
    """JSON with blanks: braces stay braces."""
    return template % parts


def event_of(value: str | bytes, key: str | bytes = ROW_KEY, **options: Any) -> Event:
    (event,) = decode(message((key, value)), **options)
    return event


def row_of(value: str | bytes, key: str | bytes = ROW_KEY, **options: Any) -> RowChange:
    event = event_of(value, key, **options)
    assert isinstance(event, RowChange)
    return event


def value_of(column: str | bytes) -> Value:
    """The value of one column, given its object."""
    column = column.encode() if isinstance(column, str) else column
    return (row_of(b'{"u":{"c":%s}}' % column).after or {})["c"]


def build(*columns: Column, indexes: tuple[Index, ...] = (), name: str = "t") -> TableSchema:
    key = tuple(column.name for column in columns if column.primary_key)
    primary = (Index("PRIMARY", key, unique=True, primary=True),) if key else ()
    return TableSchema.build(TableName("test", name), columns, primary + indexes)


SMALL = build(Column.of("a", "tinyint", primary_key=True), Column.of("b", "int"))


def insert(table: TableSchema = SMALL, ts: int = 1, **row: Value) -> RowChange:
    return RowChange(table, ts, after=row)


def parts(*events: Event, **options: Any) -> tuple[str, str]:
    """Key and value of the one event in the one message, without their frame."""
    (made,) = encode(events, **options)
    assert made.key is not None
    assert made.value is not None
    return made.key[16:].decode(), made.value[8:].decode()


def image(table: TableSchema, row: Row, **options: Any) -> str:
    """The columns of an insert."""
    return parts(RowChange(table, 1, after=row), **options)[1].removeprefix('{"u":').removesuffix("}")


# The document's examples.


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


# Bytes and texts of the servers' own tests.


def test_the_first_bytes_of_every_kind() -> None:
    version = bytes.fromhex("0000000000000001")
    resolved = bytes.fromhex("000000000000000e 7b227473223a312c2274223a337d")
    row_key = bytes.fromhex(
        "0000000000000025 7b227473223a312c2273636d223a2274657374222c2274626c223a2274222c2274223a317d"
    )
    row = b'{"u":{"a":{"t":1,"h":true,"f":11,"v":1},"b":{"t":3,"f":65,"v":123}}}'

    assert list(encode([Watermark(1)])) == [Message(version + resolved, bytes(8))]
    assert list(encode([Watermark(12345678)])) == [
        Message(version + bytes.fromhex("0000000000000015 7b227473223a31323334353637382c2274223a337d"), bytes(8))
    ]
    assert list(encode([Ddl(TableName("a", "b"), 1, "create table a", 1)])) == [
        Message(
            version + bytes.fromhex("0000000000000022") + b'{"ts":1,"scm":"a","tbl":"b","t":2}',
            bytes.fromhex("000000000000001c") + b'{"q":"create table a","t":1}',
        )
    ]
    assert list(encode([insert(a=1, b=123)])) == [Message(version + row_key, bytes.fromhex("0000000000000044") + row)]


def test_an_old_batch_without_flags_decodes() -> None:
    """The Java demo's sample data has text in a TINYINT, which no server wrote; in a VARCHAR it is right."""
    value = '{"u":{"col1":{"t":%d,"v":"aa"}}}'
    keys = [f'{{"ts":{ts},"scm":"a","tbl":"b","t":1}}' for ts in (1, 2, 3)] + [
        '{"ts":4,"scm":"a","tbl":"c","ptn":6,"t":1}'
    ]

    events = list(decode(message(*((key, put(value, 15)) for key in keys))))

    assert [event.commit_ts for event in events if isinstance(event, RowChange)] == [1, 2, 3, 4]
    assert [event.partition_id for event in events if isinstance(event, RowChange)] == [None, None, None, 6]
    assert all(isinstance(event, RowChange) and event.after == {"col1": "aa"} for event in events)
    with pytest.raises(DecodeError, match="'aa' is not a signed 64-bit integer"):
        row_of(put(value, 1))


def test_an_empty_batch_has_no_events() -> None:
    assert list(decode(Message(VERSION, b""))) == []
    assert list(decode(Message(VERSION, None))) == []


def test_texts_of_row_events() -> None:
    a, b = '"a":{"t":1,"h":true,"f":11,"v":1}', '"b":{"t":3,"f":65,"v":%d}'
    first, second = {"a": 1, "b": 123}, {"a": 1, "b": 456}
    update = RowChange(SMALL, 1, before=first, after=second)
    delete = RowChange(SMALL, 1, before=second)

    assert parts(insert(a=1, b=123)) == (ROW_KEY, put('{"u":{%s,%s}}', a, b % 123))
    assert parts(update)[1] == put('{"u":{%s,%s},"p":{%s,%s}}', a, b % 456, a, b % 123)
    assert parts(delete)[1] == put('{"d":{%s,%s}}', a, b % 456)
    assert parts(delete, delete_only_output_handle_key_columns=True) == (ROW_KEY, put('{"d":{%s}}', a))
    assert parts(update, output_old_value=False)[1] == put('{"u":{%s,%s}}', a, b % 456)
    assert parts(update, only_output_updated_columns=True)[1] == put('{"u":{%s,%s},"p":{%s}}', a, b % 456, b % 123)
    assert parts(RowChange(SMALL, 1, before=first, after=first), only_output_updated_columns=True)[1].endswith(
        '"p":{}}'
    )
    assert parts(insert(a=1))[1] == put('{"u":{%s}}', a), "a column that a selector took away"
    assert parts(
        replace(insert(a=1, b=123), table_id=6, partitioned=True),
    )[0] == ROW_KEY.replace('"t":1}', '"t":1,"ptn":6}')
    ddl = Ddl(TableName("test", "t"), 1, "create table test.t(a tinyint primary key, b int)", 3)
    assert parts(ddl) == (
        '{"ts":1,"scm":"test","tbl":"t","t":2}',
        '{"q":"create table test.t(a tinyint primary key, b int)","t":3}',
    )
    assert parts(Ddl(TableName("test", ""), 1, "DROP DATABASE `test`", 2))[0] == '{"ts":1,"scm":"test","tbl":"","t":2}'


def test_only_changed_columns_are_compared_as_their_type_compares() -> None:
    table = build(
        Column.of("a", "tinyint", primary_key=True),
        Column.of("b", "int"),
        Column.of("c", "decimal(10,2)"),
        Column.of("d", "double"),
    )

    def old(before: Row, after: Row) -> Any:
        event = RowChange(table, 1, before={"a": 1, **before}, after={"a": 1, **after})
        return json.loads(parts(event, only_output_updated_columns=True)[1])["p"]

    assert old({"b": 123, "c": Decimal("123.12")}, {"b": 456, "c": Decimal("456.45")}) == {
        "b": {"t": 3, "f": 65, "v": 123},
        "c": {"t": 246, "f": 65, "v": "123.12"},
    }
    assert old({"c": Decimal("1.0"), "b": None, "d": 0.0}, {"c": Decimal("1.00"), "b": None, "d": -0.0}) == {}
    assert old({"b": None}, {"b": 0}) == {"b": {"t": 3, "f": 65, "v": None}}
    assert old({"b": 123}, {"b": None}) == {"b": {"t": 3, "f": 65, "v": 123}}, "its name is there, unlike the server's"


COLUMNS: list[tuple[str, Value, str]] = [
    ("bool", 1, '{"t":1,"f":65,"v":1}'),
    ("smallint", -1, '{"t":2,"f":65,"v":-1}'),
    ("int", 123, '{"t":3,"f":65,"v":123}'),
    ("float", 153.123, '{"t":4,"f":65,"v":153.123}'),
    ("float", 1e-7, '{"t":4,"f":65,"v":1e-07}'),
    ("float", -0.0, '{"t":4,"f":65,"v":-0}'),
    ("double", 153.123, '{"t":5,"f":65,"v":153.123}'),
    ("double", 2.0, '{"t":5,"f":65,"v":2}'),
    ("double", 1e-6, '{"t":5,"f":65,"v":0.000001}'),
    ("double", 1e-7, '{"t":5,"f":65,"v":1e-07}'),
    ("double", 1e20, '{"t":5,"f":65,"v":100000000000000000000}'),
    ("double", 1e21, '{"t":5,"f":65,"v":1e+21}'),
    ("double", -1.5e300, '{"t":5,"f":65,"v":-1.5e+300}'),
    ("double", -0.0, '{"t":5,"f":65,"v":-0}'),
    ("timestamp", Timestamp("1973-12-30 15:30:00"), '{"t":7,"f":65,"v":"1973-12-30 15:30:00"}'),
    ("timestamp(6)", Timestamp("2024-03-11 08:51:01.461270"), '{"t":7,"f":65,"v":"2024-03-11 08:51:01.461270"}'),
    ("bigint", 123, '{"t":8,"f":65,"v":123}'),
    ("bigint", -(2**63), '{"t":8,"f":65,"v":-9223372036854775808}'),
    ("bigint unsigned", 2**64 - 1, '{"t":8,"f":193,"v":18446744073709551615}'),
    ("mediumint", 123, '{"t":9,"f":65,"v":123}'),
    ("date", Date("2000-01-01"), '{"t":10,"f":65,"v":"2000-01-01"}'),
    ("date", Date("0000-00-00"), '{"t":10,"f":65,"v":"0000-00-00"}'),
    ("time", Time("23:59:59"), '{"t":11,"f":65,"v":"23:59:59"}'),
    ("time(3)", Time("-838:59:59.000"), '{"t":11,"f":65,"v":"-838:59:59.000"}'),
    ("datetime", DateTime("2015-12-20 23:58:58"), '{"t":12,"f":65,"v":"2015-12-20 23:58:58"}'),
    ("year", 1970, '{"t":13,"f":193,"v":1970}'),
    ("varchar(10)", "测试", '{"t":15,"f":64,"v":"测试"}'),
    ("varchar(10)", "", '{"t":15,"f":64,"v":""}'),
    ("varchar(10)", r"\x89 \\ stays", r'{"t":15,"f":64,"v":"\\x89 \\\\ stays"}'),
    ("varbinary(10)", bytes(range(1, 11)), r'{"t":15,"f":65,"v":"\\x01\\x02\\x03\\x04\\x05\\x06\\a\\b\\t\\n"}'),
    ("varbinary(30)", "测试varbinary".encode(), '{"t":15,"f":65,"v":"测试varbinary"}'),
    ("varbinary(10)", b"", '{"t":15,"f":65,"v":""}'),
    ("bit(10)", 81, '{"t":16,"f":193,"v":81}'),
    ("bit(10)", 0b0101010101, '{"t":16,"f":193,"v":341}'),
    ("bit(64)", 2**64 - 1, '{"t":16,"f":193,"v":18446744073709551615}'),
    ("json", '{"key1": "value1"}', r'{"t":245,"f":65,"v":"{\"key1\": \"value1\"}"}'),
    ("decimal(10,2)", Decimal("129012.12"), '{"t":246,"f":65,"v":"129012.12"}'),
    ("decimal(10,2)", Decimal("-0.50"), '{"t":246,"f":65,"v":"-0.50"}'),
    ("enum('a','b','c')", EnumValue(1), '{"t":247,"f":64,"v":1}'),
    ("enum('a','b','c')", EnumValue(0), '{"t":247,"f":64,"v":0}'),
    ("set('a','b','c')", SetValue(2), '{"t":248,"f":64,"v":2}'),
    ("set('a','b','c')", SetValue(3), '{"t":248,"f":64,"v":3}'),
    ("set('a')", SetValue(2**63), '{"t":248,"f":64,"v":9223372036854775808}'),
    ("tinytext", "5rWL6K+VdGV4dA==", '{"t":249,"f":64,"v":"NXJXTDZLK1ZkR1Y0ZEE9PQ=="}'),
    ("tinyblob", bytes.fromhex("89504E470D0A1A0A"), '{"t":249,"f":65,"v":"iVBORw0KGgo="}'),
    ("mediumblob", bytes.fromhex("4944330300000000"), '{"t":250,"f":65,"v":"SUQzAwAAAAA="}'),
    ("longblob", bytes.fromhex("504B0304140000000800"), '{"t":251,"f":65,"v":"UEsDBBQAAAAIAA=="}'),
    ("blob", bytes.fromhex("255044462D312E34"), '{"t":252,"f":65,"v":"JVBERi0xLjQ="}'),
    ("blob", "测".encode(), '{"t":252,"f":65,"v":"5rWL"}'),
    ("text", "", '{"t":252,"f":64,"v":""}'),
    ("char(10)", "Alice", '{"t":254,"f":64,"v":"Alice"}'),
    ("binary(10)", bytes(range(1, 11)), r'{"t":254,"f":65,"v":"\\x01\\x02\\x03\\x04\\x05\\x06\\a\\b\\t\\n"}'),
    ("binary(8)", b"\x89PNG\r\n\x1a\n", r'{"t":254,"f":65,"v":"\\x89PNG\\r\\n\\x1a\\n"}'),
    ("vector(5)", "[1,2,3,4,5]", '{"t":225,"f":65,"v":"[1,2,3,4,5]"}'),
]


@pytest.mark.parametrize(("type_", "value", "expected"), COLUMNS)
def test_a_column_of_each_type(type_: str, value: Value, expected: str) -> None:
    table = build(Column.of("c", type_))

    assert image(table, {"c": value}) == put('{"c":%s}', expected)
    assert image(table, {"c": None}) == put('{"c":%s,"v":null}}', expected.rpartition(',"v":')[0])
    decoded = value_of(expected)
    if type_ == "float":
        assert str(decoded) == str(float(json.loads(expected)["v"])) or decoded == pytest.approx(value)
    else:
        assert (type(decoded), decoded) == (type(value), value)
    assert value_of(expected.rpartition(',"v":')[0] + ',"v":null}') is None


def test_minus_zero_keeps_its_sign() -> None:
    for column in ('{"t":4,"f":65,"v":-0}', '{"t":5,"f":65,"v": -0}', '{"t":5,"f":65,"v":-0.0}', '{"t":5,"v":-0e5}'):
        assert str(value_of(column)) == "-0.0", column
    assert str(value_of('{"t":5,"f":65,"v":0}')) == "0.0"


def test_exponents_of_either_server_are_read() -> None:
    for text in ("1e-07", "1e-7", "0.0000001", "1E-7"):
        assert value_of(put('{"t":5,"f":65,"v":%s}', text)) == 1e-7
    assert value_of('{"t":5,"f":65,"v":18446744073709551616}') == 2.0**64


def test_flags_follow_the_indexes() -> None:
    table = build(
        Column.of("a", "int", primary_key=True),
        Column.of("b", "int", nullable=False),
        Column.of("c", "int"),
        Column.of("d", "int unsigned"),
        Column.of("e", "blob"),
        indexes=(Index("b", ("b", "c"), unique=True), Index("c", ("c", "d"))),
    )
    columns = json.loads(image(table, {"a": 1, "b": 2, "c": 3, "d": 4, "e": b""}))

    assert {name: column["f"] for name, column in columns.items()} == {"a": 11, "b": 49, "c": 113, "d": 225, "e": 65}
    assert [name for name, column in columns.items() if "h" in column] == ["a"]


def test_the_two_marks_of_a_handle_key_may_disagree() -> None:
    """The new server leaves generated columns out when it sets flags by indexes, but not when it writes ``h``."""
    column = replace(Column.of("g", "int"), handle_key=True, flags=ColumnFlag(21), generated=Generated.STORED)
    table = TableSchema(TableName("test", "t"), (column,))

    assert image(table, {"g": 1}) == '{"g":{"t":3,"h":true,"f":21,"v":1}}'
    decoded = row_of('{"u":{"g":{"t":3,"h":true,"f":21,"v":1},"k":{"t":3,"f":23,"v":1}}}').table
    assert [(c.flags, c.handle_key, c.generated) for c in decoded.columns] == [
        (21, True, Generated.STORED),
        (23, False, Generated.STORED),
    ]


def test_a_virtual_column_is_never_sent_and_cannot_be_the_only_key() -> None:
    virtual = replace(Column.of("b", "int", nullable=False), generated=Generated.VIRTUAL)
    table = build(Column.of("a", "int"), virtual, indexes=(Index("b", ("b",), unique=True),))
    event = RowChange(table, 1, before={"a": 1, "b": 2})

    assert "b" not in json.loads(parts(event)[1])["d"]
    with pytest.raises(EncodeError) as refusal:
        parts(event, delete_only_output_handle_key_columns=True)
    assert refusal.value.code == "CDC:ErrOpenProtocolCodecInvalidData"
    assert "delete event of test.t" in str(refusal.value)


# Strings.

ODD_TEXTS = [
    ('"', r"\""),
    ("\\", r"\\"),
    ("/", "/"),
    ("\n\r\t", r"\n\r\t"),
    ("\b\f\v\x00\x1f", r"\u0008\u000c\u000b\u0000\u001f"),
    ("\x7f", "\x7f"),
    ("<a href='x'>&</a>", "<a href='x'>&</a>"),
    ("\u2028\u2029", "\u2028\u2029"),
    ("😀 e\u0301 \ufeff \uffff", "😀 e\u0301 \ufeff \uffff"),
    ("null", "null"),
    ("", ""),
]


@pytest.mark.parametrize(("text", "escaped"), ODD_TEXTS)
def test_strings_are_escaped_everywhere_alike(text: str, escaped: str) -> None:
    """In values, and in the names of schemas, tables and columns, and in DDL."""
    name = text or "x"
    table = TableSchema(TableName(text, text), (Column.of(name, "varchar(9)"),))
    row = RowChange(table, 1, after={name: text})
    ddl = Ddl(TableName(text, text), 1, text, 3)
    quoted = f'"{escaped}"'

    assert parts(row) == (
        f'{{"ts":1,"scm":{quoted},"tbl":{quoted},"t":1}}',
        put('{"u":{%s:{"t":15,"f":64,"v":%s}}}', quoted if text else '"x"', quoted),
    )
    assert parts(ddl) == (f'{{"ts":1,"scm":{quoted},"tbl":{quoted},"t":2}}', f'{{"q":{quoted},"t":3}}')
    decoded = row_of(*reversed(parts(row)))
    assert (decoded.table.name, decoded.after) == (table.name, row.after)
    assert event_of(*reversed(parts(ddl))) == ddl


def test_the_classic_servers_escapes_are_read() -> None:
    for text, escaped in {"<>&": r"\u003c\u003e\u0026", "\b\f": r"\b\f", "\u2028\u2029": r"\u2028\u2029"}.items():
        assert value_of(put('{"t":15,"f":64,"v":"%s"}', escaped)) == text
    assert value_of(r'{"t":15,"f":64,"v":"\ud83d\ude00"}') == "😀"


def test_text_that_is_not_utf_8_passes_through() -> None:
    """The new server copies bad bytes; the classic one, and Go for an escaped lone surrogate, say U+FFFD."""
    bad = b"caf\xe9 \xff\xfe"
    table = build(Column.of("c", "varchar(9)"))
    (made,) = encode([RowChange(table, 1, after={"c": bad})])
    assert made.value is not None

    assert made.value.endswith(b'"v":"caf\xe9 \xff\xfe"}}}')
    (event,) = decode(made)
    assert isinstance(event, RowChange)
    assert event.after == {"c": bad}
    assert value_of('{"t":15,"f":64,"v":"caf\\ufffd"}') == "caf\ufffd"
    assert value_of(r'{"t":15,"f":64,"v":"\ud800 \\ud800"}') == "\ufffd \\ud800"
    assert value_of(b'{"t":15,"f":64,"v":"\\udc80 \xff"}') == "\ufffd ".encode() + b"\xff"
    assert value_of('{"t":252,"f":64,"v":"/w=="}') == b"\xff"


GO_QUOTES: list[tuple[bytes, str]] = [
    (b"", ""),
    (b"plain text", "plain text"),
    (b'"\\', r"\"\\"),
    (b"'", "'"),
    (b"\a\b\f\n\r\t\v", r"\a\b\f\n\r\t\v"),
    (b"\x00\x1f\x7f", r"\x00\x1f\x7f"),
    (b"\x80\xff", r"\x80\xff"),
    (b"\xe6\xb5", r"\xe6\xb5"),
    (b"\xed\xa0\x80", r"\xed\xa0\x80"),
    ("é\u00a0\u0085\u00ad".encode(), r"é\u00a0\u0085\u00ad"),
    ("\u2028\u3000\ue000\ufffe".encode(), r"\u2028\u3000\ue000\ufffe"),
    ("\ufffd😀".encode(), "\ufffd😀"),
    ("\U000e0001\U0010ffff".encode(), r"\U000e0001\U0010ffff"),
    ("\U0001fae8\u0cf3".encode(), "\U0001fae8\u0cf3"),  # printable since Unicode 15.0, which is Go's
    ("\u2ffc\u31ef\U0002ebf0".encode(), r"\u2ffc\u31ef\U0002ebf0"),  # only since 15.1
]


@pytest.mark.parametrize(("data", "quoted"), GO_QUOTES)
def test_binary_strings_are_quoted_as_go_quotes(data: bytes, quoted: str) -> None:
    assert go_quote(data) == quoted
    assert go_unquote(quoted) == data


def test_every_byte_and_every_pair_of_bytes_is_quoted_and_read_back() -> None:
    for first in range(256):
        for second in (0, 0x22, 0x41, 0x5C, 0x7F, 0x80, 0xBF, 0xC3, 0xFF):
            data = bytes((first, second))
            assert go_unquote(go_quote(data)) == data


def test_escapes_only_go_readers_know_are_read() -> None:
    assert go_unquote(r"\101\000\377 \u6d4b\U0001F600 \'") == b"A\x00\xff " + "测😀 '".encode()
    for wrong in ("\\", "\\q", r"\x1", r"\400", r"\ud800", r"\U00110000", r"\UFFFFFFFF", r"\12"):
        with pytest.raises(ValueError, match=r"unknown escape|is no character"):
            go_unquote(wrong)


# Forms only the classic server, the new one, or old ones write.


def test_the_classic_servers_forms_decode() -> None:
    row = row_of(
        '{"u":{"a":{"t":1,"h":true,"f":11,"v":1},"aa":{"t":3,"f":65,"v":null}},"p":{"aa":{"t":3,"f":65,"v":5}}}',
        '{"ts":1,"scm":"test","tbl":"t","rid":-127,"ptn":9,"t":1}',
    )

    assert (row.row_id, row.partition_id, row.table_id) == (-127, 9, 9)
    assert (row.before, row.after) == ({"aa": 5}, {"a": 1, "aa": None})
    assert event_of('{"q":"CREATE DATABASE `x`","t":1}', '{"ts":1,"scm":"x","t":2}') == Ddl(
        TableName("x", ""), 1, "CREATE DATABASE `x`", 1
    )
    assert row_of('{"u":{"a":{"t":1,"v":1}},"p":{}}').op is Op.UPDATE
    assert row_of('{"u":{"a":{"t":1,"v":1}},"p":null,"d":null}').op is Op.INSERT


def test_of_two_marks_the_last_counts() -> None:
    value = '{"u":{"a":{"t":1,"h":true,"f":11,"v":1}}}'

    assert row_of(value, '{"ts":1,"t":1,"ohk":true}').handle_key_only
    assert not row_of(value, '{"ts":1,"t":1,"ohk":true,"ohk":false}').handle_key_only


def test_members_nobody_knows_are_ignored() -> None:
    row = row_of('{"x":[1],"u":{"a":{"t":1,"n":{},"v":1}}}', '{"new":{"a":[]},"ts":1,"t":1}')

    assert row.after == {"a": 1}


def test_without_flags_an_integer_may_be_unsigned() -> None:
    assert value_of('{"t":8,"v":18446744073709551615}') == 2**64 - 1
    assert value_of('{"t":8,"v":-9223372036854775808}') == -(2**63)


INT, TEXT = '"t":3,"f":65,"v":5', '"t":15,"f":64,"v":"x"'
NAMELESS: list[tuple[str, str, Row]] = [
    ("one", INT, {}),
    ("several", f"{INT},{TEXT},{TEXT}", {}),
    ("among named ones", f'{INT},"c":{{{INT}}},{TEXT}', {"c": 5}),
    ("beside a column called v", f'"v":{{{INT}}},{INT}', {"v": 5}),
    ("beside a column called t", f'{INT},"t":{{{INT}}}', {"t": 5}),
]


@pytest.mark.parametrize(("old", "expected"), [pytest.param(*case, id=name) for name, *case in NAMELESS])
def test_old_values_without_a_name_are_left_out_and_the_row_is_kept(old: str, expected: Row) -> None:
    """The new server writes them when a column becomes NULL in only-updated mode."""
    new = '{"b":{"t":3,"f":65,"v":null},"c":{"t":3,"f":65,"v":1},"d":{"t":15,"f":64,"v":null}}'

    row = row_of(put('{"u":%s,"p":{%s}}', new, old))

    assert row.op is Op.UPDATE
    assert row.before == expected


# Limits.

TEXTS = build(Column.of("a", "varchar(10)", primary_key=True), Column.of("b", "varchar(10)"))
TS = 415508856908021766


def sizes(messages: list[Message]) -> list[int]:
    return [len(sent.key or b"") + len(sent.value or b"") + 36 for sent in messages]


def test_a_row_of_exactly_the_limit_is_sent_and_one_byte_less_refuses_it() -> None:
    event = insert(TEXTS, TS, a="aa", b="bb")

    (sent,) = encode([event], max_message_bytes=188)
    assert sizes([sent]) == [188] == [54 + 74 + 60]
    with pytest.raises(MessageTooLarge) as refusal:
        list(encode([event], max_message_bytes=187))
    assert (refusal.value.table, refusal.value.length, refusal.value.limit) == ("test.t", 188, 187)
    assert refusal.value.code == "CDC:ErrMessageTooLarge"


def test_no_batch_grows_beyond_its_limits() -> None:
    events = [insert(TEXTS, TS, a="aa", b="bb")] * 10000

    alone = list(encode(events, max_message_bytes=256))
    assert len(alone) == 10000
    assert max(sizes(alone)) <= 256
    batches = list(encode(events, max_batch_size=64))
    assert len(batches) == 157
    counts = [len(list(decode(batch))) for batch in batches]
    assert max(counts) == 64
    assert sum(counts) == 10000
    assert [len(list(decode(batch))) for batch in encode(events[:5], max_batch_size=2)] == [2, 2, 1]
    assert len(list(encode(events[:33]))) == 3, "16 is the default"


def test_the_new_servers_limits() -> None:
    three = [insert(ts=TS, a=n, b=123) for n in (1, 2, 3)]

    assert sizes(list(encode(three, max_message_bytes=400))) == [320, 182]
    assert [len(list(decode(sent))) for sent in encode(three, max_batched_bytes=320)] == [2, 1]
    assert [len(list(decode(sent))) for sent in encode(three, max_batched_bytes=319)] == [1, 1, 1]
    with pytest.raises(MessageTooLarge):
        list(encode(three, max_message_bytes=100))
    (wide,) = encode(three[:1], max_message_bytes=400, max_batched_bytes=100)
    assert sizes([wide]) == [182]


def test_handle_key_only_has_its_own_form() -> None:
    options = Options.parse({"large-message-handle-option": "handle-key-only", "max-message-bytes": 168})
    a = '"a":{"t":1,"h":true,"f":11,"v":1}'
    update = RowChange(SMALL, TS, before={"a": 1, "b": 123}, after={"a": 1, "b": 4})

    (sent,) = Encoder(options).encode([insert(ts=TS, a=1, b=123)])
    assert (sent.key or b"")[16:].decode() == put('{"ts":%d,"scm":"test","tbl":"t","t":1,"ohk":true}', TS)
    assert (sent.value or b"")[8:].decode() == put('{"u":{%s}}', a)
    assert sizes([sent]) == [65 + 41 + 60]
    (event,) = decode(sent)
    assert isinstance(event, RowChange)
    assert event.handle_key_only
    wide = replace(options, max_message_bytes=210)
    (sent,) = Encoder(wide).encode([update])
    assert (sent.value or b"")[8:].decode() == put('{"u":{%s},"p":{%s}}', a, a)
    (sent,) = Encoder(replace(wide, only_output_updated_columns=True, max_message_bytes=190)).encode([update])
    assert (sent.value or b"")[8:].decode() == put('{"u":{%s},"p":{}}', a)


def test_a_large_row_without_a_key_is_refused() -> None:
    table = build(Column.of("a", "tinyint"), Column.of("b", "int"))
    for option in ("handle-key-only", "claim-check"):
        options = Options.parse({"large-message-handle-option": option, "max-message-bytes": 150})
        with pytest.raises(EncodeError) as refusal:
            list(
                Encoder(options, Resources(claim_check=MemoryStore())).encode(
                    [RowChange(table, 1, after={"a": 1, "b": 2})]
                )
            )
        assert refusal.value.code == "CDC:ErrOpenProtocolCodecInvalidData"


def test_a_claim_check_has_its_own_form_and_its_own_limit() -> None:
    text = build(Column.of("a", "tinyint", primary_key=True), Column.of("b", "text"))
    event = replace(insert(text, a=1, b="x" * 500), table_id=7, partitioned=True)
    options = Options.parse(
        {
            "large-message-handle-option": "claim-check",
            "claim-check-storage-uri": "s3://bucket/prefix/",
            "large-message-handle-compression": "lz4",
            "max-message-bytes": 320,
        }
    )
    store = MemoryStore()
    resources = Resources(claim_check=store, file_name=lambda: "11111111-2222-4333-8444-555555555555.json")
    uncompressed = replace(event, after={"a": 1, "b": "".join(chr(33 + n * 37 % 90) for n in range(500))})

    (sent,) = Encoder(options, resources).encode([uncompressed])

    assert (sent.key or b"")[16:].decode() == (
        '{"ts":1,"scm":"test","tbl":"t","t":1,"ohk":true,"ohk":false,'
        '"ccl":"s3://bucket/prefix/11111111-2222-4333-8444-555555555555.json","ptn":7}'
    )
    kept = json.loads(store.blobs["11111111-2222-4333-8444-555555555555.json"])
    assert list(kept) == ["key", "value"]
    (whole,) = encode([uncompressed], large_message_handle_compression="lz4")
    assert (base64.b64decode(kept["key"]), base64.b64decode(kept["value"])) == (whole.key, whole.value)
    (back,) = Decoder(options, resources).decode(sent)
    assert isinstance(back, RowChange)
    assert (back.after, back.handle_key_only, back.partition_id) == (uncompressed.after, False, 7)
    (length,) = sizes([sent])
    assert list(Encoder(replace(options, max_message_bytes=length), resources).encode([uncompressed])) == [sent]
    with pytest.raises(MessageTooLarge) as refusal:
        list(Encoder(replace(options, max_message_bytes=length - 1), resources).encode([uncompressed]))
    assert refusal.value.length == length


def test_ddl_and_watermarks_know_no_limit() -> None:
    ddl = Ddl(TableName("test", "t"), 1, "x" * 1000, 3)

    assert len(list(encode([ddl, Watermark(1)], max_message_bytes=1))) == 2


def test_ddl_and_watermarks_are_alone_and_nothing_overtakes() -> None:
    rows = [insert(a=n, b=n) for n in range(3)]
    events: list[Event] = [rows[0], rows[1], Watermark(1), Ddl(TableName("test", "t"), 2, "x", 5), rows[2]]

    messages = list(encode(events))

    assert [len(list(decode(sent))) for sent in messages] == [2, 1, 1, 1]
    assert [type(event) for sent in messages for event in decode(sent)] == [type(event) for event in events]


def test_what_came_before_a_bad_event_is_sent_first() -> None:
    for bad in (
        insert(a=1, b="no number"),
        RowChange(SMALL, None, after={"a": 1}),
        RowChange(SMALL, 1),
        Ddl(TableName("a", "b"), None, "x", 1),
        Bootstrap(SMALL),
    ):
        messages = encode([insert(a=1, b=2), bad])

        assert [type(event) for event in decode(next(messages))] == [RowChange], bad
        with pytest.raises(EncodeError):
            next(messages)


def test_a_raw_claim_check_would_lose_the_key() -> None:
    with pytest.raises(OptionError, match="claim-check-raw-value"):
        Encoder(Options.parse({"large-message-handle-option": "claim-check", "claim-check-raw-value": "true"}))


BAD_VALUES: list[tuple[str, Any]] = [
    ("int", 5.5),
    ("int", Decimal("5.5")),
    ("int", "5"),
    ("bigint", 2**64),
    ("bigint", -(2**63) - 1),
    ("bit(64)", -1),
    ("set('a')", SetValue(2**64)),
    ("enum('a')", "a"),
    ("enum('a')", 1),
    ("float", float("nan")),
    ("float", 1e39),
    ("double", float("inf")),
    ("decimal(5,2)", 1),
    ("decimal(5,2)", Decimal("Infinity")),
    ("date", "2020-01-01"),
    ("json", {"a": 1}),
    ("varchar(5)", 5),
    ("varchar(5)", "\ud800"),
    ("blob", [1]),
    ("geometry", "x"),
]


@pytest.mark.parametrize(("type_", "value"), BAD_VALUES)
def test_a_value_that_does_not_fit_its_column_is_refused(type_: str, value: Any) -> None:
    with pytest.raises(EncodeError, match="column c "):
        image(build(Column.of("c", type_)), {"c": value})


def test_a_name_that_is_no_text_is_refused() -> None:
    for name in (TableName("\ud800", "t"), TableName("s", "\ud800")):
        with pytest.raises(EncodeError, match="is not text"):
            list(encode([Ddl(name, 1, "x", 1)]))


# What is refused, where, and how.

COLUMN = '{"u":{"c":%s}}'
REFUSED: list[tuple[str, str, str, str | int]] = [
    # key, value, reason, place
    ("{", "{}", "not JSON", 17),
    ("[]", "{}", "an object was expected", "$"),
    ("{}", "{}", "unsigned 8-bit integer", "$.t"),
    ('{"t":1}', COLUMN % '{"t":3,"v":1}', "unsigned 64-bit integer", "$.ts"),
    ('{"ts":18446744073709551616,"t":3}', "", "unsigned 64-bit integer", "$.ts"),
    ('{"ts":-1,"t":3}', "", "unsigned 64-bit integer", "$.ts"),
    ('{"ts":1.0,"t":3}', "", "unsigned 64-bit integer", "$.ts"),
    ('{"ts":1,"t":0}', "{}", "0 is no event type", "$.t"),
    ('{"ts":1,"t":4}', "{}", "4 is no event type", "$.t"),
    ('{"ts":1,"t":true}', "{}", "unsigned 8-bit integer", "$.t"),
    ('{"ts":1,"t":3}', "{}", "resolved event with a value", 8),
    ('{"ts":1,"t":1,"scm":5}', COLUMN % '{"t":3,"v":1}', "text was expected", "$.scm"),
    ('{"ts":1,"t":1,"ohk":1}', COLUMN % '{"t":3,"v":1}', "true or false", "$.ohk"),
    ('{"ts":1,"t":1,"ptn":"6"}', COLUMN % '{"t":3,"v":1}', "signed 64-bit integer", "$.ptn"),
    ('{"ts":1,"t":1,"rid":9223372036854775808}', COLUMN % '{"t":3,"v":1}', "signed 64-bit integer", "$.rid"),
    ('{"ts":1,"t":1,"ccl":5}', COLUMN % '{"t":3,"v":1}', "text was expected", "$.ccl"),
    ('{"ts":1,"t":2}', "", "not JSON", 8),
    ('{"ts":1,"t":2}', '{"t":3}', "text was expected", "$.q"),
    ('{"ts":1,"t":2}', '{"q":"x"}', "unsigned 8-bit integer", "$.t"),
    ('{"ts":1,"t":2}', '{"q":"x","t":256}', "unsigned 8-bit integer", "$.t"),
    ('{"ts":1,"t":2}', put('{"q":"x","t":"%s"}', "1" * 5000), "unsigned 8-bit integer", "$.t"),
    (ROW_KEY, "", "not JSON", 8),
    (ROW_KEY, "null", "an object was expected", "$"),
    (ROW_KEY, "{}", "neither u nor d", "$"),
    (ROW_KEY, '{"p":{}}', "neither u nor d", "$"),
    (ROW_KEY, '{"u":{},"d":{}}', "both u and d", "$"),
    (ROW_KEY, '{"d":{},"p":{}}', "no other old values", "$.p"),
    (ROW_KEY, '{"u":[]}', "an object was expected", "$.u"),
    (ROW_KEY, '{"u":{"c":5}}', "an object was expected", "$.u.c"),
    (ROW_KEY, '{"u":{"c":null}}', "an object was expected", "$.u.c"),
    (ROW_KEY, '{"u":{"the c":5}}', "an object was expected", '$.u["the c"]'),
    (ROW_KEY, '{"u":{"c":{"t":3,"v":1},"c":{"t":3,"v":1}}}', "'c' is there twice", 8),
    (ROW_KEY, '{"u":{"c":{"t":3,"v":1},"c":5}}', "'c' is there twice", 8),
    (ROW_KEY, '{"u":{},"p":{"x":1}}', "an object was expected", "$.p.x"),
    (ROW_KEY, COLUMN % '{"v":1}', "unsigned 8-bit integer", "$.u.c.t"),
    (ROW_KEY, COLUMN % '{"t":99,"v":1}', "99 is no column type", "$.u.c.t"),
    (ROW_KEY, COLUMN % '{"t":3,"f":256,"v":1}', "unsigned 8-bit integer", "$.u.c.f"),
    (ROW_KEY, COLUMN % '{"t":3,"f":4099,"v":1}', "unsigned 8-bit integer", "$.u.c.f"),
    (ROW_KEY, COLUMN % '{"t":3,"h":1,"v":1}', "true or false", "$.u.c.h"),
    (ROW_KEY, COLUMN % '{"t":3,"f":1}', "the value is missing", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":3,"f":1,"v":"1"}', "column c (int): '1' is not a signed", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":3,"f":1,"v":true}', "column c (int)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":3,"f":1,"v":1.0}', "column c (int)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":3,"f":1,"v":-0}', "column c (int)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":8,"f":1,"v":9223372036854775808}', "column c (bigint)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":8,"f":129,"v":-1}', "is not an unsigned", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":8,"f":129,"v":18446744073709551616}', "is not an unsigned", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":16,"f":129,"v":-1}', "is not an unsigned", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":247,"f":0,"v":"a"}', "column c (enum)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":5,"f":1,"v":"1"}', "is not a number", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":5,"f":1,"v":1e999}', "too large", "$.u.c.v"),
    (ROW_KEY, COLUMN % (put('{"t":5,"f":1,"v":1%s}', "0" * 400)), "too large", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":4,"f":1,"v":1e39}', "too large", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":5,"f":1,"v":NaN}', "NaN is no number", 8),
    (ROW_KEY, COLUMN % (put('{"t":3,"f":1,"v":%s}', "1" * 5000)), "4300 digits", 8),
    (ROW_KEY, COLUMN % '{"t":246,"f":1,"v":1.5}', "is not text", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":246,"f":1,"v":"1e5"}', "not a decimal number", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":246,"f":1,"v":"NaN"}', "not a decimal number", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":246,"f":1,"v":"1."}', "not a decimal number", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":12,"f":1,"v":5}', "is not text", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":15,"f":0,"v":["x"]}', "is not text", "$.u.c.v"),
    (ROW_KEY, COLUMN % r'{"t":15,"f":1,"v":"\\q"}', "unknown escape", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":252,"f":1,"v":"*"}', "column c (blob)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":252,"f":1,"v":"YQ"}', "column c (blob)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":252,"f":0,"v":"ü"}', "column c (text)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":255,"f":1,"v":{}}', "no column value", "$.u.c.v"),
    (ROW_KEY, '{"u":{}} {}', "Extra data", 17),
    (ROW_KEY, '\ufeff{"u":{}}', "not JSON", 8),
]


@pytest.mark.parametrize(("key", "value", "reason", "at"), REFUSED)
def test_what_is_wrong_is_refused_with_its_place(key: str, value: str, reason: str, at: str | int) -> None:
    with pytest.raises(DecodeError) as refusal:
        list(decode(message((key, value))))

    assert reason in refusal.value.reason
    assert refusal.value.at == at
    assert refusal.value.part in ("key", "value")
    assert refusal.value.protocol == "open-protocol"


FRAMES: list[tuple[bytes | None, bytes | None, str]] = [
    (None, b"", "shorter than the protocol version"),
    (b"\0" * 7, b"", "shorter than the protocol version"),
    (bytes(8), b"", "protocol version 0"),
    ((2).to_bytes(8, "big"), b"", "protocol version 2"),
    (VERSION[::-1], b"", "protocol version 72057594037927936"),
    (VERSION + b"\0", b"", "truncated length"),
    (VERSION + (5).to_bytes(8, "big") + b"{}", b"", "a length of 5 bytes, but 2 are left"),
    (VERSION + b"\xff" * 8 + b"{}", b"", "a length of 18446744073709551615 bytes"),
    (VERSION + frame(b'{"ts":1,"t":3}'), frame(b"") * 2, "more event values"),
    (VERSION + frame(b'{"ts":1,"t":3}') * 2, frame(b""), "more event keys"),
    (VERSION + frame(b'{"ts":1,"t":3}') * 2, None, "more event keys"),
    (VERSION, frame(b""), "more event values"),
    (VERSION + frame(ROW_KEY.encode()), None, "not JSON"),
]


@pytest.mark.parametrize(("key", "value", "reason"), FRAMES)
def test_a_broken_frame_is_refused(key: bytes | None, value: bytes | None, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        list(decode(Message(key, value)))


def test_bytes_that_are_no_utf_8_are_refused_where_text_must_be() -> None:
    for key, value in (
        (b'{"ts":1,"scm":"\xff","t":1}', b'{"u":{}}'),
        (ROW_KEY.encode(), b'{"u":{"\xff":{"t":3,"v":1}}}'),
        (ROW_KEY.encode(), b'{"u":{"c":{"t":12,"v":"\xff"}}}'),
        (ROW_KEY.encode(), b'{"u":{"c":{"t":246,"v":"\xff"}}}'),
        (b'{"ts":1,"t":2}', b'{"q":"\xff","t":1}'),
    ):
        with pytest.raises(DecodeError) as refusal:
            list(decode(message((key, value))))
        str(refusal.value).encode()


def test_an_error_is_short_however_large_the_message() -> None:
    big = "x" * 1_000_000
    for value in ('{"t":3,"f":1,"v":"%s"}', '{"t":246,"f":1,"v":"%s"}', '{"t":15,"f":1,"v":["%s"]}'):
        with pytest.raises(DecodeError) as refusal:
            value_of(value % big)
        assert len(str(refusal.value)) < 300


def test_deep_nesting_is_refused_at_every_depth() -> None:
    for depth in (*range(900, 1010), 100_000):
        for opening, closing in ("[]", ('{"a":', "}")):
            inside = opening * depth + ("1" if opening != "[" else "") + closing * depth
            with pytest.raises(DecodeError):
                value_of(put('{"t":15,"f":0,"v":%s}', inside))


def test_a_repeated_column_among_very_many_is_found() -> None:
    columns = ",".join(f'"c{n}":{{"t":3,"v":1}}' for n in range(30_000))

    with pytest.raises(DecodeError, match="'last' is there twice"):
        row_of(put('{"u":{%s,"last":{},"last":{}}}', columns))


# Inspection.


def test_inspection_names_what_it_sees() -> None:
    (sent,) = encode([insert(a=1, b=None)])
    meanings = {(field.part, field.name): field.meaning for field in inspect(sent)}

    assert meanings["key", "version"] == "1"
    assert meanings["key", "$.t"] == "event type ROW"
    assert meanings["value", "length of event 0"] == "69 bytes"
    assert meanings["value", "$.u.a.t"] == "column type TINYINT"
    assert meanings["value", "$.u.a.f"] == "flags BINARY HANDLE_KEY PRIMARY_KEY"
    assert meanings["value", "$.u.b.v"] == "NULL"


def test_inspection_survives_anything() -> None:
    for key in (
        put('{"ts":1%s,"t":1}', "0" * 40),
        put('{"ts":-1%s}', "0" * 20),
        '{"ts":true,"t":99}',
        "[" * 5000,
        '{"ts":NaN}',
        "}]",
    ):
        assert list(inspect(message((key, '{"u":{"a":{"t":999,"f":-1,"h":[]}}} trailing'))))
    assert list(inspect(Message(None, None))) == []
