"""Whole columns of varints to integers: a handful of array operations for any number of values.

A varint has seven bits in each byte, the lowest first, and the top bit set in every byte but the last. Padded with
zeros to a word of 64 bits its sevens are pushed together in three steps: bytes to pairs, pairs to fours, fours to one.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_LONGEST: Final = 10
_WORD: Final = 8
_TOP_BITS: Final = 0x8080_8080_8080_8080
_STEPS: Final = (
    (0x007F_007F_007F_007F, 0x7F00_7F00_7F00_7F00, 1),
    (0x0000_3FFF_0000_3FFF, 0x3FFF_0000_3FFF_0000, 2),
    (0x0000_0000_0FFF_FFFF, 0x0FFF_FFFF_0000_0000, 4),
)
"""What stays where it is, what moves down, and by how many bits."""


def _word(number: int) -> pa.Scalar:
    return pa.scalar(number, pa.uint64())


_KEPT_AND_MOVED: Final = [(_word(kept), _word(moved), _word(bits)) for kept, moved, bits in _STEPS]
_TOPS: Final = [_TOP_BITS & (1 << _WORD * max(length - 1, 0)) - 1 for length in range(_LONGEST + 1)]
_FIRST_TOPS: Final = pa.array(_TOPS, pa.uint64())
"""The top bits that are set in the first word of a varint, by its length."""

_SECOND_TOPS: Final = pa.array([0] * _LONGEST + [0x80], pa.uint64())


def unsigned(raw: pa.BinaryArray) -> pa.UInt64Array:
    """The unsigned integers of a column; ``ValueError`` if any value is not exactly one varint of 64 bits."""
    filled = raw.fill_null(b"\0") if raw.null_count else raw
    lengths = pc.binary_length(filled)
    shortest, longest = pc.min_max(lengths).as_py().values() if len(filled) else (1, 1)
    if shortest < 1 or longest > _LONGEST:
        raise ValueError(f"an integer of {longest if shortest else 0} bytes")
    words = 2 if longest > _WORD else 1
    padded = pc.binary_join_element_wise(filled, bytes(words * _WORD - shortest), b"")
    first = _words(padded, 0)
    _check(pc.bit_wise_and(first, _word(_TOP_BITS)), _FIRST_TOPS, lengths)
    for kept, moved, bits in _KEPT_AND_MOVED:
        low, high = pc.bit_wise_and(first, kept), pc.bit_wise_and(first, moved)
        first = pc.bit_wise_or(low, pc.shift_right(high, bits))
    if words > 1:
        second = _words(padded, _WORD)
        _check(pc.bit_wise_and(second, _word(_TOP_BITS)), _SECOND_TOPS, lengths)
        eighth, ninth = pc.bit_wise_and(second, _word(0x7F)), pc.shift_right(second, _word(8))
        if pc.max(ninth).as_py() > 1:
            raise ValueError("an integer of more than 64 bits")
        for part, bits in ((eighth, 56), (ninth, 63)):
            first = pc.bit_wise_or(first, pc.shift_left(part, _word(bits)))
    return pc.if_else(raw.is_valid(), first, pa.scalar(None, pa.uint64())) if raw.null_count else first


def signed(raw: pa.BinaryArray) -> pa.Int64Array:
    """The signed integers of a column, which were zigzagged: 0, -1, 1, -2 stand there as 0, 1, 2, 3."""
    zigzag = unsigned(raw)
    half = pc.shift_right(zigzag, _word(1)).view(pa.int64())
    sign = pc.negate(pc.bit_wise_and(zigzag, _word(1)).view(pa.int64()))
    return pc.bit_wise_xor(half, sign)


def _words(padded: pa.BinaryArray, start: int) -> pa.UInt64Array:
    """The eight bytes from ``start`` on of each value, the lowest first."""
    return reinterpreted(pc.binary_slice(padded, start, start + _WORD), pa.uint64())


def reinterpreted(raw: pa.BinaryArray, type_: pa.DataType) -> pa.Array:
    """The bytes of a column as numbers; each value, and none may be NULL, has as many bytes as the type."""
    _, offsets, data = raw.buffers()
    if not len(raw):
        return pa.array([], type_)
    first = pa.Array.from_buffers(pa.int32(), 1, [None, offsets], offset=raw.offset)[0].as_py()
    return pa.Array.from_buffers(type_, len(raw), [None, data.slice(first)])


def _check(tops: pa.UInt64Array, expected: pa.UInt64Array, lengths: pa.Int32Array) -> None:
    if not pc.all(pc.equal(tops, expected.take(lengths)), min_count=0).as_py():
        raise ValueError("not one integer")
