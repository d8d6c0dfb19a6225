"""What MODIFY COLUMN makes of stored values."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewire.arrow.modify import changes_values, check, convert, widens
from tidewire.arrow.policy import Policy, ZeroDates
from tidewire.errors import ColumnError, SyncError
from tidewire.model import Column

D = Decimal
EXACT = Context(prec=200)
UTC = timezone.utc
TOKYO = Policy(time_zone="Asia/Tokyo")


def column(mysql_type: str) -> Column:
    return Column.of("c", mysql_type)


def converted(old: str, new: str, values: Any, policy: Policy = TOKYO) -> list[Any]:
    source, goal = column(old), column(new)
    array = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(values, policy.type_of(source))
    check(source, goal, policy)
    found = convert(array, source, goal, policy)
    assert found.type == policy.type_of(goal)
    if not changes_values(source, goal, policy):
        assert found is array
    return list(found.to_pylist())


CONVERSIONS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("int", "varchar(20)", [-5, None], ["-5", None]),
    ("bigint unsigned", "int", [D(7)], [7]),
    ("int", "bigint", [7], [7]),
    ("varchar(20)", "int", ["12", "1.5", "-1.5", "1e3", " 7 ", None], [12, 2, -2, 1000, 7, None]),
    ("varchar(60)", "int", ["0.49999999999999999999999999999999999999999", "-0.5"], [0, -1]),
    ("decimal(10,2)", "int", [D("1.49"), D("1.50"), D("-1.50")], [1, 2, -2]),
    ("decimal(10,2)", "decimal(10,1)", [D("1.25"), D("-1.25")], [D("1.3"), D("-1.3")]),
    ("decimal(38,2)", "decimal(38,0)", [D("9" * 32 + ".99"), D("-" + "9" * 32 + ".50")], [D(10**32), D(-(10**32))]),
    ("double", "int", [1.5, 2.5, -0.4, -0.0], [2, 2, 0, 0]),
    ("double", "bigint unsigned", [2.5, 2.0**62, None], [D(2), D(2**62), None]),
    ("double", "decimal(10,2)", [1.005, 2.5e-20, None], [D("1.01"), D("0.00"), None]),
    ("double", "decimal(40,2)", [1e20, 1.5], ["1" + "0" * 20, "1.5"]),
    ("double", "varchar(30)", [1.0, 1.5, 1e7, 0.001, 1e20, 1e-20], ["1", "1.5", "10000000", "0.001", "1e20", "1e-20"]),
    ("float", "varchar(30)", [0.1, 16777216.0], ["0.1", "16777216"]),
    ("double", "float", [0.1], [0.10000000149011612]),
    ("bigint", "float", [2**24 + 1], [2.0**24]),
    ("varchar(30)", "double", ["1e3"], [1000.0]),
    ("varchar(20)", "varchar(3)", ["abcdef", "äöü😀"], ["abc", "äöü"]),
    ("varchar(20)", "varbinary(20)", ["ä"], ["ä".encode()]),
    ("varbinary(20)", "text", ["ä".encode()], ["ä"]),
    ("varbinary(20)", "binary(4)", [b"ab", b"abcdef", b"", None], [b"ab\0\0", b"abcd", b"\0\0\0\0", None]),
    ("blob", "varbinary(2)", [b"ab", b"abc"], [b"ab", b"ab"]),
    ("date", "datetime", [date(2024, 2, 29)], [datetime(2024, 2, 29)]),
    ("date", "timestamp", [date(2024, 2, 29)], [datetime(2024, 2, 28, 15, tzinfo=UTC)]),
    ("date", "varchar(20)", [date(2024, 2, 29), date(1, 1, 1)], ["2024-02-29", "0001-01-01"]),
    ("date", "int", [date(2024, 2, 29)], [20240229]),
    ("datetime(6)", "date", [datetime(2024, 2, 29, 13), datetime(1, 1, 1, 1)], [date(2024, 2, 29), date(1, 1, 1)]),
    ("datetime(6)", "datetime", [datetime(2024, 2, 29, 23, 59, 59, 500000)], [datetime(2024, 3, 1)]),
    ("datetime(3)", "datetime(6)", [datetime(2024, 2, 29, 1, 2, 3, 4000)], [datetime(2024, 2, 29, 1, 2, 3, 4000)]),
    ("datetime(3)", "varchar(30)", [datetime(2024, 2, 29, 1, 2, 3, 400000)], ["2024-02-29 01:02:03.400"]),
    ("datetime", "bigint", [datetime(2024, 2, 29, 1, 2, 3)], [20240229010203]),
    ("datetime", "time", [datetime(2024, 2, 29, 1, 0, 0)], [3600 * 10**6]),
    ("datetime", "timestamp", [datetime(2024, 1, 1, 9)], [datetime(2024, 1, 1, tzinfo=UTC)]),
    ("timestamp", "datetime", [datetime(2024, 1, 1, tzinfo=UTC)], [datetime(2024, 1, 1, 9)]),
    ("timestamp", "varchar(30)", [datetime(2024, 1, 1, tzinfo=UTC)], ["2024-01-01 09:00:00"]),
    ("timestamp", "date", [datetime(2024, 1, 1, 20, tzinfo=UTC)], [date(2024, 1, 2)]),
    ("timestamp", "time", [datetime(2024, 1, 1, 20, tzinfo=UTC)], [5 * 3600 * 10**6]),
    (
        "timestamp(6)",
        "timestamp",
        [datetime(2024, 1, 1, 0, 0, 0, 499999, tzinfo=UTC)],
        [datetime(2024, 1, 1, tzinfo=UTC)],
    ),
    ("varchar(30)", "datetime", ["2024-02-29 01:02:03", "0000-00-00 00:00:00"], [datetime(2024, 2, 29, 1, 2, 3), None]),
    ("varchar(30)", "date", ["2024-02-29", "2024-00-01", "2024-01-00"], [date(2024, 2, 29), None, None]),
    ("varchar(30)", "date", ["2024-02-29 12:00:00"], [date(2024, 2, 29)]),
    ("varchar(30)", "timestamp", ["2024-01-01 09:00:00"], [datetime(2024, 1, 1, tzinfo=UTC)]),
    ("varchar(30)", "time(3)", ["-01:00:00.5", "838:59:59", None], [-3600500000, 3020399000000, None]),
    ("time(3)", "varchar(30)", [-3600500000, 3020399000000], ["-01:00:00.500", "838:59:59.000"]),
    ("time(6)", "time", [1500000, -1500000, 1499999], [2000000, -2000000, 1000000]),
    ("time", "int", [-3723000000], [-10203]),
    ("enum('a','b')", "varchar(20)", ["b", ""], ["b", ""]),
    ("enum('abc','b')", "varchar(2)", ["abc", ""], ["ab", ""]),
    ("enum('a','b')", "int", ["b", "", None], [2, 0, None]),
    ("enum", "bigint", [2, 0, None], [2, 0, None]),
    ("int", "enum('a','b')", [2, 0, None], ["b", "", None]),
    ("varchar(20)", "enum('a','b')", ["a"], ["a"]),
    ("enum('a','b')", "enum('b','a')", ["a"], ["a"]),
    ("set('a','b')", "varchar(20)", ["a,b"], ["a,b"]),
    ("year", "varchar(4)", [2024, 0], ["2024", "0000"]),
    ("year", "int", [2024], [2024]),
    ("json", "text", ['{"a": 1}'], ['{"a": 1}']),
    ("vector(2)", "text", [[1.0, 2.5], None], ["[1,2.5]", None]),
    ("text", "vector(2)", ["[1, 2.5]", "[]", None], [[1.0, 2.5], [], None]),
    ("decimal", "decimal(10,2)", ["1.5", "1.005"], [D("1.50"), D("1.01")]),
    ("decimal", "int", ["1.5"], [2]),
    ("decimal(10,2)", "decimal(40,2)", [D("1.50")], ["1.50"]),
]


@pytest.mark.parametrize(("old", "new", "values", "expected"), CONVERSIONS, ids=lambda case: str(case)[:20])
def test_values_convert_as_mysql_converts_them(old: str, new: str, values: list[Any], expected: list[Any]) -> None:
    assert converted(old, new, values) == expected


@pytest.mark.parametrize(("old", "new", "values", "expected"), CONVERSIONS, ids=lambda case: str(case)[:20])
def test_the_layout_of_an_array_does_not_matter(old: str, new: str, values: list[Any], expected: list[Any]) -> None:
    array = pa.array(values, TOKYO.type_of(column(old)))
    longer = pa.concat_arrays([array, array])

    assert converted(old, new, longer.slice(len(array) - 1)) == [*expected[-1:], *expected]
    assert converted(old, new, pa.chunked_array([array, array.slice(1), array[:0]])) == [*expected, *expected[1:]]
    assert converted(old, new, array[:0]) == []
    assert converted(old, new, pa.nulls(3, array.type)) == [None] * 3


REFUSED = [
    ("time", "datetime"),
    ("time", "date"),
    ("date", "time"),
    ("int", "date"),
    ("double", "timestamp"),
    ("int", "set('a','b')"),
    ("set('a','b')", "int"),
    ("year", "enum('a')"),
]


@pytest.mark.parametrize(("old", "new"), REFUSED)
def test_a_conversion_that_mysql_does_not_always_do_is_refused(old: str, new: str) -> None:
    source, goal = column(old), column(new)

    with pytest.raises(SyncError, match=r"^column c: values of .* cannot become "):
        check(source, goal)
    with pytest.raises(SyncError, match=r"^column c: values of .* cannot become "):
        convert(pa.nulls(0, Policy().type_of(source)), source, goal)


def test_a_text_cannot_become_a_name_that_is_not_known() -> None:
    with pytest.raises(SyncError, match=r"column c: the names of enum are not known"):
        check(column("varchar(20)"), column("enum"))


WRONG: list[tuple[str, str, Any, str]] = [
    ("varchar(20)", "int", "x", "'x' of varchar(20) cannot become int"),
    ("bigint", "int", 2**40, "1099511627776 of bigint cannot become int"),
    ("double", "bigint", 2.0**63, "9.223372036854776e+18 of double cannot become bigint"),
    ("double", "int", math.nan, "nan of double cannot become int"),
    ("decimal(10,2)", "decimal(3,1)", D("99.95"), "Decimal('99.95') of decimal(10,2) cannot become decimal(3,1)"),
    ("varbinary(20)", "text", b"\xff", r"b'\xff' of varbinary(20) cannot become text"),
    ("varchar(30)", "date", "2024-02-30", "'2024-02-30' of varchar(30) cannot become date"),
    ("varchar(30)", "time", "1:2:3", "'1:2:3' of varchar(30) cannot become time"),
    ("varchar(30)", "time", "01:02:0355", "'01:02:0355' of varchar(30) cannot become time"),
    ("text", "vector(2)", "[x\n]", r"'[x\n]' of text cannot become vector(2)"),
    ("int", "enum('a','b')", 3, "3 of int cannot become enum('a','b')"),
    ("int", "enum('a','b')", -1, "-1 of int cannot become enum('a','b')"),
    ("text", "int", "x" * 100, "'" + "x" * 59 + "… of text cannot become int"),
]


@pytest.mark.parametrize(("old", "new", "value", "reason"), WRONG, ids=lambda case: str(case)[:20])
def test_a_value_that_does_not_convert_is_named(old: str, new: str, value: Any, reason: str) -> None:
    values = pa.array([None, value], Policy().type_of(column(old)))

    with pytest.raises(ColumnError) as error:
        convert(values, column(old), column(new))

    assert str(error.value) == f"column c: {reason}"


def test_a_date_before_the_year_1_is_named_too() -> None:
    values = pa.array([-719528 - 1], pa.int32()).cast(pa.date32())

    with pytest.raises(ColumnError, match=r"column c: -0001-12-31 of date cannot become vector\(2\)"):
        convert(values, column("date"), column("vector(2)"))


def test_dates_that_stay_text_are_converted_as_text() -> None:
    policy = Policy(zero_dates=ZeroDates.TEXT)

    assert converted("datetime", "varchar(4)", ["0000-00-00 00:00:00"], policy) == ["0000"]
    assert not changes_values(column("datetime"), column("date"), policy)


# What a table format can do itself

KEPT = [
    ("int", "tinyint"),
    ("year", "int"),
    ("varchar(10)", "varchar(20)"),
    ("varchar(10)", "text"),
    ("enum('a','b')", "enum('b','a','c')"),
    ("enum('a','b')", "varchar(1)"),
    ("datetime(3)", "datetime(6)"),
    ("timestamp", "timestamp(3)"),
    ("time", "time(6)"),
    ("varbinary(10)", "varbinary(20)"),
    ("binary(4)", "varbinary(4)"),
    ("binary(4)", "blob"),
    ("binary(4)", "binary(4)"),
    ("decimal(10,2)", "decimal(10,2)"),
]
CHANGED = [
    ("int", "bigint"),
    ("varchar(20)", "varchar(10)"),
    ("text", "varchar(10)"),
    ("enum('abc')", "varchar(2)"),
    ("set('a','b')", "varchar(2)"),
    ("datetime(6)", "datetime(3)"),
    ("time(6)", "time"),
    ("time", "bigint"),
    ("varbinary(4)", "binary(4)"),
    ("binary(4)", "binary(8)"),
    ("blob", "varbinary(10)"),
    ("datetime", "timestamp"),
]


@pytest.mark.parametrize(
    ("old", "new", "changes"), [*((*pair, False) for pair in KEPT), *((*pair, True) for pair in CHANGED)]
)
def test_a_conversion_says_whether_it_changes_values(old: str, new: str, changes: bool) -> None:
    assert changes_values(column(old), column(new)) is changes


WIDER = [
    ("int", "bigint"),
    ("int", "bigint unsigned"),
    ("int", "double"),
    ("float", "double"),
    ("decimal(10,2)", "decimal(12,2)"),
    ("bigint", "decimal(20,0)"),
    ("date", "datetime"),
    ("enum", "bigint"),
]
NOT_WIDER = [
    ("int", "int"),
    ("bigint", "int"),
    ("bigint", "double"),
    ("int", "decimal(5,0)"),
    ("decimal(10,2)", "decimal(10,4)"),
    ("date", "timestamp"),
    ("datetime", "date"),
    ("time", "bigint"),
    ("int", "text"),
    ("enum('a')", "int"),
    ("decimal(5,2)", "bigint"),
]


@pytest.mark.parametrize(
    ("old", "new", "wider"), [*((*pair, True) for pair in WIDER), *((*pair, False) for pair in NOT_WIDER)]
)
def test_a_plain_cast_to_a_wider_type_is_known(old: str, new: str, wider: bool) -> None:
    assert widens(column(old), column(new)) is wider


# Properties


@pytest.mark.parametrize("scale", [0, 1, 9, 29, 30, 37])
@pytest.mark.parametrize("digits", [10, 31, 38])
@settings(max_examples=25)
@given(data=st.data())
def test_decimals_are_rounded_half_away_from_zero(digits: int, scale: int, data: st.DataObject) -> None:
    source = data.draw(st.integers(0, digits))
    unscaled = st.one_of(st.integers(-(10**digits) + 1, 10**digits - 1), st.just(10**digits - 1))
    values = data.draw(st.lists(unscaled.map(lambda number: D(f"{number}E-{source}")), max_size=20))
    rounded = [value.quantize(D(f"1E-{scale}"), ROUND_HALF_UP, EXACT) for value in values]
    expected = [value for value in rounded if abs(value) < 10 ** (38 - scale)]
    kept = [value for value, number in zip(values, rounded, strict=True) if abs(number) < 10 ** (38 - scale)]

    assert converted(f"decimal({digits},{source})", f"decimal(38,{scale})", kept) == expected
    assert converted("varchar(50)", f"decimal(38,{scale})", [f"{value:f}" for value in kept]) == expected


@pytest.mark.parametrize("digits", range(6))
@given(values=st.lists(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 30))))
def test_times_are_rounded_to_the_nearest(digits: int, values: list[datetime]) -> None:
    found = converted("datetime(6)", f"datetime({digits})", values)

    unit = timedelta(microseconds=10 ** (6 - digits))
    assert all((number - datetime.min) % unit == timedelta() for number in found)
    assert all(-unit / 2 < number - value <= unit / 2 for number, value in zip(found, values, strict=True))


@given(st.lists(st.integers(-3020399999999, 3020399999999)))
def test_the_text_of_a_time_is_that_time(times: list[int]) -> None:
    texts = converted("time(6)", "varchar(30)", times)

    assert converted("varchar(30)", "time(6)", texts) == times
