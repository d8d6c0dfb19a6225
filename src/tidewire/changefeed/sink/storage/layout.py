"""Where files lie, as paths relative to the prefix of the storage."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tidewire.changefeed.config.settings import DateSeparator
from tidewire.model import RowChange, TableName

METADATA = "metadata"
_DATES: Mapping[DateSeparator, str] = {
    DateSeparator.NONE: "",
    DateSeparator.YEAR: "%Y",
    DateSeparator.MONTH: "%Y-%m",
    DateSeparator.DAY: "%Y-%m-%d",
}
_DATA_FILE = re.compile(r"CDC(\d+)\.\w+")
_SCHEMA_FILE = re.compile(r"schema_(\d+)_(\d{10})\.json")


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
    """The number in a file's name; 0 where it is not a file of rows."""
    found = _DATA_FILE.fullmatch(name)
    return int(found[1]) if found else 0


def schema_version(name: str) -> tuple[int, int] | None:
    """Version and checksum in the name of a schema file."""
    found = _SCHEMA_FILE.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None
