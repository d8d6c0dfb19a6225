"""Transforms of partitions, compared with PyIceberg's, which takes one value at a time."""

from __future__ import annotations

from datetime import timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg import types
from pyiceberg.transforms import parse_transform

from tidewire.errors import OptionError
from tidewire.spark.targets.files import comparable
from tidewire.spark.targets.iceberg_values import json_of, value_of
from tidewire.spark.targets.partitions import PartitionField, can_partition, groups, may_be_in
from tidewire.sync.table_options import PartitionBy

TYPES: dict[str, tuple[pa.DataType, Any, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), types.IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), types.LongType(), st.integers(-(2**63), 2**63 - 1)),
    "unsigned": (pa.decimal128(20, 0), types.DecimalType(20, 0), st.integers(0, 2**64 - 1).map(Decimal)),
    "decimal": (
        pa.decimal128(9, 2),
        types.DecimalType(9, 2),
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda number: Decimal(number).scaleb(-2)),
    ),
    "date": (pa.date32(), types.DateType(), st.dates()),
    "timestamp": (pa.timestamp("us"), types.TimestampType(), st.datetimes()),
    "timestamptz": (
        pa.timestamp("us", "UTC"),
        types.TimestamptzType(),
        st.datetimes(timezones=st.just(timezone.utc)),
    ),
    "text": (pa.string(), types.StringType(), st.text(st.characters(codec="utf-8"), max_size=20)),
    "bytes": (pa.binary(), types.BinaryType(), st.binary(max_size=20)),
}

TRANSFORMS = ("identity", "bucket[16]", "bucket[1000003]", "truncate[1]", "truncate[7]", "year", "month", "day", "hour")

CASES = [
    (name, transform)
    for name, (type_, _, _) in TYPES.items()
    for transform in TRANSFORMS
    if can_partition(transform, type_)
]


@pytest.mark.parametrize(("name", "transform"), CASES)
def test_a_value_belongs_in_the_partition_that_the_specification_says(name: str, transform: str) -> None:
    arrow, iceberg, values = TYPES[name]
    field = PartitionField(1, transform, arrow)

    @settings(max_examples=20, deadline=None)
    @given(st.lists(st.one_of(st.none(), values), min_size=1, max_size=20))
    def check(found: list[Any]) -> None:
        column = pa.array(found, arrow)
        plain = [_plain(value, name) for value in found]
        expected = list(map(parse_transform(transform).transform(iceberg), plain))
        assert [_wanted(each, arrow) for each in expected] == field.of(pa.chunked_array([column])).to_pylist()

    check()


def _plain(value: Any, name: str) -> Any:
    """A value as PyIceberg's transforms take it."""
    if value is None or name not in ("date", "timestamp", "timestamptz"):
        return value
    return comparable(pa.array([value], TYPES[name][0]))[0].as_py()


def _wanted(value: Any, type_: pa.DataType) -> Any:
    """Java's numbers begin again at their end, Python's do not."""
    if type_ in (pa.int32(), pa.int64()) and value is not None:
        half = 2 ** (type_.bit_width - 1)
        return (value + half) % (2 * half) - half
    return value.encode() if isinstance(value, str) else value


@pytest.mark.parametrize(("name", "transform"), CASES)
def test_values_of_partitions_are_written_and_read(name: str, transform: str) -> None:
    arrow, _, values = TYPES[name]
    field = PartitionField(1, transform, arrow)

    @settings(max_examples=10, deadline=None)
    @given(values)
    def check(value: Any) -> None:
        (found,) = field.of(pa.array([value], arrow)).to_pylist()
        assert value_of(json_of(found, field.result), field.result) == found

    check()


def test_days_before_the_year_1_are_counted() -> None:
    """MySQL has the year 0."""
    days = pa.array([int(np.datetime64("0000-02-29", "D").astype(np.int64))], pa.int32()).cast(pa.date32())

    assert PartitionField(1, "year", pa.date32()).of(days).to_pylist() == [-1970]
    assert PartitionField(1, "month", pa.date32()).of(days).to_pylist() == [-1970 * 12 + 1]
    assert json_of(PartitionField(1, "day", pa.date32()).of(days)[0].as_py(), pa.date32()) == "0000-02-29"


@given(st.lists(st.tuples(st.one_of(st.none(), st.integers(-3, 3)), st.sampled_from(["a", "b", ""]))))
def test_every_row_is_in_one_group_in_its_order(rows: list[tuple[int | None, str]]) -> None:
    fields = (PartitionField(1, "truncate[2]", pa.int64()), PartitionField(2, "identity", pa.string()))
    columns = [pa.chunked_array([pa.array([row[0] for row in rows], pa.int64())])]
    columns.append(pa.chunked_array([pa.array([row[1] for row in rows], pa.string())]))

    found = list(groups(fields, columns, len(rows)))

    assert len({values for values, _ in found}) == len(found)
    assert sorted(place for _, places in found for place in places) == list(range(len(rows)))
    for values, places in found:
        assert list(places) == sorted(places)
        assert {(None if rows[n][0] is None else rows[n][0] // 2 * 2, rows[n][1].encode()) for n in places} == {values}


def test_only_fields_of_columns_that_are_looked_for_leave_files_out() -> None:
    from tidewire.spark.targets.files import DataFile

    fields = (PartitionField(1, "bucket[4]", pa.int64()), PartitionField(2, "identity", pa.string()))
    test = may_be_in(fields, [3, 1], [pa.array(["x"]), pa.array([5], pa.int64())])
    (bucket,) = fields[0].of(pa.array([5])).to_pylist()

    assert test(DataFile("a", 1, {}, partition=(bucket, b"any")))
    assert not test(DataFile("b", 1, {}, partition=(bucket + 1, b"any")))
    assert test(DataFile("c", 1, {}, partition=None))


@pytest.mark.parametrize("text", ["bucket(id)", "bucket(0, id)", "month(3, d)", "bucket(16, )", "weeks(d)", "", "a(b"])
def test_what_is_no_transform_is_refused(text: str) -> None:
    with pytest.raises(OptionError, match="tables"):
        PartitionBy.parse(text, "tables[0].partition")


@pytest.mark.parametrize("text", ["id", "bucket(16, id)", "truncate(3, a b)", "month(d)", "identity(x)"])
def test_transforms_are_written_as_they_are_read(text: str) -> None:
    found = PartitionBy.parse(text)

    assert PartitionBy.parse(str(found)) == found
