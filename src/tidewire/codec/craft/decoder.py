"""Craft messages to events."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from tidewire.codec.base import Resources
from tidewire.codec.columns import described_column
from tidewire.codec.craft.chunks import read_delta_varints, read_lengths, read_terms, read_uvarints
from tidewire.codec.craft.layout import (
    NO_PARTITION,
    NO_TERM,
    EventType,
    GroupType,
    Heading,
    Section,
    read_headings,
    read_layout,
)
from tidewire.codec.craft.varint import PROTOCOL, Cursor
from tidewire.codec.options import Options
from tidewire.errors import DecodeError
from tidewire.model import (
    Column,
    ColumnFlag,
    Date,
    DateTime,
    Ddl,
    Event,
    Message,
    MySQLType,
    Row,
    RowChange,
    TableName,
    TableSchema,
    Timestamp,
    Value,
    Watermark,
    grammar,
)
from tidewire.model.types import FLOATS, INTEGERS, STRINGS

CELL_BYTES = 4
"""A column's share of a group: name, type, flags and length take a byte each at least."""


class Decoder:
    """Messages to events. It remembers nothing between messages, so one can be shared."""

    def __init__(self, options: Options = Options(), resources: Resources = Resources()) -> None:
        self.options = options
        self.resources = resources

    def decode(self, message: Message) -> list[Event]:
        """The events in one message: all of them, or ``DecodeError``."""
        return list(self._events(message))

    def _events(self, message: Message) -> Iterator[Event]:
        data = message.value
        if data is None:
            raise DecodeError(PROTOCOL, "no value", part="value")
        layout = read_layout(data)
        terms = list(read_terms(layout.dictionary.cursor(data)))
        header = layout.header.cursor(data)
        headings = read_headings(header, len(layout.bodies))
        for number, (heading, body) in enumerate(zip(headings, layout.bodies, strict=True)):
            name = TableName(*(_name_of(terms, term, layout.header.start) for term in (heading.schema, heading.table)))
            cursor = body.cursor(data)
            match heading.type:
                case EventType.ROW:
                    yield _row(data, heading, name, layout.groups_of(number), terms)
                case EventType.DDL:
                    yield _ddl(cursor, heading, name)
                case EventType.RESOLVED:
                    cursor.finish("watermark")
                    yield Watermark(heading.commit_ts)
                case _:
                    raise DecodeError(PROTOCOL, f"{heading.type} is no event type", layout.header.start, "value")


def _name_of(terms: Sequence[str], term: int, at: int) -> str:
    return "" if term == NO_TERM else _term(terms, term, at)


def _term(terms: Sequence[str], term: int, at: int) -> str:
    if not 0 <= term < len(terms):
        raise DecodeError(PROTOCOL, f"term {term} of a dictionary of {len(terms)}", at, "value")
    return terms[term]


def _ddl(cursor: Cursor, heading: Heading, name: TableName) -> Ddl:
    type_ = cursor.uvarint()
    length = cursor.uvarint()
    start = cursor.at
    try:
        query = cursor.take(length).decode()
    except UnicodeDecodeError:
        raise cursor.refuse("the query is not UTF-8", start) from None
    cursor.finish("DDL")
    return Ddl(name, heading.commit_ts, query, type_)


def _row(data: bytes, heading: Heading, name: TableName, groups: Sequence[Section], terms: Sequence[str]) -> RowChange:
    columns: dict[str, Column] = {}
    images: dict[int, Row] = {}
    for group in groups:
        cursor = group.cursor(data)
        kind = cursor.take(1)[0]
        if kind in _KINDS:
            images[kind] = _image(cursor, terms, columns)
    if not images:
        raise DecodeError(PROTOCOL, "a row with neither new nor old columns", groups[0].start, "value")
    partitioned = heading.partition > NO_PARTITION
    return RowChange(
        TableSchema(name, tuple(columns.values())),
        heading.commit_ts,
        before=images.get(GroupType.OLD),
        after=images.get(GroupType.NEW),
        table_id=heading.partition if partitioned else None,
        partitioned=partitioned,
    )


_KINDS = frozenset(GroupType)


def _image(cursor: Cursor, terms: Sequence[str], columns: dict[str, Column]) -> Row:
    """A row image; its columns join ``columns``."""
    found = read_columns(cursor, terms)
    row: dict[str, Value] = {}
    for column, length in zip(found, list(read_lengths(cursor, len(found))), strict=True):
        start = cursor.at
        raw = None if length is None else cursor.take(length)
        row[column.name] = read_value(column, raw, start)
        columns.setdefault(column.name, column)
    cursor.finish("column group")
    return row


def read_columns(cursor: Cursor, terms: Sequence[str]) -> Sequence[Column]:
    """The columns of a group: how many, their names, types and flags."""
    count = cursor.count("columns", CELL_BYTES)
    at = cursor.at
    names = [_term(terms, term, at) for term in read_delta_varints(cursor, count)]
    if len(set(names)) < count:
        ((twice, _),) = Counter(names).most_common(1)
        raise cursor.refuse(f"column {twice} is there twice", at)
    at = cursor.at
    types = [_type(code, name, at) for code, name in zip(read_uvarints(cursor, count), names, strict=True)]
    at = cursor.at
    flags = [_flags(bits, name, at) for bits, name in zip(read_uvarints(cursor, count), names, strict=True)]
    return [
        described_column(name, type_, bits, handle_key=ColumnFlag.HANDLE_KEY in bits)
        for name, type_, bits in zip(names, types, flags, strict=True)
    ]


def _type(code: int, column: str, at: int) -> MySQLType:
    try:
        return MySQLType(code)
    except ValueError:
        raise DecodeError(PROTOCOL, f"column {column}: {code} is no column type", at, "value") from None


def _flags(bits: int, column: str, at: int) -> ColumnFlag:
    if bits > 0xFF:
        raise DecodeError(PROTOCOL, f"column {column}: {bits:#x} are no column flags", at, "value")
    return ColumnFlag(bits)


def read_value(column: Column, raw: bytes | None, at: int) -> Value:
    """A value from its bytes, which stand at ``at``."""
    if raw is None:
        return None
    try:
        return _READERS[column.type](column, raw)
    except ValueError as error:
        # A DecodeError is one too, of an integer in these bytes.
        reason = error.reason if isinstance(error, DecodeError) else error
        raise DecodeError(PROTOCOL, f"column {column.name} ({column.mysql_type}): {reason}", at, "value") from None


def _unsigned(raw: bytes) -> int:
    cursor = Cursor(raw, 0, len(raw))
    number = cursor.uvarint()
    cursor.finish("integer")
    return number


def _signed(raw: bytes) -> int:
    cursor = Cursor(raw, 0, len(raw))
    number = cursor.varint()
    cursor.finish("integer")
    return number


def _integer(column: Column, raw: bytes) -> int:
    return grammar.integer(column, _unsigned(raw) if column.unsigned else _signed(raw))


def _float(_: Column, raw: bytes) -> float:
    # FLOAT stays what the eight bytes say: the server destroys some, and those need not fit a FLOAT, nor be numbers.
    if len(raw) != 8:
        raise ValueError(f"{len(raw)} bytes, 8 were expected")
    return float(struct.unpack("<d", raw)[0])


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise ValueError("not UTF-8") from None


def _string(column: Column, raw: bytes) -> str | bytes:
    if column.is_binary:
        return raw
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _of_text(column: Column, raw: bytes) -> Value:
    return grammar.read_text(column, _text(raw))


_READERS: Mapping[MySQLType, Callable[[Column, bytes], Value]] = {
    **dict.fromkeys(MySQLType, _of_text),
    **dict.fromkeys(INTEGERS, _integer),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys(STRINGS, _string),
    # Signed, although TiDB flags every YEAR column as unsigned.
    MySQLType.YEAR: lambda column, raw: grammar.integer(column, _signed(raw)),
    MySQLType.BIT: lambda _, raw: _unsigned(raw),
    MySQLType.ENUM: lambda column, raw: grammar.enum_value(column, _unsigned(raw)),
    MySQLType.SET: lambda column, raw: grammar.set_value(column, _unsigned(raw)),
    # The document has dates with slashes; what does not fit a table is refused there.
    **dict.fromkeys((MySQLType.DATE, MySQLType.NEWDATE), lambda _, raw: Date(_text(raw))),
    MySQLType.DATETIME: lambda _, raw: DateTime(_text(raw)),
    MySQLType.TIMESTAMP: lambda _, raw: Timestamp(_text(raw)),
    # Types without values: NULL, whatever the bytes.
    **dict.fromkeys((MySQLType.UNSPECIFIED, MySQLType.NULL, MySQLType.GEOMETRY), lambda _, raw: None),
}
