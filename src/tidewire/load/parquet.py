"""Parquet files of a dump."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidewire.load.rows import Rows

_ROWS: Final = 65_536


def read_parquet(stream: BinaryIO) -> Iterator[Rows]:
    """The rows of a file; a row's line is its number."""
    at = 0
    with pq.ParquetFile(stream) as file:
        for batch in file.iter_batches(_ROWS, use_threads=False):
            lines = pa.array(range(at, at + batch.num_rows), pa.int64())
            yield Rows(tuple(batch.schema.names), tuple(batch.columns), lines)
            at += batch.num_rows
