"""What a changefeed reads from: the contract of a source, and what can be done with its batches of rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from tidewire.model import Ddl, RowChange, TableName, TableSchema

if TYPE_CHECKING:
    import pyarrow as pa

ResumePosition: TypeAlias = Mapping[str, Any]
"""Where a source resumes. Each source has its own form, in plain JSON values, because checkpoints store it."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Everything with a commit ts up to ``ts`` has been read, and nothing after it.

    Reading again from ``place`` gives the changes after it, with the same commit timestamps.
    """

    ts: int
    place: ResumePosition


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Many changes of one table, in columns and in commit order, as :mod:`tidewire.arrow.plan` describes them.

    ``time_zone`` is the zone of TIMESTAMP values.
    """

    table: TableSchema
    rows: pa.RecordBatch
    time_zone: str = "UTC"


Upstream: TypeAlias = RowChange | RowBatch | Ddl | Resolved


class Source(Protocol):
    """A stream of changes in the order of their commit timestamps; the rows of one transaction are together."""

    def now(self) -> int:
        """The newest timestamp upstream: the default of ``start-ts``."""
        ...

    def tables(self) -> Sequence[TableSchema]:
        """The tables that exist now, to check a configuration against."""
        ...

    def read(self, start_ts: int, place: ResumePosition | None = None) -> Iterator[Upstream]:
        """Yield changes with a commit ts above ``start_ts``, from ``place`` if an earlier reading gave one.

        Ends when the source has ended. A live database never ends: the reading waits for more, and yields a
        ``Resolved`` now and then.
        """
        ...

    def close(self) -> None:
        """Close all connections. A running ``read`` ends, also in another thread."""
        ...


def table_key(table: TableSchema) -> int | TableName:
    """A key that stays with a table: its id, or its name if it has no id."""
    return table.name if table.table_id is None else table.table_id


def changes_of(batch: RowBatch) -> Iterator[RowChange]:
    """The changes of a batch, one by one."""
    from tidewire.arrow.encode import row_changes
    from tidewire.arrow.policy import Policy

    return row_changes(batch.table, batch.rows, Policy(batch.time_zone))


def up_to(batch: RowBatch, ts: int) -> RowBatch:
    """The changes of a batch up to and including a timestamp."""
    import pyarrow.compute as pc

    return replace(batch, rows=batch.rows.filter(pc.less_equal(batch.rows.column("_commit_ts"), ts)))


def changes_keys(batch: RowBatch) -> bool:
    """Could an update of a batch change a column of a unique index?"""
    import pyarrow.compute as pc

    updates = batch.rows.filter(pc.equal(batch.rows.column("_op"), 1))
    table = batch.table
    unique = {name for index in table.indexes if index.unique or index.primary for name in index.columns}
    keys = [column.name for column in table.columns if column.handle_key or column.name in unique]
    before, after = updates.column("before"), updates.column("after")
    return not all(_are_equal(before.field(name), after.field(name)) for name in keys)


def _are_equal(before: pa.Array, after: pa.Array) -> bool:
    """Are two columns equal in every row? NULL counts as different from everything."""
    import pyarrow.compute as pc

    return pc.all(pc.fill_null(pc.equal(before, after), False)).as_py() is not False
