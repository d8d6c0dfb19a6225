"""Chunks: pieces of a table's files that are read by themselves, so that a load can go on where it was."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, BinaryIO, Final

import pyarrow as pa

from tidewire.errors import LoadError
from tidewire.load.compression import Compression, unpacked
from tidewire.load.csv import read_csv, read_header
from tidewire.load.dialect import BinaryFormat, Dialect
from tidewire.load.dumpling import DataFile, DumpedTable, Kind, dumped_columns
from tidewire.load.parquet import read_parquet
from tidewire.load.rows import Rows
from tidewire.load.source import Moment, Opened, Place
from tidewire.load.sql import read_sql
from tidewire.model import TableSchema
from tidewire.storage import Storage

CHUNK_BYTES: Final = 64 << 20
"""The bytes of files that a chunk has, about."""


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or the rows of it that begin at byte ``start`` or later, and before byte ``end``."""

    file: DataFile
    start: int = 0
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """Parts of files of one table."""

    parts: tuple[Part, ...]

    @property
    def bytes(self) -> int:
        """How many bytes of the dump's files it has."""
        return sum((part.file.size if part.end is None else part.end) - part.start for part in self.parts)


@dataclass(frozen=True, slots=True)
class DumpSource:
    """Tables of a dump as of a moment."""

    dump: Storage
    tables: tuple[DumpedTable, ...]
    ts: int
    dialect: Dialect = field(default_factory=Dialect)
    chunk_bytes: int = CHUNK_BYTES

    @property
    def facts(self) -> object:
        """What makes two loads of dumps the same."""
        tables = [(table.schema, [(file.name, file.size) for file in table.files]) for table in self.tables]
        return self.dump.uri, self.ts, self.dialect, self.chunk_bytes, tables

    def begun(self, ledger: Storage, folder: str) -> Moment:
        """The moment of the dump."""
        return Moment(self.ts, tuple(table.schema for table in self.tables))

    def opened(self, ledger: Storage, folder: str, told: Callable[[str], None]) -> AbstractContextManager[Opened]:
        """The chunks of all tables."""
        chunks = [
            DumpedRows(self.dump, table.schema, self.dialect, chunk)
            for table in self.tables
            for chunk in chunks_of(table.files, self.dialect, self.chunk_bytes)
        ]
        return nullcontext(Opened(self.begun(ledger, folder), tuple(chunks)))


@dataclass(frozen=True, slots=True)
class DumpedRows:
    """The rows of a chunk of a dump."""

    dump: Storage
    table: TableSchema
    dialect: Dialect
    chunk: Chunk

    @property
    def size(self) -> int:
        """How many bytes of files it has."""
        return self.chunk.bytes

    @property
    def files(self) -> int:
        """How many files it has, at least in part."""
        return len(self.chunk.parts)

    @property
    def time_zone(self) -> str:
        """The zone of the dump."""
        return self.dialect.time_zone

    @property
    def binary(self) -> BinaryFormat:
        """The format of the dump."""
        return self.dialect.binary

    def read(self) -> Iterator[tuple[Place, Rows]]:
        """The rows; :class:`LoadError` if a file cannot be read."""
        for part in self.chunk.parts:
            place = _FilePlace(self.dump, part, self.dialect)
            try:
                for rows in read_part(self.dump, part, self.table, self.dialect):
                    yield place, rows
            except (ValueError, pa.ArrowException) as error:
                advice = "; check the options of the dump that the load was given" if part.file.kind is Kind.CSV else ""
                raise LoadError(f"{self.dump.path(part.file.name)} cannot be read: {error}{advice}") from error


@dataclass(frozen=True)
class _FilePlace:
    """A part of a file. Lines are counted only if one is asked for."""

    dump: Storage
    part: Part
    dialect: Dialect

    @property
    def name(self) -> str:
        return self.part.file.name

    @cached_property
    def _first_line(self) -> int:
        return first_line(self.dump, self.part, self.dialect)

    def number(self, line: int) -> int:
        return self._first_line + line

    def text(self, line: int, masked: Collection[str]) -> str:
        return f"{self.name} line {self.number(line)}"


def chunks_of(files: Iterable[DataFile], dialect: Dialect, size: int = CHUNK_BYTES) -> tuple[Chunk, ...]:
    """The chunks of a table: small files together, large ones cut where their rows can be found."""
    found: list[Chunk] = []
    together: list[Part] = []
    for file in files:
        plain = file.kind is Kind.CSV and file.compression is Compression.NONE
        if file.size > size and plain and dialect.lines_are_rows:
            found += [Chunk((Part(file, at, min(at + size, file.size)),)) for at in range(0, file.size, size)]
            continue
        if together and sum(part.file.size for part in together) + file.size > size:
            found.append(Chunk(tuple(together)))
            together = []
        together.append(Part(file))
    return (*found, Chunk(tuple(together))) if together else tuple(found)


def read_part(storage: Storage, part: Part, table: TableSchema, dialect: Dialect) -> Iterator[Rows]:
    """The rows of a part; ``ValueError`` if it is not what its name says. Lines count from where the part begins."""
    names = dumped_columns(table)
    with storage.input(part.file.name) as source, unpacked(source, part.file.compression) as stream:
        if part.file.kind is Kind.PARQUET:
            yield from read_parquet(stream)
        elif part.file.kind is Kind.SQL:
            yield from read_sql(stream, names, escape_backslash=dialect.escape_backslash)
        else:
            yield from _read_csv(stream, part, names, dialect)


def _read_csv(stream: BinaryIO, part: Part, names: Sequence[str], dialect: Dialect) -> Iterator[Rows]:
    if part.end is not None:
        first = 0
        if dialect.header:
            names, first = read_header(stream, dialect)
        start, end = (_line_start(stream, at, first) for at in (part.start, part.end))
        stream.seek(start)
        stream = io.BufferedReader(_Limited(stream, end - start), 1 << 20)
    elif dialect.header:
        names, stream = _without_header(stream, dialect)
    if names:
        yield from read_csv(stream, dialect, names)


def first_line(storage: Storage, part: Part, dialect: Dialect) -> int:
    """The line of its file, counted from 1, in which the first row of a part is."""
    if part.file.kind is not Kind.CSV:
        return 1
    if part.end is None:
        return 2 if dialect.header else 1
    with storage.input(part.file.name) as source:
        first = read_header(source, dialect)[1] if dialect.header else 0
        start = _line_start(source, part.start, first)
        source.seek(0)
        limited, found = _Limited(source, start), 1
        while data := limited.read(1 << 20):
            found += data.count(b"\n")
        return found


def _line_start(stream: BinaryIO, at: int, first: int) -> int:
    """Where the first line begins at byte ``at`` or later. The rows of the file begin at ``first``."""
    if at <= first:
        return first
    stream.seek(at - 1)
    passed = at - 1
    while data := stream.read(1 << 16):
        found = data.find(b"\n")
        if found >= 0:
            return passed + found + 1
        passed += len(data)
    return passed


def _without_header(stream: BinaryIO, dialect: Dialect) -> tuple[tuple[str, ...], BinaryIO]:
    """The names in the first line of a stream that cannot seek, and a stream of what comes after it."""
    head = b""
    while dialect.line_end not in head and (data := stream.read(1 << 16)):
        head += data
    if not head:
        return (), stream
    names, size = read_header(io.BytesIO(head), dialect)
    return names, io.BufferedReader(_Joined(head[size:], stream), 1 << 20)


class _Joined(io.RawIOBase):
    """A stream of some bytes and then of another stream."""

    def __init__(self, first: bytes, stream: BinaryIO) -> None:
        self._first = first
        self._stream = stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._first[: len(buffer)] or self._stream.read(len(buffer))
        self._first = self._first[len(buffer) :]
        buffer[: len(found)] = found
        return len(found)


class _Limited(io.RawIOBase):
    """The next ``size`` bytes of a stream."""

    def __init__(self, stream: BinaryIO, size: int) -> None:
        self._stream = stream
        self._left = max(0, size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        found = self._stream.read(min(len(buffer), self._left))
        self._left -= len(found)
        buffer[: len(found)] = found
        return len(found)
