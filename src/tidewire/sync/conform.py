"""Tables whose shape is told by their rows: no DDL was seen, or the protocol sends none."""

from __future__ import annotations

from dataclasses import replace

from tidewire.ddl.column_steps import ColumnStep, GoneColumn, NewColumn, TypedColumn
from tidewire.ddl.edits import Place
from tidewire.model import Column, TableName, TableSchema
from tidewire.sync.catalogue import Catalogue, stored
from tidewire.sync.steps import Alter, Create, Step


def conformed(catalogue: Catalogue, name: TableName, shape: TableSchema, ts: int, *, follow: bool) -> list[Step]:
    """The steps that give a table room for rows of a shape.

    ``follow``: rows are all there is to tell how the table changes, so a column that the shape lacks is gone, and one
    with another type has that type. The key is the shape's, too.
    """
    shape = stored(shape)
    table = catalogue.tables.get(name)
    if table is None:
        catalogue.tables[name] = shape
        return [Create(shape, ts)]
    columns, after = column_changes(table, shape, follow=follow)
    if not columns and after.handle_key == table.handle_key:
        return []
    catalogue.tables[name] = after
    return [Alter(stored(table), stored(after), columns, ts)]


def column_changes(
    table: TableSchema, shape: TableSchema, *, follow: bool
) -> tuple[tuple[ColumnStep, ...], TableSchema]:
    """What a shape changes of a table's columns, and the table afterwards."""
    known = {column.name.lower(): column for column in table.columns}
    told = {column.name.lower(): column for column in shape.columns}
    steps: list[ColumnStep] = []
    columns: list[Column] = []
    for column in table.columns:
        now = told.get(column.name.lower())
        if follow and now is None:
            steps.append(GoneColumn(column.name))
            continue
        if follow and now is not None and now.mysql_type != column.mysql_type:
            steps.append(TypedColumn(column, replace(now, name=column.name)))
            column = replace(now, name=column.name)
        if follow and now is not None:
            column = replace(column, handle_key=now.handle_key, primary_key=now.primary_key)
        columns.append(column)
    names = [column.name.lower() for column in columns]
    for number, column in enumerate(shape.columns):
        if column.name.lower() in known:
            continue
        before = shape.columns[number - 1].name if number else None
        at = 0 if before is None else names.index(before.lower()) + 1 if before.lower() in names else len(names)
        place = Place(first=True) if at == 0 else Place() if at == len(names) else Place(after=columns[at - 1].name)
        steps.append(NewColumn(column, place, column.default))
        columns.insert(at, column)
        names.insert(at, column.name.lower())
    return tuple(steps), replace(table, columns=tuple(columns))
