"""Tables as the target has them, where policies and masks let them differ from the upstream's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidewire.model import TableSchema


@dataclass(frozen=True, slots=True)
class Copy:
    """A table of the target, under the name it has there before it is routed.

    ``sources`` are the names of its columns upstream; ``None`` for one that upstream has no more.
    """

    table: TableSchema
    sources: tuple[str | None, ...]

    @classmethod
    def of(cls, table: TableSchema) -> Copy:
        """A table that is as upstream has it."""
        return cls(table, tuple(column.name for column in table.columns))

    @property
    def differing(self) -> dict[str, str | None]:
        """The columns that rows call otherwise, or do not have."""
        pairs = zip(self.table.columns, self.sources, strict=True)
        return {column.name: source for column, source in pairs if source != column.name}

    def to_plain(self, number: int) -> list[Any]:
        """The copy as a list; the table is a number in its document."""
        return [number, self.differing]

    @classmethod
    def from_plain(cls, table: TableSchema, differing: dict[str, str | None]) -> Copy:
        """The copy of a list."""
        return cls(table, tuple(differing.get(column.name, column.name) for column in table.columns))
