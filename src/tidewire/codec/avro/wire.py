"""What encoder, decoder and inspector share: Confluent's frame, TiCDC's control messages, Avro's binary form.

The reader is our own because it has to say at which byte and in which column a message is broken, and to refuse what
Avro libraries let pass: union branches below zero, integers beyond their width, lengths that lie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from struct import Struct
from typing import Any, Final, Literal, TypeAlias

from tidewire.errors import DecodeError

PROTOCOL: Final = "avro"
HEADER: Final = Struct(">BI")
CONTROL: Final = Struct(">BQ")
"""A watermark, or the marker of a delete: the kind and a ts."""

AvroType: TypeAlias = Literal["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
"""The primitive types; text is bytes to us, since TiDB's need not be UTF-8."""

_FLOAT, _DOUBLE = Struct("<f"), Struct("<d")


class Kind(IntEnum):
    """The first byte of a value. Only the first kind is Avro."""

    RECORD = 0
    DDL = 1
    WATERMARK = 2
    DELETE = 3


class Cursor:
    """A place in a message that moves on with every value read."""

    __slots__ = ("at", "data", "part")

    def __init__(self, data: bytes, part: str, at: int = 0) -> None:
        self.data, self.part, self.at = data, part, at

    def refuse(self, reason: str, at: int | None = None) -> DecodeError:
        """The error for this place, or for an earlier one."""
        return DecodeError(PROTOCOL, reason, self.at if at is None else at, self.part)

    def header(self) -> int:
        """The schema id of a framed record."""
        if len(self.data) < HEADER.size:
            raise self.refuse(f"{len(self.data)} bytes, at least {HEADER.size} were expected")
        magic, schema_id = HEADER.unpack_from(self.data)
        if magic != Kind.RECORD:
            raise self.refuse(f"the first byte is {magic}, 0 was expected")
        self.at = HEADER.size
        return int(schema_id)

    def long(self, bits: int = 64) -> int:
        """A zig-zag integer."""
        start, coded, shift = self.at, 0, 0
        while True:
            if self.at >= len(self.data):
                raise self.refuse("truncated integer", start)
            byte = self.data[self.at]
            self.at += 1
            coded |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 63:
                raise self.refuse("an integer of more than 10 bytes", start)
        if coded >> bits:
            raise self.refuse(f"an integer beyond {bits} bits", start)
        return coded >> 1 ^ -(coded & 1)

    def take(self, size: int) -> bytes:
        """So many bytes."""
        end = self.at + size
        if end > len(self.data):
            raise self.refuse(f"{size} bytes were expected, {len(self.data) - self.at} are left")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def blob(self) -> bytes:
        """Bytes behind their length."""
        start, size = self.at, self.long()
        if not 0 <= size <= len(self.data) - self.at:
            raise self.refuse(f"a length of {size} bytes, but {len(self.data) - self.at} are left", start)
        return self.take(size)

    def boolean(self) -> bool:
        """One byte, 0 or 1."""
        byte = self.take(1)[0]
        if byte > 1:
            raise self.refuse(f"{byte} is no boolean", self.at - 1)
        return byte == 1

    def end(self) -> None:
        """Nothing may follow."""
        if self.at < len(self.data):
            raise self.refuse(f"{len(self.data) - self.at} bytes after the end of the record")


READERS: Mapping[AvroType, Callable[[Cursor], Any]] = {
    "null": lambda _: None,
    "boolean": Cursor.boolean,
    "int": lambda cursor: cursor.long(32),
    "long": Cursor.long,
    "float": lambda cursor: _FLOAT.unpack(cursor.take(_FLOAT.size))[0],
    "double": lambda cursor: _DOUBLE.unpack(cursor.take(_DOUBLE.size))[0],
    "bytes": Cursor.blob,
    "string": Cursor.blob,
}


def long_bytes(number: int, bits: int = 64) -> bytes:
    """A zig-zag integer; ``OverflowError`` where it does not fit."""
    coded = number << 1 ^ number >> bits - 1
    if not 0 <= coded < 1 << bits:
        raise OverflowError(f"{number} does not fit {bits} bits")
    written = bytearray()
    while coded > 0x7F:
        written.append(coded & 0x7F | 0x80)
        coded >>= 7
    written.append(coded)
    return bytes(written)


def blob_bytes(data: bytes) -> bytes:
    """Bytes behind their length."""
    return long_bytes(len(data)) + data


WRITERS: Mapping[AvroType, Callable[[Any], bytes]] = {
    "null": lambda _: b"",
    "boolean": lambda flag: b"\x01" if flag else b"\x00",
    "int": lambda number: long_bytes(number, 32),
    "long": long_bytes,
    "float": _FLOAT.pack,
    "double": _DOUBLE.pack,
    "bytes": blob_bytes,
    "string": blob_bytes,
}


def signed(number: int) -> int:
    """An unsigned 64-bit integer as the signed one with the same bits."""
    if not 0 <= number < 1 << 64:
        raise OverflowError(f"{number} is not an unsigned 64-bit integer")
    return number - (1 << 64) if number >> 63 else number


def unsigned(number: int) -> int:
    """The way back from :func:`signed`."""
    return number & (1 << 64) - 1
