"""Our Avro messages against a real registry and the client most consumers use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from integration.servers import schema_registry
from tidewire.codec import Options, Resources, avro
from tidewire.codec.avro.names import sanitized
from tidewire.codec.avro.schema import value_schema
from tidewire.errors import DecodeError, RegistryError
from tidewire.model import (
    Column,
    Date,
    DateTime,
    EnumValue,
    Message,
    MySQLType,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Temporal,
    Time,
    Timestamp,
    Value,
)
from tidewire.registry import ConfluentRegistry
from vector_files import vectors

pytestmark = pytest.mark.integration

EXTENSION = Options(enable_tidb_extension=True)
TABLE = TableSchema(
    TableName("test", "all_types"),
    (
        Column.of("id", "bigint", primary_key=True),
        Column.of("u", "bigint unsigned"),
        Column.of("d", "decimal(30,10)"),
        Column.of("f", "float"),
        Column.of("t", "text"),
        replace(Column.of("b", "varbinary(20)"), default="null"),
        Column.of("bits", "bit(10)"),
        replace(Column.of("e", "enum('a','b,c')"), default="a"),
        Column.of("s", "set('x','y')"),
        Column.of("ts", "timestamp(3)"),
        Column.of("dt", "datetime"),
        Column.of("day", "date"),
        Column.of("span", "time"),
        Column.of("j", "json"),
        Column.of("n", "int", nullable=True),
    ),
    version=1,
)
ROW: dict[str, Value] = {
    "id": -7,
    "u": 12,
    "d": Decimal("-12345678901234567890.0123456789"),
    "f": 0.5,
    "t": "测试",
    "b": b"\0\xff",
    "bits": 683,
    "e": EnumValue(2, "b,c"),
    "s": SetValue(3, "x,y"),
    "ts": Timestamp("2024-02-29 12:00:00.500"),
    "dt": DateTime("0000-00-00 00:00:00"),
    "day": Date("2024-02-29"),
    "span": Time("-838:59:59"),
    "j": '{"a": 1}',
    "n": None,
}


@pytest.fixture(scope="module")
def uri() -> Iterator[str]:
    with schema_registry() as found:
        yield found


@pytest.fixture
def registry(uri: str) -> Iterator[ConfluentRegistry]:
    with ConfluentRegistry(uri) as found:
        yield found


@pytest.fixture
def client(uri: str) -> Iterator[SchemaRegistryClient]:
    with SchemaRegistryClient({"url": uri}) as found:
        yield found


def deserialized(client: SchemaRegistryClient, topic: str, part: str, data: bytes | None) -> Any:
    return AvroDeserializer(client)(data, SerializationContext(topic, MessageField(part)))


def native(column: Column, value: Value) -> Any:
    """A value as a general Avro reader shows it."""
    match value:
        case None:
            return None
        case Temporal(text):
            return text
        case EnumValue(_, text) | SetValue(_, text):
            return text
        case int() if column.type is MySQLType.BIT:
            return value.to_bytes(((column.length or 1) + 7) // 8, "big")
        case int() if column.type is MySQLType.BIGINT and value >> 63 == 1:
            return value - (1 << 64)
    return value


def test_the_registry_is_found_by_a_probe(registry: ConfluentRegistry) -> None:
    registry.probe()


def test_what_we_write_the_confluent_client_reads(registry: ConfluentRegistry, client: SchemaRegistryClient) -> None:
    encoder = avro.Encoder(replace(EXTENSION, topic="ours"), Resources(registry=registry))

    insert, delete = encoder.encode([RowChange(TABLE, 1 << 20, after=ROW), RowChange(TABLE, 2, before=ROW)])

    assert deserialized(client, "ours", "key", insert.key) == {"id": -7}
    assert deserialized(client, "ours", "value", insert.value) == {
        **{column.name: native(column, ROW[column.name]) for column in TABLE.columns},
        "_tidb_op": "c",
        "_tidb_commit_ts": 1 << 20,
        "_tidb_commit_physical_time": 4,
    }
    assert delete == Message(insert.key, None)
    assert set(client.get_subjects()) >= {"ours-key", "ours-value"}


def test_the_confluent_client_reads_every_recorded_row(
    registry: ConfluentRegistry, client: SchemaRegistryClient
) -> None:
    encoders: dict[TableName, avro.Encoder] = {}
    read = 0
    for vector in vectors("avro", "types.extension.ticdc"):
        (event,) = vector.events
        assert isinstance(event, RowChange)
        topic = f"recorded_{len(encoders)}"
        options = replace(vector.options, topic=topic)
        encoder = encoders.setdefault(event.table.name, avro.Encoder(options, Resources(registry=registry)))
        (message,) = encoder.encode([event])

        key, value = (
            deserialized(client, encoder.options.topic, part, data)
            for part, data in (("key", message.key), ("value", message.value))
        )

        row = event.after or event.before or {}
        expected = {sanitized(column.name): native(column, row.get(column.name)) for column in event.table.columns}
        if key is not None:
            assert key.items() <= expected.items(), vector.id
        if value is not None:
            read += 1
            assert {name: value[name] for name in expected} == expected, vector.id

    assert read > 400


def test_what_the_confluent_client_writes_we_read(registry: ConfluentRegistry, client: SchemaRegistryClient) -> None:
    schema = value_schema(TABLE, EXTENSION).text
    record = {column.name: native(column, ROW[column.name]) for column in TABLE.columns}
    extension = {"_tidb_op": "u", "_tidb_commit_ts": 5, "_tidb_commit_physical_time": 0}

    value = AvroSerializer(client, schema)(record | extension, SerializationContext("theirs", MessageField.VALUE))
    (event,) = avro.Decoder(EXTENSION, Resources(registry=registry)).decode(Message(None, value))

    assert isinstance(event, RowChange)
    assert (event.table.name, event.commit_ts, event.before) == (TABLE.name, 5, {})
    assert event.after == ROW


def test_an_incompatible_change_is_refused_with_the_registrys_reason(uri: str, registry: ConfluentRegistry) -> None:
    encoder = avro.Encoder(Options(topic="strict"), Resources(registry=registry))
    first = TableSchema(TableName("test", "t"), (Column.of("id", "int", primary_key=True),), version=1)
    list(encoder.encode([RowChange(first, 1, after={"id": 1})]))
    httpx.put(f"{uri}/config/strict-value", json={"compatibility": "BACKWARD"}).raise_for_status()
    compatible = replace(first, columns=(*first.columns, Column.of("a", "int")), version=2)
    incompatible = replace(first, columns=(*compatible.columns, Column.of("b", "int", nullable=False)), version=3)

    list(encoder.encode([RowChange(compatible, 2, after={"id": 1, "a": None})]))
    with pytest.raises(RegistryError) as refusal:
        list(encoder.encode([RowChange(incompatible, 3, after={"id": 1, "a": None, "b": 2})]))

    assert refusal.value.status == 409
    assert refusal.value.code == "CDC:ErrAvroSchemaAPIError"
    assert "ncompatible" in refusal.value.reason
    assert "strict-value" in refusal.value.reason


def test_many_schemas_in_one_topic_are_told_apart_by_their_ids(registry: ConfluentRegistry) -> None:
    resources = Resources(registry=registry)
    encoder, decoder = avro.Encoder(Options(topic="evolving"), resources), avro.Decoder(resources=resources)
    tables = [
        TableSchema(
            TableName("test", "t"),
            (Column.of("id", "int", primary_key=True), *(Column.of(f"c{number}", "int") for number in range(width))),
            version=width,
        )
        for width in range(4)
    ]
    rows = [{column.name: number for number, column in enumerate(table.columns)} for table in tables]
    events = [RowChange(table, 1, after=row) for table, row in zip(tables, rows, strict=True)]

    messages = list(encoder.encode([*events, *reversed(events)]))
    got = [event for message in messages for event in decoder.decode(message)]

    assert len({message.value[:5] for message in messages if message.value}) == 4
    assert [event.after for event in got if isinstance(event, RowChange)] == [*rows, *reversed(rows)]


def test_a_schema_that_is_registered_again_has_the_same_id(uri: str, registry: ConfluentRegistry) -> None:
    text = value_schema(TABLE, Options()).text
    with ConfluentRegistry(uri) as another:
        assert registry.register("again-value", text) == another.register("again-value", text)
        assert another.schema(registry.register("again-value", text)) == text


def test_an_id_nobody_registered_is_refused(registry: ConfluentRegistry) -> None:
    decoder = avro.Decoder(resources=Resources(registry=registry))

    with pytest.raises(DecodeError, match="schema 999999 not found"):
        list(decoder.decode(Message(b"\0" + (999_999).to_bytes(4, "big") + b"\2", None)))
