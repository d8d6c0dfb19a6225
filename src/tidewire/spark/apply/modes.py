"""The modes a table can be kept in. In every mode, changes come down to rows to write and rows that die."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame

from tidewire.model import Column, TableName
from tidewire.spark.apply.history import History
from tidewire.spark.apply.layout import Layout, Mode
from tidewire.spark.apply.mirror import Mirror
from tidewire.spark.apply.scd2 import Scd2
from tidewire.sync.rules import Route
from tidewire.sync.steps import Adopt, Create, Drop, Rename, Step

LAYOUTS: Mapping[Mode, Layout] = {Mode.MIRROR: Mirror(), Mode.HISTORY: History(), Mode.SCD2: Scd2()}


def current_rows(mode: Mode, rows: DataFrame, key: Sequence[Column]) -> DataFrame:
    """The rows a table has upstream, out of all rows of it here: in every mode those of a mirror.

    ``key`` are the columns of its handle key.
    """
    return LAYOUTS[mode].current(rows, key)


def modes_of(
    steps: Sequence[Step], known: Mapping[TableName, Mode], wanted: Callable[[TableName], Mode], route: Route
) -> tuple[list[Mode], dict[TableName, Mode]]:
    """The mode each step is done in, and those of all tables afterwards, by their folded names in the target.

    A table has its mode from when it is made, and takes it along to other names. One without a key can only be kept as
    history.
    """
    modes, found = dict(known), []
    for step in steps:
        first = next(iter(step.tables))
        name = route(first).folded
        if isinstance(step, Create | Adopt):
            modes[name] = wanted(first) if step.table.handle_key else Mode.HISTORY
        found.append(modes.get(name) or wanted(first))
        if isinstance(step, Rename):
            moved = {route(new).folded: modes.pop(route(old).folded, wanted(old)) for old, new in step.moves}
            modes |= moved
        if isinstance(step, Drop):
            modes.pop(name, None)
    return found, modes
