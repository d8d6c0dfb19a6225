"""Craft rows straight into columns.

A column group begins with what its columns are, the same bytes in row after row; so they are read once and from then
on recognised. Behind them stand the lengths of all values, then the values. They stay together, row by row, until a
batch is built: then all lengths of a table make one array of offsets, and a column is every n-th value.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.plan import Groups, OpCode, Plan
from tidewire.arrow.policy import Policy
from tidewire.arrow.scan.craft_values import raw_reader
from tidewire.codec.base import Decoder
from tidewire.codec.craft.chunks import read_terms
from tidewire.codec.craft.decoder import read_columns
from tidewire.codec.craft.layout import NO_PARTITION, NO_TERM, VERSION, EventType, GroupType
from tidewire.codec.craft.varint import Cursor, trailing_uvarint, wrap_unsigned
from tidewire.codec.options import Options
from tidewire.model import Column, TableName, TableSchema

_MOST_KNOWN: Final = 512
"""Dictionaries, shapes and plans that are kept, each; more begin anew."""

_NULL: Final = 1
"""The length of a value that is NULL: -1, zigzagged like all lengths."""

_LONGEST: Final = 10
_LAST_SHIFT: Final = 63
"""Bytes of the longest integer, and how far its last byte moves."""

_SHORT_LENGTHS: Final = bytes([*range(0, 0x80, 2), _NULL])
_HIGH_BYTES: Final = bytes(range(0x80, 0x100))
_LONG_LENGTH: Final = re.compile(rb"([\x80-\xff]+[\x00-\x7f])")


class Cells(NamedTuple):
    """A row image that needs more than its bytes: with lengths that take several, or not of all columns.

    ``raw`` begins with ``head`` bytes of lengths; ``lengths`` are those of the plan's columns, zigzagged.
    """

    raw: bytes
    head: int
    lengths: Sequence[int]
    absent: tuple[int, ...] = ()


class CraftPlan(Plan):
    """A plan whose images are the bytes of a group from the lengths on, a byte each, or else :class:`Cells`."""

    def wire_values(self, images: Sequence[bytes | Cells | None]) -> Iterator[pa.BinaryArray]:
        """Every n-th value of all the rows' values in one array, in which a row's lengths are a value too."""
        width = len(self.columns)
        nothing = Cells(b"", 0, bytes([_NULL]) * width)
        codes, raw = array("i"), []
        for image in images:
            if isinstance(image, bytes):
                codes.append(2 * width)
                codes.extend(image[:width])
                raw.append(image)
            else:
                cells = image or nothing
                codes.append(2 * cells.head)
                codes.extend(cells.lengths)
                raw.append(cells.raw)
        zigzagged = pa.Array.from_buffers(pa.int32(), len(codes), [None, pa.py_buffer(codes)])
        ends = pc.cumulative_sum(pc.shift_right(zigzagged, pa.scalar(1, pa.int32())))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        valid = pc.not_equal(zigzagged, _NULL)
        buffers = [valid.buffers()[1], offsets.buffers()[1], pa.py_buffer(b"".join(raw))]
        values = pa.Array.from_buffers(pa.binary(), len(codes), buffers)
        places = pa.array(range(0, len(codes), 1 + width), pa.int32())
        for number in range(1, 1 + width):
            yield values.take(pc.add(places, pa.scalar(number, pa.int32())))

    def absent(self, images: Sequence[bytes | Cells | None]) -> list[tuple[int, ...] | None]:
        """The columns an image leaves out."""
        return [image.absent or None if isinstance(image, Cells) else None for image in images]


class _Shape(NamedTuple):
    """What the columns of a group are: the bytes that say it, and what they say."""

    prefix: bytes
    kind: int
    columns: tuple[Column, ...]


class _Table(NamedTuple):
    """How rows of certain shapes are read; ``places`` are those of a partial old image's columns."""

    plan: CraftPlan
    op: OpCode
    places: tuple[int, ...] | None


class _Dictionary:
    """The terms of a message, and what was read with them: the same dictionary comes again and again."""

    def __init__(self, raw: bytes) -> None:
        self.terms = list(read_terms(Cursor(raw, 0, len(raw))))
        self.tables: dict[tuple[int, int, bytes, bytes | None], _Table | None] = {}
        self._shapes: list[_Shape] = []

    def name(self, term: int) -> str:
        """The name behind a number; raises ``IndexError`` if there is no such name."""
        if term < NO_TERM:
            raise IndexError(term)
        return "" if term == NO_TERM else self.terms[term]

    def shape(self, data: bytes, start: int, end: int) -> _Shape:
        """The shape of the group there, recognised or read."""
        for shape in self._shapes:
            if data.startswith(shape.prefix, start):
                return shape
        cursor = Cursor(data, start, end)
        kind = cursor.take(1)[0]
        columns = tuple(read_columns(cursor, self.terms))
        shape = _Shape(data[start : cursor.at], kind, columns)
        if len(self._shapes) == _MOST_KNOWN:
            self._shapes.clear()
        self._shapes.append(shape)
        return shape


_Image = bytes | Cells
_Images = tuple[_Table, _Image | None, _Image | None]
"""How a row is read, its new values and its old ones."""

_Change = tuple[int | None, int, _Table, _Image | None, _Image | None]
"""A row on its way into its group, with partition and commit ts in front."""


class Scanner:
    """Takes rows out of Craft messages that hold nothing else."""

    def __init__(self, options: Options, policy: Policy, _: Decoder) -> None:
        self._policy = policy
        self._dictionaries: dict[bytes, _Dictionary] = {}
        self._plans: dict[TableSchema, CraftPlan] = {}

    def scan(
        self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups, start: int = 0
    ) -> list[int]:
        """Put rows into groups; the places of the messages that were left alone."""
        left = []
        for pos, value in enumerate(values, start):
            try:
                changes = self._changes(value) if value else None
            except (ValueError, IndexError):
                changes = None
            if changes is None:
                left.append(pos)
            else:
                _put(pos, changes, groups)
        return left

    def _changes(self, data: bytes) -> list[_Change] | None:
        """The rows of a message, ``None`` if it holds anything else."""
        if data[0] != VERSION:
            return None
        length, end = trailing_uvarint(data, 1)
        tables = end - length
        if tables < 1:
            return None
        header_size, dictionary_size, events = _sizes(data[tables:end])
        start = 1 + header_size
        if start + sum(map(sum, events)) + dictionary_size != tables:
            return None
        dictionary = self._dictionary(data[tables - dictionary_size : tables])
        changes: list[_Change] = []
        times, at = _commit_times(data, len(events))
        places = _places(data[at:start], len(events))
        for commit_ts, (partition, schema, table), sizes in zip(times, places, events, strict=True):
            change = self._change(data, start, sizes, dictionary, schema, table)
            if change is None:
                return None
            changes.append((partition, commit_ts, *change))
            start += sum(sizes)
        return changes

    def _dictionary(self, raw: bytes) -> _Dictionary:
        known = self._dictionaries.get(raw)
        if known is None:
            if len(self._dictionaries) == _MOST_KNOWN:
                self._dictionaries.clear()
            known = self._dictionaries[raw] = _Dictionary(raw)
        return known

    def _change(
        self, data: bytes, start: int, sizes: Sequence[int], dictionary: _Dictionary, schema: int, table: int
    ) -> _Images | None:
        end = start + sizes[0]
        shape = dictionary.shape(data, start, end)
        cells = _cells(data, start + len(shape.prefix), end, len(shape.columns))
        other = old = None
        if len(sizes) > 1:
            other = dictionary.shape(data, end, end + sizes[1])
            old = _cells(data, end + len(other.prefix), end + sizes[1], len(other.columns))
        key = schema, table, shape.prefix, other.prefix if other else None
        if key in dictionary.tables:
            known = dictionary.tables[key]
        else:
            if len(dictionary.tables) == _MOST_KNOWN:
                dictionary.tables.clear()
            name = TableName(dictionary.name(schema), dictionary.name(table))
            known = dictionary.tables[key] = self._table(name, shape, other)
        if known is None or len(sizes) > 2:
            return None
        if old is not None and known.places is not None:
            old = _spread(old, known.places, len(shape.columns))
        return (known, None, cells) if known.op is OpCode.DELETE else (known, cells, old)

    def _table(self, name: TableName, shape: _Shape, other: _Shape | None) -> _Table | None:
        """How rows of these groups are read: new, old, or new and then old with no columns but the new one's."""
        op = _OPS.get((shape.kind, other.kind if other else None))
        if op is None:
            return None
        places = None
        if other is not None and other.columns != shape.columns:
            known = {column: number for number, column in enumerate(shape.columns)}
            places = tuple(known.get(column, -1) for column in other.columns)
            if -1 in places or list(places) != sorted(places):
                return None
        table = TableSchema(name, shape.columns)
        plan = self._plans.get(table)
        if plan is None:
            if len(self._plans) == _MOST_KNOWN:
                self._plans.clear()
            plan = self._plans[table] = CraftPlan(table, raw_reader, self._policy)
        return _Table(plan, op, places)


_OPS: Final[Mapping[tuple[int, int | None], OpCode]] = {
    (GroupType.NEW, None): OpCode.INSERT,
    (GroupType.NEW, GroupType.OLD): OpCode.UPDATE,
    (GroupType.OLD, None): OpCode.DELETE,
}


def _put(pos: int, changes: Sequence[_Change], groups: Groups) -> None:
    for sub, (partition, commit_ts, table, after, before) in enumerate(changes):
        groups[table.plan].append((pos, sub, table.op, commit_ts, partition, False, after, before))


def _uvarints(raw: bytes) -> Sequence[int]:
    """All the numbers there; raises ``ValueError`` if one is cut off or too large."""
    if raw.isascii():
        return raw
    numbers = []
    number = shift = 0
    for byte in raw:
        if byte > 0x7F:
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > _LAST_SHIFT:
                raise ValueError("an integer of more than 64 bits")
        else:
            numbers.append(number | byte << shift)
            number = shift = 0
    if shift or max(numbers) >> 64:
        raise ValueError("not integers of 64 bits")
    return numbers


def _sums(deltas: Sequence[int]) -> list[int]:
    """Signed numbers from their zigzagged differences."""
    return list(accumulate([delta >> 1 ^ -(delta & 1) for delta in deltas]))


@lru_cache(_MOST_KNOWN)
def _sizes(raw: bytes) -> tuple[int, int, list[list[int]]]:
    """Size of the header, of the dictionary, and of the column groups of each event; ``ValueError`` if they differ."""
    numbers = _uvarints(raw)
    if numbers[0] != 2:
        raise ValueError("not the sizes of header and dictionary")
    header, dictionary = _sums(numbers[1:3])
    count = numbers[3]
    at = 4 + count
    sizes = _sums(numbers[4:at])
    events = []
    for size in sizes:
        groups = numbers[at]
        at += 1 + groups
        found = _sums(numbers[at - groups : at])
        if not groups or sum(found) != size or min(found) < 0:
            raise ValueError("not the sizes of column groups")
        events.append(found)
    if at != len(numbers) or len(events) != count or not count or header < 0 or dictionary < 0:
        raise ValueError("not the sizes of rows")
    return header, dictionary, events


def _commit_times(data: bytes, count: int) -> tuple[list[int], int]:
    """The commit ts of each event, with which the header begins, and where they end."""
    times = []
    number = shift = last = 0
    for at, byte in enumerate(data[1:], 2):
        number |= (byte & 0x7F) << shift
        if byte > 0x7F:
            shift += 7
            if shift > _LAST_SHIFT:
                break
            continue
        if number >> 64:
            break
        last = wrap_unsigned(last + number) if number else last
        times.append(last)
        if len(times) == count:
            if max(times) >> 63:
                break
            return times, at
        number = shift = 0
    raise ValueError("not sure of the commit ts")


@lru_cache(_MOST_KNOWN)
def _places(raw: bytes, count: int) -> list[tuple[int | None, int, int]]:
    """Partition, schema and table of each event, from the rest of the header; ``ValueError`` unless all are rows."""
    numbers = _uvarints(raw)
    if len(numbers) != 4 * count or any(kind != EventType.ROW for kind in numbers[:count]):
        raise ValueError("not the headings of rows")
    partitions, schemas, tables = (_sums(numbers[at * count : (at + 1) * count]) for at in (1, 2, 3))
    if not NO_PARTITION <= min(partitions) <= max(partitions) < 1 << 63:
        raise ValueError("not sure of the partitions")
    known = (None if id_ == NO_PARTITION else id_ for id_ in partitions)
    return list(zip(known, schemas, tables, strict=True))


def _cells(data: bytes, start: int, end: int, count: int) -> _Image:
    """Lengths and values of a group; raises ``ValueError`` if they do not fill it exactly."""
    raw = data[start : start + count]
    short = raw.isascii()
    if short:
        _check_short(raw)
        lengths: Sequence[int] = raw
    else:
        lengths, raw = _long_lengths(data, start, end, count)
    body = start + len(raw)
    if len(lengths) != count or sum(lengths) - lengths.count(_NULL) != 2 * (end - body):
        raise ValueError("not the lengths of the values")
    cells = data[start:end]
    return cells if short else Cells(cells, len(raw), lengths)


def _long_lengths(data: bytes, start: int, end: int, count: int) -> tuple[list[int], bytes]:
    """Lengths of which some take more than a byte, and their bytes."""
    stop = start + count
    raw = data[start:stop]
    while missing := count - len(raw.translate(None, _HIGH_BYTES)):
        stop += missing
        if stop > min(end, start + count * _LONGEST):
            raise ValueError("lengths that are cut off or too long")
        raw = data[start:stop]
    lengths: list[int] = []
    for number, part in enumerate(_LONG_LENGTH.split(raw)):
        if number % 2:
            (length,) = _uvarints(part)
            if length & 1:
                raise ValueError("a negative length")
            lengths.append(length)
        else:
            _check_short(part)
            lengths += part
    return lengths, raw


def _check_short(lengths: bytes) -> None:
    if lengths.translate(None, _SHORT_LENGTHS):
        raise ValueError("a negative length")


def _spread(image: _Image, places: Sequence[int], width: int) -> Cells:
    """An image of some columns as one of all."""
    count = len(places)
    cells = Cells(image, count, image[:count]) if isinstance(image, bytes) else image
    lengths = [_NULL] * width
    for place, length in zip(places, cells.lengths, strict=True):
        lengths[place] = length
    return Cells(cells.raw, cells.head, lengths, tuple(sorted(set(range(width)).difference(places))))
