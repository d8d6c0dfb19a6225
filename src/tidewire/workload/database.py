"""The upstream: tables with their rows, and the clock that everything happens by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from random import Random
from typing import TypeAlias

from tidewire.model import Column, Index, Row, TableName, TableSchema, Value
from tidewire.model.tso import LOGICAL_BITS

Key: TypeAlias = tuple[Value, ...]


class Table:
    """A table and its rows by key. ``physical`` are the ids of its partitions; it has none if it is not divided."""

    def __init__(self, schema: TableSchema, physical: tuple[int, ...] = (), rows: Mapping[Key, Row] = {}) -> None:
        self.schema = schema
        self.physical = physical
        self.rows = dict(rows)
        self._keys = list(self.rows)
        self._places = {key: place for place, key in enumerate(self._keys)}

    def key(self, row: Row) -> Key:
        """What identifies a row."""
        return tuple([row[name] for name in self.schema.handle_key])

    def put(self, row: Row) -> None:
        """Add or replace a row."""
        key = self.key(row)
        if key not in self.rows:
            self._places[key] = len(self._keys)
            self._keys.append(key)
        self.rows[key] = row

    def remove(self, key: Key) -> None:
        """Take a row out."""
        del self.rows[key]
        place, last = self._places.pop(key), self._keys.pop()
        if last != key:
            self._keys[place] = last
            self._places[last] = place

    def pick(self, random: Random) -> Key:
        """Some row's key."""
        return random.choice(self._keys)

    def home(self, key: Key) -> int | None:
        """The physical id under which a row is kept."""
        if not self.physical:
            return self.schema.table_id
        (number,) = key
        assert isinstance(number, int)
        return self.physical[number % len(self.physical)]


class Clock:
    """A clock that gives TSOs, each larger than the one before."""

    def __init__(self, random: Random, start: int) -> None:
        self._random = random
        self.now = start

    def tick(self) -> int:
        """The next moment."""
        self.now += (self._random.randint(1, 400) << LOGICAL_BITS) + self._random.randint(1, 9)
        return self.now


class Database:
    """Tables by name, and ids for what is new."""

    def __init__(self) -> None:
        self.tables: dict[TableName, Table] = {}
        self._last_id = 100
        self._names: Counter[str] = Counter()

    def new_id(self) -> int:
        """An id that nothing has had before."""
        self._last_id += 2
        return self._last_id

    def new_ids(self, count: int) -> tuple[int, ...]:
        """Ids for the partitions of a table."""
        return tuple(self.new_id() for _ in range(count))

    def fresh(self, stem: str) -> str:
        """A column's name that nothing has had before."""
        self._names[stem] += 1
        return f"{stem}{self._names[stem]}"

    def replace(self, tables: Mapping[TableName, Table | None]) -> None:
        """Put tables in the place of what was there; ``None`` takes one out."""
        for name, table in tables.items():
            if table is None:
                del self.tables[name]
            else:
                self.tables[name] = table


def built(
    name: TableName, columns: Iterable[Column], indexes: Iterable[Index], table_id: int, version: int
) -> TableSchema:
    """A table at one version; columns that are new get ids."""
    return TableSchema.build(name, _numbered(columns), indexes, table_id=table_id, version=version)


def _numbered(columns: Iterable[Column]) -> Iterator[Column]:
    columns = list(columns)
    last = max((column.id or 0 for column in columns), default=0)
    for column in columns:
        if column.id is None:
            last += 1
            yield replace(column, id=last)
        else:
            yield column
