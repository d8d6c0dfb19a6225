"""Masks on record batches: what a task writes of rows."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from staging import OTHER, encoded, insert, record_batch, staged
from tidewire.arrow.policy import Policy
from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.stage import Reader
from tidewire.spark.stage.masking import masked
from tidewire.spark.stage.report import Report
from tidewire.spark.stage.task import Task
from tidewire.spark.work import Work
from tidewire.sync.floors import Floors
from tidewire.sync.masks import Mask, hashed
from tidewire.sync.rules import Rules, TableRule

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


def test_a_key_that_must_not_be_dropped_is_empty_until_somebody_refuses_it() -> None:
    found = masked(rows(), TABLE, rules(id=Mask.DROP), Policy())

    assert [row["id"] for row in found.column("after").to_pylist() if row] == [None, None]


@pytest.mark.parametrize("keep", [True, False])
def test_a_task_writes_masked_rows_of_followed_tables_only(tmp_path: Path, keep: bool) -> None:
    followed = Rules(("test.t",), (TableRule(match=("*.*",), mask={"v": Mask.HASH}),))
    reader = Reader("canal-json", {"enable-tidb-extension": "true"}, rules=followed, keep_rejected=keep)
    messages = encoded(reader, insert(1, 5, "secret"), insert(2, 5, "secret", OTHER), b"garbage")
    task = pickle.loads(pickle.dumps(Task(0, reader, Floors(), Work(tmp_path))))

    (found,) = task(iter([record_batch(messages)]))

    manifest = Report.from_json(found.column("report")[0].as_py()).manifest
    assert [row["after"] for row in staged(manifest).values()] == [{"id": 1, "v": hashed("secret")}]
    (file,) = manifest.files
    assert file.shape.column("v").mysql_type != "varchar(64)"
    (rejected,) = pq.read_table(manifest.reject_files[0]).to_pylist()
    assert rejected["value"] == (b"garbage" if keep else None)
