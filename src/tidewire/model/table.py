"""A table at one schema version: its columns, its indexes, and which columns identify a row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from tidewire.model.types import (
    FACTS,
    STRINGS,
    TEMPORAL,
    TEXTUAL,
    ColumnFlag,
    MySQLType,
    parse_type,
    quoted_elements,
    type_name,
)


class TableName(NamedTuple):
    """Schema and table. Either may be empty in a DDL: ``CREATE DATABASE`` has no table."""

    schema: str
    table: str

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    @property
    def folded(self) -> TableName:
        """The name in lower case: TiDB keeps the spelling of names and compares without it."""
        return TableName(self.schema.lower(), self.table.lower())


class Generated(StrEnum):
    """How a generated column gets its value. Virtual ones are never in a row image."""

    VIRTUAL = "virtual"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Protocols differ in how much they tell of a column; what one does not tell is ``None``.
    ``flags`` are TiCDC's bits where a protocol sends them, and ``handle_key`` stands apart from them because the
    server's two marks can disagree for generated columns.
    """

    name: str
    type: MySQLType
    flags: ColumnFlag | None = None
    handle_key: bool = False
    primary_key: bool = False
    nullable: bool | None = None
    unsigned: bool = False
    zerofill: bool = False
    charset: str | None = None
    collation: str | None = None
    length: int | None = None
    decimal: int | None = None
    elements: tuple[str, ...] = ()
    generated: Generated | None = None
    default: str | bytes | None = None
    id: int | None = None

    @classmethod
    def of(cls, name: str, mysql_type: str, *, primary_key: bool = False, nullable: bool | None = None) -> Column:
        """A column from its SQL type.

        >>> Column.of("price", "decimal(10,2) unsigned").mysql_type
        'decimal(10,2) unsigned'
        """
        parsed = parse_type(mysql_type)
        binary = parsed.binary or parsed.type not in TEXTUAL
        return cls(
            name,
            parsed.type,
            handle_key=primary_key,
            primary_key=primary_key,
            nullable=not primary_key if nullable is None else nullable,
            unsigned=parsed.unsigned or parsed.type in (MySQLType.YEAR, MySQLType.BIT),
            zerofill=parsed.zerofill or parsed.type is MySQLType.YEAR,
            charset="binary" if binary else None,
            length=parsed.length,
            decimal=parsed.decimal,
            elements=parsed.elements,
        )

    @property
    def is_binary(self) -> bool:
        """Does this column hold bytes, as opposed to text?"""
        return self.type in STRINGS and self.charset == "binary"

    @property
    def base_type(self) -> str:
        """The bare SQL word: ``varbinary``, ``int``."""
        return type_name(self.type, self.charset == "binary")

    @property
    def short_type(self) -> str:
        """The SQL word with its signs, without parameters: ``int unsigned zerofill``."""
        return self.base_type + self._signs

    @property
    def mysql_type(self) -> str:
        """The SQL type with as many parameters as are known: ``decimal(10,2) unsigned``."""
        return self.base_type + self._parameters + self._signs

    @property
    def effective_flags(self) -> ColumnFlag:
        """TiCDC's flag bits: those that were sent, or those derived from the other attributes."""
        return column_flags(self, ()) if self.flags is None else self.flags

    @property
    def _signs(self) -> str:
        if self.type is MySQLType.YEAR:
            return ""
        unsigned = self.unsigned and self.type is not MySQLType.BIT
        return " unsigned" * unsigned + " zerofill" * self.zerofill

    @property
    def _parameters(self) -> str:
        if self.elements:
            return f"({quoted_elements(self.elements)})"
        if self.type in TEMPORAL:
            return f"({self.decimal})" if self.decimal and self.type is not MySQLType.DATE else ""
        if self.length is None or not FACTS[self.type].sized:
            return ""
        if self.type is MySQLType.DECIMAL:
            return f"({self.length},{self.decimal or 0})"
        if self.type in (MySQLType.FLOAT, MySQLType.DOUBLE):
            return f"({self.length},{self.decimal})" if self.decimal else ""
        return f"({self.length})"


@dataclass(frozen=True, slots=True)
class Index:
    """One index of a table. ``nullable``: does any of its columns allow NULL?"""

    name: str
    columns: tuple[str, ...]
    unique: bool = False
    primary: bool = False
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table at one schema version.

    ``version`` is TiDB's UpdateTS, ``table_id`` the logical id. A codec that knows only the columns of one row leaves
    the rest empty.
    """

    name: TableName
    columns: tuple[Column, ...] = ()
    indexes: tuple[Index, ...] = ()
    table_id: int | None = None
    version: int | None = None
    pk_is_handle: bool = False

    @classmethod
    def build(
        cls,
        name: TableName,
        columns: Iterable[Column],
        indexes: Iterable[Index] = (),
        *,
        table_id: int | None = None,
        version: int | None = None,
        pk_is_handle: bool = False,
    ) -> TableSchema:
        """A table as a source knows it: marks the handle key and sets TiCDC's column flags by its indexes."""
        columns, indexes = tuple(columns), tuple(indexes)
        key = choose_handle_key(columns, indexes)
        marked = (replace(column, handle_key=column.name in key) for column in columns)
        flagged = (replace(column, flags=column_flags(column, indexes)) for column in marked)
        return cls(name, tuple(flagged), indexes, table_id, version, pk_is_handle)

    @property
    def handle_key(self) -> tuple[str, ...]:
        """The columns that identify a row, in table order; empty if there are none."""
        return tuple(column.name for column in self.columns if column.handle_key)

    @property
    def primary_key(self) -> tuple[str, ...]:
        """The columns of the primary key, in table order."""
        return tuple(column.name for column in self.columns if column.primary_key)

    def column(self, name: str) -> Column:
        """The column of that name; raises ``KeyError`` if there is no such column."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


def choose_handle_key(columns: Sequence[Column], indexes: Sequence[Index]) -> tuple[str, ...]:
    """The columns TiCDC identifies rows by.

    The primary key; else the unique index with the fewest columns, the earliest among equals, whose columns are all
    NOT NULL and stored.
    """
    primary = tuple(column.name for column in columns if column.primary_key)
    if primary:
        return primary
    unfit = {column.name for column in columns if column.nullable is not False or column.generated is Generated.VIRTUAL}
    usable = [index for index in indexes if index.unique and unfit.isdisjoint(index.columns)]
    return min(usable, key=lambda index: len(index.columns)).columns if usable else ()


def column_flags(column: Column, indexes: Sequence[Index]) -> ColumnFlag:
    """TiCDC's bits for a column of a table with these indexes.

    Unlike MySQL's own flags every column of an index gets the index bits, not only the first one.
    """
    containing = [index for index in indexes if column.name in index.columns]
    multiple = any(
        len(index.columns) > 1 or (not index.unique and index.columns[0] == column.name) for index in containing
    )
    bits = {
        ColumnFlag.BINARY: column.type not in TEXTUAL or column.charset == "binary",
        ColumnFlag.HANDLE_KEY: column.handle_key,
        ColumnFlag.GENERATED: column.generated is not None,
        ColumnFlag.PRIMARY_KEY: column.primary_key,
        ColumnFlag.UNIQUE_KEY: any(index.unique and not index.primary for index in containing),
        ColumnFlag.MULTIPLE_KEY: multiple,
        ColumnFlag.NULLABLE: not column.primary_key if column.nullable is None else column.nullable,
        ColumnFlag.UNSIGNED: column.unsigned,
    }
    flags = ColumnFlag(0)
    for flag, is_set in bits.items():
        if is_set:
            flags |= flag
    return flags
