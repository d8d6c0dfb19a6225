"""Staged files for tests: changes in Python's words, written as a task of a sync writes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sync.reduce import Change
from tidewire.arrow.types import arrow_type
from tidewire.model import Position, TableSchema
from tidewire.sync.manifest import Partition, StagedFile
from tidewire.sync.steps import Slice

Row = Mapping[str, Any]

_NUMBERS = count()
END = 2**62


def change(ts: int, offset: int, before: Row | None = None, after: Row | None = None, sub: int = 0) -> Change:
    """A change at an offset of the topic."""
    return Change(ts, Position("topic", 0, offset), sub, before, after)


def stage(
    folder: Path, shape: TableSchema, changes: Iterable[Change], *, from_ts: int = 0, to_ts: int = END, number: int = 0
) -> Slice:
    """A file of changes, and the slice of it within bounds. A value that an image leaves out is absent."""
    rows = list(changes)
    image = pa.struct([(column.name, arrow_type(column)) for column in shape.columns])
    names = [column.name for column in shape.columns]
    table = pa.table(
        {
            "_op": pa.array([0 if row.before is None else 2 if row.after is None else 1 for row in rows], pa.int8()),
            "_ts": pa.array([row.ts for row in rows], pa.int64()),
            "_offset": pa.array([row.at.offset for row in rows], pa.int64()),
            "_sub": pa.array([row.sub for row in rows], pa.int32()),
            "_partition": pa.nulls(len(rows), pa.int64()),
            "after": pa.array([row.after for row in rows], image),
            "before": pa.array([row.before for row in rows], image),
            "_absent": pa.array([_absent(names, row.before) for row in rows], pa.list_(pa.int16())),
        }
    )
    path = folder / f"{next(_NUMBERS)}.parquet"
    pq.write_table(table, path, store_schema=False, coerce_timestamps="us")
    times, offsets = [row.ts for row in rows], [row.at.offset for row in rows]
    file = StagedFile(
        str(path),
        shape,
        Partition("topic", number),
        len(rows),
        min(times),
        max(times),
        min(offsets),
        max(offsets),
        memory=table.nbytes,
    )
    return Slice(file, from_ts, to_ts)


def _absent(names: list[str], image: Row | None) -> list[int] | None:
    if image is None or len(image) == len(names):
        return None
    return [number for number, name in enumerate(names) if name not in image]
