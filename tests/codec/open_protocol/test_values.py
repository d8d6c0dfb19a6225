"""Values of each type in Open Protocol, both ways, and those that do not fit their column."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from codec.open_protocol.open_messages import image, put, value_of
from codec.tables_and_values import MISFITS, build
from tidewire.codec.open_protocol import encode
from tidewire.errors import EncodeError
from tidewire.model import Column, Date, DateTime, Ddl, EnumValue, SetValue, TableName, Time, Timestamp, Value

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


BAD_VALUES: list[tuple[str, Any]] = [
    ("int", 5.5),
    ("int", Decimal("5.5")),
    ("int", "5"),
    ("bigint", 2**64),
    ("bigint", -(2**63) - 1),
    *MISFITS,
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
