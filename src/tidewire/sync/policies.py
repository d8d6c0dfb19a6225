"""DDL policies: what a target does about each kind of change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from tidewire.ddl.column_steps import ColumnStep, GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.edits import AlterTable, CreateTable, DropDatabase, DropTable, Edit, RenameTable, TruncateTable
from tidewire.ddl.shape import altered, column_steps
from tidewire.errors import DdlMismatch
from tidewire.model import Column, MySQLType, TableName
from tidewire.model.types import ENUM_SET, FLOATS, INTEGERS, STRINGS, TEMPORAL
from tidewire.sync.catalogue import Catalogue


class ChangeKind(StrEnum):
    """What a statement does, as far as policies tell it apart."""

    CREATE_TABLE = "create-table"
    DROP_TABLE = "drop-table"
    TRUNCATE_TABLE = "truncate-table"
    RENAME_TABLE = "rename-table"
    ADD_COLUMN = "add-column"
    DROP_COLUMN = "drop-column"
    RENAME_COLUMN = "rename-column"
    MODIFY_COLUMN = "modify-column"
    CHANGE_KEY = "change-key"


class DdlPolicy(StrEnum):
    """Follow it, follow what loses nothing, stop before it, or go on without it."""

    EVOLVE = "evolve"
    LENIENT = "lenient"
    FREEZE = "freeze"
    IGNORE = "ignore"


COLUMN_KINDS: Mapping[type[ColumnStep], ChangeKind] = {
    NewColumn: ChangeKind.ADD_COLUMN,
    GoneColumn: ChangeKind.DROP_COLUMN,
    NamedColumn: ChangeKind.RENAME_COLUMN,
    TypedColumn: ChangeKind.MODIFY_COLUMN,
    PlacedColumn: ChangeKind.MODIFY_COLUMN,
}


def kinds_of(edit: Edit, catalogue: Catalogue) -> list[tuple[TableName, ChangeKind]]:
    """What an edit would do to the tables there are, each with its name before the edit."""
    find = _KINDS.get(type(edit))
    return [] if find is None else list(find(edit, catalogue))


def _create(edit: CreateTable, catalogue: Catalogue) -> Iterator[tuple[TableName, ChangeKind]]:
    if catalogue.find(edit.table.name) is None:
        yield edit.table.name, ChangeKind.CREATE_TABLE


def _drop_database(edit: DropDatabase, catalogue: Catalogue) -> Iterator[tuple[TableName, ChangeKind]]:
    for name in sorted(catalogue.in_database(edit.schema)):
        yield catalogue.tables[name].name, ChangeKind.DROP_TABLE


def _of(kind: ChangeKind, name_of: Callable[[Any], TableName]) -> Callable[[Any, Catalogue], Any]:
    def find(edit: Any, catalogue: Catalogue) -> Iterator[tuple[TableName, ChangeKind]]:
        table = catalogue.find(name_of(edit))
        if table is not None:
            yield table.name, kind

    return find


def _alter(edit: AlterTable, catalogue: Catalogue) -> Iterator[tuple[TableName, ChangeKind]]:
    table = catalogue.find(edit.name)
    if table is None:
        return
    try:
        kinds = [COLUMN_KINDS[type(step)] for step in column_steps(table, edit.changes)]
        if altered(table, edit.changes).handle_key != renamed_key(edit, catalogue):
            kinds.append(ChangeKind.CHANGE_KEY)
    except DdlMismatch:
        return
    for kind in dict.fromkeys(kinds):
        yield table.name, kind


def renamed_key(edit: AlterTable, catalogue: Catalogue) -> tuple[str, ...]:
    """The key a table has before an ALTER, by the names its columns have after it."""
    table = catalogue.tables[edit.name.folded]
    names = final_names(edit, catalogue)
    return tuple(names.get(name, name) for name in table.handle_key)


def final_names(edit: AlterTable, catalogue: Catalogue) -> dict[str, str]:
    """The columns that an ALTER renames: their names before and after it."""
    names: dict[str, str] = {}
    for step in column_steps(catalogue.tables[edit.name.folded], edit.changes):
        if isinstance(step, NamedColumn):
            first = next((old for old, new in names.items() if new == step.name), step.name)
            names[first] = step.new
    return names


_KINDS: Mapping[type, Callable[[Any, Catalogue], Iterator[tuple[TableName, ChangeKind]]]] = {
    CreateTable: _create,
    DropDatabase: _drop_database,
    DropTable: _of(ChangeKind.DROP_TABLE, lambda edit: edit.name),
    TruncateTable: _of(ChangeKind.TRUNCATE_TABLE, lambda edit: edit.name),
    RenameTable: _of(ChangeKind.RENAME_TABLE, lambda edit: edit.old),
    AlterTable: _alter,
}


def widens(old: Column, new: Column) -> bool:
    """Does the new type hold every value of the old one as it is?

    >>> widens(Column.of("n", "int"), Column.of("n", "bigint")), widens(Column.of("n", "bigint"), Column.of("n", "int"))
    (True, False)
    """
    if new.type in STRINGS and not new.is_binary:
        return not old.is_binary
    return any(rule(old, new) for rule in _WIDENINGS)


_BITS: Mapping[MySQLType, int] = {
    MySQLType.TINYINT: 8,
    MySQLType.SMALLINT: 16,
    MySQLType.MEDIUMINT: 24,
    MySQLType.INT: 32,
    MySQLType.BIGINT: 64,
}
_DIGITS: Mapping[int, int] = {8: 3, 16: 5, 24: 8, 32: 10, 64: 20}


def _integers(old: Column, new: Column) -> bool:
    if not {old.type, new.type} <= INTEGERS:
        return False
    more = _BITS[new.type] - _BITS[old.type]
    return more >= 0 if old.unsigned == new.unsigned else old.unsigned and more > 0


def _decimals(old: Column, new: Column) -> bool:
    if new.type is not MySQLType.DECIMAL or new.length is None or (new.unsigned and not old.unsigned):
        return False
    scale = new.decimal or 0
    if old.type in INTEGERS:
        return new.length - scale >= _DIGITS[_BITS[old.type]]
    if old.type is not MySQLType.DECIMAL or old.length is None:
        return False
    kept = old.decimal or 0
    return scale >= kept and new.length - scale >= old.length - kept


def _floats(old: Column, new: Column) -> bool:
    return old.type in FLOATS and new.type is MySQLType.DOUBLE and not new.decimal


def _moments(old: Column, new: Column) -> bool:
    if old.type is MySQLType.DATE:
        return new.type is MySQLType.DATETIME
    return old.type is new.type and old.type in TEMPORAL and (new.decimal or 0) >= (old.decimal or 0)


def _names(old: Column, new: Column) -> bool:
    return old.type is new.type and old.type in ENUM_SET and new.elements[: len(old.elements)] == old.elements


def _bytes(old: Column, new: Column) -> bool:
    if old.type is new.type is MySQLType.BIT:
        return (new.length or 1) >= (old.length or 1)
    return old.type in STRINGS and new.is_binary and new.type is not MySQLType.CHAR


_WIDENINGS = (_integers, _decimals, _floats, _moments, _names, _bytes)
