"""The Avro scanner: it takes every row it can be sure of, and nothing that the codec refuses."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import topic_files
from scanner_checks import agreed, batch, damaged_messages, left, rows
from tidewire.arrow import BatchDecoder, OpCode
from tidewire.codec import Options, Resources, avro
from tidewire.codec.avro.wire import CONTROL, HEADER
from tidewire.errors import DecodeError, RegistryError
from tidewire.model import Column, Message, RowChange, TableName, TableSchema
from tidewire.plain import message_from_plain
from tidewire.registry import MemoryRegistry
from vector_files import files, vectors

UNCHECKED = [file for file in files("avro") if not file.startswith("checksum")]
EXTENSION = Options(enable_tidb_extension=True, namespace="default", topic="t")


def recorded(file: str) -> tuple[Options, Resources, list[Message]]:
    lines = vectors("avro", file)
    registry = MemoryRegistry()
    for vector in lines:
        for number, schema in vector.registry.schemas().items():
            registry.put(number, schema)
    return lines[0].options, Resources(registry=registry), [vector.message for vector in lines]


@pytest.mark.parametrize("file", UNCHECKED)
def test_every_recorded_row_is_taken(file: str) -> None:
    options, resources, messages = recorded(file)
    decoder = avro.Decoder(options, resources)

    for pos in left("avro", options, resources, messages):
        assert not has_row(decoder, messages[pos])


def has_row(decoder: avro.Decoder, message: Message) -> bool:
    try:
        return any(isinstance(event, RowChange) for event in decoder.decode(message))
    except DecodeError:
        return False


@pytest.mark.parametrize("topic", ["seed11", "seed11-classic"])
def test_every_row_of_a_topic_is_taken(topic: str) -> None:
    options, resources = topic_files.options(topic, "avro"), Resources(registry=topic_files.registry(topic))
    messages = [message_from_plain(line) for line in topic_files.lines(topic, "avro")]
    decoder = avro.Decoder(options, resources)

    assert not any(has_row(decoder, messages[pos]) for pos in left("avro", options, resources, messages))


def test_rows_whose_checksum_is_to_be_verified_are_left_to_the_codec() -> None:
    options, resources, messages = recorded("checksum.checksum.tiflow")
    keyed = [pos for pos, message in enumerate(messages) if message.value]

    assert left("avro", options, resources, messages) == keyed
    unverified = replace(options, integrity_check_level=Options().integrity_check_level)
    assert left("avro", unverified, resources, messages) == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("file", [file for file in UNCHECKED if "types" in file])
def test_damaged_messages_come_out_as_the_codec_says(file: str, seed: int) -> None:
    options, resources, messages = recorded(file)

    agreed("avro", options, resources, [*damaged_messages(messages[:150], random.Random(seed))])


def field(name: str, type_: str, tidb: str, *, null: bool = False, **more: Any) -> dict[str, Any]:
    parameters = {"tidb_type": tidb} | ({"allowed": "a,b"} if tidb == "ENUM" else {})
    described = {"type": type_, "connect.parameters": parameters} | more
    return {"name": name, "type": ["null", described] if null else described}


def schema(*fields: dict[str, Any], table: str = "t") -> str:
    return json.dumps({"type": "record", "name": table, "namespace": "default.test", "fields": fields})


ID = field("id", "int", "INT UNSIGNED")
DECIMAL = field("x", "bytes", "DECIMAL", logicalType="decimal", precision=4, scale=2)
ABOUT = [{"name": "_tidb_op", "type": "string"}, {"name": "_tidb_commit_ts", "type": "long"}]
DATED = field("d", "string", "DATE")
SCHEMAS = {
    1: schema(ID),
    2: schema(ID, field("n", "long", "BIGINT", null=True), field("v", "string", "TEXT", null=True)),
    3: schema(ID, field("n", "long", "BIGINT", null=True), *ABOUT),
    4: schema(ID, {"name": "_tidb_corrupted", "type": "boolean"}),
    5: schema(ID, field("d", "string", "DATE")),
    6: schema(ID, field("id", "int", "INT UNSIGNED")),
    7: schema(ID, field("e", "string", "ENUM", null=True), DECIMAL),
    8: schema(ID, {"name": "_tidb_row_level_checksum", "type": "string"}),
    9: schema(field("id", "int", "INT UNSIGNED"), field("n", "long", "BIGINT"), table="other"),
    10: schema(ID, {"name": "_ticdc_before", "type": ["null", json.loads(schema(field("id", "long", "BIGINT")))]}),
    11: schema(DATED, {"name": "_ticdc_before", "type": ["null", json.loads(schema(DATED, table="old"))]}, ABOUT[0]),
}


def record(number: int, data: str) -> bytes:
    return HEADER.pack(0, number) + bytes.fromhex(data)


def message(number: int, data: str, key: str = "02") -> Message:
    return Message(record(1, key), record(number, data))


def resources() -> Resources:
    return Resources(registry=MemoryRegistry(SCHEMAS))


def read(*messages: Message) -> tuple[list[dict[str, Any]], Sequence[Any]]:
    found = agreed("avro", Options(), resources(), messages)
    return rows(found), found.rejects


def test_whole_messages_are_taken_whatever_their_fields() -> None:
    whole = [
        message(2, "02 02 04 02 0261"),
        message(3, "02 00 0263 02"),
        message(4, "02 01"),
        message(5, "02 14" + b"2024-02-29".hex()),
        message(7, "02 02 0261 0201"),
        message(8, "02 0231"),
        message(9, "02 02"),
        Message(None, record(2, "02 00 00")),
        Message(record(1, "02"), None),
    ]

    assert left("avro", Options(), resources(), whole) == []


REFUSED = {
    "a branch below zero": message(2, "02 01 06 00"),
    "a branch of two bytes": message(2, "02 8200 06 00"),
    "a third branch": message(2, "02 04 06 00"),
    "an integer beyond 32 bits": message(2, "808080808001 00 00"),
    "an integer beyond 64 bits": message(2, "02 02 ffffffffffffffffff03 00"),
    "an integer of eleven bytes": message(2, "02 02 8080808080808080808000 00"),
    "an integer below zero that is unsigned": message(2, "01 00 00", "01"),
    "a length below zero": message(2, "02 00 02 01"),
    "a length beyond the end": message(2, "02 00 02 7e61"),
    "a byte after the end": message(2, "02 00 00 00"),
    "a byte missing": message(2, "02 00"),
    "a byte after the key": message(2, "02 00 00", "02 00"),
    "a key below zero that is unsigned": message(2, "02 00 00", "01"),
    "a boolean that is 7": message(4, "02 07"),
    "an op that is none": message(3, "02 00 0278 02"),
    "a column that is there twice": message(6, "02 02"),
    "a name that the ENUM does not have": message(7, "02 02 0263 0201"),
    "a DECIMAL without bytes": message(7, "02 00 00"),
    "a DECIMAL with too many digits": message(7, "02 00 06 7fffff"),
    "a commit ts beyond 63 bits": message(3, "02 00 0263 01"),
    "a checksum that is no number": message(8, "02 0278"),
    "a schema that nobody knows": message(77, "02"),
    "a key of no bytes": Message(b"", record(2, "02 00 00")),
    "a delete marker that is too short": Message(record(1, "02"), b"\x03\x00"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_codec_refuses_is_refused(what: str) -> None:
    found, rejects = read(message(2, "02 00 00"), REFUSED[what], message(2, "02 02 04 00"))

    assert [reject.pos for reject in rejects] == [1]
    assert [row["_pos"] for row in found] == [0, 2]


ODD = {
    "an integer with needless bytes": message(2, "8200 00 00"),
    "a DECIMAL with needless bytes": message(7, "02 00 24 000000000000000000000000000000000001"),
    "a key that says another thing than the row": message(2, "02 00 00", "04"),
    "a row before that is not like the row after": message(10, "02 02 06"),
    "no row before, which would not be like the row after": message(10, "02 00"),
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_odd_but_right_is_read_all_the_same(what: str) -> None:
    found, rejects = read(ODD[what])

    assert len(found) == 1
    assert rejects == []


def test_one_bad_value_costs_one_message() -> None:
    good, bad = message(5, "02 14" + b"2024-02-29".hex()), message(5, "02 14" + b"2024-0x-01".hex())

    found, rejects = read(good, bad, good)

    assert [row["_pos"] for row in found] == [0, 2]
    (reject,) = rejects
    assert (reject.pos, reject.value) == (1, bad.value)
    assert reject.reason.startswith("column d (date)")


def test_tables_and_versions_may_take_turns() -> None:
    dated = message(5, "02 14" + b"2024-02-29".hex())

    found, rejects = read(message(2, "02 02 0a 00"), message(9, "02 0c"), dated, message(2, "04 00 00", "04"))

    assert rejects == []
    assert [(row["table"].table, sorted(row["after"])) for row in found] == [
        ("t", ["id", "n", "v"]),
        ("other", ["id", "n"]),
        ("t", ["d", "id"]),
        ("t", ["id", "n", "v"]),
    ]


def test_an_id_that_comes_to_mean_another_schema_is_read_by_that_one() -> None:
    registry = MemoryRegistry({1: SCHEMAS[1], 2: SCHEMAS[4]})
    decoder = BatchDecoder("avro", resources=Resources(registry=registry))
    (first,) = rows(decoder.decode(batch([message(2, "02 01")])))
    registry.put(2, SCHEMAS[9])

    (second,) = rows(decoder.decode(batch([message(2, "02 01")])))

    assert (first["after"], second["after"]) == ({"id": 1}, {"id": 1, "n": -1})


def test_a_plan_is_made_once() -> None:
    decoder = BatchDecoder("avro", resources=resources())
    first, second = (decoder.decode(batch([message(2, "02 00 00")])).batches for _ in range(2))

    assert first[0][0] is second[0][0]


def test_a_delete_has_the_keys_columns_and_what_the_marker_says() -> None:
    key = record(1, "0a")
    found, rejects = read(Message(key, None), Message(key, b""), Message(key, CONTROL.pack(3, 99)))

    assert rejects == []
    assert [(row["_op"], row["_commit_ts"], row["before"], row["after"]) for row in found] == [
        (OpCode.DELETE, None, {"id": 5}, None),
        (OpCode.DELETE, None, {"id": 5}, None),
        (OpCode.DELETE, 99, {"id": 5}, None),
    ]


def test_a_delete_with_a_row_before_is_refused_if_the_other_row_is_bad() -> None:
    good, bad = ("14" + text.hex() for text in (b"2024-02-29", b"2024-0x-29"))
    both, broken = (Message(None, record(11, f"{row} 02 {good} 0264")) for row in (good, bad))

    found, rejects = read(both, broken)

    assert left("avro", Options(), resources(), [both]) == []
    assert ([row["_pos"] for row in found], [reject.pos for reject in rejects]) == ([0], [1])


def test_an_update_that_does_not_tell_the_row_before_leaves_out_all_its_columns() -> None:
    (row,), _ = read(message(3, "02 00 0275 06"))

    assert (row["_op"], row["_commit_ts"], row["_absent"]) == (OpCode.UPDATE, 3, [0, 1])


def test_rows_before_are_not_built_where_nobody_wants_them() -> None:
    table = TableSchema(
        TableName("test", "t"), (Column.of("id", "int", primary_key=True), Column.of("v", "varchar(9)")), version=1
    )
    options = replace(EXTENSION, avro_include_before_value=True)
    changes = [RowChange(table, 5, before={"id": 1, "v": "a"}, after={"id": 1, "v": "b"})]
    given = Resources(registry=MemoryRegistry())
    messages = list(avro.Encoder(options, given).encode(changes))

    (told,) = rows(agreed("avro", options, given, messages))
    (silent,) = rows(agreed("avro", options, given, messages, before=False))

    assert left("avro", options, given, messages) == []
    assert (told["before"], told["after"]) == ({"id": 1, "v": "a"}, {"id": 1, "v": "b"})
    assert "before" not in silent


def test_a_message_without_a_key_is_a_row_of_a_table_without_one() -> None:
    found = agreed("avro", Options(), resources(), [Message(None, record(2, "02 00 00"))])

    assert [column.handle_key for column in found.batches[0][0].table.columns] == [False] * 3


def test_a_registry_that_does_not_answer_is_not_the_messages_fault() -> None:
    class Silent(MemoryRegistry):
        def schema(self, schema_id: int) -> str:
            raise RegistryError("memory:", "no answer", 503)

    decoder = BatchDecoder("avro", resources=Resources(registry=Silent()))

    with pytest.raises(RegistryError):
        decoder.decode(batch([message(2, "02 00 00")]))
