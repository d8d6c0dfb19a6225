"""The integers and chunks that Craft messages are made of."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.codec.craft import chunks
from tidewire.codec.craft.varint import Cursor, reversed_uvarint, trailing_uvarint, uvarint, varint
from tidewire.errors import DecodeError


def test_integers_are_written_as_protobuf_writes_them() -> None:
    for number, text in {
        0: "00", 1: "01", 127: "7f", 128: "8001", 300: "ac02", 16384: "808001", 2**32 - 1: "ffffffff0f",
        2**63 - 1: "ffffffffffffffff7f", 2**64 - 1: "ffffffffffffffffff01",
    }.items():  # fmt: skip
        assert uvarint(number).hex() == text
    for number, text in {
        0: "00", -1: "01", 1: "02", -2: "03", 63: "7e", 64: "8001", -64: "7f", -65: "8101", 1000: "d00f", 2000: "a01f",
        2**31 - 1: "feffffff0f", -(2**31): "ffffffff0f", 2**63 - 1: "feffffffffffffffff01",
        -(2**63): "ffffffffffffffffff01",
    }.items():  # fmt: skip
        assert varint(number).hex() == text
        assert Cursor(varint(number), 0, 10).varint() == number
    for number, text in {
        0: "00", 127: "7f", 128: "0180", 300: "02ac", 16383: "7fff", 16384: "018080", 2**31 - 1: "07ffffffff",
    }.items():  # fmt: skip
        assert reversed_uvarint(number).hex() == text


def test_the_trailing_length_is_read_backwards() -> None:
    before = random.Random(1).randbytes(16)
    for number in [0, *(1 << bit for bit in range(63))]:
        written = reversed_uvarint(number)
        assert trailing_uvarint(before + written, 16) == (number, 16)


def test_integers_beyond_their_range_are_refused() -> None:
    for write, number in ((uvarint, -1), (uvarint, 2**64), (varint, 2**63), (varint, -(2**63) - 1)):
        with pytest.raises(ValueError, match="64-bit"):
            write(number)
    for text, reason in {
        "ffffffffffffffffff02": "more than 64 bits",
        "ffffffffffffffffffff01": "more than 64 bits",
        "8080808080808080808000": "more than 64 bits",
        "80": "truncated",
        "": "truncated",
    }.items():
        data = bytes.fromhex(text)
        with pytest.raises(DecodeError, match=reason):
            Cursor(data, 0, len(data)).uvarint()
        with pytest.raises(DecodeError, match=reason):
            trailing_uvarint(data[::-1], 0)
    assert Cursor(b"\x80\x00", 0, 2).uvarint() == 0  # longer than need be, as the reference accepts it


def test_chunks_hold_their_values_side_by_side() -> None:
    assert chunks.strings([b"a", b"b", b"c"]).hex() == "010101616263"
    assert chunks.nullable_strings([b"a", b"b", b"c"]).hex() == "020202616263"
    assert chunks.nullable_strings([None, b"", b"x"]).hex() == "01000278"
    assert chunks.delta_varints([1, 3, 6]).hex() == "020406"
    assert chunks.delta_varints([-1, -1, -1, 6]).hex() == "0100000e"
    assert chunks.delta_uvarints([5, 3]).hex() == "05feffffffffffffffff01"
    assert (
        chunks.size_table([1, 3, 5, 7, 9]) + chunks.size_table([2, 4, 6, 8, 10])
    ).hex() == "05020404040405" + "04" * 5
    commit_ts = [424316553934667777, 424316554327097345, 424316554746789889, 424316555073945601]
    assert chunks.delta_uvarints(commit_ts).hex() == "8180e0ec85b5def105808090bb01808090c8018080809c01"


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=8))
def test_unsigned_differences_wrap_around(numbers: list[int]) -> None:
    data = chunks.delta_uvarints(numbers)
    assert list(chunks.read_delta_uvarints(Cursor(data, 0, len(data)), len(numbers))) == numbers


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=8))
def test_signed_differences_wrap_around(numbers: list[int]) -> None:
    data = chunks.delta_varints(numbers)
    assert list(chunks.read_delta_varints(Cursor(data, 0, len(data)), len(numbers))) == numbers
