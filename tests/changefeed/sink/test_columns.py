"""Rows in columns go where the same rows go one by one, with the same bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from changefeed.pieces import SetClock
from tidewire.changefeed.config.dispatching import Projection
from tidewire.changefeed.config.settings import BootstrapSettings
from tidewire.changefeed.sink.base import MemoryQueue
from tidewire.changefeed.sink.queue import QueueSink
from tidewire.changefeed.source.base import RowBatch, changes_keys, changes_of
from tidewire.codec import PROTOCOLS, Options, Resources
from tidewire.dispatch import ColumnSelector, ColumnSelectors, Dispatch, DispatchRule
from tidewire.model import Index
from tidewire.registry import MemoryRegistry
from tidewire.workload.bulk import Bulk

RULES = {
    "table": DispatchRule(("*.*",), partition="table"),
    "ts": DispatchRule(("*.*",), partition="ts"),
    "index-value": DispatchRule(("*.*",), partition="index-value"),
    "columns": DispatchRule(("*.*",), partition="columns", columns=("customer", "placed", "total", "weight")),
}
BULK = Bulk(seed=4, rows=400, columns=8)


def batch_of(bulk: Bulk = BULK) -> RowBatch:
    (rows,) = bulk.changes()
    return RowBatch(bulk.table, rows)


def sink_of(name: str, rule: DispatchRule, queue: MemoryQueue, projection: Projection = Projection()) -> QueueSink:
    rule = replace(rule, topic="{schema}_{table}") if name == "avro" else rule
    return QueueSink(
        queue,
        Dispatch("feed", [rule], protocol=name),
        Options(enable_tidb_extension=True),
        Resources(registry=MemoryRegistry(), clock=lambda: 5),
        BootstrapSettings(enabled=True),
        projection,
        SetClock(),
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", PROTOCOLS)
def test_columns_make_the_messages_that_rows_make(name: str, rule: str) -> None:
    by_columns, by_rows = MemoryQueue(3), MemoryQueue(3)

    sink_of(name, RULES[rule], by_columns).columns(batch_of())
    sink_of(name, RULES[rule], by_rows).rows(list(changes_of(batch_of())))

    assert by_columns.topics == by_rows.topics
    assert sum(map(len, next(iter(by_rows.topics.values())))) > 20


def test_selected_columns_are_looked_at_row_by_row() -> None:
    projection = Projection(ColumnSelectors([ColumnSelector(("*.*",), ("id", "customer"))]))
    by_columns, by_rows = MemoryQueue(2), MemoryQueue(2)

    sink_of("canal-json", RULES["table"], by_columns, projection).columns(batch_of())
    sink_of("canal-json", RULES["table"], by_rows, projection).rows(list(changes_of(batch_of())))

    assert by_columns.topics == by_rows.topics
    assert b"weight" not in (by_rows.topics["feed"][0] + by_rows.topics["feed"][1])[0].value  # type: ignore[operator]


def test_an_update_of_a_unique_column_is_noticed() -> None:
    batch = batch_of()
    unique = replace(batch.table, indexes=(*batch.table.indexes, Index("u", ("customer",), unique=True)))

    assert not changes_keys(batch)
    assert changes_keys(RowBatch(unique, batch.rows))
    assert not changes_keys(RowBatch(unique, batch.rows.slice(0, 0)))
