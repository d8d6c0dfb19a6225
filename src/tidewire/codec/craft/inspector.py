"""One Craft message, byte by byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from tidewire.codec.base import Field, Resources
from tidewire.codec.craft.chunks import (
    read_delta_uvarints,
    read_delta_varints,
    read_lengths,
    read_terms,
    read_uvarints,
)
from tidewire.codec.craft.decoder import CELL_BYTES, Decoder, read_columns, read_value
from tidewire.codec.craft.layout import (
    NO_PARTITION,
    NO_TERM,
    EventType,
    GroupType,
    Layout,
    Section,
    read_headings,
    read_layout,
    read_version,
)
from tidewire.codec.craft.varint import Cursor
from tidewire.codec.options import Options
from tidewire.codec.spans import name_of
from tidewire.errors import DecodeError
from tidewire.model import ColumnFlag, DdlType, Message, MySQLType
from tidewire.model.tso import to_datetime


def inspect(message: Message, options: Options = Options(), resources: Resources = Resources()) -> Iterator[Field]:
    """Every byte of a message in order, with its meaning; a broken one as far as it can be read."""
    if message.key:
        yield Field("key", 0, message.key, "key", "no part of the protocol")
    data = message.value or b""
    refusal = _refusal(Decoder(options, resources), message)
    at = 0
    try:
        for field in _Walk(data).fields():
            end = field.offset + len(field.data)
            if refusal is not None and isinstance(refusal.at, int) and end > refusal.at:
                break
            yield field
            at = end
    except DecodeError:
        # The walk ends where the decoder did, or earlier: without size tables there is no way.
        assert refusal is not None
    if refusal is not None:
        yield Field("value", at, data[at:], "?", refusal.reason)


def _refusal(decoder: Decoder, message: Message) -> DecodeError | None:
    try:
        for _ in decoder.decode(message):
            pass
    except DecodeError as error:
        return error
    return None


_Chunk: TypeAlias = tuple[str, Callable[[Cursor, int], Iterator[int]], Callable[[int], str]]
"""What a chunk holds, how it is read, and what one of its numbers means."""


class _Walk:
    """The way through a message from its first byte to its last, a field at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._done = 0

    def fields(self) -> Iterator[Field]:
        """All fields; raises ``DecodeError`` if the message cannot be read on."""
        version = read_version(self._data).cursor(self._data)
        number = version.uvarint()
        yield self._field(version, "version", str(number))
        layout = read_layout(self._data)
        terms = self._terms(layout)
        yield from self._header(layout, terms)
        yield from self._bodies(layout, terms)
        yield from self._dictionary(layout.dictionary)
        yield from self._tables(layout)

    def _field(self, cursor: Cursor, name: str, meaning: str) -> Field:
        """What was read since the last field."""
        start, self._done = self._done, cursor.at
        return Field("value", start, self._data[start : cursor.at], name, meaning)

    def _each(
        self, cursor: Cursor, names: Iterable[str], numbers: Iterable[int], meaning: Callable[[int], str]
    ) -> Iterator[Field]:
        """One field per number of a chunk."""
        for name, number in zip(names, numbers, strict=True):
            yield self._field(cursor, name, meaning(number))

    def _terms(self, layout: Layout) -> Sequence[str]:
        """The names; none where they cannot be read, which shows when the walk comes to them."""
        try:
            return list(read_terms(layout.dictionary.cursor(self._data)))
        except DecodeError:
            return ()

    def _header(self, layout: Layout, terms: Sequence[str]) -> Iterator[Field]:
        cursor, count = layout.header.cursor(self._data), len(layout.bodies)
        chunks: tuple[_Chunk, ...] = (
            ("commit ts", read_delta_uvarints, lambda ts: f"{ts}, {to_datetime(ts):%Y-%m-%d %H:%M:%S.%f} UTC"),
            ("type", read_uvarints, lambda code: name_of(EventType, code)),
            ("partition", read_delta_varints, lambda id_: "none" if id_ == NO_PARTITION else f"physical id {id_}"),
            ("schema", read_delta_varints, lambda term: _named(terms, term)),
            ("table", read_delta_varints, lambda term: _named(terms, term)),
        )
        for what, read, explain in chunks:
            names = (f"event {number} {what}" for number in range(count))
            yield from self._each(cursor, names, read(cursor, count), explain)

    def _bodies(self, layout: Layout, terms: Sequence[str]) -> Iterator[Field]:
        headings = read_headings(layout.header.cursor(self._data), len(layout.bodies))
        for number, (heading, body) in enumerate(zip(headings, layout.bodies, strict=True)):
            if heading.type == EventType.ROW:
                for group in layout.groups_of(number):
                    yield from self._group(group, f"event {number}", terms)
            elif heading.type == EventType.DDL:
                cursor = body.cursor(self._data)
                code = cursor.uvarint()
                yield self._field(cursor, f"event {number} DDL type", name_of(DdlType, code))
                length = cursor.uvarint()
                yield self._field(cursor, f"event {number} query length", _bytes(length))
                query = cursor.take(length).decode("utf-8", "replace")
                yield from self._unless_empty(cursor, f"event {number} query", query)

    def _unless_empty(self, cursor: Cursor, name: str, meaning: str) -> Iterator[Field]:
        if cursor.at > self._done:
            yield self._field(cursor, name, meaning)

    def _group(self, section: Section, event: str, terms: Sequence[str]) -> Iterator[Field]:
        cursor = section.cursor(self._data)
        kind = cursor.take(1)[0]
        group = f"{event} {name_of(GroupType, kind).lower()}"
        yield self._field(cursor, f"{group} group", f"columns {name_of(GroupType, kind)}")
        if kind not in set(GroupType):
            cursor.take(cursor.left)
            yield from self._unless_empty(cursor, f"{group} columns", "skipped, the group's type is unknown")
            return
        described = cursor.ahead()
        count = cursor.count("columns", CELL_BYTES)
        yield self._field(cursor, f"{group} column count", str(count))
        names = [f"{group}.{_term(terms, term)}" for term in read_delta_varints(cursor.ahead(), count)]
        chunks: tuple[_Chunk, ...] = (
            ("name", read_delta_varints, lambda term: f"term {term}"),
            ("type", read_uvarints, lambda code: name_of(MySQLType, code)),
            ("flags", read_uvarints, _flags),
        )
        for what, read, explain in chunks:
            yield from self._each(cursor, (f"{name} {what}" for name in names), read(cursor, count), explain)
        columns = read_columns(described, terms)
        lengths = []
        for name, length in zip(names, read_lengths(cursor, count), strict=True):
            lengths.append(length)
            yield self._field(cursor, f"{name} length", "NULL" if length is None else _bytes(length))
        for column, name, length in zip(columns, names, lengths, strict=True):
            if length is not None:
                at = cursor.at
                value = read_value(column, cursor.take(length), at)
                yield from self._unless_empty(cursor, f"{name} value", repr(value))

    def _dictionary(self, section: Section) -> Iterator[Field]:
        cursor = section.cursor(self._data)
        if not cursor.left:
            return
        count = cursor.count("terms")
        yield self._field(cursor, "dictionary count", f"{count} terms")
        lengths = []
        for number, length in enumerate(read_uvarints(cursor, count)):
            lengths.append(length)
            yield self._field(cursor, f"term {number} length", _bytes(length))
        for number, length in enumerate(lengths):
            term = cursor.take(length).decode("utf-8", "replace")
            yield from self._unless_empty(cursor, f"term {number}", term)

    def _tables(self, layout: Layout) -> Iterator[Field]:
        cursor = layout.tables.cursor(self._data)
        sections = ["header and dictionary", "events", *(f"groups of event {n}" for n in range(len(layout.groups)))]
        for of in sections:
            count = cursor.count("sizes")
            yield self._field(cursor, f"size table of {of}", f"{count} sizes")
            names = (f"size {number} of {of}" for number in range(count))
            yield from self._each(cursor, names, read_delta_varints(cursor, count), lambda size: _bytes(size))
        end = Cursor(self._data, len(self._data), len(self._data))
        length = layout.tables.end - layout.tables.start
        yield self._field(end, "length of size tables", f"{_bytes(length)}, read from the end")


def _named(terms: Sequence[str], term: int) -> str:
    return "none" if term == NO_TERM else _term(terms, term)


def _term(terms: Sequence[str], term: int) -> str:
    # Shortened, because it is printed with every use; MySQL's names are no longer than that.
    return terms[term][:64] if 0 <= term < len(terms) else f"<term {term}>"


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def _flags(bits: int) -> str:
    return " ".join(str(flag.name) for flag in ColumnFlag(bits & 0xFF)) or "none"
