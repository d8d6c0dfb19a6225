"""A table put in order: small files and files with many dead rows become large files in order of their key.

The files that are chosen are cut into ranges of the key, one task each, so memory is bounded whatever the table holds.
A range becomes one file, and rows keep their ids. All files of a table are swapped in one commit, which changes no
rows. If another program changed the table meanwhile, the work begins again.

Large files stay as they are, unless more than a few of them have rows around the same key, so that a search would have
to open them all. Then these are merged. Each row is written again about once for each time the table grows eightfold.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidewire.errors import Retry, SyncError
from tidewire.model import TableName, TableSchema
from tidewire.spark.apply.find import Opened
from tidewire.spark.apply.fold import kept_rows
from tidewire.spark.apply.layout import Mode, alike
from tidewire.spark.apply.modes import LAYOUTS
from tidewire.spark.apply.task import FEW_CHANGES, Written, run_pieces
from tidewire.spark.apply.write import sorted_rows, write_rows
from tidewire.spark.targets.base import CommitTag, Target
from tidewire.spark.targets.files import (
    ColumnStats,
    Comparable,
    DataFile,
    FileChange,
    StoredColumn,
    StoredTable,
    comparable,
    dead_positions,
)
from tidewire.sync.catalogue import stored as stored_schema

FEW_FILES: Final = 5
"""Fewer small files are not worth a new one."""

_SMALL: Final = 24 << 20
_SMALL_ROWS: Final = 1_500_000
_SMALL_MEMORY: Final = 96 << 20
"""A file of fewer bytes is small, unless it has so many rows, or its rows take so much memory: ranges and files are cut
by these too, and what was cut by them would be written again and again."""

_RANGE_BYTES: Final = 64 << 20
_RANGE_ROWS: Final = 4_000_000
"""The bytes in files that a range of keys has, about, and the rows."""

_AT_ONCE: Final = 512 << 20
"""The bytes of rows that are sorted at a time. A range that has more becomes several files."""

MOST_DEEP: Final = 8
"""The most large files that may have rows around the same key."""

_WORN: Final = 5
"""A file is written again if one row in five is dead."""

_SAMPLED_FILES: Final = 64
_SAMPLED_GROUPS: Final = 32
_SAMPLED_ROWS: Final = 32
"""The files, the row groups of each and the rows of each that the ranges are estimated from."""

_PAUSES: Final = (0.0, 0.0, 0.5, 2.0)
"""Seconds before each try."""

SortKey: TypeAlias = tuple[Comparable, ...]
"""The values of the first columns by which rows are sorted."""


class Span(NamedTuple):
    """Rows from a place up to, and without, another one; ``None`` is no limit. NULL and NaN come last."""

    lower: SortKey | None = None
    upper: SortKey | None = None

    def has(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
        """Which rows are within? ``columns`` are those of the order."""
        found = pa.repeat(True, len(columns[0]))
        if self.upper is not None:
            found = pc.and_(found, _before(columns, self.upper))
        if self.lower is not None:
            found = pc.and_(found, pc.invert(_before(columns, self.lower)))
        return found

    def may_have(self, stats: Sequence[ColumnStats | None]) -> bool:
        """May rows with these statistics of the columns be within?"""
        bounds = bounds_of(stats)
        if bounds is None:
            return True
        lower, upper = bounds
        below = self.lower is not None and upper < self.lower[: len(upper)]
        above = self.upper is not None and lower > self.upper[: len(lower)]
        return not (below or above)


def _before(columns: Sequence[pa.Array | pa.ChunkedArray], place: SortKey) -> pa.Array:
    """Which rows come before a place?"""
    less, equal = pa.repeat(False, len(columns[0])), pa.repeat(True, len(columns[0]))
    for values, limit in zip(columns, place, strict=False):
        compared = comparable(values)
        bound = pa.scalar(limit, compared.type)
        less = pc.or_(less, pc.and_(equal, pc.fill_null(pc.less(compared, bound), False)))
        equal = pc.and_(equal, pc.fill_null(pc.equal(compared, bound), False))
    return less


def bounds_of(stats: Sequence[ColumnStats | None]) -> tuple[SortKey, SortKey] | None:
    """The first and the last place that rows can have, as far as columns tell; ``None`` if the first column does not.

    A column after the first tells something only where all columns before it have one value.
    """
    lower: list[Comparable] = []
    upper: list[Comparable] = []
    for each in stats:
        if each is None or each.nulls != 0 or each.lower is None or each.upper is None:
            break
        lower.append(each.lower)
        upper.append(each.upper)
        if each.lower != each.upper:
            break
    return (tuple(lower), tuple(upper)) if lower else None


@dataclass(frozen=True, slots=True)
class CompactPiece:
    """Write the rows of a range of keys to a file of their own. ``stored`` has the files that may have such rows."""

    stored: StoredTable
    order: tuple[str, ...]
    span: Span
    label: str

    def run(self) -> Written:
        """Read, sort, write."""
        added, size = [], 0
        read: list[pa.Table] = []
        for rows in self._rows():
            read.append(rows)
            size += rows.nbytes
            if size > _AT_ONCE:
                added += self._written(read)
                read, size = [], 0
        return Written((*added, *self._written(read)))

    def _rows(self) -> Iterator[pa.Table]:
        columns = [self.stored.column(name) for name in self.order]
        for file in self.stored.files:
            dead = dead_positions(file, self.stored.access)

            def wanted(stats: Sequence[ColumnStats | None]) -> bool:
                return self.span.may_have(stats)

            for rows in kept_rows(self.stored, file, dead, columns, wanted):
                if self.span != Span():
                    rows = rows.filter(self.span.has([rows[column.name] for column in columns]))
                if rows.num_rows:
                    yield rows

    def _written(self, read: Sequence[pa.Table]) -> list[Any]:
        if not read:
            return []
        return write_rows(self.stored, sorted_rows(pa.concat_tables(read), self.order), self.label)


def compact(
    target: Target,
    name: TableName,
    tag: CommitTag | None = None,
    schema: TableSchema | None = None,
    mode: Mode = Mode.MIRROR,
) -> bool:
    """Put a table in order; False if there was nothing to do.

    Without a ``schema`` the order of rows is not known, and files are only joined.
    """
    if tag is not None:
        target.check_epoch(name, tag)
    for number, pause in enumerate(_PAUSES):
        time.sleep(pause)
        try:
            return _compacted(target, name, tag, schema, mode)
        except Retry as error:
            if number == len(_PAUSES) - 1:
                raise SyncError(
                    f"{name} could not be compacted: {error}, {len(_PAUSES)} times. The next maintenance tries again"
                ) from error
    raise AssertionError


def _compacted(target: Target, name: TableName, tag: CommitTag | None, schema: TableSchema | None, mode: Mode) -> bool:
    table = target.stored(name)
    order = _order(table, schema, mode)
    table = replace(table, key=order)
    sets = chosen(table, mode if schema is not None else Mode.MIRROR)
    if sets and table.has_lineage and any(file.lineage is None for files in sets for file in files):
        table = replace(target.stored(name, listed=True), key=order)
        sets = chosen(table, mode if schema is not None else Mode.MIRROR)
        # Rows from before the table had this version of the format get their ids with its next commit.
        sets = [files for files in sets if all(file.lineage is not None for file in files)]
    if not sets:
        return False
    order = table.order or order
    label = f"{0 if tag is None else tag.epoch:08}"
    pieces = [
        CompactPiece(_with(table, files, order, span), order, span, label)
        for files in sets
        for span in spans(table, files, order)
    ]
    rows = sum(file.rows for files in sets for file in files)
    result = run_pieces(pieces, rows, target.context if rows > FEW_CHANGES else None)
    removed = tuple(file.path for files in sets for file in files)
    target.replace(name, FileChange(table, result.added, removed=removed), tag)
    return True


def _order(table: StoredTable, schema: TableSchema | None, mode: Mode) -> tuple[str, ...]:
    """The columns that rows are in order of. A column that was renamed since is not known yet."""
    known = {column.name.lower() for column in table.columns}
    names = () if schema is None else LAYOUTS[mode].order(stored_schema(schema))
    return tuple(table.column(name).name for name in names if name.lower() in known)


def _with(table: StoredTable, files: Sequence[DataFile], order: Sequence[str], span: Span) -> StoredTable:
    """A table with the files that may have rows of a range."""
    columns = [table.column(name) for name in order]
    return replace(table, files=tuple(file for file in files if span.may_have(_stats(file, columns))))


def _stats(file: DataFile, columns: Sequence[StoredColumn]) -> list[ColumnStats | None]:
    return [file.stats.get(column.id) for column in columns]


# Which files


def chosen(table: StoredTable, mode: Mode) -> list[list[DataFile]]:
    """The files that are written again, those that are merged with each other in one list."""
    groups = alike(LAYOUTS[mode], table)
    return [files for group in groups for files in _chosen(table, group)]


def _chosen(table: StoredTable, files: Sequence[DataFile]) -> Iterator[list[DataFile]]:
    worn = [file for file in files if file.rows < _WORN * (file.rows - file.live) or not file.is_counted]
    width = sum(_bits(column.type) for column in table.columns) / 8
    small = [file for file in files if _is_small(file, width) and file not in worn]
    first = [*worn, *small] if len(small) >= FEW_FILES or worn else []
    if first:
        yield first
    left = [file for file in files if file not in first and not _is_small(file, width)]
    columns = [table.column(name) for name in table.order or table.key]
    known = {file.path: bounds for file in left if (bounds := bounds_of(_stats(file, columns))) is not None}
    while len(deep := _deepest(known)) > MOST_DEEP:
        yield [file for file in left if file.path in deep]
        for path in deep:
            del known[path]


def _is_small(file: DataFile, width: float) -> bool:
    """Is a file worth joining with others? A row takes ``width`` bytes of memory at least."""
    return file.size < _SMALL and file.rows < _SMALL_ROWS and file.rows * width < _SMALL_MEMORY


def _bits(type_: pa.DataType) -> int:
    """How many bits a value takes in memory at least."""
    return int(type_.bit_width) if pa.types.is_primitive(type_) or pa.types.is_decimal(type_) else 32


def _deepest(known: dict[str, tuple[SortKey, SortKey]]) -> set[str]:
    """The largest set of files that have rows around one place. A file whose rows have one place is in no set."""
    events = sorted(
        event
        for path, (lower, upper) in known.items()
        if lower != upper
        for event in ((lower, 1, path), (upper, 0, path))
    )
    now: set[str] = set()
    most: set[str] = set()
    for _, begins, path in events:
        if begins:
            now.add(path)
            most = set(now) if len(now) > len(most) else most
        else:
            now.discard(path)
    return most


# Ranges


def spans(table: StoredTable, files: Sequence[DataFile], order: Sequence[str]) -> list[Span]:
    """Ranges of keys with about as many rows each."""
    live = [file.live / max(file.rows, 1) for file in files]
    size = sum(file.size * share for file, share in zip(files, live, strict=True))
    count = max(1, -(-int(size) // _RANGE_BYTES), -(-sum(file.live for file in files) // _RANGE_ROWS))
    columns = [table.column(name) for name in order]
    if count == 1 or not columns or any(pa.types.is_floating(column.type) for column in columns):
        return [Span()]
    limits = _cuts(table, files, columns, count)
    return [Span(lower, upper) for lower, upper in zip([None, *limits], [*limits, None], strict=True)]


def _cuts(table: StoredTable, files: Sequence[DataFile], columns: Sequence[StoredColumn], count: int) -> list[SortKey]:
    """Where ranges of keys begin, estimated from a sample of rows."""
    step = -(-len(files) // _SAMPLED_FILES)
    samples, weights = [], []
    for file in files[::step]:
        rows = _sampled(table, file, columns)
        if rows.num_rows:
            samples.append(rows)
            weights.append(np.full(rows.num_rows, file.live / rows.num_rows))
    if not samples:
        return []
    rows = pa.concat_tables(samples)
    ordered = pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in rows.column_names])
    heavy = np.cumsum(np.concatenate(weights)[ordered.to_numpy()])
    places = np.searchsorted(heavy, heavy[-1] * np.arange(1, count) / count)
    chosen = rows.take(ordered.take(pa.array(np.minimum(places, rows.num_rows - 1))))
    found = (tuple(row.values()) for row in chosen.to_pylist())
    return list(dict.fromkeys(place for place in found if None not in place))


def _sampled(table: StoredTable, file: DataFile, columns: Sequence[StoredColumn]) -> pa.Table:
    """Some rows of a file, their columns as they are compared."""
    names = [str(number) for number in range(len(columns))]
    with Opened(file, table.access) as opened:
        count = len(opened.group_rows)
        parts = []
        for group in sorted({int(place) for place in np.linspace(0, count - 1, min(count, _SAMPLED_GROUPS))}):
            read = pa.table([comparable(values) for values in opened.read([group], columns)], names=names)
            places = np.linspace(0, read.num_rows - 1, min(read.num_rows, _SAMPLED_ROWS)).astype(np.int64)
            parts.append(read.take(pa.array(places)))
    return pa.concat_tables(parts) if parts else pa.table({})
