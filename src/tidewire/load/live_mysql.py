"""A live MySQL or MariaDB server: all tables as of one consistent snapshot, read by the session that holds it.

These servers have no TSO. A changefeed makes timestamps of the seconds in the log and of the order of transactions
(:mod:`tidewire.changefeed.source.mysql.position`). The load reads the last seconds of the log before its snapshot as a
changefeed does, and so finds the timestamp that the last transaction in the snapshot has in the topic. That is its ts:
no change up to the snapshot is later, and each one after it is. If nothing was logged in these seconds, the ts is the
end of the last second that was certainly over. DDL can count as several transactions, so a snapshot is taken only if
no DDL came into the log in these seconds.

A snapshot ends with its session. So a load that was killed begins anew, with a new snapshot and a new ts. What was
staged before is deleted first; no table has any of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import Final

from tidewire.changefeed.source.mysql.binlog import events_between
from tidewire.changefeed.source.mysql.connection import Retries, Session
from tidewire.changefeed.source.mysql.follower import Follower
from tidewire.changefeed.source.mysql.position import Schemas, State, at_second, settled_before
from tidewire.changefeed.source.mysql.server import ServerInfo, look_at
from tidewire.changefeed.source.mysql.snapshot import (
    Snapshot,
    TableChanged,
    check_calm,
    clock_ms,
    log_end,
    oldest_start,
)
from tidewire.changefeed.source.mysql.statements import Dialect
from tidewire.changefeed.source.mysql.uri import Settings
from tidewire.errors import ChangefeedError, LoadError
from tidewire.load.live import (
    Begun,
    KeyRange,
    LiveChunk,
    LiveLoad,
    LiveTable,
    estimated_rows,
    even_ranges,
    forget,
    integer_key,
    server_errors,
)
from tidewire.load.rows import Rows
from tidewire.load.source import Opened, Place
from tidewire.storage import Storage

_LOOK_SECONDS: Final = 0.2
_AGAIN: Final = "its snapshot is gone, so the load begins anew"


@dataclass(frozen=True, slots=True)
class MysqlLoad(LiveLoad):
    """Tables as of now."""

    @property
    def facts(self) -> object:
        """What makes two loads of a server the same."""
        return "mysql", self.settings.address, self.rules

    @property
    def rewinds(self) -> bool:
        """Can a changefeed begin at a past moment?"""
        return False

    @contextmanager
    def opened(self, ledger: Storage, folder: str, told: Callable[[str], None]) -> Iterator[Opened]:
        """The tables in a new snapshot, which ends with the block."""
        if forget(ledger, folder):
            told("the snapshot of an earlier run is gone: all tables are read anew")
        with server_errors(self.settings, _AGAIN), self._snapshot(told) as (session, snapshot, ts, mariadb):
            tables = tuple(_tables(session, snapshot, mariadb))
            kept = Begun(ts, tables)
            kept.keep(ledger, folder)
            yield Opened(kept.moment, tuple(_chunks(snapshot, tables)), in_tasks=False)
            snapshot.end()

    @contextmanager
    def _snapshot(self, told: Callable[[str], None]) -> Iterator[tuple[Session, Snapshot, int, bool]]:
        """A snapshot, and the ts that no later change has."""
        retries = Retries(Event())
        while True:
            with Session(self.settings) as session:
                facts = readable(session, self.settings)
                try:
                    snapshot, ts = self._taken(session, facts, told)
                except TableChanged as failure:
                    retries.wait(failure)
                    continue
                yield session, snapshot, ts, facts.server.mariadb
                return

    def _taken(self, session: Session, facts: ServerInfo, told: Callable[[str], None]) -> tuple[Snapshot, int]:
        """A snapshot, and the ts up to which all changes are in it. No DDL came shortly before."""
        start = log_end(session)[:2]
        second = clock_ms(session) // 1000
        over = _wait_until_over(session, second, told)
        snapshot = Snapshot(session, self.settings, facts, self.wanted, 0, lambda: False)
        check_calm(session, self.settings, facts, start)
        last = _last_ts(self.settings, facts, start, (snapshot.state.file, snapshot.state.position))
        # What was logged before the start has no ts of a later second. So from the first transaction of a later
        # second on, timestamps are those of every changefeed that began before. One that begins later has the clock's.
        now = clock_ms(session) // 1000
        return snapshot, last if at_second(second + 1) <= last < at_second(now + 1) else settled_before(over)


def _last_ts(settings: Settings, facts: ServerInfo, start: tuple[str, int], end: tuple[str, int]) -> int:
    """The ts of the last transaction between two places of the log, if all before them are in earlier seconds.

    It is never later than the transaction's ts in a topic. Returns 0 if no transaction was
    logged, or if its ts cannot be told.
    """
    dialect = Dialect(facts.server.mariadb, lambda name: None, lambda name: False)
    follower = Follower(State(*start, gtid="", ts=0, schemas=Schemas({}, {})), facts.server, dialect)
    try:
        for event in events_between(settings, facts, start, end):
            follower.feed(event)
    except ChangefeedError:  # such as the second phase of a distributed transaction that was prepared before
        return 0
    return follower.state.ts


def readable(session: Session, settings: Settings) -> ServerInfo:
    """The facts about a server; :class:`LoadError` if a load could not say which changes come after it."""
    facts = look_at(session, settings)
    if not facts.sees_all:
        raise LoadError(
            f"the user {settings.user!r} does not see what other sessions of {settings.address} run, so no second is "
            "certainly over; GRANT PROCESS ON *.* to it"
        )
    if session.ask(_REPLICATES):
        raise LoadError(
            f"{settings.address} is a replica, and its log has the times of the server that it follows: changes after "
            "the load could look older than it. Load from that server"
        )
    return facts


_REPLICATES: Final = """
    SELECT 1 FROM information_schema.PROCESSLIST
    WHERE COMMAND LIKE 'Slave%' OR (USER = 'system user' AND STATE REGEXP 'source|master') LIMIT 1
"""
"""The threads that fetch and apply another server's log, as MariaDB or MySQL shows them."""


def _wait_until_over(session: Session, second: int, told: Callable[[str], None]) -> int:
    """Wait until a second is over for all statements; the first second that is not over then."""
    waited = False
    pause = Event()
    while (found := oldest_start(session)) <= second:
        if not waited and clock_ms(session) // 1000 > second + 3:
            waited = True
            told("waiting for a statement that has run since before the load: see SHOW FULL PROCESSLIST on the server")
        pause.wait(_LOOK_SECONDS)
    return found


def _tables(session: Session, snapshot: Snapshot, mariadb: bool) -> Iterator[LiveTable]:
    estimates = estimated_rows(session)
    for name, query in snapshot.definitions.items():
        rows = estimates.get(name, 0)
        table = LiveTable(name, query, mariadb, rows, (KeyRange(),))
        column = integer_key(table.schema)
        ranges = (KeyRange(),) if column is None else even_ranges(session, name, column, rows)
        yield LiveTable(name, query, mariadb, rows, ranges)


def _chunks(snapshot: Snapshot, tables: Sequence[LiveTable]) -> Iterator[_SnapshotChunk]:
    """The chunks, in the order in which the snapshot gives up its tables."""
    for table in tables:
        schema, last = table.schema, len(table.ranges) - 1
        for number, range_ in enumerate(table.ranges):
            yield _SnapshotChunk(schema, range_, table.chunk_rows, number, snapshot=snapshot, is_last=number == last)


@dataclass(frozen=True, slots=True, kw_only=True)
class _SnapshotChunk(LiveChunk):
    """A chunk that the snapshot's session reads. After the last one of a table, the table may be altered again."""

    snapshot: Snapshot = field(repr=False)
    is_last: bool

    def read(self) -> Iterator[tuple[Place, Rows]]:
        """The rows."""
        yield from self.batches(self.snapshot.stream)
        if self.is_last:
            self.snapshot.release(self.table.name)
