"""When an UPDATE becomes a DELETE and an INSERT."""

from __future__ import annotations

from dataclasses import replace

from tidewire.dispatch.partition import value_text
from tidewire.dispatch.per_table import PerTable
from tidewire.model import Column, ColumnFlag, Index, Op, RowChange, TableSchema, Value


def split(change: RowChange, *, classic: bool = False) -> tuple[RowChange, ...]:
    """An UPDATE that changes a key as a DELETE of the old row and an INSERT of the new one; else the change itself.

    ``classic``: by the classic server's rule, to which every unique index is a key.
    """
    if change.op is not Op.UPDATE or not changes_key(change, classic=classic):
        return (change,)
    return replace(change, after=None), replace(change, before=None)


def changes_key(change: RowChange, *, classic: bool = False) -> bool:
    """Does an UPDATE change a column that identifies the row?"""
    before, after = change.before or {}, change.after or {}
    columns = _unique_columns(change.table) if classic else _key_columns(change.table)
    differs = _differs_as_text if classic else _differs
    return any(
        differs(before.get(column.name), after.get(column.name), column)
        for column in columns
        if column.name in before and column.name in after
    )


def _differs(before: Value, after: Value, column: Column) -> bool:
    return before != after


def _differs_as_text(before: Value, after: Value, column: Column) -> bool:
    texts = [b"null" if value is None else value_text(value, column) for value in (before, after)]
    return texts[0] != texts[1]


@PerTable
def _key_columns(table: TableSchema) -> tuple[Column, ...]:
    """The primary key, the unique indexes that allow no NULL, and the columns that are unique by themselves."""
    single = {column.name for column in table.columns if _is_flagged(column, alone=True)}
    named = single.union(*(index.columns for index in table.indexes if _identifies(index)))
    return tuple(column for column in table.columns if _is_key(column) or column.name in named)


@PerTable
def _unique_columns(table: TableSchema) -> tuple[Column, ...]:
    """The columns of every unique index."""
    flagged = {column.name for column in table.columns if _is_flagged(column, alone=False)}
    named = flagged.union(*(index.columns for index in table.indexes if index.unique or index.primary))
    return tuple(column for column in table.columns if _is_key(column) or column.name in named)


def _is_key(column: Column) -> bool:
    return column.handle_key or column.primary_key


def _is_flagged(column: Column, alone: bool) -> bool:
    """Do the flags call a column unique? They are all there is where a protocol tells no indexes."""
    flags = column.flags or ColumnFlag(0)
    return ColumnFlag.UNIQUE_KEY in flags and not (alone and ColumnFlag.MULTIPLE_KEY in flags)


def _identifies(index: Index) -> bool:
    return index.primary or (index.unique and (not index.nullable or len(index.columns) == 1))
