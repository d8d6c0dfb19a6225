"""Schema files: a table's columns and the statement that made them so, as JSON with a checksum in the name."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidewire.codec.jsontext import Reader, read_json
from tidewire.codec.storage_sink.layout import METADATA
from tidewire.model import Column, Ddl, DdlKind, MySQLType, TableName, TableSchema
from tidewire.model.ddl import KIND_OF_TYPE, TYPE_OF_KIND
from tidewire.model.types import BLOBS, CHARS, ENUM_SET, FLOATS, INTEGERS, quoted_elements, type_name

_FORMAT = 1
_HTML = str.maketrans({char: f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"})

_LENGTHS: Mapping[MySQLType, int] = {
    MySQLType.BIT: 1,
    MySQLType.TINYINT: 4,
    MySQLType.SMALLINT: 6,
    MySQLType.MEDIUMINT: 9,
    MySQLType.INT: 11,
    MySQLType.BIGINT: 20,
    MySQLType.DOUBLE: 22,
    MySQLType.FLOAT: 12,
    MySQLType.DECIMAL: 10,
    MySQLType.YEAR: 4,
    MySQLType.CHAR: 1,
    MySQLType.VARCHAR: 5,
    MySQLType.VAR_STRING: 5,
    MySQLType.TINYBLOB: 255,
    MySQLType.BLOB: 65_535,
    MySQLType.MEDIUMBLOB: 16_777_215,
    MySQLType.LONGBLOB: 4_294_967_295,
}
"""What TiDB takes for the length of a type where none was declared."""

_WITH_LENGTH = INTEGERS | FLOATS | CHARS | BLOBS | {MySQLType.DECIMAL, MySQLType.BIT, MySQLType.YEAR}
_WITH_FRACTION = FLOATS | {MySQLType.TIMESTAMP, MySQLType.DATETIME, MySQLType.TIME}


@dataclass(frozen=True, slots=True)
class Definition:
    """What a schema file says. Without a query it describes a table and there is nothing to execute."""

    name: TableName
    version: int
    columns: tuple[Mapping[str, Any], ...] = ()
    query: str = ""
    type: int = 0

    @classmethod
    def of_table(cls, table: TableSchema, version: int, *, column_ids: bool = False) -> Definition:
        """The columns of a table."""
        return cls(table.name, version, tuple(_column(column, column_ids) for column in table.columns))

    @classmethod
    def of_ddl(cls, ddl: Ddl, *, column_ids: bool = False) -> Definition:
        """A statement, and the columns after it."""
        table = ddl.table_schema or ddl.pre_table_schema
        columns = table.columns if table is not None and ddl.table.table else ()
        kind = 0 if ddl.kind is None else TYPE_OF_KIND.get(ddl.kind, 0)
        return cls(
            ddl.table,
            ddl.commit_ts or 0,
            tuple(_column(column, column_ids) for column in columns),
            ddl.query,
            kind if ddl.type is None else int(ddl.type),
        )

    @classmethod
    def parse(cls, data: bytes) -> Definition:
        """What the bytes of a file say; ``DecodeError`` if they are not those of a schema file."""
        reader = Reader(read_json(data, "schema file", "value"), "schema file", "value")
        columns = reader.members.get("TableColumns") or []
        if not isinstance(columns, list) or not all(isinstance(column, dict) for column in columns):
            raise reader.refuse("a list of columns was expected", "TableColumns")
        if len(columns) != reader.integer("TableColumnsTotal"):
            raise reader.refuse(f"there are {len(columns)} columns", "TableColumnsTotal")
        return cls(
            TableName(reader.string("Schema"), reader.string("Table", "")),
            reader.integer("TableVersion"),
            tuple(columns),
            reader.string("Query", ""),
            reader.integer("Type", default=0),
        )

    def table(self) -> TableSchema:
        """The table as its rows are written; ``DecodeError`` if a column has no type that MySQL has."""
        return TableSchema(self.name, tuple(map(_parsed, self.columns)), version=self.version)

    def ddl(self) -> Ddl | None:
        """The statement, if there is one to execute."""
        if not self.query:
            return None
        kind = KIND_OF_TYPE.get(self.type, DdlKind.QUERY)
        return Ddl(self.name, self.version, self.query, self.type, kind)

    @property
    def checksum(self) -> int:
        """CRC-32 of the names and columns, whatever their order; statement and version do not count."""
        columns = sorted(self.columns, key=lambda column: str(column["ColumnName"]))
        text = {
            "Table": self.name.table,
            "Schema": self.name.schema,
            "Version": 0,
            "TableColumns": columns,
            "TableColumnsTotal": len(columns),
        }
        return zlib.crc32(_json(text))

    @property
    def file_name(self) -> str:
        """What its file is called."""
        return f"schema_{self.version}_{self.checksum:010d}.json"

    def content(self) -> bytes:
        """What its file holds."""
        return _json(
            {
                "Table": self.name.table,
                "Schema": self.name.schema,
                "Version": _FORMAT,
                "TableVersion": self.version,
                "Query": self.query,
                "Type": self.type,
                "TableColumns": list(self.columns) or None,
                "TableColumnsTotal": len(self.columns),
            }
        )


def checkpoint(data: bytes) -> int:
    """The checkpoint in the file ``metadata``; ``DecodeError`` if there is none in it."""
    return Reader(read_json(data, METADATA), METADATA, "value").integer("checkpoint-ts")


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=4, ensure_ascii=False).translate(_HTML).encode("utf-8", "surrogateescape")


def _column(column: Column, with_id: bool) -> Mapping[str, Any]:
    """A column, without what there is nothing to say about."""
    length = _LENGTHS.get(column.type) if column.length is None else column.length
    has_scale = column.type is MySQLType.DECIMAL or (column.type in _WITH_FRACTION and bool(column.decimal))
    members = {
        "ColumnId": str(column.id) if with_id and column.id is not None else None,
        "ColumnName": column.name,
        "ColumnType": column.base_type.upper() + " UNSIGNED" * column.unsigned,
        "ColumnDefault": _default(column),
        "ColumnPrecision": str(length) if column.type in _WITH_LENGTH and length is not None else None,
        "ColumnScale": str(column.decimal or 0) if has_scale else None,
        "ColumnNullable": "false" if column.nullable is False or column.primary_key else None,
        "ColumnIsPk": "true" if column.primary_key else None,
        "ColumnElems": list(column.elements) or None,
    }
    return {name: value for name, value in members.items() if value is not None}


def _parsed(members: Mapping[str, Any]) -> Column:
    """The column behind the members of a schema file."""
    reader = Reader(dict(members), "schema file", "value", "$.TableColumns[]")
    name, word = reader.string("ColumnName"), reader.string("ColumnType").lower()
    numbers = [reader.string(each, "") for each in ("ColumnPrecision", "ColumnScale")]
    elements = members.get("ColumnElems") or ()
    base, _, sign = word.partition(" ")
    if base in _NAMED and not elements:
        base = "varchar"  # Older servers do not list the names, and values are written as names.
    parameters = quoted_elements(tuple(elements)) if elements else ",".join(filter(None, numbers))
    text = f"{base}({parameters})" if parameters else base
    is_key, required = members.get("ColumnIsPk") == "true", members.get("ColumnNullable") == "false"
    try:
        return Column.of(name, f"{text} {sign}".strip(), primary_key=is_key, nullable=not (is_key or required))
    except (ValueError, TypeError) as error:
        raise reader.refuse(f"column {name}: {error}", "ColumnType") from None


_NAMED = frozenset(type_name(each) for each in ENUM_SET)


def _default(column: Column) -> str | None:
    default = column.default
    return default.decode("utf-8", "surrogateescape") if isinstance(default, bytes) else default
