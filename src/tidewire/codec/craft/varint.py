"""Craft's integers: seven bits to a byte, the lowest first, and a checked way to read them.

A *uvarint* is an unsigned 64-bit number; every byte but its last has the top bit set. A *varint* is a signed one,
zigzagged first so that small negative numbers stay short: 0, -1, 1, -2 become 0, 1, 2, 3.
"""

from __future__ import annotations

from typing import Final

from tidewire.errors import DecodeError

PROTOCOL: Final = "craft"
_MASK: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63
_LONGEST: Final = 10
"""Bytes of the largest uvarint: 64 bits in sevens."""

_SHORT: Final = tuple(bytes([number]) for number in range(0x80))
"""The uvarints of one byte, which most are."""


def wrap_unsigned(number: int) -> int:
    """The number modulo 2^64, as Go's uint64 arithmetic leaves it."""
    return number & _MASK


def wrap_signed(number: int) -> int:
    """The number modulo 2^64 in the range of a signed integer, as Go's int64 arithmetic leaves it."""
    return (number + _SIGN & _MASK) - _SIGN


def uvarint(number: int) -> bytes:
    """An unsigned number; ``ValueError`` beyond 64 bits."""
    if 0 <= number <= 0x7F:
        return _SHORT[number]
    if not 0 <= number <= _MASK:
        raise ValueError(f"{number} is not an unsigned 64-bit integer")
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def varint(number: int) -> bytes:
    """A signed number; ``ValueError`` beyond 64 bits."""
    if not -_SIGN <= number < _SIGN:
        raise ValueError(f"{number} is not a signed 64-bit integer")
    return uvarint(number << 1 ^ number >> 63)


def reversed_uvarint(number: int) -> bytes:
    """A uvarint to be read from the end of a message towards its front."""
    return uvarint(number)[::-1]


class Cursor:
    """A place in a message and the end of its section; nothing beyond that end is read or believed."""

    __slots__ = ("at", "data", "end")

    def __init__(self, data: bytes, at: int, end: int) -> None:
        self.data = data
        self.at = at
        self.end = end

    @property
    def left(self) -> int:
        """How many bytes of the section have not been read."""
        return self.end - self.at

    def ahead(self) -> Cursor:
        """A second cursor at the same place, to look ahead with."""
        return Cursor(self.data, self.at, self.end)

    def refuse(self, reason: str, at: int | None = None) -> DecodeError:
        """The error to raise for what stands at the cursor, or at an earlier byte."""
        return DecodeError(PROTOCOL, reason, self.at if at is None else at, "value")

    def uvarint(self) -> int:
        """The next unsigned number."""
        number = shift = 0
        for at in range(self.at, min(self.end, self.at + _LONGEST)):
            byte = self.data[at]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                if number > _MASK:
                    break
                self.at = at + 1
                return number
            shift += 7
        else:
            if self.left < _LONGEST:
                raise self.refuse("truncated integer")
        raise self.refuse("an integer of more than 64 bits")

    def varint(self) -> int:
        """The next signed number."""
        number = self.uvarint()
        return number >> 1 ^ -(number & 1)

    def count(self, of: str, at_least: int = 1) -> int:
        """The next number as a count of things that take ``at_least`` bytes each; they must fit into what is left."""
        start = self.at
        number = self.uvarint()
        if number == 0:
            raise self.refuse(f"no {of}", start)
        if number * at_least > self.left:
            raise self.refuse(f"{number} {of}, but {self.left} bytes are left", start)
        return number

    def take(self, length: int) -> bytes:
        """The next ``length`` bytes."""
        if length > self.left:
            raise self.refuse(f"a length of {length} bytes, but {self.left} are left")
        start = self.at
        self.at += length
        return self.data[start : self.at]

    def finish(self, section: str) -> None:
        """The section must end here."""
        if self.left:
            raise self.refuse(f"{self.left} bytes more than the {section} needs")


def trailing_uvarint(data: bytes, start: int) -> tuple[int, int]:
    """The reversed uvarint a message ends with, and the byte it begins at; ``start`` bytes belong to others."""
    backwards = data[max(start, len(data) - _LONGEST) :][::-1]
    cursor = Cursor(backwards, 0, len(backwards))
    try:
        number = cursor.uvarint()
    except DecodeError as error:
        raise DecodeError(PROTOCOL, f"length of the size tables: {error.reason}", len(data), "value") from None
    return number, len(data) - cursor.at
