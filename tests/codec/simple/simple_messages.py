"""What the tests of Simple share: the document's messages, worked Avro ones, an odd table, the vectors' schemas."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from tidewire.codec import Options, Resources
from tidewire.codec.options import EncodingFormat
from tidewire.codec.simple import Decoder, SchemaCache, decode
from tidewire.codec.simple.formats import format_of
from tidewire.codec.size_limits import Packing
from tidewire.model import (
    Bootstrap,
    Column,
    Ddl,
    DdlType,
    Event,
    Index,
    Message,
    RowChange,
    TableName,
    TableSchema,
    Watermark,
)
from vector_files import Vector, vectors

ENCODINGS = ("simple-json", "simple-avro")
JSON, AVRO = Options(), Options(encoding_format=EncodingFormat.AVRO)


def known_schemas(name: str, server: str) -> SchemaCache:
    """What a consumer has seen: in some files the BOOTSTRAP of a table is missing, because it was too large."""
    schemas = SchemaCache()
    for vector in vectors(name, f"types.default.{server}"):
        if vector.plain[0]["kind"] == "bootstrap":
            list(Decoder(vector.options, schemas=schemas).decode(vector.message))
    return schemas


def unpacked(vector: Vector, value: bytes | None) -> dict[str, Any]:
    """A value as a wire message, whatever its encoding and compression."""
    assert value is not None
    data = Packing("simple", vector.options, Resources()).unpack(value)
    return format_of(vector.options).load(data, "value")


def column(name: str, mysql_type: str, length: int, charset: str = "binary") -> dict[str, Any]:
    """A column as the document shows it; all but the first allow NULL."""
    collate = "binary" if charset == "binary" else f"{charset}_bin"
    data_type = {"mysqlType": mysql_type, "charset": charset, "collate": collate, "length": length}
    return {"name": name, "dataType": data_type, "nullable": name != "id", "default": None}


USER: dict[str, Any] = {
    "schema": "simple",
    "table": "user",
    "tableID": 148,
    "version": 447984074911121426,
    "columns": [
        column("id", "int", 11),
        column("name", "varchar", 255, "utf8mb4"),
        column("age", "int", 11),
        column("score", "float", 12),
    ],
    "indexes": [{"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}],
}
ROW: dict[str, Any] = {"age": "25", "id": "1", "name": "John Doe", "score": "90.5"}
HEAD: dict[str, Any] = {"version": 1, "database": "simple", "table": "user", "tableID": 148}
TAIL: dict[str, Any] = {"schemaVersion": 447984074911121426}
DOCUMENT: dict[str, dict[str, Any]] = {
    "bootstrap": {
        "version": 1,
        "type": "BOOTSTRAP",
        "commitTs": 0,
        "buildTs": 1708924603278,
        "tableSchema": USER | {"table": "new_user"},
    },
    "schema": {"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": 1708924603278, "tableSchema": USER},
    "insert": HEAD
    | {"type": "INSERT", "commitTs": 447984084414103554, "buildTs": 1708923662983}
    | TAIL
    | {"data": ROW},
    "update": HEAD
    | {"type": "UPDATE", "commitTs": 447984099186180098, "buildTs": 1708923719184}
    | TAIL
    | {"data": ROW | {"score": "95"}, "old": ROW},
    "delete": HEAD
    | {"type": "DELETE", "commitTs": 447984114259722243, "buildTs": 1708923776484}
    | TAIL
    | {"old": ROW | {"score": "95"}},
    "watermark": {"version": 1, "type": "WATERMARK", "commitTs": 447984124732375041, "buildTs": 1708923816911},
    "alter": {
        "version": 1,
        "type": "ALTER",
        "sql": "ALTER TABLE `user` ADD COLUMN `createTime` TIMESTAMP",
        "commitTs": 447987408682614795,
        "buildTs": 1708936343598,
        "tableSchema": USER
        | {"version": 447987408682614791, "columns": [*USER["columns"], column("createTime", "timestamp", 19)]},
        "preTableSchema": USER,
    },
}


def message(wire: dict[str, Any]) -> Message:
    """A message in JSON."""
    return Message(None, json.dumps(wire, separators=(",", ":")).encode())


def user_schema() -> TableSchema:
    """The table of the document's rows."""
    (event,) = decode(message(DOCUMENT["schema"]))
    assert isinstance(event, Bootstrap)
    return event.table_schema


CREATED = Bootstrap(
    TableSchema.build(
        TableName("test", "t"),
        [
            replace(Column.of("a", "int", primary_key=True), length=11),
            replace(Column.of("b", "int"), length=11),
        ],
        table_id=110,
        version=454487509493088269,
        pk_is_handle=True,
    )
)
INSERTED = RowChange(
    CREATED.table_schema, 454487509505933320, after={"a": 1, "b": None}, table_id=111, partitioned=True
)
WORKED: list[tuple[Event, int, str]] = [
    (Watermark(446266400629063682), 1708923816911, "16 00 00 02 84 80 80 cb a9 bb ba b1 0c 9e af e0 bc bc 63"),
    (
        INSERTED,
        1733732260205,
        "16 06 06 02 08 74 65 73 74 02 74 de 01 00 90 80 a0 ef eb fe d4 ce 0c da e5 f6 a7 f5 64"
        "9a 80 80 e3 eb fe d4 ce 0c 00 00 00 02 04 02 61 02 02 02 62 00 00 00",
    ),
    (
        Ddl(TableName("", ""), 454487509505933316, "CREATE DATABASE test", type=DdlType.CREATE_SCHEMA),
        1733732260205,
        "16 04 04 02 0e 28 43 52 45 41 54 45 20 44 41 54 41 42 41 53 45 20 74 65 73 74"
        "88 80 a0 ef eb fe d4 ce 0c da e5 f6 a7 f5 64 00 00",
    ),
    (
        CREATED,
        1708924603278,
        "16 02 02 02 9c ae c0 bd bc 63 08 74 65 73 74 02 74 dc 01 9a 80 80 e3 eb fe d4 ce 0c 04"
        "02 61 06 69 6e 74 0c 62 69 6e 61 72 79 0c 62 69 6e 61 72 79 16 00 00 02 00 02 00 00 00"
        "02 62 06 69 6e 74 0c 62 69 6e 61 72 79 0c 62 69 6e 61 72 79 16 00 00 02 00 02 00 01 00"
        "00 02 0e 70 72 69 6d 61 72 79 01 01 00 02 02 61 00 00",
    ),
]


def avro(value: str) -> Message:
    """A message in Avro, of its bytes in hexadecimal."""
    return Message(None, bytes.fromhex(value))


def wire(**changes: Any) -> Message:
    """The document's insert with some members changed, and those that are ``...`` left out."""
    return message({name: value for name, value in (DOCUMENT["insert"] | changes).items() if value is not ...})


def verifying(level: str, name: str = "simple-json") -> Options:
    """Options with which checksums are verified."""
    encoding = name.removeprefix("simple-")
    return Options.parse(
        {
            "encoding-format": encoding,
            "integrity-check-level": "correctness",
            "corruption-handle-level": level,
            "time-zone": "Asia/Shanghai",
        }
    )


ODD = TableSchema.build(
    TableName("test", "odd"),
    [
        replace(Column.of("id", "bigint unsigned", primary_key=True), length=20),
        replace(Column.of("bits", "bit(10)"), default=b"\x02\xaa"),
        Column.of("e", "enum('a','b')"),
        Column.of("s", "set('a','b','c')"),
        Column.of("ts", "timestamp(3)"),
        Column.of("v", "vector"),
        Column.of("t", "text"),
        Column.of("blob", "blob"),
    ],
    [Index("PRIMARY", ("id",), unique=True, primary=True)],
    table_id=7,
    version=2**64 - 1,
)
