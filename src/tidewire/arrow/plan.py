"""Plans: how the rows of one table shape become a record batch.

A batch has one row per change::

    _op         int8             0 insert, 1 update, 2 delete
    _commit_ts  int64            null where the protocol sends none
    _pos, _sub  int32            which message of the batch, which event in it
    _partition  int64            the physical partition id of a partitioned table
    _key_only   bool             only the handle key's columns were sent
    after       struct           the new row, null for deletes
    before      struct           the old row, null for inserts
    _absent     list<int16>      the columns that a partial old row leaves out; null where it leaves out none
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pyarrow as pa

from tidewire.arrow.misfits import Misfits, Reader, fitting
from tidewire.arrow.types import arrow_type
from tidewire.model import Column, TableSchema

Image = Any
"""One row's wire values: a mapping by column name, or what the plan's :meth:`Plan.wire_values` takes apart."""


class OpCode(IntEnum):
    """``_op`` of a row."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2


@dataclass(slots=True, eq=False)
class Rows:
    """Rows of one plan on their way into columns. Images map a column's wire name to its wire value."""

    positions: list[int] = field(default_factory=list)
    subs: list[int] = field(default_factory=list)
    ops: list[int] = field(default_factory=list)
    commit_ts: list[int | None] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)
    key_only: list[bool] = field(default_factory=list)
    after: list[Image | None] = field(default_factory=list)
    before: list[Image | None] = field(default_factory=list)

    def add(
        self,
        pos: int,
        sub: int,
        op: int,
        commit_ts: int | None,
        partition: int | None,
        key_only: bool,
        after: Image | None,
        before: Image | None,
    ) -> None:
        """One more row. Where rows come in great numbers, :func:`tidewire.arrow.records.pour` adds them at once."""
        self.positions.append(pos)
        self.subs.append(sub)
        self.ops.append(op)
        self.commit_ts.append(commit_ts)
        self.partitions.append(partition)
        self.key_only.append(key_only)
        self.after.append(after)
        self.before.append(before)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One column: its place in the model, and how its wire values are read."""

    column: Column
    type: pa.DataType
    read: Reader


class Plan:
    """How the rows of one table shape become a record batch. Made once per shape and kept."""

    def __init__(self, table: TableSchema, reader_of: Callable[[Column], Reader]) -> None:
        self.table = table
        self.columns = tuple(ColumnPlan(column, arrow_type(column), reader_of(column)) for column in table.columns)
        self.struct = pa.struct([pa.field(plan.column.name, plan.type) for plan in self.columns])

    def __repr__(self) -> str:
        return f"Plan({self.table.name}, {len(self.columns)} columns)"

    def schema(self, *, before: bool) -> pa.Schema:
        """The schema of this plan's batches."""
        fields = [*_HEAD, pa.field("after", self.struct)]
        return pa.schema([*fields, pa.field("before", self.struct), _ABSENT] if before else fields)

    def batch(self, rows: Rows, *, before: bool = True) -> tuple[pa.RecordBatch, Misfits]:
        """The rows as a batch, and those that hold a value which does not fit its column's type."""
        commit_ts, bad = fitting(rows.commit_ts, lambda values: pa.array(values, pa.int64()), pa.int64())
        misfits: Misfits = {row: f"commit ts: {reason}" for row, reason in bad.items()}
        arrays = [
            pa.array(rows.ops, pa.int8()),
            commit_ts,
            pa.array(rows.positions, pa.int32()),
            pa.array(rows.subs, pa.int32()),
            pa.array(rows.partitions, pa.int64()),
            pa.array(rows.key_only, pa.bool_()),
            self._struct(rows.after, misfits),
        ]
        if before:
            arrays += [self._struct(rows.before, misfits), pa.array(self.absent(rows.before), _ABSENT.type)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema(before=before)), misfits

    def _struct(self, images: Sequence[Image | None], misfits: Misfits) -> pa.Array:
        if not self.columns:
            return pa.array([None if image is None else {} for image in images], self.struct)
        missing = images.count(None)
        if missing == len(images):
            return pa.nulls(missing, self.struct)
        arrays = []
        for plan, values in zip(self.columns, self.wire_values(images), strict=True):
            array, bad = fitting(values, plan.read, plan.type)
            for row, reason in bad.items():
                misfits.setdefault(row, f"column {plan.column.name} ({plan.column.mysql_type}): {reason}")
            arrays.append(array)
        mask = pa.array([image is None for image in images]) if missing else None
        return pa.StructArray.from_arrays(arrays, fields=list(self.struct), mask=mask)

    def wire_values(self, images: Sequence[Image | None]) -> Iterable[Sequence[Any]]:
        """The values of each column, for its reader; a scanner with images of its own takes them apart here."""
        for plan in self.columns:
            name = plan.column.name
            yield [None if image is None else image.get(name) for image in images]

    def absent(self, images: Sequence[Image | None]) -> Sequence[Sequence[int] | None]:
        """The numbers of the columns that each image leaves out, ``None`` for none."""
        width = len(self.columns)
        if all(image is None or len(image) == width for image in images):
            return [None] * len(images)
        names = [plan.column.name for plan in self.columns]
        return [
            None
            if image is None or len(image) == width
            else [number for number, name in enumerate(names) if name not in image]
            for image in images
        ]


_HEAD = (
    pa.field("_op", pa.int8(), nullable=False),
    pa.field("_commit_ts", pa.int64()),
    pa.field("_pos", pa.int32(), nullable=False),
    pa.field("_sub", pa.int32(), nullable=False),
    pa.field("_partition", pa.int64()),
    pa.field("_key_only", pa.bool_(), nullable=False),
)
_ABSENT = pa.field("_absent", pa.list_(pa.int16()))
