"""What a source knows of the tables at one place in the log; it changes with every statement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidewire.model import Bootstrap, Column, TableName, TableSchema
from tidewire.plain import event_from_plain, event_to_plain

SYSTEM = frozenset({"information_schema", "performance_schema", "mysql", "sys"})
"""Databases that are the server's own."""

_FIRST_ID = 101


@dataclass(frozen=True, slots=True)
class Schemas:
    """Tables, databases with the collation of their new tables, and sequences, whose rows are not replicated.

    ``folded``: the server compares names without regard to case. ``next_id`` is for the next table that is made.
    """

    tables: Mapping[TableName, TableSchema]
    databases: Mapping[str, str]
    sequences: frozenset[TableName] = frozenset()
    folded: bool = False
    next_id: int = _FIRST_ID

    def find(self, name: TableName) -> TableSchema | None:
        """The table of that name, if it is known."""
        return self.tables.get(self._key(name))

    def is_sequence(self, name: TableName) -> bool:
        """Is that a sequence?"""
        return self._key(name) in self.sequences

    def has_database(self, name: str) -> bool:
        """Is there a database of that name?"""
        return self._key(TableName(name, "")).schema in self.databases

    def collation(self, database: str) -> str:
        """The collation of new tables in a database."""
        return self.databases.get(self._key(TableName(database, "")).schema, "utf8mb4_bin")

    def made(self, table: TableSchema, version: int) -> tuple[Schemas, TableSchema]:
        """With a table that is new, and that table with its number."""
        numbered = replace(table, table_id=self.next_id, version=version, columns=_numbered(table.columns))
        return replace(self._with(numbered), next_id=self.next_id + 1), numbered

    def changed(self, table: TableSchema, version: int) -> tuple[Schemas, TableSchema]:
        """With a table that has another shape, and that table; it keeps its number."""
        after = replace(table, version=version, columns=_numbered(table.columns))
        return self._with(after), after

    def renamed(self, table: TableSchema, new: TableName) -> tuple[Schemas, TableSchema]:
        """With a table by another name, and that table; a name is no new version."""
        moved = replace(table, name=new)
        return self.without(table.name)._with(moved), moved

    def without(self, *names: TableName) -> Schemas:
        """Without some tables or sequences."""
        gone = {self._key(name) for name in names}
        kept = {key: table for key, table in self.tables.items() if key not in gone}
        return replace(self, tables=kept, sequences=self.sequences - gone)

    def with_database(self, name: str, collation: str) -> Schemas:
        """With a database whose new tables have a collation."""
        return replace(self, databases={**self.databases, self._key(TableName(name, "")).schema: collation})

    def without_database(self, name: str) -> Schemas:
        """Without a database and all that is in it."""
        gone = self._key(TableName(name, "")).schema
        return replace(
            self,
            tables={key: table for key, table in self.tables.items() if key.schema != gone},
            sequences=frozenset(key for key in self.sequences if key.schema != gone),
            databases={key: collation for key, collation in self.databases.items() if key != gone},
        )

    def with_sequence(self, name: TableName) -> Schemas:
        """With a sequence."""
        return replace(self, sequences=self.sequences | {self._key(name)})

    def _with(self, table: TableSchema) -> Schemas:
        return replace(self, tables={**self.tables, self._key(table.name): table})

    def _key(self, name: TableName) -> TableName:
        return name.folded if self.folded else name


def _numbered(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Columns with ids: those that have one keep it."""
    columns = tuple(columns)
    last = max((column.id or 0 for column in columns), default=0)
    numbers = iter(range(last + 1, last + len(columns) + 1))
    return tuple(column if column.id else replace(column, id=next(numbers)) for column in columns)


def schemas_to_plain(schemas: Schemas) -> dict[str, Any]:
    """The schemas as a dict that ``json`` can write."""
    return {
        "tables": [event_to_plain(Bootstrap(table))["table_schema"] for table in schemas.tables.values()],
        "databases": dict(schemas.databases),
        "sequences": sorted(list(name) for name in schemas.sequences),
        "folded": schemas.folded,
        "next_id": schemas.next_id,
    }


def schemas_from_plain(plain: Mapping[str, Any]) -> Schemas:
    """The schemas a dict stands for."""
    empty = Schemas({}, plain["databases"], folded=plain["folded"], next_id=plain["next_id"])
    tables = {}
    for table in plain["tables"]:
        event = event_from_plain({"kind": "bootstrap", "table_schema": table})
        assert isinstance(event, Bootstrap)
        tables[empty._key(event.table_schema.name)] = event.table_schema
    return replace(empty, tables=tables, sequences=frozenset(TableName(*name) for name in plain["sequences"]))
