"""What official Canal, older servers and storage files write is read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from codec.canal_json.canal_messages import EXAMPLES, TSO, decoded, message, row_of, value_of
from tidewire.codec.canal_json import decode
from tidewire.errors import DecodeError
from tidewire.model import Date, DateTime, EnumValue, Message, Op, RowChange, SetValue, Watermark


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
