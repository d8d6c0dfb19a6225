"""Wire values in declared types: the SQL says what ``arrow.declare`` says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tidewire.arrow.declare import declared
from tidewire.arrow.policy import Policy, ZeroDates
from tidewire.arrow.types import arrow_type
from tidewire.errors import SyncError
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.apply import cast_sql, convert_sql, literal_sql, may_fail, misfit_sql, spark_type

D = Decimal
SET_64 = "set(" + ",".join(f"'n{number}'" for number in range(64)) + ")"

PARITY: list[tuple[str, str, list[Any]]] = [
    ("decimal", "decimal(10,2)", ["1.5", "-0.01", "12345678.99", "123456789.00", "1.555", "1.550", None, "7", "0"]),
    ("decimal", "decimal(38,0)", ["9" * 38, "1", "-" + "9" * 38]),
    ("decimal", "decimal(5,5)", ["0.12345", "-0.5", "1.0"]),
    ("decimal", "decimal(40,2)", ["1.50", None]),
    ("decimal(10,2)", "decimal(12,4)", [D("1.50"), None]),
    ("decimal(10,2)", "decimal(8,1)", [D("1.50"), D("1.55"), D("12345678.00")]),
    ("enum", "enum('a','it''s','')", [0, 1, 2, 3, 4, -1, None]),
    ("set", "set('a','b','c')", [D(0), D(1), D(5), D(7), D(8), D(-1), None]),
    ("set", SET_64, [D(0), D(2**63), D(2**64 - 1), D(2**63 - 1), None]),
    ("bit", "bit(10)", [D(0), D(1023), D(2**63), None]),
    ("bit", "bit(64)", [D(2**64 - 1), None]),
    ("bit(10)", "bit(64)", [1023, None]),
    ("int", "bigint", [-(2**31), 2**31 - 1, None]),
    ("bigint", "int", [2**31, -(2**31), 7, None]),
    ("bigint", "bigint unsigned", [7, 2**63 - 1, None]),
    ("bigint unsigned", "bigint", [D(2**63 - 1), D(2**63), None]),
    ("bigint unsigned", "int", [D(5), D(2**40)]),
    ("int", "decimal(12,2)", [5, 2**31 - 1, None]),
    ("decimal(10,2)", "int", [D("5.00"), D("5.50"), None]),
    ("float", "double", [1.5, -0.0, None]),
    ("int", "double", [2**31 - 1, None]),
    ("bigint", "double", [2**53, 2**53 + 1, 2**63 - 1, None]),
    ("double", "int", [5.0, 5.5, 1e20, None]),
    ("int", "varchar(20)", [-5, None]),
    ("decimal(10,2)", "varchar(20)", [D("1.50"), D("-0.01"), None]),
    ("varchar(20)", "int", ["5", "-7", "x", None]),
    ("varbinary(20)", "varchar(20)", [b"ok", "ä".encode(), b"\xff", None]),
    ("varchar(20)", "varbinary(20)", ["ä", None]),
    ("date", "datetime", [date(2024, 2, 29), None]),
]
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


Case = tuple[Column, list[Any], Callable[[str], list[str]]]
"""A column's type, values of it, and expressions over it."""


def ask(spark: SparkSession, wire: Column, values: list[Any], expression: Callable[[str], str]) -> list[Any]:
    """What an expression over a column makes of values, in order."""
    (answers,) = ask_all(spark, [(wire, values, lambda x: [expression(x)])])
    return [answer for (answer,) in answers]


def ask_all(spark: SparkSession, cases: list[Case]) -> list[list[tuple[Any, ...]]]:
    """The same for many columns, in one query: a struct for each case."""
    longest = max(len(values) for _, values, _ in cases)
    arrays = [pa.array(values + [None] * (longest - len(values)), arrow_type(wire)) for wire, values, _ in cases]
    rows = pa.table([pa.array(range(longest)), *arrays], names=["n", *(f"x{number}" for number in range(len(cases)))])
    structs = [
        f"struct({', '.join(f'{each} AS v{at}' for at, each in enumerate(expressions(f'x{number}')))}) AS c{number}"
        for number, (_, _, expressions) in enumerate(cases)
    ]
    found = spark.createDataFrame(rows).orderBy("n").selectExpr(*structs).toArrow().to_pylist()
    return [
        [tuple(row[f"c{number}"].values()) for row in found[: len(values)]]
        for number, (_, values, _) in enumerate(cases)
    ]


@pytest.fixture(scope="module")
def casts(spark: SparkSession) -> list[list[tuple[Any, ...]]]:
    """What the SQL makes of all cases, and whether a value is a misfit."""

    def case(wire: str, table: str, values: list[Any]) -> Case:
        told, column = Column.of("c", wire), Column.of("c", table)
        return (
            told,
            values,
            lambda x: [cast_sql(x, told, column), f"coalesce({misfit_sql(x, told, column) or 'false'}, false)"],
        )

    return ask_all(spark, [case(*each) for each in PARITY])


@pytest.mark.parametrize("number", range(len(PARITY)), ids=lambda number: " to ".join(PARITY[number][:2])[:40])
def test_a_cast_gives_what_the_declaration_gives(casts: list[list[tuple[Any, ...]]], number: int) -> None:
    wire, table, values = PARITY[number]
    told, column = Column.of("c", wire), Column.of("c", table)
    image = pa.StructArray.from_arrays([pa.array(values, arrow_type(told))], ["c"])
    batch, misfits = declared(
        pa.RecordBatch.from_arrays([image], ["after"]), TableSchema(TableName("s", "t"), (column,))
    )

    rows = casts[number]

    assert {row for row, (_, bad) in enumerate(rows) if bad} == misfits.keys()
    assert [None if bad else value for value, bad in rows] == [row["c"] for row in batch.column("after").to_pylist()]
    assert may_fail(told, column) or not misfits


@pytest.mark.parametrize("mysql_type", SAME)
def test_a_type_that_is_told_whole_needs_no_cast(mysql_type: str) -> None:
    column = Column.of("c", mysql_type)

    assert cast_sql("x", column, column) == "x"
    assert not may_fail(column, column)


def test_names_become_the_numbers_of_a_table_that_has_none(spark: SparkSession) -> None:
    enum, bits = Column.of("c", "enum('a','b')"), Column.of("c", "set('a','b','c')")

    indexes = ask(spark, enum, ["b", "", None], lambda x: cast_sql(x, enum, Column.of("c", "enum")))
    masks = ask(spark, bits, ["a,c", "", None], lambda x: cast_sql(x, bits, Column.of("c", "set")))

    assert (indexes, masks) == ([2, 0, None], [5, 0, None])


def test_what_cannot_be_cast_is_a_misfit_and_not_null(spark: SparkSession) -> None:
    vector, day = Column.of("c", "vector(2)"), Column.of("c", "date")

    found = ask(spark, vector, [[1.0, 2.0], None], lambda x: str(misfit_sql(x, vector, day)))

    assert found == [True, False]


LITERALS: list[tuple[str, str | bytes | None, Any]] = [
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
    ("timestamp", "2024-01-01 09:00:00", datetime(2024, 1, 1, tzinfo=timezone.utc)),
    ("time(6)", "-838:59:59.000001", -((838 * 60 + 59) * 60 + 59) * 10**6 - 1),
    ("enum('a','b')", "b", "b"),
    ("enum('a','b')", "", ""),
    ("set('a','b')", "a,b", "a,b"),
    ("json", '{"a": "b\'"}', '{"a": "b\'"}'),
    ("vector(2)", "[1,2.5]", [1.0, 2.5]),
    ("int", None, None),
]


def test_defaults_are_literals_of_their_column(spark: SparkSession) -> None:
    policy = Policy(time_zone="Asia/Tokyo")
    columns = [Column.of("c", mysql_type) for mysql_type, _, _ in LITERALS]

    literals = [
        f"{literal_sql(text, column, policy)} AS v{number}"
        for number, (column, (_, text, _)) in enumerate(zip(columns, LITERALS, strict=True))
    ]
    (row,) = spark.range(1).selectExpr(*literals).toArrow().to_pylist()
    types = [field.dataType.simpleString() for field in spark.range(1).selectExpr(*literals).schema]

    assert list(row.values()) == [value for _, _, value in LITERALS]
    assert types == [spark_type(column) for column in columns]


def test_a_default_that_is_none_names_its_column() -> None:
    with pytest.raises(SyncError, match="column n: 'x' is not a value of int"):
        literal_sql("x", Column.of("n", "int"))


def test_a_zero_date_is_rejected_where_the_policy_says_so() -> None:
    with pytest.raises(SyncError, match="0000-00-00"):
        literal_sql("0000-00-00", Column.of("d", "date"), Policy(zero_dates=ZeroDates.REJECT))


DAY = 24 * 3600 * 10**6
CONVERSIONS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("int", "varchar(20)", [-5, None], ["-5", None]),
    ("bigint unsigned", "int", [D(7)], [7]),
    ("int", "bigint", [7], [7]),
    ("varchar(20)", "int", ["12", "1.5", "-1.5", None], [12, 2, -2, None]),
    ("decimal(10,2)", "int", [D("1.49"), D("1.50"), D("-1.50")], [1, 2, -2]),
    ("decimal(10,2)", "decimal(10,1)", [D("1.25"), D("-1.25")], [D("1.3"), D("-1.3")]),
    ("double", "int", [1.5, 2.5, -0.4], [2, 2, 0]),
    ("double", "decimal(10,2)", [1.005, None], [D("1.01"), None]),
    ("double", "varchar(30)", [1.0, 1.5, 1e7, 0.001, 1e20, 1e-20], ["1", "1.5", "10000000", "0.001", "1e20", "1e-20"]),
    ("varchar(30)", "double", ["1e3"], [1000.0]),
    ("varchar(20)", "varchar(3)", ["abcdef"], ["abc"]),
    ("varchar(20)", "varbinary(20)", ["ä"], ["ä".encode()]),
    ("varbinary(20)", "text", ["ä".encode()], ["ä"]),
    ("varbinary(20)", "binary(4)", [b"ab"], [b"ab\0\0"]),
    ("date", "datetime", [date(2024, 2, 29)], [datetime(2024, 2, 29)]),
    ("date", "varchar(20)", [date(2024, 2, 29)], ["2024-02-29"]),
    ("date", "int", [date(2024, 2, 29)], [20240229]),
    ("datetime(6)", "date", [datetime(2024, 2, 29, 13)], [date(2024, 2, 29)]),
    ("datetime(6)", "datetime", [datetime(2024, 2, 29, 23, 59, 59, 500000)], [datetime(2024, 3, 1)]),
    ("datetime(3)", "datetime(6)", [datetime(2024, 2, 29, 1, 2, 3, 4000)], [datetime(2024, 2, 29, 1, 2, 3, 4000)]),
    ("datetime(3)", "varchar(30)", [datetime(2024, 2, 29, 1, 2, 3, 400000)], ["2024-02-29 01:02:03.400"]),
    ("datetime", "bigint", [datetime(2024, 2, 29, 1, 2, 3)], [20240229010203]),
    ("datetime", "time", [datetime(2024, 2, 29, 1, 0, 0)], [3600 * 10**6]),
    ("datetime", "timestamp", [datetime(2024, 1, 1, 9)], [datetime(2024, 1, 1, tzinfo=timezone.utc)]),
    ("timestamp", "datetime", [datetime(2024, 1, 1, tzinfo=timezone.utc)], [datetime(2024, 1, 1, 9)]),
    ("timestamp", "varchar(30)", [datetime(2024, 1, 1, tzinfo=timezone.utc)], ["2024-01-01 09:00:00"]),
    ("timestamp", "date", [datetime(2024, 1, 1, 20, tzinfo=timezone.utc)], [date(2024, 1, 2)]),
    (
        "timestamp(6)",
        "timestamp",
        [datetime(2024, 1, 1, 0, 0, 0, 499999, tzinfo=timezone.utc)],
        [datetime(2024, 1, 1, tzinfo=timezone.utc)],
    ),
    ("varchar(30)", "datetime", ["2024-02-29 01:02:03", "0000-00-00 00:00:00"], [datetime(2024, 2, 29, 1, 2, 3), None]),
    ("varchar(30)", "date", ["2024-02-29", "2024-00-01"], [date(2024, 2, 29), None]),
    ("varchar(30)", "timestamp", ["2024-01-01 09:00:00"], [datetime(2024, 1, 1, tzinfo=timezone.utc)]),
    ("varchar(30)", "time(3)", ["-01:00:00.5", "838:59:59"], [-3600500000, 3020399000000]),
    ("time(3)", "varchar(30)", [-3600500000, 3020399000000], ["-01:00:00.500", "838:59:59.000"]),
    ("time(6)", "time", [1500000, -1500000], [2000000, -2000000]),
    ("time", "int", [-3723000000], [-10203]),
    ("enum('a','b')", "varchar(20)", ["b", ""], ["b", ""]),
    ("enum('a','b')", "int", ["b", ""], [2, 0]),
    ("int", "enum('a','b')", [2, 0], ["b", ""]),
    ("varchar(20)", "enum('a','b')", ["a"], ["a"]),
    ("enum('a','b')", "enum('b','a')", ["a"], ["a"]),
    ("set('a','b')", "varchar(20)", ["a,b"], ["a,b"]),
    ("year", "varchar(4)", [2024, 0], ["2024", "0000"]),
    ("json", "text", ['{"a": 1}'], ['{"a": 1}']),
    ("vector(2)", "text", [[1.0, 2.5]], ["[1,2.5]"]),
    ("text", "vector(2)", ["[1,2.5]"], [[1.0, 2.5]]),
    ("decimal", "decimal(10,2)", ["1.5"], [D("1.50")]),
    ("decimal", "int", ["1.5"], [2]),
]


@pytest.fixture(scope="module")
def conversions(spark: SparkSession) -> list[list[tuple[Any, ...]]]:
    """What the SQL makes of all cases."""
    policy = Policy(time_zone="Asia/Tokyo")

    def case(old: str, new: str, values: list[Any], _: list[Any]) -> Case:
        before, after = Column.of("c", old), Column.of("c", new)
        return before, values, lambda x: [f"CAST({convert_sql(x, before, after, policy)} AS {spark_type(after)})"]

    return ask_all(spark, [case(*each) for each in CONVERSIONS])


@pytest.mark.parametrize("number", range(len(CONVERSIONS)), ids=lambda number: " to ".join(CONVERSIONS[number][:2]))
def test_values_convert_as_mysql_converts_them(conversions: list[list[tuple[Any, ...]]], number: int) -> None:
    expected = CONVERSIONS[number][3]

    assert [value for (value,) in conversions[number]] == expected


def test_a_conversion_that_needs_the_day_it_happened_is_refused() -> None:
    with pytest.raises(SyncError, match=r"column c: values of time cannot become datetime"):
        convert_sql("x", Column.of("c", "time"), Column.of("c", "datetime"))
