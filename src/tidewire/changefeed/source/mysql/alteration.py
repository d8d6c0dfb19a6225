"""What an ALTER TABLE makes of a table's shape, also where it gives its rows values that no statement has.

A row consumer must stop at such a statement; a binlog reader can continue, because the next rows have the
values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidewire.changefeed.source.mysql.actions import parts
from tidewire.ddl.columns import Definition, read_column
from tidewire.ddl.edits import AddColumn, AlterTable, ColumnEdit, ColumnPosition, Edit, Impossible, RenameTable
from tidewire.ddl.lex import lex
from tidewire.ddl.parse import edits
from tidewire.ddl.reader import Reader
from tidewire.ddl.tables import Element, keys_of, read_element
from tidewire.ddl.types import sized
from tidewire.model import Ddl, TableName


@dataclass(frozen=True, slots=True)
class Alteration:
    """The changes of a table's columns and indexes, and its name in the end."""

    changes: tuple[ColumnEdit, ...]
    name: TableName


def alteration(table: TableName, text: str, start: int) -> Alteration:
    """What an ALTER TABLE, CREATE INDEX or DROP INDEX does; its actions begin at ``start``.

    ``Unreadable`` where it cannot be told.
    """
    found = edits(Ddl(table, None, text))
    if any(isinstance(edit, Impossible) for edit in found):
        found = tuple(edit for action in _actions(text, start) for edit in _edits(table, action))
    changes = [change for edit in found if isinstance(edit, AlterTable) for change in edit.changes]
    names = [edit.new for edit in found if isinstance(edit, RenameTable)]
    return Alteration(tuple(changes), names[-1] if names else table)


def _actions(text: str, start: int) -> Iterator[str]:
    tokens = [token for token in lex(text) if token.start >= start]
    for part in parts(tokens):
        yield text[part[0].start : part[-1].end]


def _edits(table: TableName, action: str) -> tuple[Edit, ...]:
    """The edits of one action; one that only moves rows leaves the shape as it is."""
    name = ".".join(f"`{part.replace('`', '``')}`" for part in table)
    found = edits(Ddl(table, None, f"ALTER TABLE {name} {action}"))
    if not any(isinstance(edit, Impossible) for edit in found):
        return found
    reader = Reader(action, table.schema)
    if not reader.accept("ADD") or reader.sees("PARTITION"):
        return ()
    return (AlterTable(table, tuple(_added(reader))),)


def _added(reader: Reader) -> Iterator[ColumnEdit]:
    reader.accept("COLUMN")
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    if reader.sees("("):
        for element in reader.listed(lambda: read_element(reader)):
            yield from _element(element, ColumnPosition(), if_not_exists)
        return
    definition = read_column(reader)
    place = ColumnPosition(first=reader.accept("FIRST"))
    if reader.accept("AFTER"):
        place = ColumnPosition(after=reader.column_name())
    yield from _element(definition, place, if_not_exists)


def _element(element: Element, place: ColumnPosition, if_not_exists: bool) -> Iterator[ColumnEdit]:
    if isinstance(element, Definition):
        yield AddColumn(sized(element.column, "utf8mb4"), place, if_not_exists)
        yield from keys_of(element)
    elif element.add is not None:
        yield element.add
