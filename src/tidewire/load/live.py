"""What all live sources share: the server, chunks of rows by key, and what the ledger keeps of a load.

::

    loads/<id>/begun   the moment of the load, its tables and their chunks
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa

from tidewire.changefeed.source.mysql.connection import Answer, ConnectionLost, Refusal, Session
from tidewire.changefeed.source.mysql.dialect import full_name
from tidewire.changefeed.source.mysql.server import table_of
from tidewire.changefeed.source.mysql.snapshot import TableChanged, asked_as_text
from tidewire.changefeed.source.mysql.statements import Wanted
from tidewire.changefeed.source.mysql.uri import Settings, read_uri
from tidewire.ddl.quoting import quoted
from tidewire.errors import ChangefeedError, LoadError
from tidewire.load.dialect import BinaryFormat
from tidewire.load.rows import Rows
from tidewire.load.source import Moment, Place
from tidewire.model import Generated, TableName, TableSchema
from tidewire.model.types import INTEGERS
from tidewire.storage import Storage

SCHEMES: Final = ("mysql", "mysql+ssl", "mariadb", "tidb", "tidb+ssl")
"""The schemes of live sources."""

TIME_ZONE: Final = "UTC"
"""Sessions answer in this time zone."""

CHUNK_ROWS: Final = 200_000
"""A chunk has about so many rows, by the server's estimate."""

MOST_CHUNKS: Final = 10_000

_FETCHED: Final = 256
_BATCH_ROWS: Final = 8192
_BATCH_BYTES: Final = 16 << 20
_TIDB_PORT: Final = 4000

Stream: TypeAlias = Callable[[str, int], Iterator[list[Answer]]]
"""Gives the answer to a statement in pieces of so many rows."""


def server_of(uri: str) -> Settings:
    """The server of a live source; ``tidb://`` is ``mysql://`` with another default port.

    >>> server_of("tidb://root@db.example/").address
    'db.example:4000'
    """
    scheme, _, rest = uri.partition("://")
    if not scheme.startswith("tidb"):
        return read_uri(uri)
    parts = urlsplit(uri)
    if parts.hostname and ":" not in parts.netloc.rpartition("@")[2].rpartition("]")[2]:
        rest = rest.replace(parts.netloc, f"{parts.netloc}:{_TIDB_PORT}", 1)
    return read_uri(f"{scheme.replace('tidb', 'mysql', 1)}://{rest}")


@contextmanager
def server_errors(settings: Settings, again: str) -> Iterator[None]:
    """Errors of the server as :class:`LoadError`. ``again`` says what the same command does after a lost connection."""
    try:
        yield
    except ConnectionLost as lost:
        raise LoadError(f"{lost}; give the same command again: {again}") from None
    except Refusal as refusal:
        raise LoadError(f"{settings.address}: {refusal.message} ({refusal.code})") from None
    except TableChanged:
        raise LoadError(f"{settings.address}: a table was altered while it was read; {again}") from None
    except ChangefeedError as error:
        raise LoadError(error.reason) from None


def text(raw: bytes | None) -> str:
    """A text in an answer."""
    return (raw or b"").decode()


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The rows whose column is at least ``low`` and below ``high``, which are written as in SQL. The default is all."""

    column: str = ""
    low: str | None = None
    high: str | None = None

    @property
    def where(self) -> str:
        """The condition, to be put after the table's name."""
        bounds = ((">=", self.low), ("<", self.high))
        conditions = [f"{self.column} {sign} {bound}" for sign, bound in bounds if bound is not None]
        return f" WHERE {' AND '.join(conditions)}" if conditions else ""


def ranges_between(column: str, bounds: Sequence[str]) -> tuple[KeyRange, ...]:
    """The ranges that bounds in ascending order cut a table into."""
    return tuple(KeyRange(column, low, high) for low, high in pairwise((None, *bounds, None)))


def even_ranges(session: Session, name: TableName, column: str, rows: int) -> tuple[KeyRange, ...]:
    """Ranges of the same width in a column of integers, for a table of about so many rows."""
    parts = min(-(-rows // CHUNK_ROWS), MOST_CHUNKS)
    if parts < 2:
        return (KeyRange(),)
    ((low, high),) = session.ask(f"SELECT MIN({column}), MAX({column}) FROM {full_name(name)}")
    if low is None or high is None:
        return (KeyRange(),)
    first, width = int(low), int(high) - int(low)
    bounds = sorted({first + width * part // parts for part in range(1, parts)} - {first})
    return ranges_between(column, [str(bound) for bound in bounds])


def integer_key(table: TableSchema) -> str | None:
    """The first column of the key in backquotes, if it is an integer."""
    first = {column.name: column for column in table.columns}.get(next(iter(table.handle_key), ""))
    return quoted(first.name) if first is not None and first.type in INTEGERS else None


def estimated_rows(session: Session) -> Mapping[TableName, int]:
    """How many rows the server thinks each table has."""
    found = session.ask("SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS FROM information_schema.TABLES")
    return {TableName(text(schema), text(name)): int(rows or 0) for schema, name, rows in found}


# What is kept


@dataclass(frozen=True, slots=True)
class LiveTable:
    """A table of a live source: its CREATE TABLE, about how many rows it has, and the ranges it is read in."""

    name: TableName
    query: str
    mariadb: bool
    rows: int
    ranges: tuple[KeyRange, ...]

    @property
    def schema(self) -> TableSchema:
        """The table that its CREATE TABLE makes."""
        return table_of(self.name, self.query, self.mariadb)

    @property
    def chunk_rows(self) -> int:
        """About how many rows a chunk has."""
        return max(1, self.rows // len(self.ranges))


@dataclass(frozen=True, slots=True)
class Begun:
    """A load of a live source that has begun."""

    ts: int
    tables: tuple[LiveTable, ...]

    @property
    def moment(self) -> Moment:
        """What is loaded."""
        return Moment(self.ts, tuple(table.schema for table in self.tables))

    def keep(self, ledger: Storage, folder: str) -> None:
        """Write it into the ledger."""
        tables = [
            {
                "name": list(table.name),
                "query": table.query,
                "mariadb": table.mariadb,
                "rows": table.rows,
                "ranges": [[each.column, each.low, each.high] for each in table.ranges],
            }
            for table in self.tables
        ]
        ledger.put(_document(folder), json.dumps({"ts": self.ts, "tables": tables}).encode())


def begun(ledger: Storage, folder: str) -> Begun | None:
    """What an earlier run of the same load began with."""
    data = ledger.read(_document(folder))
    if data is None:
        return None
    plain: dict[str, Any] = json.loads(data)
    tables = [
        LiveTable(
            TableName(*table["name"]),
            table["query"],
            table["mariadb"],
            table["rows"],
            tuple(KeyRange(*each) for each in table["ranges"]),
        )
        for table in plain["tables"]
    ]
    return Begun(plain["ts"], tuple(tables))


def forget(ledger: Storage, folder: str) -> bool:
    """Delete what an earlier run of the same load has staged, if no plan was made of it; had it begun?"""
    was_begun = ledger.exists(_document(folder))
    for root in (f"rejects/{folder}", folder) if was_begun else (folder,):
        ledger.delete(entry.name for entry in ledger.list(root, recursive=True) if entry.name != _document(folder))
    ledger.delete([_document(folder)])
    return was_begun


def _document(folder: str) -> str:
    return f"{folder}/begun"


@dataclass(frozen=True, slots=True)
class LiveLoad:
    """The wanted tables of a server. ``rules`` are what ``wanted`` is made of."""

    settings: Settings
    wanted: Wanted
    rules: tuple[str, ...] = ()

    def begun(self, ledger: Storage, folder: str) -> Moment | None:
        """The moment that the run before began with. Its tables are there if its plan was kept."""
        found = begun(ledger, folder)
        return None if found is None else found.moment


# Rows


@dataclass(frozen=True, slots=True)
class LiveChunk:
    """A range of a table. ``number`` counts the ranges of the table."""

    table: TableSchema
    range: KeyRange
    size: int
    number: int

    files: int = 0
    time_zone: str = TIME_ZONE
    binary: BinaryFormat = BinaryFormat.RAW

    def batches(self, stream: Stream) -> Iterator[tuple[Place, Rows]]:
        """Its rows, as a session streams them: columns of texts, all but virtual ones."""
        columns = [column for column in self.table.columns if column.generated is not Generated.VIRTUAL]
        names = tuple(column.name for column in columns)
        selected = ", ".join(asked_as_text(column) for column in columns)
        first = self.number << 32
        for rows in _gathered(
            stream(f"SELECT {selected} FROM {full_name(self.table.name)}{self.range.where}", _FETCHED)
        ):
            arrays = tuple(pa.array(values, pa.binary()) for values in zip(*rows, strict=True))
            lines = pa.array(range(first, first + len(rows)))
            found = Rows(names, arrays, lines)
            yield RowPlace(self.table, found, first), found
            first += len(rows)


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Rows of a live table that were read together; the first has the number ``first``."""

    table: TableSchema
    rows: Rows
    first: int

    @property
    def name(self) -> str:
        """The table."""
        return str(self.table.name)

    def number(self, line: int) -> int:
        """The number of a row in its table, in the order of reading."""
        return line + 1

    def text(self, line: int, masked: Collection[str]) -> str:
        """The table and the row's key."""
        columns = dict(zip(self.rows.names, self.rows.columns, strict=True))
        key = [name for name in self.table.handle_key if name not in masked]
        told = ", ".join(f"{name} = {_told(columns[name][line - self.first].as_py())}" for name in key)
        return f"{self.name}, the row with {told}" if key else f"{self.name}, row {self.number(line)}"


def _told(value: bytes | None) -> str:
    """A value of a key, as it is shown."""
    try:
        return "NULL" if value is None else value.decode()
    except UnicodeDecodeError:
        return f"x'{value.hex()}'" if value is not None else "NULL"


def _gathered(answer: Iterator[list[Answer]]) -> Iterator[list[Answer]]:
    """Pieces of an answer together, up to a number of rows or bytes."""
    gathered: list[Answer] = []
    size = 0
    for piece in answer:
        gathered += piece
        size += sum(len(value) for value in chain.from_iterable(piece) if value is not None)
        if len(gathered) >= _BATCH_ROWS or size >= _BATCH_BYTES:
            yield gathered
            gathered, size = [], 0
    if gathered:
        yield gathered
