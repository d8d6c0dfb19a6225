"""What is wrong in an Open Protocol message is refused with its place."""

from __future__ import annotations

import pytest

from codec.open_protocol.open_messages import ROW_KEY, message, put, row_of, value_of
from tidewire.codec.open_protocol import decode
from tidewire.codec.open_protocol.wire import VERSION, frame
from tidewire.errors import DecodeError
from tidewire.model import Message

COLUMN = '{"u":{"c":%s}}'
REFUSED: list[tuple[str, str, str, str | int]] = [
    # key, value, reason, place
    ("{", "{}", "not JSON", 17),
    ("[]", "{}", "an object was expected", "$"),
    ("{}", "{}", "unsigned 8-bit integer", "$.t"),
    ('{"t":1}', COLUMN % '{"t":3,"v":1}', "unsigned 64-bit integer", "$.ts"),
    ('{"ts":18446744073709551616,"t":3}', "", "unsigned 64-bit integer", "$.ts"),
    ('{"ts":-1,"t":3}', "", "unsigned 64-bit integer", "$.ts"),
    ('{"ts":1.0,"t":3}', "", "unsigned 64-bit integer", "$.ts"),
    ('{"ts":1,"t":0}', "{}", "0 is no event type", "$.t"),
    ('{"ts":1,"t":4}', "{}", "4 is no event type", "$.t"),
    ('{"ts":1,"t":true}', "{}", "unsigned 8-bit integer", "$.t"),
    ('{"ts":1,"t":3}', "{}", "resolved event with a value", 8),
    ('{"ts":1,"t":1,"scm":5}', COLUMN % '{"t":3,"v":1}', "text was expected", "$.scm"),
    ('{"ts":1,"t":1,"ohk":1}', COLUMN % '{"t":3,"v":1}', "true or false", "$.ohk"),
    ('{"ts":1,"t":1,"ptn":"6"}', COLUMN % '{"t":3,"v":1}', "signed 64-bit integer", "$.ptn"),
    ('{"ts":1,"t":1,"rid":9223372036854775808}', COLUMN % '{"t":3,"v":1}', "signed 64-bit integer", "$.rid"),
    ('{"ts":1,"t":1,"ccl":5}', COLUMN % '{"t":3,"v":1}', "text was expected", "$.ccl"),
    ('{"ts":1,"t":2}', "", "not JSON", 8),
    ('{"ts":1,"t":2}', '{"t":3}', "text was expected", "$.q"),
    ('{"ts":1,"t":2}', '{"q":"x"}', "unsigned 8-bit integer", "$.t"),
    ('{"ts":1,"t":2}', '{"q":"x","t":256}', "unsigned 8-bit integer", "$.t"),
    ('{"ts":1,"t":2}', put('{"q":"x","t":"%s"}', "1" * 5000), "unsigned 8-bit integer", "$.t"),
    (ROW_KEY, "", "not JSON", 8),
    (ROW_KEY, "null", "an object was expected", "$"),
    (ROW_KEY, "{}", "neither u nor d", "$"),
    (ROW_KEY, '{"p":{}}', "neither u nor d", "$"),
    (ROW_KEY, '{"u":{},"d":{}}', "both u and d", "$"),
    (ROW_KEY, '{"d":{},"p":{}}', "no other old values", "$.p"),
    (ROW_KEY, '{"u":[]}', "an object was expected", "$.u"),
    (ROW_KEY, '{"u":{"c":5}}', "an object was expected", "$.u.c"),
    (ROW_KEY, '{"u":{"c":null}}', "an object was expected", "$.u.c"),
    (ROW_KEY, '{"u":{"the c":5}}', "an object was expected", '$.u["the c"]'),
    (ROW_KEY, '{"u":{"c":{"t":3,"v":1},"c":{"t":3,"v":1}}}', "'c' is there twice", 8),
    (ROW_KEY, '{"u":{"c":{"t":3,"v":1},"c":5}}', "'c' is there twice", 8),
    (ROW_KEY, '{"u":{},"p":{"x":1}}', "an object was expected", "$.p.x"),
    (ROW_KEY, COLUMN % '{"v":1}', "unsigned 8-bit integer", "$.u.c.t"),
    (ROW_KEY, COLUMN % '{"t":99,"v":1}', "99 is no column type", "$.u.c.t"),
    (ROW_KEY, COLUMN % '{"t":3,"f":256,"v":1}', "unsigned 8-bit integer", "$.u.c.f"),
    (ROW_KEY, COLUMN % '{"t":3,"f":4099,"v":1}', "unsigned 8-bit integer", "$.u.c.f"),
    (ROW_KEY, COLUMN % '{"t":3,"h":1,"v":1}', "true or false", "$.u.c.h"),
    (ROW_KEY, COLUMN % '{"t":3,"f":1}', "the value is missing", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":3,"f":1,"v":"1"}', "column c (int): '1' is not a signed", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":3,"f":1,"v":true}', "column c (int)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":3,"f":1,"v":1.0}', "column c (int)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":3,"f":1,"v":-0}', "column c (int)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":8,"f":1,"v":9223372036854775808}', "column c (bigint)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":8,"f":129,"v":-1}', "is not an unsigned", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":8,"f":129,"v":18446744073709551616}', "is not an unsigned", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":16,"f":129,"v":-1}', "is not an unsigned", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":247,"f":0,"v":"a"}', "column c (enum)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":5,"f":1,"v":"1"}', "is not a number", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":5,"f":1,"v":1e999}', "too large", "$.u.c.v"),
    (ROW_KEY, COLUMN % (put('{"t":5,"f":1,"v":1%s}', "0" * 400)), "too large", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":4,"f":1,"v":1e39}', "too large", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":5,"f":1,"v":NaN}', "NaN is no number", 8),
    (ROW_KEY, COLUMN % (put('{"t":3,"f":1,"v":%s}', "1" * 5000)), "4300 digits", 8),
    (ROW_KEY, COLUMN % '{"t":246,"f":1,"v":1.5}', "is not text", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":246,"f":1,"v":"1e5"}', "not a decimal number", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":246,"f":1,"v":"NaN"}', "not a decimal number", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":246,"f":1,"v":"1."}', "not a decimal number", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":12,"f":1,"v":5}', "is not text", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":15,"f":0,"v":["x"]}', "is not text", "$.u.c.v"),
    (ROW_KEY, COLUMN % r'{"t":15,"f":1,"v":"\\q"}', "unknown escape", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":252,"f":1,"v":"*"}', "column c (blob)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":252,"f":1,"v":"YQ"}', "column c (blob)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":252,"f":0,"v":"ü"}', "column c (text)", "$.u.c.v"),
    (ROW_KEY, COLUMN % '{"t":255,"f":1,"v":{}}', "no column value", "$.u.c.v"),
    (ROW_KEY, '{"u":{}} {}', "Extra data", 17),
    (ROW_KEY, '\ufeff{"u":{}}', "not JSON", 8),
]


@pytest.mark.parametrize(("key", "value", "reason", "at"), REFUSED)
def test_what_is_wrong_is_refused_with_its_place(key: str, value: str, reason: str, at: str | int) -> None:
    with pytest.raises(DecodeError) as refusal:
        list(decode(message((key, value))))

    assert reason in refusal.value.reason
    assert refusal.value.at == at
    assert refusal.value.part in ("key", "value")
    assert refusal.value.protocol == "open-protocol"


FRAMES: list[tuple[bytes | None, bytes | None, str]] = [
    (None, b"", "shorter than the protocol version"),
    (b"\0" * 7, b"", "shorter than the protocol version"),
    (bytes(8), b"", "protocol version 0"),
    ((2).to_bytes(8, "big"), b"", "protocol version 2"),
    (VERSION[::-1], b"", "protocol version 72057594037927936"),
    (VERSION + b"\0", b"", "truncated length"),
    (VERSION + (5).to_bytes(8, "big") + b"{}", b"", "a length of 5 bytes, but 2 are left"),
    (VERSION + b"\xff" * 8 + b"{}", b"", "a length of 18446744073709551615 bytes"),
    (VERSION + frame(b'{"ts":1,"t":3}'), frame(b"") * 2, "more event values"),
    (VERSION + frame(b'{"ts":1,"t":3}') * 2, frame(b""), "more event keys"),
    (VERSION + frame(b'{"ts":1,"t":3}') * 2, None, "more event keys"),
    (VERSION, frame(b""), "more event values"),
    (VERSION + frame(ROW_KEY.encode()), None, "not JSON"),
]


@pytest.mark.parametrize(("key", "value", "reason"), FRAMES)
def test_a_broken_frame_is_refused(key: bytes | None, value: bytes | None, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        list(decode(Message(key, value)))


def test_bytes_that_are_no_utf_8_are_refused_where_text_must_be() -> None:
    for key, value in (
        (b'{"ts":1,"scm":"\xff","t":1}', b'{"u":{}}'),
        (ROW_KEY.encode(), b'{"u":{"\xff":{"t":3,"v":1}}}'),
        (ROW_KEY.encode(), b'{"u":{"c":{"t":12,"v":"\xff"}}}'),
        (ROW_KEY.encode(), b'{"u":{"c":{"t":246,"v":"\xff"}}}'),
        (b'{"ts":1,"t":2}', b'{"q":"\xff","t":1}'),
    ):
        with pytest.raises(DecodeError) as refusal:
            list(decode(message((key, value))))
        str(refusal.value).encode()


def test_an_error_is_short_however_large_the_message() -> None:
    big = "x" * 1_000_000
    for value in ('{"t":3,"f":1,"v":"%s"}', '{"t":246,"f":1,"v":"%s"}', '{"t":15,"f":1,"v":["%s"]}'):
        with pytest.raises(DecodeError) as refusal:
            value_of(value % big)
        assert len(str(refusal.value)) < 300


def test_deep_nesting_is_refused_at_every_depth() -> None:
    for depth in (*range(900, 1010), 100_000):
        for opening, closing in ("[]", ('{"a":', "}")):
            inside = opening * depth + ("1" if opening != "[" else "") + closing * depth
            with pytest.raises(DecodeError):
                value_of(put('{"t":15,"f":0,"v":%s}', inside))


def test_a_repeated_column_among_very_many_is_found() -> None:
    columns = ",".join(f'"c{n}":{{"t":3,"v":1}}' for n in range(30_000))

    with pytest.raises(DecodeError, match="'last' is there twice"):
        row_of(put('{"u":{%s,"last":{},"last":{}}}', columns))
