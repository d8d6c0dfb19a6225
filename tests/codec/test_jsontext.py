"""Reading JSON off the wire: strict, with places in the errors, and never with a surprise."""

from __future__ import annotations

from typing import Any

import pytest

from tidewire.codec.jsontext import Reader, member_path, once, read_json, repeated, text
from tidewire.errors import DecodeError
from tidewire.model.grammar import shown


def read(data: str | bytes, **more: Any) -> Any:
    return read_json(data.encode() if isinstance(data, str) else data, "test", **more)


def test_what_json_is_read() -> None:
    assert read(' {"a":[1,-2,1.5,true,false,null,"x",{}]}\r\n') == {"a": [1, -2, 1.5, True, False, None, "x", {}]}
    assert read("18446744073709551616") == 2**64
    assert read('{"a":1,"a":2}') == {"a": 2}


@pytest.mark.parametrize(
    ("data", "at"),
    [
        (b"", 0),
        (b" ", 1),
        (b"{", 1),
        (b'{"a":}', 5),
        (b"{'a':1}", 1),
        (b"// no\n{}", 0),
        (b"{} {}", 3),
        (b"\xef\xbb\xbf{}", 0),
        (b'{"\xc3\xbc\xf0\x9f\x98\x80":!}', 10),
        (b'{"\xff\xfe":!}', 6),
        (b'"\n"', 1),
        (b'"\\x"', 1),
        (b"01", 1),
        (b"+1", 0),
        (b".5", 0),
        (b"\x00", 0),
    ],
)
def test_an_error_names_the_byte(data: bytes, at: int) -> None:
    for base in (0, 100):
        with pytest.raises(DecodeError, match="not JSON") as refusal:
            read(data, base=base, part="key")
        assert (refusal.value.at, refusal.value.part) == (base + at, "key")


@pytest.mark.parametrize("data", ["NaN", "[Infinity]", '{"a":-Infinity}', "1" * 5000, "[" * 5000, '{"a":' * 100_000])
def test_what_python_would_read_or_choke_on_is_refused(data: str) -> None:
    with pytest.raises(DecodeError):
        read(data)


def test_minus_zero_keeps_its_sign() -> None:
    for data in ("[-0]", '{"a":-0}', "[1, -0]", '{"a": \n-0 }', "[-0.0]", "[-0e1]"):
        found = read(data)
        (number,) = found.values() if isinstance(found, dict) else found[-1:]
        assert str(number) == "-0.0", data
    assert [repr(number) for number in read('["-0",-0.5,-1e2]')] == ["'-0'", "-0.5", "-100.0"]
    assert read("[0,-1]") == [0, -1]
    assert read('["x:-0",7]') == ["x:-0", 7]


def test_escaped_surrogates_are_mended_as_go_does() -> None:
    for escaped, expected in (
        (r"\ud83d\ude00", "😀"),
        (r"\uD83D\uDE00", "😀"),
        (r"\ud800", "\ufffd"),
        (r"\udc00", "\ufffd"),
        (r"\ud800x", "\ufffdx"),
        (r"\ud800\u0041", "\ufffdA"),
        (r"\ud800\ud83d\ude00", "\ufffd😀"),
        (r"\ude00\ud83d", "\ufffd\ufffd"),
        (r"\\ud800", r"\ud800"),
        (r"\\\ud800", "\\\ufffd"),
        (r"\"\ud800\"", '"\ufffd"'),
        (r"\ud7ff\ue000", "\ud7ff\ue000"),
    ):
        assert read(f'["{escaped}"]') == [expected]
        assert read(f'{{"{escaped}":[["{escaped}"]]}}') == {expected: [[expected]]}
        assert text(read(b'"' + escaped.encode() + b'\xff"')) == expected.encode() + b"\xff"


def test_bytes_that_are_no_utf_8_come_back_as_they_were() -> None:
    for bad in (b"\xff", b"caf\xe9", b"\xe6\xb5", b"\xed\xa0\x80", b"\xc0\x80", b"a\x80\xf4\x90\x80\x80"):
        assert text(read(b'"' + bad + b'"')) == bad
    assert text(read('"ü"')) == "ü"


def test_members_that_are_there_twice() -> None:
    assert once([("a", 1), ("b", 2)]) == {"a": 1, "b": 2}
    assert repeated([("a", 1), ("b", 2), ("b", 3), ("a", 4)]) == "b"
    assert repeated([("a", 1)]) is None
    with pytest.raises(DecodeError, match="'b' is there twice") as refusal:
        read('{"a":{"b":1,"b":1}}', objects=once, base=3)
    assert refusal.value.at == 3


def test_a_repeated_member_among_very_many_is_found() -> None:
    members = [(f"m{n}", n) for n in range(100_000)]

    with pytest.raises(ValueError, match="'last' is there twice"):
        once([*members, ("last", 0), ("last", 1)])


def test_paths() -> None:
    assert member_path("$", "id") == "$.id"
    assert member_path("$.u", "größe") == "$.u.größe"
    assert member_path("$.u", "the id") == '$.u["the id"]'
    assert member_path("$", 'a"b\\') == r'$["a\"b\\"]'
    assert member_path("$", "") == '$[""]'
    assert member_path("$", "a.b") == '$["a.b"]'
    assert member_path("$", "\udcff\n") == r'$["\udcff\n"]'


def test_a_reader_says_what_is_wrong_and_where() -> None:
    reader = Reader({"n": 5, "s": "x", "b": True, "o": {"deep er": 1}, "bad": "\udcff", "null": None}, "test", "value")

    assert (reader.integer("n"), reader.integer("none", default=7)) == (5, 7)
    assert (reader.string("s"), reader.string("none", "")) == ("x", "")
    assert (reader.boolean("b"), reader.boolean("none")) == (True, False)
    for ask, place in (
        (lambda: reader.integer("s"), "$.s"),
        (lambda: reader.integer("b"), "$.b"),
        (lambda: reader.integer("n", bits=2), "$.n"),
        (lambda: reader.integer("none"), "$.none"),
        (lambda: reader.string("n"), "$.n"),
        (lambda: reader.string("bad"), "$.bad"),
        (lambda: reader.string("null", ""), "$.null"),
        (lambda: reader.boolean("n"), "$.n"),
        (lambda: reader.object("n"), "$.n"),
        (lambda: reader.object("o").string("deep er"), '$.o["deep er"]'),
        (lambda: Reader([], "test", "value"), "$"),
    ):
        with pytest.raises(DecodeError) as refusal:
            ask()
        assert (refusal.value.at, refusal.value.part) == (place, "value")


def test_quoted_values_are_short() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]

    for value in ("x" * 10**6, list(range(10**5)), {"a" * 10**6: 1}, deep, 10**4000):
        assert len(shown(value)) < 200
    assert shown("it's") == repr("it's")
    assert shown(18446744073709551616) == "18446744073709551616"
    assert shown("\udcff").encode() == rb"'\udcff'"
