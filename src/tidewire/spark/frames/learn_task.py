"""The executors' part of ``tw.learn`` and ``tw.infer``: schemas and columns from messages, as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow import Plan, engines
from tidewire.codec.avro.wire import HEADER, Kind
from tidewire.model import Bootstrap, Ddl, Event, TableSchema
from tidewire.plain import event_to_plain
from tidewire.spark.frames.messages import Decoding, unreadable
from tidewire.sync.rules import wanted_by

FOUND: Final = pa.schema({"found": pa.string()})
"""The one column that comes out."""

_SCHEMA_MEMBER: Final = "ableSchema"
"""A part of ``tableSchema`` and ``preTableSchema``: messages of Simple that bring a schema have it, rows do not."""


def run(settings: Mapping[str, Any], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What ``mapInArrow`` runs. A line that was given out is not given out again by the same task."""
    known: set[str] = set()
    for lines in _FINDERS[settings["find"]](settings, batches):
        fresh = [line for line in dict.fromkeys(lines) if line not in known]
        known.update(fresh)
        if fresh:
            yield pa.RecordBatch.from_pydict({"found": pa.array(fresh, pa.string())}, schema=FOUND)


def _schemas(settings: Mapping[str, Any], batches: Iterable[pa.RecordBatch]) -> Iterator[list[str]]:
    """The schemas that Simple's messages bring."""
    decoding = Decoding(settings)
    for messages, decoder in decoding.parts(batches):
        wanted = messages if decoding.is_packed else _with_schemas(messages)
        events = (event for _, _, event in decoder.decode(wanted).controls)
        yield [_line(event_to_plain(Bootstrap(schema))["table_schema"]) for schema in _schemas_of(events)]


def _with_schemas(messages: pa.RecordBatch) -> pa.RecordBatch:
    """Those messages that may bring a schema: rows, most of all messages, need not be decoded."""
    return messages.filter(pc.fill_null(pc.match_substring(messages.column("value"), _SCHEMA_MEMBER), False))


def _schemas_of(events: Iterable[Event]) -> Iterator[TableSchema]:
    for event in events:
        match event:
            case Bootstrap(schema):
                yield schema
            case Ddl():
                yield from (each for each in (event.pre_table_schema, event.table_schema) if each is not None)


def _ids(settings: Mapping[str, Any], batches: Iterable[pa.RecordBatch]) -> Iterator[list[str]]:
    """The ids of the Avro schemas that messages are written with."""
    for batch in batches:
        for part in ("key", "value"):
            heads = pc.unique(pc.binary_slice(batch.column(part).cast(pa.binary()), 0, HEADER.size)).to_pylist()
            whole = [HEADER.unpack(head) for head in heads if head is not None and len(head) == HEADER.size]
            yield [str(number) for kind, number in whole if kind == Kind.RECORD]


def _shapes(settings: Mapping[str, Any], batches: Iterable[pa.RecordBatch]) -> Iterator[list[str]]:
    """The columns of the tables that have rows, and the newest commit ts or offset of each shape."""
    decoding, wants = Decoding(settings), wanted_by(settings["tables"])
    for messages, decoder in decoding.parts(batches):
        decoded = decoder.decode(messages)
        for reject in decoded.rejects if settings["on_bad"] == "fail" else ():
            raise unreadable(settings["protocol"], messages, reject.pos, "cannot be read", reject.at, reject.part)
        yield [
            _line([*plan.table.name, _newest(rows, messages), columns_of(plan)])
            for plan, rows in decoded.batches
            if wants(plan.table.name)
        ]


def columns_of(plan: Plan) -> list[tuple[str, str]]:
    """The columns of a plan with their types in Spark."""
    return [(each.column.name, engines(each.type).spark) for each in plan.columns]


def _newest(rows: pa.RecordBatch, messages: pa.RecordBatch) -> int:
    ts = pc.max(rows.column("_commit_ts")).as_py()
    return int(pc.max(messages.column("offset").take(rows.column("_pos"))).as_py() if ts is None else ts)


def _line(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


_FINDERS: Mapping[str, Callable[[Mapping[str, Any], Iterable[pa.RecordBatch]], Iterator[list[str]]]] = {
    "schemas": _schemas,
    "ids": _ids,
    "shapes": _shapes,
}
