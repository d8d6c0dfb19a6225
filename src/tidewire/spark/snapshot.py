"""All tables of a target as of one TSO."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidewire.errors import OptionError
from tidewire.model import TableName
from tidewire.spark.apply import Mode, current_rows
from tidewire.spark.ledger import Owner
from tidewire.spark.publications import PublishedTable
from tidewire.spark.targets import quoted
from tidewire.spark.time_travel import Reader


class Snapshot(Mapping[str, DataFrame]):
    """The tables as of one TSO, by name such as ``shop.orders``.

    ``ts`` is the TSO; it is ``None`` if the protocol has no watermarks, and then the tables are in their current state.
    ``tables`` has the publication of each, which says whether a table is held at an earlier TSO.
    """

    def __init__(
        self, reader: Reader, owner: Owner, ts: int | None, tables: Mapping[TableName, PublishedTable]
    ) -> None:
        self._reader = reader
        self._names = {str(name): name for name in tables}
        self.time_zone = owner.time_zone
        self.ts = ts
        self.tables = tables

    def __getitem__(self, name: str) -> DataFrame:
        """The rows of a table as of that TSO, in any mode."""
        table = self.tables[self._names[name]]
        key = [table.schema.column(column) for column in table.schema.handle_key]
        return current_rows(Mode(table.mode), self.changes(name), key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def changes(self, name: str) -> DataFrame:
        """What the table holds: with ``history`` and ``scd2``, the past too."""
        table = self._names[name]
        return self._reader.read(table, self.tables[table])

    def create_views(self, prefix: str = "") -> dict[str, str]:
        """Make a temporary view of every table, such as ``shop_orders`` after the prefix; their names by table."""
        views = {name: f"{prefix}{table.schema}_{table.table}" for name, table in self._names.items()}
        for view, count in Counter(view.lower() for view in views.values()).items():
            if count > 1:
                raise OptionError("prefix", f"{count} tables would have the view {view}; make views of them by hand")
        for name, view in views.items():
            self[name].createOrReplaceTempView(quoted(view))
        return views


def snapshot(
    spark: SparkSession, target: str, at: int | datetime | None = None, *, catalog: Mapping[str, Any] | None = None
) -> Snapshot:
    """All tables of a target as of one TSO: that of the newest publication, or of the newest not after ``at``.

    ``at`` is a TSO, or a datetime with a time zone. ``catalog`` holds settings of the Iceberg catalog that the target
    does not remember because they are secret, such as ``{"token": …}``.
    """
    from tidewire.spark.lake import Lake

    return Lake.for_path(spark, target, catalog=catalog).snapshot(at)
