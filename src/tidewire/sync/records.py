"""Records as plain values: what annotations say of a dataclass, NamedTuple or Struct, as lists, and back.

A record becomes the list of its fields, a mapping becomes pairs unless its keys are texts, an enum becomes its value,
and a table schema becomes a number: each is written once. A record of a union is told apart by its class name. The
plain values of equal records are equal in every process.

A list that is shorter than its record is completed with the defaults of the missing fields: it is from a release that
did not have them.
"""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Callable, Mapping, Set
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from enum import Enum
from functools import cache
from operator import attrgetter
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from tidewire.model import TableSchema


def packed(document: object) -> tuple[list[Any], Any]:
    """The plain values of a record: its schemas by number, and the rest."""
    numbers = Numbers()
    body = _whole(codec(type(document)))[0](document, numbers)
    return numbers.packed, body


def unpacked(kind: type[Document], schemas: list[Any], body: Any) -> Document:
    """The record of one kind that plain values stand for."""
    unpack = _whole(record(TableSchema))[1]
    found: Document = _whole(codec(kind))[1](body, [unpack(each, []) for each in schemas])
    return found


def digest(document: object) -> str:
    """Twelve hexadecimal digits that are the same for equal records in every process."""
    text = json.dumps(packed(document), default=lambda value: {"bytes": value.hex()}, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# Schemas


class Numbers:
    """The schemas of a document that is being written; each is written once and gets a number."""

    def __init__(self) -> None:
        self.packed: list[Any] = []
        self._by_id: dict[int, int] = {}
        self._by_value: dict[TableSchema, int] = {}

    def number(self, schema: TableSchema) -> int:
        """The number of a schema."""
        found = self._by_id.get(id(schema))
        if found is None:
            found = self._by_value.setdefault(schema, len(self.packed))
            self._by_id[id(schema)] = found
            if found == len(self.packed):
                self.packed.append(_whole(record(TableSchema))[0](schema, self))
        return found


Pack: TypeAlias = Callable[[Any, Numbers], Any]
Unpack: TypeAlias = Callable[[Any, list[TableSchema]], Any]

Document = TypeVar("Document")


# Types


class Codec(NamedTuple):
    """How values of a type are written and read; ``None`` if they are written or read as they are."""

    pack: Pack | None
    unpack: Unpack | None


_AS_IT_IS: Final = Codec(None, None)

_SCHEMA: Final = Codec(lambda schema, numbers: numbers.number(schema), lambda number, schemas: schemas[number])

_PLAIN: Final = frozenset({bool, int, float, str, bytes, types.NoneType, Any})


def codec(kind: Any) -> Codec:
    """The codec of a type as annotations write it."""
    return _codec(kind)


@cache
def _codec(kind: Any) -> Codec:
    origin = get_origin(kind)
    if kind in _PLAIN or origin is Literal:
        return _AS_IT_IS
    if kind is TableSchema:
        return _SCHEMA
    if origin is Annotated:
        return codec(get_args(kind)[0])
    if origin in (Union, types.UnionType):
        return _union(get_args(kind))
    if origin is tuple:
        return _tuple(get_args(kind))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(*map(codec, get_args(kind)), texts=get_args(kind)[0] is str)
    if isinstance(origin, type) and issubclass(origin, Set):
        return _set(codec(get_args(kind)[0]))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Codec(None, lambda value, _: kind(value))
    return record(kind)


def _tuple(parts: tuple[Any, ...]) -> Codec:
    if len(parts) == 2 and parts[1] is Ellipsis:
        pack, unpack = codec(parts[0])
        return Codec(
            pack and (lambda values, numbers: [pack(value, numbers) for value in values]),
            (lambda values, schemas: tuple([unpack(value, schemas) for value in values]))
            if unpack
            else (lambda values, _: tuple(values)),
        )
    packs, unpacks = zip(*map(_whole, map(codec, parts)), strict=True)
    return Codec(
        lambda values, numbers: [pack(value, numbers) for pack, value in zip(packs, values, strict=True)],
        lambda values, schemas: tuple([unpack(value, schemas) for unpack, value in zip(unpacks, values, strict=True)]),
    )


def _mapping(key: Codec, value: Codec, *, texts: bool) -> Codec:
    (pack_key, unpack_key), (pack, unpack) = _whole(key), _whole(value)
    if texts:
        return Codec(
            lambda values, numbers: {name: pack(each, numbers) for name, each in values.items()},
            lambda values, schemas: {name: unpack(each, schemas) for name, each in values.items()},
        )
    return Codec(
        lambda values, numbers: [(pack_key(name, numbers), pack(each, numbers)) for name, each in values.items()],
        lambda pairs, schemas: {unpack_key(name, schemas): unpack(each, schemas) for name, each in pairs},
    )


def _set(member: Codec) -> Codec:
    pack, unpack = _whole(member)
    return Codec(
        lambda values, numbers: [pack(value, numbers) for value in sorted(values)],
        lambda values, schemas: frozenset([unpack(value, schemas) for value in values]),
    )


def _union(members: tuple[Any, ...]) -> Codec:
    """Of plain types, of one type or ``None``, or of records, which are told apart by their names."""
    if all(codec(member) is _AS_IT_IS for member in members):
        return _AS_IT_IS
    rest = [member for member in members if member is not types.NoneType]
    one = codec(rest[0]) if len(rest) == 1 else _tagged(rest)
    if len(rest) == len(members):
        return one
    pack, unpack = one
    return Codec(
        pack and (lambda value, numbers: None if value is None else pack(value, numbers)),
        unpack and (lambda value, schemas: None if value is None else unpack(value, schemas)),
    )


def _tagged(kinds: list[type]) -> Codec:
    codecs = {kind: _whole(record(kind)) for kind in kinds}
    packs = {kind: pack for kind, (pack, _) in codecs.items()}
    unpacks = {kind.__name__: unpack for kind, (_, unpack) in codecs.items()}
    return Codec(
        lambda value, numbers: [type(value).__name__, *packs[type(value)](value, numbers)],
        lambda values, schemas: unpacks[values[0]](values[1:], schemas),
    )


@cache
def record(kind: type) -> Codec:
    """The codec of a dataclass, NamedTuple or Struct: the list of its fields."""
    hints, names = get_type_hints(kind, include_extras=True), _names(kind)
    codecs = [(place, codec(hints[name])) for place, name in enumerate(names)]
    packs = [(place, pack) for place, (pack, _) in codecs if pack]
    unpacks = [(place, unpack) for place, (_, unpack) in codecs if unpack]
    get = attrgetter(*names) if len(names) > 1 else lambda value: [getattr(value, name) for name in names]

    def pack(value: Any, numbers: Numbers) -> list[Any]:
        values = list(get(value))
        for place, each in packs:
            values[place] = each(values[place], numbers)
        return values

    def unpack(values: list[Any], schemas: list[TableSchema]) -> Any:
        count = len(values)
        for place, each in unpacks:
            if place < count:
                values[place] = each(values[place], schemas)
        return kind(*values)

    return Codec(None if issubclass(kind, tuple) and not packs else pack, unpack)


def _names(kind: Any) -> tuple[str, ...]:
    if is_dataclass(kind):
        return tuple(field.name for field in dataclass_fields(kind))
    for attribute in ("_fields", "__struct_fields__"):
        if hasattr(kind, attribute):
            return tuple(getattr(kind, attribute))
    raise TypeError(f"{kind!r} cannot be part of a document: give a dataclass, NamedTuple, Struct, enum or plain type")


def _whole(found: Codec) -> tuple[Pack, Unpack]:
    """A codec whose halves can be called."""
    return found.pack or _same, found.unpack or _same


def _same(value: Any, _: object) -> Any:
    return value
