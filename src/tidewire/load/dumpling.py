"""A Dumpling folder: its position, its tables, and which files hold their rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import unquote

from tidewire.ddl.edits import CreateTable
from tidewire.ddl.parse import edits
from tidewire.errors import LoadError
from tidewire.load.compression import Compression, unpacked
from tidewire.model import Ddl, TableName, TableSchema
from tidewire.storage import Storage
from tidewire.storage.base import Entry


class Kind(StrEnum):
    """What a data file is."""

    CSV = "csv"
    SQL = "sql"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file with rows of one table; ``name`` is relative to the dump's folder."""

    name: str
    size: int
    kind: Kind
    compression: Compression


@dataclass(frozen=True, slots=True)
class DumpedTable:
    """A table of a dump, and its files in order."""

    schema: TableSchema
    files: tuple[DataFile, ...]

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Dump:
    """A dump that ended. ``ts`` is its TSO, ``None`` if it is not from TiDB. ``skipped`` are views and sequences."""

    ts: int | None
    log: str
    tables: tuple[DumpedTable, ...]
    skipped: tuple[TableName, ...]


_PACKED: Final = r"(?:\.(?P<packed>gz|snappy|zst))?"
_SCHEMA: Final = re.compile(rf"(?P<db>[^.]+)\.(?P<table>[^.]+)-schema(?P<what>-[a-z]+)?\.sql{_PACKED}")
_DATABASE: Final = re.compile(rf"[^.]+-schema-(?:create|placement|post)\.sql{_PACKED}")
_ROWS: Final = re.compile(rf"(?P<db>[^.]+)\.(?P<table>[^.]+?)(?:\.(?P<index>\d+))?\.(?P<kind>csv|sql){_PACKED}")
_PARQUET: Final = re.compile(r"(?P<db>[^.]+)\.(?P<table>[^.]+?)(?:\.(?P<index>\d+))?(?:\.[a-z0-9]+)?\.parquet")
_PART: Final = re.compile(r"(?P<chunk>.+\.\d{9})(?P<part>\d{4})(?P<end>\..+)")
_DATA: Final = re.compile(rf".*\.(?:csv|sql|parquet){_PACKED}")
_TIDB: Final = "tidb-binlog"


def read_dump(storage: Storage) -> Dump:
    """The dump in a folder; :class:`LoadError` if it did not end, or has files whose table cannot be told."""
    entries = storage.list()
    if not entries:
        raise LoadError(f"there are no files in {storage.uri}: check the folder")
    names = {entry.name for entry in entries}
    log, position = _position(storage, names)
    schemas, views, files, strange = _sorted(entries)
    if strange:
        raise LoadError(
            f"{storage.uri}: {strange[0]} is not named {{db}}.{{table}}.{{number}}.csv, .sql or .parquet, so its table "
            "is not known; dump without --output-filename-template"
        )
    lost = sorted(files.keys() - schemas.keys() - views)
    if lost:
        raise LoadError(f"{storage.uri} has rows of {lost[0]} and no CREATE TABLE of it; dump without --no-schemas")
    lacking = next(_lacking(file.name for found in files.values() for file in found), None)
    if lacking is not None:
        raise LoadError(f"{storage.uri} lacks {lacking}, and has files after it: copy the dump again")
    tables = [
        DumpedTable(_schema(storage, name, file), tuple(sorted(files.get(name, ()), key=lambda each: each.name)))
        for name, file in sorted(schemas.items())
        if name not in views
    ]
    return Dump(position if log == _TIDB else None, log, tuple(tables), tuple(sorted(views)))


def _position(storage: Storage, names: set[str]) -> tuple[str, int]:
    """The log and the position that ``metadata`` names."""
    data = storage.read("metadata") if "metadata" in names else None
    if data is None or "metadata.partial" in names:
        reason = "it has metadata.partial" if "metadata.partial" in names else "it has no file metadata"
        raise LoadError(f"{storage.uri} is not a dump that ended: {reason}; run Dumpling again")
    text = data.decode(errors="replace")
    if "Finished dump at" not in text:
        raise LoadError(f"the dump in {storage.uri} did not end: metadata has no line 'Finished dump at'; run it again")
    log, position = (re.search(rf"^\s*{name}: *(\S+)", text, re.MULTILINE) for name in ("Log", "Pos"))
    number = position[1] if position else ""
    return log[1] if log else "", int(number) if number.isdecimal() else 0


def _sorted(
    entries: Sequence[Entry],
) -> tuple[dict[TableName, tuple[str, Compression]], set[TableName], dict[TableName, list[DataFile]], list[str]]:
    """The files of schemas, the names of views and sequences, the files of rows, and data files of unknown tables."""
    schemas: dict[TableName, tuple[str, Compression]] = {}
    views: set[TableName] = set()
    files: dict[TableName, list[DataFile]] = {}
    strange = []
    for entry in entries:
        if (found := _SCHEMA.fullmatch(entry.name)) is not None:
            name = _name(found)
            if found["what"] in ("-view", "-sequence"):
                views.add(name)
            elif found["what"] is None:
                schemas[name] = (entry.name, Compression(found["packed"] or ""))
        elif _DATABASE.fullmatch(entry.name):
            continue
        elif (found := _ROWS.fullmatch(entry.name) or _PARQUET.fullmatch(entry.name)) is not None:
            parts = found.groupdict()
            packed = Compression(parts.get("packed") or "")
            file = DataFile(entry.name, entry.size, Kind(parts.get("kind") or "parquet"), packed)
            files.setdefault(_name(found), []).append(file)
        elif _DATA.fullmatch(entry.name):
            strange.append(entry.name)
    return schemas, views, files, strange


def _lacking(names: Iterable[str]) -> Iterator[str]:
    """The files that are missing between others: parts of a chunk are counted without a gap, chunks are not."""
    parts: dict[tuple[str, str], list[int]] = {}
    for found in filter(None, map(_PART.fullmatch, names)):
        parts.setdefault((found["chunk"], found["end"]), []).append(int(found["part"]))
    for (chunk, end), numbers in sorted(parts.items()):
        yield from (f"{chunk}{number:04}{end}" for number in sorted({*range(max(numbers))} - {*numbers}))


def _name(found: re.Match[str]) -> TableName:
    return TableName(unquote(found["db"]), unquote(found["table"]))


def _schema(storage: Storage, name: TableName, file: tuple[str, Compression]) -> TableSchema:
    """The table that a schema file's CREATE TABLE makes."""
    with storage.input(file[0]) as source, unpacked(source, file[1]) as stream:
        text = stream.read().decode()
    return table_of(text, name, f"{storage.uri}: {file[0]}")


def table_of(text: str, name: TableName, place: str) -> TableSchema:
    """The table that the CREATE TABLE in a text makes; :class:`LoadError` if it cannot be read."""
    start = re.search(r"^\s*CREATE\s", text, re.MULTILINE | re.IGNORECASE)
    query = text[start.start() :] if start else text
    found = next((edit for edit in edits(Ddl(name, 0, query)) if isinstance(edit, CreateTable)), None)
    if found is None or found.table.name.folded != name.folded:
        raise LoadError(f"{place}: its CREATE TABLE cannot be read")
    return found.table


def dumped_columns(table: TableSchema) -> tuple[str, ...]:
    """The columns that a dump has of a table: all but generated ones."""
    return tuple(column.name for column in table.columns if column.generated is None)
