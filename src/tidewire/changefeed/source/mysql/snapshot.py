"""All rows of a server as of one position in its log.

The server's own consistent snapshot fixes the rows, but not the definitions of tables, and a statement changes these
before it is in the log. So every table is locked until its rows have been read, which keeps its definition. If a
statement runs, or has come into the log, between the snapshot and the last lock, the attempt is repeated. Each attempt
drops and creates the tables before it gives their rows, with later timestamps than the attempt before. So a reader that
has seen part of an earlier attempt loses the rows and tables that have been deleted since.

A session answers in UTF-8 and UTC. Values that its plain answer would change are selected in another form: a FLOAT as a
double, an ENUM, a SET and a BIT as their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from decimal import Decimal
from hashlib import sha256
from typing import TypeAlias

from tidewire.changefeed.source.base import Upstream
from tidewire.changefeed.source.mysql.binlog import defines
from tidewire.changefeed.source.mysql.connection import Answer, Refusal, Session
from tidewire.changefeed.source.mysql.dialect import full_name, translated
from tidewire.changefeed.source.mysql.position import Schemas, State, at_millisecond
from tidewire.changefeed.source.mysql.server import ServerInfo, definition, schemas_of, table_names
from tidewire.changefeed.source.mysql.statements import Wanted
from tidewire.changefeed.source.mysql.stored_values import timestamp_in_zone
from tidewire.changefeed.source.mysql.uri import Settings
from tidewire.ddl.quoting import quoted
from tidewire.model import (
    Column,
    Date,
    DateTime,
    Ddl,
    DdlType,
    EnumValue,
    Generated,
    MySQLType,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Time,
    Value,
)
from tidewire.model.types import INTEGERS
from tidewire.model.values import enum_text, set_text

Form: TypeAlias = Callable[[bytes, Column, tzinfo], Value]

_ASKED_AS_TEXT: Mapping[MySQLType, str] = dict.fromkeys((MySQLType.FLOAT, MySQLType.DOUBLE), "{} + 0e0")

_ASKED: Mapping[MySQLType, str] = {
    **_ASKED_AS_TEXT,
    **dict.fromkeys((MySQLType.ENUM, MySQLType.SET, MySQLType.BIT), "CAST({} AS UNSIGNED)"),
}

CHUNK_ROWS = 1000

_IN_THE_WAY = frozenset({1146, 1205, 1213, 1412})
"""Server errors for a table that was dropped, locked, deadlocked, or changed since the snapshot began."""


def asked(column: Column) -> str:
    """The expression to select for a column's exact value."""
    return _ASKED.get(column.type, "{}").format(quoted(column.name))


def asked_as_text(column: Column) -> str:
    """The expression to select for a column's exact value as text: names of an ENUM or SET, bytes of a BIT."""
    return _ASKED_AS_TEXT.get(column.type, "{}").format(quoted(column.name))


def value_of(raw: bytes | None, column: Column, zone: tzinfo) -> Value:
    """The value of a column in an answer."""
    return None if raw is None else _FORMS.get(column.type, _text_value)(raw, column, zone)


def _text_value(raw: bytes, column: Column, zone: tzinfo) -> Value:
    return raw if column.is_binary else raw.decode()


def _enum_value(raw: bytes, column: Column, zone: tzinfo) -> Value:
    return EnumValue(int(raw), enum_text(int(raw), column.elements))


def _set_value(raw: bytes, column: Column, zone: tzinfo) -> Value:
    return SetValue(int(raw), set_text(int(raw), column.elements))


_FORMS: Mapping[MySQLType, Form] = {
    **dict.fromkeys((*INTEGERS, MySQLType.YEAR, MySQLType.BIT), lambda raw, column, zone: int(raw)),
    **dict.fromkeys((MySQLType.FLOAT, MySQLType.DOUBLE), lambda raw, column, zone: float(raw)),
    MySQLType.DECIMAL: lambda raw, column, zone: Decimal(raw.decode()),
    MySQLType.DATE: lambda raw, column, zone: Date(raw.decode()),
    MySQLType.TIME: lambda raw, column, zone: Time(raw.decode()),
    MySQLType.DATETIME: lambda raw, column, zone: DateTime(raw.decode()),
    MySQLType.TIMESTAMP: lambda raw, column, zone: timestamp_in_zone(raw.decode(), zone),
    MySQLType.ENUM: _enum_value,
    MySQLType.SET: _set_value,
}


class TableChanged(Exception):
    """Another client changed a table during the snapshot. This exception does not leave the package."""

    def __str__(self) -> str:
        return "statements such as ALTER TABLE run all the time, so a snapshot cannot be taken; try again later"


def clock_ms(session: Session) -> int:
    """The server's clock in milliseconds since the epoch."""
    return int(float((session.ask("SELECT UNIX_TIMESTAMP(SYSDATE(3))")[0][0] or b"0").decode()) * 1000)


def oldest_start(session: Session) -> int:
    """The second before the oldest statement that still runs began, or the second before now if no statement runs.

    A log entry has the time at which its statement began, so whatever is logged from now on is not earlier.
    """
    return int(session.ask(_OLDEST_START)[0][0] or 0)


_OLDEST_START = """
    SELECT FLOOR(UNIX_TIMESTAMP(SYSDATE())) - COALESCE(MAX(TIME), 0) - 1 FROM information_schema.PROCESSLIST
    WHERE ID <> CONNECTION_ID() AND USER <> 'system user' AND TIME IS NOT NULL
    AND COMMAND NOT IN ('Sleep', 'Daemon', 'Binlog Dump', 'Binlog Dump GTID')
"""


def log_end(session: Session) -> tuple[str, int, str]:
    """The end of the server's log: file, position, and on MySQL the ids of all transactions in it."""
    try:
        rows = session.ask("SHOW MASTER STATUS")
    except Refusal:
        rows = session.ask("SHOW BINARY LOG STATUS")
    file, position, *more = ((raw or b"").decode() for raw in rows[0])
    return file, int(position), "".join(more[2:3]).replace("\n", "")


def state_now(session: Session, settings: Settings, info: ServerInfo, wanted: Wanted, after: int) -> State:
    """The end of the log and the tables now, without reading rows; timestamps continue after ``after`` and the clock.

    So what comes is later than all that came before, also in the counts of a reader that began earlier in this second.
    """
    names = table_names(session, wanted)
    file, position, gtid = log_end(session)
    tables = {name: text for name in names if (text := definition(session, name)) is not None}
    check_calm(session, settings, info, (file, position))
    if table_names(session, wanted) != names or list(tables) != names:
        raise TableChanged
    if info.server.mariadb:
        gtid = _mariadb_gtid(session, file, position)
    first = max(after, at_millisecond(clock_ms(session)))
    return State(file, position, gtid, first, schemas_of(session, info, tables, first))


def check_calm(session: Session, settings: Settings, info: ServerInfo, start: tuple[str, int]) -> None:
    """Raise ``TableChanged`` if a DDL statement runs, or has come into the log since ``start``.

    While it runs a table may be invisible, and its effect is not in the log yet.
    """
    if info.sees_all and session.ask(_DEFINING):
        raise TableChanged
    if defines(settings, info, start, log_end(session)[:2]):
        raise TableChanged


_DEFINING = """
    SELECT 1 FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() AND INFO REGEXP
    '^([[:space:]]|/[*]+[^!*][^*]*[*]+/|/[*]![0-9]*)*(SET[[:space:]]+STATEMENT.*)?'
    '(CREATE|DROP|ALTER|RENAME|TRUNCATE|OPTIMIZE|REPAIR)[[:space:]]'
"""


class Snapshot:
    """One attempt to read everything; ``state`` is where to read the log after it has succeeded."""

    def __init__(
        self,
        session: Session,
        settings: Settings,
        info: ServerInfo,
        wanted: Wanted,
        after: int,
        is_closed: Callable[[], bool],
    ) -> None:
        self._session = session
        self._facts = info
        self._is_closed = is_closed
        names = table_names(session, wanted)
        file, position, gtid = self._begin()
        self._tables = self._locked(names)
        check_calm(session, settings, info, (file, position))
        if table_names(session, wanted) != names:
            raise TableChanged
        first = max(after + 1, at_millisecond(clock_ms(session)))
        schemas = schemas_of(session, info, self._tables, first)
        self.state = State(file, position, gtid, first, schemas)

    def _locked(self, names: Sequence[TableName]) -> dict[TableName, str]:
        """Lock the tables and get their definitions. The last is locked first, so that a rollback unlocks the first."""
        found: dict[TableName, str] = {}
        for name in reversed(names):
            try:
                self._session.ask(f"SAVEPOINT {_savepoint(name)}")
                self._session.ask(f"SELECT 1 FROM {full_name(name)} LIMIT 0")
                text = definition(self._session, name)
            except Refusal as refusal:
                raise _disturbance(refusal) from None
            if text is None:
                raise TableChanged
            found[name] = text
        return dict(reversed(found.items()))

    def _begin(self) -> tuple[str, int, str]:
        """Begin a consistent snapshot, and return its position in the log."""
        ask = self._session.ask
        ask("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if self._facts.server.mariadb:
            ask("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            status = {name: value or b"" for name, value in ask("SHOW STATUS LIKE 'binlog_snapshot_%'")}
            file, position = status[b"Binlog_snapshot_file"].decode(), int(status[b"Binlog_snapshot_position"])
            return file, position, _mariadb_gtid(self._session, file, position)
        # MySQL does not report a snapshot's binlog position, so writes are blocked until both are known.
        try:
            ask("FLUSH TABLES WITH READ LOCK")
            ask("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            return log_end(self._session)
        finally:
            ask("UNLOCK TABLES")

    @property
    def tables(self) -> frozenset[TableName]:
        """The tables of this snapshot."""
        return frozenset(self._tables)

    @property
    def definitions(self) -> Mapping[TableName, str]:
        """The CREATE TABLE of each table, as the server prints it."""
        return self._tables

    def changes(self, earlier: Iterable[TableName]) -> Iterator[Upstream]:
        """The databases, the tables and their rows; ``earlier`` are the tables of earlier attempts.

        All rows have the timestamp that ``state`` has at the end.
        """
        statements = list(self._statements(earlier))
        ts = self.state.ts
        for number, statement in enumerate(statements):
            yield replace(statement, commit_ts=ts + number, start_ts=ts + number - 1)
        self.state = replace(self.state, ts=ts + len(statements))
        for table in self.state.schemas.tables.values():
            yield from self._rows(table)
        self.end()

    def _statements(self, earlier: Iterable[TableName]) -> Iterator[Ddl]:
        schemas = self.state.schemas
        for name in sorted(set(earlier) - self._tables.keys()):
            yield _drop(name)
        for database in filter(None, schemas.databases):
            yield _create_database(database, schemas)
        for name, table in zip(self._tables, schemas.tables.values(), strict=True):
            yield _drop(name)
            query = translated(self._tables[name], self._facts.server.mariadb)
            yield Ddl(name, None, query, type=int(DdlType.CREATE_TABLE), table_schema=table)

    def _rows(self, table: TableSchema) -> Iterator[RowChange]:
        columns = [column for column in table.columns if column.generated is not Generated.VIRTUAL]
        selected = ", ".join(asked(column) for column in columns)
        zone, ts = self._facts.server.zone, self.state.ts
        for chunk in self.stream(f"SELECT {selected} FROM {full_name(table.name)}", CHUNK_ROWS):
            if self._is_closed():
                return
            for row in chunk:
                values = zip(columns, row, strict=True)
                after = {column.name: value_of(raw, column, zone) for column, raw in values}
                yield RowChange(table, ts, None, after, ts - 1, table.table_id)
        self.release(table.name)

    def stream(self, sql: str, chunk: int) -> Iterator[list[Answer]]:
        """An answer as of the snapshot, in chunks like :meth:`Session.stream`."""
        try:
            yield from self._session.stream(sql, chunk)
        except Refusal as refusal:
            raise _disturbance(refusal) from None

    def release(self, name: TableName) -> None:
        """Unlock a table and all tables before it; their rows have been read."""
        self._session.ask(f"ROLLBACK TO SAVEPOINT {_savepoint(name)}")

    def end(self) -> None:
        """End the snapshot. A COMMIT would put the savepoints into the log."""
        self._session.ask("ROLLBACK")


def _disturbance(refusal: Refusal) -> Exception:
    """``TableChanged`` if that is why the server refused to read a table; otherwise the refusal."""
    return TableChanged() if refusal.code in _IN_THE_WAY else refusal


def _savepoint(name: TableName) -> str:
    return quoted(sha256(repr(name).encode()).hexdigest()[:32])


def _mariadb_gtid(session: Session, file: str, position: int) -> str:
    return (session.ask(f"SELECT BINLOG_GTID_POS('{file}', {position})")[0][0] or b"").decode()


def _drop(name: TableName) -> Ddl:
    query = f"DROP TABLE IF EXISTS {full_name(name)}"
    return Ddl(name, None, query, type=int(DdlType.DROP_TABLE))


def _create_database(name: str, schemas: Schemas) -> Ddl:
    collation = schemas.collation(name)
    query = (
        f"CREATE DATABASE IF NOT EXISTS {quoted(name)} "
        f"DEFAULT CHARACTER SET {collation.split('_')[0]} COLLATE {collation}"
    )
    return Ddl(TableName(name, ""), None, query, type=int(DdlType.CREATE_SCHEMA))
