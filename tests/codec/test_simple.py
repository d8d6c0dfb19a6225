"""Simple, in JSON and in Avro: the servers' messages, the document's, broken ones, and rows that come too early."""

from __future__ import annotations

import base64
import io
import json
import random
import sys
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies import BOOTSTRAPS, WATERMARKS, streams
from tidewire.codec import Options, Resources
from tidewire.codec.claim_check import MemoryStore
from tidewire.codec.large import Packing
from tidewire.codec.options import EncodingFormat
from tidewire.codec.parking import Parking
from tidewire.codec.simple import (
    Decoder,
    Encoder,
    SchemaCache,
    avro_format,
    avro_wire,
    carries,
    decode,
    encode,
    inspect,
)
from tidewire.codec.simple.formats import format_of
from tidewire.errors import DecodeError, EncodeError, MessageTooLarge, MissingExtra, SchemaUnknown
from tidewire.model import (
    Bootstrap,
    Checksum,
    Column,
    Ddl,
    DdlKind,
    DdlType,
    EnumValue,
    Event,
    Index,
    Message,
    MySQLType,
    Row,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Timestamp,
    Watermark,
)
from tidewire.plain import event_to_plain
from vector_files import Vector, files, vectors

ENCODINGS = ("simple-json", "simple-avro")
CASES = [(name, file) for name in ENCODINGS for file in files(name)]
REFUSED = [(name, file) for name in ENCODINGS for file in files(name, "*.errors")]
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


def told(plain: dict[str, Any]) -> dict[str, Any]:
    """An event without what Simple has no place for."""
    row = {key: value for key, value in plain.items() if key not in ("start_ts", "row_id", "ddl_kind", "type_code")}
    for member in ("table_schema", "pre_table_schema"):
        if row.get(member):
            row[member] = row[member] | {"columns": told_columns(row[member]["columns"])}
    if "columns" in row:
        row["columns"] = told_columns(row["columns"])
    return row


def told_columns(columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Columns by name (the classic server sorts them by id), without ids and what makes them generated."""
    found = []
    for column in sorted(columns, key=lambda column: str(column["name"])):
        generated = "generated" in column or column["base_type"] == "unspecified"
        unsent = {"id", "generated"} | ({"flag"} if generated else set())
        unsent |= {"decimal", "mysql_type"} if column["base_type"] in ("float", "double") else set()
        found.append({key: value for key, value in column.items() if key not in unsent})
    return found


def generated_flags(want: Any, got: Any) -> Any:
    """The flags that came, for columns of which the wire does not tell that they are generated."""
    for ours, theirs in zip(want, got, strict=True):
        if "flag" not in ours:
            theirs.pop("flag", None)
    return got


@pytest.mark.parametrize(("name", "file"), CASES)
def test_a_message_means_its_events(name: str, file: str) -> None:
    schemas = known_schemas(name, file.rpartition(".")[2])
    for vector in vectors(name, file):
        (event,) = Decoder(vector.options, Resources(claim_check=vector.claim_checks), schemas).decode(vector.message)
        (sent,) = vector.events
        want, got = told(event_to_plain(sent)), told(event_to_plain(event))
        for member in ("table_schema", "pre_table_schema"):
            if want.get(member):
                generated_flags(want[member]["columns"], got[member]["columns"])
        match sent, event:
            case RowChange(), RowChange():
                generated_flags(want["columns"], got["columns"])
                assert event.partition_id == sent.partition_id, vector.id
                if event.handle_key_only:
                    assert got.pop("handle_key_only"), vector.id
                    want |= {
                        side: image and {key: image[key] for key in want["handle_key"]}
                        for side, image in ((side, want[side]) for side in ("before", "after"))
                    }
            case Ddl(), Ddl():
                for key in ("old_schema", "old_table", *(("schema", "table") if not event.table_schema else ())):
                    want.pop(key, None), got.pop(key, None)
                if sent.type == DdlType.EXCHANGE_TABLE_PARTITION:
                    want["table"] = got["table"]
        assert got == want, vector.id


@pytest.mark.parametrize(("name", "file"), [case for case in CASES if case[1].endswith(".ticdc")])
def test_events_make_the_new_servers_bytes(name: str, file: str) -> None:
    for vector in vectors(name, file):
        kept = vector.claim_checks.blobs
        whole = [message_in_file(vector, data) for data in kept.values()]
        clock = chain((unpacked(vector, value)["buildTs"] for value in whole), repeat(build_ts(vector)))
        names, store = iter(kept), MemoryStore()
        resources = Resources(store, clock=clock.__next__, file_name=names.__next__)
        (message,) = Encoder(vector.options, resources).encode(vector.events)

        assert message.key is None
        assert set(store.blobs) == set(kept), vector.id
        if name == "simple-avro" and vector.plain[0]["kind"] == "row":
            # The server leaves the order of the columns to chance.
            assert unpacked(vector, message.value) == unpacked(vector, vector.message.value), vector.id
            for file_name, data in store.blobs.items():
                ours, theirs = (unpacked(vector, message_in_file(vector, blob)) for blob in (data, kept[file_name]))
                assert ours == theirs, vector.id
        else:
            assert message == vector.message, vector.id
            assert store.blobs == kept, vector.id


def build_ts(vector: Vector) -> int:
    return int(unpacked(vector, vector.message.value)["buildTs"])


def message_in_file(vector: Vector, data: bytes) -> bytes:
    return data if vector.options.claim_check_raw_value else base64.b64decode(json.loads(data)["value"])


@pytest.mark.parametrize(("name", "file"), REFUSED)
def test_what_the_server_refuses_is_refused(name: str, file: str) -> None:
    for vector in vectors(name, file):
        with pytest.raises(EncodeError) as refusal:
            list(Encoder(vector.options, Resources(claim_check=MemoryStore())).encode(vector.events))

        assert refusal.value.code == vector.error, vector.id


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
    return Message(None, json.dumps(wire, separators=(",", ":")).encode())


def user_schema() -> TableSchema:
    (event,) = decode(message(DOCUMENT["schema"]))
    assert isinstance(event, Bootstrap)
    return event.table_schema


def document_events() -> dict[str, Event]:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["schema"])))
    return {name: next(decoder.decode(message(wire))) for name, wire in DOCUMENT.items()}


def test_the_documents_messages_mean_what_it_says() -> None:
    events = document_events()

    user = user_schema()
    assert events["schema"] == Bootstrap(user)
    assert [(c.name, c.mysql_type, c.primary_key) for c in user.columns] == [
        ("id", "int(11)", True),
        ("name", "varchar(255)", False),
        ("age", "int(11)", False),
        ("score", "float", False),
    ]
    john: Row = {"id": 1, "name": "John Doe", "age": 25, "score": 90.5}
    assert events["insert"] == RowChange(user, 447984084414103554, after=john, table_id=148)
    assert events["update"] == RowChange(
        user, 447984099186180098, before=john, after={**john, "score": 95.0}, table_id=148
    )
    assert events["delete"] == RowChange(user, 447984114259722243, before={**john, "score": 95.0}, table_id=148)
    assert events["watermark"] == Watermark(447984124732375041)
    assert events["bootstrap"] == Bootstrap(replace(user, name=TableName("simple", "new_user")))
    alter = events["alter"]
    assert isinstance(alter, Ddl)
    assert (alter.table, alter.kind, alter.type, alter.commit_ts) == (
        TableName("simple", "user"),
        DdlKind.ALTER,
        None,
        447987408682614795,
    )
    assert alter.pre_table_schema == user
    assert alter.table_schema is not None
    assert alter.table_schema.column("createTime").mysql_type == "timestamp"


def test_the_documents_messages_come_out_as_they_went_in() -> None:
    for name, event in document_events().items():
        resources = Resources(clock=repeat(DOCUMENT[name]["buildTs"]).__next__)

        assert list(Encoder(JSON, resources).encode([event])) == [message(DOCUMENT[name])], name


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


def test_the_worked_avro_messages() -> None:
    for event, clock, expected in WORKED:
        (got,) = Encoder(AVRO, Resources(clock=repeat(clock).__next__)).encode([event])

        assert got.value == bytes.fromhex(expected), event


def test_the_wire_schema_reads_what_ticdcs_schema_reads() -> None:
    """TiCDC's schema cannot write all there is, so fastavro is given one with the same bytes."""
    schema = avro_wire.message_schema()
    parsed = fastavro.parse_schema(schema)
    assert [record["name"] for record in schema][5:] == [
        "Watermark", "Bootstrap", "DDL", "Timestamp", "UnsignedBigint", "DML", "Message",
    ]  # fmt: skip
    for file in files("simple-avro", "types.default.*"):
        for vector in vectors("simple-avro", file)[::5]:
            value = vector.message.value
            assert value is not None
            stream = io.BytesIO(value)
            found: Any = fastavro.schemaless_reader(
                stream, parsed, None, return_record_name=True, handle_unicode_errors="surrogateescape"
            )
            name, record = avro_wire.read(value, "value")
            assert (found[0], stream.read()) == (f"com.pingcap.simple.avro.{name}", b""), vector.id
            assert bare(record) == bare(found), vector.id


def bare(value: Any) -> Any:
    """A value without the names of branches, maps as such, and all bytes as text."""
    match value:
        case bytes():
            return value.decode("utf-8", "surrogateescape")
        case tuple():
            return bare(value[1])
        case {"value": inner} if len(value) == 1:
            return bare(inner)
        case dict():
            return {name: bare(item) for name, item in value.items()}
        case [{"name": _, "value": _}, *_]:
            return {bare(entry["name"]): bare(entry["value"]) for entry in value}
        case list():
            return [bare(item) for item in value]
    return value


OPTION_SETS: list[dict[str, Any]] = [
    {},
    {"integrity-check-level": "correctness", "corruption-handle-level": "error"},
    {"large-message-handle-compression": "lz4"},
    {"large-message-handle-compression": "snappy"},
    {"large-message-handle-option": "handle-key-only", "max-message-bytes": 1200},
    {"large-message-handle-option": "claim-check", "max-message-bytes": 1200},
    {"large-message-handle-option": "claim-check", "max-message-bytes": 1200, "claim-check-raw-value": True},
]


@pytest.mark.parametrize("encoding", ["json", "avro"])
@pytest.mark.parametrize("options", OPTION_SETS)
@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_what_goes_in_comes_out(encoding: str, options: dict[str, Any], data: st.DataObject) -> None:
    parsed = Options.parse(options | {"encoding-format": encoding})
    stream = data.draw(streams(st.one_of(WATERMARKS, BOOTSTRAPS)))
    schemas = {event.table: None for event in stream if isinstance(event, RowChange)}
    ahead = Options.parse({"encoding-format": encoding})
    resources = Resources(claim_check=MemoryStore())
    decoder = Decoder(parsed, resources)
    for announced in Encoder(ahead).encode(map(Bootstrap, schemas)):
        list(Decoder(ahead, schemas=decoder.schemas).decode(announced))
    try:
        messages = list(Encoder(parsed, resources).encode(stream))
    except MessageTooLarge:
        return
    got = [event for message in messages for event in decoder.decode(message)]

    for event, sent in zip(got, stream, strict=True):
        match event, sent:
            case RowChange(), RowChange():
                assert (event.table.name, event.commit_ts) == (sent.table.name, sent.commit_ts)
                assert event.table_id == (sent.table_id or sent.table.table_id)
                assert [(c.name, c.type, c.flags) for c in event.table.columns] == [
                    (c.name, c.type, c.flags) for c in sent.table.columns
                ]
                for ours, theirs in ((event.before, sent.before), (event.after, sent.after)):
                    if event.handle_key_only and ours is not None and theirs is not None:
                        assert ours == {name: theirs[name] for name in sent.table.handle_key}
                    else:
                        assert ours == theirs
            case Bootstrap(schema), Bootstrap(sent_schema):
                assert (schema.name, schema.indexes, schema.version, schema.table_id) == (
                    sent_schema.name,
                    sent_schema.indexes,
                    sent_schema.version,
                    sent_schema.table_id,
                )
            case _:
                assert event == sent


def sample(name: str) -> list[Vector]:
    """A few lines of every file."""
    return [vector for file in files(name) for vector in vectors(name, file)[:: max(1, len(vectors(name, file)) // 5)]]


def refused(vector: Vector, value: bytes, schemas: SchemaCache | None = None) -> bool:
    """Is it refused? Anything but events or a ``DecodeError`` fails the test."""
    try:
        list(Decoder(vector.options, Resources(claim_check=vector.claim_checks), schemas).decode(Message(None, value)))
    except DecodeError:
        return True
    return False


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_truncation_is_refused(name: str) -> None:
    for server in ("ticdc", "tiflow"):
        schemas = known_schemas(name, server)
        for vector in sample(name):
            value = vector.message.value
            assert value is not None
            if server in vector.id:
                for cut in range(0, len(value), 1 if len(value) < 400 else 11):
                    assert refused(vector, value[:cut], schemas), (vector.id, cut)


@pytest.mark.parametrize("name", ENCODINGS)
def test_bytes_after_the_end_are_refused(name: str) -> None:
    schemas = known_schemas(name, "ticdc")
    for vector in vectors(name, "types.default.ticdc")[::40]:
        assert refused(vector, (vector.message.value or b"") + b"\0", schemas), vector.id


@pytest.mark.parametrize("name", ENCODINGS)
def test_corruption_is_refused_or_decodes(name: str) -> None:
    chance = random.Random(20261116)
    found, schemas = sample(name), known_schemas(name, "ticdc")
    for _ in range(1500):
        vector = chance.choice(found)
        value = bytearray(vector.message.value or b"")
        for _ in range(chance.randint(1, 4)):
            value[chance.randrange(len(value))] = chance.randrange(256)
        refused(vector, bytes(value), schemas)


@settings(max_examples=300, deadline=None)
@given(value=st.binary(max_size=120))
def test_any_bytes_decode_or_are_refused(value: bytes) -> None:
    for options in (JSON, AVRO):
        for data in (value, b"\x16" + value, b"\x16\x04\x04\x02" + value, b"\x16\x06\x06\x02" + value):
            try:
                list(Decoder(options).decode(Message(None, data)))
            except DecodeError as error:
                assert str(error).startswith("simple: ")


def avro(value: str) -> Message:
    return Message(None, bytes.fromhex(value))


TOO_LITTLE = "not Avro: more was expected than is left"
NOT_THERE = "not Avro: a branch or a word that the schema does not have"
LIES = [
    ("16 00 00 02 84 80 80 cb a9 bb ba b1 0c 9e af e0 bc bc 63 00", "1 bytes after the end of the message"),
    ("18", f"{NOT_THERE}, or an integer cut short in value at byte 1"),
    ("19", NOT_THERE),
    ("16 08", f"{NOT_THERE}, or an integer cut short in value at byte 2"),
    ("16 80", "or an integer cut short in value at byte 2"),
    ("0a 02 02 02", "a bare Watermark"),
    ("16 02 00 02 00 00", "a message of type BOOTSTRAP with a payload of Watermark"),
    ("16 04 04 02 0e ff ff ff ff ff ff ff ff ff 01", f"{TOO_LITTLE} in value at byte 15"),
    ("16 04 04 02 0e 01 61 61", TOO_LITTLE),
    ("16 04 04 02 0e fe ff ff ff ff ff ff ff ff 01", TOO_LITTLE),
    ("16 02 02 02 00 00 00 00 00 fe ff ff ff ff ff ff ff ff 01", TOO_LITTLE),
    ("16 02 02 02 00 00 00 00 00 ff ff ff ff ff ff ff ff ff 01", TOO_LITTLE),
    ("16 02 02 02 00 00 00 00 00 01 fe ff 03", TOO_LITTLE),
    ("16 00 00 80 80 80 80 10 00 00", "an unsigned 31-bit integer was expected in value at $.version"),
    (
        "16 06 06 02 00 00 00 00 00 00 00 00 00 00 02 04 02 61 00 02 61 00 00 00",
        "'a' is there twice in value at $.data",
    ),
    ("16 00 00 04 00 00", "protocol version 2"),
]


@pytest.mark.parametrize(("value", "reason"), LIES)
def test_avro_that_lies_is_refused_with_the_place(value: str, reason: str) -> None:
    with pytest.raises(DecodeError) as refusal:
        list(Decoder(AVRO).decode(avro(value)))

    assert reason in str(refusal.value)
    assert " in value at " in str(refusal.value)


def test_a_count_or_length_that_lies_takes_neither_time_nor_memory() -> None:
    """Of a count nothing is believed: items are read while there are bytes."""
    row, schema, sql = (
        bytes.fromhex(head)
        for head in (
            "16 06 06 02 00 00 00 00 00 00 00 00 00 00 02",
            "16 02 02 02 00 00 00 00 00",
            "16 04 04 02 0e",
        )
    )
    for number in (2**31, 2**40, 2**63 - 1, -(2**31), -(2**40), 1 - 2**63):
        count = io.BytesIO()
        fastavro.schemaless_writer(count, "long", number)
        for data in (head + count.getvalue() + b"\0" * 200 for head in (row, schema, sql)):
            tracemalloc.start()
            try:
                with pytest.raises(DecodeError):
                    list(Decoder(AVRO).decode(Message(None, data)))
                assert tracemalloc.get_traced_memory()[1] < 200_000, data[:20]
            finally:
                tracemalloc.stop()


def test_without_fastavro_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    for missing in (
        lambda: list(encode([Watermark(5)], encoding_format=EncodingFormat.AVRO)),
        lambda: list(Decoder(AVRO).decode(avro(WORKED[0][2]))),
    ):
        with pytest.raises(MissingExtra) as refused:
            missing()
        assert refused.value.args == ("fastavro", "avro")

    assert list(inspect(avro(WORKED[0][2]), AVRO))
    assert list(encode([Watermark(5)]))


def test_avro_blocks_with_a_byte_size_are_read() -> None:
    decoder = Decoder(AVRO)
    decoder.schemas.add(CREATED.table_schema)
    plain = bytes.fromhex(WORKED[1][2])
    sized = plain.replace(
        bytes.fromhex("02 04 02 61 02 02 02 62 00 00"), bytes.fromhex("02 03 0e 02 61 02 02 02 62 00 00")
    )

    assert sized != plain
    assert list(decoder.decode(Message(None, sized))) == [INSERTED]


def wire(**changes: Any) -> Message:
    return message({name: value for name, value in (DOCUMENT["insert"] | changes).items() if value is not ...})


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 2}, "protocol version 2, known is 1 in value at $.version"),
        ({"version": ...}, "integer was expected"),
        ({"type": "UPSERT"}, "'UPSERT' is no event type"),
        ({"type": "DELETE"}, "DELETE has no such image in value at $.data"),
        ({"old": {}}, "INSERT has no such image in value at $.old"),
        ({"commitTs": "1"}, "at $.commitTs"),
        ({"commitTs": 2**64}, "at $.commitTs"),
        ({"schemaVersion": -1}, "at $.schemaVersion"),
        ({"tableID": 2**63}, "at $.tableID"),
        ({"database": 5}, "text was expected in value at $.database"),
        ({"data": []}, "an object was expected"),
        ({"data": {"id": 1}}, "column id (int(11)): 1 is not text in value at $.data.id"),
        ({"data": {"id": "1.5"}}, "'1.5' is not an integer"),
        ({"data": {"id": "9223372036854775808"}}, "is not a signed 64-bit integer"),
        ({"data": {"score": "nan"}}, "'nan' is not a number"),
        ({"data": {"score": "1e39"}}, "column score (float)"),
        ({"data": {"score": {"location": "UTC", "value": "1"}}}, "is not text"),
        ({"data": {"ID": "1"}}, "simple.user has no such column at version 447984074911121426 in value at $.data.ID"),
        ({"handleKeyOnly": 1}, "true or false was expected"),
        ({"checksum": {"version": 0, "corrupted": False, "current": 2**32, "previous": 0}}, "$.checksum.current"),
        ({"claimCheckLocation": "s3://b/../x"}, "no store was given"),
    ],
)
def test_a_row_that_breaks_the_rules_is_refused_with_the_place(changes: dict[str, Any], reason: str) -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["schema"])))

    with pytest.raises(DecodeError) as refusal:
        list(decoder.decode(wire(**changes)))

    assert reason in str(refusal.value)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"columns": 1}, "a list of at most 4096"),
        ({"columns": [column("id", "int", 11)] * 2}, "a column is there twice"),
        ({"columns": [column("id", "integral", 11)]}, "not a MySQL type: 'integral'"),
        ({"columns": [column("id", "int", 11) | {"default": 5}]}, "5 is no default of a int column"),
        ({"columns": [column("id", "bit", 2**40) | {"default": 5}]}, "5 does not fit bit(1099511627776)"),
        ({"columns": [column("id", "int", 11)] * 5000}, "a list of at most 4096"),
        ({"indexes": [{"name": "k", "columns": ["nobody"]}]}, "column nobody is not in the table"),
        ({"indexes": [{"name": "k", "columns": ["id"] * 17}]}, "a list of at most 16"),
        ({"version": None}, "at $.tableSchema.version"),
        ({"table": None}, "at $.tableSchema.table"),
    ],
)
def test_a_schema_that_breaks_the_rules_is_refused_with_the_place(changes: dict[str, Any], reason: str) -> None:
    decoder = Decoder()
    with pytest.raises(DecodeError) as refusal:
        list(decoder.decode(message(DOCUMENT["schema"] | {"tableSchema": USER | changes})))

    assert reason in str(refusal.value)
    assert len(decoder.schemas) == 0


def test_an_empty_message_is_refused() -> None:
    for value in (None, b""):
        with pytest.raises(DecodeError, match="an empty message"):
            list(decode(Message(None, value)))


def test_rows_wait_until_the_schema_of_their_own_table_comes() -> None:
    """The classic reference decoder loops without end here: two tables wait, one schema arrives."""
    parking: Parking[int] = Parking(Decoder())
    rows = [wire(), wire(table="other"), wire(data=ROW | {"id": "2"}), wire(table="other", data=ROW | {"id": "3"})]
    for number, row in enumerate(rows):
        assert list(parking.decode(row, number)) == []

    released = list(parking.decode(message(DOCUMENT["schema"]), 4))
    assert [origin for origin, _ in released] == [4, 0, 2]
    assert len(parking.parked) == 2
    assert {missing.table for _, _, missing in parking.parked} == {"simple.other"}

    released = list(parking.decode(message(DOCUMENT["schema"] | {"tableSchema": USER | {"table": "other"}}), 5))
    assert [(origin, event.after["id"]) for origin, event in released[1:]] == [(1, 1), (3, 3)]  # type: ignore[union-attr,index]
    assert parking.parked == []


def test_a_row_of_another_version_waits_too() -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["schema"])))

    with pytest.raises(SchemaUnknown) as missing:
        list(decoder.decode(wire(schemaVersion=7)))

    assert (missing.value.table, missing.value.version) == ("simple.user", 7)


def test_the_schema_before_a_ddl_is_remembered_as_well() -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["alter"])))

    (event,) = decoder.decode(wire())
    assert isinstance(event, RowChange)
    assert len(event.table.columns) == 4


def test_the_first_schema_of_a_version_wins() -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["schema"])))
    changed = USER | {"columns": [column("id", "bigint", 20)]}
    list(decoder.decode(message(DOCUMENT["schema"] | {"tableSchema": changed})))

    (event,) = decoder.decode(wire())
    assert isinstance(event, RowChange)
    assert event.table.column("id").base_type == "int"


def test_after_truncate_the_rows_have_the_new_id_and_no_partition() -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["schema"])))
    truncate = DOCUMENT["alter"] | {"type": "TRUNCATE", "tableSchema": USER | {"tableID": 150}}
    (ddl,) = decoder.decode(message(truncate))
    assert isinstance(ddl, Ddl)
    assert ddl.type == DdlType.TRUNCATE_TABLE

    events = [next(decoder.decode(wire(tableID=number))) for number in (148, 150, 151, ...)]
    assert [event.partitioned for event in events] == [False, False, True, False]  # type: ignore[union-attr]
    assert events[1].table.table_id == 150  # type: ignore[union-attr]


def test_the_memory_of_schemas_is_bounded() -> None:
    schemas = SchemaCache(size=4)
    for number in range(10):
        schemas.add(replace(CREATED.table_schema, version=number))

    name = CREATED.table_schema.name
    assert len(schemas) == 4
    assert schemas.find(name, 0, 110) is None
    assert schemas.find(name, 9, 110) is not None


def test_decoders_can_share_their_memory() -> None:
    first = Decoder()
    list(first.decode(message(DOCUMENT["schema"])))

    assert list(Decoder(schemas=first.schemas).decode(wire()))


@pytest.mark.parametrize("encoding", ["json", "avro"])
def test_a_large_row_without_a_handle_key_is_not_sent_as_nothing(encoding: str) -> None:
    table = TableSchema(TableName("test", "t"), (Column.of("a", "text"),), version=1)
    event = RowChange(table, 5, after={"a": "x" * 500})
    options = {"max-message-bytes": 300, "encoding-format": encoding}

    with pytest.raises(EncodeError, match="no handle key"):
        list(Encoder(Options.parse(options | {"large-message-handle-option": "handle-key-only"})).encode([event]))

    checked = Options.parse(options | {"large-message-handle-option": "claim-check"})
    resources = Resources(claim_check=MemoryStore())
    (sent,) = Encoder(checked, resources).encode([event])
    decoder = Decoder(checked, resources)
    decoder.schemas.add(table)
    (got,) = decoder.decode(sent)
    assert isinstance(got, RowChange)
    assert (got.after, got.handle_key_only) == (event.after, False)


def test_a_claim_check_leads_to_the_change_it_was_made_for() -> None:
    options = Options.parse({"large-message-handle-option": "claim-check", "max-message-bytes": 400})
    store = MemoryStore()
    decoder = Decoder(options, Resources(claim_check=store))
    decoder.schemas.add(user_schema())
    for wrong in (wire(commitTs=6), message(DOCUMENT["watermark"]), wire(claimCheckLocation="a.json")):
        store.put("a.json", json.dumps({"key": None, "value": base64.b64encode(wrong.value or b"").decode()}).encode())
        with pytest.raises(DecodeError, match="claim check"):
            list(decoder.decode(wire(claimCheckLocation="s3://bucket/a.json", handleKeyOnly=True)))
    with pytest.raises(DecodeError, match="not in the store"):
        list(decoder.decode(wire(claimCheckLocation="s3://bucket/b.json", handleKeyOnly=True)))


def test_a_watermark_has_no_size_limit() -> None:
    tiny = Options(max_message_bytes=1)
    assert list(Encoder(tiny).encode([Watermark(1)]))
    for event in (CREATED, Ddl(TableName("", ""), 1, "CREATE DATABASE x")):
        with pytest.raises(MessageTooLarge):
            list(Encoder(tiny).encode([event]))


def verifying(level: str, name: str = "simple-json") -> Options:
    encoding = name.removeprefix("simple-")
    return Options.parse(
        {
            "encoding-format": encoding,
            "integrity-check-level": "correctness",
            "corruption-handle-level": level,
            "time-zone": "Asia/Shanghai",
        }
    )


def damaged(vector: Vector, seen: dict[tuple[str, str], Any]) -> Iterator[tuple[str, Message]]:
    """The message with one column's value replaced by that of another row, for every column that has another."""
    loaded = unpacked(vector, vector.message.value)
    for image, checksum in (("data", "current"), ("old", "previous")):
        if not loaded.get("checksum", {}).get(checksum):
            continue
        for name, value in loaded[image].items():
            other = seen.get((loaded["table"], name))
            if other is not None and other != value:
                changed = loaded | {image: loaded[image] | {name: other}}
                yield name, Message(None, format_of(vector.options).dump(changed))
    for name, value in (loaded.get("data") or {}).items():
        if value is not None:
            seen[loaded["table"], name] = value


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_value_changed_on_the_way_is_reported_whatever_its_column(name: str) -> None:
    columns = 0
    for file in files(name, "checksum.*"):
        schemas = SchemaCache()
        strict, lenient = (Decoder(verifying(level, name), schemas=schemas) for level in ("error", "warn"))
        seen: dict[tuple[str, str], Any] = {}
        for vector in vectors(name, file):
            (event,) = strict.decode(vector.message)
            assert not isinstance(event, RowChange) or event.checksum == vector.events[0].checksum, vector.id  # type: ignore[union-attr]
            for column_name, changed in damaged(vector, seen):
                columns += 1
                with pytest.raises(
                    DecodeError, match=r"a change of .*: the checksum of .* is \d+, the sender's is \d+"
                ):
                    list(strict.decode(changed))
                (marked,) = lenient.decode(changed)
                assert isinstance(marked, RowChange)
                assert marked.checksum is not None
                assert marked.checksum.corrupted, (vector.id, column_name)

    assert columns > 800


def test_a_row_the_sender_found_corrupted_is_refused_or_passes_marked() -> None:
    row = wire(checksum={"version": 1, "corrupted": True, "current": 0, "previous": 0})
    schemas = Decoder(JSON)
    list(schemas.decode(message(DOCUMENT["schema"])))

    with pytest.raises(DecodeError, match=r"simple\.user: the sender found it corrupted"):
        list(Decoder(verifying("error"), schemas=schemas.schemas).decode(row))
    for options in (verifying("warn"), JSON):
        (event,) = Decoder(options, schemas=schemas.schemas).decode(row)
        assert isinstance(event, RowChange)
        assert event.checksum == Checksum(1, corrupted=True)


def test_a_wrong_checksum_is_not_looked_at_unless_asked_for_nor_where_columns_are_missing() -> None:
    wrong = {"version": 0, "corrupted": False, "current": 1, "previous": 2}
    decoder = Decoder(verifying("error"))
    list(decoder.decode(message(DOCUMENT["schema"])))

    assert list(Decoder(JSON, schemas=decoder.schemas).decode(wire(checksum=wrong)))
    assert list(decoder.decode(wire(checksum=wrong, handleKeyOnly=True, data={"id": "1"})))
    with pytest.raises(DecodeError, match=r"the sender's is 1 in value at \$.checksum"):
        list(decoder.decode(wire(checksum=wrong)))


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_checksum_the_source_does_not_know_is_computed(name: str) -> None:
    computed = 0
    for vector in vectors(name, "checksum.checksum.ticdc"):
        (event,) = vector.events
        if isinstance(event, RowChange) and event.checksum is not None:
            (sent,) = Encoder(vector.options).encode([replace(event, checksum=None)])
            want = {"current": event.checksum.current, "previous": event.checksum.previous}
            assert unpacked(vector, sent.value)["checksum"] == {"version": 0, "corrupted": False, **want}, vector.id
            computed += 1
    assert computed > 100


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
ODD_ROW = RowChange(
    ODD,
    2**64 - 2,
    after={
        "id": 2**64 - 1,
        "bits": 682,
        "e": EnumValue(0, ""),
        "s": SetValue(5, "a,c"),
        "ts": Timestamp("2024-01-01 00:00:00.120", zone="Europe/Berlin"),
        "v": "[1,2.5]",
        "t": "<&>\u2028\x08é",
        "blob": b"\xff\x00",
    },
    table_id=7,
)


@pytest.mark.parametrize("options", [JSON, AVRO])
def test_odd_values_come_through(options: Options) -> None:
    decoder = Decoder(options)
    schema, row = (next(decoder.decode(sent)) for sent in Encoder(options).encode([Bootstrap(ODD), ODD_ROW]))

    assert isinstance(schema, Bootstrap)
    assert [(c.mysql_type, c.default, c.flags) for c in schema.table_schema.columns] == [
        (c.mysql_type, c.default, c.flags)
        for c in (replace(c, length=1) if c.type is MySQLType.BIT and c.length is None else c for c in ODD.columns)
    ]
    assert isinstance(row, RowChange)
    assert (row.after, row.commit_ts, row.table.version) == (ODD_ROW.after, 2**64 - 2, 2**64 - 1)
    assert row.after is not None
    enum, set_, moment = row.after["e"], row.after["s"], row.after["ts"]
    assert isinstance(enum, EnumValue)
    assert isinstance(set_, SetValue)
    assert isinstance(moment, Timestamp)
    assert (enum.text, set_.text, moment.zone) == ("", "a,c", "Europe/Berlin")


def test_text_that_is_not_utf8_survives_avro_and_is_replaced_in_json() -> None:
    table = TableSchema(TableName("test", "t"), (Column.of("a", "varchar(9)"),), version=1)
    event = RowChange(table, 5, after={"a": b"x\xff"})
    for options, want in ((AVRO, b"x\xff"), (JSON, "x\ufffd")):
        decoder = Decoder(options)
        decoder.schemas.add(table)
        (sent,) = Encoder(options).encode([event])
        (got,) = decoder.decode(sent)
        assert isinstance(got, RowChange)
        assert got.after == {"a": want}


def test_avro_integers_are_read_in_every_form_that_was_ever_documented() -> None:
    """A long, a record of its own (both servers), text (the document); BIT as a number from the classic server."""
    decoder = Decoder(AVRO)
    decoder.schemas.add(ODD)
    head = {"version": 1, "type": "INSERT", "database": "test", "table": "odd", "tableID": 7}
    head |= {"commitTs": 1, "buildTs": 1, "schemaVersion": ODD.version}
    for raw, want in (
        ({"id": ("Long", {"value": 5})}, 5),
        ({"id": ("UnsignedBigint", {"value": -1})}, 2**64 - 1),
        ({"id": ("String", {"value": "18446744073709551615"})}, 2**64 - 1),
        ({"bits": ("Long", {"value": 65})}, 65),
        ({"bits": ("Long", {"value": -1})}, 2**64 - 1),
        ({"bits": ("String", {"value": "65"})}, 65),
    ):
        (got,) = decoder.decode(Message(None, avro_format.dump(head | {"data": raw})))
        assert isinstance(got, RowChange)
        assert got.after == dict.fromkeys(raw, want)
    for wrong in (
        {"id": ("Long", {"value": -1})},
        {"id": ("Double", {"value": 1.0})},
        {"t": ("Bytes", {"value": b"x"})},
        {"blob": ("String", {"value": "x"})},
        {"e": ("String", {"value": "a"})},
        {"ts": ("Timestamp", {"location": b"\xff", "value": ""})},
    ):
        with pytest.raises(DecodeError, match=r"column \w+ \("):
            list(decoder.decode(Message(None, avro_format.dump(head | {"data": wrong}))))


def test_a_timestamp_as_bare_text_is_read_as_the_document_has_it() -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["alter"])))
    version = DOCUMENT["alter"]["tableSchema"]["version"]
    for raw, zone in (
        ("2024-01-01 00:00:00", None),
        ({"location": "UTC", "value": "2024-01-01 00:00:00"}, "UTC"),
        ({"value": "2024-01-01 00:00:00"}, None),
    ):
        (got,) = decoder.decode(wire(schemaVersion=version, data={"createTime": raw}))
        assert isinstance(got, RowChange)
        assert got.after is not None
        value = got.after["createTime"]
        assert isinstance(value, Timestamp)
        assert (value.text, value.zone) == ("2024-01-01 00:00:00", zone)


@pytest.mark.parametrize("options", [JSON, AVRO])
def test_a_ddl_says_its_kind_and_keeps_its_table(options: Options) -> None:
    kinds = {
        DdlType.CREATE_TABLE: DdlKind.CREATE,
        DdlType.CREATE_TABLES: DdlKind.CREATE,
        DdlType.EXCHANGE_TABLE_PARTITION: DdlKind.ALTER,
        DdlType.ADD_COLUMNS: DdlKind.QUERY,
        DdlType.ADD_PRIMARY_KEY: DdlKind.CINDEX,
        DdlType.DROP_FOREIGN_KEY: DdlKind.DINDEX,
        DdlType.RENAME_TABLES: DdlKind.RENAME,
        DdlType.CREATE_VIEW: DdlKind.QUERY,
        999: DdlKind.QUERY,
        None: DdlKind.QUERY,
    }
    for type_, kind in kinds.items():
        event = Ddl(ODD.name, 5, "ALTER TABLE odd …", type=type_, table_schema=ODD, pre_table_schema=ODD)
        (sent,) = Encoder(options).encode([event])
        (got,) = Decoder(options).decode(sent)
        assert isinstance(got, Ddl)
        assert (got.kind, got.table, got.query) == (kind, ODD.name, event.query)
        assert (got.pre_table_schema is not None) == (type_ in (None, DdlType.EXCHANGE_TABLE_PARTITION)), type_


@pytest.mark.parametrize("options", [JSON, AVRO])
def test_a_ddl_of_a_source_without_schemas_still_says_whose_it_is(options: Options) -> None:
    for name, want in ((TableName("a", "b"), TableName("a", "b")), (TableName("a", ""), TableName("", ""))):
        decoder = Decoder(options)
        (sent,) = Encoder(options).encode([Ddl(name, 5, "…", kind=DdlKind.ALTER)])
        (got,) = decoder.decode(sent)
        assert isinstance(got, Ddl)
        assert (got.table, got.table_schema, got.kind) == (want, None, DdlKind.ALTER)
        assert len(decoder.schemas) == 0


def test_a_table_that_other_protocols_tell_little_of_can_be_announced() -> None:
    """No lengths, no charsets, no indexes: TiDB's defaults stand in, and the key is kept."""
    columns = tuple(
        replace(Column.of(name, sql_type), handle_key=name == "id", length=None, nullable=None, charset=None)
        for name, sql_type in (("id", "int"), ("u", "int unsigned"), ("d", "datetime(3)"), ("t", "varchar(9)"))
    )
    for options in (JSON, AVRO):
        (sent,) = Encoder(options).encode([Bootstrap(TableSchema(TableName("a", "b"), columns, version=1))])
        (got,) = Decoder(options).decode(sent)
        assert isinstance(got, Bootstrap)
        told_of = got.table_schema
        assert told_of.handle_key == ("id",)
        assert [(c.base_type, c.length, c.decimal, c.charset) for c in told_of.columns] == [
            ("int", 11, 0, "binary"),
            ("int", 10, 0, "binary"),
            ("datetime", 23, 3, "binary"),
            ("varchar", None, 0, "utf8mb4"),
        ]


def test_a_column_name_that_is_not_utf8_is_refused() -> None:
    decoder = Decoder(AVRO)
    decoder.schemas.add(CREATED.table_schema)
    odd = bytes.fromhex(WORKED[1][2]).replace(b"\x02a\x02", b"\x02\xff\x02")

    with pytest.raises(DecodeError, match=r"test\.t has no such column"):
        list(decoder.decode(Message(None, odd)))


def test_numbers_avro_has_no_room_for_are_refused_by_name() -> None:
    table = TableSchema(
        TableName("a", "b"), (Column.of("i", "int"), Column.of("f", "float"), Column.of("d", "double")), version=1
    )
    for row in (
        {"i": 2**63},
        {"i": -(2**63) - 1},
        {"i": 1.5},
        {"i": "1"},
        {"f": 1e39},
        {"f": "1"},
        {"d": float("inf")},
    ):
        with pytest.raises(EncodeError, match=r"column \w \(\w+\) cannot hold"):
            list(Encoder(AVRO).encode([RowChange(table, 5, after=row)]))


@pytest.mark.parametrize("options", [JSON, AVRO])
def test_what_cannot_be_written_is_refused_by_name(options: Options) -> None:
    table = replace(ODD, version=None)
    for event, reason in (
        (replace(ODD_ROW, table=table), "without a schema version"),
        (replace(ODD_ROW, commit_ts=None), "without a commit ts"),
        (Ddl(ODD.name, None, "…"), "without a commit ts"),
        (Bootstrap(table), "has no version"),
        (replace(ODD_ROW, after={"id": "x"}), "column id (bigint(20) unsigned) cannot hold 'x'"),
        (replace(ODD_ROW, after={"t": 5}), "column t (text) cannot hold 5"),
        (replace(ODD_ROW, after={"ts": "now"}), "column ts (timestamp(3)) cannot hold 'now'"),
    ):
        with pytest.raises(EncodeError) as refusal:
            list(Encoder(options).encode([event]))
        assert reason in str(refusal.value)


def test_a_row_of_the_handle_key_only_says_so_again() -> None:
    decoder = Decoder()
    list(decoder.decode(message(DOCUMENT["schema"])))
    row = wire(handleKeyOnly=True, data={"id": "1"})
    (event,) = decoder.decode(row)

    resources = Resources(clock=lambda: DOCUMENT["insert"]["buildTs"])
    (again,) = Encoder(Options.parse({"integrity-check-level": "correctness"}), resources).encode([event])
    assert json.loads(again.value or b"") == json.loads(row.value or b"")


@pytest.mark.parametrize("name", ENCODINGS)
def test_inspection_covers_every_byte(name: str) -> None:
    for vector in sample(name):
        value = vector.message.value
        assert value is not None
        for data in (value, value[:-3], b""):
            fields = [field for field in inspect(Message(None, data), vector.options) if field.part == "value"]
            assert b"".join(field.data for field in fields) == data, vector.id
            ends = [field.offset + len(field.data) for field in fields]
            assert [field.offset for field in fields] == [0, *ends][: len(fields)], vector.id


def test_inspection_goes_as_far_as_a_lie() -> None:
    for value, reason in (
        ("18", "12 is none of 12 choices"),
        ("15", "-11 is none of 12 choices"),
        ("16 80", "1 bytes were expected, 0 are left"),
        ("16 04 04 02 0e 01 61 61", "-1 bytes were expected, 2 are left"),
        ("16 02 02 02 00 00 00 00 00 fe ff ff ff ff ff ff ff ff 01", "1 bytes were expected, 0 are left"),
        ("16 00 00 ff ff ff ff ff ff ff ff ff ff 01", "an integer of more than 64 bits"),
        ("16 00 00 02 00 00 00", "1 bytes after the end of the message"),
    ):
        fields = list(inspect(avro(value), AVRO))
        assert b"".join(field.data for field in fields) == bytes.fromhex(value)
        assert (fields[-1].name, fields[-1].meaning) == ("?", f"not Avro: {reason}")


def test_inspection_explains() -> None:
    fields = {field.name: field.meaning for field in inspect(avro(WORKED[1][2]), AVRO)}
    assert fields["payload.commitTs"] == "commit ts, 2024-12-09 08:17:39.773000 UTC"
    assert fields["payload.database"] == "schema: 'test'"
    assert fields["payload.data.a"] == "a: 1"
    assert fields["payload.data.b"] == "branch null"

    fields = {field.name: field.meaning for field in inspect(message(DOCUMENT["insert"]))}
    assert fields["$.commitTs"] == "commit ts, 2024-02-26 05:01:01.858000 UTC"
    assert fields["$.data.name"] == "name: 'John Doe'"


def test_the_functions_do_what_the_classes_do() -> None:
    assert [next(decode(sent)) for sent in encode([Watermark(5)])] == [Watermark(5)]
    assert carries(verifying("warn")).row - carries().row == {"checksum"}
