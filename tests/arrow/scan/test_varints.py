"""Columns of varints: as the codec reads them one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidewire.arrow.scan.varints import signed, unsigned
from tidewire.codec.craft.varint import uvarint, varint

UNSIGNED = st.integers(0, 64).flatmap(lambda bits: st.integers(0, (1 << bits) - 1))
SIGNED = st.integers(0, 63).flatmap(lambda bits: st.integers(-1 << bits, (1 << bits) - 1))


@settings(deadline=None)
@given(st.lists(st.none() | UNSIGNED))
def test_unsigned(numbers: list[int | None]) -> None:
    raw = pa.array([None if number is None else uvarint(number) for number in numbers], pa.binary())
    assert unsigned(raw).to_pylist() == numbers


@settings(deadline=None)
@given(st.lists(st.none() | SIGNED), st.integers(0, 5))
def test_signed_and_part_of_a_column(numbers: list[int | None], start: int) -> None:
    raw = pa.array([None if number is None else varint(number) for number in numbers], pa.binary())
    assert signed(raw[start:]).to_pylist() == numbers[start:]


@pytest.mark.parametrize("raw", [b"", b"\x80", b"\0\0", b"\xff" * 9 + b"\x02", b"\x80" * 10 + b"\0"])
def test_what_is_not_one_integer_of_64_bits(raw: bytes) -> None:
    with pytest.raises(ValueError, match="integer"):
        unsigned(pa.array([b"\x01", raw], pa.binary()))


def test_needless_bytes_are_borne_as_the_codec_bears_them() -> None:
    assert unsigned(pa.array([b"\x81\x80\x00"], pa.binary())).to_pylist() == [1]
