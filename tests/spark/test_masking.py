"""Masks on record batches: what a task writes of rows."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staging import OTHER, MemoryFetcher, encoded, insert, staged
from tidewire.arrow.convert import text_reader
from tidewire.arrow.policy import Policy, ZeroDates
from tidewire.model import Column, RowChange, TableName, TableSchema
from tidewire.spark.stage import Reader
from tidewire.spark.stage.mask import masked
from tidewire.spark.stage.task import RangeInput, Task
from tidewire.storage import open_storage
from tidewire.sync.replays import Replays
from tidewire.sync.rules import Mask, Rules, TableRule, hashed

TABLE = TableSchema.build(
    TableName("shop", "users"),
    [
        Column.of("id", "bigint", primary_key=True, nullable=False),
        Column.of("note", "text"),
        Column.of("age", "int", nullable=False),
        Column.of("born", "datetime"),
        Column.of("state", "enum('new','old')", nullable=False),
    ],
)
IMAGE = pa.struct(
    {"id": pa.int64(), "note": pa.string(), "age": pa.int32(), "born": pa.timestamp("us"), "state": pa.string()}
)


def rows() -> pa.RecordBatch:
    """An insert, an update that tells two old values, and a delete."""
    one = {"id": 1, "note": "tea", "age": 30, "born": None, "state": "old"}
    two = {"id": 2, "note": None, "age": 31, "born": None, "state": "old"}
    return pa.RecordBatch.from_arrays(
        [
            pa.array([one, two, None], IMAGE),
            pa.array([None, {**two, "age": 29}, one], IMAGE),
            pa.array([None, [1, 3, 4], None], pa.list_(pa.int16())),
        ],
        names=["after", "before", "_absent"],
    )


def rules(**mask: Mask) -> Rules:
    return Rules(tables=(TableRule(match=("shop.*",), mask=mask),), salt="s")


def test_rows_without_rules_are_left_alone() -> None:
    batch = rows()

    assert masked(batch, TABLE, Rules(), Policy()) is batch


def test_masked_values_are_gone_from_both_images() -> None:
    found = masked(
        rows(),
        TABLE,
        rules(id=Mask.HASH, age=Mask.REDACT, note=Mask.DROP, born=Mask.REDACT, state=Mask.REDACT),
        Policy(),
    )

    blank = {"age": 0, "born": None, "state": "new"}
    one, two = ({"id": hashed(number, "s"), **blank} for number in (1, 2))
    assert found.column("after").to_pylist() == [one, two, None]
    assert found.column("before").to_pylist() == [None, two, one]
    assert found.column("_absent").to_pylist() == [None, [2, 3], None]
    assert found.column("after").type.field("age").type == pa.int32()


def test_a_key_that_must_not_be_dropped_is_empty_until_the_planner_refuses_it() -> None:
    found = masked(rows(), TABLE, rules(id=Mask.DROP), Policy())

    assert [row["id"] for row in found.column("after").to_pylist() if row] == [None, None]


@pytest.mark.parametrize("keep", [True, False])
def test_a_task_writes_masked_rows_of_followed_tables_only(tmp_path: Path, keep: bool) -> None:
    followed = Rules(("test.t",), (TableRule(match=("*.*",), mask={"v": Mask.HASH}),))
    reader = Reader("canal-json", {"enable-tidb-extension": "true"}, rules=followed, keep_rejected=keep)
    messages = encoded(reader, insert(1, 5, "secret"), insert(2, 5, "secret", OTHER), b"garbage")
    task = pickle.loads(pickle.dumps(Task(1, 0, reader, Replays(), open_storage(tmp_path), MemoryFetcher(messages))))

    found = task.run([RangeInput("t", 0, 0, 3)])

    assert [row["after"] for row in staged(found).values()] == [{"id": 1, "v": hashed("secret")}]
    (file,) = found.files
    assert file.shape.column("v").mysql_type != "varchar(64)"
    (rejected,) = pq.read_table(found.reject_files[0]).to_pylist()
    assert rejected["value"] == (b"garbage" if keep else None)


# Hashes depend on the value alone


def fractions(digits: int) -> st.SearchStrategy[str]:
    """Fractions as a server prints those of a column with so many digits."""
    return st.integers(0, 10**digits - 1).map(lambda number: f".{number:0{digits}}" if digits else "")


def moments(fraction: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    seconds = st.datetimes(min_value=datetime(1970, 1, 2), max_value=datetime(2037, 1, 1))
    return st.builds(lambda at, fraction: f"{at:%Y-%m-%d %H:%M:%S}{fraction}", seconds, fraction)


def spans(fraction: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    hours = st.integers(0, 838)
    parts = st.integers(0, 59)
    sign = st.sampled_from(["", "-"])
    return st.builds(lambda s, h, m, sec, f: f"{s}{h:02}:{m:02}:{sec:02}{f}", sign, hours, parts, parts, fraction)


DIGITS = st.integers(0, 6)
COLUMNS: dict[str, st.SearchStrategy[str]] = {
    "date": st.dates().map(lambda day: f"{day:%Y-%m-%d}".rjust(10, "0")),
    "datetime": DIGITS.flatmap(lambda digits: moments(fractions(digits))),
    "datetime(3)": moments(fractions(3)),
    "datetime(6)": moments(fractions(6)),
    "timestamp": DIGITS.flatmap(lambda digits: moments(fractions(digits))),
    "timestamp(2)": moments(fractions(2)),
    "time": DIGITS.flatmap(lambda digits: spans(fractions(digits))),
    "time(4)": spans(fractions(4)),
    "year": st.integers(1901, 2155).map(str),
    "decimal(10,2)": st.decimals(-99999999, 99999999, places=2).map(str),
    "decimal": st.decimals(-(10**30), 10**30, places=3).map(str),
    "float": st.floats(width=32, allow_nan=False, allow_infinity=False).map(repr),
    "double": st.floats(allow_nan=False, allow_infinity=False).map(repr),
    "vector": st.lists(st.floats(-1e6, 1e6, width=32), min_size=1, max_size=3).map(lambda each: json.dumps(each)),
    "bigint unsigned": st.integers(0, 2**64 - 1).map(str),
    "bit(64)": st.integers(0, 2**64 - 1).map(str),
    "varchar(20)": st.text(max_size=5),
}


def hashes(column: Column, texts: list[str], policy: Policy) -> list[str]:
    values = text_reader(column, policy)(texts)
    batch = pa.RecordBatch.from_arrays(
        [
            pa.StructArray.from_arrays([values], ["c"]),
            pa.StructArray.from_arrays([values], ["c"]),
            pa.nulls(len(texts), pa.list_(pa.int16())),
        ],
        names=["after", "before", "_absent"],
    )
    found = masked(batch, TableSchema.build(TableName("shop", "t"), [column]), rules(c=Mask.HASH), policy)
    return [row["c"] for row in found.column("after").to_pylist()]


@pytest.mark.parametrize(
    ("type_", "zero_dates"),
    [*((type_, ZeroDates.NULL) for type_ in COLUMNS), ("datetime", ZeroDates.TEXT), ("date", ZeroDates.TEXT)],
)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_a_value_has_one_hash_whatever_is_beside_it(type_: str, zero_dates: ZeroDates, data: st.DataObject) -> None:
    column = Column("c", Column.of("c", "decimal(5,1)").type) if type_ == "decimal" else Column.of("c", type_)
    policy = Policy("Asia/Shanghai", zero_dates)
    value = data.draw(COLUMNS[type_])
    before, after = (data.draw(st.lists(COLUMNS[type_], max_size=3)) for _ in range(2))

    (alone,) = hashes(column, [value], policy)

    assert hashes(column, [*before, value, *after], policy)[len(before)] == alone


@pytest.mark.parametrize("neighbours", [[], ["123456789012.5"]])
def test_a_decimal_is_hashed_as_it_was_sent(tmp_path: Path, neighbours: list[str]) -> None:
    """Whether it is read as its table declares it depends on the other rows, and on when the declaration came."""
    table = TableSchema.build(
        TableName("test", "t"), [Column.of("id", "int", primary_key=True), Column.of("v", "decimal(20,2)")]
    )
    declared = replace(table, columns=(table.columns[0], Column.of("v", "decimal(10,4)")))
    own = Rules(("test.t",), (TableRule(match=("*.*",), mask={"v": Mask.HASH}),))
    reader = Reader("open-protocol", rules=own, declared=(declared,))
    texts = ["1.50", *neighbours]
    changes = [RowChange(table, 5, after={"id": number, "v": Decimal(text)}) for number, text in enumerate(texts)]
    fetcher = MemoryFetcher(encoded(reader, *changes))

    found = Task(1, 0, reader, Replays(), open_storage(tmp_path), fetcher).run([RangeInput("t", 0, 0, 2)])

    rows = {row["after"]["id"]: row["after"]["v"] for row in staged(found).values()}
    assert rows == {number: hashed(text) for number, text in enumerate(texts)}


@pytest.mark.parametrize(
    ("type_", "value", "neighbour", "text"),
    [
        ("datetime", "2024-02-29 12:00:00.500", "2024-02-29 12:00:00.125", "2024-02-29 12:00:00.5"),
        ("datetime", "2024-02-29 12:00:00.000", "2024-02-29 12:00:00.125", "2024-02-29 12:00:00"),
        ("datetime(3)", "2024-02-29 12:00:00.500", "2024-02-29 12:00:00.000", "2024-02-29 12:00:00.500"),
        ("timestamp", "2024-02-29 12:00:00.120000", "2024-02-29 12:00:00", "2024-02-29 12:00:00.12"),
        ("time", "-00:00:01.10", "00:00:02.123456", "-00:00:01.1"),
        ("time(2)", "-00:00:01.10", "00:00:02.12", "-00:00:01.10"),
        ("decimal(10,2)", "1.50", "1.00", "1.50"),
        ("float", "1.5", "0.1", "1.5"),
        ("vector", "[1,2.5]", "[0.1]", "[1,2.5]"),
    ],
)
def test_a_hash_is_of_a_text_that_can_be_said_in_advance(type_: str, value: str, neighbour: str, text: str) -> None:
    found, _ = hashes(Column.of("c", type_), [value, neighbour], Policy("Asia/Shanghai"))

    assert found == hashed(text, "s")
