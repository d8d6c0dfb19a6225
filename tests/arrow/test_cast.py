"""Wire values in the types their table declares."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewire.arrow.cast import can_cast, cast, default_value, may_fail
from tidewire.arrow.policy import Policy, ZeroDates
from tidewire.errors import SyncError
from tidewire.model import Column

D = Decimal
EXACT = Context(prec=200)
BAD = object()
"""Stands for a value that does not fit."""

UTC = timezone.utc
NEW_YORK = Policy(time_zone="America/New_York")
NAMES_64 = [f"n{number}" for number in range(64)]
SET_64 = "set(" + ",".join(f"'{name}'" for name in NAMES_64) + ")"


def column(mysql_type: str) -> Column:
    return Column.of("c", mysql_type)


def outcome(wire: str, table: str, values: Any, policy: Policy = Policy()) -> list[Any]:
    """What a cast makes of values, ``BAD`` for those that do not fit."""
    source, goal = column(wire), column(table)
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, policy.type_of(source))
    found, bad = cast(array, source, goal, policy)
    assert found.type == policy.type_of(goal)
    assert len(found) == len(array)
    if bad is None:
        return list(found.to_pylist())
    assert may_fail(source, goal, policy)
    assert isinstance(bad, pa.BooleanArray)
    assert bad.null_count == 0
    rows = list(zip(found.to_pylist(), bad.to_pylist(), strict=True))
    assert all(value is None for value, wrong in rows if wrong)
    return [BAD if wrong else value for value, wrong in rows]


CASTS: list[tuple[str, str, list[Any], list[Any]]] = [
    (
        "decimal",
        "decimal(10,2)",
        ["1.5", "-0.01", "12345678.99", "123456789.00", "1.555", "1.550", None, "7", "0"],
        [D("1.50"), D("-0.01"), D("12345678.99"), BAD, BAD, D("1.55"), None, D("7.00"), D("0.00")],
    ),
    ("decimal", "decimal(38,0)", ["9" * 38, "1", "-" + "9" * 38], [D("9" * 38), D(1), D("-" + "9" * 38)]),
    ("decimal", "decimal(38,38)", ["0." + "9" * 38, "1", "0." + "0" * 38 + "1"], [D("0." + "9" * 38), BAD, BAD]),
    ("decimal", "decimal(5,5)", ["0.12345", "-0.5", "1.0"], [D("0.12345"), D("-0.50000"), BAD]),
    ("decimal", "decimal(40,2)", ["1.50", None], ["1.50", None]),
    ("decimal(10,2)", "decimal(12,4)", [D("1.50"), None], [D("1.5000"), None]),
    ("decimal(10,2)", "decimal(8,1)", [D("1.50"), D("1.55"), D("12345678.00")], [D("1.5"), BAD, BAD]),
    ("decimal(38,10)", "decimal(38,0)", [D("9" * 28), D("0.1")], [D("9" * 28), BAD]),
    ("decimal(38,0)", "decimal(38,38)", [D(65), D(0)], [BAD, D(0)]),
    ("decimal(38,0)", "decimal(38,18)", [D(2**99 + 1)], [BAD]),
    ("decimal", "decimal(38,18)", [str(2**99 + 1), "65"], [BAD, D(65)]),
    ("enum", "enum('a','it''s','')", [0, 1, 2, 3, 4, -1, None], ["", "a", "it's", "", BAD, BAD, None]),
    ("set", "set('a','b','c')", [D(0), D(1), D(5), D(7), D(8), D(-1), None], ["", "a", "a,c", "a,b,c", BAD, BAD, None]),
    (
        "set",
        SET_64,
        [D(0), D(2**63), D(2**64 - 1), D(2**63 - 1), None],
        ["", "n63", ",".join(NAMES_64), ",".join(NAMES_64[:63]), None],
    ),
    ("bit", "bit(10)", [D(0), D(1023), D(2**63), None], [0, 1023, BAD, None]),
    ("bit", "bit(64)", [D(2**64 - 1), None], [D(2**64 - 1), None]),
    ("bit(10)", "bit(64)", [1023, None], [D(1023), None]),
    ("int", "bigint", [-(2**31), 2**31 - 1, None], [-(2**31), 2**31 - 1, None]),
    ("bigint", "int", [2**31, -(2**31), 7, None], [BAD, -(2**31), 7, None]),
    ("bigint", "bigint unsigned", [7, 2**63 - 1, None], [D(7), D(2**63 - 1), None]),
    ("bigint unsigned", "bigint", [D(2**63 - 1), D(2**63), None], [2**63 - 1, BAD, None]),
    ("bigint unsigned", "int", [D(5), D(2**40)], [5, BAD]),
    ("int", "decimal(12,2)", [5, 2**31 - 1, None], [D("5.00"), D("2147483647.00"), None]),
    ("int", "decimal(3,1)", [5, 99, 100, None], [D("5.0"), D("99.0"), BAD, None]),
    ("decimal(10,2)", "int", [D("5.00"), D("5.50"), None], [5, BAD, None]),
    ("decimal(10,2)", "double", [D("0.10"), D("-1.25"), None], [0.1, -1.25, None]),
    ("decimal(38,10)", "float", [D("0.5"), D("0.3333333333"), None], [0.5, BAD, None]),
    ("float", "double", [1.5, -0.0, None], [1.5, -0.0, None]),
    ("double", "float", [1.5, 1e38, 3.5e38, -math.inf, math.nan], [1.5, 9.999999680285692e37, BAD, BAD, BAD]),
    ("int", "double", [2**31 - 1, None], [2.0**31 - 1, None]),
    ("int", "float", [2**24, 2**24 + 1, -(2**24)], [2.0**24, BAD, -(2.0**24)]),
    ("bigint", "double", [2**53, 2**53 + 1, 2**63 - 1, None], [2.0**53, BAD, BAD, None]),
    ("double", "int", [5.0, 5.5, 1e20, -0.0, math.nan, None], [5, BAD, BAD, 0, BAD, None]),
    ("double", "bigint", [2.0**62, 2.0**63, -(2.0**63)], [2**62, BAD, -(2**63)]),
    ("double", "decimal(10,2)", [0.1, 0.125, 1e9, math.inf], [D("0.10"), BAD, BAD, BAD]),
    ("float", "decimal(10,2)", [0.1, 0.125], [D("0.10"), BAD]),
    ("int", "varchar(20)", [-5, None], ["-5", None]),
    ("decimal(10,2)", "varchar(20)", [D("1.50"), D("-0.01"), None], ["1.50", "-0.01", None]),
    ("decimal(38,20)", "text", [D("1E-20"), D(0)], ["0.00000000000000000001", "0.00000000000000000000"]),
    ("float", "text", [0.1, -0.0, 1e20, 1e-10], ["0.1", "0", "1e20", "0.0000000001"]),
    ("year", "text", [2024, 0], ["2024", "0000"]),
    ("time(3)", "text", [-3600500000, 3020399000000, 0], ["-01:00:00.500", "838:59:59.000", "00:00:00.000"]),
    ("vector(2)", "text", [[1.0, 2.5], [], None, [0.1]], ["[1,2.5]", "[]", None, "[0.1]"]),
    (
        "varchar(20)",
        "int",
        ["5", "-7", "x", " 5 ", "+5", "5.0", "0x5", "", None],
        [5, -7, BAD, 5, 5, BAD, BAD, BAD, None],
    ),
    ("varchar(20)", "bigint", ["9223372036854775807", "9223372036854775808", "1" * 50], [2**63 - 1, BAD, BAD]),
    ("varchar(20)", "double", ["1e3", ".5", " -5. ", "1_0", "0x1p3", "1d"], [1000.0, 0.5, -5.0, BAD, BAD, BAD]),
    (
        "varchar(20)",
        "decimal(10,2)",
        ["1e3", "15e-3", " 1.5 ", "1_0", "1e999999999"],
        [D("1000.00"), BAD, D("1.50"), BAD, BAD],
    ),
    (
        "varchar(20)",
        "date",
        ["2024-02-29", "2024-2-9", "2024-02-30", "x"],
        [date(2024, 2, 29), date(2024, 2, 9), BAD, BAD],
    ),
    (
        "varchar(30)",
        "datetime(6)",
        ["2024-02-29 01:02:03", "2024-02-29T1:2:3.5", "2024-02-29", "2024-02-29 24:00:00", "999999-01-01 00:00:00"],
        [datetime(2024, 2, 29, 1, 2, 3), datetime(2024, 2, 29, 1, 2, 3, 500000), datetime(2024, 2, 29), BAD, BAD],
    ),
    (
        "varbinary(20)",
        "varchar(20)",
        [b"ok", "ä".encode(), b"\xff", b"\xed\xa0\x80", None],
        ["ok", "ä", BAD, BAD, None],
    ),
    ("varchar(20)", "varbinary(20)", ["ä", None], ["ä".encode(), None]),
    ("date", "datetime", [date(2024, 2, 29), None], [datetime(2024, 2, 29), None]),
    ("datetime", "date", [datetime(2024, 2, 29), datetime(2024, 2, 29, 1), None], [date(2024, 2, 29), BAD, None]),
    ("enum('a','b')", "enum", ["b", "", "x", None], [2, 0, BAD, None]),
    ("enum('a','','a')", "enum", ["a", ""], [1, 0]),
    ("set('a','b','c')", "set", ["a,c", "", "c,a", "a,x", None], [D(5), D(0), D(5), BAD, None]),
    (SET_64, "set", ["n63", ",".join(NAMES_64)], [D(2**63), D(2**64 - 1)]),
    ("vector(2)", "date", [[1.0, 2.0], None], [BAD, None]),
]


@pytest.mark.parametrize(("wire", "table", "values", "expected"), CASTS, ids=lambda case: str(case)[:20])
def test_values_become_what_the_table_declares(wire: str, table: str, values: list[Any], expected: list[Any]) -> None:
    assert outcome(wire, table, values) == expected


@pytest.mark.parametrize(("wire", "table", "values", "expected"), CASTS, ids=lambda case: str(case)[:20])
def test_the_layout_of_an_array_does_not_matter(wire: str, table: str, values: list[Any], expected: list[Any]) -> None:
    array = pa.array(values, Policy().type_of(column(wire)))
    longer = pa.concat_arrays([array, array])

    assert outcome(wire, table, longer.slice(len(array) - 1)) == [*expected[-1:], *expected]
    assert outcome(wire, table, pa.chunked_array([array, array.slice(1), array[:0]])) == [*expected, *expected[1:]]
    assert outcome(wire, table, pa.chunked_array([], array.type)) == []
    assert outcome(wire, table, array[:0]) == []
    assert outcome(wire, table, pa.nulls(3, array.type)) == [None] * 3


SAME = [
    "tinyint",
    "int unsigned",
    "year",
    "double",
    "date",
    "datetime(6)",
    "timestamp(6)",
    "time(6)",
    "json",
    "text",
    "blob",
    "enum('a','b')",
    "set('a','b')",
    "vector(3)",
    "decimal(10,2)",
]


@pytest.mark.parametrize("mysql_type", SAME)
def test_values_of_the_same_type_are_not_copied(mysql_type: str) -> None:
    told = column(mysql_type)
    values = pa.nulls(2, Policy().type_of(told))

    found, bad = cast(values, told, told)

    assert found is values
    assert bad is None
    assert not may_fail(told, told)


def test_a_cast_that_no_value_survives_is_known_without_values() -> None:
    assert not can_cast(column("vector(2)"), column("date"))
    assert can_cast(column("varchar(20)"), column("date"))


def test_a_number_that_arrow_divides_wrongly_is_exact() -> None:
    number = D("18446744073709551.615")

    assert outcome("decimal(38,18)", "decimal(38,3)", [number]) == [number]


# Time zones


def test_a_datetime_is_an_instant_of_the_servers_time_zone() -> None:
    clocks = [
        datetime(2024, 1, 1, 12),
        datetime(2024, 7, 1, 12),
        datetime(2024, 3, 10, 2, 30),  # left out: clocks went from 02:00 to 03:00
        datetime(2024, 11, 3, 1, 30),  # shown twice
        None,
    ]

    found = outcome("datetime(6)", "timestamp(6)", clocks, NEW_YORK)

    assert found == [
        datetime(2024, 1, 1, 17, tzinfo=UTC),
        datetime(2024, 7, 1, 16, tzinfo=UTC),
        datetime(2024, 3, 10, 7, 30, tzinfo=UTC),
        datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
        None,
    ]


@pytest.mark.parametrize("far", [[], [datetime(2050, 7, 1, 16, tzinfo=UTC)]], ids=["known", "far"])
def test_an_instant_is_what_the_servers_clock_showed(far: list[datetime]) -> None:
    instants = [
        datetime(2024, 3, 10, 6, 59, 59, tzinfo=UTC),
        datetime(2024, 3, 10, 7, tzinfo=UTC),
        datetime(2024, 11, 3, 5, 30, tzinfo=UTC),
        datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
        *far,
    ]

    found = outcome("timestamp(6)", "datetime(6)", instants, NEW_YORK)

    assert found == [
        datetime(2024, 3, 10, 1, 59, 59),
        datetime(2024, 3, 10, 3),
        datetime(2024, 11, 3, 1, 30),
        datetime(2024, 11, 3, 1, 30),
        *([datetime(2050, 7, 1, 12)] if far else []),
    ]


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Tokyo", "Australia/Lord_Howe"])
@given(st.lists(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))))
def test_instants_come_back_unless_the_clock_showed_them_twice(zone: str, instants: list[datetime]) -> None:
    policy = Policy(time_zone=zone)

    clocks = outcome("timestamp(6)", "datetime(6)", instants, policy)
    back = outcome("datetime(6)", "timestamp(6)", clocks, policy)

    assert outcome("timestamp(6)", "datetime(6)", back, policy) == clocks


def test_dates_that_stay_text_stay_text() -> None:
    policy = Policy(zero_dates=ZeroDates.TEXT)

    assert outcome("datetime", "timestamp", ["0000-00-00 00:00:00"], policy) == ["0000-00-00 00:00:00"]
    assert outcome("int", "date", [5], policy) == ["5"]


@given(st.lists(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999))))
def test_the_text_of_a_datetime_is_that_datetime(clocks: list[datetime]) -> None:
    texts = outcome("datetime(6)", "varchar(30)", clocks)

    assert outcome("varchar(30)", "datetime(6)", texts) == clocks


# Numbers

WHOLE = {"int": (-(2**31), 2**31 - 1), "bigint": (-(2**63), 2**63 - 1)}
DECIMALS = ["decimal(5,2)", "decimal(19,0)", "decimal(20,10)", "decimal(38,0)", "decimal(38,18)", "decimal(38,38)"]


def numbers(mysql_type: str) -> st.SearchStrategy[Any]:
    """Numbers of a type, with many at the edges and many that are whole."""
    if mysql_type in WHOLE:
        return st.integers(*WHOLE[mysql_type])
    told = column(mysql_type)
    most, scale = 10 ** (told.length or 0) - 1, told.decimal or 0
    any_digits = st.integers(-most, most)
    few_digits = st.integers(-(10**5), 10**5).map(lambda number: number * 10**scale).filter(lambda n: abs(n) <= most)
    powers = st.integers(0, 125).map(lambda bits: min(2**bits - 1, most))
    return st.one_of(any_digits, few_digits, powers).map(lambda digits: D(f"{digits}E-{scale}"))


@pytest.mark.parametrize("goal", [*WHOLE, *DECIMALS])
@pytest.mark.parametrize("source", [*WHOLE, *DECIMALS])
@settings(max_examples=25)
@given(data=st.data())
def test_a_number_fits_if_and_only_if_it_is_the_same_number(source: str, goal: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(numbers(source), max_size=20))

    found = outcome(source, goal, values)

    assert all(number == value for number, value in zip(found, values, strict=True) if number is not BAD)
    for number, value in zip(found, values, strict=True):
        assert (number is BAD) == (not holds(goal, D(value)))


def holds(mysql_type: str, number: Decimal) -> bool:
    """Can the type hold the number?"""
    if mysql_type in WHOLE:
        low, high = WHOLE[mysql_type]
        return number == int(number) and low <= number <= high
    told = column(mysql_type)
    digits = int(number.scaleb(told.decimal or 0, EXACT))
    return D(digits) == number.scaleb(told.decimal or 0, EXACT) and abs(digits) < 10 ** (told.length or 0)


@pytest.mark.parametrize("source", DECIMALS)
@given(data=st.data())
def test_the_text_of_a_decimal_is_that_decimal(source: str, data: st.DataObject) -> None:
    values = data.draw(st.lists(numbers(source)))

    texts = outcome(source, "text", values)

    assert texts == [f"{value:f}" for value in values]
    assert outcome("text", source, texts) == values


@pytest.mark.parametrize("goal", ["int", "bigint", "decimal(20,10)", "decimal(38,0)", "float"])
@given(values=st.lists(st.one_of(st.floats(), st.integers(-(10**6), 10**6).map(float))))
def test_a_double_that_fits_is_the_same_on_the_way_back(goal: str, values: list[float]) -> None:
    found = outcome("double", goal, values)

    kept = [(number, value) for number, value in zip(found, values, strict=True) if number is not BAD]
    if goal == "float":
        assert all(math.isclose(number, value, rel_tol=1e-7, abs_tol=1e-44) for number, value in kept)
    else:
        assert all(float(number) == value for number, value in kept)
        whole = {value for value in values if math.isfinite(value) and value.is_integer() and abs(value) < 1e9}
        assert whole <= {value for _, value in kept}


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False)))
def test_the_text_of_a_double_is_that_double(values: list[float]) -> None:
    texts = outcome("double", "text", values)

    assert outcome("text", "double", texts) == values


# Defaults

DEFAULTS: list[tuple[str, str | bytes | None, Any]] = [
    ("int", "7", 7),
    ("bigint unsigned", str(2**64 - 1), 2**64 - 1),
    ("decimal(10,2)", "1.50", D("1.50")),
    ("decimal", "1.50", "1.50"),
    ("float", "1.5", 1.5),
    ("bit(10)", "1023", 1023),
    ("year", "2024", 2024),
    ("varchar(20)", "it's a \\ backslash\nline", "it's a \\ backslash\nline"),
    ("varbinary(20)", b"\x00\xff", b"\x00\xff"),
    ("date", "0001-01-01", date(1, 1, 1)),
    ("date", "0000-00-00", None),
    ("datetime(6)", "9999-12-31 23:59:59.999999", datetime(9999, 12, 31, 23, 59, 59, 999999)),
    ("datetime", "0000-00-00 00:00:00", None),
    ("timestamp", "2024-01-01 09:00:00", datetime(2024, 1, 1, tzinfo=UTC)),
    ("time(6)", "-838:59:59.000001", -((838 * 60 + 59) * 60 + 59) * 10**6 - 1),
    ("enum('a','b')", "b", "b"),
    ("enum('a','b')", "", ""),
    ("set('a','b')", "a,b", "a,b"),
    ("json", '{"a": "b\'"}', '{"a": "b\'"}'),
    ("vector(2)", "[1,2.5]", [1.0, 2.5]),
    ("int", None, None),
]


@pytest.mark.parametrize(("mysql_type", "text", "value"), DEFAULTS)
def test_a_default_is_a_value_of_its_column(mysql_type: str, text: str | bytes | None, value: Any) -> None:
    policy = Policy(time_zone="Asia/Tokyo")

    found = default_value(text, column(mysql_type), policy)

    assert found.as_py() == value
    assert found.type == policy.type_of(column(mysql_type))


@pytest.mark.parametrize(("mysql_type", "text"), [("int", "x"), ("vector(2)", ""), ("int", b"\x01"), ("date", "x")])
def test_a_default_that_is_not_a_value_names_its_column(mysql_type: str, text: str | bytes) -> None:
    with pytest.raises(SyncError, match=rf"^column c: b?'.*' is not a value of {mysql_type.split('(')[0]}"):
        default_value(text, column(mysql_type))


def test_a_zero_date_is_rejected_if_the_policy_says_so() -> None:
    with pytest.raises(SyncError, match="0000-00-00"):
        default_value("0000-00-00", column("date"), Policy(zero_dates=ZeroDates.REJECT))
