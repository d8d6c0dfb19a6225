"""Iceberg tables as a target.

Without further settings the catalog is a SQLite file in the target's folder, the tables beside it. Two namespaces of
the catalog are tidewire's own: dropped tables wait in one for their purge, and tables pass through the other while
they are renamed.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import threading
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidewire.ddl.edits import Place
from tidewire.errors import OptionError
from tidewire.model import TableName
from tidewire.spark.session import activate, iceberg_catalog_conf
from tidewire.spark.targets.base import Field, Mark, Size, TargetError
from tidewire.spark.targets.iceberg_catalog import (
    SNAPSHOT_MARK,
    IcebergCatalog,
    IcebergTable,
    Java,
    catalog_name,
    mark_property,
    newest_mark,
    newest_marks,
)
from tidewire.spark.targets.iceberg_rename import MOVING, rename
from tidewire.spark.targets.iceberg_upkeep import compaction, expired, orphans, size_of
from tidewire.spark.targets.sql_text import quoted
from tidewire.spark.targets.thread_sessions import ThreadSessions

DROPPED = "_tidewire_dropped"
"""The namespace of dropped tables; a table there is called after the second it was dropped in and its uuid."""

_OWN = (DROPPED, MOVING)
_MARK_SETTING = f"spark.sql.iceberg.snapshot-property.{SNAPSHOT_MARK}"
_NO_SNAPSHOT = 0
_DATA = "data"

_PROPERTIES: Mapping[str, str] = {
    "format-version": "3",  # deletion vectors
    # A merge writes what is new and marks what is gone; measured, that is less than half of rewriting files.
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    # Rows come grouped already; another shuffle makes a merge a quarter dearer.
    "write.distribution-mode": "none",
    "write.delete.distribution-mode": "none",
    "write.update.distribution-mode": "none",
    "write.merge.distribution-mode": "none",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",
    # Each commit writes a metadata file; without this a table that lives long has thousands of them.
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


class IcebergTarget:
    """Iceberg tables in a folder, or in any catalog that Spark can be told of.

    ``catalog_conf`` holds settings such as ``spark.sql.catalog.NAME.type``. Without it the catalog is embedded, and
    its name in Spark and for pyiceberg, :attr:`catalog`, comes from the folder.
    """

    def __init__(self, spark: SparkSession, folder: str | Path, catalog_conf: Mapping[str, str] | None = None) -> None:
        self.uri = str(folder)
        self._root = None if catalog_conf else _local(folder)
        settings = _configured(catalog_conf) if catalog_conf else _embedded(_local(folder))
        for key, value in settings.items():
            spark.conf.set(key, value)
        self.catalog = catalog_name(settings)
        self._spark = spark
        self._sessions = ThreadSessions(spark)
        activate(spark)
        self._catalog = IcebergCatalog(spark, self.catalog)
        self._renaming = threading.Lock()
        self._seen: dict[str, TableName] = {}

    def relation(self, name: TableName) -> str:
        """What a table is called in SQL, quoted."""
        return quoted(self.catalog, *name)

    def session(self, mark: Mark | None = None) -> SparkSession:
        """This thread's session; the next commit in it carries the mark."""
        return self._sessions.get({_MARK_SETTING: None if mark is None else str(mark)})

    def has(self, name: TableName, mark: Mark) -> bool:
        """Did a commit with this mark, or a later one of the same sync, change the table?"""
        table = self._catalog.table(name)
        newest = None if table is None else newest_mark(table, mark.sync)
        return newest is not None and newest >= mark

    def stamp(self, name: TableName, mark: Mark) -> None:
        """Put a mark on the table itself."""
        table = self._table(name)
        newest = newest_mark(table, mark.sync)
        if newest is None or newest < mark:
            table.set_properties({mark_property(mark.sync): str(mark)})

    def keep_marks(self, name: TableName) -> None:
        """Copy the marks from snapshots, which expire, to the table's properties."""
        table = self._table(name)
        metadata = table.metadata()
        marks = {mark_property(mark.sync): str(mark) for mark in newest_marks(metadata)}
        if marks.items() - metadata["properties"].items():
            table.set_properties(marks)

    def exists(self, name: TableName) -> bool:
        """Is there a table of that name?"""
        return self._catalog.exists(name)

    def fields(self, name: TableName) -> tuple[Field, ...]:
        """The columns of a table, in order."""
        return tuple(self._table(name).fields().values())

    def create(
        self,
        name: TableName,
        fields: Iterable[Field],
        properties: Mapping[str, str] = {},
        mark: Mark | None = None,
    ) -> None:
        """Make an empty table; a table that is there already goes first."""
        _check_free(name)
        self.drop(name)
        marked = {} if mark is None else {mark_property(mark.sync): str(mark)}
        # Names have characters that paths have not, and a new table must not lie among the files of a dropped one.
        location = None if self._root is None else str(self._root / _DATA / uuid.uuid4().hex)
        self._catalog.create(name, fields, {**_PROPERTIES, **properties, **marked}, location)

    def drop(self, name: TableName) -> None:
        """Set a table aside, its versions still readable, until it is purged."""
        table = self._catalog.table(name)
        if table is not None:
            self._catalog.rename(name, TableName(DROPPED, f"{int(time.time())}-{table.uuid}"))

    def purge(self, before: datetime, keep: Collection[str] = ()) -> int:
        """Delete the files of tables that were dropped before a moment."""
        needed = {_parsed(version)[0] for version in keep}
        dropped = ((name, *name.split("-", 1)) for name in self._catalog.names_in(DROPPED))
        old = [
            TableName(DROPPED, name)
            for name, since, identity in dropped
            if int(since) < before.timestamp() and identity not in needed
        ]
        for name in old:
            location = Path(self._table(name).location)
            self._catalog.purge(name)
            if self._root is not None and location.parent == self._root / _DATA:
                shutil.rmtree(location, ignore_errors=True)  # what writers that failed left behind
        return len(old)

    def rename(self, moves: Iterable[tuple[TableName, TableName]], mark: Mark) -> None:
        """Move tables, all at once, by way of names that nobody else has."""
        moves = tuple(moves)
        for _, new in moves:
            _check_free(new)
        with self._renaming:
            rename(self._catalog, moves, mark)

    def add_column(self, name: TableName, field: Field, place: Place = Place()) -> None:
        """Add a column, NULL in existing rows."""
        table = self._table(name)
        if _spelling(table, field.name) is None:
            update = table.update_schema().addColumn(None, field.name, table.iceberg_type(field.type))
            _placed(update, table, name, field.name, place).commit()

    def drop_column(self, name: TableName, column: str) -> None:
        """Drop a column; a missing one is fine."""
        table = self._table(name)
        spelling = _spelling(table, column)
        if spelling is not None:
            table.update_schema().deleteColumn(spelling).commit()

    def rename_column(self, name: TableName, column: str, new: str) -> None:
        """Rename a column; a missing one is fine."""
        table = self._table(name)
        spelling = _spelling(table, column)
        if spelling is not None and spelling != new:
            table.update_schema().renameColumn(spelling, new).commit()

    def widen_column(self, name: TableName, column: str, type_: str) -> bool:
        """Change a column's type where Iceberg can read the old files as the new type."""
        table = self._table(name)
        spelling = _existing(table, name, column)
        new = table.iceberg_type(type_)
        if Field(spelling, type_) in table.fields().values():
            return True
        if not table.can_widen(spelling, new):
            return False
        table.update_schema().updateColumn(spelling, new).commit()
        return True

    def move_column(self, name: TableName, column: str, place: Place) -> None:
        """Move a column."""
        table = self._table(name)
        _placed(table.update_schema(), table, name, _existing(table, name, column), place).commit()

    def version(self, name: TableName) -> str:
        """The table's identity, its snapshot and its schema: columns change without a new snapshot."""
        table = self._table(name)
        snapshot = table.snapshot()
        return f"{table.uuid}@{_NO_SNAPSHOT if snapshot is None else snapshot.id}@{table.schema_id}"

    def read(self, name: TableName, version: str | None = None) -> DataFrame:
        """The rows of a table, now or as of a version."""
        if version is None:
            self._table(name)
            return self._spark.table(self.relation(name))
        identity, snapshot_id, schema_id = _parsed(version)
        place = self._place_of(identity, name)
        table = self._table(place)
        wanted = table.fields(schema_id)
        if snapshot_id == _NO_SNAPSHOT:
            types = ", ".join(f"{quoted(field.name)} {field.type}" for field in wanted.values())
            return self._spark.createDataFrame([], types)
        written = table.fields(table.snapshot_at(snapshot_id).schema_id)
        rows = self._spark.sql(f"SELECT * FROM {self.relation(place)} VERSION AS OF {snapshot_id}")
        return rows if written == wanted else rows.select(*_projected(written, wanted))

    def names(self) -> tuple[TableName, ...]:
        """All tables there are."""
        return tuple(name for name in self._catalog.names() if name.schema not in _OWN)

    def size(self, name: TableName) -> Size:
        """What a table takes."""
        return size_of(self._table(name).metadata())

    def compact(self, name: TableName) -> None:
        """Make few large files of many small ones, by Iceberg's own procedures."""
        for statement in compaction(self._table(name).metadata(), self.catalog, name):
            self.session().sql(statement)

    def expire(self, name: TableName, before: datetime, keep: Collection[str] = ()) -> None:
        """Remove snapshots from before a moment.

        Which ones is settled before their marks are copied to the table, so none goes that came in between.
        """
        needed = {snapshot for _, snapshot, _ in map(_parsed, keep)}
        old = expired(self._table(name).metadata(), before, needed)
        if old:
            self.keep_marks(name)
            self._table(name).expire(old)

    def sweep(self, name: TableName, before: datetime) -> int:
        """Delete files in the table's folder that no snapshot has."""
        return self.session().sql(orphans(self.catalog, name, before)).count()

    def _table(self, name: TableName) -> IcebergTable:
        table = self._catalog.table(name)
        if table is None:
            raise TargetError(f"there is no table {name} in {self.uri}")
        return table

    def _place_of(self, identity: str, name: TableName) -> TableName:
        """Where the table with a uuid is now: most often under the name it had."""
        for place in filter(None, (name, self._seen.get(identity))):
            table = self._catalog.table(place)
            if table is not None and table.uuid == identity:
                return place
        seen = {}
        for place in self._catalog.names():
            table = self._catalog.table(place)
            if table is not None:
                seen[table.uuid] = place
        self._seen = seen
        if identity not in seen:
            raise TargetError(f"the table that {name} was is not in {self.uri} any more: no table has uuid {identity}")
        return seen[identity]


def _check_free(name: TableName) -> None:
    if name.schema in _OWN:
        raise TargetError(f"there cannot be a table {name}: tidewire keeps the database {name.schema} for itself")


def _local(folder: str | Path) -> Path:
    """The folder of an embedded catalog."""
    scheme, separator, _ = str(folder).partition("://")
    if not separator:
        return Path(folder).absolute()
    if scheme != "file":
        reason = f"an embedded catalog needs a local folder, which {folder} is not; give another catalog's settings"
        raise OptionError("target", reason)
    return Path(unquote(urlsplit(str(folder)).path))


def _embedded(root: Path) -> dict[str, str]:
    """The settings of a catalog in a folder, its name made of the folder's."""
    root.mkdir(parents=True, exist_ok=True)
    stem = re.sub(r"\W", "_", root.name, flags=re.ASCII).lower()
    digest = hashlib.sha256(str(root).encode()).hexdigest()[:8]
    return iceberg_catalog_conf(f"{stem}_{digest}", root)


def _configured(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings of a catalog that a user has."""
    prefix = f"spark.sql.catalog.{catalog_name(settings)}"
    own = {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        # A new table must not lie among the files of a dropped one.
        f"{prefix}.unique-table-location": "true",
    }
    # Every session has a cache of its own, and would not see what another one commits.
    return own | dict(settings) | {f"{prefix}.cache-enabled": "false"}


def _spelling(table: IcebergTable, column: str) -> str | None:
    """How a table spells a column."""
    names = (field.name for field in table.fields().values())
    return next((name for name in names if name.lower() == column.lower()), None)


def _existing(table: IcebergTable, name: TableName, column: str) -> str:
    spelling = _spelling(table, column)
    if spelling is None:
        raise TargetError(f"there is no column {column} in {name}")
    return spelling


def _placed(update: Java, table: IcebergTable, name: TableName, column: str, place: Place) -> Java:
    """A change of columns with a move added to it."""
    if place.first:
        return update.moveFirst(column)
    if place.after is not None:
        return update.moveAfter(column, _existing(table, name, place.after))
    return update


def _parsed(version: str) -> tuple[str, int, int]:
    try:
        identity, snapshot, schema = version.split("@")
        return identity, int(snapshot), int(schema)
    except ValueError:
        raise TargetError(f"{version!r} is no version of an Iceberg table") from None


def _projected(written: Mapping[int, Field], wanted: Mapping[int, Field]) -> Iterator[Column]:
    """Columns as one schema has them, out of rows of another; Iceberg knows a column by its id."""
    for number, field in wanted.items():
        source = F.col(quoted(written[number].name)) if number in written else F.lit(None)
        yield source.cast(field.type).alias(field.name)
