"""Rows that a table has: found by their keys, read at their positions.

Only the columns of the key are read, and only of row groups whose bounds a key can be in. A file of rows in order of
their keys so costs what is looked for in it, not what it holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from tidewire.spark.apply.footers import footer_of
from tidewire.spark.apply.keys import Keys, Numbers
from tidewire.spark.targets.files import (
    ColumnStats,
    DataFile,
    FileAccess,
    StoredColumn,
    dead_positions,
    parquet_columns,
    repeated,
)
from tidewire.spark.targets.partitions import PartitionField, may_be_in

_AT_ONCE: Final = 262_144
"""The least rows that are compared at a time; more if more keys are looked for, because numbering them takes time."""


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
            for groups in opened.runs(key, keys, max(_AT_ONCE, 4 * len(keys))):
                rows, ids = keys.find(opened.read(groups, key))
                if len(rows):
                    found = opened.positions(groups, rows)
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
                    inside = positions[slice(*np.searchsorted(positions, [first, first + count]))]
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
        self._footer = footer_of(file, self._source)
        self._parquet = pq.ParquetFile(self._source, metadata=self._footer.metadata)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self._parquet.close()
        self._source.close()

    @property
    def group_rows(self) -> list[int]:
        """How many rows each row group has."""
        found: list[int] = np.diff(self._footer.starts).tolist()
        return found

    @property
    def memory(self) -> int:
        """About how many bytes its values take in memory."""
        metadata = self._footer.metadata
        return sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))

    def runs(self, key: Sequence[StoredColumn], keys: Keys, rows: int) -> Iterator[list[int]]:
        """The row groups that may have one of the keys, some at a time."""
        count = self._footer.metadata.num_row_groups
        hit = np.flatnonzero(keys.may_be_within([self._footer.bounds_of(column) for column in key], count))
        run: list[int] = []
        sizes, waiting = np.diff(self._footer.starts)[hit].tolist(), 0
        for group, size in zip(hit.tolist(), sizes, strict=True):
            run.append(group)
            waiting += size
            if waiting >= rows:
                yield run
                run, waiting = [], 0
        if run:
            yield run

    def groups(self, key: Sequence[StoredColumn], wanted: Wanted) -> Iterator[tuple[int, int, int]]:
        """The row groups that are wanted, by the statistics of their key columns.

        Each comes with the position of its first row, and how many rows it has.
        """
        stats = [self._footer.stats_of(column) for column in key]
        for group, count in enumerate(self.group_rows):
            if wanted([each[group] for each in stats]):
                yield group, int(self._footer.starts[group]), count

    def positions(self, groups: Sequence[int], rows: Numbers) -> Numbers:
        """Where the rows of some row groups are in the file, given their places among the rows of these groups."""
        starts = self._footer.starts[groups]
        before = np.cumsum([0, *np.diff(self._footer.starts)[groups]])
        at = np.searchsorted(before, rows, side="right") - 1
        found: Numbers = rows - before[at] + starts[at]
        return found

    def read(self, groups: Sequence[int], columns: Sequence[StoredColumn]) -> list[pa.Array]:
        """The values of columns in row groups, in the types that the table has now. A missing one has its default."""
        schema = self._footer.schema
        places = parquet_columns(schema, columns)
        names = [schema.field(place).name for place in places if place is not None]
        rows = self._parquet.read_row_groups(groups, columns=names, use_threads=False)
        count = int(np.diff(self._footer.starts)[groups].sum())
        found = []
        for column, place in zip(columns, places, strict=True):
            if place is None:
                found.append(repeated(self._constants.get(column.id, column.initial), column.type, count))
                continue
            values = rows[schema.field(place).name].combine_chunks()
            found.append(values if values.type == column.type else values.cast(column.type))
        return found


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
