"""An Iceberg catalog in Spark's Java process, called directly.

Names, columns and snapshots are a matter of metadata: asking Iceberg itself needs no Spark job, no SQL, and no
quoting.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import pyarrow as pa
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from tidewire.ddl.edits import ColumnPosition
from tidewire.errors import ColumnError, NameRefused, OptionError
from tidewire.model import TableName
from tidewire.spark.sessions import activate
from tidewire.spark.targets.base import (
    RESERVED,
    AddColumn,
    ColumnChange,
    DropColumn,
    Field,
    Java,
    MoveColumn,
    RenameColumn,
    TargetError,
    WidenColumn,
    existing,
    java_kind,
    root_cause,
    spelled,
)
from tidewire.spark.targets.files import MOST_TABLES, comparable
from tidewire.spark.targets.iceberg_java import JavaNames
from tidewire.spark.targets.iceberg_values import json_of
from tidewire.sync.table_options import NO_OPTIONS, PartitionBy, TableOptions

_PREFIX: Final = "spark.sql.catalog."
_NAME: Final = "tidewire.name"
"""The property that says how the upstream spells a table's name, where the catalog cannot."""

_PROBE: Final = TableName(RESERVED[0], "probe")
"""A table that no catalog has: asking for it shows whether the catalog answers."""

_PLAIN: Final = re.compile(r"[a-z0-9_]{1,252}")

_MISSING: Final = ("NoSuchTableException", "NoSuchNamespaceException", "EntityNotFoundException")
_NOT_LISTED: Final = "UnsupportedOperationException"
_EMPTY: Final = "IllegalArgumentException"
"""What Iceberg raises for an endpoint that a server does not list, and for a request without tables."""

_ANOTHER: Final = "IllegalStateException"
"""What a kept table raises if its name leads to a table with another uuid now."""


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
    """A table in the state that was loaded, or in the state that a transaction has made so far."""

    def __init__(
        self, java: Java, named: JavaNames, name: TableName, state: Java = None, uuid: str | None = None
    ) -> None:
        self.java = java
        self.name = name
        self.java_named = named
        self._state = state
        self._uuid = uuid

    @property
    def uuid(self) -> str:
        """Its identity, whatever its name."""
        return str(self.java.uuid()) if self._uuid is None else self._uuid

    @property
    def metadata_location(self) -> str:
        """The file of its metadata: two names of one table have the same."""
        return str(self.state.metadataFileLocation())

    @property
    def location(self) -> str:
        """Where its files are."""
        return str(self.java.location())

    @property
    def state(self) -> Java:
        """Iceberg's ``TableMetadata``, in the state that was loaded."""
        return self.java.operations().current() if self._state is None else self._state

    @property
    def format_version(self) -> int:
        """The version of the table format."""
        return int(self.state.formatVersion())

    @property
    def schema_id(self) -> int:
        """The number of its current schema."""
        return int(self.java.schema().schemaId())

    def fields(self, schema_id: int | None = None) -> dict[int, Field]:
        """The columns of a schema by their ids, in order."""
        schema = self.java.schema() if schema_id is None else self.java.schemas().get(schema_id)
        if schema is None:
            raise TargetError(f"table {self.name} does not have schema {schema_id} any more")
        # Two calls, however many columns: one has the ids, the other Spark's types.
        columns = json.loads(self.java_named("org.apache.iceberg.SchemaParser.toJson")(schema))["fields"]
        types = StructType.fromJson(
            json.loads(self.java_named("org.apache.iceberg.spark.SparkSchemaUtil.convert")(schema).json())
        )
        return {
            column["id"]: Field(field.name, field.dataType.simpleString())
            for column, field in zip(columns, types.fields, strict=True)
        }

    def snapshot(self) -> Snapshot | None:
        """The current snapshot."""
        java = self.java.currentSnapshot()
        return None if java is None else _snapshot(java)

    def snapshot_at(self, id_: int) -> Snapshot:
        """A snapshot by its id."""
        java = self.java.snapshot(id_)
        if java is None:
            raise TargetError(f"table {self.name} does not have snapshot {id_} any more")
        return _snapshot(java)

    def metadata(self) -> dict[str, Any]:
        """Everything the table says of itself, as its metadata file has it; one call, however many snapshots."""
        return dict(json.loads(self.java_named("org.apache.iceberg.TableMetadataParser.toJson")(self.state)))

    def change_column(self, change: ColumnChange) -> None:
        """Change a column. In a transaction this happens in memory."""
        names = [field.name for field in self.fields().values()]
        match change:
            case AddColumn(field, place, default):
                if spelled(names, field.name) is None:
                    after, type_ = self._after(names, place), self._type(field.type)
                    value = () if default is None else (None, self._literal(default, type_))
                    added = self.java.updateSchema().addColumn(None, field.name, type_, *value)
                    _placed(added, field.name, place, after).commit()
            case DropColumn(name):
                found = spelled(names, name)
                if found is not None:
                    self._unsort(found)
                    self.java.updateSchema().deleteColumn(found).commit()
            case RenameColumn(name, new):
                found, taken = spelled(names, name), spelled(names, new)
                if found is not None and taken not in (None, found):
                    raise ColumnError(f"column {found} of {self.name} cannot become {new}: there is a column {taken}")
                if found not in (None, new):
                    self.java.updateSchema().renameColumn(found, new).commit()
            case WidenColumn(name, type_):
                found = existing(names, self.name, name)
                self.java.updateSchema().updateColumn(found, self._type(type_)).commit()
            case MoveColumn(name, place):
                found, after = existing(names, self.name, name), self._after(names, place)
                _placed(self.java.updateSchema(), found, place, after).commit()

    def _unsort(self, column: str) -> None:
        """Take a column out of the order of rows in files."""
        order = self.java.sortOrder()
        names = [self.java.schema().findColumnName(field.sourceId()) for field in order.fields()]
        if column not in names:
            return
        update, last = self.java.replaceSortOrder(), self.java_named("org.apache.iceberg.NullOrder.NULLS_LAST")
        reference = self.java_named("org.apache.iceberg.expressions.Expressions.ref")
        for name in names:
            update = update if name == column else update.asc(reference(name), last)
        update.commit()

    def _after(self, names: list[str], place: ColumnPosition) -> str | None:
        return None if place.after is None else existing(names, self.name, place.after)

    def _type(self, type_: str) -> Java:
        return iceberg_type(self.java_named, type_)

    def _literal(self, value: pa.Scalar, type_: Java) -> Java:
        """A value as Iceberg's API takes it, by way of the JSON that both sides know."""
        plain = comparable(pa.repeat(value, 1))[0].as_py()
        text = json.dumps(json_of(plain, value.type))
        found = self.java_named("org.apache.iceberg.SingleValueParser.fromJson")(type_, text)
        return self.java_named("org.apache.iceberg.expressions.Expressions.lit")(found)


class _Kept(NamedTuple):
    """A table that was loaded, and what asks the catalog about it."""

    java: Java
    operations: Java
    uuid: str


class IcebergCatalog:
    """A catalog that Spark knows under a name.

    One that ``is_shared`` may have tables of other programs in it. One with ``plain_names`` has lower-case letters,
    digits and underscores in names: tables are found there whatever the case of their letters, and other names are
    refused.
    """

    def __init__(self, spark: SparkSession, name: str, *, is_shared: bool = False, plain_names: bool = False) -> None:
        gateway = spark.sparkContext._gateway
        assert gateway is not None  # there is one while Spark runs
        self.name = name
        self.is_shared = is_shared
        self._plain_names = plain_names
        self.java_named = JavaNames(gateway)
        self._gateway: Java = gateway
        self._kept: dict[TableName, _Kept] = {}
        self._identifiers: dict[TableName, Java] = {}
        load = self.java_named("org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog")
        try:
            self._java: Java = load(spark._jsparkSession, name)
            if is_shared:
                self.exists(_PROBE)  # some catalogs are not asked for anything before that
        except Py4JJavaError as error:
            if not is_shared:
                raise
            raise OptionError(
                f"catalog.{name}",
                f"the catalog cannot be opened: {root_cause(error)}; check its address, credentials and settings",
            ) from error

    def table(self, name: TableName) -> IcebergTable | None:
        """A table as it is committed now; ``None`` if there is no such table.

        Tables are kept: asking the catalog whether one has changed costs a fifth of loading it.
        """
        if len(self._kept) > MOST_TABLES:
            self._kept.clear()
            self._identifiers.clear()
        kept = self._kept.get(name)
        try:
            if kept is not None:
                return IcebergTable(kept.java, self.java_named, name, kept.operations.refresh(), kept.uuid)
        except Py4JJavaError as error:
            if java_kind(error) not in (*_MISSING, _ANOTHER):
                raise
        try:
            found = self._java.loadTable(self._identifier(name))
        except Py4JJavaError as error:
            self._kept.pop(name, None)
            if java_kind(error) in _MISSING:
                return None
            raise
        kept = self._kept[name] = _Kept(found, found.operations(), str(found.uuid()))
        return IcebergTable(found, self.java_named, name, kept.operations.current(), kept.uuid)

    def known_table(self, name: TableName) -> IcebergTable | None:
        """A table as this process last loaded it. A swap that begins with it is refused if the table has changed."""
        kept = self._kept.get(name)
        return self.table(name) if kept is None else IcebergTable(kept.java, self.java_named, name, uuid=kept.uuid)

    def reload(self, name: TableName) -> None:
        """Load a table anew the next time, with new credentials if the catalog lends them."""
        self._kept.pop(name, None)

    def exists(self, name: TableName) -> bool:
        """Is there a table of that name?"""
        return bool(self._java.tableExists(self._identifier(name)))

    def check_letters(self, name: TableName) -> None:
        """Raise ``NameRefused`` if a table cannot have a name."""
        if self._plain_names and not all(_PLAIN.fullmatch(part.lower()) for part in name):
            raise NameRefused(
                f"the catalog {self.name} has letters, digits and underscores in names only, and {name} has others: "
                "give the table another name with a rule (to = …)"
            )

    def check_case(self, name: TableName) -> None:
        """Raise ``NameRefused`` if a table was made under a name that differs from this one in case only."""
        table = self.table(name) if self._plain_names else None
        made = None if table is None else table.java.properties().get(_NAME)
        if made is not None and made != str(name) and made.lower() == str(name).lower():
            raise NameRefused(
                f"{name} and {made} would be one table, because the catalog {self.name} keeps names in lower case: "
                "give one of them another name with a rule (to = …)"
            )

    def creation(
        self,
        name: TableName,
        fields: Iterable[Field],
        properties: Mapping[str, str],
        location: str | None,
        options: TableOptions = NO_OPTIONS,
    ) -> Java:
        """A transaction that makes a table; the catalog chooses its place if none is given."""
        self.ensure_namespace(name.schema)
        struct = self.java_named("org.apache.spark.sql.types.StructType")()
        for field in fields:
            struct = struct.add(field.name, self.java_named("org.apache.spark.sql.types.DataType.fromDDL")(field.type))
        schema = self.java_named("org.apache.iceberg.spark.SparkSchemaUtil.convert")(struct)
        given = {**properties, **({_NAME: str(name)} if self._plain_names else {})}
        builder = self._java.buildTable(self._identifier(name), schema).withProperties(given)
        if location is not None:
            builder = builder.withLocation(location)
        if options.partition:
            builder = builder.withPartitionSpec(self._spec(schema, options.partition))
        if options.sort:
            builder = builder.withSortOrder(self._order(schema, options.sort))
        return builder.createTransaction()

    def _spec(self, schema: Java, partition: Iterable[PartitionBy]) -> Java:
        """A partition spec. Its fields have names that no column of the upstream can get."""
        spec = self.java_named("org.apache.iceberg.PartitionSpec.builderFor")(schema)
        for each in partition:
            number = [int(found) for found in re.findall(r"\[(\d+)\]", each.transform)]
            spec = getattr(spec, each.kind)(each.column, *number, f"_tw_{each.kind}_{each.column}")
        return spec.build()

    def _order(self, schema: Java, columns: Iterable[str]) -> Java:
        """A sort order: ascending, NULL last."""
        order = self.java_named("org.apache.iceberg.SortOrder.builderFor")(schema)
        last = self.java_named("org.apache.iceberg.NullOrder.NULLS_LAST")
        for column in columns:
            order = order.asc(column, last)
        return order.build()

    def check_together(self) -> None:
        """Raise ``OptionError`` if the catalog, a REST catalog, does not commit to several tables at once.

        An empty request is never sent: it is refused by Iceberg, after the list of the server's endpoints.
        """
        try:
            self._java.commitTransaction(self.java_named("java.util.ArrayList")())
        except Exception as error:
            if java_kind(error) == _NOT_LISTED:
                raise OptionError(
                    "atomic",
                    f"the catalog {self.name} cannot commit to several tables at once: its server does not list the "
                    "endpoint POST /v1/{prefix}/transactions/commit; leave --atomic out",
                ) from error
            if java_kind(error) != _EMPTY:
                raise

    def commit_together(self, commits: Iterable[tuple[TableName, Java, Java]]) -> None:
        """Swap the metadata of several tables in one request: of each its name, the old metadata and the new one."""
        create = self.java_named("org.apache.iceberg.catalog.TableCommit.create")
        all_ = self.java_named("java.util.ArrayList")()
        for name, base, new in commits:
            all_.add(create(self._identifier(name), base, new))
        self._java.commitTransaction(all_)

    def rename(self, old: TableName, new: TableName) -> None:
        """Move a table to a name that is free."""
        self.ensure_namespace(new.schema)
        self._java.renameTable(self._identifier(old), self._identifier(new))

    def purge(self, name: TableName) -> None:
        """Remove a table and all its files."""
        self._java.dropTable(self._identifier(name), True)

    def forget(self, name: TableName) -> None:
        """Remove a name; the table's files stay."""
        self._java.dropTable(self._identifier(name), False)

    def can_widen(self, old: str, new: str) -> bool:
        """Does the format let a column have another type, as its files are?"""
        types = iceberg_type(self.java_named, old), iceberg_type(self.java_named, new)
        if not all(type_.isPrimitiveType() for type_ in types):
            return False
        return bool(self.java_named("org.apache.iceberg.types.TypeUtil.isPromotionAllowed")(*types))

    def names(self, first: Collection[str] = ()) -> Iterator[TableName]:
        """All tables of all namespaces; those of some namespaces ``first``."""
        for schema in first:
            yield from (TableName(schema, table) for table in self.names_in(schema))
        for namespace in self._namespaces(self._namespace()):
            schema = ".".join(namespace.levels())
            if schema not in first:
                for identifier in self._java.listTables(namespace):
                    yield TableName(schema, identifier.name())

    def names_in(self, schema: str) -> tuple[str, ...]:
        """The tables of one namespace; a missing one has none."""
        try:
            return tuple(identifier.name() for identifier in self._java.listTables(self._namespace(schema)))
        except Py4JJavaError as error:
            if java_kind(error) in _MISSING:
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
            if java_kind(error) in _MISSING:
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
        if self._plain_names:
            levels = tuple(level.lower() for level in levels)
        array = self._gateway.new_array(self.java_named("java.lang.String"), len(levels))
        for index, level in enumerate(levels):
            array[index] = level
        return self.java_named("org.apache.iceberg.catalog.Namespace.of")(array)

    def _identifier(self, name: TableName) -> Java:
        found = self._identifiers.get(name)
        if found is None:
            make = self.java_named("org.apache.iceberg.catalog.TableIdentifier.of")
            found = self._identifiers[name] = make(
                self._namespace(name.schema), name.table.lower() if self._plain_names else name.table
            )
        return found


def iceberg_type(named: JavaNames, type_: str) -> Java:
    """A type, given in Spark's words."""
    return named("org.apache.iceberg.spark.SparkSchemaUtil.convert")(
        named("org.apache.spark.sql.types.DataType.fromDDL")(type_)
    )


def close_catalog(spark: SparkSession, name: str) -> None:
    """Close the connections of a session's catalog. Every clone of a session has a catalog of its own."""
    activate(spark)  # the catalog's settings are looked up in the session that is active in this thread
    java: Any = spark._jsparkSession
    catalog = java.sessionState().catalogManager().catalog(name).icebergCatalog()
    if is_instance_of(spark.sparkContext._gateway, catalog, "java.io.Closeable"):
        catalog.close()


def _placed(update: Java, column: str, place: ColumnPosition, after: str | None) -> Java:
    """A change of columns with a move added to it."""
    if place.first:
        return update.moveFirst(column)
    return update if after is None else update.moveAfter(column, after)


def _snapshot(java: Java) -> Snapshot:
    return Snapshot(java.snapshotId(), java.schemaId())
