"""Batches of changes of one table: split into single rows, or cut at a timestamp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tidewire.changefeed.source.base import RowBatch
from tidewire.model import RowChange

if TYPE_CHECKING:
    import pyarrow as pa


def changes_of(batch: RowBatch) -> Iterator[RowChange]:
    """The changes one by one."""
    from tidewire.arrow.encode import row_changes
    from tidewire.arrow.policy import Policy

    return row_changes(batch.table, batch.rows, Policy(batch.time_zone))


def up_to(batch: RowBatch, ts: int) -> RowBatch:
    """The changes up to and including a timestamp."""
    import pyarrow.compute as pc

    return replace(batch, rows=batch.rows.filter(pc.less_equal(batch.rows.column("_commit_ts"), ts)))


def changes_keys(batch: RowBatch) -> bool:
    """Is there an update, or may there be one, that changes a column of a unique index?"""
    import pyarrow.compute as pc

    updates = batch.rows.filter(pc.equal(batch.rows.column("_op"), 1))
    table = batch.table
    unique = {name for index in table.indexes if index.unique or index.primary for name in index.columns}
    keys = [column.name for column in table.columns if column.handle_key or column.name in unique]
    before, after = updates.column("before"), updates.column("after")
    return not all(_same(before.field(name), after.field(name)) for name in keys)


def _same(before: pa.Array, after: pa.Array) -> bool:
    """Are two columns equal throughout? NULL is not taken for equal to anything."""
    import pyarrow.compute as pc

    return pc.all(pc.fill_null(pc.equal(before, after), False)).as_py() is not False
