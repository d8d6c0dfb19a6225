"""The checksums of Simple rows, verified and computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from codec.simple.simple_messages import DOCUMENT, ENCODINGS, JSON, message, unpacked, verifying, wire
from tidewire.codec.simple import Decoder, Encoder, SchemaCache
from tidewire.codec.simple.formats import format_of
from tidewire.errors import DecodeError
from tidewire.model import Checksum, Message, RowChange
from vector_files import Vector, files, vectors


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
