"""Commits to a Delta table through Delta's own transaction, in Spark's Java process.

A transaction writes two application ids: one has the sync's epoch as its version, the other the sequence of the sync's
plan. The first commit of an epoch also changes the table's metadata, and a transaction that began before such a commit
cannot be committed after it. So a driver that was replaced is refused.

Columns are changed in the metadata's schema. Delta itself gives new columns their ids and physical names, and switches
on the table features that the metadata asks for.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from pyspark.sql import SparkSession

from tidewire.errors import ColumnError
from tidewire.model import TableName
from tidewire.spark.sessions import activate
from tidewire.spark.targets.base import (
    AddColumn,
    ColumnChange,
    CommitTag,
    DropColumn,
    Field,
    Java,
    MoveColumn,
    RenameColumn,
    WidenColumn,
    existing,
    refuse_older,
    spelled,
)
from tidewire.sync.table_options import NO_OPTIONS, TableOptions

PROPERTIES: Final[Mapping[str, str]] = {
    # Columns are known by an id, so that renaming or dropping one does not touch files, and names may be odd.
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.feature.timestampNtz": "supported",
    # A checkpoint takes longer than a commit, and every tenth commit would write one.
    "delta.checkpointInterval": "100",
}

_WIDENING: Final = {"delta.enableTypeWidening": "true"}
"""What a table needs before a type is widened. Not all readers know it, so tables get it no sooner than they must."""

_CHANGES: Final = "delta.typeChanges"

SORT: Final = "tidewire.sort"
"""What a column's metadata has if rows are ordered by it: its place among such columns."""

Metadata: TypeAlias = dict[str, Any]
"""A table's metadata as its log has it."""


def epoch_id(sync: str) -> str:
    """The application id whose version is a sync's epoch."""
    return f"tidewire-epoch-{sync}"


def epoch_of(metadata: Java, sync: str) -> int:
    """The newest epoch of a sync's drivers in a table's metadata; 0 if they left no epoch."""
    found = metadata.configuration().get(epoch_id(sync))
    return int(found.get()) if found.isDefined() else 0


def sequence_id(sync: str) -> str:
    """The application id whose version is the sequence of a sync's plan."""
    return f"tidewire-sequence-{sync}"


class Transaction:
    """A transaction on the newest version of a table, in a session whose settings say what the commit notes."""

    def __init__(self, session: SparkSession, path: str) -> None:
        activate(session)  # Delta asks the thread's active session for settings
        jvm: Java = session._jvm
        self._jvm = jvm
        self._delta: Java = jvm.org.apache.spark.sql.delta
        self.java: Java = self._delta.DeltaLog.forTable(session._jsparkSession, path).startTransaction()
        self._actions: list[Java] = []

    def check_epoch(self, name: TableName, tag: CommitTag) -> None:
        """Raise ``Fenced`` if the table has a newer epoch. One that is committed later makes this commit fail.

        The epoch is read from the metadata. The transaction ids have it too, but Delta reads them with a Spark job.
        """
        refuse_older(name, epoch_of(self.java.snapshot().metadata(), tag.sync), tag)
        # As if it had read the id: a commit of this sync that lands in between, such as an earlier try of the same
        # step, is then a conflict.
        self.java.readTxn().addOne(epoch_id(tag.sync))

    def make_table(self, id_: str, fields: Iterable[Field], tag: CommitTag, options: TableOptions = NO_OPTIONS) -> None:
        """Make the table, if the transaction is on a folder without one."""
        schema: dict[str, Any] = {"type": "struct", "fields": [self._column(field) for field in fields]}
        for number, name in enumerate(options.sort):
            next(column for column in schema["fields"] if column["name"] == name)["metadata"][SORT] = number
        metadata = {
            "id": id_,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(schema),
            "partitionColumns": [each.column for each in options.partition],
            "configuration": {**PROPERTIES, epoch_id(tag.sync): str(tag.epoch)},
            "createdTime": int(time.time() * 1000),
        }
        self.java.updateMetadataForNewTable(self._action({"metaData": metadata}))

    def change(self, name: TableName, changes: Iterable[ColumnChange], tag: CommitTag) -> None:
        """Change columns, and the epoch in the metadata if it is older. A transaction can do this once."""
        metadata: Metadata = json.loads(self.java.snapshot().metadata().json())["metaData"]
        schema, changes = json.loads(metadata["schemaString"]), tuple(changes)
        for change in changes:
            if self._changed(schema["fields"], name, change):
                metadata["configuration"] |= _WIDENING
        new = {**metadata, "schemaString": json.dumps(schema)}
        new["partitionColumns"] = [_renamed(name, changes) for name in metadata["partitionColumns"]]
        new["configuration"] = {**metadata["configuration"], epoch_id(tag.sync): str(tag.epoch)}
        if json.loads(metadata["schemaString"]) != schema or new["configuration"] != metadata["configuration"]:
            self.java.updateMetadata(self._action({"metaData": new}), False)

    @property
    def version(self) -> int:
        """The version that the transaction began with."""
        return int(self.java.snapshot().version())

    def add(self, actions: Iterable[Mapping[str, object]]) -> None:
        """Add actions."""
        self._actions += [self._action(action) for action in actions]

    def remove_files(self) -> None:
        """Remove all rows."""
        files, now = self.java.filterFiles(), int(time.time() * 1000)
        self._actions += [files.apply(number).removeWithTimestamp(now, True) for number in range(files.size())]

    def commit(self, tag: CommitTag | None, *, step: bool = True) -> int:
        """Commit; the number of the new version."""
        now = int(time.time() * 1000)
        versions = {} if tag is None else {epoch_id(tag.sync): tag.epoch}
        if tag is not None and step:
            versions[sequence_id(tag.sync)] = tag.sequence
        self._actions += [
            self._action({"txn": {"appId": id_, "version": version, "lastUpdated": now}})
            for id_, version in versions.items()
        ]
        actions = self._jvm.java.util.ArrayList()
        for action in self._actions:
            actions.add(action)
        operation = getattr(getattr(self._delta, "DeltaOperations$ManualUpdate$"), "MODULE$")
        return exchange(self.java, self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(actions).toSeq(), operation)

    def _action(self, document: Mapping[str, object]) -> Java:
        return self._delta.actions.Action.fromJson(json.dumps(document))

    def _type(self, type_: str) -> Any:
        return json.loads(self._jvm.org.apache.spark.sql.types.DataType.fromDDL(type_).json())

    def _column(self, field: Field) -> dict[str, Any]:
        return {"name": field.name, "type": self._type(field.type), "nullable": True, "metadata": {}}

    def _changed(self, columns: list[dict[str, Any]], table: TableName, change: ColumnChange) -> bool:
        """Change a column in a schema; does that widen its type?"""
        names = [column["name"] for column in columns]

        def place_of(after: str | None) -> int:
            left = [column["name"] for column in columns]
            return len(left) if after is None else left.index(existing(left, table, after)) + 1

        match change:
            case AddColumn(field, place):
                if spelled(names, field.name) is None:
                    columns.insert(0 if place.first else place_of(place.after), self._column(field))
            case DropColumn(name):
                found = spelled(names, name)
                columns[:] = [column for column in columns if column["name"] != found]
            case RenameColumn(name, new):
                found, taken = spelled(names, name), spelled(names, new)
                if found is not None and taken not in (None, found):
                    raise ColumnError(f"column {found} of {table} cannot become {new}: there is a column {taken}")
                if found is not None:
                    columns[names.index(found)]["name"] = new
            case WidenColumn(name, type_):
                column, wide = columns[names.index(existing(names, table, name))], self._type(type_)
                if column["type"] == wide:
                    return False
                widened = {"fromType": column["type"], "toType": wide}
                column["metadata"][_CHANGES] = [*column["metadata"].get(_CHANGES, ()), widened]
                column["type"] = wide
                return True
            case MoveColumn(name, place):
                found = existing(names, table, name)
                if place.after is not None:
                    existing(names, table, place.after)
                if place.first or place.after is not None:
                    moving = columns.pop(names.index(found))
                    columns.insert(0 if place.first else place_of(place.after), moving)
        return False


def _renamed(column: str, changes: Iterable[ColumnChange]) -> str:
    """The name of a column after changes."""
    for change in changes:
        if isinstance(change, RenameColumn) and change.name.lower() == column.lower():
            column = change.new
    return column


def exchange(transaction: Java, actions: Java, operation: Java) -> int:
    """Commit a transaction, if no later commit is in conflict with what it has read."""
    return int(transaction.commit(actions, operation))


Update: TypeAlias = Callable[[Transaction], None]
"""Makes changes in a transaction."""
