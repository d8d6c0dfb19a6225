"""Rows as records: a class for each shape of rows, so that the parser itself checks names and types.

A record has the attributes ``c0``, ``c1`` … in the order of its table's columns; their names on the wire are the
columns'. A parser for such a class refuses names it does not know and misses those that are not there, so a message
that parses has exactly this shape.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET

from tidewire.arrow.plan import Image, Plan


class Record(msgspec.Struct, gc=False, eq=False, forbid_unknown_fields=True):
    """What such a class is made of: it holds no cycles, is never compared, and has no other members."""


_KEPT: Final = 4096

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


def keep(known: dict[_K, _V], key: _K, value: _V) -> _V:
    """Remember something that can be made again; all of it is forgotten when it becomes too much."""
    if len(known) >= _KEPT:
        known.clear()
    known[key] = value
    return value


def record(wire_types: Iterable[tuple[str, Any]], *gap: Any) -> type[msgspec.Struct]:
    """The class for columns of these names and wire types. With a ``gap`` columns may be absent and have that instead.

    ``ValueError`` for a name that the parser cannot have.
    """
    columns = list(wire_types)
    fields = [(f"c{number}", type_, *gap) for number, (_, type_) in enumerate(columns)]
    names = {f"c{number}": name for number, (name, _) in enumerate(columns)}
    return msgspec.defstruct("Record", fields, bases=(Record,), rename=names)


def only(value: int | str) -> Any:
    """The type that has one value."""
    literal: Any = Literal
    return literal[value]


class Partial(tuple[Any, ...]):
    """An image that leaves out columns; they are ``UNSET``."""

    __slots__ = ()


class TuplePlan(Plan):
    """A plan whose images are tuples of wire values in the order of the columns."""

    def wire_values(self, images: Sequence[Image | None]) -> Iterator[Sequence[Any]]:
        """The values of each column, for its reader. What is absent is NULL."""
        width = len(self.columns)
        blank = (None,) * width
        rows = [blank if image is None else image for image in images]
        partial = any(type(row) is Partial for row in rows)
        for number in range(width):
            values = list(map(itemgetter(number), rows))
            yield [None if value is UNSET else value for value in values] if partial else values

    def absent(self, images: Sequence[Image | None]) -> Sequence[Sequence[int] | None]:
        """The numbers of the columns that each image leaves out, ``None`` for none."""
        return [
            [number for number, value in enumerate(image) if value is UNSET] if type(image) is Partial else None
            for image in images
        ]
