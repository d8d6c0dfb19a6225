"""The sink that writes files: rows wait in memory until a flush, or until there are enough of them for a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic

from tidewire.changefeed.columnar import changes_of
from tidewire.changefeed.config.settings import StorageSettings
from tidewire.changefeed.projection import Projection
from tidewire.changefeed.sink.storage.expiry import Expiry
from tidewire.changefeed.sink.storage.records import Records
from tidewire.changefeed.sink.storage.versions import Versions
from tidewire.changefeed.source.base import RowBatch
from tidewire.codec.storage_sink.layout import METADATA, Layout, file_number, index_path
from tidewire.model import Ddl, RowChange, TableName, TableSchema
from tidewire.storage import Storage

METADATA_SECONDS = 2.0
"""The checkpoint is written no more often than that."""


@dataclass(slots=True)
class _Waiting:
    """Rows on their way to a file. ``last`` is their newest commit ts: a transaction is not torn apart."""

    table: TableSchema
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    last: int | None = None


class StorageSink:
    """Files in folders of tables. ``today`` is the wall clock whose date folders are named after."""

    def __init__(
        self,
        store: Storage,
        records: Records,
        settings: StorageSettings,
        start_ts: int,
        projection: Projection = Projection(),
        today: Callable[[], datetime] = datetime.now,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._store = store
        self._records = records
        self._projection = projection
        self._file_size = settings.file_size
        self._layout = Layout(
            records.extension,
            settings.date_separator,
            settings.enable_partition_separator,
            settings.file_index_digit,
            settings.use_table_id_as_path,
        )
        self._today = today
        self._clock = clock
        self._ts = start_ts
        self._versions = Versions(store, self._layout, lambda: self._ts, column_ids=settings.output_column_id)
        self._expiry = Expiry.of(settings, store, today)
        self._waiting: dict[str, _Waiting] = {}
        self._numbers: dict[str, int] = {}
        self._metadata_at: float | None = None
        self._metadata_ts: int | None = None

    def begin(self, tables: Sequence[TableSchema]) -> None:
        """A table's schema is filed with its first rows."""

    def rows(self, changes: Sequence[RowChange]) -> None:
        """Take changes; what makes a whole file is written."""
        for change in map(self._projection.row, changes):
            folder = self._layout.row_folder(change, self._versions.of(change))
            waiting = self._waiting.get(folder)
            if waiting is not None and waiting.size >= self._file_size and waiting.last != change.commit_ts:
                self._write(folder, self._waiting.pop(folder))
                waiting = None
            if waiting is None:
                waiting = self._waiting[folder] = _Waiting(change.table)
            record = self._records.record(change)
            waiting.pieces.append(record)
            waiting.size += len(record)
            waiting.last = change.commit_ts

    def columns(self, batch: RowBatch) -> None:
        """Take many changes of one table."""
        self.rows(list(changes_of(batch)))

    def ddl(self, ddl: Ddl) -> None:
        """File a statement, after the rows before it."""
        self.flush()
        self._versions.ddl(self._projection.ddl(ddl))

    def watermark(self, ts: int, tables: Iterable[TableName]) -> None:
        """Write the checkpoint file, at intervals."""
        self._ts = max(ts, self._ts)
        if self._expiry is not None:
            self._expiry.look(ts)
        now = self._clock()
        if self._metadata_at is None or now - self._metadata_at >= METADATA_SECONDS:
            self._metadata_at = now
            self._write_metadata(ts)
        else:
            self._metadata_ts = ts

    def flush(self) -> None:
        """Write all rows that wait."""
        waiting, self._waiting = self._waiting, {}
        for folder, rows in waiting.items():
            self._write(folder, rows)

    def close(self) -> None:
        """Write down the last checkpoint; rows that wait are dropped, since no checkpoint covers them."""
        self._waiting.clear()
        if self._metadata_ts is not None:
            self._write_metadata(self._metadata_ts)

    def _write_metadata(self, ts: int) -> None:
        self._metadata_ts = None
        self._store.put(METADATA, b'{"checkpoint-ts":%d}' % ts)

    def _write(self, folder: str, rows: _Waiting) -> None:
        dated = self._layout.dated(folder, self._today())
        number = self._next_number(dated)
        name = self._layout.data_name(number)
        self._store.put(f"{dated}/{name}", b"".join([self._records.header(rows.table), *rows.pieces]))
        # The index comes after the data, so a file that it names is whole.
        self._store.put(index_path(dated), f"{name}\n".encode())
        self._numbers[dated] = number

    def _next_number(self, dated: str) -> int:
        """The number after the last; a file that is there, indexed or not, is never written over."""
        last = self._numbers.get(dated)
        if last is None:
            index = (self._store.read(index_path(dated)) or b"").decode("utf-8", "replace").strip()
            names = (entry.name.rpartition("/")[2] for entry in self._store.list(dated))
            last = max(map(file_number, (index, *names)))
        return last + 1
