"""The log as a stream of changes: groups of events become transactions with timestamps, statements become DDL.

A group takes effect when it is complete. Until then it is ignored, so a connection may break at any event. Several
changes of one row in a transaction become one, as TiDB keeps them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from tidewire.changefeed.source.base import Resolved, ResumePosition, Upstream
from tidewire.changefeed.source.mysql.binlog import (
    Begin,
    BinlogEvent,
    Commit,
    Idle,
    Prepared,
    Query,
    Rotate,
    Rows,
    TableMap,
)
from tidewire.changefeed.source.mysql.dialect import opens_transaction
from tidewire.changefeed.source.mysql.position import (
    SYSTEM,
    Schemas,
    State,
    at_second,
    following,
    schemas_from_plain,
    schemas_to_plain,
    with_gtid,
)
from tidewire.changefeed.source.mysql.row_values import Field, check_fit, field_of, rows_of
from tidewire.changefeed.source.mysql.server import Server
from tidewire.changefeed.source.mysql.statements import Dialect, follow
from tidewire.ddl.lex import lex
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, Row, RowChange, TableName, TableSchema, Value


@dataclass(frozen=True, slots=True)
class Change:
    """A row of a table before and after a change."""

    table: TableSchema
    before: Row | None
    after: Row | None


Key: TypeAlias = tuple[Value, ...]
_RANK: Mapping[tuple[bool, bool], int] = {(True, False): 0, (True, True): 1, (False, True): 2}
"""Deletes come first, then updates, then inserts, so that a unique value is free when it is used again."""


def net_effect(changes: Iterable[Change]) -> list[Change]:
    """The changes of a transaction, one per row, in the order their tables were first touched.

    A row is identified by its handle key: an update that changes the key is a delete and an insert, as in TiDB's
    storage. A row that is the same before and after gives no change. Changes of rows without a key are all kept.
    """
    tables: dict[TableName, _TableChanges] = {}
    for change in changes:
        name = change.table.name
        table = tables.get(name)
        if table is None:
            table = tables[name] = _TableChanges(change.table.handle_key, [], {})
        table.add(change)
    return [change for table in tables.values() for change in table.changes()]


@dataclass(slots=True)
class _TableChanges:
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


@dataclass(slots=True)
class _Group:
    """Events that take effect together, as far as they have been read."""

    ts: int
    schemas: Schemas
    gtid: str | None = None
    alone: bool = True
    rows: list[Change] = field(default_factory=list)
    events: list[RowChange | Ddl] = field(default_factory=list)
    savepoints: dict[str, int] = field(default_factory=dict)
    ended: bool = False


Readable: TypeAlias = tuple[TableSchema, list[Field]]


class Follower:
    """Follows a log from a state on. Events up to ``done`` have been given before and are left out."""

    def __init__(self, state: State, server: Server, dialect: Dialect, done: int = 0) -> None:
        self.state = state
        self._server = self._next_server = server
        self._file = state.file
        self._dialect = dialect
        self._done = self._resolved_ts = done
        self._group: _Group | None = None
        self._maps: dict[int, Readable | None] = {}
        self._readable: dict[TableMap, Readable] = {}
        self._prepared: dict[str, list[Change]] = {}
        self._held: State | None = None
        self._plain: tuple[Schemas, dict[str, Any]] | None = None

    @classmethod
    def resumed(cls, place: ResumePosition, server: Server, dialect: Dialect, start_ts: int = 0) -> Follower:
        """A follower that resumes at a position, after ``start_ts``."""
        state = State(
            place["file"], place["position"], place["gtid"], place["ts"], schemas_from_plain(place["schemas"])
        )
        home = replace(server, identity=place["server"])
        return cls(state, home, dialect, max(place["done"], start_ts))

    @property
    def place(self) -> ResumePosition:
        """Where to resume: before the first prepared distributed transaction, or else here."""
        state = self._held or self.state
        if self._plain is None or self._plain[0] is not state.schemas:
            self._plain = state.schemas, schemas_to_plain(state.schemas)
        return {
            "server": self._server.identity,
            "file": state.file,
            "position": state.position,
            "gtid": state.gtid,
            "ts": state.ts,
            "done": max(self.state.ts, self._done),
            "schemas": self._plain[1],
        }

    def is_elsewhere(self, server: Server) -> bool:
        """Is this another server than the one whose files the state names?"""
        return server.identity != self._server.identity

    def move_to(self, server: Server) -> None:
        """Follow another server from now on; its files count from the next group or idle event."""
        self._next_server = server

    def interrupted(self) -> None:
        """Drop incomplete groups after a broken connection; they will be read again."""
        self._group = None
        self._maps.clear()

    def quiet(self, ts: int) -> Resolved:
        """Note that everything to come is later than ``ts``."""
        self.state = replace(self.state, ts=max(ts, self.state.ts))
        return self._resolved()

    def feed(self, event: BinlogEvent) -> list[Upstream]:
        """Take an event; return the changes that it completes, and a ``Resolved`` after them."""
        match event:
            case Begin(gtid, alone):
                self._group = _Group(self.state.ts, self.state.schemas, gtid, alone)
            case TableMap():
                self._map(event)
            case Rows():
                self._open().rows += self._changes(event)
            case Query():
                return self._query(event)
            case Commit(seconds, end):
                return self._complete(self._open(), seconds, end)
            case Prepared(xid, end):
                self._prepare(xid, end)
            case Rotate(file, position):
                self._rotate(file, position)
            case Idle(file, end) if self._group is None:
                self._server = self._next_server
                self.state = replace(self.state, file=file, position=end)
            case Idle():
                pass
        return []

    def _rotate(self, file: str, position: int) -> None:
        self._maps.clear()
        self._readable.clear()
        self._file = file
        if not self.is_elsewhere(self._next_server):
            self.state = replace(self.state, file=file, position=position)

    def _open(self) -> _Group:
        if self._group is None:
            self._group = _Group(self.state.ts, self.state.schemas)
        return self._group

    def _map(self, event: TableMap) -> None:
        schemas = self._open().schemas
        system = event.name.schema.lower() in SYSTEM
        if system or schemas.is_sequence(event.name) or not self._dialect.wanted(event.name):
            self._maps[event.table_id] = None
            return
        table = schemas.find(event.name) or self._looked_up(event)
        known = self._readable.get(event)
        if known is None or known[0] is not table:
            check_fit(table, event)
            columns = [*table.columns, *[None] * (len(event.columns) - len(table.columns))]
            pairs = zip(event.columns, columns, strict=True)
            known = table, [field_of(wire, column, self._server.zone) for wire, column in pairs]
            self._readable[event] = known
        self._maps[event.table_id] = known

    def _looked_up(self, event: TableMap) -> TableSchema:
        """A table that was not wanted before, perhaps under another name: its current definition from the server."""
        found = self._dialect.reload(event.name)
        if found is None:
            raise ChangefeedError(
                "CDC:ErrSnapshotTableNotFound",
                f"the binary log has rows of {event.name}, which neither the changefeed nor the server has; "
                "begin with a new snapshot",
            )
        group = self._open()
        group.schemas, table = group.schemas.made(found, group.ts)
        return table

    def _changes(self, event: Rows) -> Iterator[Change]:
        readable = self._maps.get(event.table_id)
        if readable is None:
            return
        table, fields = readable
        for bitmap in (event.before, event.after):
            for number, one in enumerate(fields):
                if bitmap is not None and one.name is not None and not bitmap[number // 8] >> number % 8 & 1:
                    raise ChangefeedError(
                        "CDC:ErrMySQLInvalidConfig",
                        f"a row of {table.name} in the binary log lacks {one.name!r}; set binlog_row_image to FULL",
                    )
        for before, after in rows_of(event, fields):
            yield Change(table, before, after)

    def _query(self, event: Query) -> list[Upstream]:
        group = self._open()
        handle = _CONTROL.get(lex(event.text)[0].word)
        if handle is not None:
            handle(self, group, event)
            if group.ended:
                return self._complete(group, event.seconds, event.end)
        else:
            self._statement(group, event)
            if opens_transaction(event.text):
                group.alone = False
        if group.alone and handle is None:
            return self._complete(group, event.seconds, event.end)
        return []

    def _statement(self, group: _Group, event: Query) -> None:
        self._transact(group, event.seconds)
        ts = following(group.ts, event.seconds)
        group.schemas, events = follow(group.schemas, event.schema, event.text, ts, self._dialect)
        group.events += events
        group.ts = ts + len(events) - 1 if events else group.ts

    def _transact(self, group: _Group, seconds: int) -> None:
        """Turn the rows so far into a transaction."""
        changes = net_effect(group.rows)
        group.rows = []
        if changes:
            group.ts = following(group.ts, seconds)
        group.events += [
            RowChange(change.table, group.ts, change.before, change.after, group.ts - 1, change.table.table_id)
            for change in changes
        ]

    def _complete(self, group: _Group, seconds: int, end: int) -> list[Upstream]:
        """Complete a group. A group without events advances the time too, which is reported once a second."""
        self._transact(group, seconds)
        if not group.events:
            group.ts = following(group.ts, seconds)
        self._arrive(group, end)
        given: list[Upstream] = [event for event in group.events if (event.commit_ts or 0) > self._done]
        if given or group.ts >= max(self._resolved_ts + at_second(1), self._done + 1):
            given.append(self._resolved())
        return given

    def _resolved(self) -> Resolved:
        self._resolved_ts = max(self.state.ts, self._done)
        return Resolved(self._resolved_ts, self.place)

    def _arrive(self, group: _Group, end: int) -> None:
        gtid = with_gtid(self.state.gtid, group.gtid)
        self._server = self._next_server
        self.state = State(self._file, end, gtid, group.ts, group.schemas)
        self._group = None
        if not self._prepared:
            self._held = None

    def _prepare(self, xid: str, end: int) -> None:
        group = self._open()
        if not self._prepared:
            self._held = self.state
        self._prepared[xid] = group.rows
        self._arrive(group, end)

    def _begin(self, group: _Group, event: Query) -> None:
        group.alone = False

    def _end(self, group: _Group, event: Query) -> None:
        group.ended = True

    def _roll_back(self, group: _Group, event: Query) -> None:
        tokens = lex(event.text)
        words = [token.word for token in tokens]
        if "TO" in words:
            del group.rows[group.savepoints.get(tokens[-2].text, 0) :]
        else:
            group.rows.clear()
            group.ended = True

    def _savepoint(self, group: _Group, event: Query) -> None:
        group.savepoints[lex(event.text)[1].text] = len(group.rows)

    def _distributed(self, group: _Group, event: Query) -> None:
        """Commit or roll back a prepared distributed transaction; its other steps have no effect."""
        _, step, xid = event.text.split(None, 2)
        if step.upper() not in ("COMMIT", "ROLLBACK"):
            group.alone = False
            return
        rows = self._prepared.pop(xid.strip(), None)
        if step.upper() == "COMMIT":
            if rows is None:
                raise ChangefeedError(
                    "CDC:ErrMySQLInvalidConfig",
                    f"the distributed transaction {xid.strip()} was prepared before the changefeed began and committed "
                    "after it, so its rows are unknown; begin with a new snapshot",
                )
            group.rows = rows
        group.ended = True


_CONTROL: Mapping[str, Callable[[Follower, _Group, Query], None]] = {
    "BEGIN": Follower._begin,
    "COMMIT": Follower._end,
    "ROLLBACK": Follower._roll_back,
    "SAVEPOINT": Follower._savepoint,
    "XA": Follower._distributed,
}
"""Statements that control the group, by their first word."""
