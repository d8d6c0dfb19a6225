"""Values of each type in Canal-JSON, their names in Java and MySQL, and those that do not fit their column."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from codec.canal_json.canal_messages import data_text, value_of, wire_of
from codec.tables_and_values import MISFITS, build
from tidewire.codec.canal_json.types import full_type, java_type
from tidewire.errors import EncodeError
from tidewire.model import Column, Date, DateTime, EnumValue, RowChange, SetValue, Time, Timestamp, Value

# Column, value, data, sqlType, mysqlType, full mysqlType.
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


BAD_VALUES: list[tuple[str, Any]] = [
    ("int", 5.5),
    ("int", "5"),
    ("bigint", 2**64),
    *MISFITS,
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
