"""Rows that a table has: found by their keys, read at their positions.

Only the columns of the key are read, and only of row groups whose bounds a key can be in. A file of rows in order of
their keys so costs what is looked for in it, not what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from tidewire.spark.apply.keys import Keys, Numbers
from tidewire.spark.targets.files import (
    ColumnStats,
    DataFile,
    FileAccess,
    StoredColumn,
    comparable,
    dead_positions,
    parquet_columns,
    repeated,
)
from tidewire.spark.targets.partitions import PartitionField, may_be_in

_AT_ONCE: Final = 262_144
"""At least so many rows are compared at a time; more if more keys are looked for, because numbering them takes time."""


Wanted: TypeAlias = Callable[[Sequence[ColumnStats | None]], bool]
"""Is something wanted that has these statistics of its key columns?"""


class Found(NamedTuple):
    """Rows of a table, in order: the number of their file, their position in it, and the number of their key."""

    file: Numbers
    position: Numbers
    ids: Numbers

    def __len__(self) -> int:
        return len(self.file)

    def at(self, chosen: Numbers) -> Found:
        """Some of the rows."""
        return Found(self.file[chosen], self.position[chosen], self.ids[chosen])


@dataclass(slots=True)
class Search:
    """Looks for keys in data files."""

    files: Sequence[DataFile]
    access: FileAccess
    partition: Sequence[PartitionField] = ()
    _dead: dict[int, BitMap64] = field(default_factory=dict)

    def find(
        self, key: Sequence[StoredColumn], keys: Keys, wanted: Callable[[DataFile], bool] = lambda file: True
    ) -> Found:
        """The rows with one of the keys. Only ``wanted`` files are looked at."""
        parts = []
        in_partition = may_be_in(self.partition, [column.id for column in key], keys.values)
        for number, file in enumerate(self.files):
            if wanted(file) and in_partition(file) and keys.may_be_in([file.stats.get(column.id) for column in key]):
                parts += [
                    (np.full(len(positions), number), positions, ids)
                    for positions, ids in self._in_file(number, file, key, keys)
                ]
        return Found(*(_joined([part[place] for part in parts]) for place in range(3)))

    def _in_file(
        self, number: int, file: DataFile, key: Sequence[StoredColumn], keys: Keys
    ) -> Iterator[tuple[Numbers, Numbers]]:
        with Opened(file, self.access) as opened:
            for groups, positions in opened.runs(key, keys, max(_AT_ONCE, 4 * len(keys))):
                rows, ids = keys.find(opened.read(groups, key))
                if len(rows):
                    found = positions[rows]
                    alive = self._alive(number, file, found)
                    yield found[alive], ids[alive]

    def _alive(self, number: int, file: DataFile, positions: Numbers) -> Numbers:
        dead = self.dead_in(number, file)
        if not dead:
            return np.ones(len(positions), bool)
        return ~np.isin(positions, _numbers(dead), assume_unique=True)

    def dead_in(self, number: int, file: DataFile) -> BitMap64:
        """The dead positions of a file."""
        found = self._dead.get(number)
        if found is None:
            found = self._dead[number] = dead_positions(file, self.access)
        return found

    def rows(self, found: Found, columns: Sequence[StoredColumn]) -> list[pa.ChunkedArray]:
        """The values of columns of rows that were found, in the same order."""
        chunks: list[list[pa.Array]] = []
        for number in np.unique(found.file).tolist() if columns else ():
            positions = found.position[found.file == number]
            with Opened(self.files[number], self.access) as opened:
                first = 0
                for group, count in enumerate(opened.group_rows):
                    inside = positions[(positions >= first) & (positions < first + count)]
                    if len(inside):
                        places = pa.array(inside - first)
                        chunks.append([array.take(places) for array in opened.read([group], columns)])
                    first += count
        return [
            pa.chunked_array([chunk[place] for chunk in chunks], column.type) for place, column in enumerate(columns)
        ]

    def bitmaps(self, found: Found) -> dict[str, bytes]:
        """All dead positions of files, by path, once the rows that were found are dead too."""
        made = {}
        for number in np.unique(found.file).tolist():
            file = self.files[number]
            dead = self.dead_in(number, file) | BitMap64(found.position[found.file == number].tolist())
            made[file.path] = bytes(dead.serialize())
        return made


class Opened:
    """A data file that is being read."""

    def __init__(self, file: DataFile, access: FileAccess) -> None:
        self._constants = file.constants
        self._source = access.input(file.path)
        self._parquet = pq.ParquetFile(self._source)
        self._schema = self._parquet.schema_arrow

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self._parquet.close()
        self._source.close()

    @property
    def group_rows(self) -> list[int]:
        """How many rows each row group has."""
        metadata = self._parquet.metadata
        return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]

    def runs(self, key: Sequence[StoredColumn], keys: Keys, rows: int) -> Iterator[tuple[list[int], Numbers]]:
        """The row groups that may have one of the keys, some at a time, with the positions of their rows."""
        run: list[int] = []
        positions: list[Numbers] = []
        for group, first, count in self.groups(key, keys.may_be_in):
            run.append(group)
            positions.append(np.arange(first, first + count))
            if sum(map(len, positions)) >= rows:
                yield run, np.concatenate(positions)
                run, positions = [], []
        if run:
            yield run, np.concatenate(positions)

    def groups(self, key: Sequence[StoredColumn], wanted: Wanted) -> Iterator[tuple[int, int, int]]:
        """The row groups that are wanted, by the statistics of their key columns.

        Each comes with the position of its first row, and how many rows it has.
        """
        first, metadata = 0, self._parquet.metadata
        leaves = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
        places = [
            None if place is None else leaves.get(self._schema.field(place).name)
            for place in parquet_columns(self._schema, key)
        ]
        for group in range(metadata.num_row_groups):
            facts = metadata.row_group(group)
            stats = [
                None if place is None else _bounds(facts.column(place), column.type)
                for place, column in zip(places, key, strict=True)
            ]
            if wanted(stats):
                yield group, first, facts.num_rows
            first += facts.num_rows

    def read(self, groups: Sequence[int], columns: Sequence[StoredColumn]) -> list[pa.Array]:
        """The values of columns in row groups, in the types that the table has now. A missing one has its default."""
        places = parquet_columns(self._schema, columns)
        names = [self._schema.field(place).name for place in places if place is not None]
        rows = self._parquet.read_row_groups(groups, columns=names, use_threads=False)
        count = sum(self._parquet.metadata.row_group(group).num_rows for group in groups)
        found = []
        for column, place in zip(columns, places, strict=True):
            if place is None:
                found.append(repeated(self._constants.get(column.id, column.initial), column.type, count))
                continue
            values = rows[self._schema.field(place).name].combine_chunks()
            found.append(values if values.type == column.type else values.cast(column.type))
        return found


def _bounds(facts: Any, type_: pa.DataType) -> ColumnStats | None:
    """The bounds of a column in a row group, from the file's footer; ``None`` if they say nothing."""
    stats = facts.statistics
    if stats is None or not stats.has_min_max or pa.types.is_floating(type_):
        return None
    try:
        found = comparable(pa.array([stats.min, stats.max], type_)).to_pylist()
    except (pa.ArrowException, NotImplementedError, ValueError, TypeError, OverflowError):
        return None
    return ColumnStats(stats.null_count if stats.has_null_count else None, found[0], found[1])


def live_rows(
    file: DataFile,
    access: FileAccess,
    columns: Sequence[StoredColumn],
    dead: BitMap64,
    key: Sequence[StoredColumn] = (),
    wanted: Wanted = lambda _: True,
) -> Iterator[tuple[Numbers, pa.Table]]:
    """The rows of a file that are not dead, with their positions, row group by row group.

    ``wanted`` chooses row groups by the statistics of the ``key`` columns.
    """
    gone = _numbers(dead)
    with Opened(file, access) as opened:
        for group, first, count in opened.groups(key, wanted):
            positions = np.arange(first, first + count)
            alive = ~np.isin(positions, gone, assume_unique=True)
            rows = pa.Table.from_arrays(opened.read([group], columns), names=[column.name for column in columns])
            yield positions[alive], rows if alive.all() else rows.filter(pa.array(alive))


def _numbers(bitmap: BitMap64) -> Numbers:
    return np.frombuffer(bitmap.to_array(), np.uint64).astype(np.int64)


def _joined(arrays: Sequence[Numbers]) -> Numbers:
    return np.concatenate(arrays).astype(np.int64, copy=False) if arrays else np.zeros(0, np.int64)
