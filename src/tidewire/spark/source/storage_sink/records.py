"""The records in a file of rows: where each one is, and its bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class Record(NamedTuple):
    """One record with its terminator, and the line, counted from 1, that it begins in."""

    line: int
    data: bytes


def records(data: bytes, terminator: bytes, quote: bytes = b"") -> Iterator[Record]:
    """The records of a file. A terminator between quotes is part of a value; the last record may lack its own.

    >>> [record.line for record in records(b"1,'a\\nb'\\n2,c\\n", b"\\n", b"'")]
    [1, 3]
    """
    line, start = 1, 0
    while start < len(data):
        end = _end(data, start, terminator, quote)
        yield Record(line, data[start:end])
        line += data.count(b"\n", start, end)
        start = end


def _end(data: bytes, start: int, terminator: bytes, quote: bytes) -> int:
    """Where the record that begins at a place ends."""
    at, open_ = start, False
    while True:
        found = data.find(terminator, at)
        if found < 0:
            return len(data)
        if quote and data.count(quote, at, found) % 2:
            open_ = not open_
        at = found + len(terminator)
        if not open_:
            return at
