"""What is sent of an event: the selected columns, under the names that tables have downstream."""

from __future__ import annotations

from dataclasses import replace

from tidewire.changefeed.config.dispatching import Routing
from tidewire.dispatch import ColumnSelectors
from tidewire.dispatch.per_table import PerTable
from tidewire.model import Ddl, RowChange, TableName, TableSchema


class Projection:
    """Selects columns and gives tables their names downstream. By itself it changes nothing.

    Topics and partitions are computed from events as they came; only what is sent goes through here.
    """

    def __init__(self, selectors: ColumnSelectors | None = None, routing: Routing = Routing()) -> None:
        self._selectors = selectors or ColumnSelectors()
        self._routing = routing
        self._renamed = PerTable(self._rename)

    def row(self, change: RowChange) -> RowChange:
        """A change as it is sent."""
        selected = self._selectors.change(change)
        table = self._renamed(selected.table)
        return selected if table is selected.table else replace(selected, table=table)

    def table(self, table: TableSchema) -> TableSchema:
        """A table as it is sent."""
        return self._renamed(self._selectors.table(table))

    def ddl(self, ddl: Ddl) -> Ddl:
        """A statement as it is sent; its text stays."""
        return replace(
            ddl,
            table=self._routing.target(ddl.table),
            old_name=ddl.old_name and self._routing.target(ddl.old_name),
            table_schema=ddl.table_schema and self.table(ddl.table_schema),
            pre_table_schema=ddl.pre_table_schema and self.table(ddl.pre_table_schema),
        )

    def _rename(self, table: TableSchema) -> TableSchema:
        name: TableName = self._routing.target(table.name)
        return table if name == table.name else replace(table, name=name)
