"""Every type, through a snapshot and through the log: the exact values, and both the same."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from changefeed.source.mysql.reading import complete, last_place, marked, rows, until
from integration.mariadb import MariaDB
from tidewire.changefeed.source.mysql import MysqlSource
from tidewire.model import Date, DateTime, EnumValue, SetValue, Time, Timestamp
from tidewire.model.values import float32

pytestmark = pytest.mark.integration

_MANY = ",".join(f"'m{number}'" for number in range(64))
_LONG = ",".join(f"'n{number}'" for number in range(300))

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "tinyint": ("tinyint", {"-128": -128, "127": 127, "NULL": None}),
    "tinyint unsigned": ("tinyint unsigned", {"255": 255}),
    "smallint": ("smallint", {"-32768": -32768}),
    "smallint unsigned": ("smallint unsigned", {"65535": 65535}),
    "mediumint": ("mediumint", {"-8388608": -8388608, "8388607": 8388607}),
    "mediumint unsigned": ("mediumint unsigned", {"16777215": 16777215}),
    "int": ("int", {"-2147483648": -(2**31)}),
    "int zerofill": ("int(8) unsigned zerofill", {"42": 42, "4294967295": 2**32 - 1}),
    "bigint": ("bigint", {"-9223372036854775808": -(2**63)}),
    "bigint unsigned": ("bigint unsigned", {"18446744073709551615": 2**64 - 1}),
    "boolean": ("boolean", {"TRUE": 1, "FALSE": 0}),
    "float": ("float", {"1.1": float32(1.1), "-3.4e38": float32(-3.4e38), "1.23456789": float32(1.23456789)}),
    "float with digits": ("float(7,3)", {"1234.567": float32(1234.567)}),
    "double": ("double", {"0.1": 0.1, "-1.7976931348623157e308": -1.7976931348623157e308, "1e-300": 1e-300}),
    "decimal": (
        "decimal(10,2)",
        {"0": Decimal("0.00"), "-12345678.90": Decimal("-12345678.90"), "-0.01": Decimal("-0.01")},
    ),
    "decimal without scale": ("decimal(9)", {"-999999999": Decimal(-999999999)}),
    "decimal, largest": ("decimal(65,30)", {f"-{'9' * 35}.{'1' * 30}": Decimal(f"-{'9' * 35}.{'1' * 30}")}),
    "decimal, all scale": ("decimal(5,5)", {"-0.00001": Decimal("-0.00001")}),
    "bit": ("bit(1)", {"b'1'": 1}),
    "bit(10)": ("bit(10)", {"b'1000000001'": 513}),
    "bit(64)": ("bit(64)", {"18446744073709551615": 2**64 - 1}),
    "year": ("year", {"2155": 2155, "1901": 1901, "0": 0}),
    "date": (
        "date",
        {"'2024-02-29'": Date("2024-02-29"), "'0000-00-00'": Date("0000-00-00"), "'2024-00-10'": Date("2024-00-10")},
    ),
    "datetime": (
        "datetime",
        {"'9999-12-31 23:59:59'": DateTime("9999-12-31 23:59:59"), "'0000-00-00'": DateTime("0000-00-00 00:00:00")},
    ),
    "datetime(6)": (
        "datetime(6)",
        {
            "'2024-01-02 03:04:05.000006'": DateTime("2024-01-02 03:04:05.000006"),
            "'0000-00-00'": DateTime("0000-00-00 00:00:00.000000"),
        },
    ),
    "datetime(3)": ("datetime(3)", {"'2024-01-02 03:04:05.120'": DateTime("2024-01-02 03:04:05.120")}),
    "datetime(1)": ("datetime(1)", {"'2024-01-02 03:04:05.9'": DateTime("2024-01-02 03:04:05.9")}),
    "timestamp": (
        "timestamp null",
        {
            "'2024-07-01 10:00:00'": Timestamp("2024-07-01 12:00:00"),
            "'2024-01-01 10:00:00'": Timestamp("2024-01-01 11:00:00"),
            "'0000-00-00'": Timestamp("0000-00-00 00:00:00"),
        },
    ),
    "timestamp(4)": ("timestamp(4) null", {"'2038-01-19 03:14:07.1234'": Timestamp("2038-01-19 04:14:07.1234")}),
    "time": (
        "time",
        {"'-838:59:59'": Time("-838:59:59"), "'00:00:00'": Time("00:00:00"), "'838:59:59'": Time("838:59:59")},
    ),
    "time(1)": ("time(1)", {"'-00:00:00.1'": Time("-00:00:00.1"), "'-00:00:01.0'": Time("-00:00:01.0")}),
    "time(3)": ("time(3)", {"'-01:02:03.045'": Time("-01:02:03.045")}),
    "time(6)": (
        "time(6)",
        {"'-838:59:58.999999'": Time("-838:59:58.999999"), "'00:00:00.000001'": Time("00:00:00.000001")},
    ),
    "char": ("char(10)", {"'ab  '": "ab", "''": ""}),
    "char, long": ("char(255) character set utf8mb4", {f"'{'𝄞' * 255}'": "𝄞" * 255}),
    "varchar": ("varchar(20) character set utf8mb4", {"'naïve 𝄞  '": "naïve 𝄞  "}),
    "varchar, long": ("varchar(3000) character set utf8mb4", {"REPEAT('ä', 3000)": "ä" * 3000}),
    "latin1": ("varchar(20) character set latin1", {"'€é'": "€é"}),
    "gbk": ("varchar(20) character set gbk", {"'中文'": "中文"}),
    "utf16": ("varchar(20) character set utf16", {"'a𝄞'": "a𝄞"}),
    "ucs2": ("text character set ucs2", {"'ä'": "ä"}),
    "utf32": ("char(3) character set utf32", {"'𝄞 '": "𝄞"}),
    "cp1251": ("char(9) character set cp1251", {"'Жук'": "Жук"}),
    "sjis": ("varchar(9) character set sjis", {"'日本'": "日本"}),
    "tinytext": ("tinytext character set utf8mb4", {"'x'": "x"}),
    "text": ("text character set utf8mb4", {"REPEAT('é', 30000)": "é" * 30000}),
    "mediumtext": ("mediumtext", {"REPEAT('m', 70000)": "m" * 70000}),
    "longtext": ("longtext", {"'l'": "l"}),
    "binary": ("binary(5)", {"x'6100'": b"a\0\0\0\0", "''": b"\0" * 5, "x'2020'": b"  \0\0\0"}),
    "binary, long": ("binary(255)", {"REPEAT(x'ff', 255)": b"\xff" * 255}),
    "varbinary": ("varbinary(300)", {"x'00ff0020'": b"\0\xff\0 ", "''": b""}),
    "tinyblob": ("tinyblob", {"x'00'": b"\0"}),
    "blob": ("blob", {"REPEAT(x'fe', 40000)": b"\xfe" * 40000}),
    "mediumblob": ("mediumblob", {"x'0a'": b"\n"}),
    "longblob": ("longblob", {"x'27'": b"'"}),
    "enum": (
        "enum('a','it''s','c,d')",
        {"'a'": EnumValue(1, "a"), "'it''s'": EnumValue(2, "it's"), "''": EnumValue(0, "")},
    ),
    "enum, long": (f"enum({_LONG})", {"'n299'": EnumValue(300, "n299")}),
    "set": ("set('x','y','z')", {"'z,x'": SetValue(5, "x,z"), "''": SetValue(0, "")}),
    "set, long": (f"set({_MANY})", {"'m0,m63'": SetValue(2**63 + 1, "m0,m63")}),
    "json": ("json", {'\'{"b": [1, 2.50], "a":null}\'': '{"b": [1, 2.50], "a":null}'}),
    "inet4": ("inet4", {"'10.0.0.1'": "10.0.0.1", "'0.0.0.0'": "0.0.0.0"}),
    "inet6": (
        "inet6",
        {
            "'2001:db8::ff00:42:8329'": "2001:db8::ff00:42:8329",
            "'::'": "::",
            "'::ffff:192.0.2.128'": "::ffff:192.0.2.128",
            "'1:0:0:2::'": "1:0:0:2::",
        },
    ),
    "uuid": (
        "uuid",
        {
            "'123e4567-e89b-12d3-a456-426655440000'": "123e4567-e89b-12d3-a456-426655440000",
            "'6ccd780c-baba-1026-9564-5b8c656024db'": "6ccd780c-baba-1026-9564-5b8c656024db",
            "'018f6f2e-1234-7abc-8def-0123456789ab'": "018f6f2e-1234-7abc-8def-0123456789ab",
            "'f47ac10b-58cc-4372-a567-0e02b2c3d479'": "f47ac10b-58cc-4372-a567-0e02b2c3d479",
        },
    ),
    "point": (
        "point",
        {"ST_GeomFromText('POINT(1 2)')": bytes.fromhex("000000000101000000000000000000f03f0000000000000040")},
    ),
}


def _table(number: int, type_: str) -> str:
    return f"CREATE TABLE types.t{number} (id int PRIMARY KEY, v {type_})"


@pytest.fixture(scope="module")
def both(server: MariaDB) -> dict[str, tuple[dict[Any, Any], dict[Any, Any]]]:
    """The values of each case by the number of their row: from a snapshot, and from the log."""
    session = ("SET sql_mode = ''", "SET time_zone = '+00:00'", "CREATE DATABASE IF NOT EXISTS types")
    tables, inserts = [], []
    for number, (type_, values) in enumerate(CASES.values()):
        tables.append(_table(number, type_))
        inserts += [f"INSERT INTO types.t{number} VALUES ({row}, {text})" for row, text in enumerate(values)]
    server.run(*session, *tables, *inserts)
    uri = server.uri + "?time-zone=Europe/Paris"

    snapshot = until(MysqlSource(uri), complete)
    server.run(*session, "DROP DATABASE types", "CREATE DATABASE types", *tables, *inserts, "CREATE DATABASE done")
    log = until(MysqlSource(uri), marked("done"), last_place(snapshot))

    server.run("DROP DATABASE types", "DROP DATABASE done")
    return {case: (_values(snapshot, number), _values(log, number)) for number, case in enumerate(CASES)}


def _values(events: list[Any], number: int) -> dict[Any, Any]:
    return {change.after["id"]: change.after["v"] for change in rows(events, f"t{number}") if change.after}


@pytest.mark.parametrize("case", CASES)
def test_a_value_is_exact_in_the_snapshot_and_in_the_log(
    both: dict[str, tuple[dict[Any, Any], dict[Any, Any]]], case: str
) -> None:
    expected = dict(enumerate(CASES[case][1].values()))

    for found in both[case]:
        assert found == expected
        assert [type(value) for value in found.values()] == [type(value) for value in expected.values()]
        assert [str(value) for value in found.values()] == [str(value) for value in expected.values()]
        assert [getattr(value, "text", None) for value in found.values()] == [
            getattr(value, "text", None) for value in expected.values()
        ]
