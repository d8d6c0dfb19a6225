"""The binary log of a server as events; only this module knows the replication library.

The library connects, reads the log and decodes its events. Rows are left to ``row_values``, because the library loses
zero dates, ENUM indexes and the signs of fractions.
"""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidewire.changefeed.source.mysql.connection import (
    ConnectionLost,
    Refusal,
    close,
    connection_arguments,
    driver,
    translated_errors,
)
from tidewire.changefeed.source.mysql.position import Schemas, State
from tidewire.changefeed.source.mysql.server import ServerInfo
from tidewire.changefeed.source.mysql.stored_values import decoder
from tidewire.changefeed.source.mysql.uri import Settings
from tidewire.ddl.lex import lex
from tidewire.errors import ChangefeedError
from tidewire.model import TableName

HEARTBEAT_SECONDS = 1

SILENT_SECONDS = 15
"""A server counts as lost after so many seconds without an event or a heartbeat."""

_PURGED = 1236
_STANDALONE = 1
_HEADER = 20
_QUERY_HEADER = 13

_UNREADABLE: Mapping[int, str] = {
    40: "binlog_transaction_compression",
    39: "binlog_row_value_options",
    **dict.fromkeys(range(165, 172), "log_bin_compress"),
}
"""Types of events whose rows cannot be read, and the server's setting that causes them."""

Collations = Mapping[int, str]
"""The charset of each collation's number."""


@dataclass(frozen=True, slots=True)
class WireColumn:
    """A column as a table map describes it.

    ``size`` depends on the type: the bytes of a length or of a number, or the length of a string. ``name``,
    ``unsigned`` and ``charset`` are ``None`` if the server does not log them.
    """

    type: int
    size: int = 0
    precision: int = 0
    scale: int = 0
    name: str | None = None
    unsigned: bool | None = None
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """A group of events begins. ``alone``: it is one statement, without an event for its end."""

    gtid: str | None
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """The text of a statement, and the database it ran in."""

    schema: str
    text: str
    seconds: int
    end: int


@dataclass(frozen=True, slots=True)
class TableMap:
    """The shape of a table whose rows come next."""

    table_id: int
    name: TableName
    columns: tuple[WireColumn, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Packed rows of a table. ``before`` and ``after`` are bitmaps of the columns in each image; ``None``: no image."""

    table_id: int
    before: bytes | None
    after: bytes | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """The group took effect."""

    seconds: int
    end: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """The group waits for the second phase of a distributed transaction."""

    xid: str
    end: int


@dataclass(frozen=True, slots=True)
class Rotate:
    """The log continues in another file."""

    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Idle:
    """All of the log has been read for now; ``end`` is its position."""

    file: str
    end: int


BinlogEvent: TypeAlias = Begin | Query | TableMap | Rows | Commit | Prepared | Rotate | Idle


# Broken connections are reported by us, so the library need not print them.
logging.getLogger("pymysqlreplication").addHandler(logging.NullHandler())


class Binlog:
    """A connection to a server's log, from a state on. ``by_gtid``: the position is found by transaction ids."""

    def __init__(self, settings: Settings, state: State, mariadb: bool, collations: Collations, by_gtid: bool) -> None:
        self._settings = settings
        self._state = state
        self._collations = collations
        self._library = driver("pymysqlreplication", "mysql-replication")
        self._connections: list[Any] = []
        position = (
            {"auto_position": state.gtid, "is_mariadb": mariadb}
            if by_gtid
            else {"log_file": state.file, "log_pos": state.position, "resume_stream": True}
        )
        self._reader = self._library.BinLogStreamReader(
            {**connection_arguments(settings), "read_timeout": SILENT_SECONDS},
            server_id=settings.server_id,
            blocking=True,
            slave_heartbeat=HEARTBEAT_SECONDS,
            filter_non_implemented_events=False,
            enable_logging=False,
            pymysql_wrapper=self._connect,
            **position,
        )

    def _connect(self, **arguments: Any) -> Any:
        """Connect for the library, but refuse to reconnect, so that a broken connection is noticed."""
        if len(self._connections) == 2:
            raise ConnectionLost(f"{self._settings.address}: the connection broke")
        database = arguments.pop("db", None)  # the driver's old name for it
        connection = driver("pymysql", "pymysql").connect(**arguments, database=database)
        self._connections.append(connection)
        return connection

    def close(self) -> None:
        """Close the connections."""
        for connection in self._connections:
            close(connection)

    def events(self) -> Iterator[BinlogEvent]:
        """Yield the events of the binlog without end; raises ``ConnectionLost`` when the connection breaks."""
        while True:
            try:
                with translated_errors(self._settings):
                    event = self._reader.fetchone()
            except Refusal as refusal:
                raise self._refused(refusal) from None
            except (ValueError, LookupError, TypeError, AssertionError, struct.error) as error:
                raise ChangefeedError(
                    "CDC:ErrMySQLInvalidConfig",
                    f"the binary log of {self._settings.address} cannot be read after {self._reader.log_file}:"
                    f"{self._reader.log_pos}, perhaps because of a compressed column: {error!r}",
                ) from error
            if event is None:
                raise ConnectionLost(f"{self._settings.address}: the server ended the log")
            converted = self._converted(event)
            if converted is not None:
                yield converted

    def _refused(self, refusal: Refusal) -> ChangefeedError:
        if refusal.code == _PURGED:
            return ChangefeedError(
                "CDC:ErrStartTsBeforeGC",
                f"the binary log of {self._settings.address} cannot be read from {self._state.file}:"
                f"{self._state.position} on, because the server has purged it: {refusal.message}; begin with a new "
                "snapshot, and let the server keep its logs for longer",
            )
        return ChangefeedError(
            "CDC:ErrMySQLConnectionError", f"{self._settings.address}: {refusal.message} ({refusal.code})"
        )

    def _converted(self, event: Any) -> BinlogEvent | None:
        convert = _CONVERTERS.get(type(event).__name__)
        return None if convert is None else convert(self, event)

    def _gtid(self, event: Any) -> BinlogEvent:
        return Begin(event.gtid, alone=True)

    def _mariadb_gtid(self, event: Any) -> BinlogEvent:
        return Begin(event.gtid, alone=bool(event.flags & _STANDALONE))

    def _query(self, event: Any) -> BinlogEvent:
        start = _HEADER + _QUERY_HEADER + event.status_vars_length + event.schema_length + 1
        raw = event.packet.get_all_data()[start : _HEADER + event.event_size]
        charset = self._collations.get(getattr(event, "character_set_client", 0), "utf8mb4")
        text = decoder("utf8mb4" if charset == "binary" else charset)(raw)
        if isinstance(text, bytes):
            text = text.decode("utf-8", "backslashreplace")
        return Query(event.schema.decode(), text, event.timestamp, event.packet.log_pos)

    def _table_map(self, event: Any) -> BinlogEvent:
        metadata = event.optional_metadata
        named = bool(metadata.column_name_list)
        charsets = iter(metadata.charset_collation_list or ())
        texts = (15, 252, 253, 254) + ((255,) if event.dbms == "mariadb" else ())
        columns = []
        for number, column in enumerate(event.columns):
            collation = next(charsets, None) if column.type in texts else None
            signs = metadata.unsigned_column_list
            columns.append(
                WireColumn(
                    column.type,
                    _size(column),
                    getattr(column, "precision", 0),
                    getattr(column, "decimals", 0),
                    column.name if named else None,
                    bool(signs[number]) if signs else None,
                    None if collation is None else self._collations.get(collation),
                )
            )
        return TableMap(event.table_id, TableName(event.schema, event.table), tuple(columns))

    def _rows(self, event: Any) -> BinlogEvent:
        data = event.packet.read(event.event_size - event.packet.read_bytes)
        first, second = event.columns_present_bitmap, getattr(event, "columns_present_bitmap2", None)
        inserted = type(event).__name__.startswith("Write")
        return Rows(event.table_id, None if inserted else first, first if inserted else second, data)

    def _xid(self, event: Any) -> BinlogEvent:
        return Commit(event.timestamp, event.packet.log_pos)

    def _xa_prepare(self, event: Any) -> BinlogEvent:
        if event.one_phase:
            return self._xid(event)
        xid = f"X'{event.xid_gtrid.hex()}',X'{event.xid_bqual.hex()}',{event.xid_format_id}"
        return Prepared(xid, event.packet.log_pos)

    def _rotate(self, event: Any) -> BinlogEvent:
        return Rotate(event.next_binlog, event.position)

    def _heartbeat(self, event: Any) -> BinlogEvent:
        return Idle(event.ident, event.packet.log_pos)

    def _unknown(self, event: Any) -> BinlogEvent | None:
        setting = _UNREADABLE.get(event.event_type)
        if setting is None:
            return None
        raise ChangefeedError(
            "CDC:ErrMySQLInvalidConfig",
            f"the binary log of {self._settings.address} holds rows in a form that cannot be read; turn {setting} off, "
            "and begin with a new snapshot",
        )


def _size(column: Any) -> int:
    """The part of a column's description that gives the size of its values or of their lengths."""
    for name in ("bytes", "length_size", "fsp", "max_length", "size"):
        if hasattr(column, name):
            return int(getattr(column, name))
    return 0


def log_number(file: str) -> int:
    """The number at the end of a log file's name, which orders the files."""
    found = re.search(r"\d+$", file)
    return int(found[0]) if found else 0


def events_between(
    settings: Settings, info: ServerInfo, start: tuple[str, int], end: tuple[str, int]
) -> Generator[BinlogEvent]:
    """What the log holds between two positions."""
    if start == end:
        return
    nowhere = State(*start, gtid="", ts=0, schemas=Schemas({}, {}))
    binlog = Binlog(settings, nowhere, info.server.mariadb, info.collations, by_gtid=False)
    file, goal = start[0], (log_number(end[0]), end[1])
    try:
        for event in binlog.events():
            if isinstance(event, Rotate):
                file = event.file
            at = (log_number(file), event.end) if isinstance(event, Query | Commit | Prepared | Idle) else None
            if at is None or at <= goal:  # a place can be after events that are left out, such as those of a new file
                yield event
            if at is not None and at >= goal:
                return
    finally:
        binlog.close()


def defines(settings: Settings, info: ServerInfo, start: tuple[str, int], end: tuple[str, int]) -> bool:
    """Does the log have a DDL statement between two positions?"""
    found = events_between(settings, info, start, end)
    with closing(found):
        return any(isinstance(each, Query) and lex(each.text)[0].word in _DEFINING for each in found)


_DEFINING = frozenset({"CREATE", "DROP", "ALTER", "RENAME", "TRUNCATE", "SET"})

_CONVERTERS: Mapping[str, Callable[[Binlog, Any], BinlogEvent | None]] = {
    "GtidEvent": Binlog._gtid,
    "MariadbGtidEvent": Binlog._mariadb_gtid,
    "QueryEvent": Binlog._query,
    "TableMapEvent": Binlog._table_map,
    **dict.fromkeys(("WriteRowsEvent", "UpdateRowsEvent", "DeleteRowsEvent"), Binlog._rows),
    "XidEvent": Binlog._xid,
    "XAPrepareEvent": Binlog._xa_prepare,
    "RotateEvent": Binlog._rotate,
    "HeartbeatLogEvent": Binlog._heartbeat,
    "NotImplementedEvent": Binlog._unknown,
    "PartialUpdateRowsEvent": Binlog._unknown,
}
"""How to convert the library's events, by class name; others are ignored."""
