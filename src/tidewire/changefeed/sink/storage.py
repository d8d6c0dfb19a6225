"""The sink that writes files in folders of tables, on a disk or in an object store, laid out as TiCDC does it.

Rows are kept in memory until a flush, or until there are enough of them for a file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from time import monotonic
from typing import Protocol

from tidewire.changefeed.config.dispatching import Projection
from tidewire.changefeed.config.settings import StorageSettings
from tidewire.changefeed.config.uri import UNKNOWN_PROTOCOL
from tidewire.changefeed.sink.cleanup import Expiry
from tidewire.changefeed.source.base import RowBatch, changes_of
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.storage_sink.csv_encoder import CsvEncoder
from tidewire.codec.storage_sink.layout import METADATA, Layout, file_number, index_path, schema_version
from tidewire.codec.storage_sink.schema_file import Definition
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, DdlType, RowChange, TableName, TableSchema
from tidewire.storage import Storage

METADATA_SECONDS = 2.0
"""The shortest time between two writes of the checkpoint file."""


class Records(Protocol):
    """Turns changes into the bytes of a file. ``extension`` ends the names of such files."""

    extension: str

    def header(self, table: TableSchema) -> bytes:
        """The beginning of a file of that table."""
        ...

    def record(self, change: RowChange) -> bytes:
        """A change, terminator included."""
        ...


class CsvRecords(CsvEncoder):
    """CSV, with a header where one is wanted."""

    extension = "csv"


class CanalRecords:
    """Canal-JSON: a message for each row, of any size."""

    extension = "json"

    def __init__(self, options: Options, resources: Resources, terminator: str) -> None:
        self._encoder = protocol("canal-json").Encoder(replace(options, max_message_bytes=sys.maxsize), resources)
        self._end = terminator.encode()

    def header(self, table: TableSchema) -> bytes:
        """Nothing."""
        return b""

    def record(self, change: RowChange) -> bytes:
        """A change as a message."""
        return b"".join((message.value or b"") + self._end for message in self._encoder.encode([change]))


def records_for(name: str, settings: StorageSettings, options: Options, resources: Resources) -> Records:
    """How a protocol writes files."""
    form = _FORMS.get(name)
    if form is None:
        raise ChangefeedError(UNKNOWN_PROTOCOL, f"{name!r} cannot be stored in files; use one of {', '.join(_FORMS)}")
    return form(settings, options, resources)


_FORMS: Mapping[str, Callable[[StorageSettings, Options, Resources], Records]] = {
    "csv": lambda settings, _, __: CsvRecords(settings.csv, settings.terminator),
    "canal-json": lambda settings, options, resources: CanalRecords(options, resources, settings.terminator),
}


@dataclass(frozen=True, slots=True)
class _KnownVersion:
    schema: TableSchema | None
    checksum: int
    version: int


class SchemaVersions:
    """Which version of its schema the rows of a table are filed under, with the schema files for it.

    ``now`` gives the changefeed's progress: the version of a table without a schema file.
    """

    def __init__(self, store: Storage, layout: Layout, now: Callable[[], int], *, column_ids: bool = False) -> None:
        self._store = store
        self._layout = layout
        self._now = now
        self._column_ids = column_ids
        self._known: dict[str, _KnownVersion] = {}

    def of(self, change: RowChange) -> int:
        """Return the version that a row belongs to, and write its schema file if the file does not exist."""
        own_id = change.table_id if change.partitioned else change.table.table_id
        folder = self._layout.schema_folder(change.table.name, own_id)
        known = self._known.get(folder)
        if known is not None and known.schema is change.table:
            return known.version
        definition = Definition.of_table(change.table, self._newest(change.table), column_ids=self._column_ids)
        checksum = definition.checksum
        if known is not None and known.checksum == checksum:
            version = known.version
        else:
            least = 0 if known is None else known.version
            filed = self._filed(folder, checksum, least, change.commit_ts or least)
            version = self._file(folder, definition) if filed is None else filed
        self._known[folder] = _KnownVersion(change.table, checksum, version)
        return version

    def ddl(self, ddl: Ddl) -> None:
        """Write the schema file of a statement, in the folder of the table after it."""
        table = ddl.table_schema or ddl.pre_table_schema
        self._note(Definition.of_ddl(ddl, column_ids=self._column_ids), None if table is None else table.table_id)
        other = ddl.pre_table_schema
        # The partition's table files the statement; the table it was exchanged with files only its columns.
        if ddl.type == DdlType.EXCHANGE_TABLE_PARTITION and other is not None and other.name != ddl.table:
            definition = Definition.of_table(other, ddl.commit_ts or 0, column_ids=self._column_ids)
            self._note(definition, other.table_id)

    def _note(self, definition: Definition, table_id: int | None) -> None:
        folder = self._layout.schema_folder(definition.name, table_id)
        self._file(folder, definition)
        self._known[folder] = _KnownVersion(None, definition.checksum, definition.version)

    def _newest(self, table: TableSchema) -> int:
        return max(table.version or 0, self._now())

    def _filed(self, folder: str, checksum: int, least: int, most: int) -> int | None:
        """The newest version from ``least`` to ``most`` that was filed with the same columns; for replays."""
        found = filter(None, (schema_version(entry.name.rpartition("/")[2]) for entry in self._store.list(folder)))
        return max((version for version, its in found if its == checksum and least <= version <= most), default=None)

    def _file(self, folder: str, definition: Definition) -> int:
        self._store.put(f"{folder}/{definition.file_name}", definition.content())
        return definition.version


@dataclass(slots=True)
class _Buffered:
    """Rows that wait for a file. ``last`` is their newest commit ts: a transaction is not split between files."""

    table: TableSchema
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    last: int | None = None


class StorageSink:
    """Files in folders of tables. ``today`` is the clock for the names of date folders."""

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
        self._versions = SchemaVersions(store, self._layout, lambda: self._ts, column_ids=settings.output_column_id)
        self._expiry = Expiry.of(settings, store, today)
        self._buffered: dict[str, _Buffered] = {}
        self._numbers: dict[str, int] = {}
        self._metadata_at: float | None = None
        self._metadata_ts: int | None = None

    def begin(self, tables: Sequence[TableSchema]) -> None:
        """Do nothing: a table's schema is written with its first rows."""

    def rows(self, changes: Sequence[RowChange]) -> None:
        """Take changes; write files that are full."""
        for change in map(self._projection.row, changes):
            folder = self._layout.row_folder(change, self._versions.of(change))
            buffered = self._buffered.get(folder)
            if buffered is not None and buffered.size >= self._file_size and buffered.last != change.commit_ts:
                self._write(folder, self._buffered.pop(folder))
                buffered = None
            if buffered is None:
                buffered = self._buffered[folder] = _Buffered(change.table)
            record = self._records.record(change)
            buffered.pieces.append(record)
            buffered.size += len(record)
            buffered.last = change.commit_ts

    def columns(self, batch: RowBatch) -> None:
        """Take many changes of one table."""
        self.rows(list(changes_of(batch)))

    def ddl(self, ddl: Ddl) -> None:
        """Write the schema file of a statement, after the rows before it."""
        self.flush()
        self._versions.ddl(self._projection.ddl(ddl))

    def watermark(self, ts: int, tables: Iterable[TableName]) -> None:
        """Write the checkpoint file, at intervals."""
        self._ts = max(ts, self._ts)
        if self._expiry is not None:
            self._expiry.run_if_due(ts)
        now = self._clock()
        if self._metadata_at is None or now - self._metadata_at >= METADATA_SECONDS:
            self._metadata_at = now
            self._write_metadata(ts)
        else:
            self._metadata_ts = ts

    def flush(self) -> None:
        """Write all buffered rows."""
        buffered, self._buffered = self._buffered, {}
        for folder, rows in buffered.items():
            self._write(folder, rows)

    def close(self) -> None:
        """Write the last checkpoint; drop buffered rows, which no checkpoint covers."""
        self._buffered.clear()
        if self._metadata_ts is not None:
            self._write_metadata(self._metadata_ts)

    def _write_metadata(self, ts: int) -> None:
        self._metadata_ts = None
        self._store.put(METADATA, b'{"checkpoint-ts":%d}' % ts)

    def _write(self, folder: str, rows: _Buffered) -> None:
        dated = self._layout.dated(folder, self._today())
        number = self._next_number(dated)
        name = self._layout.data_name(number)
        self._store.put(f"{dated}/{name}", b"".join([self._records.header(rows.table), *rows.pieces]))
        # The index is written after the data, so that a file it names is complete.
        self._store.put(index_path(dated), f"{name}\n".encode())
        self._numbers[dated] = number

    def _next_number(self, dated: str) -> int:
        """The number after the last. An existing file, indexed or not, is never overwritten."""
        last = self._numbers.get(dated)
        if last is None:
            index = (self._store.read(index_path(dated)) or b"").decode("utf-8", "replace").strip()
            names = (entry.name.rpartition("/")[2] for entry in self._store.list(dated))
            last = max(map(file_number, (index, *names)))
        return last + 1
