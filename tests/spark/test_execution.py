"""What an execution says of a plan that was carried out."""

from __future__ import annotations

from unittest.mock import Mock

from tidewire.model import Column, TableName, TableSchema
from tidewire.spark.execution import Execution
from tidewire.sync.plan import Planned
from tidewire.sync.state import State
from tidewire.sync.steps import Merge, Rename, Step, Truncate


def _table(name: str) -> TableSchema:
    return TableSchema(TableName("shop", name), (Column.of("id", "int", primary_key=True),))


A, B, C, D = map(_table, "abcd")


def test_rows_are_counted_for_tables_that_changed_under_the_names_that_they_have_now() -> None:
    counts = {A.name: 3, C.name: 2, D.name: 0}
    target = Mock()
    target.row_count = counts.get
    target.exists = counts.__contains__
    job = Mock()
    job.rules.route = lambda name: name
    execution = Execution(job, Mock(), target, Mock(), Mock(), Mock(), Mock(), lambda ask: ask())  # type: ignore[arg-type]
    steps: tuple[Step, ...] = (
        Merge(A, (), 5),
        Merge(B, (), 5),
        Rename(((B.name, C.name),), 6),
        Truncate(D, 7),
    )
    state = State("sync", tables={each.name: each for each in (A, C, D)})

    assert execution.rows(Planned(steps, state, None)) == counts
