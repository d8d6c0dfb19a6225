"""Reads published versions of tables with SQL time travel only, without calls into Java.

So it works over Spark Connect too, if the server has the jars of the format and sees the target.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidewire.arrow.policy import Policy
from tidewire.errors import SyncError, TargetError
from tidewire.model import TableName
from tidewire.spark.apply import Mode
from tidewire.spark.apply.modes import LAYOUTS
from tidewire.spark.catalogs import spark_settings
from tidewire.spark.ledger import Owner
from tidewire.spark.publications import Publications, PublishedTable
from tidewire.spark.requirements import is_connect, settings_missing
from tidewire.spark.targets import open_target, quoted
from tidewire.spark.targets.delta import ONLY_RECENT
from tidewire.spark.targets.iceberg import catalog_conf
from tidewire.spark.targets.iceberg_catalog import catalog_name
from tidewire.spark.targets.iceberg_rename import DROPPED, dropped_uuid
from tidewire.spark.targets.iceberg_swap import NO_SNAPSHOT
from tidewire.storage import open_storage
from tidewire.sync.catalog_settings import CatalogSettings

_DATA: Final = "data"


class Reader(Protocol):
    """Reads published tables of one target."""

    def read(self, name: TableName, table: PublishedTable) -> DataFrame:
        """All that a table holds in the published version; :class:`TargetError` if that is gone."""
        ...


def reader_of(
    spark: SparkSession, target: str, owner: Owner, catalog: CatalogSettings | None, published: Publications
) -> Reader:
    """What reads the tables of a target; the session gets the settings of the catalog."""
    if owner.format == "delta":
        return DeltaReader(spark, target)
    return IcebergReader(spark, target, catalog, published, owner.time_zone)


class DeltaReader:
    """Delta tables, by the path of their folder."""

    def __init__(self, spark: SparkSession, target: str) -> None:
        missing = list(settings_missing(spark, "delta"))
        if missing:
            raise SyncError(
                f"Delta's tables cannot be read in this session, for it was started without {' and '.join(missing)}"
            )
        spark.conf.set(ONLY_RECENT, "false")  # a version is readable as long as it is kept, and not for a week
        self._spark = spark
        self._storage = open_storage(target)

    def read(self, name: TableName, table: PublishedTable) -> DataFrame:
        """All that a table holds in the published version."""
        folder, _, number = table.version.partition("@")
        rows = self._spark.read.format("delta").option("versionAsOf", number)
        try:
            return _analysed(rows.load(self._storage.path(_DATA, folder)))
        except PySparkException as error:
            raise _gone(name, table, error) from error


class IcebergReader:
    """Iceberg tables, by their name in a catalog that the session is told of.

    A version is a snapshot's id, which no other table has. So a table that was renamed or dropped since is found by
    trying the names that it can have now.
    """

    def __init__(
        self, spark: SparkSession, target: str, catalog: CatalogSettings | None, published: Publications, time_zone: str
    ) -> None:
        settings = catalog_conf(target, None if catalog is None else spark_settings(catalog, target))
        for key, value in settings.items():
            spark.conf.set(key, value)
        self._spark = spark
        self._target = target
        self._given = catalog
        self._catalog = catalog_name(settings)
        self._published = published
        self._policy = Policy(time_zone)

    def read(self, name: TableName, table: PublishedTable) -> DataFrame:
        """All that a table holds in the published version."""
        identity, snapshot, *older = table.version.split("@")
        if older:
            return self._read_older(name, table.version)
        if int(snapshot) == NO_SNAPSHOT:
            fields = LAYOUTS[Mode(table.mode)].fields(table.schema, self._policy)
            return self._spark.createDataFrame([], ", ".join(f"{quoted(each.name)} {each.type}" for each in fields))
        problem: PySparkException | None = None
        for place in self._places(name, identity):
            statement = f"SELECT * FROM {quoted(self._catalog, *place)} VERSION AS OF {snapshot}"
            try:
                return _analysed(self._spark.sql(statement))
            except PySparkException as error:
                problem = problem or error
        raise _gone(name, table, problem) from problem

    def _places(self, name: TableName, identity: str) -> Iterator[TableName]:
        """Where the table with a uuid can be, most likely first."""
        yield name
        newest = self._published.newest()
        tables = {} if newest is None else newest.tables
        for other, table in tables.items():
            if other != name and table.version.partition("@")[0] == identity:
                yield other
        databases = self._databases()
        if DROPPED in databases:
            yield from (place for place in self._tables_in(DROPPED) if dropped_uuid(place.table) == identity)
        # Where rows are kept for ever, a table that was dropped upstream stays, under the last name that it had.
        for database in sorted(databases & {name.schema, *(other.schema for other in tables)}):
            yield from (place for place in self._tables_in(database) if place not in tables and place != name)

    def _databases(self) -> set[str]:
        """The databases of the catalog."""
        rows = self._spark.sql(f"SHOW NAMESPACES IN {quoted(self._catalog)}").collect()
        names = (str(row[0]) for row in rows)
        return {name[1:-1].replace("``", "`") if name.startswith("`") else name for name in names}

    def _tables_in(self, database: str) -> list[TableName]:
        """The tables of a database."""
        rows = self._spark.sql(f"SHOW TABLES IN {quoted(self._catalog, database)}").collect()
        return [TableName(database, row.tableName) for row in rows]

    def _read_older(self, name: TableName, version: str) -> DataFrame:
        """A version that 0.1 published, which names a schema beside the snapshot."""
        if is_connect(self._spark):
            raise SyncError(f"{name} was published by tidewire 0.1: run tidewire sync once, or read it without Connect")
        return open_target(self._spark, self._target, "iceberg", self._given).read(name, version)


def _analysed(rows: DataFrame) -> DataFrame:
    """A DataFrame whose table is there: Spark Connect looks for it only now."""
    _ = rows.schema
    return rows


def _gone(name: TableName, table: PublishedTable, error: PySparkException | None) -> TargetError:
    lines = str(error).strip().splitlines()
    return TargetError(f"version {table.version} of {name} cannot be read: {lines[0] if lines else error}")
