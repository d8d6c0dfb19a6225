"""Table schemas on the wire, and the decoder's memory of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidewire.codec.jsontext import Reader, text
from tidewire.codec.simple.wire import Wire
from tidewire.model import Column, Index, MySQLType, TableName, TableSchema
from tidewire.model.grammar import shown
from tidewire.model.types import FLOATS, TEXTUAL, TypeText, default_length, parse_type

SYNTHETIC_PRIMARY = "primary"
"""The index a server adds where no index is the primary key, over the columns it identifies rows by.

They are a clustered integer primary key, which TiDB keeps no index for, or else a unique index that is there as well.
A primary key that has an index is called PRIMARY.
"""

_MAX_COLUMNS, _MAX_INDEXES, _MAX_KEY_PARTS, _MAX_ELEMENTS = 4096, 512 + 1, 16, 65535
"""TiDB's limits, and room for the added index: no message can make the decoder compare without end."""

_UNDECLARED = -1
"""TiDB's length of a VECTOR without dimension."""


def table_to_wire(schema: TableSchema) -> Wire:
    """A table schema as a ``tableSchema`` with every member there is."""
    indexes = [
        {
            "name": index.name,
            "unique": index.unique,
            "primary": index.primary,
            "nullable": index.nullable,
            "columns": list(index.columns),
        }
        for index in schema.indexes
    ]
    if schema.handle_key and not any(index.primary for index in schema.indexes):
        key = _in_index_order(schema)
        indexes.append({"name": SYNTHETIC_PRIMARY, "unique": True, "primary": True, "nullable": False, "columns": key})
    return {
        "schema": schema.name.schema,
        "table": schema.name.table,
        "tableID": schema.table_id or 0,
        "version": schema.version or 0,
        "columns": [_column_to_wire(column) for column in schema.columns],
        "indexes": indexes,
    }


def _in_index_order(schema: TableSchema) -> list[str]:
    key = schema.handle_key
    orders = (index.columns for index in schema.indexes if index.unique and set(index.columns) == set(key))
    return list(next(orders, key))


def _column_to_wire(column: Column) -> Wire:
    binary = column.type not in TEXTUAL or column.charset == "binary"
    charset = column.charset if column.charset is not None else "binary" if binary else "utf8mb4"
    collation = "binary" if charset == "binary" else f"{charset}_bin"
    return {
        "name": column.name,
        "dataType": {
            "mysqlType": column.base_type,
            "charset": charset,
            "collate": collation if column.collation is None else column.collation,
            "length": _length(column),
            "decimal": 0 if column.type in FLOATS else column.decimal or 0,
            "elements": list(column.elements),
            "unsigned": column.unsigned,
            "zerofill": column.zerofill,
        },
        "nullable": not column.primary_key if column.nullable is None else column.nullable,
        "default": column.default,
    }


def _length(column: Column) -> int:
    if column.length is not None:
        return column.length
    if column.type in _FRACTIONAL and column.decimal:
        return _FRACTIONAL[column.type] + 1 + column.decimal
    length = None if column.type is MySQLType.CHAR else default_length(column.type, column.unsigned)
    return _UNDECLARED if length is None else length


_FRACTIONAL: Mapping[MySQLType, int] = {MySQLType.DATETIME: 19, MySQLType.TIMESTAMP: 19, MySQLType.TIME: 10}
"""Types with digits of a second, and their length without: the digits add one and themselves."""


def table_from_wire(reader: Reader) -> TableSchema:
    """The table schema of a ``tableSchema``."""
    columns = [_column_from_wire(item) for item in _objects(reader, "columns", _MAX_COLUMNS)]
    names = {column.name for column in columns}
    if len(names) < len(columns):
        raise reader.refuse("a column is there twice", "columns")
    indexes = [_index_from_wire(item, names) for item in _objects(reader, "indexes", _MAX_INDEXES)]
    stored = [index for index in indexes if not _is_synthetic(index)]
    unique = {index.columns for index in stored if index.unique}
    added = [index for index in indexes if _is_synthetic(index) and index.columns not in unique]
    primary = {name for index in stored + added if index.primary for name in index.columns}
    return TableSchema.build(
        TableName(reader.string("schema"), reader.string("table")),
        [replace(column, primary_key=column.name in primary) for column in columns],
        stored,
        table_id=signed(reader, "tableID"),
        version=reader.integer("version"),
        pk_is_handle=bool(added),
    )


def _is_synthetic(index: Index) -> bool:
    return index.primary and index.name == SYNTHETIC_PRIMARY


def _index_from_wire(reader: Reader, names: set[str]) -> Index:
    columns = _strings(reader, "columns", _MAX_KEY_PARTS)
    for name in columns:
        if name not in names:
            raise reader.refuse(f"column {name} is not in the table", "columns")
    unique, primary, nullable = (reader.boolean(name) for name in ("unique", "primary", "nullable"))
    return Index(reader.string("name"), columns, unique, primary, nullable)


def _column_from_wire(reader: Reader) -> Column:
    name, kind = reader.string("name"), reader.object("dataType")
    try:
        parsed = parse_type(kind.string("mysqlType"))
    except ValueError as error:
        raise kind.refuse(str(error), "mysqlType") from None
    length = signed(kind, "length", default=0)
    column = Column(
        name,
        parsed.type,
        nullable=reader.boolean("nullable"),
        unsigned=kind.boolean("unsigned") or parsed.unsigned,
        zerofill=kind.boolean("zerofill") or parsed.zerofill,
        charset="binary" if parsed.binary else kind.string("charset", ""),
        collation=kind.string("collate", ""),
        length=None if length < 0 else length,
        decimal=_decimal(kind, parsed, length),
        elements=_strings(kind, "elements", _MAX_ELEMENTS),
    )
    return replace(column, default=_default(reader, column))


def _decimal(kind: Reader, parsed: TypeText, length: int) -> int | None:
    """The scale. Where Avro leaves it out, the length still tells the digits of a second."""
    if "decimal" in kind.members:
        return kind.integer("decimal", bits=31)
    if parsed.type in FLOATS:
        return None
    digits = length - _FRACTIONAL.get(parsed.type, length) - 1
    return digits if 0 < digits <= 6 else 0


def _default(reader: Reader, column: Column) -> str | bytes | None:
    match reader.members.get("default"):
        case None:
            return None
        case str(raw) if column.type is MySQLType.BIT:
            return raw.encode("utf-8", "surrogateescape")
        case str(raw):
            return text(raw)
        case int(number) if column.type is MySQLType.BIT and not isinstance(number, bool):
            size = ((column.length or 0) + 7) // 8
            if size > 8 or not 0 <= number < 1 << 8 * size:
                raise reader.refuse(f"{number} does not fit bit({column.length})", "default")
            return number.to_bytes(size)
        case other:
            raise reader.refuse(f"{shown(other)} is no default of a {column.base_type} column", "default")


def signed(reader: Reader, name: str, default: int | None = None) -> int:
    """A signed 64-bit integer."""
    value = reader.members.get(name, default)
    if type(value) is not int or not -1 << 63 <= value < 1 << 63:
        raise reader.refuse("a signed 64-bit integer was expected", name)
    return value


def _objects(reader: Reader, name: str, limit: int) -> list[Reader]:
    return [
        Reader(item, reader.protocol, reader.part, f"{reader.path}.{name}[{number}]")
        for number, item in enumerate(_list(reader, name, limit))
    ]


def _strings(reader: Reader, name: str, limit: int) -> tuple[str, ...]:
    items = _list(reader, name, limit)
    for item in items:
        if not isinstance(item, str) or not isinstance(text(item), str):
            raise reader.refuse("a list of texts was expected", name)
    return tuple(items)


def _list(reader: Reader, name: str, limit: int) -> list[Any]:
    items = reader.members.get(name, [])
    if not isinstance(items, list) or len(items) > limit:
        raise reader.refuse(f"a list of at most {limit} was expected", name)
    return items


class SchemaCache:
    """The schemas a decoder has seen, the least recently used ones forgotten. One cache can serve many decoders.

    A schema is known by schema name, table name and version; the first one wins, as repeated BOOTSTRAP messages bring
    nothing new. TRUNCATE gives a table a new id but keeps its version, so an id that is known exactly comes first.
    """

    def __init__(self, size: int = 20_000) -> None:
        """A cache with a limit of entries; a schema takes two. ``changes`` counts entries that come and go."""
        self.changes = 0
        self._size = size
        self._schemas: OrderedDict[tuple[TableName, int, int | None], TableSchema] = OrderedDict()

    def __len__(self) -> int:
        return len(self._schemas)

    def add(self, schema: TableSchema) -> None:
        """Remember a schema, unless one is there already."""
        for table_id in (schema.table_id, None):
            key = schema.name, schema.version or 0, table_id
            self.changes += key not in self._schemas
            self._schemas.setdefault(key, schema)
            self._schemas.move_to_end(key)
        while len(self._schemas) > self._size:
            self._schemas.popitem(last=False)
            self.changes += 1

    def find(self, name: TableName, version: int, table_id: int) -> TableSchema | None:
        """The schema of a row with that physical table id, if it came by."""
        for known_id in (table_id, None):
            key = name, version, known_id
            if key in self._schemas:
                self._schemas.move_to_end(key)
                return self._schemas[key]
        return None
