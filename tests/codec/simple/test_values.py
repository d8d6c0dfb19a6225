"""Odd values in Simple, in every form they were ever written in, and values that cannot be written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codec.simple.simple_messages import AVRO, DOCUMENT, JSON, ODD, message, wire
from tidewire.codec import Options
from tidewire.codec.simple import Decoder, Encoder, avro_format
from tidewire.errors import DecodeError, EncodeError
from tidewire.model import (
    Bootstrap,
    Column,
    Ddl,
    EnumValue,
    Message,
    MySQLType,
    RowChange,
    SetValue,
    TableName,
    TableSchema,
    Timestamp,
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
    schema, row = (decoder.decode(sent)[0] for sent in Encoder(options).encode([Bootstrap(ODD), ODD_ROW]))

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
