"""Rows on their way from a file: columns of texts or typed values, and where each row stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa


class BadRow(NamedTuple):
    """A row that cannot be read. ``line`` counts from the beginning of what was read."""

    line: int
    reason: str
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one file.

    ``columns`` has an array for each of ``names``: the bytes of texts, or typed values out of a Parquet file. ``lines``
    are the rows' lines, counted from 0 at the beginning of what was read, and ``bad`` are rows between them that cannot
    be read.
    """

    names: tuple[str, ...]
    columns: tuple[pa.Array, ...]
    lines: pa.Array
    bad: tuple[BadRow, ...] = ()

    def __len__(self) -> int:
        return len(self.lines)
