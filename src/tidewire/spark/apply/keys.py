"""Keys as numbers: equal keys have equal numbers, byte for byte, in staged rows and in stored rows alike."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidewire.spark.targets.files import ColumnStats, Comparable, comparable

Numbers: TypeAlias = npt.NDArray[Any]


class Keys:
    """The distinct keys of some rows, each with a number. ``ids`` has the number of each row's key.

    A column's values are numbered by a hash table. The numbers of several columns are combined one by one, and
    numbered anew each time, so that they never overflow.
    """

    def __init__(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> None:
        self._values: list[pa.Array] = []
        self._pairs: list[Numbers] = []
        ids: Numbers | None = None
        for column in columns:
            encoded = _flat(_canonical(column)).dictionary_encode(null_encoding="encode")
            self._values.append(encoded.dictionary)
            codes = encoded.indices.to_numpy().astype(np.int64, copy=False)
            if ids is None:
                ids = codes
            else:
                known, ids = np.unique(ids * len(encoded.dictionary) + codes, return_inverse=True)
                self._pairs.append(known)
        assert ids is not None
        self.ids: Numbers = ids
        self._ranges = [SortedValues(values) for values in self._values]

    @property
    def values(self) -> list[pa.Array]:
        """The distinct values of each column."""
        return self._values

    def __len__(self) -> int:
        return len(self._pairs[-1]) if self._pairs else len(self._values[0])

    def find(self, columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Numbers, Numbers]:
        """The rows that have one of these keys: their places, and the numbers of their keys."""
        rows: Numbers | None = None
        found: Numbers | None = None
        for number, (values, column) in enumerate(zip(self._values, columns, strict=True)):
            array = _flat(_canonical(column))
            values = values if values.type == array.type else values.cast(array.type)  # another program widened it
            if rows is not None:
                array = array.take(pa.array(rows))
            kept, codes = _in_order(array, values) if rows is None else _places(array, values)
            rows = kept if rows is None else rows[kept]
            if found is None:
                found = codes
                continue
            pairs = found[kept] * len(values) + codes
            known = self._pairs[number - 1]
            at = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
            same = np.flatnonzero(known[at] == pairs) if len(known) else np.zeros(0, np.int64)
            rows, found = rows[same], at[same]
        assert rows is not None
        assert found is not None
        return rows, found

    def may_be_within(self, bounds: Sequence[Bounds | None], count: int) -> Numbers:
        """In which of so many parts of a file can one of the keys be, given the bounds of the columns in each?"""
        found = np.ones(count, bool)
        for range_, each in zip(self._ranges, bounds, strict=True):
            if each is not None:
                found &= range_.any_within(each)
        return found

    def may_be_in(self, stats: Sequence[ColumnStats | None]) -> bool:
        """Can one of the keys be among rows with these statistics of their key columns?"""
        return all(
            each is None or range_.any_between(each.lower, each.upper)
            for range_, each in zip(self._ranges, stats, strict=True)
        )


class Bounds(NamedTuple):
    """The least and the largest value of a column in each part of a file, as they are compared. NULL if unknown.

    ``nulls`` has how many values are NULL, as far as that is known.
    """

    lower: pa.Array
    upper: pa.Array
    nulls: Sequence[int | None] = ()


class SortedValues:
    """Distinct values of a column, in order."""

    def __init__(self, values: pa.Array) -> None:
        self._unsorted: pa.Array | None = values
        self._numbers: Numbers | None = None
        self._values = values

    def any_between(self, lower: Comparable | None, upper: Comparable | None) -> bool:
        """Is there a value from ``lower`` to ``upper``? Unknown bounds say nothing."""
        if lower is None or upper is None:
            return True
        self._sort()
        if self._numbers is not None and not isinstance(lower, bytes | Decimal):
            numbers = self._numbers
            at = int(np.searchsorted(numbers, lower))
            return at < len(numbers) and bool(numbers[at] <= upper)
        values = self._values

        def value(place: int) -> Any:
            return values[place].as_py()

        at = bisect_left(range(len(values)), lower, key=value)
        return at < len(values) and bool(value(at) <= upper)

    def any_within(self, bounds: Bounds) -> Numbers:
        """For each part of a file: is there a value within its bounds?"""
        self._sort()
        numbers, lower, upper = self._numbers, bounds.lower, bounds.upper
        if numbers is None or not pa.types.is_integer(lower.type):
            pairs = zip(lower.to_pylist(), upper.to_pylist(), strict=True)
            return np.array([self.any_between(*pair) for pair in pairs], bool)
        unknown = pc.or_(lower.is_null(), upper.is_null()).to_numpy(zero_copy_only=False)
        if not len(numbers):
            return np.asarray(unknown)
        at = np.searchsorted(numbers, pc.fill_null(lower, 0).to_numpy(zero_copy_only=False))
        inside = numbers[np.minimum(at, len(numbers) - 1)] <= pc.fill_null(upper, 0).to_numpy(zero_copy_only=False)
        found: Numbers = unknown | ((at < len(numbers)) & inside)
        return found

    def _sort(self) -> None:
        """Sorting takes time, and many tables have nothing to search in."""
        if self._unsorted is None:
            return
        values = comparable(self._unsorted).drop_null()
        self._values = values.take(pc.sort_indices(values))
        if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
            self._numbers = self._values.to_numpy(zero_copy_only=False)
        self._unsorted = None


def _places(array: pa.Array, values: pa.Array) -> tuple[Numbers, Numbers]:
    """The rows that have one of some values, and the number of the value."""
    places = pc.fill_null(pc.index_in(array, value_set=values), -1).to_numpy(zero_copy_only=False)
    kept = np.flatnonzero(places >= 0)
    return kept, places[kept].astype(np.int64)


def _in_order(array: pa.Array, values: pa.Array) -> tuple[Numbers, Numbers]:
    """The rows that have a value of the first column of a key, and its number.

    A file has its rows in order of their key: then each value is looked for, and not each row.
    """
    if not pa.types.is_integer(array.type) or array.null_count or values.null_count or not len(values):
        return _places(array, values)
    numbers, wanted = array.to_numpy(), values.to_numpy()
    if len(numbers) < len(wanted) or not bool(np.all(numbers[1:] >= numbers[:-1])):
        return _places(array, values)
    order = np.argsort(wanted)
    first, last = (np.searchsorted(numbers, wanted[order], side) for side in ("left", "right"))
    counts = last - first
    codes = np.repeat(order, counts)
    return np.arange(len(codes)) + np.repeat(first - (np.cumsum(counts) - counts), counts), codes


def _canonical(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Values that are equal are the same bytes: there is one zero."""
    return pc.add(column, pa.scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


def _flat(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
