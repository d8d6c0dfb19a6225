"""Statements as TiDB writes them into its history: names quoted, words in capitals."""

from __future__ import annotations

from tidewire.ddl.quoting import quoted
from tidewire.model import Column, Index, MySQLType, TableName
from tidewire.model.types import FLOATS, INTEGERS, TEXTUAL
from tidewire.workload.shapes import Shape

_NUMBERS = INTEGERS | FLOATS | {MySQLType.DECIMAL, MySQLType.YEAR}


def type_text(column: Column) -> str:
    """A column's type; only what is not in brackets is in capitals.

    >>> type_text(Column.of("e", "enum('a','b')")), type_text(Column.of("n", "int unsigned"))
    ("ENUM('a','b')", 'INT UNSIGNED')
    """
    head, bracket, rest = column.mysql_type.partition("(")
    inside, closing, tail = rest.rpartition(")")
    return head.upper() + bracket + inside + closing + tail.upper()


def literal(text: str, column: Column) -> str:
    """A default as a statement has it."""
    if column.type in _NUMBERS:
        return text
    escaped = text.replace("'", "''")
    return f"_UTF8MB4'{escaped}'" if column.type in TEXTUAL else f"'{escaped}'"


def definition(column: Column) -> str:
    """A column as CREATE TABLE and ALTER TABLE define it."""
    parts = [quoted(column.name), type_text(column)]
    if not column.nullable:
        parts.append("NOT NULL")
    elif column.type is MySQLType.TIMESTAMP:
        parts.append("NULL")  # without the word a TIMESTAMP may be taken for NOT NULL
    if column.default is not None:
        parts.append(f"DEFAULT {literal(str(column.default), column)}")
    return " ".join(parts)


def create_table(name: TableName, shape: Shape) -> str:
    """The statement that makes a table."""
    parts = [definition(column) for column in shape.columns] + [_index(index) for index in shape.indexes]
    tail = ""
    if shape.partitions:
        (key,) = shape.indexes[0].columns
        tail = f" PARTITION BY HASH ({quoted(key)}) PARTITIONS {shape.partitions}"
    return f"CREATE TABLE {quoted(*name)} ({','.join(parts)}){tail}"


def _index(index: Index) -> str:
    columns = ", ".join(map(quoted, index.columns))
    if index.primary:
        return f"PRIMARY KEY({columns})"
    return f"{'UNIQUE' if index.unique else 'INDEX'} {quoted(index.name)}({columns})"


def alter_table(name: TableName, change: str) -> str:
    """The statement that changes a table."""
    return f"ALTER TABLE {quoted(*name)} {change}"
