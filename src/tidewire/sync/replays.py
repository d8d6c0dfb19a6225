"""Which rows and DDL are replays, and how much must be remembered to tell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tidewire.model import TableName, TableSchema
from tidewire.model.tso import LOGICAL_BITS
from tidewire.sync.manifest import Partition

LOG_DAYS: Final = 7
"""The days of upstream time of which the log keeps the DDL; a replay goes back to the producer's checkpoint."""

LOG_LEAST: Final = 1_000
"""The least statements that the log keeps."""

SHAPES: Final = 100
"""The shapes of a table that are remembered if only its rows show how it changes."""


@dataclass(frozen=True, slots=True)
class Replays:
    """The least ts of rows that the tables do not have yet. Tables go by folded names.

    Rows below the applied watermark are replays, and so are rows of a table up to its last DDL, which ``changed`` has
    for every known table. For unknown tables the limit is per partition; partitions discovered late start at 0.
    ``held`` has the least ts of rows that held tables still need.
    """

    partitions: Mapping[Partition, int] = field(default_factory=dict)
    changed: Mapping[TableName, int] = field(default_factory=dict)
    applied: int = 0
    held: Mapping[TableName, int] = field(default_factory=dict)

    def first(self, partition: Partition, table: TableName | None) -> int:
        """The least ts of rows of a table that are wanted from a partition; of an unknown one if it is ``None``."""
        name = TableName("", "") if table is None else table.folded
        changed = self.changed.get(name)
        least = self.partitions.get(partition, 0) if changed is None else self.applied
        if name in self.held:
            least = min(least, self.held[name])
        return least if changed is None else max(least, changed + 1)

    def drops(self, partition: Partition, table: TableName, ts: int) -> bool:
        """Is a row a replay?"""
        return ts < self.first(partition, table)

    def floor(self, table: TableName) -> int:
        """The least ts of rows of a table that are wanted from partitions that are not late; they have one limit."""
        return self.first(next(iter(self.partitions), Partition("", 0)), table)


def log_horizon(times: Iterable[int], floor: int, applied: int) -> int:
    """The ts up to which executed DDL are forgotten; what comes again from there must be a replay."""
    known = sorted(times)
    old = applied - (LOG_DAYS * 24 * 3600 * 1000 << LOGICAL_BITS)
    return max([floor, *(ts for ts in known[:-LOG_LEAST] if ts <= old)])


def wanted_schemas(
    schemas: Iterable[TableSchema],
    floor: Callable[[TableName], int],
    gone: Mapping[TableName, int],
    needed: Collection[tuple[TableName, int | None]],
) -> list[TableSchema]:
    """The schemas that rows to come may refer to.

    ``floor`` gives the least ts of a table's rows that are still wanted. Of each table the schemas after it stay, and
    the two before it: a schema's version is a little older than the moment from which on it holds. Of a table that is
    ``gone`` only those after its last DDL stay. ``needed`` are names and versions that stay in any case.
    """
    listed = list(schemas)
    versions: dict[TableName, list[int]] = {}
    for schema in listed:
        versions.setdefault(schema.name, []).append(schema.version or 0)
    least: dict[TableName, int] = {}
    for name, found in versions.items():
        if name.folded in gone:
            least[name] = gone[name.folded] + 1
        else:
            least[name] = min(sorted({version for version in found if version <= floor(name)})[-2:], default=0)
    return [
        schema
        for schema in listed
        if (schema.version or 0) >= least[schema.name] or (schema.name, schema.version) in needed
    ]


def newest_shapes(shapes: Iterable[TableSchema]) -> list[TableSchema]:
    """The newest shapes of each table."""
    left: dict[TableName, int] = {}
    kept = []
    for shape in reversed(list(shapes)):
        left[shape.name] = left.get(shape.name, SHAPES) - 1
        if left[shape.name] >= 0:
            kept.append(shape)
    return kept[::-1]
