"""Values of each type in Craft, and those that do not fit their column."""

from __future__ import annotations

import struct
from decimal import Decimal

import pytest

from codec.craft.craft_messages import FLAG, Group, images, message_of, one_column, value_of
from tidewire.codec.craft import encode, inspect
from tidewire.codec.craft.varint import uvarint
from tidewire.errors import EncodeError
from tidewire.model import (
    Column,
    Date,
    DateTime,
    EnumValue,
    MySQLType,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Timestamp,
    Value,
)

SINGLE: list[tuple[MySQLType, int, Value, str]] = [
    (MySQLType.TINYINT, 0x41, -128, "01 41 04 ff01"),
    (MySQLType.TINYINT, 0x41, 127, "01 41 04 fe01"),
    (MySQLType.TINYINT, 0xC1, 255, "01 c101 04 ff01"),
    (MySQLType.SMALLINT, 0x41, -32768, "02 41 06 ffff03"),
    (MySQLType.SMALLINT, 0xC1, 65535, "02 c101 06 ffff03"),
    (MySQLType.MEDIUMINT, 0x41, -8388608, "09 41 08 ffffff07"),
    (MySQLType.MEDIUMINT, 0xC1, 16777215, "09 c101 08 ffffff07"),
    (MySQLType.INT, 0x41, 2147483647, "03 41 0a feffffff0f"),
    (MySQLType.INT, 0xC1, 4294967295, "03 c101 0a ffffffff0f"),
    (MySQLType.BIGINT, 0x41, 2**63 - 1, "08 41 14 feffffffffffffffff01"),
    (MySQLType.BIGINT, 0x41, -(2**63), "08 41 14 ffffffffffffffffff01"),
    (MySQLType.BIGINT, 0xC1, 2**64 - 1, "08 c101 14 ffffffffffffffffff01"),
    (MySQLType.FLOAT, 0x41, 3.140000104904175, "04 41 10 00000060b81e0940"),
    (MySQLType.DOUBLE, 0x41, 2.71, "05 41 10 ae47e17a14ae0540"),
    (MySQLType.DECIMAL, 0x41, Decimal("2333.654321"), "f601 41 16" + b"2333.654321".hex()),
    (MySQLType.BIT, 0xC1, 65, "10 c101 02 41"),
    (MySQLType.ENUM, 0x40, EnumValue(1), "f701 40 02 01"),
    (MySQLType.SET, 0x40, SetValue(3), "f801 40 02 03"),
    (MySQLType.YEAR, 0xC1, 2021, "0d c101 04 ca1f"),
    (MySQLType.DATE, 0x41, Date("2020-02-20"), "0a 41 14" + b"2020-02-20".hex()),
    (MySQLType.TIME, 0x41, Time("02:20:20"), "0b 41 10" + b"02:20:20".hex()),
    (MySQLType.DATETIME, 0x41, DateTime("2015-12-20 23:58:58"), "0c 41 26" + b"2015-12-20 23:58:58".hex()),
    (
        MySQLType.TIMESTAMP,
        0x41,
        Timestamp("2024-03-11 08:51:01.461270"),
        "07 41 34" + b"2024-03-11 08:51:01.461270".hex(),
    ),
    (MySQLType.JSON, 0x41, '{"key1": "value1"}', "f501 41 24" + b'{"key1": "value1"}'.hex()),
    (MySQLType.VARCHAR, 0x40, "", "0f 40 00"),
    (MySQLType.VARCHAR, 0x40, "测试", "0f 40 0c e6b58be8af95"),
    (MySQLType.VARCHAR, 0x40, b"\xff\xfe", "0f 40 04 fffe"),
    (MySQLType.BLOB, 0x41, b"\xff\x00", "fc01 41 04 ff00"),
    (MySQLType.CHAR, 0x41, b"ab", "fe01 41 04 6162"),
    (MySQLType.VECTOR, 0x41, "[1,2,3,4,5]", "e101 41 16" + b"[1,2,3,4,5]".hex()),
    *((type_, 0x41, None, uvarint(type_).hex() + "41 01") for type_ in MySQLType),
]


def test_each_type_has_its_bytes() -> None:
    for type_, flags, value, text in SINGLE:
        column = Column("c", type_, flags=FLAG(flags))
        event = RowChange(TableSchema(TableName("s", "t"), (column,)), 1, after={"c": value})

        (message,) = encode([event])

        body = b"".join(field.data for field in inspect(message) if field.name.startswith("event 0 new"))
        assert body.hex() == "010104" + bytes.fromhex(text).hex(), (type_, value)
        ((_, after),) = images(value_of(message))
        assert after == {"c": value}
        assert type(after["c"]) is type(value)


def test_types_without_values_are_null_whatever_they_hold() -> None:
    for type_ in (MySQLType.UNSPECIFIED, MySQLType.NULL, MySQLType.GEOMETRY):
        (message,) = encode([one_column(type_, 0, "something")])

        lengths = [field.meaning for field in inspect(message) if field.name == "event 0 new.c length"]
        assert lengths == ["NULL"]
        for data in (value_of(message), message_of(Group(types=[type_], values=[b"x"]))):
            assert images(data) == [(None, {"c": None})]


def test_values_that_do_not_fit_their_column_are_refused() -> None:
    for type_, flags, value in (
        (MySQLType.INT, 0x80, -1),
        (MySQLType.BIGINT, 0, 2**63),
        (MySQLType.BIGINT, 0x80, 2**64),
        (MySQLType.INT, 0, "1"),
        (MySQLType.INT, 0, 1.5),
        (MySQLType.FLOAT, 0, 1e300),
        (MySQLType.DOUBLE, 0, "x"),
        (MySQLType.ENUM, 0, "x"),
        (MySQLType.BIT, 0, -1),
        (MySQLType.DATE, 0, "2020-01-01"),
        (MySQLType.JSON, 0, b"{}"),
        (MySQLType.DECIMAL, 0, "1.0"),
        (MySQLType.VARCHAR, 0, 7),
        (MySQLType.VARCHAR, 0, "\ud800"),
    ):
        with pytest.raises(EncodeError, match="column c "):
            list(encode([one_column(type_, flags, value)]))


def test_a_value_that_is_no_number_survives_as_the_server_left_it() -> None:
    """The server can turn a FLOAT into anything, also into what no FLOAT holds."""
    for number in (1e300, float("inf")):
        data = message_of(Group(types=[4], values=[struct.pack("<d", number)]))
        assert images(data) == [(None, {"c": number})]
