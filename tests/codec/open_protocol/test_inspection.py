"""The inspection of Open Protocol messages names what it sees and survives anything."""

from __future__ import annotations

from codec.open_protocol.open_messages import insert, message, put
from tidewire.codec.open_protocol import encode, inspect
from tidewire.model import Message


def test_inspection_names_what_it_sees() -> None:
    (sent,) = encode([insert(a=1, b=None)])
    meanings = {(field.part, field.name): field.meaning for field in inspect(sent)}

    assert meanings["key", "version"] == "1"
    assert meanings["key", "$.t"] == "event type ROW"
    assert meanings["value", "length of event 0"] == "69 bytes"
    assert meanings["value", "$.u.a.t"] == "column type TINYINT"
    assert meanings["value", "$.u.a.f"] == "flags BINARY HANDLE_KEY PRIMARY_KEY"
    assert meanings["value", "$.u.b.v"] == "NULL"


def test_inspection_survives_anything() -> None:
    for key in (
        put('{"ts":1%s,"t":1}', "0" * 40),
        put('{"ts":-1%s}', "0" * 20),
        '{"ts":true,"t":99}',
        "[" * 5000,
        '{"ts":NaN}',
        "}]",
    ):
        assert list(inspect(message((key, '{"u":{"a":{"t":999,"f":-1,"h":[]}}} trailing'))))
    assert list(inspect(Message(None, None))) == []
