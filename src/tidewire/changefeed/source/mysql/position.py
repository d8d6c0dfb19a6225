"""A position in the log, with everything a source knows there: timestamp, transaction ids, and the tables.

A transaction's timestamp is the time in its log entry, or one more than the last timestamp if that is not earlier. So
timestamps grow strictly, and reading again from a position, which has the last one, gives the same timestamps.

Sets of transaction ids name a position in the logs of all servers of a group. MariaDB's is the last id of each domain,
``0-1-42,1-7-3``; MySQL's is all ids of each server, ``uuid:1-5:7``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidewire.model import Bootstrap, Column, TableName, TableSchema
from tidewire.model.tso import LOGICAL_BITS
from tidewire.plain import event_from_plain, event_to_plain

SYSTEM = frozenset({"information_schema", "performance_schema", "mysql", "sys"})
"""Databases of the server itself."""

_FIRST_ID = 101


def at_second(seconds: int) -> int:
    """The first timestamp of a second."""
    return seconds * 1000 << LOGICAL_BITS


def at_millisecond(milliseconds: int) -> int:
    """The first timestamp of a millisecond."""
    return milliseconds << LOGICAL_BITS


def following(last: int, seconds: int) -> int:
    """The timestamp of a log entry with this time, after everything up to ``last``."""
    return max(last + 1, at_second(seconds))


def settled_before(seconds: int) -> int:
    """The newest timestamp that nothing logged from this second on can have."""
    return at_second(seconds) - 1


def with_gtid(known: str, gtid: str | None) -> str:
    """A set of ids with one more; ``None`` is a transaction without an id.

    >>> with_gtid("0-1-41,1-7-3", "0-1-42")
    '0-1-42,1-7-3'
    >>> with_gtid("3e11fa47:1-4", "3e11fa47:5")
    '3e11fa47:1-5'
    """
    if gtid is None:
        return known
    return _with_mysql(known, gtid) if ":" in gtid else _with_mariadb(known, gtid)


def _with_mariadb(known: str, gtid: str) -> str:
    domains = {int(one.split("-")[0]): one for one in (*_parts(known), gtid)}
    return ",".join(domains[number] for number in sorted(domains))


def _with_mysql(known: str, gtid: str) -> str:
    servers: dict[str, list[tuple[int, int]]] = {}
    for one in (*_parts(known), gtid):
        server, *ranges = one.lower().split(":")
        for range_ in ranges:
            first, _, last = range_.partition("-")
            servers.setdefault(server, []).append((int(first), int(last or first)))
    return ",".join(f"{server}:{':'.join(_joined_ranges(ranges))}" for server, ranges in sorted(servers.items()))


def _joined_ranges(ranges: Iterable[tuple[int, int]]) -> list[str]:
    joined: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return [str(first) if first == last else f"{first}-{last}" for first, last in joined]


def _parts(text: str) -> list[str]:
    return [part for part in "".join(text.split()).split(",") if part]


@dataclass(frozen=True, slots=True)
class Schemas:
    """Tables, databases with the collation of their new tables, and sequences, whose rows are not replicated.

    ``folded``: the server ignores case in names. ``next_id`` is the id of the next new table.
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
        """Is this the name of a sequence?"""
        return self._key(name) in self.sequences

    def has_database(self, name: str) -> bool:
        """Is there a database of that name?"""
        return self._key(TableName(name, "")).schema in self.databases

    def collation(self, database: str) -> str:
        """The collation of new tables in a database."""
        return self.databases.get(self._key(TableName(database, "")).schema, "utf8mb4_bin")

    def made(self, table: TableSchema, version: int) -> tuple[Schemas, TableSchema]:
        """The schemas with a new table, and the table with its id."""
        numbered = replace(table, table_id=self.next_id, version=version, columns=_numbered(table.columns))
        return replace(self._with(numbered), next_id=self.next_id + 1), numbered

    def changed(self, table: TableSchema, version: int) -> tuple[Schemas, TableSchema]:
        """The schemas with other columns or indexes of a table, and the table; it keeps its id."""
        after = replace(table, version=version, columns=_numbered(table.columns))
        return self._with(after), after

    def renamed(self, table: TableSchema, new: TableName) -> tuple[Schemas, TableSchema]:
        """The schemas with another name of a table, and the table; a name does not make a new version."""
        moved = replace(table, name=new)
        return self.without(table.name)._with(moved), moved

    def without(self, *names: TableName) -> Schemas:
        """The schemas without some tables or sequences."""
        gone = {self._key(name) for name in names}
        kept = {key: table for key, table in self.tables.items() if key not in gone}
        return replace(self, tables=kept, sequences=self.sequences - gone)

    def with_database(self, name: str, collation: str) -> Schemas:
        """The schemas with a database, and the collation of its new tables."""
        return replace(self, databases={**self.databases, self._key(TableName(name, "")).schema: collation})

    def without_database(self, name: str) -> Schemas:
        """The schemas without a database and everything in it."""
        gone = self._key(TableName(name, "")).schema
        return replace(
            self,
            tables={key: table for key, table in self.tables.items() if key.schema != gone},
            sequences=frozenset(key for key in self.sequences if key.schema != gone),
            databases={key: collation for key, collation in self.databases.items() if key != gone},
        )

    def with_sequence(self, name: TableName) -> Schemas:
        """The schemas with a sequence."""
        return replace(self, sequences=self.sequences | {self._key(name)})

    def _with(self, table: TableSchema) -> Schemas:
        return replace(self, tables={**self.tables, self._key(table.name): table})

    def _key(self, name: TableName) -> TableName:
        return name.folded if self.folded else name


def _numbered(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Columns with ids; those that have one keep it."""
    columns = tuple(columns)
    last = max((column.id or 0 for column in columns), default=0)
    numbers = iter(range(last + 1, last + len(columns) + 1))
    return tuple(column if column.id else replace(column, id=next(numbers)) for column in columns)


@dataclass(frozen=True, slots=True)
class State:
    """A position between two groups of the log, and everything that is known there."""

    file: str
    position: int
    gtid: str
    ts: int
    schemas: Schemas


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
    """The schemas from such a dict."""
    empty = Schemas({}, plain["databases"], folded=plain["folded"], next_id=plain["next_id"])
    tables = {}
    for table in plain["tables"]:
        event = event_from_plain({"kind": "bootstrap", "table_schema": table})
        assert isinstance(event, Bootstrap)
        tables[empty._key(event.table_schema.name)] = event.table_schema
    return replace(empty, tables=tables, sequences=frozenset(TableName(*name) for name in plain["sequences"]))
