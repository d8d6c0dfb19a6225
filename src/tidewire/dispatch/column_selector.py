"""Which columns of a table are sent: the rules of ``sink.column-selectors``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tidewire.dispatch.per_table import PerTable
from tidewire.dispatch.router import Dispatch
from tidewire.dispatch.table_rules import ColumnPatterns, TablePatterns
from tidewire.errors import ChangefeedError
from tidewire.model import Column, Index, Row, RowChange, TableName, TableSchema
from tidewire.model.table import column_flags

FAILED = "CDC:ErrColumnSelectorFailed"


@dataclass(frozen=True, slots=True)
class ColumnSelector:
    """One of ``sink.column-selectors``, as it is written: which columns of some tables are sent."""

    matcher: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Selector:
    tables: TablePatterns
    columns: ColumnPatterns


class ColumnSelectors:
    """The selectors in their order. The first that matches a table counts; a table without one is sent whole."""

    def __init__(self, selectors: Iterable[ColumnSelector] = (), *, case_sensitive: bool = False) -> None:
        self._selectors = tuple(
            _Selector(
                TablePatterns.parse(selector.matcher, case_sensitive=case_sensitive),
                ColumnPatterns.parse(selector.columns),
            )
            for selector in selectors
        )
        self._selected = PerTable(self._select)

    def change(self, change: RowChange) -> RowChange:
        """A change with the selected columns only; raises ``CDC:ErrColumnSelectorFailed`` if no key is left."""
        table = self.table(change.table)
        if table is change.table:
            return change
        kept = {column.name for column in table.columns}
        return replace(change, table=table, before=_only(change.before, kept), after=_only(change.after, kept))

    def table(self, table: TableSchema) -> TableSchema:
        """A table with the selected columns only, and the indexes that are still whole.

        Its handle key stays if it is still whole; otherwise it is the shortest unique index that is.
        """
        return self._selected(table) if self._selectors else table

    def verify(self, tables: Iterable[TableSchema], dispatch: Dispatch | None = None) -> None:
        """Refuse selectors that leave a table without a key, or that drop columns its partition is computed from."""
        for table in tables:
            kept = {column.name.lower() for column in self.table(table).columns}
            hashed = dispatch.rule_of(table.name).columns if dispatch is not None else ()
            lost = [name for name in hashed if name.lower() not in kept]
            if lost:
                raise ChangefeedError(
                    FAILED, f"the columns dispatcher of {table.name} needs {', '.join(lost)}, which is not selected"
                )

    def _select(self, table: TableSchema) -> TableSchema:
        patterns = self._patterns(table.name)
        if patterns is None:
            return table
        columns = [column for column in table.columns if patterns.matches(column.name)]
        if len(columns) == len(table.columns):
            return table
        names = {column.name for column in columns}
        indexes = tuple(index for index in table.indexes if names.issuperset(index.columns))
        return replace(table, columns=_keyed(table, columns, indexes), indexes=indexes)

    def _patterns(self, name: TableName) -> ColumnPatterns | None:
        return next((selector.columns for selector in self._selectors if selector.tables.matches(name)), None)


def _keyed(table: TableSchema, columns: Sequence[Column], indexes: Sequence[Index]) -> tuple[Column, ...]:
    """The columns that are left, with a handle key among them."""
    names = {column.name for column in columns}
    if table.handle_key and names.issuperset(table.handle_key):
        return tuple(columns)
    whole = bool(table.primary_key) and names.issuperset(table.primary_key)
    key = table.primary_key if whole else _shortest(table, indexes)
    return tuple(
        replace(kept, flags=None if column.flags is None else column_flags(kept, indexes))
        for column in columns
        for kept in [replace(column, handle_key=column.name in key, primary_key=column.primary_key and whole)]
    )


def _shortest(table: TableSchema, indexes: Sequence[Index]) -> tuple[str, ...]:
    unique = [index for index in indexes if index.unique]
    if not unique:
        raise ChangefeedError(
            FAILED, f"the columns selected of {table.name} hold neither its primary key nor a unique index as a whole"
        )
    return min(unique, key=lambda index: (index.nullable, len(index.columns))).columns


def _only(row: Row | None, kept: set[str]) -> Row | None:
    return None if row is None else {name: value for name, value in row.items() if name in kept}
