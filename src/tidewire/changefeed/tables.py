"""The tables a changefeed replicates right now, so that it knows which topics wait for watermarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tidewire.dispatch.statements import type_of
from tidewire.model import Ddl, DdlType, TableName, TableSchema


class Tables(Mapping[TableName, TableSchema | None]):
    """Tables in the order they came up, with their schemas as far as they are known; statements change both."""

    def __init__(self, tables: Iterable[TableSchema] = ()) -> None:
        self._tables: dict[TableName, TableSchema | None] = {table.name: table for table in tables}

    def __getitem__(self, name: TableName) -> TableSchema | None:
        return self._tables[name]

    def __iter__(self) -> Iterator[TableName]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def schemas(self) -> dict[TableName, TableSchema]:
        """The tables whose schema is known."""
        return {name: table for name, table in self._tables.items() if table is not None}

    def add(self, table: TableSchema) -> None:
        """Rows of a table came by."""
        self._tables[table.name] = table

    def follow(self, parts: Sequence[Ddl], keeps: Callable[[TableName], bool] = lambda name: True) -> None:
        """Follow the parts of one statement, which happen at once: tables may change names with each other.

        A table whose new name is not one that ``keeps`` wants is gone.
        """
        for part in parts:
            if part.old_name is not None:
                self._tables.pop(part.old_name, None)
        for part in parts:
            _EFFECTS.get(type_of(part), Tables._alter)(self, part)
            if part.old_name is not None and not keeps(part.table):
                self._tables.pop(part.table, None)

    def _alter(self, ddl: Ddl) -> None:
        if ddl.table in self._tables and ddl.table_schema is not None:
            self._tables[ddl.table] = ddl.table_schema

    def _appear(self, ddl: Ddl) -> None:
        self._tables[ddl.table] = ddl.table_schema

    def _vanish(self, ddl: Ddl) -> None:
        self._tables.pop(ddl.table, None)

    def _vanish_all(self, ddl: Ddl) -> None:
        schema = ddl.table.schema
        self._tables = {name: table for name, table in self._tables.items() if name.schema != schema}


_EFFECTS: Mapping[int | None, Callable[[Tables, Ddl], None]] = {
    **dict.fromkeys((DdlType.CREATE_TABLE, DdlType.CREATE_TABLES, DdlType.RECOVER_TABLE), Tables._appear),
    **dict.fromkeys((DdlType.RENAME_TABLE, DdlType.RENAME_TABLES), Tables._appear),
    DdlType.DROP_TABLE: Tables._vanish,
    DdlType.DROP_SCHEMA: Tables._vanish_all,
}
