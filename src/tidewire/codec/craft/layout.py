"""The frame of a Craft message: which bytes are header, bodies, term dictionary and size tables, found from the end."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from tidewire.codec.craft.chunks import read_delta_uvarints, read_delta_varints, read_sizes, read_uvarints
from tidewire.codec.craft.varint import PROTOCOL, Cursor, trailing_uvarint
from tidewire.errors import DecodeError

VERSION: Final = 1
NO_PARTITION: Final = -1
NO_TERM: Final = -1


class EventType(IntEnum):
    """What kind of event."""

    ROW = 1
    DDL = 2
    RESOLVED = 3


class GroupType(IntEnum):
    """Which image of the row a group of columns is. A lone old one means DELETE."""

    NEW = 1
    OLD = 2


class Heading(NamedTuple):
    """One event's part of the header. ``schema`` and ``table`` are numbers of terms."""

    commit_ts: int
    type: int
    partition: int
    schema: int
    table: int


class Section(NamedTuple):
    """Some bytes of a message."""

    start: int
    end: int

    def cursor(self, data: bytes) -> Cursor:
        """A cursor that stays inside."""
        return Cursor(data, self.start, self.end)


class Layout(NamedTuple):
    """Where everything is. ``groups[i]`` are the sections of the i-th event's column groups."""

    version: Section
    header: Section
    bodies: tuple[Section, ...]
    groups: tuple[tuple[Section, ...], ...]
    dictionary: Section
    tables: Section

    def groups_of(self, number: int) -> Sequence[Section]:
        """The column groups of a row."""
        if number >= len(self.groups):
            at = self.bodies[number].start
            raise DecodeError(PROTOCOL, f"no size table for the column groups of event {number}", at, "value")
        return self.groups[number]


def read_version(data: bytes) -> Section:
    """The version; like the reference this accepts every one but 0."""
    cursor = Cursor(data, 0, len(data))
    if cursor.uvarint() == 0:
        raise cursor.refuse("version 0", 0)
    return Section(0, cursor.at)


def read_layout(data: bytes) -> Layout:
    """Find the sections of a message; they must fill it without gap or overlap."""
    version = read_version(data)
    length, end = trailing_uvarint(data, version.end)
    if length > end - version.end:
        raise DecodeError(PROTOCOL, f"{length} bytes of size tables in a message of {len(data)}", end, "value")
    tables = Section(end - length, end)
    cursor = tables.cursor(data)
    meta = list(read_sizes(cursor, "header and dictionary"))
    if len(meta) != 2:
        raise cursor.refuse(f"{len(meta)} sizes of header and dictionary, 2 were expected", tables.start)
    header_size, dictionary_size = meta
    sizes = list(read_sizes(cursor, "events"))
    needed = header_size + sum(sizes) + dictionary_size
    if needed != tables.start - version.end:
        raise cursor.refuse(
            f"sizes of {needed} bytes together, but the sections have {tables.start - version.end}", tables.start
        )
    header = Section(version.end, version.end + header_size)
    bodies = _split(header.end, sizes)
    groups: list[tuple[Section, ...]] = []
    while cursor.left:
        at = cursor.at
        if len(groups) == len(bodies):
            raise cursor.refuse("more size tables than events", at)
        body = bodies[len(groups)]
        group_sizes = list(read_sizes(cursor, f"column groups of event {len(groups)}"))
        if sum(group_sizes) != body.end - body.start:
            raise cursor.refuse(f"column groups of {sum(group_sizes)} bytes in an event of {body.end - body.start}", at)
        groups.append(_split(body.start, group_sizes))
    dictionary = Section(tables.start - dictionary_size, tables.start)
    return Layout(version, header, bodies, tuple(groups), dictionary, tables)


def _split(start: int, sizes: Sequence[int]) -> tuple[Section, ...]:
    """Sections of these sizes, one after the other."""
    return tuple(Section(*bounds) for bounds in pairwise(accumulate(sizes, initial=start)))


def read_headings(cursor: Cursor, count: int) -> list[Heading]:
    """The header's five columns, turned into rows."""
    if count * len(Heading._fields) > cursor.left:
        raise cursor.refuse(f"a header of {cursor.left} bytes for {count} events")
    columns = (
        list(read_delta_uvarints(cursor, count)),
        list(read_uvarints(cursor, count)),
        *(list(read_delta_varints(cursor, count)) for _ in range(3)),
    )
    cursor.finish("header")
    return [Heading(*heading) for heading in zip(*columns, strict=True)]
