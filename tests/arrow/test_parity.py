"""Batches hold the same rows as the readable codec's events, whichever way they were read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from itertools import cycle
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

import topic_files
from tidewire.arrow import BatchDecoder, Decoded, OpCode, Policy
from tidewire.codec import PROTOCOLS, Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore
from tidewire.errors import DecodeError
from tidewire.model import Column, EnumValue, Event, Message, MySQLType, RowChange, SetValue, Temporal, Time, Timestamp
from tidewire.model.values import float32
from tidewire.plain import message_from_plain
from tidewire.registry import MemoryRegistry
from vector_files import FOLDERS, Vector, files, vectors

CASES = [(name, folder, file) for name in PROTOCOLS for folder in FOLDERS.get(name, (name,)) for file in files(folder)]


def batch(messages: Iterable[Message]) -> pa.RecordBatch:
    kept = list(messages)
    return pa.record_batch(
        {
            "key": pa.array([message.key for message in kept], pa.binary()),
            "value": pa.array([message.value for message in kept], pa.binary()),
        }
    )


def rows(decoded: Decoded) -> dict[tuple[int, int], tuple[Any, ...]]:
    """Each row by its place: table, op, commit ts, partition, images without the columns that are absent."""
    found = {}
    for plan, record_batch in decoded.batches:
        names = [column.column.name for column in plan.columns]
        for row in record_batch.to_pylist():
            absent = {names[number] for number in row.get("_absent") or ()}
            before = row["before"]
            if before is not None:
                before = {name: value for name, value in before.items() if name not in absent}
            head = (plan.table.name, row["_op"], row["_commit_ts"], row["_partition"], row["_key_only"])
            place = (row["_pos"], row["_sub"])
            assert place not in found
            found[place] = (*head, row["after"], before)
    return found


def typed(value: Any, column: Column, zone: str) -> Any:
    """A model value as the batch should have it, worked out without Arrow."""
    match value:
        case None:
            return None
        case Time():
            return value.to_timedelta() // timedelta(microseconds=1)
        case Temporal() if not possible(value):
            return None
        case Timestamp():
            moment = value.to_datetime()
            assert moment is not None
            return moment.replace(tzinfo=ZoneInfo(zone)).astimezone(timezone.utc)
        case Temporal():
            return date.fromisoformat(value.text) if len(value.text) == 10 else datetime.fromisoformat(value.text)
        case EnumValue(index, _) | SetValue(index, _):
            text = None
            if column.elements:
                text = value.text
            number = Decimal(index) if column.type is MySQLType.SET else index
            return number if text is None else text
        case float() if column.type is MySQLType.FLOAT:
            return float32(value) if abs(value) < 2.0**128 else None
        case Decimal():
            return value if column.length is not None and column.length <= 38 else format(value, "f")
        case int() if column.type is MySQLType.BIGINT and column.unsigned:
            return Decimal(value)
        case int() if column.type is MySQLType.BIT and (column.length is None or column.length == 64):
            return Decimal(value)
        case str() if column.type is MySQLType.VECTOR:
            return pa.array([[float(x) for x in value[1:-1].split(",") if x]], pa.list_(pa.float32())).to_pylist()[0]
    return value


def possible(value: Temporal) -> bool:
    try:
        date.fromisoformat(value.text[:10])
    except ValueError:
        return False
    return True


def expected(events: Iterable[tuple[int, int, Event]], zone: str) -> dict[tuple[int, int], tuple[Any, ...]]:
    found = {}
    for pos, sub, event in events:
        if not isinstance(event, RowChange):
            continue
        columns = {column.name: column for column in event.table.columns}
        images = [
            None if row is None else {name: typed(value, columns[name], zone) for name, value in row.items()}
            for row in (event.after, event.before)
        ]
        if images[0] is not None:  # a struct has every field; what is absent there is null
            images[0] = dict.fromkeys(columns) | images[0]
        op = {"insert": OpCode.INSERT, "update": OpCode.UPDATE, "delete": OpCode.DELETE}[event.op]
        head = (event.table.name, op, event.commit_ts, event.partition_id, event.handle_key_only)
        found[pos, sub] = (*head, *images)
    return found


def read(
    name: str, options: Options, resources: Resources, messages: list[Message]
) -> Iterator[tuple[int, int, Event]]:
    decoder = protocol(name).Decoder(options, resources)
    for pos, message in enumerate(messages):
        try:
            events = list(decoder.decode(message))
        except DecodeError:
            continue
        for sub, event in enumerate(events):
            yield pos, sub, event


def gathered(lines: tuple[Vector, ...]) -> Resources:
    """The claim checks and schemas of all lines."""
    registry = MemoryRegistry()
    store: dict[str, bytes] = {}
    for vector in lines:
        store |= vector.claim_checks.blobs
        for number, schema in vector.registry.schemas().items():
            registry.put(number, schema)
    return Resources(claim_check=MemoryStore(store), registry=registry)


def decoded_in(
    cuts: Iterable[tuple[int, int]], decoder: BatchDecoder, messages: list[Message]
) -> tuple[dict[tuple[int, int], tuple[Any, ...]], set[int]]:
    """The rows of batches with these borders, by their place in the whole, and the places of rejected messages."""
    found: dict[tuple[int, int], tuple[Any, ...]] = {}
    rejected: set[int] = set()
    for start, size in cuts:
        decoded = decoder.decode(batch(messages[start : start + size]))
        found |= {(start + pos, sub): row for (pos, sub), row in rows(decoded).items()}
        rejected |= {start + reject.pos for reject in decoded.rejects}
    return found, rejected


def borders(count: int) -> Iterator[tuple[int, int]]:
    """Batches of growing and shrinking size."""
    start = 0
    for size in cycle((1, 2, 7, 50, 333, 1000)):
        if start >= count:
            return
        yield start, size
        start += size


CUTS: dict[str, Callable[[int], Iterable[tuple[int, int]]]] = {
    "in batches of many sizes": borders,
    "in one batch": lambda count: [(0, count)],
}


@pytest.mark.parametrize(("name", "folder", "file"), CASES)
def test_vectors_give_the_codecs_rows(name: str, folder: str, file: str) -> None:
    lines = vectors(folder, file)
    options, resources = lines[0].options, gathered(lines)
    messages = [vector.message for vector in lines]
    want = expected(read(name, options, resources, messages), options.time_zone)

    for cut in CUTS.values():
        got, misfits = decoded_in(cut(len(messages)), BatchDecoder(name, options, resources), messages)

        assert got.keys() == {place for place in want if place[0] not in misfits}
        for place, row in got.items():
            assert row == want[place], lines[place[0]].id


TOPICS = [
    (path.parent.name, path.name.removesuffix(".jsonl.xz")) for path in sorted(topic_files.TOPICS.glob("*/*.jsonl.xz"))
]


def test_every_topic_is_there() -> None:
    assert len(TOPICS) == 44


@pytest.mark.parametrize(("topic", "file"), TOPICS)
def test_topics_give_the_codecs_rows_wherever_batches_end(topic: str, file: str) -> None:
    base = file.removesuffix(".faults")
    name = topic_files.PROTOCOLS.get(base, base)
    options, resources = topic_files.options(topic, file), Resources(registry=topic_files.registry(topic))
    messages = [message_from_plain(line) for line in topic_files.lines(topic, file)]
    want = expected(read(name, options, resources, messages), options.time_zone)
    # The server corrupts Craft's FLOATs.
    policy = Policy(options.time_zone, lost_floats=base == "craft")
    decoder = BatchDecoder(name, options, resources, policy=policy)

    for cut in CUTS.values():
        got, misfits = decoded_in(cut(len(messages)), decoder, messages)

        assert misfits == set()
        assert got == want
