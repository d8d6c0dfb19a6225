"""Simple in Avro: worked messages, the wire schema, and bytes that lie."""

from __future__ import annotations

import io
import sys
import tracemalloc
from itertools import repeat
from typing import Any

import fastavro
import pytest

from codec.simple.simple_messages import AVRO, CREATED, INSERTED, WORKED, avro
from tidewire.codec import Resources
from tidewire.codec.options import EncodingFormat
from tidewire.codec.simple import Decoder, Encoder, avro_wire, encode, inspect
from tidewire.errors import DecodeError, MissingExtra
from tidewire.model import Message, Watermark
from vector_files import files, vectors


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


def test_a_column_name_that_is_not_utf8_is_refused() -> None:
    decoder = Decoder(AVRO)
    decoder.schemas.add(CREATED.table_schema)
    odd = bytes.fromhex(WORKED[1][2]).replace(b"\x02a\x02", b"\x02\xff\x02")

    with pytest.raises(DecodeError, match=r"test\.t has no such column"):
        list(decoder.decode(Message(None, odd)))
