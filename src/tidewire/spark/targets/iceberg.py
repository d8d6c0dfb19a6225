"""Iceberg tables as a target.

Without further settings the catalog is a SQLite file in the target's folder, the tables beside it. Two namespaces of
the catalog are tidewire's own: one for dropped tables that wait for their purge, one for tables that are being renamed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidewire.errors import NoTable, OptionError
from tidewire.model import TableName
from tidewire.spark.sessions import activate, iceberg_catalog_conf
from tidewire.spark.targets.access import IcebergAccess, access_to
from tidewire.spark.targets.base import (
    Adoptable,
    ColumnChange,
    CommitTag,
    Field,
    Java,
    Sessions,
    Size,
    TargetError,
    quoted,
    refuse_older,
    refuse_reserved,
)
from tidewire.spark.targets.commits import Answer, Begun, Together
from tidewire.spark.targets.files import MOST_TABLES, DataFile, FileChange, StoredTable, is_local, rows_at
from tidewire.spark.targets.iceberg_adopt import PROPERTIES, adopt, adoptable
from tidewire.spark.targets.iceberg_catalog import IcebergCatalog, IcebergTable, catalog_name, close_catalog
from tidewire.spark.targets.iceberg_files import described, document_of, stored_table, write_dead_rows
from tidewire.spark.targets.iceberg_rename import (
    DROPPED,
    MOVING,
    drop,
    dropped_tables,
    has_another_name,
    has_begun,
    rename,
)
from tidewire.spark.targets.iceberg_swap import (
    EPOCH,
    NO_SNAPSHOT,
    PART,
    SEQUENCE,
    STEP,
    SYNC,
    Facts,
    Update,
    begin_swap,
    count_parts,
    create,
    facts_of,
    find_step,
    newest_epoch,
    noted,
    parsed_version,
    refuse_changed,
    summary_of,
    swap,
    swap_together,
)
from tidewire.spark.targets.iceberg_upkeep import expire, expiry, orphans, row_count, size_of, tidy
from tidewire.sync.table_options import NO_OPTIONS, TableOptions
from tidewire.sync.toml_section import without_secrets

_SUMMARY: Final = "spark.sql.iceberg.snapshot-property."
"""What begins the names of settings whose values Spark's commits note in the summary of their snapshot."""

_DATA: Final = "data"


class IcebergTarget:
    """Iceberg tables in a folder, or in any catalog that Spark can be told of.

    ``catalog`` holds settings such as ``spark.sql.catalog.NAME.type``. Without it the catalog is embedded, and
    its name in Spark and for pyiceberg, :attr:`catalog`, comes from the folder. New tables have ``format_version``: 3
    keeps dead rows in deletion vectors, 2 in files of positions.
    """

    def __init__(
        self,
        spark: SparkSession,
        folder: str | Path,
        catalog: Mapping[str, str] | None = None,
        format_version: int = 3,
    ) -> None:
        self.uri = str(folder)
        self.place = without_secrets(self.uri)
        self._properties = {**PROPERTIES, "format-version": str(format_version)}
        self._root = None if catalog else _local(folder)
        settings = catalog_conf(folder, catalog)
        for key, value in settings.items():
            spark.conf.set(key, value)
        self.catalog = catalog_name(settings)
        self._spark = spark
        self.context = spark.sparkContext
        self._sessions = Sessions(spark, lambda session: close_catalog(session, self.catalog))
        activate(spark)
        self._catalog = IcebergCatalog(
            spark,
            self.catalog,
            is_shared=catalog is not None,
            plain_names=settings.get(f"spark.sql.catalog.{self.catalog}.type") == "glue",
        )
        self._renaming = threading.Lock()
        self._seen: dict[str, TableName] = {}
        self._stored: dict[str, StoredTable] = {}

    def relation(self, name: TableName) -> str:
        """What a table is called in SQL, quoted."""
        return quoted(self.catalog, *name)

    def session(self, tag: CommitTag | None = None) -> SparkSession:
        """This thread's session; commits made in it carry the tag."""
        noted = {} if tag is None else summary_of(tag)
        return self._sessions.get({_SUMMARY + key: noted.get(key) for key in (SYNC, EPOCH, SEQUENCE, STEP, PART)})

    def close(self) -> None:
        """Release the sessions of all threads, and their connections to the catalog."""
        self._sessions.close()

    # Looking

    def exists(self, name: TableName) -> bool:
        """Is there a table of that name?"""
        return self._catalog.exists(name)

    def names(self) -> tuple[TableName, ...]:
        """All tables there are."""
        return tuple(name for name in self._catalog.names() if name.schema not in (DROPPED, MOVING))

    def fields(self, name: TableName) -> tuple[Field, ...]:
        """The columns of a table, in order."""
        return tuple(self._table(name).fields().values())

    def size(self, name: TableName) -> Size:
        """What a table takes."""
        return size_of(self._table(name).metadata())

    def row_count(self, name: TableName) -> int | None:
        """How many rows a table has, by the summary of its current snapshot."""
        snapshot = self._table(name).java.currentSnapshot()
        return 0 if snapshot is None else row_count(snapshot.summary())

    def rows_at(self, version: str) -> int | None:
        """How many rows a version has, if it is the newest one that this process has written or listed."""
        return rows_at(self._stored.get(version.partition("@")[0]), version)

    def version(self, name: TableName) -> str:
        """The table's uuid and the id of its snapshot."""
        return self._facts(self._table(name)).version

    def read(self, name: TableName, version: str | None = None) -> DataFrame:
        """The rows of a table, now or as of a version."""
        if version is None:
            self._table(name)
            return self._spark.table(self.relation(name))
        identity, snapshot_id, schema_id = parsed_version(version)
        place = self._place_of(identity, name)
        table = self._table(place)
        if snapshot_id == NO_SNAPSHOT:
            types = ", ".join(f"{quoted(field.name)} {field.type}" for field in table.fields(schema_id).values())
            return self._spark.createDataFrame([], types)
        written = table.snapshot_at(snapshot_id).schema_id
        rows = self._spark.sql(f"SELECT * FROM {self.relation(place)} VERSION AS OF {snapshot_id}")
        if schema_id in (None, written):
            return rows
        return rows.select(*_projected(table.fields(written), table.fields(schema_id)))

    def can_widen(self, old: str, new: str) -> bool:
        """Can Iceberg read files of one type as another?"""
        return self._catalog.can_widen(old, new)

    def has_defaults(self, name: TableName) -> bool:
        """Tables in version 3 of the format do."""
        return self._table(name).format_version >= 3

    def partition_columns(self, name: TableName) -> tuple[str, ...]:
        """The columns that say which partition a row belongs in."""
        java = self._table(name).java
        return tuple(java.schema().findColumnName(field.sourceId()) for field in java.spec().fields())

    # Steps

    def find(self, name: TableName, step: str) -> str | None:
        """The version in which a step was completed."""
        table = self._catalog.table(name)
        return None if table is None else find_step(self._facts(table), step)

    def parts(self, name: TableName, step: str) -> int:
        """How many parts of a step were committed to a table."""
        table = self._catalog.table(name)
        return 0 if table is None else count_parts(self._facts(table), step)

    def moved(self, tag: CommitTag) -> bool:
        """Has a step changed the name of a table, even if it is not complete?"""
        return has_begun(self._catalog, tag)

    def check_epoch(self, name: TableName, tag: CommitTag) -> None:
        """Raise ``Fenced`` if the table has a newer epoch than the tag's."""
        refuse_older(name, newest_epoch(self._facts(self._table(name)), tag.sync), tag)

    def fence(self, name: TableName, tag: CommitTag) -> None:
        """Swap the epoch into a table: an empty snapshot and a property.

        A REST catalog compares snapshots and not properties, and other programs may expire snapshots: both are needed.
        """
        if self._catalog.exists(name):
            with suppress(TargetError):  # missing, or another program's: its own step reports that
                swap(self._catalog, name, tag, step=False)

    def create(
        self,
        name: TableName,
        fields: Iterable[Field],
        tag: CommitTag,
        *,
        identity: str | None = None,
        options: TableOptions = NO_OPTIONS,
    ) -> str:
        """Make an empty table with its first snapshot; a table that is there already is dropped first."""
        refuse_reserved(name)
        self._catalog.check_letters(name)
        self._catalog.check_case(name)
        fields, properties = tuple(fields), self._properties
        if options.format_version is not None:
            properties = {**properties, "format-version": str(options.format_version)}
        drop(self._catalog, name, tag, identity)

        def begin() -> Java:
            # Names have characters that paths have not, and a new table must not lie among the files of a dropped one.
            location = None if self._root is None else str(self._root / _DATA / uuid.uuid4().hex)
            return self._catalog.creation(name, fields, properties, location, options)

        return create(self._catalog, name, tag, begin)

    def adoptable(self, name: TableName) -> Adoptable | None:
        """A table in the catalog, with its columns and identifier fields."""
        table = self._catalog.table(name)
        return None if table is None else adoptable(table, self.relation(name))

    def adopt(self, name: TableName, tag: CommitTag) -> str:
        """Commit the tag and the properties of a table of the sync."""
        return adopt(self._catalog, name, tag)

    def drop(self, name: TableName, tag: CommitTag, *, identity: str | None = None) -> None:
        """Set a table aside, its versions still readable, until it is purged."""
        drop(self._catalog, name, tag, identity)

    def rename(
        self, moves: Iterable[tuple[TableName, TableName]], tag: CommitTag, *, identities: Mapping[TableName, str] = {}
    ) -> dict[TableName, str]:
        """Move tables, all at once, by way of names that no other table has."""
        moves = tuple(moves)
        for _, new in moves:
            refuse_reserved(new)
            self._catalog.check_letters(new)
        with self._renaming:
            rename(self._catalog, moves, tag, identities)
        found = {new: self.find(new, tag.step) for _, new in moves}
        return {new: version for new, version in found.items() if version is not None}

    def truncate(self, name: TableName, tag: CommitTag) -> str:
        """Remove all files of rows."""
        everything = self._catalog.java_named("org.apache.iceberg.expressions.Expressions.alwaysTrue")()

        def update(transaction: Java, state: Facts) -> None:
            transaction.newDelete().deleteFromRowFilter(everything).commit()

        return swap(self._catalog, name, tag, update)

    def stored(self, name: TableName, *, listed: bool = False) -> StoredTable:
        """What a table is made of. It is listed only if another program has changed it since the last time."""
        table = self._table(name)
        facts, known = self._facts(table), self._stored.get(table.uuid)
        if listed or known is None or (known.version, known.format) != (facts.version, facts.format):
            known = stored_table(table, facts.version)
            if len(self._stored) >= MOST_TABLES:
                self._stored.clear()
            self._stored[table.uuid] = known
        # Credentials of a store may have changed.
        if is_local(known.folder):
            return known
        access = access_to(known.folder, table.java)
        if isinstance(access, IcebergAccess) and access.ends_soon:
            self._catalog.reload(name)
            access = access_to(known.folder, self._table(name).java)
        return replace(known, access=access)

    def write(self, name: TableName, change: FileChange, tag: CommitTag) -> str:
        """Swap new files and dead rows in."""
        update, written = self._update_of(name, change, tag)
        version = swap(self._catalog, name, tag, update, append=change.is_empty)
        written(version)
        return version

    def together(self) -> Together:
        """The same for the rows of several tables; ``OptionError`` if the catalog cannot do that."""
        self._catalog.check_together()
        return self

    def begin(self, name: TableName, change: FileChange, tag: CommitTag) -> Begun | str:
        """Make the swap of new files and dead rows, without sending it."""
        return begin_swap(self._catalog, name, tag, *self._update_of(name, change, tag), append=change.is_empty)

    def exchange(self, begun: Sequence[Begun]) -> Sequence[Answer]:
        """Send swaps of several tables in one request."""
        return swap_together(self._catalog, begun)

    def _update_of(self, name: TableName, change: FileChange, tag: CommitTag) -> tuple[Update, Callable[[str], None]]:
        """What changes a table's files in a transaction, and what remembers them, given the version that it makes."""
        if change.is_empty:
            return lambda transaction, state: None, lambda version: None
        added = {file.path: described(file, change.base) for file in change.added}
        dead = write_dead_rows(change, f"{tag.epoch:08}")
        document = document_of(change, added.values(), summary_of(tag), dead)
        made: dict[str, int] = {}

        def update(transaction: Java, state: Facts) -> int:
            refuse_changed(name, change.base, state)
            made.update(json.loads(self._catalog.java_named.commit.changeRows(transaction, document)))
            return made["id"]

        def written(version: str) -> None:
            # Otherwise an earlier try was found, and others may have committed since.
            if not made or version.partition("@")[2] != str(made["id"]):
                return
            noted(version, change.base.version, tag)
            # The ids of the rows of several files depend on the order of the files in manifests.
            known = (made["first"], made["sequence"]) if len(added) == 1 and change.base.has_lineage else None
            files = (
                DataFile(new.path, new.rows, new.stats, (), added[new.path], known, new.size, partition=new.partition)
                for new in change.added
            )
            self._stored[version.partition("@")[0]] = change.after(version, files, dead)

        return update, written

    def alter(self, name: TableName, changes: Iterable[ColumnChange], tag: CommitTag) -> str:
        """Change columns, all in one swap."""
        changes = tuple(changes)

        def update(transaction: Java, state: Facts) -> None:
            table = IcebergTable(transaction.table(), self._catalog.java_named, name)
            for change in changes:
                table.change_column(change)

        return swap(self._catalog, name, tag, update)

    # Maintenance

    def replace(self, name: TableName, change: FileChange, tag: CommitTag | None = None) -> None:
        """Swap files with the same rows in, in a snapshot that says so."""
        added = [described(file, change.base) for file in change.added]
        document = document_of(change, added, self._noted(tag))

        def update(transaction: Java, state: Facts) -> None:
            refuse_changed(name, change.base, state)
            self._catalog.java_named.commit.replaceFiles(transaction, document)

        swap(self._catalog, name, tag, update, step=False, append=False)

    def tidy(self, name: TableName, tag: CommitTag | None = None) -> None:
        """Write manifests anew if they are many, by Iceberg's own actions."""
        self._checked(name, tag)
        deletes = sum(len(file.dead) for file in self.stored(name).files)
        tidy(self._catalog, name, self.session()._jsparkSession, self._noted(tag), deletes)

    def expire(
        self,
        name: TableName,
        before: datetime,
        keep: Mapping[str, str | None] = {},
        tag: CommitTag | None = None,
    ) -> None:
        """Remove snapshots from before a moment, and tag those that stay. Files are left to :meth:`sweep`."""
        needed = {parsed_version(version)[1]: label for version, label in keep.items()}
        change = expiry(self._table(name).metadata(), before, needed)
        if not any(change):
            return

        def update(transaction: Java, state: Facts) -> None:
            expire(transaction, change)

        swap(self._catalog, name, tag, update, step=False, append=False)

    def sweep(self, name: TableName, before: datetime, tag: CommitTag | None = None) -> int:
        """Delete files in the table's folder that belong to no snapshot."""
        self._checked(name, tag)
        local = is_local(self._table(name).location)
        return self.session().sql(orphans(self.catalog, name, before, local=local)).count()

    def purge(self, before: datetime, keep: Collection[str] = (), tag: CommitTag | None = None) -> int:
        """Delete the files of tables that were dropped before a moment."""
        needed = {parsed_version(version)[0] for version in keep}
        old = [
            name
            for name, since, identity in dropped_tables(self._catalog, None if tag is None else tag.sync)
            if since < before.timestamp() and identity not in needed
        ]
        for name in old:
            self._checked(name, tag)
            location = Path(self._table(name).location)
            if has_another_name(self._catalog, name):
                self._catalog.forget(name)
                continue
            self._catalog.purge(name)
            if self._root is not None and location.parent == self._root / _DATA:
                shutil.rmtree(location, ignore_errors=True)  # what writers that failed left behind
        return len(old)

    def _noted(self, tag: CommitTag | None) -> dict[str, str]:
        return {} if tag is None else summary_of(tag, step=False)

    def _checked(self, name: TableName, tag: CommitTag | None) -> None:
        if tag is not None:
            self.check_epoch(name, tag)

    def _facts(self, table: IcebergTable) -> Facts:
        return facts_of(self._catalog.java_named, table.state)

    def _table(self, name: TableName) -> IcebergTable:
        table = self._catalog.table(name)
        if table is None:
            raise NoTable(f"there is no table {name} in {self.place}")
        return table

    def _place_of(self, identity: str, name: TableName) -> TableName:
        """Where the table with a uuid is now: most often under the name it had."""
        for place in filter(None, (name, self._seen.get(identity))):
            table = self._catalog.table(place)
            if table is not None and table.uuid == identity:
                return place
        self._seen = {}
        for place in self._catalog.names(first=(name.schema, DROPPED, MOVING)):
            table = self._catalog.table(place)
            if table is not None:
                self._seen[table.uuid] = place
                if table.uuid == identity:
                    return place
        raise TargetError(f"the table that {name} was is not in {self.place} any more: no table has uuid {identity}")


def catalog_conf(folder: str | Path, given: Mapping[str, str] | None) -> dict[str, str]:
    """Spark's settings of the catalog of a target: the one that is given, or the one in the folder."""
    return _configured(given) if given else _embedded(_local(folder))


def _local(folder: str | Path) -> Path:
    """The folder of an embedded catalog."""
    scheme, separator, _ = str(folder).partition("://")
    if not separator:
        return Path(folder).absolute()
    if scheme != "file":
        raise OptionError("target", f"an embedded catalog needs a local folder, which {folder} is not; give a catalog")
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


def _projected(written: Mapping[int, Field], wanted: Mapping[int, Field]) -> Iterator[Column]:
    """Columns as one schema has them, out of rows of another; Iceberg knows a column by its id."""
    for number, field in wanted.items():
        source = F.col(quoted(written[number].name)) if number in written else F.lit(None)
        yield source.cast(field.type).alias(field.name)
