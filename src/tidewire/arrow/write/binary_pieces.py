"""What the binary writers share: whole columns to bytes, by compiled calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.convert import finite
from tidewire.arrow.write.pieces import Piece, joined
from tidewire.codec.craft.varint import uvarint

_CHUNK: Final = 14
_CHUNK_MASK: Final = (1 << _CHUNK) - 1


def either(values: pa.Array, pieces: Callable[[pa.Array], Sequence[Piece]], absent: bytes | None) -> Sequence[Piece]:
    """A column's pieces, where NULL is written as ``absent``; ``ValueError`` if there is a NULL and it cannot be."""
    if not values.null_count:
        return pieces(values)
    if absent is None:
        raise ValueError("NULL in a column that must not be NULL")
    if values.null_count == len(values):
        return [absent]
    return [joined(pieces(values), len(values)).fill_null(absent)]


def varints(numbers: pa.UInt64Array) -> Sequence[pa.BinaryArray]:
    """Unsigned integers, seven bits to a byte, the lowest first; two bytes at a time are looked up."""
    highest = pc.max(numbers).as_py() or 0
    table, pieces = _tables()[0], []
    while highest > _CHUNK_MASK:
        more = pc.if_else(pc.greater(numbers, _word(_CHUNK_MASK)), _word(1 << _CHUNK), _word(0))
        pieces.append(table.take(pc.bit_wise_or(pc.bit_wise_and(numbers, _word(_CHUNK_MASK)), more)))
        numbers, highest, table = pc.shift_right(numbers, _word(_CHUNK)), highest >> _CHUNK, _tables()[1]
    return [*pieces, table.take(numbers)]


def _word(number: int) -> pa.Scalar:
    return pa.scalar(number, pa.uint64())


@cache
def _tables() -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """The bytes of an integer's lowest chunk and of a later one: first where it is the last, then where more follow.

    A later chunk of zero with nothing behind it is no chunk.
    """
    last = [uvarint(number) for number in range(1 << _CHUNK)]
    full = [bytes((number & 0x7F | 0x80, number >> 7 | 0x80)) for number in range(1 << _CHUNK)]
    return pa.array([*last, *full], pa.binary()), pa.array([b"", *last[1:], *full], pa.binary())


def zigzag(numbers: pa.Array) -> pa.UInt64Array:
    """Signed integers as unsigned ones that stay small: 0, -1, 1, -2 become 0, 1, 2, 3."""
    wide = numbers.cast(pa.int64())
    zero, one, ones = (pa.scalar(number, pa.int64()) for number in (0, 1, -1))
    return pc.bit_wise_xor(pc.shift_left(wide, one), pc.if_else(pc.less(wide, zero), ones, zero)).view(pa.uint64())


def lengths(values: pa.BinaryArray) -> pa.UInt64Array:
    """How many bytes each value has."""
    return pc.binary_length(values).cast(pa.uint64())


def counted(values: pa.Array) -> Sequence[Piece]:
    """Avro's bytes and strings: a length, zigzagged as all integers are, and what it counts."""
    data = values.cast(pa.binary())
    return [*varints(pc.shift_left(lengths(data), _word(1))), data]


def raw(values: pa.Array) -> pa.BinaryArray:
    """The bytes of numbers as they are in memory, the lowest first."""
    return values.view(pa.binary(values.type.bit_width // 8)).cast(pa.binary())


def longs(values: pa.Array) -> Sequence[Piece]:
    """Avro's integers; the unsigned ones of 64 bits become the signed ones with the same bits."""
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.uint64()).view(pa.int64())
    return varints(zigzag(values))


def floats(values: pa.Array) -> Sequence[Piece]:
    """Avro's floats and doubles."""
    return [raw(finite(values))]


def mapped(values: pa.Array, write: Callable[[Any], bytes | None]) -> pa.BinaryArray:
    """Values that only Python can write, equal ones once."""
    if pa.types.is_list(values.type):
        return pa.array([None if value is None else write(value) for value in values.to_pylist()], pa.binary())
    encoded = values.dictionary_encode()
    return pa.array([write(value) for value in encoded.dictionary.to_pylist()], pa.binary()).take(encoded.indices)
