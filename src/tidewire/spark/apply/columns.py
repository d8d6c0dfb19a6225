"""What an Alter step does to a table: its columns one after the other, in any mode.

Every single change can be repeated, and is not begun again once the next one was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tidewire.arrow.policy import Policy
from tidewire.ddl.column_steps import ColumnStep, GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.edits import Place
from tidewire.model import TableName
from tidewire.spark.apply.casts import spark_type
from tidewire.spark.apply.conversions import convert_sql
from tidewire.spark.apply.layout import META, Layout, user_columns
from tidewire.spark.apply.literals import literal_sql
from tidewire.spark.apply.statements import run
from tidewire.spark.targets import Field, Target
from tidewire.spark.targets.sql_text import quoted

_MAKING = f"{META}new_"
"""How the name of a column begins whose values are being converted."""


def change_column(step: ColumnStep, target: Target, name: TableName, layout: Layout, policy: Policy) -> None:
    """Do one change of a table's columns."""
    _CHANGES[type(step)](step, target, name, layout, policy)


def _add(step: NewColumn, target: Target, name: TableName, layout: Layout, policy: Policy) -> None:
    column, type_ = step.column.name, spark_type(step.column, policy)
    place = step.place
    if place == Place():
        own = user_columns(field.name for field in target.fields(name) if field.name.lower() != column.lower())
        place = Place(after=own[-1]) if own else Place(first=True)
    target.add_column(name, Field(column, type_), place)
    for copy in layout.copies(column):
        target.add_column(name, Field(copy, type_))
    value = literal_sql(step.fill, step.column, policy)
    if value != literal_sql(None, step.column, policy):
        run(target, None, f"UPDATE {target.relation(name)} SET {quoted(column)} = {value} WHERE {layout.fill_where}")


def _drop(step: GoneColumn, target: Target, name: TableName, layout: Layout, _: Policy) -> None:
    for column in (step.name, *layout.copies(step.name)):
        target.drop_column(name, column)


def _rename(step: NamedColumn, target: Target, name: TableName, layout: Layout, _: Policy) -> None:
    new = (step.new, *layout.copies(step.new))
    for column, other in zip((step.name, *layout.copies(step.name)), new, strict=True):
        target.rename_column(name, column, other)


def _place(step: PlacedColumn, target: Target, name: TableName, _: Layout, __: Policy) -> None:
    if step.place != Place():
        target.move_column(name, step.name, step.place)


def _retype(step: TypedColumn, target: Target, name: TableName, layout: Layout, policy: Policy) -> None:
    for column in (step.new.name, *layout.copies(step.new.name)):
        _convert(step, target, name, column, policy)


def _convert(step: TypedColumn, target: Target, name: TableName, column: str, policy: Policy) -> None:
    """Convert the values of a column: in place, by the format itself, or by way of another column."""
    old, new = spark_type(step.old, policy), spark_type(step.new, policy)
    value = convert_sql(quoted(column), step.old, step.new, policy)
    if old == new:
        if value != quoted(column):
            run(target, None, f"UPDATE {target.relation(name)} SET {quoted(column)} = {value}")
        return
    making = f"{_MAKING}{column}"
    types = {field.name.lower(): field.type for field in target.fields(name)}
    if column.lower() in types:
        if types[column.lower()] == new and making.lower() not in types:
            return
        plain = value == f"CAST({quoted(column)} AS {new})"
        if plain and making.lower() not in types and target.widen_column(name, column, new):
            return
        target.add_column(name, Field(making, new), Place(after=column))
        run(target, None, f"UPDATE {target.relation(name)} SET {quoted(making)} = {value}")
        target.drop_column(name, column)
    target.rename_column(name, making, column)


_CHANGES: Mapping[type, Callable[[Any, Target, TableName, Layout, Policy], None]] = {
    NewColumn: _add,
    GoneColumn: _drop,
    NamedColumn: _rename,
    TypedColumn: _retype,
    PlacedColumn: _place,
}
