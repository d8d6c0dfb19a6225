"""The changes of a Merge step: staged files in, columns of typed values out.

A change says something about one key, or, if an update moves a row, about two: the row's new key, and the key that it
left. Keys are compared byte for byte: an UPDATE that changes a key has its old and its new value, so no collation is
needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidewire.arrow.cast import cast, default_value, may_fail
from tidewire.arrow.plan import OpCode
from tidewire.arrow.policy import Policy
from tidewire.arrow.types import arrow_type
from tidewire.ddl.defaults import fill
from tidewire.errors import SyncError
from tidewire.model import Column, Position, TableSchema
from tidewire.spark.apply.keys import Numbers
from tidewire.spark.targets.files import ColumnStats, Comparable, comparable
from tidewire.storage import Storage
from tidewire.sync.manifest import Partition, Rejected
from tidewire.sync.steps import Merge, Slice

_UPDATE: Final = int(OpCode.UPDATE)
_DELETE: Final = int(OpCode.DELETE)

_SHOWN: Final = 100
"""The characters that an error shows of a value that does not fit."""

_AT_ONCE: Final = 8
"""Row groups of a staged file that are read at a time, if only some of its keys are wanted."""


class KeyRange(NamedTuple):
    """Keys whose first column is from ``lower`` up to, and without, ``upper``; ``None`` is no limit."""

    lower: Comparable | None = None
    upper: Comparable | None = None

    def has(self, values: pa.Array) -> Numbers:
        """Which of these values are in the range?"""
        found = np.ones(len(values), bool)
        compared = comparable(values)
        for limit, test in ((self.lower, pc.greater_equal), (self.upper, pc.less)):
            if limit is not None:
                mask = pc.fill_null(test(compared, pa.scalar(limit, compared.type)), False)
                found &= mask.to_numpy(zero_copy_only=False)
        return found

    def overlaps(self, stats: ColumnStats | None) -> bool:
        """May a file whose first key column has these statistics have keys of the range?"""
        if stats is None or stats.lower is None or stats.upper is None:
            return True
        below = self.lower is not None and stats.upper < self.lower  # type: ignore[operator]
        above = self.upper is not None and stats.lower >= self.upper  # type: ignore[operator]
        return not (below or above)


EVERYTHING: Final = KeyRange()


@dataclass(frozen=True, slots=True)
class Staged:
    """How the changes of a step are read: with or without whole old rows, and of which keys.

    Without a ``storage`` the staged files are on a local disk.
    """

    policy: Policy = field(default_factory=Policy)
    storage: Storage | None = None
    old_rows: bool = False
    keys: KeyRange = EVERYTHING

    def input(self, path: str) -> Any:
        """A staged file to read."""
        return pa.OSFile(path, "rb") if self.storage is None else self.storage.input(self.storage.relative(path))


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes in columns, in no particular order.

    ``key`` are the columns of the key: the new row's, or the deleted one's. ``after`` has the table's columns;
    ``told`` says which changes tell a column, for columns that some change does not tell: the others have its default.
    ``moved`` are the changes that move their row, ``left_key`` the keys it had. ``before`` are the columns of old rows
    for changes that have one; what an update does not tell of it is as after.
    """

    table: TableSchema
    op: Numbers
    ts: Numbers
    offset: Numbers
    sub: Numbers
    source: Numbers
    partitions: tuple[Partition, ...]
    key: tuple[pa.ChunkedArray, ...]
    after: tuple[pa.ChunkedArray, ...]
    told: Mapping[int, Numbers]
    moved: Numbers
    left_key: tuple[pa.ChunkedArray, ...]
    before: tuple[pa.ChunkedArray, ...] = ()
    rejected: tuple[Rejected, ...] = ()

    def __len__(self) -> int:
        return len(self.op)

    @property
    def live(self) -> Numbers:
        """Which changes leave a row?"""
        found: Numbers = self.op != _DELETE
        return found


def read_changes(merge: Merge, staged: Staged = Staged(), columns: Sequence[Column] | None = None) -> Changes:
    """The changes of a step. Those with a value that their table cannot hold are in ``rejected`` instead.

    ``columns`` are the columns that are wanted; without them all.
    """
    table = merge.table if columns is None else replace(merge.table, columns=tuple(columns))
    reader = _Reader(merge, table, staged)
    return reader.changes([part for group in reader.groups() for part in group])


def fallible_columns(merge: Merge, policy: Policy) -> list[Column]:
    """The columns of a step's table in which a value may not fit. Those of the key come along."""
    found, doubtful = [], False
    shapes = {each.file.shape.columns for each in merge.slices}
    for column in merge.table.columns:
        wires = [told for shape in shapes if (told := told_column(merge, shape, column)) is not None]
        fails = any(may_fail(told, column, policy) for told in wires)
        # What identifies a row can be missing: a date the calendar does not have is NULL, and of an old row only the
        # key may be staged, which was another one when the file was written.
        fails = fails or (column.handle_key and (policy.nulls_zeros(column) or not all(w.handle_key for w in wires)))
        doubtful = doubtful or fails
        if fails or column.handle_key:
            found.append(column)
    return found if doubtful else []


class _Part(NamedTuple):
    """Changes of one shape."""

    op: Numbers
    ts: Numbers
    offset: Numbers
    sub: Numbers
    source: Numbers
    key: list[pa.Array]
    after: list[pa.Array]
    told: list[bool]
    moved: Numbers
    left_key: list[pa.Array]
    before: list[pa.Array]
    rejected: list[Rejected]


class _Reader:
    """Reads the staged files of one step."""

    def __init__(self, merge: Merge, table: TableSchema, staged: Staged) -> None:
        self._merge = merge
        self._table = table
        self._staged = staged
        self._policy = staged.policy
        self.key = key_columns(table)
        self._partitions = tuple(dict.fromkeys(each.file.partition for each in merge.slices))

    def groups(self) -> Iterator[Iterator[_Part]]:
        """The changes of each shape. All files of a shape are read together, unless only some keys are wanted."""
        shapes: dict[tuple[Column, ...], list[Slice]] = {}
        for each in self._merge.slices:
            shapes.setdefault(each.file.shape.columns, []).append(each)
        for shape, slices in shapes.items():
            moves = any(each.file.moves for each in slices)
            key = {name for each in slices for name in each.file.shape.handle_key}
            rows: Iterator[pa.Table] = (table for each in slices for table in self._tables(each))
            if self._staged.keys == EVERYTHING:
                alike: dict[pa.Schema, list[pa.Table]] = {}  # a file has the old values that its mode needs
                for table in rows:
                    alike.setdefault(table.schema, []).append(table)
                rows = map(pa.concat_tables, alike.values())
            yield (self._part(shape, key, moves, each) for each in rows)

    def _tables(self, piece: Slice) -> Iterator[pa.Table]:
        """The rows of a slice, with the number of their partition."""
        file = piece.file
        whole = piece.from_ts <= file.min_ts and file.max_ts <= piece.to_ts
        source = self._partitions.index(file.partition)
        with self._staged.input(file.path) as opened:
            parquet = pq.ParquetFile(opened)
            wanted = list(range(parquet.num_row_groups))
            if not whole:
                wanted = [group for group in wanted if _overlaps(parquet.metadata.row_group(group), piece)]
            step = len(wanted) or 1
            if self._staged.keys != EVERYTHING:
                step = _AT_ONCE
            for start in range(0, len(wanted), step):
                rows = parquet.read_row_groups(wanted[start : start + step], use_threads=False)
                if not whole:
                    ts = rows["_ts"]
                    rows = rows.filter(pc.and_(pc.greater_equal(ts, piece.from_ts), pc.less_equal(ts, piece.to_ts)))
                if rows.num_rows:
                    yield rows.append_column("_source", pa.array(np.full(rows.num_rows, source, np.int32)))

    def _part(self, shape: tuple[Column, ...], key: set[str], moves: bool, rows: pa.Table) -> _Part:
        wires = [told_column(self._merge, shape, column) for column in self._table.columns]
        images = _Images(rows, shape)
        flaws = _Flaws(self._table, images)
        after, told_, before = [], [], []
        for column, wire in zip(self._table.columns, wires, strict=True):
            told_.append(wire is not None)
            if wire is None:
                after.append(pa.repeat(untold(column, self._policy), len(images)))
                before.append(pa.nulls(len(images), self._policy.type_of(column)))
                continue
            after.append(self._cast(images.after(wire), wire, column, flaws))
            if self._staged.old_rows or column.handle_key or may_fail(wire, column, self._policy):
                before.append(self._cast(images.before(wire), wire, column, flaws))
            else:
                before.append(pa.nulls(0, self._policy.type_of(column)))
        keys, old_keys = [], []
        for column in self.key:
            number = self._table.columns.index(column)
            wire = wires[number]
            if wire is None:
                raise SyncError(f"{self._table.name}: its rows do not tell {column.name}, which is in its key")
            keys.append(pc.if_else(images.deleted, before[number], after[number]))
            flaws.empty(column, keys[-1])
            old_keys.append(before[number])
        moved = np.zeros(0, np.int64)
        if self.key and (moves or key != {wires[self._table.columns.index(column)].name for column in self.key}):  # type: ignore[union-attr]
            differs = pc.fill_null(_any(pc.not_equal(old, new) for old, new in zip(old_keys, keys, strict=True)), False)
            moved = np.flatnonzero(images.updated & images.has_before & differs.to_numpy(zero_copy_only=False))
        return self._kept(images, keys, after, told_, before, moved, old_keys, flaws)

    def _cast(self, values: pa.Array, wire: Column, column: Column, flaws: _Flaws) -> pa.Array:
        found, bad = cast(values, wire, column, self._policy)
        if bad is not None:
            flaws.add(column, values, bad)
        return found

    def _kept(
        self,
        images: _Images,
        keys: list[pa.Array],
        after: list[pa.Array],
        told: list[bool],
        before: list[pa.Array],
        moved: Numbers,
        old_keys: list[pa.Array],
        flaws: _Flaws,
    ) -> _Part:
        """The changes that fit and whose keys are wanted."""
        kept = np.ones(len(images), bool)
        if flaws.reasons:
            kept[list(flaws.reasons)] = False
        if self._staged.keys != EVERYTHING:
            inside = self._staged.keys.has(keys[0])
            inside[moved] |= self._staged.keys.has(old_keys[0].take(pa.array(moved)))
            kept &= inside
        rejected = flaws.rejected(self._partitions)
        mask = None if kept.all() else pa.array(kept)
        moved = moved[kept[moved]]

        def some(array: pa.Array) -> pa.Array:
            return array if mask is None or not len(array) else array.filter(mask)

        old = [some(array) for array in before] if self._staged.old_rows else []
        return _Part(
            images.numbers("_op")[kept],
            images.numbers("_ts")[kept],
            images.numbers("_offset")[kept],
            images.numbers("_sub")[kept],
            images.numbers("_source")[kept],
            [some(array) for array in keys],
            [some(array) for array in after],
            told,
            (np.cumsum(kept) - 1)[moved],
            [array.take(pa.array(moved)) for array in old_keys],
            [pc.if_else(some(images.has_before_mask), array, pa.scalar(None, array.type)) for array in old],
            rejected,
        )

    def changes(self, parts: Sequence[_Part]) -> Changes:
        """All parts in one."""
        table, policy = self._table, self._policy
        starts = np.cumsum([0, *(len(part.op) for part in parts)])
        lacking = [number for number in range(len(table.columns)) if not all(part.told[number] for part in parts)]
        types = [policy.type_of(column) for column in table.columns]
        key_types = [policy.type_of(column) for column in self.key]
        return Changes(
            table,
            _joined([part.op for part in parts], np.int8),
            _joined([part.ts for part in parts], np.int64),
            _joined([part.offset for part in parts], np.int64),
            _joined([part.sub for part in parts], np.int64),
            _joined([part.source for part in parts], np.int32),
            self._partitions,
            _columns(parts, lambda part: part.key, key_types),
            _columns(parts, lambda part: part.after, types),
            {
                number: _joined([np.full(len(part.op), part.told[number]) for part in parts], np.bool_)
                for number in lacking
            },
            _joined([part.moved + start for part, start in zip(parts, starts, strict=False)], np.int64),
            _columns(parts, lambda part: part.left_key, key_types),
            _columns(parts, lambda part: part.before, types) if self._staged.old_rows else (),
            tuple(each for part in parts for each in part.rejected),
        )


class _Images:
    """The rows of staged files: both images of each change, in the types of the wire."""

    def __init__(self, rows: pa.Table, shape: tuple[Column, ...]) -> None:
        self._rows = rows
        self._shape = shape
        self._after, self._before = (_flat(rows[name]) for name in ("after", "before"))
        op = self.numbers("_op")
        self.updated: Numbers = op == _UPDATE
        self.deleted = pa.array(op == _DELETE)
        self.has_before_mask = pc.is_valid(self._before)
        self.has_before: Numbers = self.has_before_mask.to_numpy(zero_copy_only=False)
        absent = _flat(rows["_absent"])
        self._absent_rows = pc.list_parent_indices(absent).to_numpy(zero_copy_only=False)
        self._absent = pc.list_flatten(absent).to_numpy(zero_copy_only=False)

    def __len__(self) -> int:
        return int(self._rows.num_rows)

    def numbers(self, name: str) -> Numbers:
        """A column of numbers."""
        found: Numbers = self._rows[name].to_numpy()
        return found

    def after(self, column: Column) -> pa.Array:
        """The new values of a column."""
        return field_of(self._after, column)

    def before(self, column: Column) -> pa.Array:
        """The old values of a column; one that an update leaves out did not change."""
        number = self._shape.index(column)
        old = field_of(self._before, column)
        if not len(self._absent):
            return old
        absent = np.zeros(len(self), bool)
        absent[self._absent_rows[self._absent == number]] = True
        unchanged = absent & self.updated
        return pc.if_else(pa.array(unchanged), self.after(column), old) if unchanged.any() else old


class _Flaws:
    """The changes of a part that do not fit their table, and why."""

    def __init__(self, table: TableSchema, images: _Images) -> None:
        self._table = table
        self._images = images
        self.reasons: dict[int, str] = {}

    def add(self, column: Column, values: pa.Array, bad: pa.Array) -> None:
        """Values that do not fit a column."""
        for row in np.flatnonzero(pc.fill_null(bad, False).to_numpy(zero_copy_only=False)).tolist():
            self.reasons.setdefault(row, f"{_named(column)}{_shown(values[row])} does not fit")

    def empty(self, column: Column, values: pa.Array) -> None:
        """Keys without a value."""
        if values.null_count:
            for row in np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False)).tolist():
                self.reasons.setdefault(row, f"{_named(column)}a key without a value")

    def rejected(self, partitions: Sequence[Partition]) -> list[Rejected]:
        """The messages of these changes."""
        if not self.reasons:
            return []
        sources, offsets, ts = (self._images.numbers(name) for name in ("_source", "_offset", "_ts"))
        found = []
        for row in sorted(self.reasons, key=lambda row: (int(sources[row]), int(offsets[row]), row)):
            place = partitions[int(sources[row])]
            at = Position(place.topic, place.number, int(offsets[row]))
            found.append(Rejected(at, self.reasons[row], table=self._table.name, commit_ts=int(ts[row])))
        return found


def field_of(image: pa.StructArray, column: Column) -> pa.Array:
    """The values of a column in images; NULL if they do not have it."""
    place = image.type.get_field_index(column.name)
    return pa.nulls(len(image), arrow_type(column)) if place < 0 else pc.struct_field(image, place)


def _named(column: Column) -> str:
    return f"column {column.name} ({column.mysql_type}): "


def _shown(value: pa.Scalar) -> str:
    try:
        found = value.as_py()
    except (ValueError, OverflowError):  # a date that Python does not have
        return "a value"
    text = found.decode(errors="replace") if isinstance(found, bytes) else str(found)
    return text[:_SHOWN]


def _overlaps(group: Any, piece: Slice) -> bool:
    """May a row group have rows of a slice? Its second column is the ts."""
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == "_ts":
            stats = column.statistics
            if stats is None or not stats.has_min_max:
                return True
            return bool(stats.max >= piece.from_ts and stats.min <= piece.to_ts)
    return True


def _flat(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks()


def _any(masks: Iterable[pa.Array]) -> pa.Array:
    found = None
    for mask in masks:
        known = pc.fill_null(mask, False)
        found = known if found is None else pc.or_(found, known)
    assert found is not None
    return found


def _joined(arrays: Sequence[Numbers], type_: Any) -> Numbers:
    return np.concatenate(arrays) if arrays else np.zeros(0, type_)


def _columns(
    parts: Sequence[_Part], member: Callable[[_Part], list[pa.Array]], types: Sequence[pa.DataType]
) -> tuple[pa.ChunkedArray, ...]:
    return tuple(
        pa.chunked_array([member(part)[number] for part in parts], type_) for number, type_ in enumerate(types)
    )


def told_column(merge: Merge, shape: Sequence[Column], column: Column) -> Column | None:
    """The column of files with this shape that has the values of a table's column; ``None`` if they lack it."""
    source = merge.source(column.name)
    return None if source is None else next((each for each in shape if each.name.lower() == source), None)


def untold(column: Column, policy: Policy) -> pa.Scalar:
    """The value of a column that no change has told: its declared default, or NULL."""
    return default_value(fill(replace(column, nullable=True)), column, policy)


def key_columns(table: TableSchema) -> tuple[Column, ...]:
    """The columns that identify a row."""
    return tuple(column for column in table.columns if column.handle_key)
