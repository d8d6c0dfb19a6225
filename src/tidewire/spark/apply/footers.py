"""What the footers of data files say: where their row groups begin, and which values of a key each of them has.

Data files never change, so their footers are read once and kept, the last ones used, up to a number of bytes. A search
in a large table so opens only the row groups that it reads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidewire.spark.apply.keys import Bounds, Numbers
from tidewire.spark.targets.files import ColumnStats, DataFile, StoredColumn, comparable, parquet_columns

_MOST_BYTES: Final = 32 << 20
"""The bytes of footers that are kept. In memory they take about eight times as much."""


class Footer(NamedTuple):
    """The footer of a data file. ``starts`` has the position of the first row of each row group, and the end."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    starts: Numbers
    bounds: dict[tuple[int, pa.DataType], Bounds | None]

    def bounds_of(self, column: StoredColumn) -> Bounds | None:
        """The bounds of a column in each row group, in the type that it has in the table now."""
        at = (column.id, column.type)
        if at not in self.bounds:
            self.bounds[at] = self._bounds(column)
        return self.bounds[at]

    def stats_of(self, column: StoredColumn) -> list[ColumnStats | None]:
        """The statistics of a column in each row group; ``None`` if they say nothing."""
        bounds = self.bounds_of(column)
        if bounds is None:
            return [None] * self.metadata.num_row_groups
        found = zip(bounds.nulls, bounds.lower.to_pylist(), bounds.upper.to_pylist(), strict=True)
        return [None if lower is None else ColumnStats(nulls, lower, upper) for nulls, lower, upper in found]

    def _bounds(self, column: StoredColumn) -> Bounds | None:
        (place,) = parquet_columns(self.schema, [column])
        if place is None or pa.types.is_floating(column.type):
            return None
        name, leaves = self.schema.field(place).name, self.metadata.schema
        leaf = next((leaf for leaf in range(self.metadata.num_columns) if leaves.column(leaf).path == name), None)
        if leaf is None:
            return None
        groups = range(self.metadata.num_row_groups)
        stats = [self.metadata.row_group(group).column(leaf).statistics for group in groups]
        known = [None if each is None or not each.has_min_max else each for each in stats]
        try:
            lower = comparable(pa.array([None if each is None else each.min for each in known], column.type))
            upper = comparable(pa.array([None if each is None else each.max for each in known], column.type))
        except (pa.ArrowException, NotImplementedError, ValueError, TypeError, OverflowError):
            return None
        nulls = [None if each is None or not each.has_null_count else each.null_count for each in known]
        return Bounds(lower, upper, tuple(nulls))


class _Footers:
    """The footers used last. Threads share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int], Footer] = OrderedDict()
        self._bytes = 0

    def of(self, file: DataFile, source: Any) -> Footer:
        """The footer of a file, which is open."""
        at = (file.path, file.size)
        with self._lock:
            found = self._kept.get(at)
            if found is not None:
                self._kept.move_to_end(at)
                return found
        found = _read(source)
        with self._lock:
            if at not in self._kept:
                self._kept[at] = found
                self._bytes += found.metadata.serialized_size
            while self._bytes > _MOST_BYTES and len(self._kept) > 1:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= oldest.metadata.serialized_size
        return found


def _read(source: Any) -> Footer:
    metadata = pq.read_metadata(source)
    rows: Sequence[int] = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return Footer(metadata, metadata.schema.to_arrow_schema(), np.cumsum([0, *rows]), {})


_footers: Final = _Footers()


def footer_of(file: DataFile, source: Any) -> Footer:
    """The footer of a data file, which is open."""
    return _footers.of(file, source)
