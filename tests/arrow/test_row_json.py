"""Row images as JSON objects."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tidewire.arrow import Plan, Policy
from tidewire.arrow.convert import value_reader
from tidewire.arrow.row_json import json_rows
from tidewire.model import Column, TableName, TableSchema

POLICY = Policy("Asia/Tokyo")


def images(columns: list[Column], rows: list[dict[str, Any] | None]) -> tuple[pa.StructArray, Plan]:
    plan = Plan(TableSchema(TableName("shop", "t"), tuple(columns)), value_reader, POLICY)
    return pa.array(rows, plan.struct), plan


@pytest.mark.parametrize(
    ("type_", "value", "text"),
    [
        ("int", -5, "-5"),
        ("bigint unsigned", Decimal(2**64 - 1), "18446744073709551615"),
        ("year", 0, "0"),
        ("bit(8)", 200, "200"),
        ("float", 0.1, "0.1"),
        ("double", 1e300, "1e300"),
        ("double", -0.0, "0"),
        ("double", 1.5e-7, "0.00000015"),
        ("decimal(38,10)", Decimal("-1.5000000000"), "-1.5000000000"),
        ("decimal(10,8)", Decimal("0.00000001"), "0.00000001"),
        ("decimal(65,0)", "9" * 39, f'"{"9" * 39}"'),
        ("decimal", "12.30", "12.30"),
        ("decimal", "9" * 39, f'"{"9" * 39}"'),
        ("decimal", "." + "9" * 3, '".999"'),
        ("char(5)", 'a"\\\n\x01é', '"a\\"\\\\\\n\\u0001é"'),
        ("json", '{"a": 1}', '"{\\"a\\": 1}"'),
        ("varbinary(3)", b"\0\xff", '"AP8="'),
        ("enum('a','b')", "b", '"b"'),
        ("enum", 2, "2"),
        ("set", Decimal(5), "5"),
        ("vector(2)", [1.0, 0.25], "[1,0.25]"),
        ("time(3)", -3_600_000_500, '"-01:00:00.000"'),
        ("time", 3_600_500_000, '"01:00:00.5"'),
    ],
)
def test_each_type_has_one_form(type_: str, value: Any, text: str) -> None:
    array, plan = images([Column.of("c", type_)], [{"c": value}, {"c": None}, None])

    assert json_rows(array, plan, POLICY).to_pylist() == [f'{{"c":{text}}}', '{"c":null}', None]


def test_times_keep_their_fraction_and_timestamps_are_in_utc() -> None:
    columns = [
        Column.of("clock", "datetime"),
        Column.of("exact", "datetime(3)"),
        Column.of("at", "timestamp(6)"),
        Column.of("day", "date"),
    ]
    clock = datetime(2024, 2, 29, 10, 0, 0, 500_000)
    array, plan = images(
        columns, [{"clock": clock, "exact": clock, "at": clock.replace(tzinfo=timezone.utc), "day": clock.date()}]
    )

    (text,) = json_rows(array, plan, POLICY).to_pylist()

    assert json.loads(text) == {
        "clock": "2024-02-29 10:00:00.5",
        "exact": "2024-02-29 10:00:00.500",
        "at": "2024-02-29 10:00:00.500000Z",
        "day": "2024-02-29",
    }


def test_columns_that_a_row_leaves_out_are_not_members() -> None:
    array, plan = images([Column.of("a", "int"), Column.of('b"', "int")], [{"a": 1, 'b"': None}] * 3)

    texts = json_rows(array, plan, POLICY, pa.array([None, [1], [0, 1]], pa.list_(pa.int16())))

    assert [json.loads(text) for text in texts.to_pylist()] == [{"a": 1, 'b"': None}, {"a": 1}, {}]
