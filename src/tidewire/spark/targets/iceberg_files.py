"""The files of an Iceberg table: how Iceberg describes them, and how new ones are described to it.

Each file is one JSON document that Iceberg's own parser reads, so one call to Java describes it, statistics included.
Version 3 of the format keeps dead rows as vectors in Puffin files, one for a data file. Version 2 keeps them in
Parquet files of positions.
"""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from tidewire.errors import Retry, SyncError
from tidewire.model import TableName
from tidewire.spark.targets.access import access_to
from tidewire.spark.targets.base import Java
from tidewire.spark.targets.files import (
    ColumnStats,
    Comparable,
    DataFile,
    DeadRows,
    FileAccess,
    FileChange,
    NewFile,
    StoredColumn,
    StoredTable,
    framed,
    stored_type,
)
from tidewire.spark.targets.iceberg_catalog import IcebergTable
from tidewire.spark.targets.iceberg_java import JavaNames
from tidewire.spark.targets.iceberg_values import json_of, value_of
from tidewire.spark.targets.partitions import PartitionField

_FILE_PATH_ID: Final = 2147483546
_POSITION_ID: Final = 2147483545
_EXACT: Final = Context(prec=100)
"""Python rounds decimals to 28 digits otherwise."""

_PUFFIN: Final = b"PFA1"

_TYPES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
}


def stored_table(table: IcebergTable, version: str) -> StoredTable:
    """What a table is made of. Listing costs a call to Java for each file."""
    java, named = table.java, table.java_named
    schema = json.loads(named("org.apache.iceberg.SchemaParser.toJson")(java.schema()))
    columns = tuple(_column(table.name, field) for field in schema["fields"])
    types = {column.id: column.type for column in columns}
    spec = json.loads(named("org.apache.iceberg.PartitionSpecParser.toJson")(java.spec()))
    partition = tuple(
        PartitionField(int(field["source-id"]), field["transform"], types[int(field["source-id"])])
        for field in spec["fields"]
    )
    number = int(spec["spec-id"])
    files = []
    if java.currentSnapshot() is not None:
        tasks = java.newScan().includeColumnStats().planFiles()
        listed = tasks.iterator()
        while listed.hasNext():
            task = listed.next()
            document = json.loads(named("org.apache.iceberg.ScanTaskParser.toJson")(task))
            same = int(document["data-file"]["spec-id"]) == number
            file = _data_file(table.name, document, types, partition if same else None)
            first = document["data-file"].get("first-row-id")
            if first is not None:
                file = replace(file, lineage=(int(first), int(task.file().dataSequenceNumber())))
            files.append(file)
        tasks.close()
    folder = str(java.locationProvider().newDataLocation("x")).rpartition("/")[0]
    order_id, order = _order(named, java, columns)
    return StoredTable(
        version,
        columns,
        tuple(files),
        access_to(folder, java),
        folder,
        format=table.format_version,
        partition=partition,
        spec=number,
        order=order,
        order_id=order_id,
    )


def _order(named: JavaNames, java: Java, columns: Iterable[StoredColumn]) -> tuple[int, tuple[str, ...]]:
    """The number of the order of rows in files, and its columns. Another program's order by transforms is not kept."""
    order = json.loads(named("org.apache.iceberg.SortOrderParser.toJson")(java.sortOrder()))
    names, fields = {column.id: column.name for column in columns}, order["fields"]
    if not all(field["transform"] == "identity" and field["direction"] == "asc" for field in fields):
        return 0, ()
    return int(order["order-id"]), tuple(names[int(field["source-id"])] for field in fields)


def _column(table: TableName, field: Mapping[str, Any]) -> StoredColumn:
    type_, element = field["type"], None
    if isinstance(type_, dict) and type_["type"] == "list" and isinstance(type_["element"], str):
        element = int(type_["element-id"])
        arrow = pa.list_(stored_type(table, field["name"], type_["element"], _TYPES))
    else:
        arrow = stored_type(table, field["name"], type_, _TYPES)
    initial = value_of(field.get("initial-default"), arrow)
    return StoredColumn(field["name"], int(field["id"]), arrow, field["name"], element, initial)


def _data_file(
    table: TableName,
    task: Mapping[str, Any],
    types: Mapping[int, pa.DataType],
    partition: Sequence[PartitionField] | None,
) -> DataFile:
    """A data file. ``partition`` is ``None`` if the table had other partitions when it was written."""
    file = task["data-file"]
    if file["file-format"].lower() != "parquet":
        raise SyncError(f"{table}: {file['file-path']} is not a Parquet file, so a sync cannot search it")
    nulls, nans, lower, upper = (
        _entries(file, f"{what}") for what in ("null-value-counts", "nan-value-counts", "lower-bounds", "upper-bounds")
    )
    stats = {
        id_: ColumnStats(
            nulls.get(id_), _decoded(lower.get(id_), type_), _decoded(upper.get(id_), type_), nans.get(id_)
        )
        for id_, type_ in types.items()
    }
    dead = tuple(_dead_rows(table, each) for each in task["delete-files"])
    counted = all("referenced-data-file" in each.document for each in dead)
    size = int(file["file-size-in-bytes"])
    path, rows = file["file-path"], int(file["record-count"])
    found = DataFile(path, rows, stats, dead, _outline(file), size=size, is_counted=counted)
    if partition is None:
        return replace(found, partition=None)
    values = tuple(value_of(each, field.result) for each, field in zip(file["partition"], partition, strict=True))
    constants = {
        field.source: value for field, value in zip(partition, values, strict=True) if field.transform == "identity"
    }
    return replace(found, partition=values, constants=constants)


def _entries(file: Mapping[str, Any], what: str) -> dict[int, Any]:
    found = file.get(what) or {"keys": (), "values": ()}
    return dict(zip(found["keys"], found["values"], strict=True))


def _outline(file: Mapping[str, Any]) -> str:
    """A file's description without statistics: it is enough to remove the file."""
    kept = ("spec-id", "content", "file-path", "file-format", "partition", "file-size-in-bytes", "record-count")
    more = ("referenced-data-file", "content-offset", "content-size-in-bytes")
    return json.dumps({key: file[key] for key in (*kept, *more) if key in file})


def _dead_rows(table: TableName, file: Mapping[str, Any]) -> DeadRows:
    if file["content"] != "position-deletes":
        raise SyncError(
            f"{table}: {file['file-path']} deletes rows by equality, which another program wrote and a sync cannot "
            "read. Compact the table with that program, and let no other program write to it"
        )
    return DeadRows(
        file["file-path"],
        int(file.get("content-offset") or 0),
        int(file.get("content-size-in-bytes") or 0),
        int(file["record-count"]) if file.get("referenced-data-file") else 0,  # others count rows of several files
        _outline(file),
    )


# Bounds


def _decoded(text: str | None, type_: pa.DataType) -> Comparable | None:
    """A bound, which Iceberg writes as the bytes of a single value in hexadecimal."""
    if text is None:
        return None
    data = bytes.fromhex(text)
    if pa.types.is_decimal(type_):
        return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-type_.scale, _EXACT)
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return data
    if pa.types.is_floating(type_):
        return float(struct.unpack("<f" if len(data) == 4 else "<d", data)[0])
    if pa.types.is_boolean(type_) or pa.types.is_list(type_):
        return None
    return int.from_bytes(data, "little", signed=True)


def _encoded(value: Comparable, type_: pa.DataType) -> str:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        number = int(value.scaleb(type_.scale, _EXACT))
        return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True).hex()
    if pa.types.is_float32(type_):
        return struct.pack("<f", value).hex()
    if pa.types.is_float64(type_):
        return struct.pack("<d", value).hex()
    width = 4 if type_ in (pa.int32(), pa.date32()) else 8
    return int(value).to_bytes(width, "little", signed=True).hex()


# New files


def described(file: NewFile, table: StoredTable) -> str:
    """A new data file, as Iceberg's parser takes it."""
    columns = {column.id: column for column in table.columns}
    bounds: dict[str, dict[int, str]] = {"lower-bounds": {}, "upper-bounds": {}}
    for id_, stats in file.stats.items():
        for what, value in (("lower-bounds", stats.lower), ("upper-bounds", stats.upper)):
            if value is not None:
                bounds[what][id_] = _encoded(value, columns[id_].type)
    counted = {id_: stats for id_, stats in file.stats.items() if stats.nulls is not None}
    document = {
        **_partition_of(file, table),
        "content": "data",
        "file-path": file.path,
        "file-format": "parquet",
        "file-size-in-bytes": file.size,
        "record-count": file.rows,
        "value-counts": _listed(dict.fromkeys(counted, file.rows)),
        "null-value-counts": _listed({id_: stats.nulls for id_, stats in counted.items()}),
        "nan-value-counts": _listed({id_: stats.nans for id_, stats in counted.items() if stats.nans is not None}),
        **{what: _listed(values) for what, values in bounds.items()},
        "split-offsets": list(file.splits),
        "sort-order-id": 0 if file.replaces else table.order_id,
    }
    return json.dumps(document)


def _partition_of(file: NewFile, table: StoredTable) -> dict[str, Any]:
    """The partition of a new file: that of the file that it replaces, or the one that its rows belong in."""
    if file.replaces:
        return _placed(file.replaces)
    values = zip(file.partition or (), table.partition, strict=True)
    return {"spec-id": table.spec, "partition": [json_of(value, field.result) for value, field in values]}


def _placed(document: str) -> dict[str, Any]:
    """The partition of a file with a document."""
    found = json.loads(document)
    return {key: found[key] for key in ("spec-id", "partition")}


def _listed(values: Mapping[int, object]) -> dict[str, list[object]]:
    return {"keys": list(values), "values": list(values.values())}


def write_dead_rows(change: FileChange, label: str) -> dict[str, DeadRows]:
    """Write the dead positions of files in the way of the table's format version; where they are, by data file."""
    if not change.dead:
        return {}
    return (_write_puffin if change.base.format >= 3 else _write_positions)(change, label)


def _write_puffin(change: FileChange, label: str) -> dict[str, DeadRows]:
    """One Puffin file with a vector for each data file."""
    path, files = f"{change.base.folder}/{label}-{uuid.uuid4().hex}.puffin", _documents(change)
    data, blobs, found = _PUFFIN, [], {}
    for data_file, bitmap in change.dead.items():
        frame, count = framed(bitmap), len(BitMap64.deserialize(bitmap))
        found[data_file] = (len(data), len(frame), count)
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_FILE_PATH_ID],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(data),
                "length": len(frame),
                "properties": {"referenced-data-file": data_file, "cardinality": str(count)},
            }
        )
        data += frame
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": "tidewire"}}).encode()
    data += _PUFFIN + footer + struct.pack("<i", len(footer)) + b"\0\0\0\0" + _PUFFIN
    _put(change.base.access, path, data)
    return {
        data_file: _dead_document(path, "puffin", len(data), data_file, files[data_file], *each)
        for data_file, each in found.items()
    }


def _documents(change: FileChange) -> dict[str, str]:
    """The documents of files that rows die in."""
    return {file.path: file.document for file in change.base.files if file.path in change.dead}


_POSITIONS: Final = pa.schema(
    [
        pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(_FILE_PATH_ID)}),
        pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(_POSITION_ID)}),
    ]
)


def _write_positions(change: FileChange, label: str) -> dict[str, DeadRows]:
    """A Parquet file of positions for each data file."""
    found, files = {}, _documents(change)
    for data_file, bitmap in change.dead.items():
        positions = list(BitMap64.deserialize(bitmap))
        rows = pa.table([pa.array([data_file] * len(positions)), pa.array(positions, pa.int64())], schema=_POSITIONS)
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="zstd", store_schema=False)
        path = f"{change.base.folder}/{label}-{uuid.uuid4().hex}-deletes.parquet"
        _put(change.base.access, path, sink.getvalue())
        size = len(sink.getvalue())
        found[data_file] = _dead_document(path, "parquet", size, data_file, files[data_file], 0, 0, len(positions))
    return found


def _dead_document(
    path: str, kind: str, size: int, data_file: str, of: str, offset: int, length: int, count: int
) -> DeadRows:
    """The description of dead rows; ``of`` is the document of their data file."""
    document: dict[str, Any] = {
        **_placed(of),
        "content": "position-deletes",
        "file-path": path,
        "file-format": kind,
        "file-size-in-bytes": size,
        "record-count": count,
        "referenced-data-file": data_file,
    }
    if length:
        document |= {"content-offset": offset, "content-size-in-bytes": length}
    return DeadRows(path, offset, length, count, json.dumps(document))


def _put(access: FileAccess, path: str, data: bytes) -> None:
    with access.output(path) as sink:
        sink.write(data)


def document_of(
    change: FileChange, added: Iterable[str], summary: Mapping[str, str], dead: Mapping[str, DeadRows] = {}
) -> str:
    """A change of files as ``IcebergCommit`` takes it."""
    gone = set(change.removed)
    touched = [file for file in change.base.files if file.path in dead or file.path in gone]
    document: dict[str, object] = {
        "searched": list(change.dead),
        "summary": summary,
        "addRows": list(added),
        "removeRows": [file.document for file in touched if file.path in gone],
        "addDeletes": [rows.document for rows in dead.values()],
        "removeDeletes": [rows.document for file in touched for rows in _own_dead(file)],
    }
    if change.base.files:
        document["base"] = int(change.base.version.split("@")[1])
    return json.dumps(document)


def _own_dead(file: DataFile) -> list[DeadRows]:
    """The dead rows of a file that are kept for it alone: others may have dead rows of more files."""
    return [rows for rows in file.dead if "referenced-data-file" in rows.document]


def refuse_changed(name: TableName, base: StoredTable, version: str) -> None:
    """Raise ``Retry`` if a table is not the one that was searched."""
    if base.version != version:
        raise Retry(f"another program changed {name} after it was searched")
