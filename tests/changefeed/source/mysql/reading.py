"""Reading a source in a test: all of it up to a moment, and a replica made of what it gives."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tidewire.changefeed.source.base import Resolved, ResumePosition, Upstream
from tidewire.changefeed.source.mysql import MysqlSource
from tidewire.ddl.edits import AlterTable, CreateTable, DropDatabase, DropTable, RenameTable, TruncateTable
from tidewire.ddl.parse import edits
from tidewire.model import Ddl, Generated, Row, RowChange, TableName, Value

SECONDS = 60


def until(source: MysqlSource, done: Callable[[Upstream], bool], place: ResumePosition | None = None) -> list[Upstream]:
    """What a source gives, up to and with the first that is ``done``."""
    deadline = time.monotonic() + SECONDS
    given = []
    for event in source.read(source.now() if place is None else 0, place):
        given.append(event)
        if done(event):
            return given
        assert time.monotonic() < deadline, f"nothing that is done among {len(given)} events"
    raise AssertionError("the source ended")


def complete(event: Upstream) -> bool:
    """Does everything before have a place to go on from?"""
    return isinstance(event, Resolved) and "file" in event.place


def marked(mark: str) -> Callable[[Upstream], bool]:
    """Waits for a database of that name, and for the place behind it."""
    seen = False

    def done(event: Upstream) -> bool:
        nonlocal seen
        seen = seen or (isinstance(event, Ddl) and event.table.schema == mark)
        return seen and isinstance(event, Resolved)

    return done


def rows(events: Iterable[Upstream], table: str | None = None) -> list[RowChange]:
    """The row changes among events, of one table."""
    changes = [event for event in events if isinstance(event, RowChange)]
    return [change for change in changes if table in (None, change.table.name.table)]


def told(events: Iterable[Upstream]) -> list[RowChange | Ddl]:
    """What happened, without how far that is."""
    return [event for event in events if isinstance(event, RowChange | Ddl)]


def ddls(events: Iterable[Upstream]) -> list[Ddl]:
    """The DDL among events."""
    return [event for event in events if isinstance(event, Ddl)]


def last_place(events: Iterable[Upstream]) -> ResumePosition:
    """The last place events tell of."""
    return [event for event in events if isinstance(event, Resolved)][-1].place


@dataclass
class Replica:
    """The tables a reader has made of events, by name and key. It refuses what a right stream never has."""

    tables: dict[TableName, dict[tuple[Value, ...], Row]] = field(default_factory=dict)
    ts: int = 0
    resolved: int = 0

    def take(self, events: Iterable[Upstream]) -> Iterator[Upstream]:
        """Apply events as they are passed on."""
        for event in events:
            match event:
                case Resolved(ts):
                    assert ts >= max(self.ts, self.resolved)
                    self.resolved = ts
                case Ddl():
                    self._ordered(event, event.commit_ts or 0, strictly=True)
                    self._define(event)
                case RowChange():
                    self._ordered(event, event.commit_ts or 0)
                    self._change(event)
            yield event

    def _ordered(self, event: Upstream, ts: int, strictly: bool = False) -> None:
        assert ts > self.resolved, event
        assert ts > self.ts if strictly else ts >= self.ts, event
        self.ts = ts

    def _change(self, change: RowChange) -> None:
        held = self.tables[change.table.name]
        key = [tuple(row[name] for name in change.table.handle_key) for row in (change.before, change.after) if row]
        if change.before is not None:
            assert held.pop(key[0]) == change.before
        if change.after is not None:
            assert key[-1] not in held
            held[key[-1]] = change.after

    def _define(self, ddl: Ddl) -> None:
        for edit in edits(ddl):
            match edit:
                case CreateTable(table):
                    assert table.name not in self.tables
                    self.tables[table.name] = {}
                case DropTable(name):
                    self.tables.pop(name, None)
                case TruncateTable(name):
                    self.tables[name] = {}
                case RenameTable(old, new):
                    self.tables[new] = self.tables.pop(old)
                case DropDatabase(schema):
                    self.tables = {name: held for name, held in self.tables.items() if name.schema != schema}
                case AlterTable(name) if ddl.table_schema is not None and ddl.pre_table_schema is not None:
                    self._alter(name, ddl)
                case _:
                    pass

    def _alter(self, name: TableName, ddl: Ddl) -> None:
        """Rows follow the ids of the columns; a new column has the value its default says, which is NULL here."""
        assert ddl.table_schema is not None
        assert ddl.pre_table_schema is not None
        before = {column.id: column.name for column in ddl.pre_table_schema.columns}
        shown = [column for column in ddl.table_schema.columns if column.generated is not Generated.VIRTUAL]
        kept = {column.name: before.get(column.id) for column in shown}
        held: dict[tuple[Value, ...], Row] = {}
        for row in self.tables[name].values():
            new = {column: None if old is None else row[old] for column, old in kept.items()}
            held[tuple(new[column] for column in ddl.table_schema.handle_key)] = new
        self.tables[name] = held
