"""What a table is made of, whatever its format: columns as files have them, data files, and rows of them that are dead.

Rows are never changed in a file. A change of a table is a set of new files, and of positions in older files whose rows
are dead. Both formats keep dead positions as the same 64-bit roaring bitmap, in the same frame.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Protocol, TypeAlias, cast
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidewire.errors import MissingExtra, StorageError, SyncError
from tidewire.model import TableName
from tidewire.storage import Storage
from tidewire.storage.folder import disk_error

if TYPE_CHECKING:
    from tidewire.spark.targets.partitions import PartitionField

try:
    from pyroaring import BitMap64
except ImportError as error:
    raise MissingExtra("pyroaring", "sync") from error

Comparable: TypeAlias = int | float | bytes | Decimal
"""A value as it is compared: text as its UTF-8 bytes, a date in days, a time in microseconds."""

PartitionValues: TypeAlias = tuple[Comparable | None, ...]
"""What all rows of a file have in common: a value for each field of a table's partition."""

UNKNOWN_ROWS: Final = 1_000_000
"""How many rows a file is taken to have if nothing says it."""

MOST_TABLES: Final = 10_000
"""The number of tables whose files are remembered; the ones used longest ago are forgotten."""

_MAGIC: Final = bytes.fromhex("d1d33964")


# Columns and statistics


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """A column of a table. Files know it by ``id``, whatever it was called when they were written.

    ``file_name`` is what new files call it, ``element_id`` the id of a list's elements. Rows of files that do not have
    the column have its ``initial`` value.
    """

    name: str
    id: int
    type: pa.DataType
    file_name: str
    element_id: int | None = None
    initial: Comparable | None = None

    @property
    def field(self) -> pa.Field:
        """The column of a new file."""
        type_ = self.type
        if self.element_id is not None:
            type_ = pa.list_(pa.field("element", type_.value_type, True, _id(self.element_id)))
        return pa.field(self.file_name, type_, True, _id(self.id))


def stored_type(table: TableName, column: str, type_: object, types: Mapping[str, pa.DataType]) -> pa.DataType:
    """The Arrow type of a column, given the name that a format has for it; ``SyncError`` if a sync cannot write it."""
    if isinstance(type_, str) and type_.startswith("decimal("):
        precision, scale = type_[8:-1].split(",")
        return pa.decimal128(int(precision), int(scale))
    if not isinstance(type_, str) or type_ not in types:
        raise SyncError(f"{table}: column {column} has type {type_}, which a sync cannot write. Drop the column")
    return types[type_]


LINEAGE: Final = (
    StoredColumn("_row_id", 2147483540, pa.int64(), "_row_id"),
    StoredColumn("_last_updated_sequence_number", 2147483539, pa.int64(), "_last_updated_sequence_number"),
)
"""The columns of an Iceberg file whose rows were in other files before, from format version 3 on."""


def _id(number: int) -> dict[str, str]:
    return {"PARQUET:field_id": str(number)}


@dataclass(frozen=True, slots=True)
class ColumnStats:
    """What is known of a column's values in a file. Bounds are ``None`` if they are unknown, or if all are NULL."""

    nulls: int | None = None
    lower: Comparable | None = None
    upper: Comparable | None = None
    nans: int | None = None


def comparable(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Values in the form in which they are compared: numbers, decimals or bytes."""
    type_ = values.type
    if pa.types.is_timestamp(type_):
        return values.cast(pa.int64())
    if pa.types.is_date32(type_):
        return values.cast(pa.int32())
    if pa.types.is_string(type_):
        return values.cast(pa.binary())
    return values


def repeated(value: Comparable | None, type_: pa.DataType, count: int) -> pa.Array:
    """An array that has one value, given in the form in which values are compared."""
    if value is None:
        return pa.nulls(count, type_)
    if isinstance(value, bytes):
        return pa.repeat(pa.scalar(value, pa.binary()), count).cast(type_)
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        return pa.repeat(pa.scalar(value, pa.int64() if pa.types.is_timestamp(type_) else pa.int32()), count).cast(
            type_
        )
    return pa.repeat(pa.scalar(value, type_), count)


def stats_of(values: pa.ChunkedArray) -> ColumnStats:
    """The statistics of a column's values."""
    type_ = values.type
    if pa.types.is_list(type_):
        return ColumnStats()
    if pa.types.is_boolean(type_):
        return ColumnStats(values.null_count)
    nulls, nans = values.null_count, None
    if pa.types.is_floating(type_):
        is_nan = pc.is_nan(values)
        nans = int(pc.sum(is_nan, min_count=0).as_py())
        values = pc.if_else(is_nan, pa.scalar(None, type_), values) if nans else values
    # Compared as numbers: Arrow has dates that Python does not have.
    bounds = pc.min_max(comparable(values))
    return ColumnStats(nulls, bounds["min"].as_py(), bounds["max"].as_py(), nans)


_SHORT: Final = 16
"""Characters of a text, or bytes, in a short bound."""


def shortened(stats: ColumnStats, type_: pa.DataType) -> ColumnStats:
    """Statistics with short bounds: the lower one is a prefix, the upper one is larger than all that it stands for."""
    if not isinstance(stats.lower, bytes) or not isinstance(stats.upper, bytes):
        return stats
    is_text = pa.types.is_string(type_)
    lower: Any = stats.lower.decode() if is_text else stats.lower
    upper: Any = stats.upper.decode() if is_text else stats.upper
    if len(lower) > _SHORT:
        lower = lower[:_SHORT]
    if len(upper) > _SHORT:
        upper = _next_text(upper[:_SHORT]) if is_text else _next_bytes(upper[:_SHORT])
    if is_text:
        lower, upper = lower.encode(), None if upper is None else upper.encode()
    return ColumnStats(stats.nulls, lower, upper, stats.nans)


def _next_text(text: str) -> str | None:
    """The first text after all that begin with this one."""
    for place in range(len(text) - 1, -1, -1):
        code = ord(text[place]) + 1
        code = 0xE000 if 0xD800 <= code <= 0xDFFF else code
        if code <= 0x10FFFF:
            return text[:place] + chr(code)
    return None


def _next_bytes(data: bytes) -> bytes | None:
    """The first bytes after all that begin with these."""
    for place in range(len(data) - 1, -1, -1):
        if data[place] < 0xFF:
            return data[:place] + bytes([data[place] + 1])
    return None


# Data files


@dataclass(frozen=True, slots=True)
class DeadRows:
    """Where the dead positions of a data file are kept: a bitmap, or, with ``size`` 0, a Parquet file of positions."""

    path: str
    offset: int
    size: int
    count: int
    document: str = ""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows. ``stats`` has what is known of columns, by their ids; ``document`` is what the format keeps.

    ``lineage`` is the id of its first row, and the sequence number of the commit that added it, if they are known.
    ``size`` is in bytes. If rows are not ``is_counted``, another program did not say how many there are. ``partition``
    is ``None`` if the table had other partitions when it was written. ``constants`` are columns with one value, by
    their ids, which a file need not have.
    """

    path: str
    rows: int
    stats: Mapping[int, ColumnStats]
    dead: tuple[DeadRows, ...] = ()
    document: str = ""
    lineage: tuple[int, int] | None = None
    size: int = 0
    is_counted: bool = True
    partition: PartitionValues | None = ()
    constants: Mapping[int, Comparable | None] = field(default_factory=dict)

    @property
    def live(self) -> int:
        """How many rows are not dead."""
        return self.rows - sum(each.count for each in self.dead)


@dataclass(frozen=True, slots=True)
class NewFile:
    """A data file that was written and is not in its table yet.

    ``replaces`` is the document of a file whose rows it has, in the same partition.
    """

    path: str
    rows: int
    size: int
    splits: tuple[int, ...]
    stats: Mapping[int, ColumnStats]
    partition: PartitionValues | None = ()
    replaces: str = ""


class FileAccess(Protocol):
    """Opens files by the paths that a table's metadata has. It can be pickled."""

    def input(self, path: str) -> Any:
        """A file to read, as ``pyarrow.parquet.ParquetFile`` takes it."""
        ...

    def output(self, path: str) -> BinaryIO:
        """A new file to write."""
        ...


@dataclass(frozen=True, slots=True)
class StoredTable:
    """A table at one version: its columns, its files, and how they are opened.

    ``folder`` is where new files go. ``key`` are the columns whose bounds new files tell in full, so that a search can
    skip files; texts and bytes in other columns, except those in ``order``, have short bounds. ``format`` is the
    version of the table format. ``partition`` says which partition a row belongs in, and ``spec`` is its number;
    ``order`` are columns by which rows are ordered in files, if the table says so.
    """

    version: str
    columns: tuple[StoredColumn, ...]
    files: tuple[DataFile, ...]
    access: FileAccess
    folder: str
    key: tuple[str, ...] = ()
    format: int = 0
    partition: tuple[PartitionField, ...] = ()
    spec: int = 0
    order: tuple[str, ...] = ()
    order_id: int = 0

    @property
    def has_lineage(self) -> bool:
        """Do its rows have ids that they keep when they are written to another file?"""
        return self.format >= 3

    def column(self, name: str) -> StoredColumn:
        """A column by its name, whatever the case of its letters."""
        folded = name.lower()
        found = next((column for column in self.columns if column.name.lower() == folded), None)
        if found is None:
            raise SyncError(f"the table does not have column {name} any more: another program changed it")
        return found


def rows_at(table: StoredTable | None, version: str) -> int | None:
    """How many rows a table has that are not dead, if it is at a version."""
    if table is None or table.version != version or not all(file.is_counted for file in table.files):
        return None
    return sum(file.live for file in table.files)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a table: new files, all dead positions of some files, and files that go.

    ``base`` is the table whose files were searched. ``dead`` has bitmaps, by path; they hold older dead positions too.
    """

    base: StoredTable
    added: tuple[NewFile, ...] = ()
    dead: Mapping[str, bytes] = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Does it change nothing?"""
        return not (self.added or self.dead or self.removed)

    def after(self, version: str, added: Iterable[DataFile], dead: Mapping[str, DeadRows]) -> StoredTable:
        """The table after the change. ``added`` and ``dead`` describe what was committed."""
        gone = set(self.removed)
        files = tuple(
            replace(file, dead=(dead[file.path],)) if file.path in dead else file
            for file in self.base.files
            if file.path not in gone
        )
        return replace(self.base, version=version, files=(*files, *added))


# Dead positions


def framed(bitmap: bytes) -> bytes:
    """A bitmap of dead positions as both formats keep it: size, magic number, bitmap, checksum."""
    data = _MAGIC + bitmap
    return struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def unframed(frame: bytes, path: str) -> BitMap64:
    """The bitmap in a frame."""
    (size,) = struct.unpack(">I", frame[:4])
    data = frame[4 : 4 + size]
    if (
        len(data) != size
        or data[:4] != _MAGIC
        or struct.unpack(">I", frame[4 + size : 8 + size])[0] != zlib.crc32(data)
    ):
        raise SyncError(f"{path} is damaged: its dead rows cannot be read. Restore the file, or load the table anew")
    return BitMap64.deserialize(data[4:])


def dead_positions(file: DataFile, access: FileAccess) -> BitMap64:
    """The positions in a file whose rows are dead."""
    found = BitMap64()
    for each in file.dead:
        with access.input(each.path) as source:
            if each.size:
                source.seek(each.offset)
                found |= unframed(source.read(each.size), each.path)
            else:
                rows = pq.read_table(source, columns=["file_path", "pos"])
                mine = rows.filter(pc.equal(rows["file_path"], file.path))["pos"]
                found |= BitMap64(mine.to_pylist())
    return found


# Access


@dataclass(frozen=True, slots=True)
class LocalAccess:
    """Files on a local disk, with or without ``file:`` before their path."""

    def input(self, path: str) -> Any:
        """A file to read."""
        return pa.OSFile(local_path(path), "rb")

    def output(self, path: str) -> BinaryIO:
        """A new file to write."""
        place = Path(local_path(path))
        place.parent.mkdir(parents=True, exist_ok=True)
        return cast("BinaryIO", _NewFile(place))


class _NewFile(io.BufferedWriter):
    """A local file that is being written. It is removed if that fails, so that a full disk does not fill further."""

    def __init__(self, place: Path) -> None:
        self._place, self._failed = place, False
        super().__init__(io.FileIO(place, "x"))

    def write(self, data: Any) -> int:
        """Write, or say in plain words why that is not possible."""
        try:
            return super().write(data)
        except OSError as error:
            raise self._broken(error) from error

    def close(self) -> None:
        """Write the rest, and close the file."""
        if self.closed:
            return
        try:
            super().close()
        except OSError as error:
            raise self._broken(error) from error
        finally:
            if self._failed:
                self._place.unlink(missing_ok=True)

    def _broken(self, error: OSError) -> StorageError:
        self._failed = True
        return disk_error(str(self._place.parent), self._place.name, error)


@dataclass(frozen=True, slots=True)
class StorageAccess:
    """Files of a storage."""

    storage: Storage

    def input(self, path: str) -> Any:
        """A file to read."""
        return self.storage.input(self.storage.relative(path))

    def output(self, path: str) -> BinaryIO:
        """A new file to write."""
        return self.storage.output(self.storage.relative(path))


def local_path(path: str) -> str:
    """A path without ``file:``."""
    return unquote(urlsplit(path).path) if path.startswith("file:") else path


def is_local(path: str) -> bool:
    """Is it a path on this machine?"""
    return path.startswith(("/", "file:"))


def parquet_columns(schema: pa.Schema, columns: Sequence[StoredColumn]) -> list[int | None]:
    """The places of columns in a file; ``None`` for those that it does not have. Files without ids go by name."""
    ids: dict[int, int] = {}
    names: dict[str, int] = {}
    for place, each in enumerate(schema):
        names[each.name] = place
        number = (each.metadata or {}).get(b"PARQUET:field_id")
        if number is not None:
            ids[int(number)] = place
    return [ids.get(column.id) if ids else names.get(column.file_name) for column in columns]
