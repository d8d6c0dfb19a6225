"""The scanner of Simple in Avro: it takes every row it can be sure of, and nothing that the codec refuses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

import topic_files
from scanner_checks import agreed, batch, damaged, left, rows
from tidewire.arrow import BatchDecoder, OpCode
from tidewire.arrow.scan.simple_avro import Scanner
from tidewire.codec import Options, Resources, simple
from tidewire.codec.options import EncodingFormat
from tidewire.codec.simple.avro_wire import read, write
from tidewire.model import Bootstrap, Column, Message, RowChange, TableName, TableSchema, Timestamp, Watermark
from tidewire.plain import message_from_plain
from vector_files import Vector, files, vectors

UNCHECKED = [file for file in files("simple-avro") if not file.startswith("checksum")]
AVRO = Options(encoding_format=EncodingFormat.AVRO)
BOOTSTRAP_START = b"\x16\x02"


def recorded(file: str) -> tuple[Options, Resources, Sequence[Vector]]:
    lines = vectors("simple-avro", file)
    blobs = {name: blob for vector in lines for name, blob in vector.claim_checks.blobs.items()}
    return lines[0].options, Resources(claim_check=type(lines[0].claim_checks)(blobs)), lines


@pytest.mark.parametrize("file", UNCHECKED)
def test_every_recorded_row_is_taken_unless_it_is_elsewhere(file: str) -> None:
    options, resources, lines = recorded(file)

    for pos in left("simple", options, resources, [vector.message for vector in lines]):
        claimed = lines[pos].claim_checks.blobs
        assert claimed or not any(isinstance(event, RowChange) for event in lines[pos].events)


@pytest.mark.parametrize("topic", ["seed11", "seed11-classic"])
def test_every_row_of_a_topic_is_taken(topic: str) -> None:
    options = topic_files.options(topic, "simple-avro")
    messages = [message_from_plain(line) for line in topic_files.lines(topic, "simple-avro")]
    decoder = simple.Decoder(options)
    events = [list(decoder.decode(message)) for message in messages]

    for pos in left("simple", options, Resources(), messages):
        assert not any(isinstance(event, RowChange) for event in events[pos])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("file", [file for file in UNCHECKED if "default" in file or "handle-key" in file])
def test_damaged_messages_come_out_as_the_codec_says(file: str, seed: int) -> None:
    options, resources, lines = recorded(file)
    chance = random.Random(seed)
    values = [vector.message.value or b"" for vector in lines[:250]]
    messages = [
        Message(None, value if value.startswith(BOOTSTRAP_START) else damaged(value, chance)) for value in values
    ]

    agreed("simple", options, resources, messages)


TABLE = TableSchema.build(
    TableName("test", "t"),
    [
        Column.of("id", "bigint", primary_key=True),
        Column.of("u", "bigint unsigned", nullable=True),
        Column.of("d", "date", nullable=True),
        Column.of("at", "timestamp", nullable=True),
    ],
    [],
    table_id=7,
    version=1,
    pk_is_handle=True,
)
ROW = {"id": 1, "u": (1 << 64) - 1, "d": None, "at": Timestamp("2024-01-01 00:00:00", zone="UTC")}


def written(*events: Bootstrap | RowChange | Watermark) -> list[Message]:
    return list(simple.Encoder(AVRO).encode(events))


def insert(table: TableSchema = TABLE, **values: Any) -> RowChange:
    return RowChange(table, 5, after=ROW | values, table_id=table.table_id)


def changed(message: Message, **changes: Any) -> Message:
    """A row's message with other fields."""
    name, record = read(message.value or b"", "value")
    branch, payload = record["payload"]
    entries = ("array", payload["data"]) if isinstance(payload["data"], list) else payload["data"]
    return Message(None, write(name, record | {"payload": (branch, payload | {"data": entries} | changes)}))


def entries(**values: Any) -> tuple[str, list[dict[str, Any]]]:
    return "array", [{"name": name.rstrip("_").encode(), "value": value} for name, value in values.items()]


def long(number: int, box: str = "Long") -> tuple[str, dict[str, int]]:
    return box, {"value": number}


def text(value: bytes) -> tuple[str, dict[str, bytes]]:
    return "String", {"value": value}


BOOTSTRAP, GOOD = written(Bootstrap(TABLE), insert())

REFUSED = {
    "a column that is there twice": changed(GOOD, data=entries(id=long(1), id_=long(1))),
    "a column that is there twice, once NULL": changed(GOOD, data=entries(id=long(1), id_=None)),
    "a column the table does not have": changed(GOOD, data=entries(nobody=long(1))),
    "an unsigned number in a signed column": changed(GOOD, data=entries(id=long(1, "UnsignedBigint"))),
    "a number where a date is": changed(GOOD, data=entries(id=long(1), d=long(1))),
    "a date that is none": changed(GOOD, data=entries(id=long(1), d=text(b"2024-0x-01"))),
    "a text that is not UTF-8": changed(GOOD, data=entries(id=long(1), d=text(b"\xff"))),
    "a zone that nobody knows": changed(
        GOOD, data=entries(id=long(1), at=("Timestamp", {"location": b"Atlantis", "value": b"2024-01-01 00:00:00"}))
    ),
    "a row before an insert": changed(GOOD, old=entries(id=long(1))),
    "another version of the protocol": changed(GOOD, version=2),
    "a byte after the end": Message(None, (GOOD.value or b"") + b"\0"),
    "a byte missing": Message(None, (GOOD.value or b"")[:-1]),
    "a checksum below zero": changed(
        GOOD, checksum={"version": 1, "corrupted": False, "current": -1, "previous": 0}
    ),
    "a commit ts beyond 63 bits": changed(GOOD, commitTs=-1),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_codec_refuses_is_refused(what: str) -> None:
    found = agreed("simple", AVRO, Resources(), [BOOTSTRAP, GOOD, REFUSED[what], GOOD])

    assert [reject.pos for reject in found.rejects] == [2]
    assert [row["_pos"] for row in rows(found)] == [1, 3]


ODD = {
    "an unsigned number in digits": changed(GOOD, data=entries(id=long(1), u=text(b"18446744073709551615"))),
    "a timestamp without its zone": changed(GOOD, data=entries(id=long(1), at=text(b"2024-01-01 00:00:00"))),
    "an update that has no row before": changed(GOOD, type="UPDATE"),
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_odd_but_right_is_left_and_read(what: str) -> None:
    messages = [BOOTSTRAP, GOOD, ODD[what]]

    assert left("simple", AVRO, Resources(), messages) == [0, 2]
    assert len(rows(agreed("simple", AVRO, Resources(), messages))) == 2


def test_the_options_choose_this_scanner() -> None:
    assert isinstance(BatchDecoder("simple", AVRO)._scanner, Scanner)


def test_values_arrive_whole() -> None:
    (row,) = rows(agreed("simple", AVRO, Resources(), [BOOTSTRAP, GOOD]))

    assert (row["_op"], row["_commit_ts"], row["_partition"]) == (OpCode.INSERT, 5, None)
    assert row["after"] == {
        "id": 1,
        "u": (1 << 64) - 1,
        "d": None,
        "at": datetime(2024, 1, 1, tzinfo=timezone.utc),
    }


def test_rows_wait_for_their_schema_and_are_taken_behind_it() -> None:
    watermark = written(Watermark(9))[0]

    found = agreed("simple", AVRO, Resources(), [GOOD, watermark, BOOTSTRAP, GOOD])

    assert [pos for pos, _ in found.parked] == [0]
    assert [row["_pos"] for row in rows(found)] == [3]
    assert left("simple", AVRO, Resources(), [GOOD, watermark, BOOTSTRAP, GOOD]) == [0, 1, 2]


def test_tables_and_versions_may_take_turns() -> None:
    second = replace(TABLE, version=2, columns=(*TABLE.columns, Column.of("more", "int")))
    other = replace(TABLE, name=TableName("test", "other"), table_id=8)
    messages = written(Bootstrap(TABLE), Bootstrap(second), Bootstrap(other))
    messages += written(insert(), insert(second, more=3), insert(other), insert(), insert(second, more=None))

    found = rows(agreed("simple", AVRO, Resources(), messages))

    assert left("simple", AVRO, Resources(), messages) == [0, 1, 2]
    assert [(row["table"].table, row["after"].get("more", "none")) for row in found] == [
        ("t", "none"), ("t", 3), ("other", "none"), ("t", "none"), ("t", None),
    ]  # fmt: skip


def test_each_timestamp_is_in_its_own_zone() -> None:
    zones = ["UTC", "Asia/Shanghai", "America/New_York"]
    changes = [insert(at=Timestamp("2024-01-01 00:00:00", zone=zone)) for zone in zones]

    found = rows(agreed("simple", AVRO, Resources(), [BOOTSTRAP, *written(*changes)]))

    assert [row["after"]["at"].isoformat() for row in found] == [
        "2024-01-01T00:00:00+00:00",
        "2023-12-31T16:00:00+00:00",
        "2024-01-01T05:00:00+00:00",
    ]


def test_rows_of_a_partition_tell_which() -> None:
    (row,) = rows(agreed("simple", AVRO, Resources(), [BOOTSTRAP, changed(GOOD, tableID=70)]))

    assert row["_partition"] == 70


def test_rows_before_are_not_built_where_nobody_wants_them() -> None:
    messages = [BOOTSTRAP, *written(RowChange(TABLE, 6, before=ROW, after=ROW | {"id": 2}, table_id=7))]

    (told,) = rows(agreed("simple", AVRO, Resources(), messages))
    (silent,) = rows(agreed("simple", AVRO, Resources(), messages, before=False))

    assert (told["_op"], told["before"]["id"], told["after"]["id"]) == (OpCode.UPDATE, 1, 2)
    assert "before" not in silent


def test_a_plan_is_made_once() -> None:
    decoder = BatchDecoder("simple", AVRO)
    first = decoder.decode(batch([BOOTSTRAP, GOOD])).batches
    second = decoder.decode(batch([BOOTSTRAP, GOOD])).batches

    assert first[0][0] is second[0][0]
