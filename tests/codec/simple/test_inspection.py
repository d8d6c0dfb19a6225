"""The inspection of Simple messages covers every byte and goes as far as a lie."""

from __future__ import annotations

import pytest

from codec.simple.simple_messages import AVRO, DOCUMENT, ENCODINGS, WORKED, avro, message
from tidewire.codec.simple import inspect
from tidewire.model import Message
from vector_files import sample


@pytest.mark.parametrize("name", ENCODINGS)
def test_inspection_covers_every_byte(name: str) -> None:
    for vector in sample(name, 5):
        value = vector.message.value
        assert value is not None
        for data in (value, value[:-3], b""):
            fields = [field for field in inspect(Message(None, data), vector.options) if field.part == "value"]
            assert b"".join(field.data for field in fields) == data, vector.id
            ends = [field.offset + len(field.data) for field in fields]
            assert [field.offset for field in fields] == [0, *ends][: len(fields)], vector.id


def test_inspection_goes_as_far_as_a_lie() -> None:
    for value, reason in (
        ("18", "12 is not one of 12 choices"),
        ("15", "-11 is not one of 12 choices"),
        ("16 80", "no whole field of type long in the 1 bytes that are left"),
        ("16 04 04 02 0e 01 61 61", "no whole field of type string in the 3 bytes that are left"),
        (
            "16 02 02 02 00 00 00 00 00 fe ff ff ff ff ff ff ff ff 01",
            "no whole field of type string in the 0 bytes that are left",
        ),
        ("16 00 00 ff ff ff ff ff ff ff ff ff ff 01", "an integer beyond 32 bits"),
        ("16 00 00 02 00 00 00", "1 bytes after the end of the record"),
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
