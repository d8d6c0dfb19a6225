"""Row images as JSON objects."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from fuzz_kernels import cases, given
from scanner_checks import NATIVE_IS_HERE, batch
from tidewire.arrow import BatchDecoder, Plan, Policy, kernel, row_json
from tidewire.arrow.convert import value_reader
from tidewire.arrow.kernel import Kernel
from tidewire.arrow.row_json import json_images, json_rows
from tidewire.model import Column, TableName, TableSchema

POLICY = Policy("Asia/Tokyo")
NUMBERS = pa.list_(pa.int16())

needs_native = pytest.mark.skipif(not NATIVE_IS_HERE, reason="tidewire-native is not installed")
by_kernel = pytest.mark.parametrize("writer", [Kernel.PYTHON, pytest.param(Kernel.NATIVE, marks=needs_native)])


def images(columns: list[Column], rows: list[dict[str, Any] | None]) -> tuple[pa.StructArray, Plan]:
    plan = Plan(TableSchema(TableName("shop", "t"), tuple(columns)), value_reader, POLICY)
    return pa.array(rows, plan.struct), plan


def batch_of(before: pa.StructArray, after: pa.StructArray, absent: pa.ListArray | None = None) -> pa.RecordBatch:
    nothing = pa.nulls(len(after), NUMBERS)
    return pa.record_batch({"before": before, "after": after, "_absent": nothing if absent is None else absent})


@by_kernel
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
def test_each_type_has_one_form(
    type_: str, value: Any, text: str, writer: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "KERNEL", writer)
    after, plan = images([Column.of("c", type_)], [{"c": value}, {"c": None}, None])
    before, _ = images([Column.of("c", type_)], [None, {"c": value}, {"c": value}])

    old, new = json_images(batch_of(before, after), plan, POLICY)

    assert new.to_pylist() == [f'{{"c":{text}}}', '{"c":null}', None]
    assert old.to_pylist() == [None, f'{{"c":{text}}}', f'{{"c":{text}}}']


@needs_native
def test_the_native_kernel_writes_all_kinds_of_values(monkeypatch: pytest.MonkeyPatch) -> None:
    values: dict[str, Any] = {
        "bigint unsigned": Decimal(2**64 - 1),
        "double": 1e300,
        "decimal": "12.30",
        "decimal(38,10)": Decimal("-1.5000000000"),
        "decimal(65,0)": "9" * 39,
        "datetime": datetime(2024, 2, 29, 10, 0, 0, 500_000),
        "char(5)": 'a"é',
        "varbinary(3)": b"\0\xff",
        "enum": 2,
        "vector(2)": [1.0, 0.25],
    }
    array, plan = images([Column.of(type_, type_) for type_ in values], [values, dict.fromkeys(values), None])
    other = array.take(pa.array([2, 0, 1]))
    expected = [json_rows(each, plan, POLICY) for each in (other, array)]
    monkeypatch.setattr(kernel, "KERNEL", Kernel.NATIVE)
    monkeypatch.setattr(row_json, "json_rows", None)

    assert list(json_images(batch_of(other, array), plan, POLICY)) == expected


@needs_native
@pytest.mark.parametrize(("name", "folder", "file"), cases())
def test_both_kernels_write_the_same(name: str, folder: str, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options, resources, messages = given(folder, file)
    decoder = BatchDecoder(name, options, resources)

    for plan, rows in decoder.decode(batch(messages)).batches:
        found = []
        for writer in Kernel:
            monkeypatch.setattr(kernel, "KERNEL", writer)
            found.append([json_images(rows, plan, decoder.policy, before=before) for before in (True, False)])

        assert found[0] == found[1]


@by_kernel
def test_times_keep_their_fraction_and_timestamps_are_in_utc(writer: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "KERNEL", writer)
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

    ((text,), _) = (each.to_pylist() for each in json_images(batch_of(array, array), plan, POLICY))

    assert json.loads(text) == {
        "clock": "2024-02-29 10:00:00.5",
        "exact": "2024-02-29 10:00:00.500",
        "at": "2024-02-29 10:00:00.500000Z",
        "day": "2024-02-29",
    }


@by_kernel
def test_columns_that_a_row_leaves_out_are_not_members(writer: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "KERNEL", writer)
    array, plan = images([Column.of("a", "int"), Column.of('b"', "int")], [{"a": 1, 'b"': None}] * 3)

    old, new = json_images(batch_of(array, array, pa.array([None, [1], [0, 1]], NUMBERS)), plan, POLICY)

    assert [json.loads(text) for text in old.to_pylist()] == [{"a": 1, 'b"': None}, {"a": 1}, {}]
    assert [json.loads(text) for text in new.to_pylist()] == [{"a": 1, 'b"': None}] * 3
