"""A workload as a source: the same again and again, from any place."""

from __future__ import annotations

import pytest

from tidewire.changefeed.source import Resolved, RowBatch, open_source
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, RowChange

URI = "workload://7?tables=3&transactions=40"


def test_it_tells_everything_in_commit_order() -> None:
    source = open_source(URI)

    items = list(source.read(source.now()))

    times = [
        item.ts if isinstance(item, Resolved) else item.commit_ts for item in items if not isinstance(item, RowBatch)
    ]
    assert times == sorted(times, key=lambda ts: ts or 0)
    assert {type(item) for item in items} == {RowChange, Ddl, Resolved}
    assert isinstance(items[0], Ddl)
    assert isinstance(items[-1], Resolved)
    assert source.tables() == ()


def test_it_goes_on_at_every_place() -> None:
    items = list(open_source(URI).read(0))

    for index, item in enumerate(items):
        if isinstance(item, Resolved):
            assert list(open_source(URI).read(item.ts, item.place)) == items[index + 1 :]
            later = [each for each in open_source(URI).read(item.ts) if not isinstance(each, Resolved)]
            assert later == [each for each in items[index + 1 :] if not isinstance(each, Resolved)]


def test_many_rows_come_in_columns() -> None:
    source = open_source("workload://1?columns=6&rows=120000")

    first, *items = source.read(source.now())

    assert isinstance(first, Ddl)
    batches = [item for item in items if isinstance(item, RowBatch)]
    assert sum(batch.rows.num_rows for batch in batches) == 120_000
    marks = [item for item in items if isinstance(item, Resolved)]
    assert [mark.ts for mark in marks] == [batch.rows.column("_commit_ts")[-1].as_py() for batch in batches]
    middle = batches[0].rows.column("_commit_ts")[99].as_py()
    assert next(batch.rows.num_rows for batch in source.read(middle) if isinstance(batch, RowBatch)) == 49_900


def test_closing_ends_a_reading() -> None:
    source = open_source(URI)
    reading = source.read(0)
    next(reading)

    source.close()

    assert len(list(reading)) < 20


@pytest.mark.parametrize(
    "uri",
    ["workload://x", "workload://1?rows=many", "workload://1?row=3", "workload://1?tables=0", "nothing", "ftp://x"],
)
def test_a_wrong_uri_is_refused(uri: str) -> None:
    with pytest.raises(ChangefeedError):
        open_source(uri)
