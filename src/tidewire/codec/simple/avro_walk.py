"""Where each part of an Avro message stands: the inspector's ruler. fastavro, which reads messages, does not tell."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple


class Stretch(NamedTuple):
    """Some bytes of a message: where they are, the path in the schema, what they are, and their value."""

    start: int
    end: int
    path: str
    what: str
    value: Any


class Walk:
    """Goes along one message as its schema says, and keeps the stretches it came by."""

    def __init__(self, schema: Any, data: bytes) -> None:
        self.stretches: list[Stretch] = []
        self._schema = schema
        self._named = {named["name"]: named for named in _named(schema)}
        self._data = data
        self._at = 0

    def to_the_end(self) -> None:
        """Walk the whole path; raises ``ValueError`` if a step of it does not exist."""
        self._over(self._schema, "")
        if self._at < len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes after the end of the message")

    def _over(self, schema: Any, path: str) -> None:
        match schema:
            case str() if schema in self._named:
                self._over(self._named[schema], path)
            case str():
                self._note(path, "value", _PRIMITIVES[schema])
            case list():
                branch = schema[self._note(path, "branch", lambda walk: walk._index(schema), _branch_name(schema))]
                self._over(branch, path)
            case {"type": "enum", "symbols": symbols}:
                self._note(path, "value", lambda walk: walk._index(symbols), symbols.__getitem__)
            case {"type": "record", "fields": fields}:
                for field in fields:
                    self._over(field["type"], f"{path}.{field['name']}" if path else field["name"])
            case {"type": "array", "items": items}:
                for number in self._items(path):
                    self._over(items, f"{path}[{number}]")
            case {"type": "map", "values": values}:
                for _ in self._items(path):
                    name = self._note(path, "key", _PRIMITIVES["string"])
                    self._over(values, f"{path}.{name}")
            case _:
                raise ValueError(f"not an Avro schema Simple needs: {schema!r}")

    def _note(
        self, path: str, what: str, read: Callable[[Walk], Any], shown: Callable[[Any], Any] = lambda value: value
    ) -> Any:
        start = self._at
        value = read(self)
        if self._at > start:
            self.stretches.append(Stretch(start, self._at, path, what, shown(value)))
        return value

    def _items(self, path: str) -> Iterator[int]:
        number = 0
        while count := self._note(path, "count", Walk._count):
            yield from range(number, number + count)
            number += count

    def _count(self) -> int:
        """How many items a block has; below zero its size in bytes follows."""
        count = self._long()
        if count < 0:
            self._long()
        return abs(count)

    def _index(self, choices: list[Any]) -> int:
        index = self._long()
        if not 0 <= index < len(choices):
            raise ValueError(f"{index} is not one of {len(choices)} choices")
        return index

    def _long(self) -> int:
        number = shift = 0
        byte = 0x80
        while byte >= 0x80:
            if shift > 63:
                raise ValueError("an integer of more than 64 bits")
            byte = self._take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
        return number >> 1 ^ -(number & 1)

    def _take(self, count: int) -> bytes:
        left = len(self._data) - self._at
        if not 0 <= count <= left:
            raise ValueError(f"{count} bytes were expected, {left} are left")
        self._at += count
        return self._data[self._at - count : self._at]


_PRIMITIVES: Mapping[str, Callable[[Walk], Any]] = {
    "null": lambda walk: None,
    "boolean": lambda walk: walk._take(1) != b"\0",
    "int": Walk._long,
    "long": Walk._long,
    "float": lambda walk: struct.unpack("<f", walk._take(4))[0],
    "double": lambda walk: struct.unpack("<d", walk._take(8))[0],
    "bytes": lambda walk: walk._take(walk._long()),
    "string": lambda walk: walk._take(walk._long()).decode("utf-8", "surrogateescape"),
}


def _named(schema: Any) -> Iterator[Any]:
    """Every record and enum of a schema. Short names are enough: Simple's are all in one namespace."""
    match schema:
        case list():
            for branch in schema:
                yield from _named(branch)
        case {"type": "record", "fields": fields}:
            yield schema
            for field in fields:
                yield from _named(field["type"])
        case {"type": "enum"}:
            yield schema


def _branch_name(union: list[Any]) -> Callable[[int], str]:
    names = [branch if isinstance(branch, str) else branch.get("name", branch["type"]) for branch in union]
    return names.__getitem__
