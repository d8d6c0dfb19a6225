"""Whole Canal-JSON messages: their order, their images and keys, their extension, the words of DDL."""

from __future__ import annotations

import base64
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from codec.canal_json.canal_messages import CLOCK, ROW, SMALL, decoded, message, text_of, value_of, wire_of
from codec.tables_and_values import build
from tidewire.codec import Options
from tidewire.codec.canal_json import Decoder, Encoder, decode
from tidewire.errors import EncodeError
from tidewire.model import (
    Bootstrap,
    Column,
    Ddl,
    DdlKind,
    DdlType,
    Event,
    Generated,
    Index,
    Row,
    RowChange,
    TableName,
    Watermark,
)

IDX = build(Column.of("idx", "bigint unsigned", primary_key=True), Column.of("a", "varchar(64)", nullable=False))


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


def test_a_decoder_can_be_shared() -> None:
    decoder = Decoder()

    assert [list(decoder.decode(message(ROW))) for _ in range(2)] == [list(decode(message(ROW)))] * 2
