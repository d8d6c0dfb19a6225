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

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from operator import itemgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa

from tidewire.arrow.invalid_values import InvalidValues, Reader, read_column
from tidewire.arrow.policy import Policy
from tidewire.arrow.types import warning
from tidewire.model import Column, TableName, TableSchema

Image = Any
"""One row's wire values: a mapping by column name, or what the plan's :meth:`Plan.wire_values` takes apart."""


class OpCode(IntEnum):
    """``_op`` of a row."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2


BufferedRow = tuple[int, int, OpCode, int | None, int | None, bool, Image | None, Image | None]
"""A row on its way into columns: message, event in it, what it did, commit ts, partition, key only, new and old image.

A plain tuple, because making anything else takes longer than parsing a row.
"""


_WIDTH: Final = 8


class Groups(defaultdict["Plan", list[BufferedRow]]):
    """Rows on their way into columns, by plan."""

    def __init__(self) -> None:
        super().__init__(list)

    def take(self, least: int, most: int) -> Iterator[tuple[Plan, list[BufferedRow]]]:
        """Take out the plans with at least so many rows; all, if together they have more than the most."""
        if sum(map(len, self.values())) > most:
            least = 1
        for plan, rows in list(self.items()):
            if len(rows) >= least:
                yield plan, self.pop(plan)


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """One column: its place in the model, and how its wire values are read."""

    column: Column
    type: pa.DataType
    read: Reader


class Notice(NamedTuple):
    """What a reader of a table should know about a column's type."""

    table: TableName
    column: str
    text: str


class Plan:
    """How the rows of one table shape become a record batch. Made once per shape and kept."""

    def __init__(
        self,
        table: TableSchema,
        reader_of: Callable[[Column, Policy], Reader],
        policy: Policy,
        *,
        by_codec: bool = False,
    ) -> None:
        """``by_codec``: are the rows read by the codec, so that a value that is not taken is invalid for good?"""
        self.table = table
        self.by_codec = by_codec
        self.columns = tuple(
            ColumnPlan(column, policy.type_of(column), reader_of(column, policy)) for column in table.columns
        )
        self.struct = pa.struct([pa.field(plan.column.name, plan.type) for plan in self.columns])

    def __repr__(self) -> str:
        return f"Plan({self.table.name}, {len(self.columns)} columns)"

    @property
    def warnings(self) -> list[Notice]:
        """What a reader of the table should know."""
        found = ((column.name, warning(column)) for column in self.table.columns)
        return [Notice(self.table.name, name, text) for name, text in found if text is not None]

    def schema(self, *, before: bool) -> pa.Schema:
        """The schema of this plan's batches."""
        fields = [*_HEAD, pa.field("after", self.struct)]
        return pa.schema([*fields, pa.field("before", self.struct), _ABSENT] if before else fields)

    def batch(self, rows: Sequence[BufferedRow], *, before: bool = True) -> tuple[pa.RecordBatch, InvalidValues]:
        """The rows as a batch, and those that hold a value which does not fit its column's type.

        Old rows are read even if they are not wanted, so that what is rejected does not depend on it.
        """
        columns = zip(*rows, strict=True) if rows else [()] * _WIDTH
        positions, subs, ops, times, partitions, key_only, new, old = columns
        commit_ts, reasons = read_column(times, lambda values: pa.array(values, pa.int64()), pa.int64())
        invalid: InvalidValues = {row: f"commit ts: {reason}" for row, reason in reasons.items()}
        arrays = [
            pa.array(ops, pa.int8()),
            commit_ts,
            pa.array(positions, pa.int32()),
            pa.array(subs, pa.int32()),
            pa.array(partitions, pa.int64()),
            pa.array(key_only, pa.bool_()),
            self._struct(new, invalid),
        ]
        old_rows = self._struct(old, invalid)
        if before:
            arrays += [old_rows, pa.array(self.absent(old), _ABSENT.type)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema(before=before)), invalid

    def _struct(self, images: Sequence[Image | None], invalid: InvalidValues) -> pa.Array:
        if not self.columns:
            return pa.array([None if image is None else {} for image in images], self.struct)
        missing = images.count(None)
        if missing == len(images):
            return pa.nulls(missing, self.struct)
        arrays = []
        for plan, values in zip(self.columns, self.wire_values(images), strict=True):
            array, reasons = read_column(values, plan.read, plan.type)
            for row, reason in reasons.items():
                invalid.setdefault(row, f"column {plan.column.name} ({plan.column.mysql_type}): {reason}")
            arrays.append(array)
        mask = pa.array([image is None for image in images]) if missing else None
        return pa.StructArray.from_arrays(arrays, fields=list(self.struct), mask=mask)

    def wire_values(self, images: Sequence[Image | None]) -> Iterable[Sequence[Any]]:
        """The values of each column, for its reader; a scanner with images of its own takes them apart here."""
        for plan in self.columns:
            name = plan.column.name
            get: Callable[[Any], Any] = itemgetter(name)
            try:
                values = list(map(get, images))
            except (TypeError, KeyError):  # an image is not there, or has a gap
                values = [None if image is None else image.get(name) for image in images]
            yield values

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


def joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    """Batches of one schema as one. pyarrow has a function for it from 19 on; managed runtimes have older ones."""
    (whole,) = pa.Table.from_batches(parts).combine_chunks().to_batches() or parts[:1]
    return whole
