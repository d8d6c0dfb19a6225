"""What the tests of Open Protocol share: messages read and written in one call, and a small table."""

from __future__ import annotations

from typing import Any

from codec.tables_and_values import build
from tidewire.codec.open_protocol import decode, encode
from tidewire.codec.open_protocol.wire import VERSION, frame
from tidewire.model import Column, Event, Message, Row, RowChange, TableSchema, Value

ROW_KEY = '{"ts":1,"scm":"test","tbl":"t","t":1}'
SMALL = build(Column.of("a", "tinyint", primary_key=True), Column.of("b", "int"))


def message(*events: tuple[str | bytes, str | bytes]) -> Message:
    """Event keys and values in their frame."""
    keys, values = (
        b"".join(frame(part.encode() if isinstance(part, str) else part) for part in side)
        for side in zip(*events, strict=True)
    )
    return Message(VERSION + keys, values)


def put(template: str, *parts: object) -> str:
    """JSON with blanks: braces stay braces."""
    return template % parts


def event_of(value: str | bytes, key: str | bytes = ROW_KEY, **options: Any) -> Event:
    """The one event of a value and a key."""
    (event,) = decode(message((key, value)), **options)
    return event


def row_of(value: str | bytes, key: str | bytes = ROW_KEY, **options: Any) -> RowChange:
    """The one row change of a value and a key."""
    event = event_of(value, key, **options)
    assert isinstance(event, RowChange)
    return event


def value_of(column: str | bytes) -> Value:
    """The value of one column, given its object."""
    column = column.encode() if isinstance(column, str) else column
    return (row_of(b'{"u":{"c":%s}}' % column).after or {})["c"]


def insert(table: TableSchema = SMALL, ts: int = 1, **row: Value) -> RowChange:
    """A new row."""
    return RowChange(table, ts, after=row)


def parts(*events: Event, **options: Any) -> tuple[str, str]:
    """Key and value of the one event in the one message, without their frame."""
    (made,) = encode(events, **options)
    assert made.key is not None
    assert made.value is not None
    return made.key[16:].decode(), made.value[8:].decode()


def image(table: TableSchema, row: Row, **options: Any) -> str:
    """The columns of an insert."""
    return parts(RowChange(table, 1, after=row), **options)[1].removeprefix('{"u":').removesuffix("}")
