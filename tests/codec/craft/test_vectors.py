"""Recorded events make the server's Craft bytes but for its broken FLOATs, and the bytes mean the events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from codec.craft.craft_messages import FILES, FLAG, Arena, corrupted, facts, value_of
from tidewire.codec import Options
from tidewire.codec.craft import Decoder, Encoder
from tidewire.model import MySQLType, RowChange
from vector_files import Vector, vectors


def steps(file: str) -> Iterator[list[Vector]]:
    """The lines one encoder of the server wrote: all messages of a batch, or a single row."""
    batched = ".batch" in file
    for _, lines in groupby(vectors("craft", file), lambda line: line.id.rpartition("/")[0] if batched else line.id):
        yield list(lines)


def column_types(lines: Iterable[Vector]) -> dict[str, MySQLType]:
    rows = (event for line in lines for event in line.plain if event["kind"] == "row")
    return {column["name"]: MySQLType(column["type_code"]) for row in rows for column in row["columns"]}


def test_events_make_the_servers_bytes() -> None:
    lines = untouched = 0
    for file in FILES:
        for step in steps(file):
            events = [event for line in step for event in line.events]

            messages = list(Encoder(step[0].options).encode(events))

            assert len(messages) == len(step), step[0].id
            arena, types = Arena(), column_types(step)
            for message, line in zip(messages, step, strict=True):
                assert corrupted(message, types, arena) == value_of(line.message), line.id
                lines += 1
                untouched += message == line.message
    # In the other 82 messages the server destroyed a FLOAT.
    assert (lines, untouched) == (1494, 1412)


def test_the_servers_bytes_mean_their_events() -> None:
    lines = 0
    for file in FILES:
        for line in vectors("craft", file):
            got = list(Decoder(line.options).decode(line.message))

            want = [facts(event, line.options, floats=False) for event in line.events]
            assert [facts(event, Options(), floats=False) for event in got] == want, line.id
            lines += 1
    assert lines == 1494


def test_our_bytes_mean_their_events_with_every_float() -> None:
    for file in FILES:
        for step in steps(file):
            events = [event for line in step for event in line.events]
            options = step[0].options

            messages = Encoder(options).encode(events)

            got = [facts(event, Options()) for message in messages for event in Decoder().decode(message)]
            assert got == [facts(event, options) for event in events], step[0].id


def test_columns_are_described_by_their_flags() -> None:
    for line in vectors("craft", "types.default.tiflow"):
        for want, got in zip(line.events, Decoder().decode(line.message), strict=True):
            if isinstance(want, RowChange) and isinstance(got, RowChange):
                for column in got.table.columns:
                    told = want.table.column(column.name)
                    assert (column.nullable, column.primary_key) == (told.nullable, told.primary_key), line.id
                    assert column.handle_key == (FLAG.HANDLE_KEY in told.effective_flags), line.id
                    assert column.base_type == told.base_type, line.id
