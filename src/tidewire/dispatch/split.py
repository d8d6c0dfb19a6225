"""When an UPDATE becomes a DELETE and an INSERT, and what a transaction's rows come to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tidewire.dispatch.partition import value_text
from tidewire.dispatch.per_table import PerTable
from tidewire.model import Column, ColumnFlag, Index, Op, Row, RowChange, TableSchema, Value

_ORDER = {Op.DELETE: 0, Op.UPDATE: 1, Op.INSERT: 2}


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


def ordered(changes: Sequence[RowChange], *, classic: bool = False) -> tuple[RowChange, ...]:
    """The rows of a transaction with key-changing UPDATEs split.

    DELETE halves stay where the UPDATE was and INSERT halves come last. The classic server sorts: DELETE, UPDATE,
    INSERT.
    """
    halves = [split(change, classic=classic) for change in changes]
    if classic:
        rows = [row for parts in halves for row in parts]
        return tuple(rows if len(rows) == len(changes) else sorted(rows, key=lambda row: _ORDER[row.op]))
    return (*(parts[0] for parts in halves), *(parts[1] for parts in halves if len(parts) == 2))


_Key: TypeAlias = tuple[object, ...]


@dataclass(slots=True)
class _Fate:
    """What became of one row in a transaction: what it was before, and the last change it went through."""

    before: Row | None
    last: RowChange

    def net(self) -> RowChange:
        return replace(self.last, before=self.before)

    @property
    def came_to_nothing(self) -> bool:
        return self.before is None and self.last.after is None


def net_changes(changes: Iterable[RowChange]) -> tuple[RowChange, ...]:
    """A transaction's net effect: one change for each row, and none for a row that came and went within it.

    TiKV keeps no more than that; a binlog tells every step. DELETEs come first, then UPDATEs, then INSERTs. Rows of a
    table without a handle key cannot be followed and stay as they are.
    """
    fates: list[_Fate] = []
    known: dict[_Key, _Fate] = {}
    for change in changes:
        fate = known.pop(_key(change, change.after if change.before is None else change.before), None)
        if fate is None:
            fate = _Fate(change.before, change)
            fates.append(fate)
        fate.last = change
        if change.table.handle_key:
            known[_key(change, change.before if change.after is None else change.after)] = fate
    return tuple(sorted(_nets(fates), key=lambda change: _ORDER[change.op]))


def _nets(fates: Iterable[_Fate]) -> Iterator[RowChange]:
    return (fate.net() for fate in fates if not fate.came_to_nothing)


def _key(change: RowChange, row: Row | None) -> _Key:
    names = change.table.handle_key
    return (change.table.name, change.table_id, *((row or {}).get(name) for name in names))
