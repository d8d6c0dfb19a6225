"""``tw.Lake``: reads a sync's target: tables as of a TSO, publications, holds and rejects; and maintains it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from tidewire.errors import SyncError
from tidewire.model import Position
from tidewire.model.tso import from_datetime, to_datetime
from tidewire.spark.catalogs import catalog_of, needed_jars
from tidewire.spark.ledger import Owner, newest_state, required_owner
from tidewire.spark.maintain import MaintenanceSettings, TableUpkeep, asked, maintained, parse_age
from tidewire.spark.publications import Publications, sequence_of, ts_of
from tidewire.spark.rejects import list_rejects
from tidewire.spark.requirements import check_session, check_version
from tidewire.spark.snapshot import Snapshot
from tidewire.spark.staging import storage_of
from tidewire.spark.time_travel import reader_of
from tidewire.storage import Storage
from tidewire.sync.catalog_settings import CatalogSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LAST: Final = (1 << 18) - 1
"""The largest counter in a TSO: with it, a TSO is not before any other of the same millisecond."""

_PLACE: Final = "topic string, partition int, offset bigint"
_SIZES: Final = ("files", "deletes", "bytes", "versions")


class Lake:
    """A sync's target, to read from. It needs time travel in SQL only, so it works over Spark Connect too.

    This process reads the sync's documents in the target, and Spark the tables; both must see it.
    """

    def __init__(self, spark: SparkSession, target: str, owner: Owner, catalog: CatalogSettings | None) -> None:
        self._spark = spark
        self._target = target
        self._owner = owner
        self._catalog = catalog
        self._storage: Storage = storage_of(target)
        self._published = Publications(self._storage)

    @classmethod
    def for_path(
        cls, spark: SparkSession, target: str | os.PathLike[str], *, catalog: Mapping[str, Any] | None = None
    ) -> Lake:
        """The lake in a target, which remembers the catalog that its tables are in.

        ``catalog`` holds settings of the catalog that it does not remember because they are secret, or describes the
        catalog as the sync was given it. The session gets the settings, so that tables and views can be queried in it.
        """
        check_version(spark.version, "a lake")
        place = os.fspath(target)
        storage = storage_of(place)
        owner, given = required_owner(storage), {name: str(value) for name, value in (catalog or {}).items()}
        name = given.pop("name", owner.catalog)
        if name != owner.catalog:
            where = f"the catalog {owner.catalog}" if owner.catalog else "the target's own catalog"
            raise SyncError(f"the tables are in {where}, not in {name}: give the sync's own catalog")
        described = {name: CatalogSettings(name, given)} if "type" in given or "catalog-impl" in given else {}
        return cls(spark, place, owner, catalog_of(storage, owner, described, given))

    def snapshot(self, at: int | datetime | None = None) -> Snapshot:
        """All tables as of the newest publication, or the newest that is not after ``at``.

        ``at`` is a TSO, or a datetime with a time zone.
        """
        ts = from_datetime(at, _LAST) if isinstance(at, datetime) else at
        published = self._published.required(ts)
        reader = reader_of(self._spark, self._target, self._owner, self._catalog, self._published)
        return Snapshot(reader, self._owner, published.ts, published.tables)

    def publications(self) -> DataFrame:
        """The publications, oldest first: ``ts``, its time of day as ``time``, and ``sequence``.

        Without watermarks ``ts`` and ``time`` are NULL.
        """
        found = [(ts_of(name) or None, sequence_of(name)) for name in self._published.names()]
        rows = [(ts, None if ts is None else to_datetime(ts), sequence) for ts, sequence in found]
        return self._frame(rows, "ts bigint, time timestamp, sequence bigint")

    def holds(self) -> DataFrame:
        """The holds; ``table`` is NULL if a hold is for all tables. ``tidewire holds`` shows how to resolve them."""
        state = newest_state(self._storage)
        rows = [
            (
                hold.id,
                None if hold.table is None else str(hold.table),
                hold.ts,
                str(hold.kind),
                *_place(hold.at),
                hold.since,
                hold.count,
                hold.reason,
            )
            for hold in (() if state is None else state.holds)
        ]
        return self._frame(
            rows,
            f"id string, table string, ts bigint, kind string, {_PLACE}, since string, messages bigint, reason string",
        )

    def rejects(self) -> DataFrame:
        """The messages that could not be read, with their bytes where those are kept."""
        rows = [
            (*_place(each.at), each.reason, each.part, each.place, each.message.key, each.message.value)
            for each in list_rejects(self._storage)
        ]
        return self._frame(rows, f"{_PLACE}, reason string, part string, at string, key binary, value binary")

    def maintain(self, older_than: str = "7d", keep: int = 10, *, dry_run: bool = False) -> DataFrame:
        """Compact tables, expire old versions and delete unused files; returns a row with the sizes of each table.

        If a sync runs, it does the work. Otherwise this session does it, and must be able to write the tables.
        """
        done = None if dry_run else asked(self._storage, older_than, keep)
        if done is None:
            jars = needed_jars(self._target, self._catalog)
            check_session(self._spark, self._owner.format, embedded=self._catalog is None, jars=jars)
            settings = MaintenanceSettings(parse_age(older_than), keep, dry_run)
            done = maintained(self._spark, self._target, self._owner, settings, self._catalog)
        sizes = ", ".join(f"{what}_{side} bigint" for what in _SIZES for side in ("before", "after"))
        return self._frame(map(_upkeep, done.tables), f"table string, {sizes}, swept bigint, problem string")

    def _frame(self, rows: Iterable[tuple[Any, ...]], columns: str) -> DataFrame:
        return self._spark.createDataFrame(list(rows), columns)


def _place(at: Position) -> tuple[str, int, int]:
    return at.topic, at.partition, at.offset


def _upkeep(done: TableUpkeep) -> tuple[Any, ...]:
    sizes = [getattr(size, what) for what in _SIZES for size in (done.before, done.after)]
    return (str(done.table), *sizes, done.swept, done.problem)
