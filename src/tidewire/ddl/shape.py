"""What a change of columns makes of a table, and what a target has to do for it.

Both come from one builder of the table, so they cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tidewire.ddl.column_steps import ColumnStep, GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.defaults import fill
from tidewire.ddl.edits import ColumnEdit, ColumnPosition
from tidewire.ddl.table_builder import Entry, TableBuilder
from tidewire.errors import DdlMismatch
from tidewire.model import Column, Generated, MySQLType, TableSchema
from tidewire.model.types import FLOATS, TEMPORAL


def altered(table: TableSchema, changes: Sequence[ColumnEdit]) -> TableSchema:
    """The table after these changes, its keys marked anew; raises ``DdlMismatch`` if they do not fit it."""
    return TableBuilder(table).changed(changes).table()


def column_steps(table: TableSchema, changes: Sequence[ColumnEdit], now: str | None = None) -> tuple[ColumnStep, ...]:
    """What a target that holds this table has to do to its columns, in order.

    Virtual columns are in no row, so no step speaks of them. Each step sees the columns as the steps before it left
    them: a ``TypedColumn`` has the new name on both sides. ``now`` is the moment of the statement, see ``fill``.
    """
    builder = TableBuilder(table).changed(changes)
    builder.table()
    try:
        return (*_gone(builder), *_named(builder), *_typed(builder), *_placed(builder, now))
    except ValueError as error:
        raise DdlMismatch(str(table.name), str(error)) from None


def _is_visible(column: Column | None) -> bool:
    return column is not None and column.generated is not Generated.VIRTUAL


def _visible(builder: TableBuilder) -> list[Entry]:
    """The columns a target has after the statement."""
    return [entry for entry in builder.entries if _is_visible(entry.column)]


def _kept(builder: TableBuilder) -> list[tuple[Column, Column]]:
    """The columns a target has before and after, as they were and are."""
    return [(entry.before, entry.column) for entry in _visible(builder) if entry.before and _is_visible(entry.before)]


def _gone(builder: TableBuilder) -> Iterator[ColumnStep]:
    hidden = [entry for entry in builder.entries if not _is_visible(entry.column)]
    for entry in (*builder.gone, *hidden):
        if entry.before and _is_visible(entry.before):
            yield GoneColumn(entry.before.name)


def _named(builder: TableBuilder) -> Iterator[ColumnStep]:
    """Renames in an order in which each new name is free; a cycle goes through a temporary name."""
    waiting = {before.name: column.name for before, column in _kept(builder) if before.name != column.name}
    taken = {name.lower() for before, column in _kept(builder) for name in (before.name, column.name)}
    while waiting:
        held = {name.lower() for name in waiting}
        ready = [name for name, new in waiting.items() if new.lower() not in held - {name.lower()}]
        for name in ready:
            yield NamedColumn(name, waiting.pop(name))
        if not ready:
            name, new = waiting.popitem()
            spare = f"{name}_"
            while spare.lower() in taken:
                spare += "_"
            yield NamedColumn(name, spare)
            waiting[spare] = new


def _typed(builder: TableBuilder) -> Iterator[ColumnStep]:
    for before, column in _kept(builder):
        if _value_type(before) != _value_type(column):
            yield TypedColumn(replace(before, name=column.name), column)


_LENGTH_COUNTS = FLOATS | {MySQLType.DECIMAL, MySQLType.BIT, MySQLType.VECTOR}
"""Types whose values, and not only their display or their limit, depend on the length."""


def _value_type(column: Column) -> tuple[object, ...]:
    """What of a type shows in its values: not a display width, the limit of a VARCHAR, or how text is encoded."""
    padded = column.type is MySQLType.CHAR and column.is_binary
    counts = column.type in _LENGTH_COUNTS or padded
    return (
        column.type,
        column.is_binary,
        column.unsigned,
        column.length if counts else None,
        (column.decimal or 0) if counts or column.type in TEMPORAL else None,
        column.elements,
    )


def _placed(builder: TableBuilder, now: str | None) -> Iterator[ColumnStep]:
    """New columns and moved ones, from left to right, each right behind the column it follows in the end."""
    entries = _visible(builder)
    order = [entry for entry in builder.original if entry in entries and _is_visible(entry.before)]
    for number, entry in enumerate(entries):
        is_new = entry not in order
        behind = entries[number - 1] if number else None
        if not is_new:
            at = order.index(entry)
            if not entry.moved or (order[at - 1] if at else None) is behind:
                continue
            order.remove(entry)
        at = order.index(behind) + 1 if behind else 0
        last = at == len(order)
        order.insert(at, entry)
        place = (
            ColumnPosition()
            if is_new and last
            else ColumnPosition(first=True)
            if behind is None
            else ColumnPosition(after=behind.column.name)
        )
        if is_new:
            yield NewColumn(entry.column, place, fill(entry.column, now))
        else:
            yield PlacedColumn(entry.column.name, place)
