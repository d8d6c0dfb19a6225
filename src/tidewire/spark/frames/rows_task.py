"""The executors' part of ``tw.rows``: messages in, typed rows of one table out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow import BatchDecoder, OpCode, Plan, Policy, arrow_type
from tidewire.arrow.cast import cast
from tidewire.arrow.plan import joined
from tidewire.model import Column, TableName
from tidewire.spark.frames.decode_task import OPS
from tidewire.spark.frames.messages import Decoding, empty_messages, table_name, unreadable
from tidewire.spark.frames.types import column_of

_KEY_ONLY: Final = "was too large, so that only its key was sent and the other columns are unknown"
_PARKED: Final = "needs a schema that has not come yet; give schemas=tw.learn(df, 'simple')"
_BAD: Final = "tw.decode gives the reason in its column error"


def run(settings: Mapping[str, Any], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` runs."""
    decoding = Decoding(settings)
    task = _Task(settings, decoding)
    for messages, decoder in decoding.parts(batches):
        found = task.rows(messages, decoder)
        if found is not None and found.num_rows:
            yield found


class _Task:
    def __init__(self, settings: Mapping[str, Any], decoding: Decoding) -> None:
        self._decoding = decoding
        self._protocol: str = settings["protocol"]
        self._table = table_name(settings["table"]).folded
        self._columns = [column_of(name, type_) for name, type_ in settings["columns"]]
        self._splits: bool = settings["split_key_updates"]
        self._fails: bool = settings["on_bad"] == "fail"
        image = [pa.field(column.name, arrow_type(column)) for column in self._columns]
        self._image = pa.struct(image)
        self._schema = pa.schema(
            [
                *image,
                pa.field("_op", pa.string()),
                pa.field("_commit_ts", pa.int64()),
                pa.field("_topic", pa.string()),
                pa.field("_partition", pa.int32()),
                pa.field("_offset", pa.int64()),
                pa.field("_sub", pa.int32()),
                pa.field("_before", self._image),
                pa.field("_absent", pa.list_(pa.string())),
            ]
        )

    def rows(self, messages: pa.RecordBatch, decoder: BatchDecoder) -> pa.RecordBatch | None:
        """The rows of the table among some messages, in order."""
        decoded = decoder.decode(messages)
        if self._fails:
            for reject in decoded.rejects:
                self._refuse(messages, reject.pos, "cannot be read", reject.at, reject.part, _BAD)
            for pos, _ in decoded.parked:
                self._refuse(messages, pos, _PARKED)
            for pos in empty_messages(decoded, messages.num_rows):
                self._refuse(messages, pos, "is empty, and may be a delete that does not say of which row")
        parts = [
            part
            for plan, rows in decoded.batches
            if plan.table.name.folded == self._table
            for part in self._typed(plan, rows, messages, decoder.policy)
        ]
        if not parts:
            return None
        together = joined(parts)
        order = pc.sort_indices(together, [(name, "ascending") for name in _ORDER])
        return together.take(order).select(self._schema.names)

    def _refuse(
        self,
        messages: pa.RecordBatch,
        pos: int,
        what: str,
        at: int | str | None = None,
        part: str | None = None,
        advice: str = "",
    ) -> None:
        """Fail at a message, unless it is known to be another table's."""
        told: TableName | None = self._decoding.peek(messages, pos).table
        if told is None or told.folded == self._table:
            raise unreadable(self._protocol, messages, pos, what, at, part, advice)

    def _typed(
        self, plan: Plan, rows: pa.RecordBatch, messages: pa.RecordBatch, policy: Policy
    ) -> Iterator[pa.RecordBatch]:
        images = _Images(plan, rows, policy)
        new: list[pa.Array] = []
        old: list[pa.Array] = []
        bad = images.key_only
        for column in self._columns:
            for values, goal in zip(images.values(column), (new, old), strict=True):
                found, invalid = images.cast(values, column)
                goal.append(found)
                bad = bad if invalid is None else pc.or_(bad, invalid)
        if pc.any(bad, min_count=0).as_py():
            self._refuse_bad_row(rows, messages, bad, images.key_only)
        after = pa.StructArray.from_arrays(new, fields=list(self._image), mask=rows.column("after").is_null())
        before = pa.StructArray.from_arrays(old, fields=list(self._image), mask=rows.column("before").is_null())
        placed = rows.select(["_pos", "_sub", "_op", "_commit_ts"])
        added = {"after": after, "before": before, "_absent": images.absent(self._columns)}
        found = _with_columns(placed, added).filter(pc.invert(bad))
        changed = images.key_changed.filter(pc.invert(bad)) if self._splits else None
        if changed is None or not pc.any(changed, min_count=0).as_py():
            yield self._out(found, messages, 0)
            return
        moved = found.filter(changed)
        yield self._out(found.filter(pc.invert(changed)), messages, 0)
        yield self._out(_with_op(moved, OpCode.DELETE, "after"), messages, 0)
        yield self._out(_with_op(moved, OpCode.INSERT, "before"), messages, 1)

    def _refuse_bad_row(
        self, rows: pa.RecordBatch, messages: pa.RecordBatch, bad: pa.BooleanArray, key_only: pa.BooleanArray
    ) -> None:
        if self._fails:
            first = pc.index(bad, True).as_py()
            what = _KEY_ONLY if key_only[first].as_py() else "has a value that does not fit its column in schema"
            raise unreadable(self._protocol, messages, rows.column("_pos")[first].as_py(), what, None, "value")

    def _out(self, rows: pa.RecordBatch, messages: pa.RecordBatch, second: int) -> pa.RecordBatch:
        """Rows in the columns that come out, and those that say their order."""
        positions, after, before = rows.column("_pos"), rows.column("after"), rows.column("before")
        deleted = after.is_null()
        shown = [pc.if_else(deleted, old, new) for old, new in zip(before.flatten(), after.flatten(), strict=True)]
        arrays = [
            *shown,
            OPS.take(rows.column("_op")),
            rows.column("_commit_ts"),
            *(messages.column(name).take(positions) for name in ("topic", "partition", "offset")),
            rows.column("_sub"),
            before,
            rows.column("_absent"),
            positions,
            pa.repeat(pa.scalar(second, pa.int8()), rows.num_rows),
        ]
        extra = [pa.field("_pos", pa.int32()), pa.field("_second", pa.int8())]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([*self._schema, *extra]))


_ORDER: Final = ("_pos", "_sub", "_second")


class _Images:
    """New and old rows of one shape."""

    def __init__(self, plan: Plan, rows: pa.RecordBatch, policy: Policy) -> None:
        self._policy = policy
        self._table = plan.table
        self._numbers = {each.column.name.lower(): number for number, each in enumerate(plan.columns)}
        self._wire = [each.column for each in plan.columns]
        self._count = rows.num_rows
        self._op = rows.column("_op")
        self._new, self._old = rows.column("after").flatten(), rows.column("before").flatten()
        self._updated = pc.equal(self._op, pa.scalar(int(OpCode.UPDATE), pa.int8()))
        self._deleted = pc.equal(self._op, pa.scalar(int(OpCode.DELETE), pa.int8()))
        self._absent = rows.column("_absent")
        self.key_only = pc.and_(rows.column("_key_only"), pc.invert(self._deleted))

    def values(self, column: Column) -> tuple[pa.Array | None, pa.Array | None]:
        """The new and the old values of a column; None if the table does not have it."""
        number = self._numbers.get(column.name.lower())
        return (None, None) if number is None else (self._new[number], self._filled(number))

    def _filled(self, number: int) -> pa.Array:
        """Old values; those that an update leaves out did not change."""
        gone = self._left_out(number)
        if gone is None:
            return self._old[number]
        return pc.if_else(pc.and_(gone, self._updated), self._new[number], self._old[number])

    def _left_out(self, number: int) -> pa.BooleanArray | None:
        """The rows whose old image leaves a column out."""
        if self._absent.null_count == self._count:
            return None
        rows = pc.list_parent_indices(self._absent)
        those = rows.filter(pc.equal(pc.list_flatten(self._absent), number))
        return pc.is_in(pa.array(range(self._count), rows.type), value_set=those)

    def cast(self, values: pa.Array | None, column: Column) -> tuple[pa.Array, pa.BooleanArray | None]:
        """Values in the type of a wanted column, and which of them do not fit."""
        if values is None:
            return pa.nulls(self._count, arrow_type(column)), None
        found, bad = cast(values, self._wire[self._numbers[column.name.lower()]], column, self._policy)
        return found, bad

    @property
    def key_changed(self) -> pa.BooleanArray:
        """The updates whose new row has another key than the old one, byte for byte."""
        changed = pa.repeat(False, self._count)
        for name in self._table.handle_key:
            number = self._numbers[name.lower()]
            same = pc.fill_null(pc.equal(self._new[number], self._filled(number)), True)
            changed = pc.or_(changed, pc.invert(same))
        return pc.and_(changed, self._updated)

    def absent(self, columns: Sequence[Column]) -> pa.ListArray:
        """The wanted columns that a message does not tell: not in its table, or left out of a deleted row."""
        type_ = pa.list_(pa.string())
        unknown = [column.name for column in columns if column.name.lower() not in self._numbers]
        partial = pc.and_(self._absent.is_valid(), self._deleted)
        if not pc.any(partial, min_count=0).as_py():
            return pa.array([unknown] * self._count, type_) if unknown else pa.nulls(self._count, type_)
        wanted = {self._numbers[each.name.lower()]: each.name for each in columns if each.name not in unknown}
        listed = [
            [*unknown, *(wanted[number] for number in numbers if number in wanted)] if is_partial else unknown
            for numbers, is_partial in zip(self._absent.to_pylist(), partial.to_pylist(), strict=True)
        ]
        return pa.array([names or None for names in listed], type_)


def _with_op(rows: pa.RecordBatch, op: OpCode, without: str) -> pa.RecordBatch:
    """Rows as another operation, without one of their images."""
    ops = pa.repeat(pa.scalar(int(op), pa.int8()), rows.num_rows)
    return _with_columns(rows, {"_op": ops, without: pa.nulls(rows.num_rows, rows.schema.field(without).type)})


def _with_columns(rows: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """Rows with columns added or replaced. ``RecordBatch`` of pyarrow 15 cannot do it."""
    found = {**dict(zip(rows.schema.names, rows.columns, strict=True)), **columns}
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))
