"""Delta tables as a target: a folder for each table, and documents that give them names."""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from py4j.java_gateway import is_instance_of
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidewire.errors import ColumnError, Retry
from tidewire.model import TableName
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
from tidewire.spark.targets.commits import tried
from tidewire.spark.targets.delta_catalogue import DeltaCatalogue
from tidewire.spark.targets.delta_commit import PROPERTIES, Transaction, Update, epoch_of
from tidewire.spark.targets.delta_files import actions_of, advanced, stored_table
from tidewire.spark.targets.delta_log import commits, hours_kept, is_younger, note_of, notes
from tidewire.spark.targets.files import MOST_TABLES, FileChange, StoredTable, rows_at
from tidewire.storage import Storage, open_storage
from tidewire.sync.table_options import NO_OPTIONS, TableOptions

_DATA: Final = "data"
_ID: Final = re.compile(r"[\w.-]+")
_NOTE: Final = "spark.databricks.delta.commitInfo.userMetadata"
_SNAPSHOT_PARTITIONS: Final = "spark.databricks.delta.snapshotPartitions"
ONLY_RECENT: Final = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"

_CHECKSUMS: Final = "spark.databricks.delta.writeChecksumFile.enabled"

_VACUUM: Final[Mapping[str, str | None]] = {
    _NOTE: None,
    # What may go is decided here, by the versions that are to be kept.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    # A table's folder has few folders in it; Spark's default lists them in ten thousand tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}


class DeltaTarget:
    """Delta tables in a folder, on a local disk or in any store that Spark and tidewire know."""

    def __init__(self, spark: SparkSession, folder: str | Path) -> None:
        self.uri = str(folder)
        self._storage = open_storage(str(folder))
        self._catalogue = DeltaCatalogue(self._storage)
        if spark.conf.get(_SNAPSHOT_PARTITIONS, None) is None:
            spark.conf.set(_SNAPSHOT_PARTITIONS, "2")  # the default, 50, is for logs of millions of files
        if spark.conf.get(_CHECKSUMS, None) is None:
            spark.conf.set(_CHECKSUMS, "false")  # a commit takes a third of the time without them
        spark.conf.set(ONLY_RECENT, "false")  # a version is readable as long as it is kept, and not for a week
        self._spark = spark
        self.context = spark.sparkContext
        self._stored: dict[str, StoredTable] = {}
        self._sessions = Sessions(spark)

    def relation(self, name: TableName) -> str:
        """What a table is called in SQL, quoted."""
        return self._relation(self._id(name))

    def session(self, tag: CommitTag | None = None) -> SparkSession:
        """This thread's session; commits made in it carry the tag."""
        return self._sessions.get({_NOTE: None if tag is None else note_of(tag)})

    def close(self) -> None:
        """Release the sessions of all threads."""
        self._sessions.close()

    # Looking

    def exists(self, name: TableName) -> bool:
        """Is there a table of that name?"""
        return name in self._catalogue.names().tables

    def names(self) -> tuple[TableName, ...]:
        """All tables there are."""
        return tuple(self._catalogue.names().tables)

    def fields(self, name: TableName) -> tuple[Field, ...]:
        """The columns of a table, in order."""
        schema = StructType.fromJson(json.loads(self._snapshot(self._id(name)).schema().json()))
        return tuple(Field(field.name, field.dataType.simpleString()) for field in schema.fields)

    def size(self, name: TableName) -> Size:
        """What a table takes; its versions are the commits in its log."""
        id_ = self._id(name)
        snapshot = self._snapshot(id_)
        vectors = snapshot.numDeletionVectorsOpt()
        return Size(
            int(snapshot.numOfFiles()),
            int(vectors.get()) if vectors.isDefined() else 0,
            int(snapshot.sizeInBytes()),
            len(commits(self._folder(id_))),
        )

    def row_count(self, name: TableName) -> int | None:
        """``None``: Delta would have to read the statistics of all files."""
        return None

    def rows_at(self, version: str) -> int | None:
        """How many rows a version has, if it is the newest one that this process has listed."""
        id_, number = _parsed(version)
        return rows_at(self._stored.get(id_), str(number))

    def version(self, name: TableName) -> str:
        """The table's folder and the number of its newest commit."""
        id_ = self._id(name)
        return f"{id_}@{self._snapshot(id_).version()}"

    def read(self, name: TableName, version: str | None = None) -> DataFrame:
        """The rows of a table, now or as of a version."""
        if version is None:
            return self._spark.table(self.relation(name))
        id_, number = _parsed(version)
        if number > self._snapshot(id_).version():
            raise TargetError(f"version {version} of {name} is not in {self.uri} any more")
        try:
            return self._spark.sql(f"SELECT * FROM {self._relation(id_)} VERSION AS OF {number}")
        except AnalysisException as error:  # its log is cleaned up
            raise TargetError(f"version {version} of {name} cannot be read any more: {error}") from error

    def can_widen(self, old: str, new: str) -> bool:
        """Can Delta read files of one type as another?"""
        parse = self._java("org.apache.spark.sql.types.DataType").fromDDL
        types = parse(old), parse(new)
        gateway = self._spark.sparkContext._gateway
        if not all(is_instance_of(gateway, type_, "org.apache.spark.sql.types.AtomicType") for type_ in types):
            return False
        return bool(self._java("org.apache.spark.sql.delta.TypeWidening").isTypeChangeSupported(*types))

    def has_defaults(self, name: TableName) -> bool:
        """No table of Delta does."""
        return False

    def partition_columns(self, name: TableName) -> tuple[str, ...]:
        """The columns that say which partition a row belongs in."""
        return tuple(json.loads(self._snapshot(self._id(name)).metadata().json())["metaData"]["partitionColumns"])

    # Steps

    def find(self, name: TableName, step: str) -> str | None:
        """The version in which a step was completed, by what the newest commits noted."""
        id_ = self._catalogue.names().tables.get(name)
        return None if id_ is None else self._found(id_, step)

    def parts(self, name: TableName, step: str) -> int:
        """How many parts of a step were committed to a table."""
        id_ = self._catalogue.names().tables.get(name)
        return 0 if id_ is None else self._parts(id_, step)

    def moved(self, tag: CommitTag) -> bool:
        """Has a step changed names? They change all at once."""
        return self._catalogue.names().has_moved(tag)

    def check_epoch(self, name: TableName, tag: CommitTag) -> None:
        """Raise ``Fenced`` if the table has a newer epoch than the tag's."""
        refuse_older(name, self._epoch(self._id(name), tag.sync), tag)

    def fence(self, name: TableName, tag: CommitTag) -> None:
        """Commit the epoch to the names and to a table."""
        self._catalogue.update(lambda names: names.by(tag, name))
        id_ = self._catalogue.names().tables.get(name)
        if id_ is not None:
            self._commit(name, id_, tag, lambda transaction: transaction.change(name, (), tag), step=False)

    def create(
        self,
        name: TableName,
        fields: Iterable[Field],
        tag: CommitTag,
        *,
        identity: str | None = None,
        options: TableOptions = NO_OPTIONS,
    ) -> str:
        """Make an empty table, and only then give it the name."""
        refuse_reserved(name)
        options.check_format("delta", str(name))
        fields = tuple(fields)
        for each in options.partition:
            type_ = next(field.type for field in fields if field.name == each.column)
            if type_ not in ("int", "bigint", "date"):
                raise ColumnError(
                    f"{each.column} cannot partition {name}: with Delta only whole numbers and dates can, and it is of "
                    f"type {type_}. Delta reads an empty text there as NULL. Take it out of the rule's partition"
                )
        id_ = uuid.uuid4().hex
        self._catalogue.update(lambda names: names.by(tag, name).with_unnamed(id_, _now()))
        version = self._commit(name, id_, tag, lambda transaction: transaction.make_table(id_, fields, tag, options))
        self._catalogue.update(lambda names: names.with_table(name, id_, tag, _now(), identity))
        return version

    def adoptable(self, name: TableName) -> Adoptable | None:
        """A table in the folder ``data/<schema>.<table>``, with its columns."""
        id_ = str(name)
        if not self._storage.list(f"{_DATA}/{id_}/_delta_log"):
            return None
        schema = StructType.fromJson(json.loads(self._snapshot(id_).schema().json()))
        fields = tuple(Field(field.name, field.dataType.simpleString()) for field in schema.fields)
        required = frozenset(field.name for field in schema.fields if not field.nullable)
        problem = None if _ID.fullmatch(id_) else "its name has letters that no folder here can have"
        return Adoptable(self._relation(id_), fields, required, problem=problem)

    def adopt(self, name: TableName, tag: CommitTag) -> str:
        """Switch on what tables of a sync need, commit the tag, and only then give the table its name."""
        id_ = str(name)
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
        self.session().sql(f"ALTER TABLE {self._relation(id_)} SET TBLPROPERTIES ({properties})")
        version = self._commit(name, id_, tag, lambda transaction: transaction.change(name, (), tag))
        self._catalogue.update(lambda names: names.by(tag, name).with_table(name, id_, tag, _now()))
        return version

    def drop(self, name: TableName, tag: CommitTag, *, identity: str | None = None) -> None:
        """Take a table's name away; its versions can still be read until it is purged."""
        self._catalogue.update(lambda names: names.without_table(name, tag, _now(), identity))

    def rename(
        self, moves: Iterable[tuple[TableName, TableName]], tag: CommitTag, *, identities: Mapping[TableName, str] = {}
    ) -> dict[TableName, str]:
        """Move tables, all at once, in one document. A fence comes first, for a table that goes and comes back."""
        moves = tuple(moves)
        names = self._catalogue.names()
        names.with_moves(moves, tag, identities)
        if not names.has_moved(tag):
            for old, new in moves:
                refuse_reserved(new)
                if old != new and self.find(old, tag.step) is None:
                    self.alter(old, (), tag)
            self._catalogue.update(lambda names: names.with_moves(moves, tag, identities))
        found = {new: self.find(new, tag.step) for _, new in moves}
        return {new: version for new, version in found.items() if version is not None}

    def truncate(self, name: TableName, tag: CommitTag) -> str:
        """Remove all files of rows."""

        def update(transaction: Transaction) -> None:
            transaction.change(name, (), tag)
            transaction.remove_files()

        return self._commit(name, self._id(name), tag, update)

    def stored(self, name: TableName, *, listed: bool = False) -> StoredTable:
        """What a table is made of: what was known, and what the log says of later versions."""
        id_ = self._id(name)
        snapshot, known = self._snapshot(id_), self._stored.get(id_)
        if listed or known is None or int(known.version) != int(snapshot.version()):
            later = None if known is None or listed else advanced(name, known, snapshot, self._folder(id_))
            known = later or stored_table(name, snapshot, self._folder(id_), self._path(id_))
            if len(self._stored) >= MOST_TABLES:
                self._stored.clear()
            self._stored[id_] = known
        return known

    def write(self, name: TableName, change: FileChange, tag: CommitTag) -> str:
        """Commit new files and dead rows."""
        if change.is_empty:
            return self.alter(name, (), tag)
        return self._commit_files(name, change, tag, is_data=True)

    def _commit_files(self, name: TableName, change: FileChange, tag: CommitTag | None, *, is_data: bool) -> str:
        actions = list(actions_of(change, is_data=is_data))

        def update(transaction: Transaction) -> None:
            if transaction.version != int(change.base.version):
                raise Retry(f"another program changed {name} after it was searched")
            if tag is not None:
                transaction.change(name, (), tag)
            transaction.add(actions)

        return self._commit(name, self._id(name), tag, update, step=is_data)

    def alter(self, name: TableName, changes: Iterable[ColumnChange], tag: CommitTag) -> str:
        """Change columns, all in one commit."""
        changes = tuple(changes)
        return self._commit(name, self._id(name), tag, lambda transaction: transaction.change(name, changes, tag))

    # Maintenance

    def replace(self, name: TableName, change: FileChange, tag: CommitTag | None = None) -> None:
        """Commit files with the same rows, as a commit that does not change data."""
        self._commit_files(name, change, tag, is_data=False)

    def tidy(self, name: TableName, tag: CommitTag | None = None) -> None:
        """Nothing to do: Delta writes checkpoints by itself."""
        self._checked(name, tag)

    def expire(
        self, name: TableName, before: datetime, keep: Mapping[str, str | None] = {}, tag: CommitTag | None = None
    ) -> None:
        """Delete the files that only versions from before a moment have.

        Delta goes by when a file was removed, in whole hours, and not by versions. So if a version is to be kept,
        everything from its time on stays.
        """
        self._checked(name, tag)
        id_ = self._id(name)
        current = self._snapshot(id_).version()
        needed = [number for table, number in map(_parsed, keep) if table == id_ and number < current]
        written = commits(self._folder(id_))
        hours = hours_kept(written, before.timestamp(), min(needed, default=None))
        if is_younger(written, hours):
            return  # VACUUM takes seconds of CPU time, also if nothing is to be deleted
        self._sessions.get(_VACUUM).sql(f"VACUUM {self.relation(name)} RETAIN {hours} HOURS")

    def sweep(self, name: TableName, before: datetime, tag: CommitTag | None = None) -> int:
        """Nothing to do: files that belong to no version go with old versions."""
        self._id(name)
        return 0

    def purge(self, before: datetime, keep: Collection[str] = (), tag: CommitTag | None = None) -> int:
        """Delete the folders that have had no name since before a moment."""
        dropped, needed = self._catalogue.names().dropped, {_parsed(version)[0] for version in keep}
        old = [id_ for id_, since in dropped.items() if since < before.timestamp() and id_ not in needed]
        for id_ in old:
            if tag is not None:
                self._catalogue.update(lambda names: names.by(tag, TableName(_DATA, id_)))  # noqa: B023
            self._storage.delete([entry.name for entry in self._storage.list(f"{_DATA}/{id_}", recursive=True)])
            if self._storage.local is not None:
                shutil.rmtree(self._storage.local / _DATA / id_, ignore_errors=True)  # folders without files
        self._catalogue.update(lambda names: names.without_folders(old))
        return len(old)

    def _checked(self, name: TableName, tag: CommitTag | None) -> None:
        if tag is not None:
            self.check_epoch(name, tag)

    def _id(self, name: TableName) -> str:
        return self._catalogue.names().id_of(name)

    def _relation(self, id_: str) -> str:
        return f"delta.{quoted(self._path(id_))}"

    def _path(self, id_: str) -> str:
        return self._storage.path(_DATA, id_)

    def _folder(self, id_: str) -> Storage:
        return self._storage.below(f"{_DATA}/{id_}")

    def _snapshot(self, id_: str) -> Java:
        log = self._java("org.apache.spark.sql.delta.DeltaLog")
        return log.forTableWithSnapshot(self._spark._jsparkSession, self._path(id_))._2()

    def _java(self, name: str) -> Java:
        found: Java = self._spark._jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def _commit(self, name: TableName, id_: str, tag: CommitTag | None, update: Update, *, step: bool = True) -> str:
        """Commit to a table's folder; the version that this makes. Without a tag no epoch is checked."""

        def look() -> str | None:
            if not step or tag is None:
                return None
            if tag.part is None:
                return self._found(id_, tag.step)
            return f"{id_}@{self._snapshot(id_).version()}" if self._parts(id_, tag.step) > tag.part else None

        def attempt(again: bool) -> str:
            found = look() if again else None
            if found is not None:
                return found
            session = self._sessions.get({_NOTE: None if tag is None else note_of(tag, step=step)})
            transaction = Transaction(session, self._path(id_))
            if tag is not None:
                transaction.check_epoch(name, tag)
            update(transaction)
            return f"{id_}@{transaction.commit(tag, step=step)}"

        return tried(name, self.uri, attempt, look)

    def _found(self, id_: str, step: str) -> str | None:
        found = notes(self._folder(id_), self._snapshot(id_).version())
        return next((f"{id_}@{note.version}" for note in found if note.step == step and note.part is None), None)

    def _parts(self, id_: str, step: str) -> int:
        found = notes(self._folder(id_), self._snapshot(id_).version())
        return max((note.part + 1 for note in found if note.step == step and note.part is not None), default=0)

    def _epoch(self, id_: str, sync: str) -> int:
        return epoch_of(self._snapshot(id_).metadata(), sync)


def _parsed(version: str) -> tuple[str, int]:
    id_, _, number = version.partition("@")
    if not (_ID.fullmatch(id_) and number.isdecimal()):
        raise TargetError(f"{version!r} is not a version of a Delta table")
    return id_, int(number)


def _now() -> int:
    return int(time.time())
