"""Where files lie, as paths relative to the prefix of the storage."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tidewire.model import RowChange, TableName

METADATA = "metadata"


class DateSeparator(StrEnum):
    """``date-separator``: how finely a table's files are sorted into folders by date."""

    NONE = "none"
    YEAR = "year"
    MONTH = "month"
    DAY = "day"


_DATES: Mapping[DateSeparator, str] = {
    DateSeparator.NONE: "",
    DateSeparator.YEAR: "%Y",
    DateSeparator.MONTH: "%Y-%m",
    DateSeparator.DAY: "%Y-%m-%d",
}
_DATA_FILE = re.compile(r"CDC(?:_(?P<writer>.+)_)?(?P<number>\d+)\.\w+")
_SCHEMA_FILE = re.compile(r"schema_(\d+)_(\d{10})\.json")
_DATE = re.compile(r"\d{4}(-\d\d){0,2}")


@dataclass(frozen=True, slots=True)
class Layout:
    """The rules by which paths are made."""

    extension: str
    date_separator: DateSeparator = DateSeparator.DAY
    partition_separator: bool = True
    index_digits: int = 20
    table_ids: bool = False

    def table_folder(self, name: TableName, table_id: int | None) -> str:
        """The folder of a table, or of a database where the table's name is empty."""
        if self.table_ids and table_id is not None and name.table:
            return str(table_id)
        return f"{name.schema}/{name.table}" if name.table else name.schema

    def schema_folder(self, name: TableName, table_id: int | None) -> str:
        """The folder of schema files."""
        return f"{self.table_folder(name, table_id)}/meta"

    def row_folder(self, change: RowChange, version: int) -> str:
        """The folder of a row's files, before it is sorted by date."""
        own_id = change.table_id if change.partitioned else change.table.table_id
        folder = f"{self.table_folder(change.table.name, own_id)}/{version}"
        separate = self.partition_separator and change.partitioned and not self.table_ids
        return f"{folder}/{change.table_id}" if separate else folder

    def dated(self, folder: str, now: datetime) -> str:
        """The folder for what is written now."""
        date = now.strftime(_DATES[self.date_separator])
        return f"{folder}/{date}" if date else folder

    def data_name(self, number: int) -> str:
        """The name of a file of rows."""
        return f"CDC{number:0{self.index_digits}d}.{self.extension}"


def index_path(folder: str) -> str:
    """The file that names the last file of a folder."""
    return f"{folder}/meta/CDC.index"


def file_number(name: str) -> int:
    """The number in a file's name; 0 if it is not a file of rows."""
    found = _DATA_FILE.fullmatch(name)
    return int(found["number"]) if found and found["writer"] is None else 0


def schema_version(name: str) -> tuple[int, int] | None:
    """Version and checksum in the name of a schema file."""
    found = _SCHEMA_FILE.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True, slots=True)
class SchemaPath:
    """Where a schema file lies. ``folder`` is that of its table or database."""

    folder: str
    version: int


@dataclass(frozen=True, slots=True)
class DataPath:
    """Where a file of rows lies.

    ``folder`` is that of its table. ``partition`` is the physical id of a table's partition, 0 without one.
    ``writer`` is the dispatcher that wrote it, if several write one table.
    """

    folder: str
    version: int
    partition: int
    date: str
    writer: str
    number: int

    @property
    def series(self) -> tuple[str, int, int, str, str]:
        """What files have in common whose numbers follow one another."""
        return self.folder, self.version, self.partition, self.date, self.writer


def schema_path(path: str) -> SchemaPath | None:
    """Where a schema file lies, ``None`` if the path is not that of a schema file."""
    folder, _, name = path.rpartition("/meta/")
    found = schema_version(name) if folder else None
    return None if found is None else SchemaPath(folder, found[0])


def data_path(path: str, tables: Collection[str] = ()) -> DataPath | None:
    """Where a file of rows lies, ``None`` if the path is not that of a file of rows.

    ``tables`` are the folders that have schema files. They tell a folder ``schema/table`` from one that is named after
    a table's id; without them it is ``schema/table`` if the path is long enough.
    """
    *folders, name = path.split("/")
    found = _DATA_FILE.fullmatch(name)
    depths = [
        depth for depth in (2, 1) if len(folders) > depth and folders[depth].isascii() and folders[depth].isdigit()
    ]
    if found is None or not depths:
        return None
    depth = next((each for each in depths if "/".join(folders[:each]) in tables), depths[0])
    rest = folders[depth + 1 :]
    date = rest.pop() if rest and _DATE.fullmatch(rest[-1]) else ""
    partition = rest.pop() if rest else "0"
    if rest or not partition.isdigit():
        return None
    return DataPath(
        "/".join(folders[:depth]),
        int(folders[depth]),
        int(partition),
        date,
        found["writer"] or "",
        int(found["number"]),
    )
