"""The files a task writes: rows by partition and table shape, and messages that are set aside.

Every name carries the task's attempt, so that attempts do not meet; what a failed one leaves behind is in no manifest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidewire.arrow import OpCode
from tidewire.model import TableSchema
from tidewire.storage import Storage
from tidewire.sync.manifest import Partition, StagedFile

_GROUP_BYTES: Final = 16 << 20
"""A file's rows wait in memory up to here and then make a row group."""

GROUP_ROWS: Final = 16384
"""A step that takes some of a file's rows, by ts, passes over the groups that have none."""

_WAITING_BYTES: Final = 64 << 20
"""The rows of all files together may take so much; then all are written."""

_MOST_OPEN: Final = 64
"""Files that are open at a time; each keeps a buffer and, in an object store, an upload."""

PARQUET: Final[dict[str, Any]] = {
    # The files are a fifth of their size for two hundredths of the time it takes to stage them; dictionaries would cost
    # as much again and gain nothing.
    "compression": "zstd",
    "compression_level": 1,
    "use_dictionary": False,
    # Steps select rows by ts and by nothing else.
    "write_statistics": ["_ts"],
    "coerce_timestamps": "us",
    "store_schema": False,
}
"""How staged files are written."""

_Key = tuple[Partition, TableSchema, pa.Schema]

NO_BOUNDS: Final = (1 << 63, -(1 << 63))
"""The initial (min, max), before any row."""


@dataclass(slots=True, eq=False)
class _File:
    """One file on its way: rows that wait, a writer once some were written, and what the manifest says."""

    name: str
    shape: TableSchema
    partition: Partition
    schema: pa.Schema
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    bytes: int = 0
    memory: int = 0
    writer: pq.ParquetWriter | None = None
    sink: Any = None
    rows: int = 0
    ts: tuple[int, int] = NO_BOUNDS
    offsets: tuple[int, int] = NO_BOUNDS
    moves: bool = False

    def add(self, rows: pa.RecordBatch) -> int:
        """Let rows wait; how many bytes they take."""
        self.waiting.append(rows)
        size = int(rows.nbytes)
        self.bytes += size
        self.memory += size
        self.rows += rows.num_rows
        self.ts = widened(self.ts, rows.column("_ts"))
        self.offsets = widened(self.offsets, rows.column("_offset"))
        self.moves = self.moves or moves(rows, self.shape.handle_key)
        return size

    def write(self, storage: Storage) -> None:
        if self.writer is None:
            self.sink = storage.output(self.name)
            self.writer = pq.ParquetWriter(self.sink, self.schema, **PARQUET)
        if self.waiting:
            self.writer.write_table(pa.Table.from_batches(self.waiting, self.schema), row_group_size=GROUP_ROWS)
        self.waiting, self.bytes = [], 0

    def close(self, storage: Storage) -> StagedFile:
        self.write(storage)
        assert self.writer is not None
        self.writer.close()
        self.sink.close()
        return StagedFile(
            storage.path(self.name),
            self.shape,
            self.partition,
            self.rows,
            *self.ts,
            *self.offsets,
            self.moves,
            self.memory,
        )


def moves(rows: pa.RecordBatch, key: tuple[str, ...]) -> bool:
    """Does an update change the key? What an old row leaves out did not change."""
    updates = rows.filter(pc.equal(rows.column("_op"), int(OpCode.UPDATE)))
    if not key:
        return bool(updates.num_rows)
    images = updates.column("before"), updates.column("after")
    differing = (pc.not_equal(*(pc.struct_field(image, name) for image in images)) for name in key)
    return any(bool(pc.any(column, min_count=0).as_py()) for column in differing)


def widened(bounds: tuple[int, int], values: pa.Array) -> tuple[int, int]:
    """The least and the largest number so far."""
    found = pc.min_max(values).as_py()
    return min(bounds[0], found["min"]), max(bounds[1], found["max"])


class RowFiles:
    """The files of rows of one task."""

    def __init__(self, storage: Storage, folder: str, attempt: str) -> None:
        self._storage = storage
        self._folder = folder
        self._attempt = attempt
        self._files: dict[_Key, _File] = {}
        self._done: list[StagedFile] = []
        self._made = 0
        self._waiting = 0

    def add(self, partition: Partition, shape: TableSchema, rows: pa.RecordBatch) -> None:
        """Add rows of a shape out of a partition."""
        key = (partition, shape, rows.schema)
        file = self._files.pop(key, None) or self._new(partition, shape, rows.schema)
        self._files[key] = file  # the last one is the one used last
        self._waiting += file.add(rows)
        if file.bytes >= _GROUP_BYTES:
            self._write([file])
        elif self._waiting >= _WAITING_BYTES:
            self._write([other for other in self._files.values() if other.waiting])

    def close(self) -> list[StagedFile]:
        """Finish all files."""
        self._done += [file.close(self._storage) for file in self._files.values()]
        self._files = {}
        return self._done

    def _new(self, partition: Partition, shape: TableSchema, schema: pa.Schema) -> _File:
        self._made += 1
        return _File(f"{self._folder}/{self._attempt}-{self._made}.parquet", shape, partition, schema)

    def _write(self, files: list[_File]) -> None:
        for file in files:
            self._waiting -= file.bytes
            file.write(self._storage)
        opened = [key for key, file in self._files.items() if file.writer is not None]
        for key in opened[: max(0, len(opened) - _MOST_OPEN)]:
            idle = self._files.pop(key)
            self._waiting -= idle.bytes
            self._done.append(idle.close(self._storage))


class MessageFile:
    """The messages that a task sets aside, whole; no file where there are none."""

    def __init__(self, storage: Storage, name: str, schema: pa.Schema) -> None:
        self.path = storage.path(name)
        self._storage = storage
        self._name = name
        self._schema = schema
        self._waiting: list[dict[str, Any]] = []
        self._bytes = 0
        self._writer: pq.ParquetWriter | None = None
        self._sink: Any = None

    def add(self, message: dict[str, Any]) -> None:
        """One more message: its values by column."""
        self._waiting.append(message)
        self._bytes += len(message["key"] or b"") + len(message["value"] or b"") + 64
        if self._bytes >= _GROUP_BYTES:
            self._write()

    def close(self) -> bool:
        """Finish the file; is there one?"""
        if self._waiting:
            self._write()
        if self._writer is None:
            return False
        self._writer.close()
        self._sink.close()
        return True

    def _write(self) -> None:
        if self._writer is None:
            self._sink = self._storage.output(self._name)
            self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd")
        self._writer.write_table(pa.Table.from_pylist(self._waiting, self._schema))
        self._waiting, self._bytes = [], 0
