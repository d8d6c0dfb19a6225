"""Rows as records: a class for each shape of rows, so that the parser itself checks names and types.

A record has the attributes ``c0``, ``c1`` … in the order of its table's columns; their names on the wire are the
columns'. A parser for such a class refuses names it does not know and misses those that are not there, so a message
that parses has exactly this shape.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, Final, Literal, TypeVar

import msgspec

from tidewire.arrow.convert import Reader
from tidewire.arrow.plan import Image, Plan
from tidewire.model import Column, TableSchema

STRICT: Final[dict[str, bool]] = {"gc": False, "eq": False, "forbid_unknown_fields": True}
"""Records hold no cycles and are never compared."""

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
    return msgspec.defstruct("Record", fields, rename=names, **STRICT)


def only(value: int | str) -> Any:
    """The type that has one value."""
    literal: Any = Literal
    return literal[value]


class RecordPlan(Plan):
    """A plan whose images are records."""

    def __init__(
        self, table: TableSchema, reader_of: Callable[[Column], Reader], *, gap: Any, value: str = ""
    ) -> None:
        """``gap`` is what an absent column has; ``value`` leads from an attribute to the column's value."""
        super().__init__(table, reader_of)
        names = [f"c{number}" for number in range(len(table.columns))]
        self._gap, self._gaps_have_values = gap, bool(value)
        self._blank = SimpleNamespace(**dict.fromkeys(names, gap))
        self._attributes = [attrgetter(name) for name in names]
        self._values = [attrgetter(name + value) for name in names]

    def wire_values(self, images: Sequence[Image | None]) -> Iterator[Sequence[Any]]:
        """The values of each column, for its reader. What is absent is NULL."""
        gap, records = self._gap, self._records(images)
        for value in self._values:
            values = list(map(value, records))
            if self._gaps_have_values or gap not in values:
                yield values
            else:
                yield [None if value is gap else value for value in values]

    def absent(self, images: Sequence[Image | None]) -> Sequence[Sequence[int] | None]:
        """The numbers of the columns that each image leaves out, ``None`` for none."""
        found: list[list[int] | None] = [None] * len(images)
        gap, records = self._gap, self._records(images)
        if images.count(None) == len(images):
            return found
        for number, attribute in enumerate(self._attributes):
            column = list(map(attribute, records))
            for row in range(len(column)) if gap in column else ():
                if column[row] is gap and images[row] is not None:
                    found[row] = [*(found[row] or ()), number]
        return found

    def _records(self, images: Sequence[Image | None]) -> Sequence[Image]:
        blank = self._blank
        return [blank if image is None else image for image in images]
