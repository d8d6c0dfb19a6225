"""The executors' part of ``tw.decode``: messages in, a row for each event and each message that cannot be read out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow import BatchDecoder, Decoded, Plan
from tidewire.arrow.plan import joined
from tidewire.arrow.row_json import json_images
from tidewire.model import Bootstrap, Ddl, DdlType, Event, TableName, Watermark
from tidewire.model.tso import LOGICAL_BITS
from tidewire.spark.frames.messages import EMPTY, Decoding, empty_messages, unreadable
from tidewire.sync.rules import wanted_by

CHANGE: Final = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "sub": pa.int32(),
        "kind": pa.string(),
        "schema_name": pa.string(),
        "table_name": pa.string(),
        "op": pa.string(),
        "commit_ts": pa.int64(),
        "commit_time": pa.timestamp("us", "UTC"),
        "table_version": pa.int64(),
        "key_only": pa.bool_(),
        "before": pa.string(),
        "after": pa.string(),
        "absent": pa.list_(pa.string()),
        "ddl": pa.struct({"type": pa.string(), "query": pa.string()}),
        "error": pa.struct({"reason": pa.string(), "part": pa.string(), "at": pa.string()}),
        "raw": pa.struct({"key": pa.binary(), "value": pa.binary()}),
    }
)
"""The columns of the result, in Arrow."""

OPS: Final = pa.array(["insert", "update", "delete"])
"""The names of operations, by ``_op``."""

_POS: Final = "_pos"
_PLACED: Final = CHANGE.append(pa.field(_POS, pa.int32()))
_PLACE: Final = ("topic", "partition", "offset")


def run(settings: Mapping[str, Any], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` runs."""
    decoding = Decoding(settings)
    task = _Task(settings, decoding)
    for messages, decoder in decoding.parts(batches):
        yield from task.rows(messages, decoder)


class _Task:
    def __init__(self, settings: Mapping[str, Any], decoding: Decoding) -> None:
        self._decoding = decoding
        self._protocol: str = settings["protocol"]
        self._before: bool = settings["before"]
        self._fails: bool = settings["on_bad"] == "fail"
        self._keeps_bytes: bool = settings["keep_bytes"]
        self._wants = wanted_by(settings["tables"])

    def rows(self, messages: pa.RecordBatch, decoder: BatchDecoder) -> Iterator[pa.RecordBatch]:
        """The rows of some messages, in the order of the messages."""
        decoded = decoder.decode(messages)
        empty = empty_messages(decoded, messages.num_rows)
        if self._fails:
            for first in decoded.rejects:
                advice = "with on_bad='row' the column error says why"
                raise unreadable(self._protocol, messages, first.pos, "cannot be read", first.at, first.part, advice)
            for pos in empty:
                raise unreadable(self._protocol, messages, pos, "is empty", None, None)
        parts = [
            self._changes(plan, rows, messages, decoder)
            for plan, rows in decoded.batches
            if self._wants(plan.table.name)
        ]
        others = [*self._controls(decoded), *self._troubles(decoded, empty, messages)]
        if others:
            parts.append(_few(others, messages))
        if len(parts) > 1:
            together = joined(parts)
            order = pc.sort_indices(together, [(_POS, "ascending"), ("sub", "ascending")])
            parts = [together.take(order)]
        for part in parts:
            if part.num_rows:
                yield part.select(CHANGE.names)

    def _changes(
        self, plan: Plan, rows: pa.RecordBatch, messages: pa.RecordBatch, decoder: BatchDecoder
    ) -> pa.RecordBatch:
        count, positions = rows.num_rows, rows.column(_POS)
        commit_ts = rows.column("_commit_ts")
        absent = rows.column("_absent")
        old, new = json_images(rows, plan, decoder.policy, before=self._before)
        columns: dict[str, pa.Array] = {
            **_places(messages, positions),
            "sub": rows.column("_sub"),
            "kind": pa.repeat("row", count),
            "schema_name": pa.repeat(plan.table.name.schema, count),
            "table_name": pa.repeat(plan.table.name.table, count),
            "op": OPS.take(rows.column("_op")),
            "commit_ts": commit_ts,
            "commit_time": commit_times(commit_ts),
            "table_version": pa.repeat(pa.scalar(plan.table.version, pa.int64()), count),
            "key_only": rows.column("_key_only"),
            "before": old,
            "after": new,
            "absent": _names(absent, plan),
            _POS: positions,
        }
        missing = {field.name: pa.nulls(count, field.type) for field in _PLACED if field.name not in columns}
        return pa.RecordBatch.from_pydict({**columns, **missing}, schema=_PLACED)

    def _controls(self, decoded: Decoded) -> Iterator[dict[str, Any]]:
        for pos, sub, event in decoded.controls:
            row = control(event)
            table = row.get("table_name")
            if not table or self._wants(TableName(row["schema_name"], table)):
                yield {_POS: pos, "sub": sub, **row}

    def _troubles(self, decoded: Decoded, empty: Iterable[int], messages: pa.RecordBatch) -> Iterator[dict[str, Any]]:
        """Rows for messages that are bad, parked or empty. Those of unknown tables are kept whatever the rules."""
        found = [
            *((pos, "parked", missing.reason, None, None) for pos, missing in decoded.parked),
            *((reject.pos, "bad", reject.reason, reject.part, reject.at) for reject in decoded.rejects),
            *((pos, "bad", EMPTY, None, None) for pos in empty),
        ]
        for pos, kind, reason, part, at in found:
            told = self._decoding.peek(messages, pos)
            if told.table is not None and not self._wants(told.table):
                continue
            yield {
                _POS: pos,
                "sub": 0,
                "kind": kind,
                "schema_name": None if told.table is None else told.table.schema,
                "table_name": None if told.table is None else told.table.table,
                "commit_ts": told.commit_ts,
                "error": {"reason": reason, "part": part, "at": None if at is None else str(at)},
                "raw": {name: messages.column(name)[pos].as_py() for name in ("key", "value")}
                if self._keeps_bytes
                else None,
            }


def commit_times(commit_ts: pa.Array) -> pa.Array:
    """The wall clock in TSOs."""
    millis = pc.shift_right(commit_ts, pa.scalar(LOGICAL_BITS, pa.int64()))
    return pc.cast(pc.multiply(millis, pa.scalar(1000, pa.int64())), pa.timestamp("us", "UTC"))


def control(event: Event) -> dict[str, Any]:
    """A DDL, watermark or bootstrap as the columns it fills."""
    match event:
        case Watermark(ts):
            return {"kind": "watermark", "commit_ts": ts}
        case Bootstrap(schema):
            return {
                "kind": "bootstrap",
                "schema_name": schema.name.schema,
                "table_name": schema.name.table,
                "table_version": schema.version,
            }
        case Ddl():
            return {
                "kind": "ddl",
                "schema_name": event.table.schema,
                "table_name": event.table.table or None,
                "commit_ts": event.commit_ts,
                "table_version": None if event.table_schema is None else event.table_schema.version,
                "ddl": {"type": _statement(event), "query": event.query},
            }
        case _:
            raise TypeError(f"{event!r} is a row")


def _statement(event: Ddl) -> str | None:
    """What kind of statement a DDL is: TiDB's name of the action, or the coarser word that some protocols send."""
    if event.type is None:
        return None if event.kind is None else str(event.kind)
    try:
        return DdlType(event.type).name
    except ValueError:  # a newer server's
        return str(event.type)


def _few(rows: list[dict[str, Any]], messages: pa.RecordBatch) -> pa.RecordBatch:
    """Rows that are made one by one, as columns."""
    positions = pa.array([row[_POS] for row in rows], pa.int32())
    columns = {
        field.name: pa.array([row.get(field.name) for row in rows], field.type)
        for field in _PLACED
        if field.name not in _PLACE
    }
    columns |= _places(messages, positions)
    columns["commit_time"] = commit_times(columns["commit_ts"])
    return pa.RecordBatch.from_pydict(columns, schema=_PLACED)


def _places(messages: pa.RecordBatch, positions: pa.Array) -> dict[str, pa.Array]:
    """Where the messages at these positions are in the topic."""
    columns = {name: messages.column(name) for name in _PLACE}
    if np.array_equal(positions, np.arange(messages.num_rows)):  # one row of each message
        return columns
    return {name: values.take(positions) for name, values in columns.items()}


def _names(absent: pa.ListArray, plan: Plan) -> pa.ListArray:
    """The names of the columns that a list of numbers leaves out."""
    if absent.null_count == len(absent):
        return pa.nulls(len(absent), CHANGE.field("absent").type)
    names = pa.array([each.column.name for each in plan.columns], pa.string())
    lengths = pc.fill_null(pc.list_value_length(absent), 0)
    ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cast(pc.cumulative_sum(lengths), pa.int32())])
    return pa.ListArray.from_arrays(ends, names.take(pc.list_flatten(absent)), mask=absent.is_null())
