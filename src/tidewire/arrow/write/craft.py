"""Whole columns to Craft messages.

All rows of a table have the same names, types and flags in front of their values, and all messages the same names in
their dictionary. What is left to each row are its values and their lengths, and those are made column by column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.convert import finite
from tidewire.arrow.policy import Policy
from tidewire.arrow.to_model import to_model
from tidewire.arrow.write.binary_pieces import lengths, mapped, raw, varints, zigzag
from tidewire.arrow.write.operations import Changes, changes_of, commit_times, together
from tidewire.arrow.write.pieces import LEFT_TO_CODEC, joined
from tidewire.arrow.write.texts import PLAIN
from tidewire.codec import Options, Resources
from tidewire.codec.craft.chunks import TermDictionary
from tidewire.codec.craft.encoder import (
    COLUMN_OVERHEAD,
    ROW_OVERHEAD,
    framed,
    group_head,
    header_of,
    value_bytes,
)
from tidewire.codec.craft.layout import NO_PARTITION, EventType, GroupType
from tidewire.codec.craft.varint import uvarint
from tidewire.model import Column, ColumnFlag, Generated, MySQLType, Op, TableSchema
from tidewire.model.types import FLOATS, INTEGERS, STRINGS, TEMPORAL

Bytes = Callable[[pa.Array], pa.BinaryArray]


class _Rows(NamedTuple):
    """Rows but for the frame of their message: groups of columns, the groups' size tables, the sizes reckoned with."""

    bodies: pa.BinaryArray
    tables: pa.BinaryArray
    estimates: pa.Array


class Writer:
    """Turns the rows of one table into messages of several rows each."""

    def __init__(self, table: TableSchema, options: Options, policy: Policy, _: Resources) -> None:
        self._table, self._options, self._policy = table, options, policy
        self._template: _Template | None = None

    def write(self, rows: pa.RecordBatch) -> tuple[list[None], list[bytes]] | None:
        """The messages' keys, of which there are none, and values; ``None`` where the rows are for the codec."""
        if not rows.num_rows:
            return [], []
        try:
            template = self._template = self._template or _Template(self._table, self._policy)
            apart, order = changes_of(self._table, rows)
            if self._options.delete_only_output_handle_key_columns and apart[-1].op is Op.DELETE:
                return None  # other columns, and so another dictionary in every message
            parts = zip(*(template.rows(changes) for changes in apart), strict=True)
            written = _Rows(*(together(part, order) for part in parts))
            values = list(self._messages(template, rows, written))
        except LEFT_TO_CODEC:
            return None
        return [None] * len(values), values

    def _messages(self, template: _Template, rows: pa.RecordBatch, written: _Rows) -> Iterator[bytes]:
        bodies, tables = written.bodies.to_pylist(), written.tables.to_pylist()
        commit_ts, partitions = commit_times(rows).to_pylist(), _partitions(rows.column("_partition"))
        start = 0
        for end in self._ends(written.estimates.to_pylist()):
            part = slice(start, end)
            schema, name = ([number] * (end - start) for number in template.name)
            header = header_of(commit_ts[part], [EventType.ROW] * (end - start), partitions[part], schema, name)
            yield framed(header, bodies[part], template.dictionary, b"".join(tables[part]))
            start = end

    def _ends(self, estimates: Sequence[int]) -> Iterator[int]:
        """Where messages end: behind the row that crosses the limit, as in the codec."""
        limit, most = self._options.batch_limit, self._options.max_batch_size
        start = size = 0
        for end, estimate in enumerate(estimates, 1):
            size += estimate
            if size > limit or end - start >= most or end == len(estimates):
                yield end
                start, size = end, 0


class _Template:
    """What the messages of a table have in common."""

    def __init__(self, table: TableSchema, policy: Policy) -> None:
        columns = [column for column in table.columns if column.generated is not Generated.VIRTUAL]
        cells = [(column.name.encode(), column.type, column.effective_flags) for column in columns]
        terms = TermDictionary()
        if not all(table.name):
            raise ValueError("a table without a name")
        self.name = [terms.id(part.encode()) for part in table.name]
        self._heads = {kind: group_head(kind, cells, terms) for kind in GroupType}
        self.dictionary = bytes(terms)
        self._bytes = {column.name: _bytes(column, policy) for column in columns}
        self._row_overhead = ROW_OVERHEAD + sum(len(part.encode()) for part in table.name)
        self._group_overhead = sum(len(name) + COLUMN_OVERHEAD for name, *_ in cells)

    def rows(self, changes: Changes) -> _Rows:
        """Changes of one kind."""
        images = ((GroupType.NEW, changes.after), (GroupType.OLD, changes.before))
        groups, sizes, estimate = [], [], pa.scalar(self._row_overhead, pa.int64())
        for kind, image in images:
            if image:
                group, content = self._group(kind, image, len(changes))
                groups.append(group)
                sizes.append(pc.binary_length(group))
                estimate = pc.add(estimate, pc.add(content, pa.scalar(self._group_overhead, pa.int64())))
        deltas = [sizes[0], *(pc.subtract(size, last) for last, size in pairwise(sizes))]
        table = [uvarint(len(sizes)), *(piece for delta in deltas for piece in varints(zigzag(delta)))]
        return _Rows(joined(groups, len(changes)), joined(table, len(changes)), estimate)

    def _group(self, kind: GroupType, image: Mapping[str, pa.Array], count: int) -> tuple[pa.BinaryArray, pa.Array]:
        """One image of each row, and how many bytes its values have."""
        values = [write(image[name]) for name, write in self._bytes.items()]
        sizes = [piece for value in values for piece in varints(_nullable_lengths(value))]
        content = joined([value.fill_null(b"") for value in values], count)
        return joined([self._heads[kind], *sizes, content], count), pc.binary_length(content).cast(pa.int64())


def _nullable_lengths(values: pa.BinaryArray) -> pa.UInt64Array:
    """Lengths, signed and -1 for NULL, zigzagged."""
    return pc.shift_left(lengths(values), pa.scalar(1, pa.uint64())).fill_null(1)


def _partitions(ids: pa.Array) -> Sequence[int]:
    if (pc.min(ids).as_py() or 0) < 0:
        raise ValueError("not the id of a partition")
    found: Sequence[int] = ids.fill_null(NO_PARTITION).to_pylist()
    return found


def _bytes(column: Column, policy: Policy) -> Bytes:
    """How a column's values become Craft's."""
    if column.type in _PLAIN:
        text = PLAIN[column.type](column, policy)
        return lambda values: text(values).cast(pa.binary())
    write = _WRITERS.get(column.type)
    if write is not None:
        return write(column)
    model = to_model(column, policy.time_zone)
    return lambda values: mapped(values, lambda value: value_bytes(column, model(value)))


def _integers(column: Column) -> Bytes:
    if ColumnFlag.UNSIGNED in column.effective_flags:
        return _unsigned
    return _signed


def _unsigned(values: pa.Array) -> pa.BinaryArray:
    return joined(varints(values.cast(pa.uint64())), len(values))


def _signed(values: pa.Array) -> pa.BinaryArray:
    return joined(varints(zigzag(values)), len(values))


_PLAIN = TEMPORAL | {MySQLType.DECIMAL, MySQLType.VECTOR}
"""Types whose values are written as text."""

_WRITERS: Mapping[MySQLType, Callable[[Column], Bytes]] = {
    **dict.fromkeys(INTEGERS, _integers),
    **dict.fromkeys(FLOATS, lambda _: lambda values: raw(finite(values).cast(pa.float64()))),
    **dict.fromkeys(STRINGS | {MySQLType.JSON}, lambda _: lambda values: values.cast(pa.binary())),
    MySQLType.YEAR: lambda _: _signed,
    MySQLType.BIT: lambda _: _unsigned,
}
