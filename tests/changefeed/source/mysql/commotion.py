"""A server in commotion: random statements that change rows and tables, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from random import Random

DATABASE = "busy"
_COLUMNS = {
    "n": "int unsigned",
    "big": "bigint",
    "price": "decimal(20,6)",
    "ratio": "double",
    "small": "float",
    "name": "varchar(50) character set utf8mb4",
    "note": "text character set latin1",
    "raw": "varbinary(40)",
    "fixed": "binary(6)",
    "moment": "datetime(3)",
    "stamp": "timestamp(6) null",
    "span": "time(2)",
    "day": "date",
    "state": "enum('new','paid','gone')",
    "tags": "set('a','b','c')",
    "bits": "bit(12)",
    "made": "year",
    "doc": "json",
}
_VALUES: Mapping[str, Callable[[Random], str]] = {
    "n": lambda random: str(random.randrange(2**32)),
    "big": lambda random: str(random.randrange(-(2**63), 2**63)),
    "price": lambda random: f"{random.randrange(-(10**12), 10**12)}.{random.randrange(10**6):06d}",
    "ratio": lambda random: repr(random.uniform(-1e9, 1e9)),
    "small": lambda random: repr(random.uniform(-1e3, 1e3)),
    "name": lambda random: f"'{random.choice(['é', '𝄞', 'x', ''])}{random.randrange(1000)}'",
    "note": lambda random: f"'{random.choice(['naïve', '€', ''])}'",
    "raw": lambda random: f"x'{random.randbytes(random.randrange(8)).hex()}'",
    "fixed": lambda random: f"x'{random.randbytes(3).hex()}00'",
    "moment": lambda random: f"'20{random.randrange(10, 99)}-01-02 03:04:05.{random.randrange(1000):03d}'",
    "stamp": lambda random: f"FROM_UNIXTIME({random.randrange(1, 2**31)}.{random.randrange(10**6):06d})",
    "span": lambda random: f"'{random.choice(['-', ''])}{random.randrange(800)}:00:01.{random.randrange(100):02d}'",
    "day": lambda random: random.choice(["'0000-00-00'", "'2024-02-29'"]),
    "state": lambda random: random.choice(["'new'", "'paid'", "'gone'"]),
    "tags": lambda random: random.choice(["''", "'a,c'", "'b'"]),
    "bits": lambda random: str(random.randrange(4096)),
    "made": lambda random: str(random.randrange(1901, 2156)),
    "doc": lambda random: f"'{{\"n\": {random.randrange(100)}}}'",
}


class Commotion:
    """Random statements over a handful of tables; it remembers which columns and keys there are."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._tables: dict[str, list[str]] = {}
        self._made = 0

    def statements(self, count: int) -> Iterator[str]:
        """Statements in an order in which each of them works."""
        yield f"CREATE DATABASE {DATABASE}"
        yield from self._create()
        yield from self._create()
        for _ in range(count):
            table = self._random.choice(list(self._tables))
            weights = [60, 8] + [1] * (len(self._KINDS) - 2)
            kind = self._random.choices(self._KINDS, weights)[0]
            yield from kind(self, table)

    def _full(self, table: str) -> str:
        return f"{DATABASE}.`{table}`"

    def _create(self) -> Iterator[str]:
        self._made += 1
        table = f"t{self._made}"
        columns = self._random.sample(list(_COLUMNS), 5)
        self._tables[table] = columns
        defined = ", ".join(f"`{column}` {_COLUMNS[column]}" for column in columns)
        key = self._random.choice(["id int PRIMARY KEY", "id varchar(20) NOT NULL UNIQUE"])
        yield f"CREATE TABLE {self._full(table)} ({key}, {defined}, twice bigint AS (id * 2) VIRTUAL)"

    def _change(self, table: str) -> Iterator[str]:
        random, columns = self._random, self._tables[table]
        key = random.randrange(30)
        one = random.choice(columns)
        values = ", ".join(random.choice([_VALUES[column](random), "NULL"]) for column in columns)
        names = ", ".join(f"`{column}`" for column in ["id", *columns])
        yield random.choice(
            [
                f"REPLACE INTO {self._full(table)} ({names}) VALUES ({key}, {values})",
                f"INSERT IGNORE INTO {self._full(table)} ({names}) VALUES ({key}, {values}), ({key + 1}, {values})",
                f"UPDATE {self._full(table)} SET `{one}` = {_VALUES[one](random)} WHERE id % 3 = {key % 3}",
                f"UPDATE IGNORE {self._full(table)} SET id = {key + 40} WHERE id = {key}",
                f"UPDATE IGNORE {self._full(table)} SET id = id - 40 WHERE id >= 40",
                f"DELETE FROM {self._full(table)} WHERE id = {key}",
            ]
        )

    def _transaction(self, table: str) -> Iterator[str]:
        yield "BEGIN"
        for _ in range(self._random.randrange(1, 6)):
            yield from self._change(self._random.choice(list(self._tables)))
        if self._random.random() < 0.3:
            yield "SAVEPOINT half"
            yield from self._change(table)
            yield "ROLLBACK TO half"
        yield self._random.choice(["COMMIT", "COMMIT", "ROLLBACK"])

    def _add_column(self, table: str) -> Iterator[str]:
        missing = [column for column in _COLUMNS if column not in self._tables[table]]
        if missing:
            column = self._random.choice(missing)
            place = self._random.choice(["", " FIRST", " AFTER id"])
            self._tables[table] = [*self._tables[table], column]
            yield f"ALTER TABLE {self._full(table)} ADD COLUMN `{column}` {_COLUMNS[column]} DEFAULT NULL{place}"

    def _drop_column(self, table: str) -> Iterator[str]:
        if len(self._tables[table]) > 2:
            column = self._random.choice(self._tables[table])
            self._tables[table] = [other for other in self._tables[table] if other != column]
            yield f"ALTER TABLE {self._full(table)} DROP COLUMN `{column}`"

    def _widen(self, table: str) -> Iterator[str]:
        if "n" in self._tables[table]:
            yield f"ALTER TABLE {self._full(table)} MODIFY n bigint unsigned"

    def _rename(self, table: str) -> Iterator[str]:
        self._made += 1
        self._tables[f"t{self._made}"] = self._tables.pop(table)
        yield f"RENAME TABLE {self._full(table)} TO {self._full(f't{self._made}')}"

    def _swap(self, table: str) -> Iterator[str]:
        other = self._random.choice(list(self._tables))
        if other != table:
            self._tables[table], self._tables[other] = self._tables[other], self._tables[table]
            one, two, spare = self._full(table), self._full(other), self._full("spare")
            yield f"RENAME TABLE {one} TO {spare}, {two} TO {one}, {spare} TO {two}"

    def _truncate(self, table: str) -> Iterator[str]:
        yield f"TRUNCATE TABLE {self._full(table)}"

    def _replace(self, table: str) -> Iterator[str]:
        del self._tables[table]
        yield f"DROP TABLE {self._full(table)}"
        yield from self._create()

    def _copy(self, table: str) -> Iterator[str]:
        self._made += 1
        self._tables[f"t{self._made}"] = self._tables[table]
        yield f"CREATE TABLE {self._full(f't{self._made}')} LIKE {self._full(table)}"

    def _select(self, table: str) -> Iterator[str]:
        self._made += 1
        columns = [column for column in self._tables[table] if column != "n"]
        self._tables[f"t{self._made}"] = columns
        names = ", ".join(f"`{column}`" for column in ["id", *columns])
        yield f"CREATE TABLE {self._full(f't{self._made}')} (PRIMARY KEY (id)) SELECT {names} FROM {self._full(table)}"

    def _index(self, table: str) -> Iterator[str]:
        self._made += 1
        yield f"CREATE INDEX i{self._made} ON {self._full(table)} (id)"

    def _numbered(self, table: str) -> Iterator[str]:
        """A column whose values no statement has; the reader has to look at the server."""
        self._made += 1
        yield f"CREATE TABLE {DATABASE}.`numbered{self._made}` (a int PRIMARY KEY)"
        yield f"ALTER TABLE {DATABASE}.`numbered{self._made}` ADD b int AUTO_INCREMENT UNIQUE"
        yield f"INSERT INTO {DATABASE}.`numbered{self._made}` (a) VALUES (1), (2)"

    _KINDS = (
        _change,
        _transaction,
        _add_column,
        _drop_column,
        _widen,
        _rename,
        _swap,
        _truncate,
        _replace,
        _copy,
        _select,
        _index,
        _numbered,
    )
