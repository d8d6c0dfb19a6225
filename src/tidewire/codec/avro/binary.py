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


def _fastavro() -> Any:
    try:
        import fastavro
    except ImportError:
        raise MissingExtra("fastavro", "avro") from None
    return fastavro


def optional(type_: WireSchema, null_at: int | None) -> WireSchema:
    """A type, or its union with ``null`` at a place."""
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

    def __init__(self, data: bytes, part: str) -> None:
        self.data, self.part = data, part
        self._stream = BytesIO(data)
        self._read = _fastavro().schemaless_reader

    @property
    def at(self) -> int:
        """The byte the cursor is at."""
        return self._stream.tell()

    @at.setter
    def at(self, place: int) -> None:
        self._stream.seek(place)

    def refuse(self, reason: str, at: int | None = None) -> DecodeError:
        """The error for this place, or for an earlier one."""
        return DecodeError(PROTOCOL, reason, self.at if at is None else at, self.part)

    def header(self) -> int:
        """The schema id before the record."""
        if len(self.data) < HEADER.size:
            raise self.refuse(f"{len(self.data)} bytes, at least {HEADER.size} were expected")
        magic, schema_id = HEADER.unpack_from(self.data)
        if magic != Kind.RECORD:
            raise self.refuse(f"the first byte is {magic}, 0 was expected")
        self.at = HEADER.size
        return int(schema_id)

    def field(self, type_: FieldType, null_at: int | None) -> Any:
        """The next field's value; ``None`` where a union is null."""
        start = self.at
        if null_at is not None and self.data[start : start + 1] not in _BRANCHES:
            raise self.refuse(f"no branch of a union of two is {self.data[start]:#04x}", start)
        try:
            value = self._read(self._stream, _field_schema(type_, null_at), None)["_0"]
        except _FAILURES as error:
            left = len(self.data) - start
            raise self.refuse(f"no whole field of type {type_} in the {left} bytes that are left", start) from error
        check = _CHECKS.get(type_)
        if check is not None and value is not None:
            end = self.at - len(value) if isinstance(value, bytes) else self.at
            reason = check(self.data[start if null_at is None else start + 1 : end], value)
            if reason is not None:
                raise self.refuse(reason, start)
        return value

    def end(self) -> None:
        """Nothing may follow."""
        if self.at < len(self.data):
            raise self.refuse(f"{len(self.data) - self.at} bytes after the end of the record")


_BRANCHES: Final = (b"\0", b"\2", b"")  # the first and the second; that a message ends is fastavro's to say


@cache
def _field_schema(type_: FieldType, null_at: int | None) -> WireSchema:
    """The schema of a single field: there are only some twenty, whatever the tables."""
    wire = record_schema((), "inner") if type_ == "record" else type_
    return _fastavro().parse_schema(record_schema([optional(wire, null_at)]))


def _long(coded: bytes, _: Any) -> str | None:
    """Integers have up to ten bytes, of which the last has one bit; fastavro drops what is beyond."""
    beyond = len(coded) > 10 or (len(coded) == 10 and coded[9] > 1)
    return "an integer beyond 64 bits" if beyond else None


def _int(coded: bytes, value: int) -> str | None:
    return _long(coded, value) or (None if -1 << 31 <= value < 1 << 31 else "an integer beyond 32 bits")


def _boolean(coded: bytes, _: bool) -> str | None:
    return None if coded in (b"\0", b"\1") else f"{coded[0]} is no boolean"


_CHECKS: Mapping[FieldType, Callable[[bytes, Any], str | None]] = {
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "bytes": _long,
    "string": _long,
}
"""What is wrong with a value, by its bytes; of bytes and text those of their length."""
