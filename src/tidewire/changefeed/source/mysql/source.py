"""A MySQL or MariaDB server as the source of a changefeed: a snapshot first, then its binary log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event

from tidewire.changefeed.source.base import Resolved, ResumePosition, Upstream
from tidewire.changefeed.source.mysql.binlog import Binlog, Idle, log_number
from tidewire.changefeed.source.mysql.connection import ConnectionLost, Refusal, Retries, Session
from tidewire.changefeed.source.mysql.follower import Follower
from tidewire.changefeed.source.mysql.position import at_millisecond, settled_before
from tidewire.changefeed.source.mysql.server import ServerInfo, definition, definitions, look_at, schemas_of, table_of
from tidewire.changefeed.source.mysql.snapshot import (
    Snapshot,
    TableChanged,
    clock_ms,
    log_end,
    oldest_start,
    state_now,
)
from tidewire.changefeed.source.mysql.statements import Dialect, Wanted
from tidewire.changefeed.source.mysql.uri import read_uri
from tidewire.errors import ChangefeedError
from tidewire.model import TableName, TableSchema


def _everything(name: TableName) -> bool:
    return True


class MysqlSource:
    """Changes of a MySQL or MariaDB server, from ``mysql://user:password@host:port/?name=value``.

    Tables that are not ``wanted`` are neither read nor reported. It connects when it is first used.
    """

    def __init__(self, uri: str, wanted: Wanted = _everything) -> None:
        self._settings = read_uri(uri)
        self._wanted = wanted
        self._closing = Event()

    def __repr__(self) -> str:
        return f"MysqlSource({self._settings.address})"

    def now(self) -> int:
        """The server's clock as a timestamp."""
        with self._session() as session:
            return at_millisecond(clock_ms(session))

    def tables(self) -> Sequence[TableSchema]:
        """The tables that exist now."""
        with self._session() as session:
            info = look_at(session, self._settings)
            return tuple(schemas_of(session, info, definitions(session, self._wanted), 0).tables.values())

    def close(self) -> None:
        """End a ``read`` in progress, within about a second."""
        self._closing.set()

    def read(self, start_ts: int, place: ResumePosition | None = None) -> Iterator[Upstream]:
        """Yield changes after ``start_ts``: from the position of an earlier reading, or a snapshot and what follows it.

        After a broken connection the stream continues where it was; a snapshot is begun again.
        """
        reading = _Reading(self, start_ts, place)
        retries = Retries(self._closing)
        while not self._closing.is_set():
            try:
                yield from reading.go_on(retries)
            except (ConnectionLost, TableChanged) as failure:
                reading.interrupted()
                retries.wait(failure)
            except Refusal as refusal:
                raise self._refused(refusal) from None

    @contextmanager
    def _session(self) -> Iterator[Session]:
        try:
            with Session(self._settings) as session:
                yield session
        except ConnectionLost as lost:
            raise ChangefeedError("CDC:ErrMySQLConnectionError", str(lost)) from None
        except Refusal as refusal:
            raise self._refused(refusal) from None

    def _refused(self, refusal: Refusal) -> ChangefeedError:
        reason = f"{self._settings.address}: {refusal.message} ({refusal.code})"
        return ChangefeedError("CDC:ErrMySQLQueryError", reason)


class _Reading:
    """One reading, over as many connections as it needs."""

    def __init__(self, source: MysqlSource, start_ts: int, place: ResumePosition | None) -> None:
        self._settings = source._settings
        self._wanted = source._wanted
        self._closing = source._closing
        self._given = start_ts
        self._place = place if place and "snapshot" not in place else None
        self._begun = frozenset(TableName(*name) for name in (place or {}).get("snapshot", ()))
        self._follower: Follower | None = None

    def interrupted(self) -> None:
        """Drop what was incomplete; it is read again."""
        if self._follower is not None:
            self._follower.interrupted()

    def go_on(self, retries: Retries) -> Iterator[Upstream]:
        """Yield changes until the connection breaks or the source is closed."""
        with Session(self._settings) as session:
            info = look_at(session, self._settings)
            if self._follower is None:
                yield from self._begin(session, info)
            if self._follower is not None and not self._closing.is_set():
                yield from self._stream(session, info, self._follower, retries)

    def _begin(self, session: Session, info: ServerInfo) -> Iterator[Upstream]:
        if self._place is not None:
            self._follower = Follower.resumed(self._place, info.server, self._dialect(info), self._given)
        elif self._settings.snapshot:
            yield from self._snapshot(session, info)
        else:
            state = state_now(session, self._settings, info, self._wanted, self._given)
            self._follower = Follower(state, info.server, self._dialect(info))
            yield self._follower.quiet(self._given)

    def _snapshot(self, session: Session, info: ServerInfo) -> Iterator[Upstream]:
        snapshot = Snapshot(session, self._settings, info, self._wanted, self._given, self._closing.is_set)
        earlier, self._begun = self._begun, self._begun | snapshot.tables
        yield Resolved(snapshot.state.ts - 1, {"snapshot": sorted(list(name) for name in self._begun)})
        for change in snapshot.changes(earlier):
            yield change
            self._given = snapshot.state.ts
        if not self._closing.is_set():
            self._follower = Follower(snapshot.state, info.server, self._dialect(info))
            yield self._follower.quiet(0)

    def _stream(self, session: Session, info: ServerInfo, follower: Follower, retries: Retries) -> Iterator[Upstream]:
        by_gtid = follower.is_elsewhere(info.server)
        follower.move_to(info.server)
        if by_gtid and not (info.by_gtid and follower.state.gtid):
            raise ChangefeedError(
                "CDC:ErrStartTsBeforeGC",
                f"{self._settings.address} is not the server that this changefeed read before, and without global "
                f"transaction ids {follower.state.file}:{follower.state.position} cannot be found in its log; "
                "begin with a new snapshot",
            )
        binlog = Binlog(self._settings, follower.state, info.server.mariadb, info.collations, by_gtid)
        try:
            for event in binlog.events():
                yield from follower.feed(event)
                retries.restore()
                if self._closing.is_set():
                    return
                if isinstance(event, Idle):
                    yield from self._idle(session, info, follower)
        finally:
            binlog.close()

    def _idle(self, session: Session, info: ServerInfo, follower: Follower) -> Iterator[Upstream]:
        """How far time has advanced while nothing was logged.

        The start of the oldest running statement is asked for first, then the end of the log. If the log has been read
        completely, everything later belongs to a statement that runs now or has not begun.
        """
        settled = 0
        if info.sees_all:
            settled = settled_before(oldest_start(session))
        file, position, _ = log_end(session)
        if (log_number(file), position) == (log_number(follower.state.file), follower.state.position):
            yield follower.quiet(settled)

    def _dialect(self, info: ServerInfo) -> Dialect:
        def reload(name: TableName) -> TableSchema | None:
            with Session(self._settings) as session:
                text = definition(session, name)
            return None if text is None else table_of(name, text, info.server.mariadb)

        return Dialect(info.server.mariadb, reload, self._wanted)
