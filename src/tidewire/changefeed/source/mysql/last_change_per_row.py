"""The net effect of a transaction: several changes of one row become one, as TiDB keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidewire.model import Row, TableName, TableSchema, Value


@dataclass(frozen=True, slots=True)
class Change:
    """One row of one table before and after."""

    table: TableSchema
    before: Row | None
    after: Row | None


Key: TypeAlias = tuple[Value, ...]
_RANK: Mapping[tuple[bool, bool], int] = {(True, False): 0, (True, True): 1, (False, True): 2}
"""Deletes go first, then updates, then inserts, so that a unique value is free when it is taken."""


def net_effect(changes: Iterable[Change]) -> list[Change]:
    """The changes of a transaction, one per row, in the order their tables were first touched.

    A row is known by its handle key: an update that changes the key is a delete and an insert, as in TiDB's storage.
    A row that came and went, or ended as it began, is no change. Rows without a key are all kept, in order.
    """
    tables: dict[TableName, _Netted] = {}
    for change in changes:
        name = change.table.name
        table = tables.get(name)
        if table is None:
            table = tables[name] = _Netted(change.table.handle_key, [], {})
        table.add(change)
    return [change for table in tables.values() for change in table.changes()]


@dataclass(slots=True)
class _Netted:
    """The changes of one table; ``names`` are the columns of its key."""

    names: tuple[str, ...]
    keyless: list[Change]
    keyed: dict[Key, Change]

    def add(self, change: Change) -> None:
        if not self.names:
            self.keyless.append(change)
            return
        for key, before, after in self._by_key(change):
            earlier = self.keyed.pop(key, None)
            self.keyed[key] = Change(change.table, before if earlier is None else earlier.before, after)

    def _by_key(self, change: Change) -> Iterator[tuple[Key, Row | None, Row | None]]:
        old, new = self._key(change.before), self._key(change.after)
        if old is not None and old == new:
            yield old, change.before, change.after
            return
        if old is not None:
            yield old, change.before, None
        if new is not None:
            yield new, None, change.after

    def _key(self, row: Row | None) -> Key | None:
        return None if row is None else tuple([row[name] for name in self.names])

    def changes(self) -> list[Change]:
        real = [change for change in self.keyed.values() if change.before != change.after]
        return self.keyless + sorted(real, key=_rank)


def _rank(change: Change) -> int:
    return _RANK[change.before is not None, change.after is not None]
