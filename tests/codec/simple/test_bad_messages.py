"""Broken Simple messages, and those that break the rules, are refused."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codec.simple.simple_messages import AVRO, DOCUMENT, ENCODINGS, JSON, USER, column, known_schemas, message, wire
from tidewire.codec import Resources
from tidewire.codec.simple import Decoder, SchemaCache, decode
from tidewire.errors import DecodeError
from tidewire.model import Message
from vector_files import Vector, sample, vectors


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
        for vector in sample(name, 5):
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
    found, schemas = sample(name, 5), known_schemas(name, "ticdc")
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
        ({"data": {"id": "1.5"}}, "'1.5' is not a signed 32-bit integer"),
        ({"data": {"id": "9223372036854775808"}}, "is not a signed 32-bit integer"),
        ({"data": {"score": "nan"}}, "'nan' is not a number"),
        ({"data": {"score": "1e39"}}, "column score (float)"),
        ({"data": {"score": {"location": "UTC", "value": "1"}}}, "is not text"),
        ({"data": {"ID": "1"}}, "simple.user has no such column at version 447984074911121426 in value at $.data.ID"),
        ({"handleKeyOnly": 1}, "true or false was expected"),
        ({"checksum": {"version": 0, "corrupted": False, "current": 2**32, "previous": 0}}, "$.checksum.current"),
        ({"claimCheckLocation": "s3://b/.."}, "its last part is not a plain file name"),
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
