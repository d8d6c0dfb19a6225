"""What is wrong in a Canal-JSON message is refused with its place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codec.canal_json.canal_messages import ROW, message, row_of, value_of
from tidewire.codec.canal_json import decode
from tidewire.errors import DecodeError
from tidewire.model import Message


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
