"""The files of a Delta table: the actions of its log that describe them, read and made.

Each version of a table is one small document in its log, which says which files were added and removed, whichever
program committed it. Only the files of a long log are listed by Delta, once, because that takes a Spark job.
"""

from __future__ import annotations

import json
import struct
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from tidewire.errors import SyncError
from tidewire.model import TableName
from tidewire.spark.targets.base import Java
from tidewire.spark.targets.delta_commit import SORT
from tidewire.spark.targets.delta_log import LOG
from tidewire.spark.targets.files import (
    UNKNOWN_ROWS,
    ColumnStats,
    Comparable,
    DataFile,
    DeadRows,
    FileChange,
    LocalAccess,
    NewFile,
    StorageAccess,
    StoredColumn,
    StoredTable,
    framed,
    stored_type,
)
from tidewire.spark.targets.partitions import PartitionField
from tidewire.storage import Storage

_TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "string": pa.string(),
    "binary": pa.binary(),
}

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
"""The digits of Z85, in which Delta writes the id of a file of vectors."""

_ID_LENGTH: Final = 20
_SHORT_LOG: Final = 100
"""A table with fewer versions is read out of its log, and one with more is listed by Delta, which has checkpoints."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND: Final = 1000

Action = Mapping[str, Any]


def stored_table(name: TableName, snapshot: Java, folder: Storage, root: str) -> StoredTable:
    """What a table is made of."""
    columns, partition, order = layout_of(name, snapshot)
    access, version = LocalAccess() if folder.local is not None else StorageAccess(folder), int(snapshot.version())
    empty = StoredTable("-1", columns, (), access, root, partition=partition, order=order)
    found = advanced(name, empty, snapshot, folder) if version < _SHORT_LOG else None
    if found is None:
        listed = snapshot.allFiles().toJSON().collectAsList()
        files = tuple(_data_file(name, json.loads(document), columns, root, partition) for document in listed)
        found = replace(empty, version=str(version), files=files)
    return found


def advanced(name: TableName, known: StoredTable, snapshot: Java, folder: Storage) -> StoredTable | None:
    """A table at a later version, out of what the log says of the versions in between; ``None`` if it lacks one."""
    columns, partition, order = layout_of(name, snapshot)
    if _kinds(columns) != _kinds(known.columns):  # what is known of files is in the types of older columns
        return None
    files: dict[str, DataFile] = {file.path: file for file in known.files}
    added: dict[str, Action] = {}
    for version in range(int(known.version) + 1, int(snapshot.version()) + 1):
        text = folder.read(f"{LOG}/{version:020}.json")
        if text is None:
            return None
        actions = [json.loads(line) for line in text.splitlines()]
        for path in (_path(action["remove"], known.folder) for action in actions if "remove" in action):
            files.pop(path, None)
            added.pop(path, None)
        added |= {_path(action["add"], known.folder): action["add"] for action in actions if "add" in action}
    files |= {path: _data_file(name, add, columns, known.folder, partition) for path, add in added.items()}
    now, found = str(snapshot.version()), tuple(files.values())
    return replace(known, version=now, columns=columns, files=found, partition=partition, order=order)


def _kinds(columns: Iterable[StoredColumn]) -> set[tuple[int, pa.DataType, str]]:
    """The columns of a table, whatever their names and places."""
    return {(column.id, column.type, column.file_name) for column in columns}


def layout_of(
    name: TableName, snapshot: Java
) -> tuple[tuple[StoredColumn, ...], tuple[PartitionField, ...], tuple[str, ...]]:
    """The columns of a table, those of its partitions, and those by which rows are ordered in files."""
    metadata = json.loads(snapshot.metadata().json())["metaData"]
    fields = json.loads(metadata["schemaString"])["fields"]
    columns = tuple(_column(name, number, field) for number, field in enumerate(fields))
    by_name = {column.name: column for column in columns}
    partition = (by_name[each] for each in metadata["partitionColumns"])
    sort = sorted((field["metadata"][SORT], field["name"]) for field in fields if SORT in field["metadata"])
    return (
        columns,
        tuple(PartitionField(column.id, "identity", column.type) for column in partition),
        tuple(column for _, column in sort),
    )


def _column(name: TableName, number: int, field: Mapping[str, Any]) -> StoredColumn:
    mapped, type_ = field["metadata"], field["type"]
    if isinstance(type_, dict) and type_["type"] == "array":
        arrow = pa.list_(stored_type(name, field["name"], type_["elementType"], _TYPES))
    else:
        arrow = stored_type(name, field["name"], type_, _TYPES)
    return StoredColumn(
        field["name"],
        int(mapped.get("delta.columnMapping.id", -1 - number)),
        arrow,
        mapped.get("delta.columnMapping.physicalName", field["name"]),
    )


def _path(action: Action, root: str) -> str:
    """Where a file is; the log has its path below the table's folder, with escapes."""
    path = unquote(action["path"])
    return path if path.startswith("/") or ":/" in path else f"{root}/{path}"


def _data_file(
    name: TableName, add: Action, columns: Iterable[StoredColumn], root: str, partition: Sequence[PartitionField] = ()
) -> DataFile:
    stats = json.loads(add.get("stats") or "{}", parse_float=Decimal)
    nulls, lower, upper = (stats.get(what, {}) for what in ("nullCount", "minValues", "maxValues"))
    known = {
        column.id: ColumnStats(
            nulls.get(column.file_name),
            _bound(lower.get(column.file_name), column.type, up=False),
            _bound(upper.get(column.file_name), column.type, up=True),
        )
        for column in columns
    }
    vector = add.get("deletionVector")
    dead = () if vector is None else (_dead_rows(name, vector, root),)
    rows = stats.get("numRecords")
    size, document = int(add.get("size") or 0), json.dumps(add)
    physical = {column.id: column.file_name for column in columns}
    values = tuple(_partition_value(add["partitionValues"][physical[field.source]], field.type) for field in partition)
    return DataFile(
        _path(add, root),
        UNKNOWN_ROWS if rows is None else int(rows),
        known,
        dead,
        document,
        size=size,
        is_counted=rows is not None,
        partition=values,
        constants={field.source: value for field, value in zip(partition, values, strict=True)},
    )


def _partition_value(text: str | None, type_: pa.DataType) -> Comparable | None:
    """The value of a partition, which the log has as text."""
    if not text:
        return None
    if pa.types.is_integer(type_):
        return int(text)
    if pa.types.is_date(type_):
        return int(np.datetime64(text, "D").astype(np.int64))
    raise SyncError(f"partitions by values of {type_}, such as {text!r}, are of another program and cannot be written")


def _partition_texts(file: NewFile, table: StoredTable, columns: Mapping[int, StoredColumn]) -> dict[str, str | None]:
    """The partition of a new file: that of the file that it replaces, or the one that its rows belong in."""
    if file.replaces:
        return dict(json.loads(file.replaces)["partitionValues"])
    found: dict[str, str | None] = {}
    for field, value in zip(table.partition, file.partition or (), strict=True):
        text = str(np.datetime64(int(value), "D")) if value is not None and pa.types.is_date(field.type) else str(value)
        found[columns[field.source].file_name] = None if value is None else text
    return found


def _dead_rows(name: TableName, vector: Mapping[str, Any], root: str) -> DeadRows:
    if vector["storageType"] == "u":
        prefix, id_ = vector["pathOrInlineDv"][:-_ID_LENGTH], vector["pathOrInlineDv"][-_ID_LENGTH:]
        folder = f"{root}/{prefix}" if prefix else root
        path = f"{folder}/deletion_vector_{uuid.UUID(bytes=_unpacked(id_))}.bin"
    elif vector["storageType"] == "p":
        path = unquote(vector["pathOrInlineDv"])
    else:
        raise SyncError(
            f"{name}: a file has dead rows that are kept in the log itself, by another program. "
            "Run OPTIMIZE on the table, and start the sync again"
        )
    return DeadRows(path, int(vector.get("offset") or 0), int(vector["sizeInBytes"]) + 8, int(vector["cardinality"]))


def _packed(data: bytes) -> str:
    text = ""
    for start in range(0, len(data), 4):
        number = int.from_bytes(data[start : start + 4], "big")
        text += "".join(_DIGITS[number // 85**power % 85] for power in (4, 3, 2, 1, 0))
    return text


def _unpacked(text: str) -> bytes:
    data = b""
    for start in range(0, len(text), 5):
        number = 0
        for digit in text[start : start + 5]:
            number = number * 85 + _DIGITS.index(digit)
        data += number.to_bytes(4, "big")
    return data


# Statistics


def _bound(value: Any, type_: pa.DataType, *, up: bool) -> Comparable | None:
    """A bound in the log; times in it are cut to milliseconds."""
    if value is None:
        return None
    if pa.types.is_string(type_):
        return str(value).encode()
    if pa.types.is_integer(type_):
        return int(value)
    if pa.types.is_decimal(type_):
        return Decimal(value)
    if pa.types.is_date(type_):
        return (date.fromisoformat(value) - _EPOCH.date()).days if len(value) == len("2024-01-01") else None
    if pa.types.is_timestamp(type_):
        return _instant(value, up=up)
    return None


def _instant(text: str, *, up: bool) -> int | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:  # years that Python does not have
        return None
    found = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
    since = found - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return micros + _MILLISECOND - 1 if up else micros


def _told(value: Comparable, type_: pa.DataType) -> Any:
    """A bound as the log has it; ``None`` if it has none of this type."""
    if isinstance(value, bytes):
        return value.decode() if pa.types.is_string(type_) else None
    if isinstance(value, float):
        return value if value - value == 0 else None  # neither infinite nor NaN
    if pa.types.is_date(type_):
        return _text(lambda: date(1970, 1, 1).toordinal() + int(value), date.fromordinal)
    if pa.types.is_timestamp(type_):
        seconds, micros = divmod(int(value), 1_000_000)
        moment = _text(lambda: seconds, lambda each: datetime.fromtimestamp(each, timezone.utc).replace(tzinfo=None))
        zone = "Z" if type_.tz else ""
        return None if moment is None else f"{moment}.{micros // _MILLISECOND:03}{zone}"
    return value


def _text(number: Any, make: Any) -> str | None:
    """A date in ISO's form; ``None`` for one that Python does not have."""
    try:
        return str(make(number()).isoformat())
    except (ValueError, OverflowError, OSError):
        return None


def _stats_text(file: NewFile, columns: Mapping[int, StoredColumn]) -> str:
    found: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for id_, stats in file.stats.items():
        column = columns[id_]
        if stats.nulls is not None:
            found["nullCount"][column.file_name] = stats.nulls
        bounds = [None if value is None else _told(value, column.type) for value in (stats.lower, stats.upper)]
        if None not in bounds and not stats.nans:
            found["minValues"][column.file_name], found["maxValues"][column.file_name] = bounds
    return _json({"numRecords": file.rows, **found, "tightBounds": True})


def _json(document: Any) -> str:
    """JSON in which decimals are numbers with all their digits."""
    marks: dict[str, str] = {}
    token = uuid.uuid4().hex

    def mark(value: Decimal) -> str:
        key = f"{token}:{len(marks)}"
        marks[json.dumps(key)] = format(value, "f")
        return key

    text = json.dumps(_marked(document, mark))
    for key, number in marks.items():
        text = text.replace(key, number)
    return text


def _marked(value: Any, mark: Any) -> Any:
    if isinstance(value, Decimal):
        return mark(value)
    return {key: _marked(each, mark) for key, each in value.items()} if isinstance(value, dict) else value


# Actions


def actions_of(change: FileChange, *, is_data: bool = True) -> Iterator[dict[str, Any]]:
    """The actions of a change. A file with more dead rows is removed, and added again with its new vector.

    Without ``is_data`` it leaves all rows as they are, in other files.
    """
    columns = {column.id: column for column in change.base.columns}
    now, gone = int(time.time() * 1000), set(change.removed)
    vectors = _write_vectors(change)
    for file in change.base.files:
        if file.path not in gone and file.path not in vectors:
            continue
        add = json.loads(file.document)
        kept = {key: add[key] for key in ("path", "partitionValues", "size", "deletionVector") if key in add}
        yield {"remove": {**kept, "deletionTimestamp": now, "dataChange": is_data, "extendedFileMetadata": True}}
        if file.path in vectors:
            stats = add.get("stats")
            if stats is not None:
                stats = _json({**json.loads(stats, parse_float=Decimal), "tightBounds": False})
            again = {**add, "stats": stats, "dataChange": True, "deletionVector": vectors[file.path]}
            yield {"add": {key: value for key, value in again.items() if value is not None}}
    for new in change.added:
        name = new.path.removeprefix(f"{change.base.folder}/")
        yield {
            "add": {
                "path": quote(name),
                "partitionValues": _partition_texts(new, change.base, columns),
                "size": new.size,
                "modificationTime": now,
                "dataChange": is_data,
                "stats": _stats_text(new, columns),
            }
        }


def _write_vectors(change: FileChange) -> dict[str, dict[str, Any]]:
    """Write the dead positions of files to one file; the descriptions of the vectors, by data file."""
    if not change.dead:
        return {}
    id_, data, found = uuid.uuid4(), struct.pack("B", 1), {}
    for path, bitmap in change.dead.items():
        frame = framed(bitmap)
        found[path] = {
            "storageType": "u",
            "pathOrInlineDv": _packed(id_.bytes),
            "offset": len(data),
            "sizeInBytes": len(frame) - 8,
            "cardinality": len(BitMap64.deserialize(bitmap)),
        }
        data += frame
    with change.base.access.output(f"{change.base.folder}/deletion_vector_{id_}.bin") as sink:
        sink.write(data)
    return found
