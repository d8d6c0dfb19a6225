"""CREATE TABLE: a list of columns and constraints, and the options after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tidewire.ddl.columns import Definition, read_column
from tidewire.ddl.defaults import settled
from tidewire.ddl.edits import AddColumn, AddIndex, ColumnEdit, CreateTable
from tidewire.ddl.indexes import Constraint, begins_constraint, read_constraint
from tidewire.ddl.reader import Reader, Unreadable
from tidewire.ddl.shape import altered
from tidewire.ddl.table_builder import PRIMARY
from tidewire.ddl.types import read_charset, sized
from tidewire.errors import DdlMismatch
from tidewire.model import Column, Index, TableName, TableSchema
from tidewire.model.types import INTEGERS, TEXTUAL

Element = Definition | Constraint


def read_element(reader: Reader) -> Element:
    """A column or a constraint."""
    return read_constraint(reader) if begins_constraint(reader) else read_column(reader)


def with_sent_charset(column: Column, schema: TableSchema | None) -> Column:
    """A column with the charset from the table that a protocol sends along with the statement, if it does."""
    if schema is None or column.type not in TEXTUAL or column.charset is not None:
        return column
    for known in schema.columns:
        if known.name.lower() == column.name.lower():
            return replace(column, charset=known.charset, collation=known.collation)
    return column


def keys_of(definition: Definition) -> Iterable[AddIndex]:
    """The indexes that are declared with a column."""
    name = definition.column.name
    if definition.primary:
        yield AddIndex(Index(PRIMARY, (name,), unique=True, primary=True))
    if definition.unique:
        yield AddIndex(Index("", (name,), unique=True))


def read_create_table(reader: Reader, schema: TableSchema | None) -> CreateTable:
    """The rest of a CREATE TABLE from the table's name on; ``schema`` is the table a protocol sends along."""
    reader.accept("IF", "NOT", "EXISTS")
    name = reader.table()
    if reader.accept("LIKE"):
        return CreateTable(TableSchema(name), reader.table())
    if reader.sees("(", "LIKE"):
        reader.expect("(", "LIKE")
        like = reader.table()
        reader.expect(")")
        return CreateTable(TableSchema(name), like)
    if not reader.sees("(") or reader.sees("(", "SELECT"):
        raise Unreadable("its columns come from a query")
    elements = reader.listed(lambda: read_element(reader))
    charset, collation = _read_options(reader)
    return CreateTable(_table(name, elements, schema, charset, collation))


def _read_options(reader: Reader) -> tuple[str, str | None]:
    """The charset and the collation of a table; of the other options none shows in its rows."""
    charset, collation = "utf8mb4", None
    while not reader.ended:
        found = read_charset(reader)
        if found is not None:
            collation = found[1] or collation
            charset = found[0] or (collation or charset).split("_")[0]
        elif reader.peek().word in _QUERY or reader.sees("(", "SELECT"):
            raise Unreadable("some of its columns come from a query")
        elif reader.sees("("):
            reader.pass_parentheses()
        else:
            reader.next()
    return charset, collation if collation and collation.split("_")[0] == charset else None


_QUERY = frozenset({"SELECT", "AS", "VALUES"})


def _table(
    name: TableName, elements: Iterable[Element], schema: TableSchema | None, charset: str, collation: str | None
) -> TableSchema:
    changes: list[ColumnEdit] = []
    # TiDB makes the indexes that are declared with columns last.
    declared: list[ColumnEdit] = []
    clustered = True
    for element in elements:
        clustered = clustered and element.clustered
        if isinstance(element, Definition):
            column = settled(sized(with_sent_charset(element.column, schema), charset), charset, collation)
            changes.append(AddColumn(column))
            declared += keys_of(element)
        elif element.add is not None:
            changes.append(element.add)
    try:
        table = altered(TableSchema(name), [*changes, *declared])
    except DdlMismatch as error:
        raise Unreadable(error.reason) from None
    if not table.columns:
        raise Unreadable("it has no columns")
    return _with_integer_handle(table) if clustered else table


def _with_integer_handle(table: TableSchema) -> TableSchema:
    """A table whose rows TiDB stores under the primary key itself; then the key is not an index."""
    key = table.primary_key
    if len(key) != 1 or table.column(key[0]).type not in INTEGERS:
        return table
    return replace(table, indexes=tuple(index for index in table.indexes if not index.primary), pk_is_handle=True)
