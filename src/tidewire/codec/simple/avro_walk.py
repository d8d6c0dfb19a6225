"""Where each part of an Avro message stands: the inspector's ruler. Values are read as in the Avro protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tidewire.codec.avro.binary import Cursor, field_reader


class Stretch(NamedTuple):
    """Some bytes of a message: where they are, the path in the schema, what they are, and their value."""

    start: int
    end: int
    path: str
    what: str
    value: Any


class Walk:
    """Goes along one message as its schema says, and keeps the stretches it came by."""

    def __init__(self, schema: Any, data: bytes, part: str) -> None:
        self.stretches: list[Stretch] = []
        self._schema = schema
        self._named = {named["name"]: named for named in _named(schema)}
        self._cursor = Cursor(data, part)

    def to_the_end(self) -> None:
        """Go all the way; ``DecodeError`` if the message does not follow the schema."""
        self._over(self._schema, "")
        self._cursor.end()

    def _over(self, schema: Any, path: str) -> None:
        match schema:
            case str() if schema in self._named:
                self._over(self._named[schema], path)
            case "null":
                pass
            case str():
                self._note(path, "value", lambda cursor: _read(schema, cursor))
            case list():
                branch = self._note(path, "branch", lambda cursor: _index(schema, cursor), _branch_name(schema))
                self._over(schema[branch], path)
            case {"type": "enum", "symbols": symbols}:
                self._note(path, "value", lambda cursor: _index(symbols, cursor), symbols.__getitem__)
            case {"type": "record", "fields": fields}:
                for field in fields:
                    self._over(field["type"], f"{path}.{field['name']}" if path else field["name"])
            case {"type": "array", "items": items}:
                for number in self._items(path):
                    self._over(items, f"{path}[{number}]")
            case {"type": "map", "values": values}:
                for _ in self._items(path):
                    name = self._note(path, "key", lambda cursor: _read("string", cursor))
                    self._over(values, f"{path}.{name}")
            case _:
                raise ValueError(f"not an Avro schema Simple needs: {schema!r}")

    def _note(
        self, path: str, what: str, read: Callable[[Cursor], Any], shown: Callable[[Any], Any] = lambda value: value
    ) -> Any:
        start = self._cursor.at
        value = read(self._cursor)
        self.stretches.append(Stretch(start, self._cursor.at, path, what, shown(value)))
        return value

    def _items(self, path: str) -> Iterator[int]:
        number = 0
        while count := self._note(path, "count", _count):
            yield from range(number, number + count)
            number += count


def _read(type_: Any, cursor: Cursor) -> Any:
    """The next value of a primitive type. Text that is not UTF-8 comes out with lone surrogates."""
    value = field_reader(type_, None).read(cursor)
    return value.decode("utf-8", "surrogateescape") if type_ == "string" else value


def _index(choices: Sequence[Any], cursor: Cursor) -> int:
    start = cursor.at
    index: int = _read("long", cursor)
    if not 0 <= index < len(choices):
        raise cursor.refuse(f"{index} is not one of {len(choices)} choices", start)
    return index


def _count(cursor: Cursor) -> int:
    """How many items a block has; below zero its size in bytes follows."""
    count: int = _read("long", cursor)
    if count < 0:
        _read("long", cursor)
    return abs(count)


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
