"""Whole columns are read at once; here the values that a reader does not take are found.

A *reader* takes the values of one column, a sequence with ``None`` for NULL or an array, and gives one array; it raises
where it does not take a value. :func:`read_column` calls it on all values. When that fails it leaves out the values
that the reader named, or else halves, until each value that is not taken is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

Reader = Callable[[Any], pa.Array]
InvalidValues = dict[int, str]
"""The rows whose value is not taken, and why."""

READ_ERRORS: Final = (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError, IndexError, AttributeError)
"""What a reader may raise."""


class InvalidRows(ValueError):
    """The values of these rows are not taken."""

    def __init__(self, rows: Sequence[int], reason: str) -> None:
        super().__init__(reason)
        self.rows = rows


def read_column(values: Sequence[Any], read: Reader, type_: pa.DataType) -> tuple[pa.Array, InvalidValues]:
    """The array of all values, NULL if one is not taken, and which those are."""
    try:
        return read(values), {}
    except READ_ERRORS as error:
        if len(values) == 1:
            return pa.nulls(1, type_), {0: _reason(error)}
        if isinstance(error, InvalidRows):
            array, invalid = read_column(without(values, error.rows), read, type_)
            return array, invalid | dict.fromkeys(error.rows, _reason(error))
    middle = len(values) // 2
    first, invalid = read_column(values[:middle], read, type_)
    second, more = read_column(values[middle:], read, type_)
    return pa.concat_arrays([first, second]), invalid | {middle + row: reason for row, reason in more.items()}


def without(values: Sequence[Any], rows: Sequence[int]) -> Sequence[Any]:
    """The values with NULL in these rows."""
    if isinstance(values, pa.Array):
        lost = pa.array(without([False] * len(values), rows)).is_null()
        array: Sequence[Any] = pc.if_else(lost, pa.scalar(None, values.type), values)
        return array
    kept = list(values)
    for row in rows:
        kept[row] = None
    return kept


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def demand(valid: pa.BooleanArray, reason: str) -> None:
    """Raise :class:`InvalidRows` where any is false."""
    if not pc.all(valid, min_count=0).as_py():
        raise InvalidRows(pc.indices_nonzero(pc.invert(valid)).to_pylist(), reason)
