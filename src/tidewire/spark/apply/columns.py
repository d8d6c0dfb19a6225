"""What an Alter step does to a table: its columns one after the other, in any mode.

Changes that touch no values are collected and committed together. A conversion of values stands between such commits:
all files are written anew, with a column of its own if the type changes. Each commit but the last is tagged as a part
of the step, so the table itself says how far an Alter came, and a crash between two commits loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from tidewire.arrow.cast import default_value
from tidewire.arrow.modify import changes_values, widens
from tidewire.arrow.policy import Policy
from tidewire.ddl.column_steps import GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.errors import ColumnError
from tidewire.model import TableName
from tidewire.spark.apply.layout import META, Layout, spark_type, user_columns
from tidewire.spark.apply.rewrite import Converted, Default, Rewrite
from tidewire.spark.targets.base import (
    AT_END,
    AddColumn,
    ColumnChange,
    CommitTag,
    DropColumn,
    Field,
    MoveColumn,
    RenameColumn,
    Target,
    WidenColumn,
    spelled,
)
from tidewire.sync.steps import Alter

_MAKING = f"{META}new_"
"""How the name of a column begins whose values are being converted."""


def _refuse_repartition(columns: Sequence[str], todo: Sequence[Phase], name: TableName) -> None:
    """Raise ``ColumnError`` if columns that partition the table go, or their values change."""
    names = {column.lower() for column in columns}
    for phase in todo:
        changed: set[str] = set()
        if isinstance(phase, Rewrite):
            changed = {column.lower() for column, _ in phase.values}
        else:
            for change in phase:
                match change:
                    case DropColumn(column):
                        changed.add(column.lower())
                    case RenameColumn(column, new) if column.lower() in names:
                        names = names - {column.lower()} | {new.lower()}
        for column in sorted(changed & names):
            raise ColumnError(
                f"column {column} partitions {name}, so it cannot be dropped, and its values cannot be converted. Set "
                'drop-column or modify-column = "ignore" in the rule of this table, or begin anew with an empty target'
            )


class Abilities(NamedTuple):
    """What a table's format can do without touching files."""

    widen: Callable[[str, str], bool]
    defaults: bool


Phase: TypeAlias = tuple[ColumnChange, ...] | Rewrite
"""What one commit does: changes that touch no values, or other values."""


def alter(
    step: Alter,
    target: Target,
    tag: CommitTag,
    layout: Layout,
    policy: Policy,
    rewrite: Callable[[Rewrite, CommitTag], object],
) -> str:
    """Do an Alter step from where it stopped; the version that completes it. ``rewrite`` changes values."""
    name = step.after.name
    can = Abilities(target.can_widen, target.has_defaults(name))
    todo = phases(step, layout, policy, can)
    done = target.parts(name, tag.step)
    if not done:
        _refuse_repartition(target.partition_columns(name), todo, name)
    last = len(todo) - 1
    for number, phase in enumerate(todo):
        if number < done:
            continue
        part = replace(tag, part=number)
        if isinstance(phase, Rewrite):
            rewrite(phase, part)
            continue
        changes = _placed(phase, [field.name for field in target.fields(name)])
        if number == last:
            return target.alter(name, changes, tag)
        target.alter(name, changes, part)
    return target.alter(name, (), tag)


def phases(step: Alter, layout: Layout, policy: Policy, can: Abilities) -> list[Phase]:
    """The commits of an Alter step. They depend on step and format alone, so they are the same after a crash."""
    found: list[Phase] = []
    changes: list[ColumnChange] = []
    for column in step.columns:
        for each in _CHANGES[type(column)](column, layout, policy, can):
            if not isinstance(each, Rewrite):
                changes.append(each)
                continue
            if changes:
                found.append(tuple(changes))
                changes = []
            found.append(each)
    return [*found, tuple(changes)] if changes else found


def _placed(changes: Sequence[ColumnChange], names: list[str]) -> list[ColumnChange]:
    """Changes with a place for new columns: after the table's own ones, before those that a mode adds."""
    found = []
    for change in changes:
        if isinstance(change, AddColumn) and change.place == AT_END and not change.field.name.startswith(META):
            own = user_columns(names)
            change = replace(change, place=ColumnPosition(after=own[-1]) if own else ColumnPosition(first=True))
        found.append(change)
        names = _names_after(names, change)
    return found


def _names_after(names: list[str], change: ColumnChange) -> list[str]:
    """The names of a table's columns after a change, as far as that matters for the place of new columns."""
    match change:
        case AddColumn(field, place) if spelled(names, field.name) is None:
            after = None if place.after is None else spelled(names, place.after)
            at = 0 if place.first else len(names) if after is None else names.index(after) + 1
            return [*names[:at], field.name, *names[at:]]
        case DropColumn(name):
            return [other for other in names if other.lower() != name.lower()]
        case RenameColumn(name, new):
            return [new if other.lower() == name.lower() else other for other in names]
        case MoveColumn(name, place):
            found = spelled(names, name)
            if found is not None and (place.first or place.after is not None):
                left = [other for other in names if other != found]
                return _names_after(left, AddColumn(Field(found, ""), place))
    return names


Part: TypeAlias = ColumnChange | Rewrite


def _add(step: NewColumn, layout: Layout, policy: Policy, can: Abilities) -> Iterator[Part]:
    """A new column. If not all rows get its default, or the schema cannot keep it, files are written anew."""
    column, type_ = step.column.name, spark_type(step.column, policy)
    default = default_value(step.fill, step.column, policy)
    kept = default if can.defaults and layout.filled is None and _is_common(default) else None
    yield AddColumn(Field(column, type_), step.place, kept)
    for copy in layout.copies(column):
        yield AddColumn(Field(copy, type_))
    if default.is_valid and kept is None:
        yield Rewrite(((column, Default(step.fill, step.column)),), layout.filled)


def _is_common(default: pa.Scalar) -> bool:
    """Can all readers of a schema read a default in it? PyIceberg refuses a table whose schema has the year 0."""
    try:
        return default.as_py() is not None
    except (OverflowError, ValueError):
        return False


def _drop(step: GoneColumn, layout: Layout, policy: Policy, _: object) -> Iterator[Part]:
    for column in (step.name, *layout.copies(step.name)):
        yield DropColumn(column)


def _rename(step: NamedColumn, layout: Layout, policy: Policy, _: object) -> Iterator[Part]:
    new = (step.new, *layout.copies(step.new))
    for column, other in zip((step.name, *layout.copies(step.name)), new, strict=True):
        yield RenameColumn(column, other)


def _place(step: PlacedColumn, layout: Layout, policy: Policy, _: object) -> Iterator[Part]:
    if step.place != ColumnPosition():
        yield MoveColumn(step.name, step.place)


def _retype(step: TypedColumn, layout: Layout, policy: Policy, can: Abilities) -> Iterator[Part]:
    """Convert the values of a column: in place, by the format itself, or by way of another column."""
    columns = (step.new.name, *layout.copies(step.new.name))
    old, new = spark_type(step.old, policy), spark_type(step.new, policy)
    values = [(column, Converted(column, step.old, step.new)) for column in columns]
    if old == new:
        if changes_values(step.old, step.new, policy):
            yield Rewrite(tuple(values))
        return
    if widens(step.old, step.new, policy) and can.widen(old, new):
        for column in columns:
            yield WidenColumn(column, new)
        return
    for column in columns:
        yield AddColumn(Field(_MAKING + column, new), ColumnPosition(after=column))
    yield Rewrite(tuple((_MAKING + column, value) for column, value in values))
    for column in columns:
        yield DropColumn(column)
        yield RenameColumn(_MAKING + column, column)


_CHANGES: Mapping[type, Callable[[Any, Layout, Policy, Abilities], Iterator[Part]]] = {
    NewColumn: _add,
    GoneColumn: _drop,
    NamedColumn: _rename,
    TypedColumn: _retype,
    PlacedColumn: _place,
}
