"""Results that are computed once for a table and used for each of its rows: filters, partitions and expressions do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from tidewire.model import TableSchema

T = TypeVar("T")

_MOST = 1024


class PerTable(Generic[T]):
    """A function of a table that remembers its results.

    Tables are compared by identity: rows share their table object, and comparing columns would cost more than it saves.
    """

    def __init__(self, make: Callable[[TableSchema], T]) -> None:
        self._make = make
        self._known: dict[int, tuple[TableSchema, T]] = {}

    def __call__(self, table: TableSchema) -> T:
        found = self._known.get(id(table))
        if found is not None:
            return found[1]
        if len(self._known) >= _MOST:
            self._known.clear()
        made = self._make(table)
        self._known[id(table)] = (table, made)
        return made
