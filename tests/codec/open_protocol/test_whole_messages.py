"""Whole Open Protocol messages: the bytes and texts of the servers' own tests, and the flags of columns."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from codec.open_protocol.open_messages import ROW_KEY, SMALL, image, insert, message, parts, put, row_of
from codec.tables_and_values import build
from tidewire.codec.open_protocol import decode, encode
from tidewire.codec.open_protocol.wire import VERSION
from tidewire.errors import DecodeError, EncodeError
from tidewire.model import (
    Column,
    ColumnFlag,
    Ddl,
    Generated,
    Index,
    Message,
    Row,
    RowChange,
    TableName,
    TableSchema,
    Watermark,
)


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
    with pytest.raises(DecodeError, match="'aa' is not a signed 8-bit integer"):
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
