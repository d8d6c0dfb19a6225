"""Craft rows straight into columns.

A column group begins with what its columns are, the same bytes in row after row; so they are read once and from then
on recognised. Behind them stand the lengths of all values, then the values. They stay together, row by row, until a
batch is built: then all lengths of a table make one array of offsets, and a column is every n-th value.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.convert import Policy
from tidewire.arrow.craft_values import raw_reader
from tidewire.arrow.decode import Groups
from tidewire.arrow.plan import OpCode, Plan
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

_SHORT_LENGTHS: Final = bytes([*range(0, 0x80, 2), _NULL])
_HIGH_BYTES: Final = bytes(range(0x80, 0x100))
_LONG_LENGTH: Final = re.compile(rb"([\x80-\xff]+[\x00-\x7f])")


class Cells(NamedTuple):
    """A row image: the zigzagged lengths of all columns, the bytes of all values, and which columns are absent."""

    lengths: Sequence[int]
    values: bytes
    absent: tuple[int, ...] = ()


class CraftPlan(Plan):
    """A plan whose images are :class:`Cells`."""

    def wire_values(self, images: Sequence[Cells | None]) -> Iterator[pa.BinaryArray]:
        """Every n-th value of all the rows' values in one array."""
        width = len(self.columns)
        nothing = Cells(bytes([_NULL]) * width, b"")
        rows = [nothing if image is None else image for image in images]
        codes = array("i", chain.from_iterable(row.lengths for row in rows))
        zigzagged = pa.Array.from_buffers(pa.int32(), len(codes), [None, pa.py_buffer(codes)])
        ends = pc.cumulative_sum(pc.shift_right(zigzagged, pa.scalar(1, pa.int32())))
        offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
        valid = pc.not_equal(zigzagged, _NULL)
        values = pa.py_buffer(b"".join([row.values for row in rows]))
        cells = pa.Array.from_buffers(pa.binary(), len(codes), [valid.buffers()[1], offsets.buffers()[1], values])
        places = pa.array(range(0, len(codes), width), pa.int32())
        for number in range(width):
            yield cells.take(pc.add(places, pa.scalar(number, pa.int32())))

    def absent(self, images: Sequence[Cells | None]) -> list[tuple[int, ...] | None]:
        """The columns an image leaves out."""
        return [None if image is None else image.absent or None for image in images]


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
        """The name behind a number; ``IndexError`` where there is none."""
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


class _Change(NamedTuple):
    """A row on its way into its group."""

    table: _Table
    partition: int | None
    commit_ts: int
    after: Cells | None
    before: Cells | None


class Scanner:
    """Takes rows out of Craft messages that hold nothing else."""

    def __init__(self, options: Options, policy: Policy, _: Decoder) -> None:
        self._policy = policy
        self._dictionaries: dict[bytes, _Dictionary] = {}
        self._plans: dict[TableSchema, CraftPlan] = {}

    def scan(self, keys: Sequence[bytes | None], values: Sequence[bytes | None], groups: Groups) -> list[int]:
        """Put rows into groups; the places of the messages that were left alone."""
        left = []
        for pos, value in enumerate(values):
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
        """The rows of a message, ``None`` where it holds anything else."""
        if data[0] != VERSION:
            return None
        length, end = trailing_uvarint(data, 1)
        tables = end - length
        if tables < 1:
            return None
        header_size, dictionary_size, events = _sizes(_uvarints(data[tables:end]))
        start = 1 + header_size
        if start + sum(map(sum, events)) + dictionary_size != tables:
            return None
        dictionary = self._dictionary(data[tables - dictionary_size : tables])
        changes = []
        headings = _headings(_uvarints(data[1:start]), len(events))
        for (commit_ts, partition, schema, table), sizes in zip(headings, events, strict=True):
            change = self._change(data, start, sizes, dictionary, schema, table)
            if change is None:
                return None
            changes.append(_Change(change[0], partition, commit_ts, change[1], change[2]))
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
    ) -> tuple[_Table, Cells | None, Cells | None] | None:
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
            plan = self._plans[table] = CraftPlan(table, lambda column: raw_reader(column, self._policy))
        return _Table(plan, op, places)


_OPS: Final = {
    (GroupType.NEW, None): OpCode.INSERT,
    (GroupType.NEW, GroupType.OLD): OpCode.UPDATE,
    (GroupType.OLD, None): OpCode.DELETE,
}


def _put(pos: int, changes: Sequence[_Change], groups: Groups) -> None:
    for sub, (table, partition, commit_ts, after, before) in enumerate(changes):
        rows = groups.of(table.plan)
        rows.positions.append(pos)
        rows.subs.append(sub)
        rows.ops.append(table.op)
        rows.commit_ts.append(commit_ts)
        rows.partitions.append(partition)
        rows.key_only.append(False)
        rows.after.append(after)
        rows.before.append(before)


def _uvarints(raw: bytes) -> Sequence[int]:
    """All the numbers there; ``ValueError`` where one is cut off or too large."""
    if raw.isascii():
        return raw
    numbers = []
    number = shift = 0
    for byte in raw:
        if byte > 0x7F:
            number |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
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


def _sizes(numbers: Sequence[int]) -> tuple[int, int, list[list[int]]]:
    """Size of the header, of the dictionary, and of the column groups of each event; ``ValueError`` if they differ."""
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


def _headings(numbers: Sequence[int], count: int) -> Iterator[tuple[int, int | None, int, int]]:
    """Commit ts, partition, schema and table of each event; ``ValueError`` unless all are rows."""
    if len(numbers) != 5 * count or any(kind != EventType.ROW for kind in numbers[count : 2 * count]):
        raise ValueError("not the headings of rows")
    commit_ts = [wrap_unsigned(ts) for ts in accumulate(numbers[:count])]
    partitions, schemas, tables = (_sums(numbers[at * count : (at + 1) * count]) for at in (2, 3, 4))
    if max(*commit_ts, *partitions) >= 1 << 63 or min(partitions) < NO_PARTITION:
        raise ValueError("not sure of the headings")
    return zip(commit_ts, (None if id_ == NO_PARTITION else id_ for id_ in partitions), schemas, tables, strict=True)


def _cells(data: bytes, start: int, end: int, count: int) -> Cells:
    """Lengths and values of a group; ``ValueError`` where they do not fill it exactly."""
    raw = data[start : start + count]
    if raw.isascii():
        _check_short(raw)
        lengths: Sequence[int] = raw
    else:
        lengths, raw = _long_lengths(data, start, end, count)
    body = start + len(raw)
    if len(lengths) != count or sum(lengths) - lengths.count(_NULL) != 2 * (end - body):
        raise ValueError("not the lengths of the values")
    return Cells(lengths, data[body:end])


def _long_lengths(data: bytes, start: int, end: int, count: int) -> tuple[list[int], bytes]:
    """Lengths of which some take more than a byte, and their bytes."""
    stop = start + count
    raw = data[start:stop]
    while missing := count - len(raw.translate(None, _HIGH_BYTES)):
        stop += missing
        if stop > end:
            raise ValueError("lengths that are cut off")
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


def _spread(cells: Cells, places: Sequence[int], width: int) -> Cells:
    """An image of some columns as one of all."""
    lengths = [_NULL] * width
    for place, length in zip(places, cells.lengths, strict=True):
        lengths[place] = length
    return Cells(lengths, cells.values, tuple(sorted(set(range(width)).difference(places))))
