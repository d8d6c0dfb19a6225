"""Which rows are replays: what staging may leave out, because the tables already have it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidewire.model import TableName
from tidewire.sync.manifest import Partition


@dataclass(frozen=True, slots=True)
class Floors:
    """The least ts of rows still wanted. Tables go by folded names.

    Rows below the applied watermark are replays, and so are rows of a table up to its last DDL, which ``changed`` has
    for every table that is known. A table nobody knows is another matter: ``partitions`` are as far as the watermark,
    but any other was found late, or not yet, and may bring tables that are new although their rows are old.
    """

    partitions: Mapping[Partition, int] = field(default_factory=dict)
    changed: Mapping[TableName, int] = field(default_factory=dict)
    applied: int = 0

    def first(self, partition: Partition, table: TableName) -> int:
        """The least ts of rows of a table that are wanted from a partition."""
        changed = self.changed.get(table.folded)
        return self.partitions.get(partition, 0) if changed is None else max(self.applied, changed + 1)

    def drops(self, partition: Partition, table: TableName, ts: int) -> bool:
        """Is a row a replay?"""
        return ts < self.first(partition, table)
