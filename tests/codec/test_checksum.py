"""Row checksums: the numbers both servers send, and the odd values among them."""

from __future__ import annotations

import pytest

from tidewire.codec.checksum import row_checksum, to_utc
from tidewire.model import Column, Date, DateTime, EnumValue, MySQLType, RowChange, SetValue, Time, Timestamp, Value
from vector_files import files, vectors

FILES = [
    (name, file)
    for name in ("simple-json", "simple-avro", "avro")
    for pattern in ("checksum.*", "checksum.*.errors")
    for file in files(name, pattern)
]


@pytest.mark.parametrize(("name", "file"), FILES)
def test_every_recorded_checksum_is_that_of_its_row(name: str, file: str) -> None:
    checked = 0
    for vector in vectors(name, file):
        for event in vector.events:
            if not isinstance(event, RowChange) or event.checksum is None:
                continue
            columns = sorted(event.table.columns, key=lambda column: column.id or 0)
            for row, sent in ((event.after, event.checksum.current), (event.before, event.checksum.previous)):
                if row is not None and sent:
                    assert row_checksum(columns, row, vector.options.time_zone) == sent, vector.id
                    checked += 1

    assert checked >= 4


def test_the_worked_example() -> None:
    columns = [Column.of("id", "bigint"), Column.of("name", "varchar(9)")]

    assert row_checksum(columns, {"id": 1, "name": "x"}, "UTC") == 2975616953


def test_null_and_absent_columns_add_nothing_and_the_order_is_the_callers() -> None:
    a, b, c = Column.of("a", "int"), Column.of("b", "int"), Column.of("c", "int")

    assert row_checksum([a, b, c], {"a": 1, "b": None}, "UTC") == row_checksum([a], {"a": 1}, "UTC")
    assert row_checksum([a, b], {"a": 1, "b": 2}, "UTC") != row_checksum([b, a], {"a": 1, "b": 2}, "UTC")
    assert row_checksum([a], {}, "UTC") == 0


def test_a_timestamp_counts_in_utc_wherever_it_was_written() -> None:
    column = Column.of("t", "timestamp(3)")
    here = row_checksum([column], {"t": Timestamp("2024-03-01 12:00:00.120", zone="Asia/Shanghai")}, "UTC")

    assert here == row_checksum([column], {"t": Timestamp("2024-03-01 04:00:00.120")}, "UTC")
    assert here == row_checksum([column], {"t": Timestamp("2024-03-01 12:00:00.120")}, "Asia/Shanghai")
    assert here == row_checksum([column], {"t": Timestamp("2024-03-01 12:00:00.120", zone="Local")}, "Asia/Shanghai")
    zero = Timestamp("0000-00-00 00:00:00.000")
    assert row_checksum([column], {"t": zero}, "Asia/Shanghai") == row_checksum([column], {"t": zero}, "UTC")


@pytest.mark.parametrize(
    ("local", "zone", "utc"),
    [
        ("2024-07-01 00:00:00", "Europe/Berlin", "2024-06-30 22:00:00"),
        ("2024-10-27 02:30:00", "Europe/Berlin", "2024-10-27 01:30:00"),
        ("2024-11-03 01:30:00.5", "America/New_York", "2024-11-03 05:30:00.5"),
        ("1970-01-01 08:00:01", "Asia/Shanghai", "1970-01-01 00:00:01"),
    ],
)
def test_an_hour_that_comes_twice_is_read_as_go_reads_it(local: str, zone: str, utc: str) -> None:
    assert to_utc(local, zone) == utc


VALUES: list[tuple[str, Value, Value]] = [
    ("tinyint", -1, 1),
    ("bigint unsigned", 2**64 - 1, 2**64 - 2),
    ("year", 2024, 2025),
    ("bit(64)", 2**63, 2**62),
    ("float", 0.5, 0.25),
    ("double", -0.0, 0.0),
    ("decimal(5,2)", "1.10", "1.1"),
    ("date", Date("2024-01-01"), Date("2024-01-02")),
    ("datetime", DateTime("2024-01-01 00:00:00"), DateTime("2024-01-01 00:00:01")),
    ("time", Time("-00:00:01"), Time("00:00:01")),
    ("varchar(3)", "é", "e"),
    ("varbinary(3)", b"\xff", b"\xfe"),
    ("enum('a','b')", EnumValue(1), EnumValue(2)),
    ("set('a','b')", SetValue(3), SetValue(2)),
    ("json", '{"a": 1}', '{"a": 2}'),
    ("vector", "[1,2]", "[1,3]"),
]


def test_any_two_values_have_two_checksums() -> None:
    for sql_type, one, other in VALUES:
        column = Column.of("c", sql_type)
        assert row_checksum([column], {"c": one}, "UTC") != row_checksum([column], {"c": other}, "UTC"), sql_type


def test_numbers_no_column_can_hold_count_as_zero() -> None:
    column = Column.of("c", "double")

    assert row_checksum([column], {"c": float("nan")}, "UTC") == row_checksum([column], {"c": 0.0}, "UTC")


def test_a_type_without_bytes_adds_nothing() -> None:
    assert row_checksum([Column("c", MySQLType.GEOMETRY)], {"c": b"x"}, "UTC") == 0


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [("int", "x"), ("int", 2**70), ("timestamp", Timestamp("soon")), ("vector", "[x]"), ("enum('a')", 1)],
)
def test_a_value_the_column_cannot_hold_is_refused_with_its_name(sql_type: str, value: Value) -> None:
    with pytest.raises(ValueError, match="column c "):
        row_checksum([Column.of("c", sql_type)], {"c": value}, "UTC")


def test_an_unknown_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown time zone"):
        row_checksum([Column.of("c", "timestamp")], {"c": Timestamp("2024-01-01 00:00:00")}, "Mars/Olympus")
