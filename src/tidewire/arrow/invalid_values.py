"""Whole columns are read at once; here the values that do not fit are found.

A *reader* takes the values of one column, a sequence with ``None`` for NULL or an array, and gives one array; it raises
where any value does not fit. :func:`fitting` calls it on everything. When that fails it leaves out the values that the
reader named, tries those alone that it only pointed at, or else halves, until what does not fit is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

Reader = Callable[[Any], pa.Array]
Misfits = dict[int, str]
"""The rows whose value does not fit, and why."""

MISFIT: Final = (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError, IndexError, AttributeError)
"""What a reader may raise."""

_FEW: Final = 8
"""One in so many values may be tried alone; of more, halving finds the bad ones sooner."""


class Suspects(ValueError):
    """The values of these rows do not fit: surely, or probably."""

    def __init__(self, rows: Sequence[int], reason: str, *, sure: bool) -> None:
        super().__init__(reason)
        self.rows = rows
        self.sure = sure


def fitting(values: Sequence[Any], read: Reader, type_: pa.DataType) -> tuple[pa.Array, Misfits]:
    """The array of all values, NULL where one does not fit, and which those are."""
    try:
        return read(values), {}
    except MISFIT as error:
        if len(values) == 1:
            return pa.nulls(1, type_), {0: _reason(error)}
        if isinstance(error, Suspects):
            if error.sure:
                array, bad = fitting(without(values, error.rows), read, type_)
                return array, bad | dict.fromkeys(error.rows, _reason(error))
            if len(error.rows) <= len(values) // _FEW:
                return _tried(values, error.rows, read, type_)
    middle = len(values) // 2
    first, bad = fitting(values[:middle], read, type_)
    second, more = fitting(values[middle:], read, type_)
    return pa.concat_arrays([first, second]), bad | {middle + row: reason for row, reason in more.items()}


def _tried(values: Sequence[Any], rows: Sequence[int], read: Reader, type_: pa.DataType) -> tuple[pa.Array, Misfits]:
    """Each suspect read alone, and all others together."""
    array, bad = fitting(without(values, rows), read, type_)
    cleared = {}
    for row in rows:
        alone, wrong = fitting(values[row : row + 1], read, type_)
        if wrong:
            bad[row] = wrong[0]
        else:
            cleared[row] = alone
    if cleared:
        mask = pa.array([row in cleared for row in range(len(values))])
        array = pc.replace_with_mask(array, mask, pa.concat_arrays([cleared[row] for row in sorted(cleared)]))
    return array, bad


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


def demand(fits: pa.BooleanArray, reason: str, *, sure: bool = True) -> None:
    """Raise :class:`Suspects` where any is false."""
    if not pc.all(fits, min_count=0).as_py():
        raise Suspects(pc.indices_nonzero(pc.invert(fits)).to_pylist(), reason, sure=sure)


def texts(read: Reader) -> Reader:
    """A reader of strings that, where it fails, names those that are no text in UTF-8."""

    def named(values: Any) -> pa.Array:
        try:
            return read(values)
        except MISFIT:
            listed = values.to_pylist() if isinstance(values, pa.Array) else values
            wrong = [row for row, value in enumerate(listed) if value is not None and not _is_text(value)]
            if wrong:
                raise Suspects(wrong, "not text in UTF-8", sure=True) from None
            raise

    return named


def _is_text(value: Any) -> bool:
    try:
        str(value, "utf-8") if isinstance(value, bytes) else value.encode()
    except (UnicodeError, AttributeError):
        return False
    return True


def pointing(read: Reader, pattern: str) -> Reader:
    """A reader of texts that, where it fails, points at those that do not look as the pattern says.

    The pattern is of the usual form: not every text it does not match is wrong, nor is every other one right.
    """

    def pointed(values: Any) -> pa.Array:
        try:
            return read(values)
        except MISFIT as error:
            if isinstance(error, Suspects) or len(values) == 1:
                raise
            try:
                usual = pc.match_substring_regex(pa.array(values, pa.string()), pattern)
            except MISFIT:
                raise error from None
            demand(usual, _reason(error), sure=False)
            raise

    return pointed
