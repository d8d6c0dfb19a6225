"""A live TiDB: all tables as of one TSO, which every session reads by itself, so chunks can be read in Spark tasks.

The first run of a load takes a TSO, or is given one, and keeps it in the ledger with the tables and their chunks. A
load that was killed continues with the same TSO, and chunks that were read are not read again. Garbage collection must
not pass the TSO while the load runs. If it has, TiDB refuses to read, and a load without a given TSO begins anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Final

from tidewire.changefeed.source.mysql.connection import Refusal, Session
from tidewire.changefeed.source.mysql.dialect import full_name
from tidewire.changefeed.source.mysql.server import definition, table_names
from tidewire.changefeed.source.mysql.uri import Settings
from tidewire.ddl.quoting import quoted
from tidewire.errors import ChangefeedError, LoadError
from tidewire.load.live import (
    CHUNK_ROWS,
    MOST_CHUNKS,
    Begun,
    KeyRange,
    LiveChunk,
    LiveLoad,
    LiveTable,
    begun,
    estimated_rows,
    even_ranges,
    forget,
    integer_key,
    ranges_between,
    server_errors,
    text,
)
from tidewire.load.rows import Rows
from tidewire.load.source import Opened, Place
from tidewire.model import Column, MySQLType, TableName, TableSchema
from tidewire.model.tso import to_datetime
from tidewire.model.types import INTEGERS
from tidewire.storage import Storage

_AGAIN: Final = "the load goes on with the chunks that are not read yet"

_COLLECTED: Final = frozenset({8055, 9006})
"""Errors of TiDB: the snapshot is older than the GC safe point."""

_SYSTEM: Final = frozenset(
    {"metrics_schema", "inspection_schema", "tidb_cdc", "lightning_task_info", "lightning_metadata", "workload_schema"}
)
"""Databases that are TiDB's own, beside those of every server."""

_ROWS_A_SECOND: Final = 20_000
"""A load is taken to read at least so many rows a second, to say whether it may outlast GC life time."""

_TEXTS: Final = frozenset({MySQLType.CHAR, MySQLType.VARCHAR})
_ROW_ID: Final = "_tidb_rowid"
_NOT_CLUSTERED: Final = "[clustered_index] NONCLUSTERED"


@dataclass(frozen=True, slots=True)
class TidbLoad(LiveLoad):
    """Tables as of ``at``, or a TSO that is taken."""

    at: int | None = None

    @property
    def facts(self) -> object:
        """What makes two loads of a server the same."""
        return "tidb", self.settings.address, self.rules, self.at

    @property
    def rewinds(self) -> bool:
        """Can a changefeed begin at a past moment?"""
        return True

    @contextmanager
    def opened(self, ledger: Storage, folder: str, told: Callable[[str], None]) -> Iterator[Opened]:
        """The chunks of all tables as of the TSO."""
        with server_errors(self.settings, _AGAIN), collected(self.at):
            with Session(self.settings) as session:
                found = self._continued(session, ledger, folder, told)
                if found is None:
                    found = self._started(session)
                    found.keep(ledger, folder)
                _tell_life_time(session, found, told)
            yield Opened(found.moment, tuple(_chunks(self.settings, found)))

    def _continued(self, session: Session, ledger: Storage, folder: str, told: Callable[[str], None]) -> Begun | None:
        """What an earlier run began with, if its TSO can still be read."""
        found = begun(ledger, folder)
        if found is None:
            return None
        try:
            read_at(session, found.ts)
        except Refusal as refusal:
            if self.at is not None or refusal.code not in _COLLECTED:
                raise
            told(f"garbage collection has passed the TSO {found.ts} of the earlier run: all tables are read anew")
            forget(ledger, folder)
            return None
        return found

    def _started(self, session: Session) -> Begun:
        ts = self.at if self.at is not None else current_ts(session)
        read_at(session, ts)
        names = table_names(session, lambda name: is_users(name) and self.wanted(name))
        estimates = estimated_rows(session)
        found = [
            _table(session, name, query, estimates.get(name, 0))
            for name in names
            if (query := definition(session, name)) is not None
        ]
        if not found:
            raise LoadError(f"{self.settings.address} had no table that is wanted at the TSO {ts}")
        return Begun(ts, tuple(found))


def is_users(name: TableName) -> bool:
    """Is a table not one of TiDB's own?"""
    return name.schema.lower() not in _SYSTEM


def current_ts(session: Session) -> int:
    """A TSO of now."""
    session.ask("BEGIN")
    ts = int(text(session.ask("SELECT @@tidb_current_ts")[0][0]))
    session.ask("ROLLBACK")
    return ts


def read_at(session: Session, ts: int) -> None:
    """Let a session read everything, definitions too, as of a TSO."""
    session.ask(f"SET @@tidb_snapshot = '{ts}'")


@contextmanager
def collected(at: int | None) -> Iterator[None]:
    """Errors about garbage collection with a way out."""
    try:
        yield
    except Refusal as refusal:
        if refusal.code not in _COLLECTED:
            raise
        again = "give the same command again: the load begins anew" if at is None else "load at a later TSO"
        raise LoadError(
            f"garbage collection has passed the TSO of the load: {refusal.message} ({refusal.code}). "
            f"SET GLOBAL tidb_gc_life_time = '24h' on the server, then {again}"
        ) from None


# Chunks


def _table(session: Session, name: TableName, query: str, rows: int) -> LiveTable:
    table = LiveTable(name, query, False, rows, (KeyRange(),))
    if rows <= CHUNK_ROWS:
        return table
    return LiveTable(name, query, False, rows, _ranges(session, table))


def _ranges(session: Session, table: LiveTable) -> tuple[KeyRange, ...]:
    """The ranges of a large table: from region to region, or else of the same width."""
    schema = table.schema
    column = split_column(schema, table.query)
    if column is None:
        return (KeyRange(),)
    name, literal = column
    try:
        found = session.ask(f"SELECT {name} FROM {full_name(table.name)} TABLESAMPLE REGIONS() ORDER BY {name}")
    except Refusal as refusal:
        if refusal.code in _COLLECTED:
            raise
        found = []  # a table that cannot be sampled, such as a temporary one, or an old TiDB
    bounds = list(dict.fromkeys(literal(value) for (value,) in found if value is not None))[1:]
    if bounds:
        step = -(-len(bounds) // MOST_CHUNKS)
        return ranges_between(name, bounds[::step])
    key = name if name == _ROW_ID else integer_key(schema)
    return (KeyRange(),) if key is None else even_ranges(session, table.name, key, table.rows)


Literal = Callable[[bytes], str]
"""Writes a value that the server told as SQL."""


def split_column(table: TableSchema, query: str) -> tuple[str, Literal] | None:
    """The column by which rows are stored, and how its values are written; ``None`` if it is of another type.

    Rows are stored by the first column of a clustered primary key, or else by the hidden row id.
    """
    primary = next((column for column in table.columns if column.primary_key), None)
    if primary is None or _NOT_CLUSTERED in query:
        return _ROW_ID, bytes.decode
    first = {column.name: column for column in table.columns}[table.handle_key[0]]
    literal = _literal(first)
    return None if literal is None else (quoted(first.name), literal)


def _literal(column: Column) -> Literal | None:
    if column.type in INTEGERS:
        return bytes.decode
    if column.is_binary:
        return lambda value: f"x'{value.hex()}'"
    return (lambda value: f"_utf8mb4 x'{value.hex()}'") if column.type in _TEXTS else None


def _chunks(settings: Settings, found: Begun) -> Iterator[TidbChunk]:
    for table in found.tables:
        schema = table.schema
        for number, range_ in enumerate(table.ranges):
            yield TidbChunk(schema, range_, table.chunk_rows, number, settings=settings, ts=found.ts)


@dataclass(frozen=True, slots=True, kw_only=True)
class TidbChunk(LiveChunk):
    """A chunk that a session of its own reads as of a TSO."""

    settings: Settings = field(repr=False)
    ts: int

    def read(self) -> Iterator[tuple[Place, Rows]]:
        """The rows."""
        with server_errors(self.settings, _AGAIN), collected(None), Session(self.settings) as session:
            read_at(session, self.ts)
            yield from self.batches(session.stream)


# Garbage collection


def _tell_life_time(session: Session, found: Begun, told: Callable[[str], None]) -> None:
    """Say how the TSO is kept readable, if the load may take longer than TiDB keeps old versions."""
    try:
        life_time = go_duration(text(session.ask("SELECT @@global.tidb_gc_life_time")[0][0]))
    except (Refusal, ChangefeedError, ValueError):
        return  # TiDB before 5.0, or a user that may not ask
    age = datetime.now(timezone.utc) - to_datetime(found.ts)
    needed = timedelta(seconds=sum(table.rows for table in found.tables) / _ROWS_A_SECOND)
    if age + needed > life_time:
        told(
            f"this load may take longer than TiDB keeps old versions (tidb_gc_life_time is {life_time}). "
            "SET GLOBAL tidb_gc_life_time = '24h' on the server until it has ended"
        )


_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def go_duration(told: str) -> timedelta:
    """A duration as Go writes it; ``ValueError`` for another text.

    >>> go_duration("1h10m0s")
    datetime.timedelta(seconds=4200)
    """
    parts = re.findall(r"([0-9.]+)(h|ms|m|us|µs|ns|s)", told)
    if not parts or "".join(number + unit for number, unit in parts) != told:
        raise ValueError(f"{told!r} is not a duration")
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))
