"""Steps under the names that tables have in the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tidewire.model import TableName, TableSchema
from tidewire.sync.steps import Alter, Create, Drop, Merge, Rename, SetAside, Step, Truncate

Route = Callable[[TableName], TableName]


def routed(step: Step, route: Route) -> Step:
    """A step with the target's names for those of the upstream."""
    found: Step = _ROUTED[type(step)](step, route)
    return found


def routed_table(table: TableSchema, route: Route) -> TableSchema:
    """A table under its name in the target."""
    return replace(table, name=route(table.name))


def _table(step: Any, route: Route) -> Step:
    found: Step = replace(step, table=routed_table(step.table, route))
    return found


def _drop(step: Drop, route: Route) -> Step:
    return replace(step, name=route(step.name))


def _rename(step: Rename, route: Route) -> Step:
    moves = ((route(old), route(new)) for old, new in step.moves)
    return replace(step, moves=tuple(move for move in moves if move[0] != move[1]))


def _alter(step: Alter, route: Route) -> Step:
    return replace(step, before=routed_table(step.before, route), after=routed_table(step.after, route))


_ROUTED: Mapping[type, Callable[[Any, Route], Step]] = {
    Merge: _table,
    Create: _table,
    Truncate: _table,
    Drop: _drop,
    Rename: _rename,
    Alter: _alter,
    SetAside: lambda step, route: step,
}
