"""All tables of a target at one moment of the upstream."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession

from tidewire.model import TableName
from tidewire.model.tso import from_datetime
from tidewire.spark.apply import Mode, current_rows
from tidewire.spark.catalogs import catalog_of
from tidewire.spark.ledger import Owner, ledger_of, required_owner
from tidewire.spark.publications import Publications, PublishedTable
from tidewire.spark.targets import Target, open_target
from tidewire.sync.catalog_settings import CatalogSettings


class Snapshot(Mapping[str, DataFrame]):
    """The tables at one moment, by name such as ``shop.orders``.

    ``ts`` is the moment; it is ``None`` where the protocol has no watermarks, and the tables are then merely what
    they are now. ``tables`` says what is known of each, among it whether a table is held at an earlier moment.
    """

    def __init__(
        self, target: Target, owner: Owner, ts: int | None, tables: Mapping[TableName, PublishedTable]
    ) -> None:
        self._target = target
        self._names = {str(name): name for name in tables}
        self.time_zone = owner.time_zone
        self.ts = ts
        self.tables = tables

    def __getitem__(self, name: str) -> DataFrame:
        """The rows of a table at that moment, in any mode."""
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
        return self._target.read(table, self.tables[table].version)


def snapshot(
    spark: SparkSession, target: str, at: int | datetime | None = None, *, catalog: Mapping[str, str] = {}
) -> Snapshot:
    """All tables of a target as of one upstream moment: the newest published one, or the newest not after ``at``.

    ``at`` is a TSO, or a moment with a time zone. ``catalog`` holds settings of the Iceberg catalog that the target
    does not remember because they are secret, such as ``{"token": …}``.
    """
    storage = ledger_of(target)
    owner = required_owner(storage)
    return snapshot_of(spark, target, catalog_of(storage, owner, more=catalog), at)


def snapshot_of(
    spark: SparkSession, target: str, catalog: CatalogSettings | None, at: int | datetime | None = None
) -> Snapshot:
    """The same, with the catalog's settings given."""
    storage = ledger_of(target)
    owner = required_owner(storage)
    ts = from_datetime(at, (1 << 18) - 1) if isinstance(at, datetime) else at
    published = Publications(storage).required(ts)
    return Snapshot(open_target(spark, target, owner.format, catalog), owner, published.ts, published.tables)
