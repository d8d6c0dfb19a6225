"""The log as a stream of changes: groups of events become transactions with timestamps, statements become DDL.

A group takes effect when it is complete. Until then it is ignored, so a connection may break at any event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any, TypeAlias

from tidewire.changefeed.source.base import Resolved, ResumePosition, Upstream
from tidewire.changefeed.source.mysql.clock import at_second, following
from tidewire.changefeed.source.mysql.dialect import opens_transaction
from tidewire.changefeed.source.mysql.events import (
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
from tidewire.changefeed.source.mysql.gtids import with_gtid
from tidewire.changefeed.source.mysql.last_change_per_row import Change, net_effect
from tidewire.changefeed.source.mysql.row_values import Field, field_of, rows_of
from tidewire.changefeed.source.mysql.schemas import SYSTEM, Schemas, schemas_from_plain, schemas_to_plain
from tidewire.changefeed.source.mysql.statements import Dialect, follow
from tidewire.changefeed.source.mysql.table_check import check_fit
from tidewire.ddl.lex import lex
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, RowChange, TableSchema


@dataclass(frozen=True, slots=True)
class State:
    """A place between two groups, and all that is known there."""

    file: str
    position: int
    gtid: str
    ts: int
    schemas: Schemas


@dataclass(frozen=True, slots=True)
class Server:
    """What has to be known of a server to follow its log; ``identity`` tells it from others."""

    identity: str
    mariadb: bool
    zone: tzinfo


@dataclass(slots=True)
class _Group:
    """Events that take effect together, as far as they have come."""

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
    """Follows a log from a state on. ``done``: what is not later than this has been given before and is left out."""

    def __init__(self, state: State, server: Server, dialect: Dialect, done: int = 0) -> None:
        self.state = state
        self._server = self._next_server = server
        self._file = state.file
        self._dialect = dialect
        self._done = self._told = done
        self._group: _Group | None = None
        self._maps: dict[int, Readable | None] = {}
        self._readable: dict[TableMap, Readable] = {}
        self._prepared: dict[str, list[Change]] = {}
        self._held: State | None = None
        self._plain: tuple[Schemas, dict[str, Any]] | None = None

    @classmethod
    def resumed(cls, place: ResumePosition, server: Server, dialect: Dialect, start_ts: int = 0) -> Follower:
        """One that goes on at a place, after ``start_ts``."""
        state = State(
            place["file"], place["position"], place["gtid"], place["ts"], schemas_from_plain(place["schemas"])
        )
        home = replace(server, identity=place["server"])
        return cls(state, home, dialect, max(place["done"], start_ts))

    @property
    def place(self) -> ResumePosition:
        """Where to go on: before the first group that waits for its second phase, or else here."""
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
        """Is a server another one than the one whose files the state names?"""
        return server.identity != self._server.identity

    def move_to(self, server: Server) -> None:
        """Follow a server from now on; its files count from the first group or silence on."""
        self._next_server = server

    def interrupted(self) -> None:
        """The connection broke: incomplete groups will be read again."""
        self._group = None
        self._maps.clear()

    def quiet(self, ts: int) -> Resolved:
        """Nothing that comes is earlier than ``ts`` or at it."""
        self.state = replace(self.state, ts=max(ts, self.state.ts))
        return self._resolved()

    def feed(self, event: BinlogEvent) -> list[Upstream]:
        """What is complete with an event: changes, and how far that is."""
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
        """A table that was not wanted before, or had a name that was not: the server tells what it is now."""
        found = self._dialect.reload(event.name)
        if found is None:
            raise ChangefeedError(
                "CDC:ErrSnapshotTableNotFound",
                f"the binary log has rows of {event.name}, of which neither the changefeed nor the server knows; "
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
        """Give the rows so far as a transaction."""
        changes = net_effect(group.rows)
        group.rows = []
        if changes:
            group.ts = following(group.ts, seconds)
        group.events += [
            RowChange(change.table, group.ts, change.before, change.after, group.ts - 1, change.table.table_id)
            for change in changes
        ]

    def _complete(self, group: _Group, seconds: int, end: int) -> list[Upstream]:
        """Handle a complete group. One without events moves the time too; this is reported once a second."""
        self._transact(group, seconds)
        if not group.events:
            group.ts = following(group.ts, seconds)
        self._arrive(group, end)
        given: list[Upstream] = [event for event in group.events if (event.commit_ts or 0) > self._done]
        if given or group.ts >= max(self._told + at_second(1), self._done + 1):
            given.append(self._resolved())
        return given

    def _resolved(self) -> Resolved:
        self._told = max(self.state.ts, self._done)
        return Resolved(self._told, self.place)

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
        """The second phase of a distributed transaction; its other steps say nothing new."""
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
"""Statements about the group itself, by their first word."""
