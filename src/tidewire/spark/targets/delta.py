"""Delta tables as a target: a folder for each table, and a document that gives them names."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from py4j.java_gateway import is_instance_of
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidewire.ddl.edits import Place
from tidewire.model import TableName
from tidewire.spark.session import cloned
from tidewire.spark.targets.base import Field, Mark, Size, TargetError
from tidewire.spark.targets.delta_catalogue import DeltaCatalogue, Entry
from tidewire.spark.targets.delta_log import commits, hours_kept
from tidewire.spark.targets.sql_text import quoted, text_literal
from tidewire.spark.targets.thread_sessions import ThreadSessions
from tidewire.spark.work import Work

_DATA = "data"
_STEPS = 100_000
"""A mark becomes one number for Delta: the plan's times this, and the step's."""

_TXN = "spark.databricks.delta.write.txn"
_SNAPSHOT_PARTITIONS = "spark.databricks.delta.snapshotPartitions"
_ONLY_RECENT = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"

_PROPERTIES: Mapping[str, str] = {
    # Columns are known by an id, so that renaming or dropping one does not touch files, and names may be odd.
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.feature.timestampNtz": "supported",
}

_WIDENING = "'delta.enableTypeWidening' = 'true'"
"""What a table needs before a type is widened. Not all readers know it, so tables have it no sooner than they must."""

_FEW_FILES = 5
"""Fewer small files than this are not worth a new one."""

_VACUUM: Mapping[str, str | None] = {
    f"{_TXN}AppId": None,
    f"{_TXN}Version": None,
    # What may go is decided here, by the versions that are to be kept.
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
    "spark.databricks.delta.vacuum.retentionWindowIgnore.enabled": "false",
    # A table's folder has few folders in it; Spark's default lists them in ten thousand tasks.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "2",
}

Java: TypeAlias = Any
"""An object in Spark's Java process."""


class DeltaTarget:
    """Delta tables in a folder, on a local disk or in any store that Spark and Arrow know."""

    def __init__(self, spark: SparkSession, folder: str | Path) -> None:
        self.uri = str(folder)
        self._place = Work(folder)
        self._catalogue = DeltaCatalogue(self._place)
        if spark.conf.get(_SNAPSHOT_PARTITIONS, None) is None:
            spark.conf.set(_SNAPSHOT_PARTITIONS, "2")  # the default, 50, is for logs of millions of files
        spark.conf.set(_ONLY_RECENT, "false")  # a version is readable as long as it is kept, and not for a week
        self._spark = spark
        self._sessions = ThreadSessions(spark)
        # Columns are looked up here first; then Spark may not take a column's new spelling for another column.
        self._exact = cloned(spark)
        self._exact.conf.set("spark.sql.caseSensitive", "true")

    def relation(self, name: TableName) -> str:
        """What a table is called in SQL, quoted."""
        return self._relation(self._entry(name).id)

    def session(self, mark: Mark | None = None) -> SparkSession:
        """This thread's session; the next commit in it carries the mark, and one that has it already is skipped."""
        if mark is None:
            return self._sessions.get({f"{_TXN}AppId": None, f"{_TXN}Version": None})
        return self._sessions.get({f"{_TXN}AppId": mark.sync, f"{_TXN}Version": str(_number(mark))})

    def has(self, name: TableName, mark: Mark) -> bool:
        """Did a commit with this mark, or a later one of the same sync, change the table?"""
        entry = self._catalogue.names().tables.get(name)
        if entry is None:
            return False
        stamped = entry.marks.get(mark.sync)
        if stamped is not None and stamped >= mark:
            return True
        return self._newest(entry, mark.sync) >= _number(mark)

    def stamp(self, name: TableName, mark: Mark) -> None:
        """Put a mark on the table itself, which is its line in the document."""
        self._catalogue.update(lambda names: names.with_mark(name, mark))

    def keep_marks(self, name: TableName) -> None:
        """Nothing to do: Delta keeps transaction numbers when it removes old versions."""
        self._entry(name)

    def exists(self, name: TableName) -> bool:
        """Is there a table of that name?"""
        return name in self._catalogue.names().tables

    def fields(self, name: TableName) -> tuple[Field, ...]:
        """The columns of a table, in order."""
        schema = StructType.fromJson(json.loads(self._snapshot(self._entry(name).id).schema().json()))
        return tuple(Field(field.name, field.dataType.simpleString()) for field in schema.fields)

    def create(
        self,
        name: TableName,
        fields: Iterable[Field],
        properties: Mapping[str, str] = {},
        mark: Mark | None = None,
    ) -> None:
        """Make an empty table, and only then give it the name."""
        entry = Entry(uuid.uuid4().hex).stamped(mark)
        self._catalogue.update(lambda names: names.with_unnamed(entry.id, _now()))
        columns = ", ".join(map(_declared, fields))
        settings = {**_PROPERTIES, **properties}.items()
        tblproperties = ", ".join(f"{text_literal(key)} = {text_literal(value)}" for key, value in settings)
        self._exact.sql(
            f"CREATE TABLE {self._relation(entry.id)} ({columns}) USING delta TBLPROPERTIES ({tblproperties})"
        )
        self._catalogue.update(lambda names: names.with_table(name, entry, _now()))

    def drop(self, name: TableName) -> None:
        """Take a table's name away; its versions can still be read until it is purged."""
        self._catalogue.update(lambda names: names.without_table(name, _now()))

    def purge(self, before: datetime, keep: Collection[str] = ()) -> int:
        """Delete the folders that have had no name since before a moment."""
        dropped, needed = self._catalogue.names().dropped, {_parsed(version)[0] for version in keep}
        old = [id_ for id_, since in dropped.items() if since < before.timestamp() and id_ not in needed]
        for id_ in old:
            with suppress(FileNotFoundError):  # a table that was never made, or a purge that was interrupted
                self._place.filesystem.delete_dir(self._place.arrow_path(self._path(id_)))
        self._catalogue.update(lambda names: names.without_folders(old))
        return len(old)

    def rename(self, moves: Iterable[tuple[TableName, TableName]], mark: Mark) -> None:
        """Move tables, all at once: the document changes in one step."""
        moves = tuple(moves)
        self._catalogue.update(lambda names: names.with_moves(moves, mark))

    def add_column(self, name: TableName, field: Field, place: Place = Place()) -> None:
        """Add a column, NULL in existing rows."""
        if self._column(name, field.name) is None:
            self._alter(name, f"ADD COLUMNS ({_declared(field)}{self._where(name, place)})")

    def drop_column(self, name: TableName, column: str) -> None:
        """Drop a column; a missing one is fine."""
        found = self._column(name, column)
        if found is not None:
            self._alter(name, f"DROP COLUMN {quoted(found.name)}")

    def rename_column(self, name: TableName, column: str, new: str) -> None:
        """Rename a column; a missing one is fine."""
        found = self._column(name, column)
        if found is not None and found.name != new:
            self._alter(name, f"RENAME COLUMN {quoted(found.name)} TO {quoted(new)}")

    def widen_column(self, name: TableName, column: str, type_: str) -> bool:
        """Change a column's type where Delta can read the old files as the new type."""
        found = self._existing(name, column)
        if found.type == type_:
            return True
        if not self._can_widen(found.type, type_):
            return False
        self._alter(name, f"SET TBLPROPERTIES ({_WIDENING})")
        self._alter(name, f"ALTER COLUMN {quoted(found.name)} TYPE {type_}")
        return True

    def move_column(self, name: TableName, column: str, place: Place) -> None:
        """Move a column."""
        found, where = self._existing(name, column), self._where(name, place)
        if where:
            self._alter(name, f"ALTER COLUMN {quoted(found.name)}{where}")

    def version(self, name: TableName) -> str:
        """The table's folder and the number of its newest commit."""
        id_ = self._entry(name).id
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

    def names(self) -> tuple[TableName, ...]:
        """All tables there are."""
        return tuple(self._catalogue.names().tables)

    def size(self, name: TableName) -> Size:
        """What a table takes; its versions are the commits in its log."""
        id_ = self._entry(name).id
        snapshot = self._snapshot(id_)
        vectors = snapshot.numDeletionVectorsOpt()
        return Size(
            int(snapshot.numOfFiles()),
            int(vectors.get()) if vectors.isDefined() else 0,
            int(snapshot.sizeInBytes()),
            len(commits(self._place, self._path(id_))),
        )

    def compact(self, name: TableName) -> None:
        """Make few large files of many small ones, and of those with many deleted rows."""
        size = self.size(name)
        if size.files >= _FEW_FILES or size.deletes:
            self.session().sql(f"OPTIMIZE {self.relation(name)}")

    def expire(self, name: TableName, before: datetime, keep: Collection[str] = ()) -> None:
        """Delete the files that only versions from before a moment have.

        Delta goes by when a file was removed, in whole hours, and not by versions. So where a version is to be kept,
        everything from its time on stays.
        """
        id_ = self._entry(name).id
        path, current = self._path(id_), self._snapshot(id_).version()
        needed = [number for table, number in map(_parsed, keep) if table == id_ and number < current]
        hours = hours_kept(commits(self._place, path), before.timestamp(), min(needed, default=None))
        self._sessions.get(_VACUUM).sql(f"VACUUM {self.relation(name)} RETAIN {hours} HOURS")

    def sweep(self, name: TableName, before: datetime) -> int:
        """Nothing to do: what no version has goes with old versions."""
        self._entry(name)
        return 0

    def _entry(self, name: TableName) -> Entry:
        return self._catalogue.names().entry(name)

    def _relation(self, id_: str) -> str:
        return f"delta.{quoted(self._path(id_))}"

    def _path(self, id_: str) -> str:
        return self._place.path(_DATA, id_)

    def _snapshot(self, id_: str) -> Java:
        log = self._java("org.apache.spark.sql.delta.DeltaLog")
        return log.forTableWithSnapshot(self._spark._jsparkSession, self._path(id_))._2()

    def _java(self, name: str) -> Java:
        found: Java = self._spark._jvm
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def _newest(self, entry: Entry, sync: str) -> int:
        """The number of a sync's newest commit; -1 where there is none."""
        snapshot = self._snapshot(entry.id)
        # Delta notes the numbers beside each commit; without the note it reads its log, which is a Spark job.
        checksum = snapshot.checksumOpt()
        noted = checksum.get().setTransactions() if checksum.isDefined() else checksum
        if noted.isDefined():
            found = noted.get()
            return max(
                (each.version() for each in map(found.apply, range(found.size())) if each.appId() == sync), default=-1
            )
        number = snapshot.transactions().get(sync)
        return int(number.get()) if number.isDefined() else -1

    def _can_widen(self, old: str, new: str) -> bool:
        parse = self._java("org.apache.spark.sql.types.DataType").fromDDL
        types = parse(old), parse(new)
        gateway = self._spark.sparkContext._gateway
        if not all(is_instance_of(gateway, type_, "org.apache.spark.sql.types.AtomicType") for type_ in types):
            return False
        return bool(self._java("org.apache.spark.sql.delta.TypeWidening").isTypeChangeSupported(*types))

    def _column(self, name: TableName, column: str) -> Field | None:
        """A column, whatever its spelling."""
        return next((field for field in self.fields(name) if field.name.lower() == column.lower()), None)

    def _existing(self, name: TableName, column: str) -> Field:
        found = self._column(name, column)
        if found is None:
            raise TargetError(f"there is no column {column} in {name}")
        return found

    def _where(self, name: TableName, place: Place) -> str:
        """A place in SQL."""
        if place.first:
            return " FIRST"
        return "" if place.after is None else f" AFTER {quoted(self._existing(name, place.after).name)}"

    def _alter(self, name: TableName, change: str) -> None:
        self._exact.sql(f"ALTER TABLE {self.relation(name)} {change}")


def _parsed(version: str) -> tuple[str, int]:
    id_, _, number = version.partition("@")
    if not (id_.isalnum() and number.isdecimal()):
        raise TargetError(f"{version!r} is no version of a Delta table")
    return id_, int(number)


def _declared(field: Field) -> str:
    return f"{quoted(field.name)} {field.type}"


def _number(mark: Mark) -> int:
    if mark.step >= _STEPS:
        raise TargetError(f"a plan has at most {_STEPS} steps for Delta; {mark} is beyond")
    return mark.sequence * _STEPS + mark.step


def _now() -> int:
    return int(time.time())
