"""Avro's binary form, as far as Simple's schema uses it: values in and out, and where each byte belongs.

An own reader, because a message may be anything: this one checks every length, count and branch number before it
acts on it, refuses what general readers let pass (a branch number below zero, a boolean that is 7, a column that is
there twice, bytes after the end), names the place, and takes strings that are not UTF-8, which the server sends.
The inspector looks over its shoulder.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from tidewire.codec.jsontext import shown
from tidewire.codec.simple.wire import PROTOCOL
from tidewire.errors import DecodeError


class Primitive(StrEnum):
    """Avro's simple types."""

    NULL = "null"
    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    STRING = "string"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Enum:
    """One of some words."""

    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """Many of a type."""

    items: Type


@dataclass(frozen=True, slots=True)
class Map:
    """Many of a type, by name."""

    values: Type


@dataclass(frozen=True, slots=True)
class Union:
    """One of several types, by name."""

    branches: Mapping[str, Type]

    @property
    def is_optional(self) -> bool:
        """Is this one type or null? Then the value itself tells the branch."""
        return len(self.branches) == 2 and Primitive.NULL in self.branches


@dataclass(frozen=True, slots=True)
class Record:
    """Named fields in a fixed order."""

    fields: Mapping[str, Type]


Type: TypeAlias = Primitive | Enum | Array | Map | Union | Record


class Branch(NamedTuple):
    """A value of a union that says which branch it is."""

    name: str
    value: Any


def parse(schema: Any, named: dict[str, Type] | None = None) -> Type:
    """A schema from its JSON form. Short names are enough: Simple's are all in one namespace."""
    named = {} if named is None else named
    match schema:
        case str():
            return named[schema] if schema in named else Primitive(schema)
        case list():
            return Union({_branch_name(branch): parse(branch, named) for branch in schema})
        case {"type": "array", "items": items}:
            return Array(parse(items, named))
        case {"type": "map", "values": values}:
            return Map(parse(values, named))
        case {"type": "enum", "name": name, "symbols": symbols}:
            return named.setdefault(name, Enum(tuple(symbols)))
        case {"type": "record", "name": name, "fields": fields}:
            return named.setdefault(name, Record({field["name"]: parse(field["type"], named) for field in fields}))
        case _:
            raise ValueError(f"not an Avro schema Simple needs: {schema!r}")


def _branch_name(schema: Any) -> str:
    return str(schema if isinstance(schema, str) else schema.get("name", schema["type"]))


Note = Callable[[int, int, str, str, Any], None]
"""Told of every stretch of bytes: begin, end, path, what it is (``value``, ``branch``, …), and its value."""


class Reader:
    """Reads values of a schema from one message."""

    def __init__(self, data: bytes, part: str, note: Note | None = None) -> None:
        self.data = data
        self.at = 0
        self._part = part
        self._path: list[str] = []
        self._note = note

    def whole(self, type_: Type) -> Any:
        """The one value that fills the message."""
        value = self.read(type_)
        if self.at < len(self.data):
            raise self.refuse(f"{len(self.data) - self.at} bytes after the end of the message")
        return value

    def read(self, type_: Type) -> Any:
        """The next value. A record is a dict, and so is a map; a union's value says its branch, if not optional."""
        match type_:
            case Primitive():
                start = self.at
                value = _READERS[type_](self)
                self._tell(start, "value", value)
                return value
            case Enum(symbols):
                start = self.at
                value = symbols[self._index(len(symbols), "word")]
                self._tell(start, "value", value)
                return value
            case Union(branches):
                start = self.at
                names = tuple(branches)
                name = names[self._index(len(names), "branch")]
                self._tell(start, "branch", name)
                value = self.read(branches[name])
                return value if type_.is_optional else Branch(name, value)
            case Record(fields):
                return {name: self._inside(name, inner) for name, inner in fields.items()}
            case Array(items):
                return [self._inside(f"[{number}]", items) for number in self._items()]
            case Map(values):
                return self._map(values)

    def refuse(self, reason: str, at: int | None = None) -> DecodeError:
        """The error for the place the reader is at."""
        where = f"{self.path}: " if self._path else ""
        return DecodeError(PROTOCOL, f"not Avro: {where}{reason}", self.at if at is None else at, self._part)

    @property
    def path(self) -> str:
        """Where in the schema the reader is: ``payload.tableSchema.columns[0].name``."""
        return ".".join(self._path).replace(".[", "[")

    def _tell(self, start: int, what: str, value: Any) -> None:
        if self._note is not None:
            self._note(start, self.at, self.path, what, value)

    def _inside(self, name: str, type_: Type) -> Any:
        self._path.append(name)
        value = self.read(type_)
        self._path.pop()
        return value

    def _map(self, values: Type) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in self._items():
            start = self.at
            name = self._string()
            self._tell(start, "key", name)
            if name in found:
                raise self.refuse(f"{shown(name)} is there twice", start)
            found[name] = self._inside(name, values)
        return found

    def _items(self) -> Iterator[int]:
        """One number per item; no item of Simple's schema is empty, so no count can be larger than what is left."""
        number = 0
        while count := self._block():
            yield from range(number, number + count)
            number += count

    def _block(self) -> int:
        start = self.at
        count = self._long()
        if count < 0:
            count = -count
            size = self._long()
            if not 0 <= size <= len(self.data) - self.at:
                raise self.refuse(f"a block of {size} bytes, but {len(self.data) - self.at} are left", start)
        if count > len(self.data) - self.at:
            raise self.refuse(f"{count} items, but {len(self.data) - self.at} bytes are left", start)
        self._tell(start, "count", count)
        return count

    def _index(self, count: int, what: str) -> int:
        start = self.at
        index = self._long()
        if not 0 <= index < count:
            raise self.refuse(f"{index} is no {what}, there are {count}", start)
        return index

    def _null(self) -> None:
        """Nothing at all."""

    def _boolean(self) -> bool:
        """One byte, 0 or 1."""
        byte = self._take(1)[0]
        if byte > 1:
            raise self.refuse(f"{byte} is neither true nor false", self.at - 1)
        return bool(byte)

    def _long(self) -> int:
        """A 64-bit integer: zigzag, seven bits to a byte, the lowest first."""
        start, number = self.at, 0
        for shift in range(0, 70, 7):
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        if byte >= 0x80 or number >> 64:
            raise self.refuse("an integer of more than 64 bits", start)
        return number >> 1 ^ -(number & 1)

    def _int(self) -> int:
        """A 32-bit integer, written like a long."""
        start = self.at
        number = self._long()
        if not -1 << 31 <= number < 1 << 31:
            raise self.refuse(f"{number} is no 32-bit integer", start)
        return number

    def _float(self) -> float:
        """Four bytes, the lowest first."""
        return float(struct.unpack("<f", self._take(4))[0])

    def _double(self) -> float:
        """Eight bytes, the lowest first."""
        return float(struct.unpack("<d", self._take(8))[0])

    def _bytes(self) -> bytes:
        """A length and so many bytes."""
        start = self.at
        length = self._long()
        if not 0 <= length <= len(self.data) - self.at:
            raise self.refuse(f"a length of {length}, but {len(self.data) - self.at} bytes are left", start)
        return self._take(length)

    def _string(self) -> str:
        """Bytes that are text; what is not UTF-8 comes out as lone surrogates."""
        return self._bytes().decode("utf-8", "surrogateescape")

    def _take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise self.refuse("the message ends here", len(self.data))
        taken = self.data[self.at : end]
        self.at = end
        return taken


_READERS: Mapping[Primitive, Callable[[Reader], Any]] = {
    Primitive.NULL: Reader._null,
    Primitive.BOOLEAN: Reader._boolean,
    Primitive.INT: Reader._int,
    Primitive.LONG: Reader._long,
    Primitive.FLOAT: Reader._float,
    Primitive.DOUBLE: Reader._double,
    Primitive.STRING: Reader._string,
    Primitive.BYTES: Reader._bytes,
}


def write(type_: Type, value: Any) -> bytes:
    """A value of a schema; ``ValueError`` or its kin where it is none. Arrays and maps are one block each."""
    match type_:
        case Primitive():
            return _WRITERS[type_](value)
        case Enum(symbols):
            return _long(symbols.index(value))
        case Union(branches):
            name, inner = value if isinstance(value, Branch) else _optional(type_, value)
            return _long(tuple(branches).index(name)) + write(branches[name], inner)
        case Record(fields):
            return b"".join(write(inner, value.get(name)) for name, inner in fields.items())
        case Array(items):
            return _blocks([write(items, item) for item in value])
        case Map(values):
            return _blocks([_string(name) + write(values, item) for name, item in value.items()])


def _optional(union: Union, value: Any) -> Branch:
    """The branch of a value that does not say it: null, or the only other one."""
    if value is not None and not union.is_optional:
        raise ValueError(f"{shown(value)} does not say which of {', '.join(union.branches)} it is")
    return Branch(next(name for name in union.branches if (name == Primitive.NULL) is (value is None)), value)


def _blocks(items: list[bytes]) -> bytes:
    return _long(len(items)) + b"".join(items) + b"\0" if items else b"\0"


def _long(value: int) -> bytes:
    if not -1 << 63 <= value < 1 << 63:
        raise ValueError(f"{value} does not fit 64 bits")
    number = value << 1 ^ value >> 63
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _bytes(value: bytes) -> bytes:
    return _long(len(value)) + value


def _string(value: str | bytes) -> bytes:
    return _bytes(value if isinstance(value, bytes) else value.encode("utf-8", "surrogateescape"))


_WRITERS: Mapping[Primitive, Callable[[Any], bytes]] = {
    Primitive.NULL: lambda _: b"",
    Primitive.BOOLEAN: lambda value: b"\1" if value else b"\0",
    Primitive.INT: _long,
    Primitive.LONG: _long,
    Primitive.FLOAT: struct.Struct("<f").pack,
    Primitive.DOUBLE: struct.Struct("<d").pack,
    Primitive.STRING: _string,
    Primitive.BYTES: _bytes,
}
