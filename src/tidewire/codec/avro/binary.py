"""Records in Avro's binary form, which fastavro reads and writes.

It is given schemas of our own, not the registered ones: they have the same bytes, but neither the defaults and names
that TiCDC writes in its own way, nor logical types, and text is bytes, since TiDB's need not be UTF-8.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from io import BytesIO
from typing import Any, Final, Literal, TypeAlias

from tidewire.codec.avro.wire import HEADER, PROTOCOL, AvroType, Kind
from tidewire.errors import DecodeError, MissingExtra

FieldType: TypeAlias = AvroType | Literal["record"]
"""A field's type. Of a record inside a record only its presence is read; its fields are read one by one."""

WireSchema: TypeAlias = Any
"""A schema as fastavro takes it."""

_FAILURES: Final = (EOFError, LookupError, ValueError, TypeError, ArithmeticError, MemoryError, struct.error)
"""What fastavro may raise at broken bytes."""


@cache
def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise MissingExtra("fastavro", "avro") from None
    return fastavro


def field_schema(type_: WireSchema, null_at: int | None = None) -> WireSchema:
    """A field's type, or its union with ``null`` at a place."""
    type_ = "bytes" if type_ == "string" else type_
    if null_at is None:
        return type_
    return ["null", type_] if null_at == 0 else [type_, "null"]


def record_schema(types: Iterable[WireSchema], name: str = "record") -> WireSchema:
    """A record of these types, whose fields have numbers for names."""
    fields = [{"name": f"_{number}", "type": type_} for number, type_ in enumerate(types)]
    return {"type": "record", "name": name, "fields": fields}


def record(values: Iterable[Any]) -> Mapping[str, Any]:
    """The values of a record's fields in order, as a value of :func:`record_schema`."""
    return {f"_{number}": value for number, value in enumerate(values)}


class Writer:
    """Writes the records of one schema. Values have to fit it: which one does not, only the caller could tell."""

    def __init__(self, schema: WireSchema) -> None:
        fastavro = _fastavro()
        self._write = fastavro.schemaless_writer
        self._schema = fastavro.parse_schema(schema)

    def write(self, values: Mapping[str, Any]) -> bytes:
        """A record's bytes."""
        written = BytesIO()
        self._write(written, self._schema, values)
        return written.getvalue()


class Cursor:
    """A place in a framed record that moves on with every field read.

    Fields are read one at a time, so that an error knows its column and byte.
    What fastavro lets pass is refused here: branches below zero, integers beyond their width, booleans that are 7.
    """

    __slots__ = ("at", "data", "part", "stream")

    def __init__(self, data: bytes, part: str) -> None:
        self.data, self.part, self.at = data, part, 0
        self.stream = BytesIO(data)

    def refuse(self, reason: str, at: int | None = None) -> DecodeError:
        """The error for this place, or for an earlier one."""
        return DecodeError(PROTOCOL, reason, self.at if at is None else at, self.part)

    def header(self) -> int:
        """The schema id before the record."""
        if len(self.data) < HEADER.size:
            raise self.refuse(f"{len(self.data)} bytes, at least {HEADER.size} were expected")
        magic, schema_id = HEADER.unpack(self.stream.read(HEADER.size))
        if magic != Kind.RECORD:
            raise self.refuse(f"the first byte is {magic}, 0 was expected")
        self.at = HEADER.size
        return int(schema_id)

    def end(self) -> None:
        """Nothing may follow."""
        if self.at < len(self.data):
            raise self.refuse(f"{len(self.data) - self.at} bytes after the end of the record")


class FieldReader:
    """Reads the fields of one type; ``null_at`` is the place of ``null`` in their union, if they are one."""

    def __init__(self, type_: FieldType, null_at: int | None) -> None:
        fastavro = _fastavro()
        self._type, self._is_union = type_, null_at is not None
        wire = record_schema((), "inner") if type_ == "record" else type_
        self._schema = fastavro.parse_schema(record_schema([field_schema(wire, null_at)]))
        self._read = fastavro.schemaless_reader
        self._check = _CHECKS.get(type_)

    def read(self, cursor: Cursor) -> Any:
        """The next field's value; ``None`` if a union is null."""
        data, start = cursor.data, cursor.at
        # That a message ends too early is left to fastavro to find.
        if self._is_union and start < len(data) and data[start] not in _BRANCHES:
            raise cursor.refuse(f"no branch of a union of two is {data[start]:#04x}")
        try:
            value = self._read(cursor.stream, self._schema, None)["_0"]
        except _FAILURES as error:
            left = len(data) - start
            raise cursor.refuse(f"no whole field of type {self._type} in the {left} bytes that are left") from error
        end = cursor.stream.tell()
        if value is not None and self._check is not None:
            reason = self._check(data, start + self._is_union, end, value)
            if reason is not None:
                raise cursor.refuse(reason)
        cursor.at = end
        return value


@cache
def field_reader(type_: FieldType, null_at: int | None) -> FieldReader:
    """The reader of a type of fields: some twenty do for all tables."""
    return FieldReader(type_, null_at)


_BRANCHES: Final = (0, 2)
"""The bytes of the first branch and the second."""


def _integer(data: bytes, start: int, end: int, _: int) -> str | None:
    """Integers have up to ten bytes, of which the last has one bit; fastavro drops what is beyond."""
    if end - start < 10 or (end - start == 10 and data[end - 1] < 2):
        return None
    return "an integer beyond 64 bits"


def _int(data: bytes, start: int, end: int, value: int) -> str | None:
    if -1 << 31 <= value < 1 << 31:
        return _integer(data, start, end, value)
    return "an integer beyond 32 bits"


def _bytes(data: bytes, start: int, end: int, value: bytes) -> str | None:
    return _integer(data, start, end - len(value), len(value))


def _boolean(data: bytes, start: int, _: int, __: bool) -> str | None:
    return None if data[start] < 2 else f"{data[start]} is no boolean"


_CHECKS: Mapping[FieldType, Callable[[bytes, int, int, Any], str | None]] = {
    "boolean": _boolean,
    "int": _int,
    "long": _integer,
    "bytes": _bytes,
    "string": _bytes,
}
"""What is wrong with a value that was read from the bytes between two places."""
