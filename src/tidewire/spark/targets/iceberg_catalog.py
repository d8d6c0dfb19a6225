"""An Iceberg catalog in Spark's Java process, called directly.

Names, columns and snapshots are a matter of metadata: asking Iceberg itself needs no Spark job, no SQL, and no
quoting.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tidewire.errors import OptionError
from tidewire.model import TableName
from tidewire.spark.targets.base import Field, Mark, TargetError

SNAPSHOT_MARK = "tidewire.mark"
"""The key of a mark in the summary of a snapshot."""

_PREFIX = "spark.sql.catalog."
_MISSING = ("NoSuchTableException", "NoSuchNamespaceException")

Java: TypeAlias = Any
"""An object in the Java process."""


class Snapshot(NamedTuple):
    """A state of a table's rows: its id, and the schema its rows were written with."""

    id: int
    schema_id: int


def catalog_name(settings: Mapping[str, str]) -> str:
    """The one catalog that settings such as ``spark.sql.catalog.NAME.uri`` speak of."""
    names = {key.removeprefix(_PREFIX).partition(".")[0] for key in settings if key.startswith(_PREFIX)}
    if len(names) != 1 or not all(key.startswith(_PREFIX) for key in settings):
        reason = f"settings of one catalog, {_PREFIX}NAME and {_PREFIX}NAME.*, are needed; these are of {sorted(names)}"
        raise OptionError("catalog", reason)
    return names.pop()


class IcebergTable:
    """A table as it was when it was loaded."""

    def __init__(self, java: Java, jvm: Java) -> None:
        self._java = java
        self._jvm = jvm

    @property
    def uuid(self) -> str:
        """Its identity, whatever its name."""
        return str(self._java.uuid())

    @property
    def location(self) -> str:
        """Where its files are."""
        return str(self._java.location())

    def property_of(self, key: str) -> str | None:
        """One of its properties."""
        value: str | None = self._java.properties().get(key)
        return value

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Add properties, or replace them, in one commit."""
        update = self._java.updateProperties()
        for key, value in properties.items():
            update.set(key, value)
        update.commit()

    @property
    def schema_id(self) -> int:
        """The number of its current schema."""
        return int(self._java.schema().schemaId())

    def fields(self, schema_id: int | None = None) -> dict[int, Field]:
        """The columns of a schema by their ids, in order."""
        schema = self._java.schema() if schema_id is None else self._java.schemas().get(schema_id)
        if schema is None:
            raise TargetError(f"there is no schema {schema_id} any more in table {self._java.name()}")
        # Two calls, however many columns: one has the ids, the other Spark's types.
        columns = json.loads(self._jvm.org.apache.iceberg.SchemaParser.toJson(schema))["fields"]
        types = StructType.fromJson(
            json.loads(self._jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(schema).json())
        )
        return {
            column["id"]: Field(field.name, field.dataType.simpleString())
            for column, field in zip(columns, types.fields, strict=True)
        }

    def snapshot(self) -> Snapshot | None:
        """The current snapshot."""
        java = self._java.currentSnapshot()
        return None if java is None else _snapshot(java)

    def metadata(self) -> dict[str, Any]:
        """Everything the table says of itself, as its metadata file has it; one call, however many snapshots."""
        document = self._jvm.org.apache.iceberg.TableMetadataParser.toJson(self._java.operations().current())
        return dict(json.loads(document))

    def expire(self, ids: Iterable[int]) -> None:
        """Remove snapshots, these and no others, and then the files that only they have."""
        update = self._java.expireSnapshots().expireOlderThan(1).retainLast(1)  # without this, Iceberg has its own idea
        for id_ in ids:
            update = update.expireSnapshotId(id_)
        update.commit()

    def summaries(self, key: str) -> Iterator[str]:
        """What the writers of the current snapshot and its ancestors noted under a key, newest first.

        Each call to Java takes its time, so only what is asked for is fetched.
        """
        java = self._java.currentSnapshot()
        while java is not None:
            value = java.summary().get(key)
            if value is not None:
                yield value
            parent = java.parentId()
            java = None if parent is None else self._java.snapshot(parent)

    def snapshot_at(self, id_: int) -> Snapshot:
        """A snapshot by its id."""
        java = self._java.snapshot(id_)
        if java is None:
            raise TargetError(f"there is no snapshot {id_} any more in table {self._java.name()}")
        return _snapshot(java)

    def update_schema(self) -> Java:
        """A change of columns, to be committed."""
        return self._java.updateSchema()

    def iceberg_type(self, type_: str) -> Java:
        """A type, given in Spark's words."""
        spark_type = self._jvm.org.apache.spark.sql.types.DataType.fromDDL(type_)
        return self._jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(spark_type)

    def can_widen(self, column: str, type_: Java) -> bool:
        """Does the format let a column have another type, as its files are?"""
        old = self._java.schema().findField(column).type()
        return bool(type_.isPrimitiveType()) and bool(
            self._jvm.org.apache.iceberg.types.TypeUtil.isPromotionAllowed(old, type_)
        )


class IcebergCatalog:
    """A catalog that Spark knows under a name."""

    def __init__(self, spark: SparkSession, name: str) -> None:
        gateway = spark.sparkContext._gateway
        assert gateway is not None  # there is one while Spark runs
        self._gateway: Java = gateway
        self._jvm: Java = gateway.jvm
        self._java: Java = self._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(spark._jsparkSession, name)

    def table(self, name: TableName) -> IcebergTable | None:
        """A table, loaded now; ``None`` where there is none."""
        try:
            return IcebergTable(self._java.loadTable(self._identifier(name)), self._jvm)
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise

    def exists(self, name: TableName) -> bool:
        """Is there a table of that name?"""
        return bool(self._java.tableExists(self._identifier(name)))

    def create(
        self, name: TableName, fields: Iterable[Field], properties: Mapping[str, str], location: str | None
    ) -> None:
        """Make a table; the catalog chooses its place where none is given."""
        self.ensure_namespace(name.schema)
        struct = self._jvm.org.apache.spark.sql.types.StructType()
        for field in fields:
            struct = struct.add(field.name, self._jvm.org.apache.spark.sql.types.DataType.fromDDL(field.type))
        schema = self._jvm.org.apache.iceberg.spark.SparkSchemaUtil.convert(struct)
        builder = self._java.buildTable(self._identifier(name), schema).withProperties(dict(properties))
        if location is not None:
            builder = builder.withLocation(location)
        builder.create()

    def rename(self, old: TableName, new: TableName) -> None:
        """Move a table to a name that is free."""
        self.ensure_namespace(new.schema)
        self._java.renameTable(self._identifier(old), self._identifier(new))

    def purge(self, name: TableName) -> None:
        """Remove a table and all its files."""
        self._java.dropTable(self._identifier(name), True)

    def names(self) -> Iterator[TableName]:
        """All tables of all namespaces."""
        for namespace in self._namespaces(self._namespace()):
            schema = ".".join(namespace.levels())
            for identifier in self._java.listTables(namespace):
                yield TableName(schema, identifier.name())

    def names_in(self, schema: str) -> tuple[str, ...]:
        """The tables of one namespace; a missing one has none."""
        try:
            return tuple(identifier.name() for identifier in self._java.listTables(self._namespace(schema)))
        except Py4JJavaError as error:
            if _is_missing(error):
                return ()
            raise

    def ensure_namespace(self, schema: str) -> None:
        """Make a namespace, unless it is there."""
        namespace = self._namespace(schema)
        if self._java.namespaceExists(namespace):
            return
        try:
            self._java.createNamespace(namespace, {})
        except Py4JJavaError:
            if not self._java.namespaceExists(namespace):  # another thread may have been first
                raise

    def namespace_property(self, schema: str, key: str) -> str | None:
        """A property of a namespace."""
        try:
            value: str | None = self._java.loadNamespaceMetadata(self._namespace(schema)).get(key)
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise
        return value

    def set_namespace_property(self, schema: str, key: str, value: str) -> None:
        """Set a property of a namespace."""
        self._java.setProperties(self._namespace(schema), {key: value})

    def _namespaces(self, parent: Java) -> Iterator[Java]:
        """All namespaces. A dot makes levels of a name: the JDBC catalog shows ``a.b`` below an ``a`` of its making."""
        for namespace in self._java.listNamespaces(parent):
            yield namespace
            yield from self._namespaces(namespace)

    def _namespace(self, *levels: str) -> Java:
        array = self._gateway.new_array(self._jvm.java.lang.String, len(levels))
        for index, level in enumerate(levels):
            array[index] = level
        return self._jvm.org.apache.iceberg.catalog.Namespace.of(array)

    def _identifier(self, name: TableName) -> Java:
        return self._jvm.org.apache.iceberg.catalog.TableIdentifier.of(self._namespace(name.schema), name.table)


def newest_mark(table: IcebergTable, sync: str) -> Mark | None:
    """The newest mark of a sync: on the table itself, or on the newest snapshot that has one."""
    stamp = table.property_of(mark_property(sync))
    marks = (mark for mark in map(Mark.parse, table.summaries(SNAPSHOT_MARK)) if mark.sync == sync)
    found = [] if stamp is None else [Mark.parse(stamp)]
    return max([*found, *islice(marks, 1)], default=None)


def newest_marks(metadata: Mapping[str, Any]) -> list[Mark]:
    """The newest mark of every sync in a table's metadata, wherever it is."""
    stamps = (text for key, text in metadata["properties"].items() if key.startswith(mark_property("")))
    noted = (snapshot["summary"].get(SNAPSHOT_MARK) for snapshot in metadata["snapshots"])
    newest: dict[str, Mark] = {}
    for mark in map(Mark.parse, chain(stamps, filter(None, noted))):
        newest[mark.sync] = max(mark, newest.get(mark.sync, mark))
    return list(newest.values())


def mark_property(sync: str) -> str:
    """The key of a sync's mark in the properties of a table."""
    return f"{SNAPSHOT_MARK}.{sync}"


def _snapshot(java: Java) -> Snapshot:
    return Snapshot(java.snapshotId(), java.schemaId())


def _is_missing(error: Py4JJavaError) -> bool:
    return error.java_exception.getClass().getSimpleName() in _MISSING
