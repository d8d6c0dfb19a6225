"""Random transactions: what happens to rows between two statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from tidewire.model import Column, MySQLType, Row, RowChange, TableName, Value
from tidewire.model.types import INTEGERS
from tidewire.workload.database import Database, Key, Table
from tidewire.workload.values import random_value


class RowAction(StrEnum):
    """What a transaction does to rows of a table."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    MOVE = "move"
    SWAP = "swap"
    REWRITE = "rewrite"


_IN_ORDER = list(RowAction)


@dataclass(frozen=True, slots=True)
class ActionRates:
    """How often each action is chosen, relative to the others.

    ``move`` changes a row's key, ``swap`` exchanges the keys of two rows, ``rewrite`` deletes a row and inserts another
    with the same key.
    """

    insert: float = 60
    update: float = 30
    delete: float = 10
    move: float = 1
    swap: float = 1
    rewrite: float = 1

    def pick(self, random: Random) -> RowAction:
        """Choose an action."""
        weights = (self.insert, self.update, self.delete, self.move, self.swap, self.rewrite)
        return random.choices(_IN_ORDER, weights)[0]


Touched = set[tuple[TableName, Key]]
"""The rows that were changed at one commit ts. No row is changed twice at one commit ts."""

_MOST_TRIES = 20
"""How often to look for a row that the transaction has not changed yet, before giving up."""


class Writer:
    """Makes the row changes of one transaction and does them.

    TiCDC sends a change of the key as a delete and an insert unless it is told to send changes ``raw``; among the
    changes of one transaction the deletes come first.
    """

    def __init__(self, random: Random, database: Database, ts: int, touched: Touched, *, raw: bool) -> None:
        self._random = random
        self._database = database
        self._ts = ts
        self._touched = touched
        self._raw = raw

    def changes(self, table: Table, action: RowAction) -> Iterator[RowChange]:
        """Do something to a table; nothing if there is no row to do it to."""
        yield from _ACTIONS[action](self, table)

    def _insert(self, table: Table) -> Iterator[RowChange]:
        key = self._new_key(table)
        if key is not None:
            yield self._change(table, None, self._row(table, key))

    def _update(self, table: Table) -> Iterator[RowChange]:
        key = self._old_key(table)
        if key is not None:
            before = table.rows[key]
            free = [column for column in table.schema.columns if not column.handle_key]
            some = self._random.sample(free, self._random.randint(1, len(free))) if free else []
            values = {column.name: random_value(self._random, column) for column in some}
            yield self._change(table, before, {**before, **values})

    def _delete(self, table: Table) -> Iterator[RowChange]:
        key = self._old_key(table)
        if key is not None:
            yield self._change(table, table.rows[key], None)

    def _rewrite(self, table: Table) -> Iterator[RowChange]:
        key = self._old_key(table)
        if key is not None:
            yield self._change(table, table.rows[key], None)
            yield self._change(table, None, self._row(table, key))

    def _move(self, table: Table) -> Iterator[RowChange]:
        old, new = self._old_key(table), self._new_key(table)
        if old is not None and new is not None:
            yield from self._rekeyed(table, {old: new})

    def _swap(self, table: Table) -> Iterator[RowChange]:
        one, other = self._old_key(table), self._old_key(table)
        if one is not None and other is not None:
            yield from self._rekeyed(table, {one: other, other: one})

    def _rekeyed(self, table: Table, keys: Mapping[Key, Key]) -> Iterator[RowChange]:
        names = table.schema.handle_key
        pairs = [
            (table.rows[old], {**table.rows[old], **dict(zip(names, new, strict=True))}) for old, new in keys.items()
        ]
        for key in keys:
            table.remove(key)
        for _, after in pairs:
            table.put(after)
        # A partition of a table is a table of its own: a row that moves between two is always deleted and inserted.
        if self._raw and not table.physical:
            for before, after in pairs:
                yield self._event(table, before, after)
            return
        for before, _ in pairs:
            yield self._event(table, before, None)
        for _, after in pairs:
            yield self._event(table, None, after)

    def _change(self, table: Table, before: Row | None, after: Row | None) -> RowChange:
        if after is not None:
            table.put(after)
        elif before is not None:
            table.remove(table.key(before))
        return self._event(table, before, after)

    def _event(self, table: Table, before: Row | None, after: Row | None) -> RowChange:
        key = table.key(after if after is not None else before or {})
        return RowChange(
            table.schema,
            self._ts,
            before,
            after,
            start_ts=self._ts - 1,
            table_id=table.home(key),
            partitioned=bool(table.physical),
        )

    def _row(self, table: Table, key: Key) -> Row:
        keys = dict(zip(table.schema.handle_key, key, strict=True))
        return {
            column.name: keys[column.name] if column.name in keys else random_value(self._random, column)
            for column in table.schema.columns
        }

    def _old_key(self, table: Table) -> Key | None:
        for _ in range(_MOST_TRIES if table.rows else 0):
            key = table.pick(self._random)
            if self._touch(table, key):
                return key
        return None

    def _new_key(self, table: Table) -> Key | None:
        columns = [column for column in table.schema.columns if column.handle_key]
        for _ in range(_MOST_TRIES):
            key = tuple([random_key(self._random, column) for column in columns])
            if key not in table.rows and self._touch(table, key):
                return key
        return None

    def _touch(self, table: Table, key: Key) -> bool:
        place = (table.schema.name, key)
        if place in self._touched:
            return False
        self._touched.add(place)
        return True


_ACTIONS: Mapping[RowAction, Callable[[Writer, Table], Iterator[RowChange]]] = {
    RowAction.INSERT: Writer._insert,
    RowAction.UPDATE: Writer._update,
    RowAction.DELETE: Writer._delete,
    RowAction.MOVE: Writer._move,
    RowAction.SWAP: Writer._swap,
    RowAction.REWRITE: Writer._rewrite,
}


def random_key(random: Random, column: Column) -> Value:
    """A value for a key's column: never NULL, seldom twice the same."""
    if column.type in INTEGERS:
        return random.randrange(1 << 31)
    if column.type is MySQLType.VARCHAR:
        size = min(column.length or 8, 16) // 2
        return random.randbytes(size) if column.is_binary else random.randbytes(size).hex()
    return random_value(random, column)
