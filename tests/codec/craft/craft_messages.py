"""What the tests of Craft share: messages put together by hand, what a message says, and the server's broken FLOATs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tidewire.codec import Field, Options
from tidewire.codec.craft import chunks, decode, inspect
from tidewire.codec.craft.varint import reversed_uvarint, uvarint
from tidewire.errors import DecodeError
from tidewire.model import (
    Column,
    ColumnFlag,
    Ddl,
    Event,
    Message,
    MySQLType,
    Op,
    RowChange,
    TableName,
    TableSchema,
    Watermark,
)
from vector_files import files

FILES = files("craft")
FLAG = ColumnFlag
T1 = TableSchema(
    TableName("test", "t1"),
    (
        Column("id", MySQLType.INT, flags=FLAG(0x0B), handle_key=True, primary_key=True, nullable=False),
        Column("val", MySQLType.VARCHAR, flags=FLAG(0x40), nullable=True),
    ),
)


def value_of(message: Message) -> bytes:
    """The bytes of a message, which has no key."""
    assert message.key is None
    assert message.value is not None
    return message.value


def decoded(data: bytes) -> list[Event]:
    """The events of a message."""
    return list(decode(Message(None, data)))


def refusal(data: bytes | None) -> DecodeError:
    """What the decoder says of a message it refuses."""
    with pytest.raises(DecodeError) as found:
        list(decode(Message(None, data)))
    assert found.value.protocol == "craft"
    return found.value


class Arena:
    """The 64 bytes a server's encoder puts its numbers into. A FLOAT reserves four and writes eight.

    So FLOATs are overwritten: ``docs/protocols/craft.md``.
    """

    RESERVED = {MySQLType.FLOAT: 4, MySQLType.DOUBLE: 8} | dict.fromkeys(
        (
            *(MySQLType.TINYINT, MySQLType.SMALLINT, MySQLType.MEDIUMINT, MySQLType.INT, MySQLType.BIGINT),
            *(MySQLType.YEAR, MySQLType.BIT, MySQLType.ENUM, MySQLType.SET),
        ),
        10,
    )

    def __init__(self) -> None:
        self.room = bytearray(64)
        self.at = 0

    def place(self, type_: MySQLType, data: bytes) -> memoryview:
        """Where the value is now; what is there may change."""
        reserved = self.RESERVED[type_]
        if 64 - self.at < reserved:
            self.room, self.at = bytearray(64), 0
        start = self.at
        self.at += reserved
        if 64 - start < len(data):
            return memoryview(data)
        self.room[start : start + len(data)] = data
        return memoryview(self.room)[start : start + len(data)]


def corrupted(message: Message, types: dict[str, MySQLType], arena: Arena) -> bytes:
    """Our message as the server would have sent it."""
    data = bytearray(value_of(message))
    placed = []
    for field in inspect(message):
        if field.name.endswith(" value"):
            column = field.name.removesuffix(" value").partition(".")[2]
            if types[column] in Arena.RESERVED:
                placed.append((field.offset, arena.place(types[column], field.data)))
    for offset, now in placed:
        data[offset : offset + len(now)] = now
    return bytes(data)


def on_the_wire(event: Event, options: Options) -> Event:
    """What a message says of an event: no virtual column, and of a delete perhaps the key only."""
    if not isinstance(event, RowChange):
        return event
    key_only = event.op is Op.DELETE and options.delete_only_output_handle_key_columns
    sent = {
        column.name
        for column in event.table.columns
        if column.generated != "virtual" and (not key_only or FLAG.HANDLE_KEY in column.effective_flags)
    }
    rows = [
        None if row is None else {name: value for name, value in row.items() if name in sent}
        for row in (event.before, event.after)
    ]
    return replace(event, before=rows[0], after=rows[1])


def facts(event: Event, options: Options, *, floats: bool = True) -> Any:
    """What a message says of an event, in a form that compares."""
    match on_the_wire(event, options):
        case RowChange() as row:
            images = [
                None
                if image is None
                else {
                    column.name: (column.type, column.effective_flags, column.unsigned, image[column.name])
                    for column in row.table.columns
                    if column.name in image and (floats or column.type is not MySQLType.FLOAT)
                }
                for image in (row.before, row.after)
            ]
            return (row.op, row.table.name, row.commit_ts, row.partition_id, images)
        case Ddl() as ddl:
            return (ddl.table, ddl.commit_ts, ddl.query, ddl.type)
        case Watermark(ts):
            return ts
    raise AssertionError(event)


def images(data: bytes) -> list[tuple[Any, Any]]:
    """The old and the new row of each change in a message."""
    return [(event.before, event.after) for event in decoded(data) if isinstance(event, RowChange)]


def one_column(type_: MySQLType, flags: int, value: Any) -> RowChange:
    """An insert into a table of one column."""
    return RowChange(TableSchema(TableName("s", "t"), (Column("c", type_, flags=FLAG(flags)),)), 1, after={"c": value})


def row(n: int = 0, **changes: Any) -> RowChange:
    """An insert into ``test.t``, committed a little later for each number."""
    column = Column("a", MySQLType.VARCHAR, flags=FLAG(0x0A), handle_key=True, primary_key=True, nullable=False)
    event = RowChange(TableSchema(TableName("test", "t"), (column,)), 424316552636792833 + n, after={"a": "aa"})
    return replace(event, **changes)


def counts(messages: Iterable[Message]) -> list[int]:
    """How many events each message has."""
    return [len(list(decode(message))) for message in messages]


class Group:
    """A column group put together by hand, right unless told otherwise."""

    def __init__(
        self,
        kind: int = 1,
        names: Sequence[int] = (2,),
        types: Sequence[int] = (3,),
        flags: Sequence[int] = (0,),
        values: Sequence[bytes | None] = (b"\2",),
        count: int | None = None,
        tail: bytes = b"",
    ) -> None:
        self.data = b"".join(
            (
                bytes([kind]),
                uvarint(len(names) if count is None else count),
                chunks.delta_varints(names),
                chunks.uvarints(types),
                chunks.uvarints(flags),
                chunks.nullable_strings(values),
                tail,
            )
        )


def message_of(
    *groups: Group | bytes,
    version: bytes = b"\1",
    header: bytes | None = None,
    kind: int = 1,
    terms: bytes = b"\3\1\1\1stc",
    sizes: Sequence[Sequence[int]] | None = None,
    tables: bytes | None = None,
    end: bytes | None = None,
) -> bytes:
    """A message of one event put together by hand, right unless told otherwise."""
    parts = [group.data if isinstance(group, Group) else group for group in groups]
    if header is None:
        header = b"\1" + uvarint(kind) + b"\1\0\2"
    if sizes is None:
        sizes = [[len(header), len(terms)], [sum(map(len, parts))], *([list(map(len, parts))] if kind == 1 else [])]
    if tables is None:
        tables = b"".join(map(chunks.size_table, sizes))
    return b"".join((version, header, *parts, terms, tables, reversed_uvarint(len(tables)) if end is None else end))


def covered(fields: Iterable[Field]) -> bytes:
    """The bytes of all fields, which follow one another without a gap."""
    data = b""
    for field in fields:
        assert field.part == "value"
        assert field.offset == len(data)
        data += field.data
    return data
