"""One chunk of a load: rows of a source in, staged files and a document that says so out.

The document is written when all files of the chunk are complete. A load that was killed continues with the chunks that
have no document. Files of an attempt that was cut short are in no document, and are deleted with the load's folder.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tidewire.arrow.policy import Policy
from tidewire.errors import LoadError
from tidewire.load.rows import Rows
from tidewire.load.source import ChunkRows, Place
from tidewire.load.values import typed
from tidewire.model import Message, Position, TableSchema
from tidewire.spark.stage.files import MessageFile, RowFiles
from tidewire.spark.stage.mask import masked
from tidewire.spark.stage.reader import Before
from tidewire.spark.stage.task import REJECT, reject_row, staged
from tidewire.storage import Storage
from tidewire.sync.documents import decode, encode
from tidewire.sync.manifest import Partition, Rejected, StagedFile
from tidewire.sync.rules import Rules

ROWS_PER_FILE: Final = 500_000
"""The most rows of a staged file, about: a task fills the table from one file at a time."""

BYTES_PER_FILE: Final = 128 << 20

MOST_REJECTED: Final = 1_000
"""If a chunk has more bad rows, the load stops: the options of the dump are probably wrong."""

SOURCE: Final = "load"
"""The topic that rows of a load are said to be from."""


@dataclass(frozen=True, slots=True)
class ChunkReport:
    """What became of a chunk."""

    table: str
    rows: int
    bytes: int
    files: tuple[StagedFile, ...]
    rejected: tuple[Rejected, ...] = ()
    reject_files: tuple[str, ...] = ()


@dataclass(frozen=True)
class ChunkWork:
    """Stage a chunk, unless that was done before. It travels to executors."""

    ledger: Storage
    folder: str
    number: int
    chunk: ChunkRows
    ts: int
    rules: Rules
    before: Before
    time_zone: str
    keep_rejected: bool

    @property
    def document(self) -> str:
        """The name of the document that says that the chunk is staged."""
        return f"{self.folder}/done/{self.number:07}"

    def run(self) -> int:
        """Stage it; how many rows it has."""
        data = self.ledger.read(self.document)
        if data is not None:
            return decode(data, ChunkReport).rows
        report = _Staging(self).report()
        self.ledger.put_if_absent(self.document, encode(report))
        return report.rows


class _Staging:
    """One attempt at a chunk."""

    def __init__(self, work: ChunkWork) -> None:
        self._work = work
        self._attempt = f"{work.number:07}-{uuid.uuid4().hex}"
        self._partition = Partition(SOURCE, work.number)
        self._columns = {column.name.lower(): column for column in work.chunk.table.columns}
        self._policy = Policy(work.chunk.time_zone)
        self._masked = frozenset(work.rules.masks(work.chunk.table))
        self._files: list[StagedFile] = []
        self._made = 0
        self._open = self._new_files()
        self._waiting = (0, 0)
        self._rows = 0
        self._rejected: list[Rejected] = []
        self._rejects = MessageFile(work.ledger, f"rejects/{work.folder}/{self._attempt}.parquet", REJECT)

    def _new_files(self) -> RowFiles:
        self._made += 1
        return RowFiles(self._work.ledger, f"{self._work.folder}/staged", f"{self._attempt}-{self._made}")

    def report(self) -> ChunkReport:
        work = self._work
        for place, rows in work.chunk.read():
            self._take(rows, place)
        self._files += self._open.close()
        rejects = (self._rejects.path,) if self._rejects.close() else ()
        files = tuple(file for file in self._files if file.rows)
        table, size = str(work.chunk.table.name), work.chunk.size
        return ChunkReport(table, self._rows, size, files, tuple(self._rejected), rejects)

    def _take(self, rows: Rows, place: Place) -> None:
        """Stage rows; those with a value that does not fit are set aside."""
        bad: dict[int, str] = {}
        arrays: dict[str, pa.Array] = {}
        for name, values in zip(rows.names, rows.columns, strict=True):
            column = self._columns.get(name.lower())
            if column is None:
                raise LoadError(f"{place.name} has a column {name}, which its CREATE TABLE does not have")
            arrays[column.name], invalid = typed(column, values, self._policy, self._work.chunk.binary)
            bad = invalid | bad
            if column.handle_key and arrays[column.name].null_count:
                nulls = np.flatnonzero(arrays[column.name].is_null().to_numpy(zero_copy_only=False))
                bad |= {row: f"column {name} is in the key and NULL" for row in nulls.tolist() if row not in bad}
        for line, reason, data in rows.bad:
            self._reject(place, line, reason, data)
        for row, reason in sorted(bad.items()):
            self._reject(place, rows.lines[row].as_py(), reason, None)
        if len(rows):
            self._stage(arrays, len(rows), bad)

    def _stage(self, arrays: Mapping[str, pa.Array], count: int, bad: Mapping[int, str]) -> None:
        work, table = self._work, self._work.chunk.table
        shape = replace(table, columns=tuple(each for each in table.columns if each.name in arrays))
        batch = _batch([arrays[column.name] for column in shape.columns], shape, self._rows, count, work.ts)
        self._rows += count - len(bad)
        if bad:
            kept = np.ones(count, bool)
            kept[list(bad)] = False
            batch = batch.filter(pa.array(kept))
        if not batch.num_rows:
            return
        batch = masked(batch, shape, work.rules, Policy(work.time_zone))
        self._open.add(self._partition, shape, staged(shape, batch, work.before))
        waiting, size = self._waiting
        self._waiting = waiting + batch.num_rows, size + batch.nbytes
        if self._waiting[0] >= ROWS_PER_FILE or self._waiting[1] >= BYTES_PER_FILE:
            self._files += self._open.close()
            self._open, self._waiting = self._new_files(), (0, 0)

    def _reject(self, place: Place, line: int, reason: str, data: bytes | None) -> None:
        at, table = Position(place.name, 0, place.number(line)), self._work.chunk.table.name
        told = f"{place.text(line, self._masked)}: {reason}"
        if len(self._rejected) >= MOST_REJECTED:
            raise LoadError(
                f"more than {MOST_REJECTED:,} rows of {table} do not fit, the last at {told}. Check the options of the "
                "dump that the load was given"
            )
        self._rejected.append(Rejected(at, told, table=table, commit_ts=self._work.ts))
        kept = Message(None, data if self._work.keep_rejected else None)
        self._rejects.add(reject_row(at, told, kept, self._work.number))


def _batch(arrays: Sequence[pa.Array], shape: TableSchema, start: int, count: int, ts: int) -> pa.RecordBatch:
    """Rows as inserts, in the columns of a batch of changes."""
    fields = [pa.field(column.name, array.type) for column, array in zip(shape.columns, arrays, strict=True)]
    zeros = np.zeros(count, np.int32)
    columns: dict[str, Any] = {
        "_op": pa.array(zeros, pa.int8()),
        "_ts": pa.array(np.full(count, ts), pa.int64()),
        "_offset": pa.array(np.arange(start, start + count), pa.int64()),
        "_sub": pa.array(zeros, pa.int32()),
        "_partition": pa.nulls(count, pa.int64()),
        "after": pa.StructArray.from_arrays(list(arrays), fields=fields),
        "before": pa.nulls(count, pa.struct(fields)),
        "_absent": pa.nulls(count, pa.list_(pa.int16())),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def reports(ledger: Storage, folder: str, known: Mapping[str, ChunkReport] = {}) -> Iterator[tuple[str, ChunkReport]]:
    """The chunks that are done, by the names of their documents; those that are ``known`` are not read again."""
    for entry in ledger.list(f"{folder}/done"):
        if entry.name in known:
            yield entry.name, known[entry.name]
        elif (data := ledger.read(entry.name)) is not None:
            yield entry.name, decode(data, ChunkReport)
