"""A seeded workload: what happens upstream, in the order it happens, and what is true afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from random import Random
from typing import Any, NamedTuple, TypeAlias, assert_never

from tidewire.errors import OptionError
from tidewire.model import Event, RowChange, TableName, Watermark
from tidewire.plain import value_to_plain
from tidewire.workload.database import Clock, Database, Table
from tidewire.workload.shapes import shape
from tidewire.workload.statements import Kind, Scene, Statement, create, statements
from tidewire.workload.transactions import ActionRates, Touched, Writer

START = 470_000_000_000_000_000
"""The moment a workload begins at, a TSO of October 2026: a workload knows no other clock than its own."""


class Transaction(NamedTuple):
    """Rows that changed at one moment."""

    ts: int
    rows: tuple[RowChange, ...]


class ResolvedTs(NamedTuple):
    """All changes up to this ts have been written."""

    ts: int


Entry: TypeAlias = Transaction | Statement | ResolvedTs


@dataclass(frozen=True, slots=True)
class Habits:
    """How an upstream behaves. Rates are per transaction.

    ``ties``: a transaction or a statement gets the commit ts of the transaction before it. ``pairs``: a statement is
    followed at once by one that changes another table. ``raw``: a changed key is an update, not a delete and an insert.
    """

    rates: ActionRates = field(default_factory=ActionRates)
    most_rows: int = 6
    statements: float = 0.05
    kinds: Mapping[Kind, float] = field(default_factory=lambda: dict.fromkeys(Kind, 1.0))
    marks: float = 0.2
    ties: float = 0.0
    pairs: float = 0.0
    raw: bool = False


@dataclass(frozen=True, slots=True)
class Workload:
    """What happens upstream. The same seed and numbers give the same entries, as often as it is iterated.

    It ends after so many ``transactions``, or with the transaction that makes so many ``rows``.
    """

    seed: int = 0
    transactions: int | None = None
    rows: int | None = None
    tables: int = 4
    schema: str = "shop"
    habits: Habits = field(default_factory=Habits)

    def __post_init__(self) -> None:
        if self.tables < 1:
            raise OptionError("tables", "a workload needs at least one")
        if self.transactions is None and self.rows is None:
            raise OptionError("transactions", "a workload needs a number of transactions or of rows; give one of them")

    def __iter__(self) -> Iterator[Entry]:
        random = Random(self.seed)
        scene = Scene(random, Database(), Clock(random, START))
        for number in range(self.tables):
            made = shape(number, random)
            yield _done(scene, create(scene, TableName(self.schema, made.name), made))
        yield ResolvedTs(scene.clock.tick())
        yield from self._busy(scene)
        yield ResolvedTs(scene.clock.tick())

    def _busy(self, scene: Scene) -> Iterator[Entry]:
        random, habits = scene.random, self.habits
        transactions = rows = 0
        touched: Touched = set()
        tied: int | None = None
        while not self._over(transactions, rows):
            ts = tied or scene.clock.tick()
            if tied is None:
                touched = set()
            transaction = self._transaction(scene, ts, touched)
            yield transaction
            transactions, rows = transactions + 1, rows + len(transaction.rows)
            tied = ts if random.random() < habits.ties else None
            if random.random() < habits.statements:
                yield from self._statements(scene, tied)
                tied = None  # rows of a statement's own moment come before it
            if random.random() < habits.marks and tied is None:
                yield ResolvedTs(scene.clock.tick() if random.random() < 0.5 else scene.clock.now)

    def _over(self, transactions: int, rows: int) -> bool:
        enough = self.transactions is not None and transactions >= self.transactions
        return enough or (self.rows is not None and rows >= self.rows)

    def _transaction(self, scene: Scene, ts: int, touched: Touched) -> Transaction:
        random, tables = scene.random, list(scene.database.tables.values())
        writer = Writer(random, scene.database, ts, touched, raw=self.habits.raw)
        count = random.randint(1, self.habits.most_rows)
        changes = (writer.changes(random.choice(tables), self.habits.rates.pick(random)) for _ in range(count))
        return Transaction(ts, tuple(chain.from_iterable(changes)))

    def _statements(self, scene: Scene, at: int | None) -> Iterator[Statement]:
        random = scene.random
        tables = list(scene.database.tables.values())
        first, *others = random.sample(tables, len(tables))
        yield from self._statement(scene, first, self._kind(random), at)
        if others and random.random() < self.habits.pairs:
            yield from self._statement(scene, others[0], Kind.ADD_COLUMN, None)

    def _statement(self, scene: Scene, table: Table, kind: Kind, at: int | None) -> Iterator[Statement]:
        for statement in statements(scene, kind, table, at=at):
            yield _done(scene, statement)

    def _kind(self, random: Random) -> Kind:
        kinds = self.habits.kinds
        return random.choices(list(kinds), list(kinds.values()))[0]


def _done(scene: Scene, statement: Statement) -> Statement:
    # The statement keeps the tables as they are now; the database goes on with its own.
    scene.database.replace(_copied(statement.tables))
    return statement


def _copied(tables: Mapping[TableName, Table | None]) -> dict[TableName, Table | None]:
    return {
        name: None if table is None else Table(table.schema, table.physical, table.rows)
        for name, table in tables.items()
    }


def events(entries: Iterable[Entry]) -> Iterator[Event]:
    """The events of a workload in commit order, watermarks among them."""
    for entry in entries:
        match entry:
            case Transaction(_, rows):
                yield from rows
            case Statement(_, ddl, _):
                yield ddl
            case ResolvedTs(ts):
                yield Watermark(ts)
            case _:
                assert_never(entry)


def states(entries: Iterable[Entry], moments: Sequence[int]) -> Iterator[dict[str, Any]]:
    """What the tables hold at each of these moments, in order: everything up to and with it.

    ``{"ts": …, "step": …, "tables": {"shop.accounts": {"key": […], "columns": […], "rows": […]}}}``, values in their
    canonical plain form.
    """
    database, rest = Database(), list(moments)
    for step, entry in enumerate(chain(entries, [ResolvedTs(1 << 64)])):
        while rest and entry.ts > rest[0]:
            yield {"ts": rest.pop(0), "step": f"after {step}", "tables": tables_to_plain(database.tables)}
        match entry:
            case Statement(_, _, tables):
                database.replace(_copied(tables))
            case Transaction(_, rows):
                for change in rows:
                    _apply(database, change)


def _apply(database: Database, change: RowChange) -> None:
    """Do to a table what a change says. In one moment a row that is put wins over one that is taken away."""
    table = database.tables[change.table.name]
    if change.before is not None and table.rows.get(key := table.key(change.before)) is change.before:
        table.remove(key)
    if change.after is not None:
        table.put(change.after)


def tables_to_plain(tables: Mapping[TableName, Table]) -> dict[str, Any]:
    """Tables in canonical plain form, rows in a fixed order."""
    return {str(name): table_to_plain(table) for name, table in sorted(tables.items())}


def table_to_plain(table: Table) -> dict[str, Any]:
    """A table in canonical plain form."""
    columns = table.schema.columns
    rows = [[value_to_plain(row[column.name], column) for column in columns] for row in table.rows.values()]
    return {
        "key": list(table.schema.handle_key),
        "columns": [column.name for column in columns],
        "rows": sorted(rows, key=json.dumps),
    }
