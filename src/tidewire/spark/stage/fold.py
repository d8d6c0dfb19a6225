"""Few files instead of many: the staged rows of a table that waits for long.

Every pass stages a file or more for each table. A table that is held gathers them, and each one is named in every plan.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from tidewire.spark.stage.files import GROUP_ROWS, PARQUET
from tidewire.storage import Storage
from tidewire.sync.manifest import StagedFile
from tidewire.sync.state import Pending

MANY_FILES: Final = 200
"""A table with more waiting files than this gets fewer."""

_LARGE_ROWS: Final = 500_000
"""The rows from which on a file is not written again."""

_Group = tuple[object, ...]


def folded(storage: Storage, folder: str, pending: Iterable[Pending]) -> tuple[tuple[Pending, ...], tuple[str, ...]]:
    """Waiting files with those of tables that have many joined, and the paths of files that are no longer needed.

    Files are joined if they have one shape, one partition and the same columns, and wait for the same rows to be
    applied.
    """
    waiting = tuple(pending)
    counts: dict[object, int] = {}
    for each in waiting:
        counts[each.file.table.folded] = counts.get(each.file.table.folded, 0) + 1
    groups: dict[_Group, list[Pending]] = {}
    for each in waiting:
        file = each.file
        if counts[file.table.folded] > MANY_FILES and file.rows < _LARGE_ROWS:
            columns = _schema(storage, file)
            groups.setdefault((file.shape, file.partition, columns, each.since, each.fresh), []).append(each)
    joined = {id(group[0]): group for group in groups.values() if len(group) > 1}
    gone = {id(each) for group in joined.values() for each in group[1:]}
    found = tuple(
        replace(each, file=_joined(storage, folder, [member.file for member in joined[id(each)]]))
        if id(each) in joined
        else each
        for each in waiting
        if id(each) not in gone
    )
    return found, tuple(member.file.path for group in joined.values() for member in group)


def _schema(storage: Storage, file: StagedFile) -> pa.Schema:
    """The columns of a file: rows of one shape can have others, for example if another mode needs more of old rows."""
    with storage.input(storage.relative(file.path)) as source:
        return pq.read_schema(source)


def _rows(storage: Storage, files: Iterable[StagedFile]) -> Iterator[pa.Table]:
    """The rows of files in their order, as large row groups."""
    waiting: list[pa.Table] = []
    for file in files:
        with storage.input(storage.relative(file.path)) as source, pq.ParquetFile(source) as rows:
            for group in range(rows.num_row_groups):
                waiting.append(rows.read_row_group(group))
                if sum(each.num_rows for each in waiting) >= GROUP_ROWS:
                    yield pa.concat_tables(waiting)
                    waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def _joined(storage: Storage, folder: str, files: list[StagedFile]) -> StagedFile:
    """One file with the rows of several."""
    name = f"staged/{folder}/joined-{uuid.uuid4().hex}.parquet"
    first = files[0]
    with (
        storage.output(name) as sink,
        pq.ParquetWriter(sink, _schema(storage, first), **PARQUET) as writer,
    ):
        for rows in _rows(storage, files):
            writer.write_table(rows, row_group_size=GROUP_ROWS)
    return replace(
        first,
        path=storage.path(name),
        rows=sum(file.rows for file in files),
        min_ts=min(file.min_ts for file in files),
        max_ts=max(file.max_ts for file in files),
        first_offset=min(file.first_offset for file in files),
        last_offset=max(file.last_offset for file in files),
        moves=any(file.moves for file in files),
        memory=sum(file.memory for file in files),
    )
