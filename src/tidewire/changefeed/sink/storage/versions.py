"""Which version of its schema the rows of a table are filed under, with the schema files that say so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidewire.codec.storage_sink.layout import Layout, schema_version
from tidewire.codec.storage_sink.schema_file import Definition
from tidewire.model import Ddl, DdlType, RowChange, TableSchema
from tidewire.storage import Storage


@dataclass(frozen=True, slots=True)
class _Known:
    schema: TableSchema | None
    checksum: int
    version: int


class Versions:
    """The tables' versions. ``now`` gives the changefeed's progress: the version of a table without a schema file."""

    def __init__(self, store: Storage, layout: Layout, now: Callable[[], int], *, column_ids: bool = False) -> None:
        self._store = store
        self._layout = layout
        self._now = now
        self._column_ids = column_ids
        self._known: dict[str, _Known] = {}

    def of(self, change: RowChange) -> int:
        """The version a row belongs to; its schema file is there afterwards."""
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
        self._known[folder] = _Known(change.table, checksum, version)
        return version

    def ddl(self, ddl: Ddl) -> None:
        """Take note of a statement in the folder of the table it leads to."""
        table = ddl.table_schema or ddl.pre_table_schema
        self._note(Definition.of_ddl(ddl, column_ids=self._column_ids), None if table is None else table.table_id)
        other = ddl.pre_table_schema
        # The partition's table brings the statement; the table it changed places with only its columns.
        if ddl.type == DdlType.EXCHANGE_TABLE_PARTITION and other is not None and other.name != ddl.table:
            definition = Definition.of_table(other, ddl.commit_ts or 0, column_ids=self._column_ids)
            self._note(definition, other.table_id)

    def _note(self, definition: Definition, table_id: int | None) -> None:
        folder = self._layout.schema_folder(definition.name, table_id)
        self._file(folder, definition)
        self._known[folder] = _Known(None, definition.checksum, definition.version)

    def _newest(self, table: TableSchema) -> int:
        return max(table.version or 0, self._now())

    def _filed(self, folder: str, checksum: int, least: int, most: int) -> int | None:
        """The newest version within limits that was filed with the same columns; a replay may be older than some."""
        found = filter(None, (schema_version(entry.name.rpartition("/")[2]) for entry in self._store.list(folder)))
        return max((version for version, its in found if its == checksum and least <= version <= most), default=None)

    def _file(self, folder: str, definition: Definition) -> int:
        self._store.put(f"{folder}/{definition.file_name}", definition.content())
        return definition.version
