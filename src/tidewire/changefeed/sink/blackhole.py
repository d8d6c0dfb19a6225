"""A sink that drops everything: to measure a source, or to see that it works."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidewire.changefeed.source.base import RowBatch
from tidewire.model import Ddl, RowChange, TableName, TableSchema


class BlackholeSink:
    """Counts changes and drops them."""

    def __init__(self) -> None:
        self.rows_taken = 0
        self.ddls_taken = 0

    def begin(self, tables: Sequence[TableSchema]) -> None:
        """Do nothing."""

    def rows(self, changes: Sequence[RowChange]) -> None:
        """Count changes."""
        self.rows_taken += len(changes)

    def columns(self, batch: RowBatch) -> None:
        """Count changes."""
        self.rows_taken += batch.rows.num_rows

    def ddl(self, ddl: Ddl) -> None:
        """Count a statement."""
        self.ddls_taken += 1

    def watermark(self, ts: int, tables: Iterable[TableName]) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
