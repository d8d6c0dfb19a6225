"""A load as of many users at once: seeded random transactions over many tables, and statements that change the tables.

Tables of the database ``calm`` keep their shape and are never emptied. Those of ``busy`` are altered, truncated,
renamed, swapped, dropped and made again. A transaction writes to both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeAlias

CALM, BUSY = "calm", "busy"
_KEYS = 60
_FIRST_ROWS = 40
_MOST_BUSY = 5
_BETWEEN_DDL = (10, 26)
"""So many transactions come between two statements that change tables."""

_ROLLBACK_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Kind:
    """A column: its type, the type it may be given later, and how a value of it is written."""

    type: str
    value: Callable[[Random], str]
    wider: str | None = None


def _number(least: int, end: int) -> Callable[[Random], str]:
    return lambda random: str(random.randrange(least, end))


def _one_of(*texts: str) -> Callable[[Random], str]:
    return lambda random: random.choice(texts)


def _fraction(random: Random, digits: int) -> str:
    return f"{random.randrange(10**digits):0{digits}}"


KINDS: Mapping[str, Kind] = {
    "k": Kind("int unsigned", _number(0, 2**32), "bigint unsigned"),
    "big": Kind("bigint", _number(-(2**63), 2**63)),
    "huge": Kind("bigint unsigned", _number(0, 2**64)),
    "price": Kind(
        "decimal(20,6)",
        lambda random: f"{random.randrange(-(10**12), 10**12)}.{_fraction(random, 6)}",
        "decimal(30,6)",
    ),
    "ratio": Kind("double", lambda random: repr(random.uniform(-1e9, 1e9))),
    "small": Kind("float", lambda random: repr(random.uniform(-1e3, 1e3)), "double"),
    "name": Kind(
        "varchar(50) character set utf8mb4",
        lambda random: f"'{random.choice(['é', '𝄞', 'its ', ''])}{random.randrange(1000)}'",
        "varchar(200) character set utf8mb4",
    ),
    "pad": Kind("char(60) character set utf8mb4", lambda random: f"'{random.getrandbits(160):x}'"),
    "note": Kind("text character set utf8mb4", _one_of("'naïve'", "'€'", "''", "'two\\nlines'")),
    "raw": Kind("varbinary(40)", lambda random: f"x'{random.randbytes(random.randrange(8)).hex()}'"),
    "moment": Kind(
        "datetime(3)", lambda random: f"'20{random.randrange(10, 99)}-01-02 03:04:05.{_fraction(random, 3)}'"
    ),
    "stamp": Kind(
        "timestamp(6) null", lambda random: f"FROM_UNIXTIME({random.randrange(1, 2**31)}.{_fraction(random, 6)})"
    ),
    "span": Kind("time(2)", lambda random: f"'{random.choice('- ').strip()}{random.randrange(800)}:00:01.25'"),
    "day": Kind("date", _one_of("'2024-02-29'", "'1999-12-31'", "'1000-01-01'")),
    "state": Kind(
        "enum('new','paid','gone')", _one_of("'new'", "'paid'", "'gone'"), "enum('new','paid','gone','lost')"
    ),
    "tags": Kind("set('a','b','c')", _one_of("''", "'a,c'", "'b'")),
    "bits": Kind("bit(12)", _number(0, 4096)),
    "made": Kind("year", _number(1901, 2156)),
    "doc": Kind("json", lambda random: f"'{{\"n\": {random.randrange(100)}}}'"),
}
_SYSBENCH = ("k", "name", "pad")
_DEFAULTED = frozenset({"big", "price", "ratio", "name", "moment", "span", "day", "state", "tags", "made"})
"""Columns that get a default when they are added, which the rows there are get too."""

_KEY_TYPES = ("int", "bigint unsigned", "varchar(20)")


class Load:
    """Work for a database. It remembers which tables and columns there are, so every statement works."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._columns: dict[str, list[str]] = {}
        self._made = 0
        self._left = self._random.randrange(*_BETWEEN_DDL)
        self._deck: list[Change] = []

    def beginning(self) -> Iterator[str]:
        """The databases, their first tables and rows."""
        yield f"CREATE DATABASE {CALM} CHARACTER SET utf8mb4"
        yield f"CREATE DATABASE {BUSY} CHARACTER SET utf8mb4"
        for number, columns in enumerate((_SYSBENCH, _SYSBENCH, list(KINDS)), 1):
            yield from self._create(f"{CALM}.t{number}", columns)
        for _ in range(3):
            yield from self._create_busy()

    def units(self, count: int) -> Iterator[Sequence[str]]:
        """Transactions, and statements that are one by themselves."""
        for _ in range(count):
            if self._left:
                self._left -= 1
                yield self._transaction()
            else:
                self._left = self._random.randrange(*_BETWEEN_DDL)
                yield list(self._dealt()(self, self._random.choice(self._busy())))

    def _dealt(self) -> Change:
        """A way to change a table; none comes twice before each has come once."""
        if not self._deck:
            self._deck = self._random.sample(_CHANGES_OF_TABLES, len(_CHANGES_OF_TABLES))
        return self._deck.pop()

    def _busy(self) -> list[str]:
        return [table for table in self._columns if table.startswith(BUSY)]

    def _new_name(self) -> str:
        self._made += 1
        return f"{BUSY}.t{self._made}"

    def _create(self, table: str, columns: Sequence[str]) -> Iterator[str]:
        self._columns[table] = list(columns)
        key = self._random.choice(_KEY_TYPES)
        defined = ", ".join(f"`{column}` {KINDS[column].type}" for column in columns)
        yield f"CREATE TABLE {table} (id {key} PRIMARY KEY, {defined}, KEY ({columns[0]}))"
        yield self._insert("INSERT", table, range(_FIRST_ROWS))

    def _create_busy(self) -> Iterator[str]:
        others = [name for name in KINDS if name not in ("k", "note", "doc")]
        yield from self._create(self._new_name(), ["k", *self._random.sample(others, 4)])

    def _transaction(self) -> list[str]:
        tables = list(self._columns)
        statements = [
            statement
            for _ in range(self._random.randrange(1, 6))
            for statement in self._random.choice(_CHANGES_OF_ROWS)(self, self._random.choice(tables))
        ]
        end = "ROLLBACK" if self._random.random() < _ROLLBACK_SHARE else "COMMIT"
        return ["BEGIN", *statements, end]

    def _insert(self, verb: str, table: str, keys: Sequence[int]) -> str:
        names = ", ".join(f"`{column}`" for column in ("id", *self._columns[table]))
        rows = ", ".join(f"({key}, {', '.join(self._value(name) for name in self._columns[table])})" for key in keys)
        return f"{verb} INTO {table} ({names}) VALUES {rows}"

    def _value(self, column: str) -> str:
        return "NULL" if self._random.random() < 0.1 else KINDS[column].value(self._random)

    def _key(self) -> int:
        return self._random.randrange(_KEYS)

    def _replace(self, table: str) -> Iterator[str]:
        yield self._insert("REPLACE", table, self._random.sample(range(_KEYS), 3))

    def _add(self, table: str) -> Iterator[str]:
        yield self._insert("INSERT IGNORE", table, self._random.sample(range(_KEYS), 5))

    def _update(self, table: str) -> Iterator[str]:
        column = self._random.choice(self._columns[table])
        yield f"UPDATE {table} SET `{column}` = {self._value(column)} WHERE id = {self._key()}"

    def _update_many(self, table: str) -> Iterator[str]:
        column, key = self._random.choice(self._columns[table]), self._key()
        yield f"UPDATE {table} SET `{column}` = {self._value(column)} WHERE id BETWEEN {key} AND {key + 9}"

    def _move(self, table: str) -> Iterator[str]:
        yield f"UPDATE IGNORE {table} SET id = {self._key()} WHERE id = {self._key()}"

    def _delete(self, table: str) -> Iterator[str]:
        yield f"DELETE FROM {table} WHERE id = {self._key()}"

    def _renew(self, table: str) -> Iterator[str]:
        key = self._key()
        yield f"DELETE FROM {table} WHERE id = {key}"
        yield self._insert("INSERT", table, [key])

    def _add_column(self, table: str) -> Iterator[str]:
        column = self._random.choice([name for name in KINDS if name not in self._columns[table]])
        place = self._random.choice(["", " FIRST", " AFTER id"])
        given = f" DEFAULT {KINDS[column].value(self._random)}" if column in _DEFAULTED else ""
        self._columns[table] = [*self._columns[table], column]
        yield f"ALTER TABLE {table} ADD COLUMN `{column}` {KINDS[column].type}{given}{place}"

    def _drop_column(self, table: str) -> Iterator[str]:
        if len(self._columns[table]) > 2:
            column = self._random.choice(self._columns[table][1:])
            self._columns[table] = [other for other in self._columns[table] if other != column]
            yield f"ALTER TABLE {table} DROP COLUMN `{column}`"

    def _widen(self, table: str) -> Iterator[str]:
        column = self._random.choice([name for name in self._columns[table] if KINDS[name].wider])
        yield f"ALTER TABLE {table} MODIFY `{column}` {KINDS[column].wider}"

    def _rename(self, table: str) -> Iterator[str]:
        new = self._new_name()
        self._columns[new] = self._columns.pop(table)
        yield f"RENAME TABLE {table} TO {new}"

    def _swap(self, table: str) -> Iterator[str]:
        other = self._random.choice([each for each in self._busy() if each != table])
        self._columns[table], self._columns[other] = self._columns[other], self._columns[table]
        yield f"RENAME TABLE {table} TO {BUSY}.spare, {other} TO {table}, {BUSY}.spare TO {other}"

    def _truncate(self, table: str) -> Iterator[str]:
        yield f"TRUNCATE TABLE {table}"

    def _make_anew(self, table: str) -> Iterator[str]:
        del self._columns[table]
        yield f"DROP TABLE {table}"
        yield from self._create_busy()

    def _like(self, table: str) -> Iterator[str]:
        new = self._new_name()
        if len(self._busy()) >= _MOST_BUSY:
            gone = self._random.choice([each for each in self._busy() if each != table])
            del self._columns[gone]
            yield f"DROP TABLE {gone}"
        self._columns[new] = self._columns[table]
        yield f"CREATE TABLE {new} LIKE {table}"
        yield self._insert("INSERT", new, range(_FIRST_ROWS))


Change: TypeAlias = Callable[[Load, str], Iterator[str]]

_CHANGES_OF_ROWS: Sequence[Change] = (
    Load._replace,
    Load._add,
    Load._update,
    Load._update,
    Load._update_many,
    Load._move,
    Load._delete,
    Load._renew,
)
_CHANGES_OF_TABLES: Sequence[Change] = (
    Load._add_column,
    Load._drop_column,
    Load._widen,
    Load._rename,
    Load._swap,
    Load._truncate,
    Load._make_anew,
    Load._like,
)
