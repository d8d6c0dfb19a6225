"""The out line: what is safe before what, where a changefeed begins again, and when it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from changefeed.pieces import DiarySink, ListSource, SetClock, create, delete, insert, table, update
from tidewire.changefeed.checkpoint import Checkpoint, MemoryCheckpoints
from tidewire.changefeed.integrity import Check
from tidewire.changefeed.runner import MOST_PENDING, Runner
from tidewire.changefeed.source.base import Resolved, ResumePosition, RowBatch, Upstream
from tidewire.dispatch import EventFilter, EventFilterRule, Filter, TableRules
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, DdlType, RowChange, TableName, TableSchema
from tidewire.workload.bulk import Bulk

ALTER = Ddl(table().name, 20, "ALTER TABLE t COMMENT 'x'", DdlType.MODIFY_TABLE_COMMENT, table_schema=table())


def mark(index: int, ts: int) -> Resolved:
    return Resolved(ts, {"index": index})


class Run:
    """A runner over a list, and what came of it."""

    def __init__(
        self,
        items: Sequence[Any] = (),
        *,
        source: ListSource | None = None,
        sink: DiarySink | None = None,
        check: Check | None = None,
        tables: Sequence[TableSchema] = (),
        kept: Checkpoint | None = None,
        filter_: Filter = Filter(),
        interval: float = 0.0,
        start_ts: int | None = 0,
        target_ts: int | None = None,
        by_columns: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.source, self.sink = source or ListSource(items, tables, now=7), sink or DiarySink()
        self.checkpoints = MemoryCheckpoints(kept)
        self.runner = Runner(
            self.source,
            self.sink,
            filter_,
            self.checkpoints,
            start_ts=start_ts,
            target_ts=target_ts,
            interval=interval,
            check=check,
            by_columns=by_columns,
            clock=clock or SetClock(),
        )

    def lines(self) -> list[str]:
        self.runner.run()
        assert self.sink.lines[-1] == "close"
        return self.sink.lines[1:-1]


def test_a_watermark_comes_after_everything_it_covers_is_safe() -> None:
    run = Run([insert(1, 10), mark(2, 11), insert(2, 12), mark(4, 12)])

    assert run.lines() == [
        "insert 1",
        "flush",
        "watermark 11 ['t']",
        "insert 2",
        "flush",
        "watermark 12 ['t']",
        "flush",
        "flush",
    ]
    assert run.checkpoints.checkpoint == Checkpoint(12, {"index": 4})


def test_a_statement_waits_for_the_rows_before_it_and_holds_back_those_after_it() -> None:
    run = Run([insert(1, 20), ALTER, insert(2, 21), mark(4, 21)], interval=1000)

    lines = run.lines()

    assert lines[:4] == ["insert 1", "flush", ALTER.query, "insert 2"]
    assert lines[4:6] == ["flush", "watermark 21 ['t']"]  # a statement is followed by a watermark, whatever the time


def test_watermarks_come_in_their_time_and_only_when_they_grew() -> None:
    clock = SetClock()

    class Ticking(ListSource):
        def read(self, start_ts: int, place: ResumePosition | None = None) -> Iterator[Upstream]:
            for item in super().read(start_ts, place):
                clock.now += 0.4
                yield item

    times = (10, 11, 12, 12, 12, 12, 13)
    run = Run(source=Ticking([mark(index, ts) for index, ts in enumerate(times, 1)]), interval=1.0, clock=clock)
    run.runner.run()

    assert [line for line in run.sink.lines if line.startswith("watermark")] == ["watermark 12 []", "watermark 13 []"]


def test_a_changefeed_goes_on_where_its_checkpoint_is_and_says_so_first() -> None:
    items = [insert(1, 10), mark(2, 11), insert(2, 12), mark(4, 12)]
    run = Run(items, kept=Checkpoint(11, {"index": 2}), tables=[table()])

    lines = run.lines()

    assert run.sink.lines[0] == "begin ['t']"
    assert lines[:2] == ["watermark 11 ['t']", "insert 2"]
    assert run.source.reads == [(11, {"index": 2})]


def test_without_a_checkpoint_it_begins_at_the_start_ts_or_now() -> None:
    for start_ts, begins in ((3, 3), (None, 7)):
        run = Run([], start_ts=start_ts)
        run.lines()
        assert run.source.reads == [(begins, None)]
        assert run.checkpoints.checkpoint == Checkpoint(begins)


def test_it_ends_at_the_target() -> None:
    items = [insert(1, 10), mark(2, 11), insert(2, 15), insert(3, 16), mark(5, 20)]
    run = Run(items, target_ts=15)

    lines = run.lines()

    assert [line for line in lines if line.startswith("insert")] == ["insert 1", "insert 2"]
    assert run.checkpoints.checkpoint == Checkpoint(15, {"index": 2})
    assert run.runner.status.finished
    assert Run(items, target_ts=15, kept=Checkpoint(15, {"index": 2})).lines() == ["watermark 15 []", "flush"]


def test_a_target_before_the_first_mark_can_be_moved_on() -> None:
    items = [insert(1, 10), insert(2, 20), mark(3, 21)]
    run = Run(items, target_ts=15)
    run.lines()

    assert run.checkpoints.checkpoint == Checkpoint(15)
    assert "insert 2" in Run(items, kept=run.checkpoints.checkpoint, target_ts=30).lines()


def test_a_changed_key_is_split_and_the_inserts_come_last() -> None:
    run = Run([update(1, 2, 10), update(2, 1, 10), update(3, 3, 10), insert(5, 11), mark(5, 12)])

    assert run.lines()[:6] == ["delete 1", "delete 2", "update 3", "insert 2", "insert 1", "insert 5"]


def test_a_large_transaction_is_sent_in_pieces_and_its_inserts_still_come_last() -> None:
    many = [update(9, 9, 10) for _ in range(MOST_PENDING + 5)]
    run = Run([update(1, 2, 10), *many, mark(MOST_PENDING + 7, 12)])

    lines = run.lines()

    assert lines[0] == "delete 1"
    assert lines.index("insert 2") == MOST_PENDING + 6


def test_raw_updates_stay_updates() -> None:
    assert Run([update(1, 2, 10)], filter_=Filter(raw_updates=True)).lines()[:1] == ["update 2"]


def test_what_the_rules_leave_out_is_not_sent() -> None:
    other = table("other", table_id=2)
    rules = Filter(TableRules.parse(["test.t"]), EventFilter([EventFilterRule(("test.t",), ignore_event=("delete",))]))
    run = Run(
        [create(other, 9), insert(1, 10), insert(2, 10, other), delete(1, 11), mark(5, 12)],
        filter_=rules,
        tables=[table(), other],
    )

    lines = run.lines()

    assert run.sink.lines[0] == "begin ['t']"
    assert lines == ["insert 1", "flush", "watermark 12 ['t']", "flush", "flush"]


def test_an_ignored_statement_is_not_sent_but_followed() -> None:
    new = table("new")
    rules = Filter(events=EventFilter([EventFilterRule(("*.*",), ignore_sql=("^rename",))]))
    rename = Ddl(new.name, 10, "RENAME TABLE t TO new", DdlType.RENAME_TABLE, table_schema=new, old_name=table().name)
    run = Run([rename, mark(2, 11)], tables=[table()], filter_=rules)

    assert run.lines()[:2] == ["flush", "watermark 11 ['new']"]


def test_topics_of_dropped_tables_hear_no_more_watermarks() -> None:
    one, other = table("one", table_id=1), table("other", table_id=2)
    drop = Ddl(one.name, 11, "DROP TABLE one", DdlType.DROP_TABLE, table_schema=one)
    gone = Ddl(TableName("test", ""), 13, "DROP DATABASE test", DdlType.DROP_SCHEMA)
    run = Run([create(one, 9), create(other, 9), mark(3, 10), drop, mark(5, 12), gone, mark(7, 14)])

    assert [line for line in run.lines() if line.startswith("watermark")] == [
        "watermark 10 ['one', 'other']",
        "watermark 12 ['other']",
        "watermark 14 []",
    ]


def test_a_statement_about_several_tables_is_sent_for_each() -> None:
    one, other = table("a", table_id=1), table("b", table_id=2)
    both = Ddl(TableName("test", "b"), 10, "RENAME TABLE a TO c, b TO d", DdlType.RENAME_TABLES)
    run = Run([both, mark(2, 11)], tables=[one, other])

    lines = run.lines()

    sent = [line for line in lines if line.startswith("RENAME")]
    assert sent == ["RENAME TABLE `test`.`a` TO `test`.`c`;", "RENAME TABLE `test`.`b` TO `test`.`d`;"]
    assert "watermark 11 ['c', 'd']" in lines


def test_what_goes_wrong_is_raised_and_shown() -> None:
    class Broken(DiarySink):
        def flush(self) -> None:
            raise ChangefeedError("CDC:ErrX", "no")

    run = Run([insert(1, 10), mark(2, 11)], sink=Broken())

    with pytest.raises(ChangefeedError):
        run.runner.run()

    assert str(run.runner.status.error) == "[CDC:ErrX]no"
    assert run.checkpoints.checkpoint == Checkpoint(0)
    assert run.sink.lines[-1] == "close"
    assert run.source.closed.is_set()


def test_another_thread_can_stop_it() -> None:
    class Endless(ListSource):
        def read(self, start_ts: int, place: ResumePosition | None = None) -> Iterator[Upstream]:
            number = 0
            while not self.closed.is_set():
                number += 1
                yield insert(number, number)
                yield mark(number, number)
                seen.set()

    seen = threading.Event()
    run = Run(source=Endless([]))
    thread = threading.Thread(target=run.runner.run)
    thread.start()
    assert seen.wait(30)

    run.runner.stop()
    thread.join(30)

    status = run.runner.status
    assert not thread.is_alive()
    assert not status.finished
    assert status.error is None
    assert status.rows - 1 <= status.checkpoint_ts == status.resolved_ts <= status.rows
    assert run.checkpoints.checkpoint == Checkpoint(status.checkpoint_ts, {"index": status.checkpoint_ts})


def test_rows_in_columns_pass_as_they_are_or_are_taken_apart() -> None:
    bulk = Bulk(rows=50)
    (batch,) = bulk.changes()
    items = [RowBatch(bulk.table, batch), mark(2, 1 << 62)]
    half = batch.column("_commit_ts")[24].as_py()

    assert Run(items, by_columns=True).lines()[0] == "columns 50"
    assert Run(items, by_columns=True, target_ts=half).lines()[0] == "columns 25"
    assert len(Run(items).lines()) == len(Run(items, by_columns=True).lines()) + 49
    assert Run(items, by_columns=True, filter_=Filter(TableRules.parse(["x.*"]))).lines()[0] == "flush"


def test_counts_are_shown() -> None:
    run = Run([ALTER, insert(1, 21), mark(3, 22)])
    run.lines()

    status = run.runner.status

    assert (status.rows, status.ddls, status.checkpoint_ts, status.resolved_ts) == (1, 1, 22, 22)


def test_rows_are_sent_with_what_a_check_makes_of_them() -> None:
    seen: list[RowChange] = []

    def check(change: RowChange) -> RowChange:
        seen.append(change)
        return replace(change, after={"id": 9, "name": ""})

    run = Run([insert(1, 10)], check=check)

    assert run.lines()[0] == "insert 9"
    assert seen == [insert(1, 10)]
