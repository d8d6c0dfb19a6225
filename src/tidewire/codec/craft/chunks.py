"""Craft's chunks: many values of a kind one after the other; how many, the reader knows from elsewhere.

Writers return bytes. Readers are generators over a cursor, so that a reader that wants to know where each value stands
can look between two of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from tidewire.codec.craft.varint import Cursor, uvarint, varint, wrap_signed, wrap_unsigned


def uvarints(numbers: Iterable[int]) -> bytes:
    """Unsigned numbers."""
    return b"".join(map(uvarint, numbers))


def delta_uvarints(numbers: Sequence[int]) -> bytes:
    """The first number, then what each one adds to the one before, modulo 2^64."""
    return uvarint(numbers[0]) + uvarints(wrap_unsigned(number - last) for last, number in pairwise(numbers))


def delta_varints(numbers: Sequence[int]) -> bytes:
    """The first signed number, then what each one adds to the one before."""
    deltas = (wrap_signed(number - last) for last, number in pairwise(numbers))
    return b"".join(map(varint, (numbers[0], *deltas)))


def strings(values: Sequence[bytes]) -> bytes:
    """All lengths, then all bytes."""
    return uvarints(map(len, values)) + b"".join(values)


def nullable_strings(values: Sequence[bytes | None]) -> bytes:
    """All lengths, signed and -1 for null, then all bytes."""
    lengths = (-1 if value is None else len(value) for value in values)
    return b"".join(map(varint, lengths)) + b"".join(value for value in values if value is not None)


def size_table(sizes: Sequence[int]) -> bytes:
    """How many sizes, and the sizes."""
    return uvarint(len(sizes)) + delta_varints(sizes)


def read_uvarints(cursor: Cursor, count: int) -> Iterator[int]:
    """Unsigned numbers."""
    for _ in range(count):
        yield cursor.uvarint()


def read_delta_uvarints(cursor: Cursor, count: int) -> Iterator[int]:
    """Unsigned numbers from their differences."""
    number = 0
    for _ in range(count):
        number = wrap_unsigned(number + cursor.uvarint())
        yield number


def read_delta_varints(cursor: Cursor, count: int) -> Iterator[int]:
    """Signed numbers from their differences."""
    number = 0
    for _ in range(count):
        number = wrap_signed(number + cursor.varint())
        yield number


def read_lengths(cursor: Cursor, count: int) -> Iterator[int | None]:
    """The lengths of nullable values, ``None`` for null."""
    for _ in range(count):
        start = cursor.at
        length = cursor.varint()
        if length < -1:
            raise cursor.refuse(f"a length of {length} bytes", start)
        yield None if length == -1 else length


def read_sizes(cursor: Cursor, of: str) -> Iterator[int]:
    """One size table; a section cannot be smaller than nothing."""
    for size in read_delta_varints(cursor, cursor.count(f"sizes of {of}")):
        if size < 0:
            raise cursor.refuse(f"a size of {size} bytes in the sizes of {of}")
        yield size


class TermDictionary:
    """The names of a message being written; each gets the next number at its first use."""

    def __init__(self) -> None:
        self._ids: dict[bytes, int] = {}

    def id(self, term: bytes | None) -> int:
        """The number of a name, -1 for none."""
        return -1 if term is None else self._ids.setdefault(term, len(self._ids))

    def __bytes__(self) -> bytes:
        # Without terms not even their count is written: every watermark is such a message.
        return uvarint(len(self._ids)) + strings(list(self._ids)) if self._ids else b""


def read_terms(cursor: Cursor) -> Iterator[str]:
    """The names of a message, in the order of their numbers."""
    if not cursor.left:
        return
    lengths = list(read_uvarints(cursor, cursor.count("terms")))
    for number, length in enumerate(lengths):
        start = cursor.at
        try:
            yield cursor.take(length).decode()
        except UnicodeDecodeError:
            raise cursor.refuse(f"term {number} is not UTF-8", start) from None
    cursor.finish("term dictionary")
