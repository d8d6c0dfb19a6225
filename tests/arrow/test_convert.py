"""Values to typed arrays: exact, and the ones that do not fit are found."""

from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewire.arrow import Policy, ZeroDates, arrow_type
from tidewire.arrow.convert import text_reader, value_reader
from tidewire.arrow.invalid_values import read_column
from tidewire.errors import OptionError
from tidewire.model import Column, Date, EnumValue


def read(type_: str, texts: list[str | None], policy: Policy | None = None) -> tuple[list[Any], dict[int, str]]:
    column = Column.of("c", type_)
    array, invalid = read_column(texts, text_reader(column, policy or Policy()), arrow_type(column))
    return array.to_pylist(), invalid


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("tinyint", "-128", -128),
        ("int unsigned", "4294967295", 4294967295),
        ("bigint unsigned", "18446744073709551615", Decimal(2**64 - 1)),
        ("decimal(10,2)", "-0.50", Decimal("-0.50")),
        ("decimal(65,30)", "1.000000000000000000000000000001", "1.000000000000000000000000000001"),
        ("decimal", "12.30", "12.30"),
        ("double", "0.1", 0.1),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("datetime(6)", "2024-02-29 12:00:00.123456", datetime(2024, 2, 29, 12, 0, 0, 123456)),
        ("timestamp", "2024-02-29 12:00:00", datetime(2024, 2, 29, 12, tzinfo=timezone.utc)),
        ("time(6)", "-838:59:59.000001", -3020399000001),
        ("time", "00:00:01", 1_000_000),
        ("year", "2155", 2155),
        ("bit(63)", str(2**63 - 1), 2**63 - 1),
        ("bit(64)", str(2**64 - 1), Decimal(2**64 - 1)),
        ("enum('a','b')", "2", "b"),
        ("enum('a','b')", "0", ""),
        ("enum", "2", 2),
        ("set('a','b','c')", "5", "a,c"),
        ("set", str(2**64 - 1), Decimal(2**64 - 1)),
        ("json", '{"a": 1}', '{"a": 1}'),
        ("vector(3)", "[1,2.5,-3]", [1.0, 2.5, -3.0]),
    ],
)
def test_a_text_becomes_its_value(type_: str, text: str, value: Any) -> None:
    assert read(type_, [text, None]) == ([value, None], {})


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        ("int", "x"),
        ("int", "0x10"),
        ("int", "2147483648"),
        ("int", "1.5"),
        ("int", ""),
        ("bigint", "9223372036854775808"),
        ("decimal(4,2)", "123.45"),
        ("decimal(4,2)", "1.234"),
        ("float", "1e39"),
        ("double", "nan"),
        ("date", "yesterday"),
        ("datetime", "2024-01-01 25:00:00"),
        ("time", "12:00"),
        ("time", "12:00:00.1234567"),
        ("enum('a','b')", "3"),
        ("set('a','b')", "4"),
        ("vector(1)", "1"),
        ("varchar(3)", "\udc80"),
    ],
)
def test_what_does_not_fit_is_found_and_never_silently_null(type_: str, text: str) -> None:
    good = {"date": "2024-01-01", "datetime": "2024-01-01 00:00:00", "time": "00:00:00", "vector(1)": "[1]"}
    fine = good.get(type_, "1")

    values, invalid = read(type_, [fine, text, fine, None, fine])

    assert list(invalid) == [1]
    assert invalid[1]
    assert values[0] == values[2] == values[4] is not None


def test_zero_dates_follow_the_policy_and_are_counted() -> None:
    texts: list[str | None] = ["2024-01-01", "0000-00-00", None, "2023-02-30"]
    policy = Policy()

    assert read("date", texts, policy) == ([date(2024, 1, 1), None, None, None], {})
    assert policy.counts == {"zero dates": 2}
    assert list(read("date", texts, Policy(zero_dates=ZeroDates.REJECT))[1]) == [1, 3]


def test_timestamps_leave_the_servers_zone() -> None:
    policy = Policy("Asia/Shanghai")

    assert read("timestamp", ["2024-01-01 08:00:00"], policy)[0] == [datetime(2024, 1, 1, tzinfo=timezone.utc)]
    with pytest.raises(OptionError, match="is not a time zone"):
        Policy("Mars/Olympus")


def test_model_values_are_read_alike() -> None:
    column = Column.of("c", "enum('a','b')")

    assert value_reader(column, Policy())([EnumValue(1), None]).to_pylist() == ["a", None]
    assert value_reader(Column.of("c", "date"), Policy())([Date("2024-01-01")]).to_pylist() == [date(2024, 1, 1)]


@settings(deadline=None)
@given(st.lists(st.none() | st.integers(-(2**70), 2**70).map(str) | st.text(max_size=3), max_size=30))
def test_every_value_is_there_or_named(texts: list[str | None]) -> None:
    values, invalid = read("bigint", texts)

    for row, (text, value) in enumerate(zip(texts, values, strict=True)):
        assert (value is None) == (text is None or row in invalid)
        assert value is None or value == int(text or "")


def test_an_empty_batch_is_empty() -> None:
    assert read_column([], text_reader(Column.of("c", "int"), Policy()), pa.int32())[0].to_pylist() == []
