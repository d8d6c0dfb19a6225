"""Why a step can never be done, found out before the step is kept: no Spark session is needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from tidewire.arrow import modify
from tidewire.arrow.cast import can_cast, default_value
from tidewire.arrow.policy import Policy
from tidewire.ddl.column_steps import NewColumn, TypedColumn
from tidewire.errors import KeyNeeded, SyncError
from tidewire.model import TableName, TableSchema
from tidewire.spark.apply.changes import key_columns, told_column, untold
from tidewire.spark.apply.layout import META, Mode
from tidewire.spark.apply.modes import LAYOUTS
from tidewire.spark.targets.base import RESERVED
from tidewire.spark.targets.partitions import can_partition
from tidewire.sync.catalogue import stored
from tidewire.sync.replacing import is_beside
from tidewire.sync.steps import Adopt, Alter, Create, Drop, Fill, Merge, Rename, SetAside, Step, Truncate


def check(step: Step, mode: Mode, policy: Policy = Policy()) -> str | None:
    """Why a step can never be done to a table in this mode; ``None`` if nothing speaks against it."""
    try:
        return next(_CHECKS[type(step)](step, mode, policy), None)
    except SyncError as error:  # a conversion or a default that is refused
        return str(error)


def _names(*names: TableName) -> Iterator[str]:
    for name in names:
        if name.schema.lower() in RESERVED and not is_beside(name):
            yield f"{name}: the database {name.schema} is reserved for tidewire; give the table another name"


def _table(table: TableSchema, mode: Mode) -> Iterator[str]:
    yield from _names(table.name)
    if LAYOUTS[mode].needs_key and not table.handle_key:
        yield str(KeyNeeded(str(table.name), mode))
    for column in table.columns:
        if column.name.lower().startswith(META):
            yield f"a column cannot be called {column.name}: names that begin with {META} are those of added columns"


def _create(step: Create, mode: Mode, policy: Policy) -> Iterator[str]:
    yield from _table(stored(step.table), mode)
    columns = {column.name.lower(): column for column in step.table.columns}
    for part, name in (("partition", each.column) for each in step.options.partition):
        if name.lower() not in columns:
            yield _MISSING.format(part=part, name=name, table=step.table.name)
    for name in step.options.sort:
        if name.lower() not in columns:
            yield _MISSING.format(part="sort", name=name, table=step.table.name)
    for each in step.options.partition:
        column = columns.get(each.column.lower())
        type_ = None if column is None else policy.type_of(column)
        if type_ is not None and not can_partition(each.transform, type_):
            yield f"column {each.column} cannot partition {step.table.name} by {each}: it is of type {type_}"
    for name in step.options.sort:
        column = columns.get(name.lower())
        if column is not None and pa.types.is_nested(policy.type_of(column)):
            yield f"rows of {step.table.name} cannot be in order of column {name}: it is a list"


_MISSING = (
    "the rule for {table} has column {name} in its {part}, which the table does not have: correct the rule, and "
    "retry the hold"
)


def _merge(step: Merge, mode: Mode, policy: Policy) -> Iterator[str]:
    table = stored(step.table)
    yield from _table(table, mode)
    keys = key_columns(table)
    for shape in {piece.file.shape.columns: None for piece in step.slices}:
        for column in table.columns:
            told = told_column(step, shape, column)
            if told is None and column in keys:
                yield f"rows do not have column {column.name}, which is in the key"
            elif told is None:
                untold(column, policy)
            elif not can_cast(told, column, policy):
                yield f"column {column.name}: values of {told.mysql_type} cannot become {column.mysql_type}"


def _alter(step: Alter, mode: Mode, policy: Policy) -> Iterator[str]:
    yield from _table(step.after, mode)
    for change in step.columns:
        match change:
            case NewColumn(column, _, fill):
                default_value(fill, column, policy)
            case TypedColumn(old, new):
                modify.check(old, new, policy)


def _rename(step: Rename, mode: Mode, policy: Policy) -> Iterator[str]:
    for side in zip(*step.moves, strict=True):
        if len(set(side)) < len(side):
            yield f"a rename names a table twice: {', '.join(f'{old} to {new}' for old, new in step.moves)}"
    yield from _names(*(new for _, new in step.moves))


def _nothing(step: Drop | Truncate | SetAside, mode: Mode, policy: Policy) -> Iterator[str]:
    yield from ()


_CHECKS: Mapping[type, Callable[[Any, Mode, Policy], Iterator[str]]] = {
    Merge: _merge,
    Fill: lambda step, mode, policy: _merge(step.merge, mode, policy),
    Create: _create,
    Adopt: lambda step, mode, policy: _table(stored(step.table), mode),
    Alter: _alter,
    Rename: _rename,
    Drop: _nothing,
    Truncate: _nothing,
    SetAside: _nothing,
}
