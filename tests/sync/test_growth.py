"""The planner's work grows with what there is to do, counted in calls; what it remembers does not grow for ever."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from types import FrameType
from typing import Any

import pytest

from tidewire.errors import SyncStopped
from tidewire.model import Column, Ddl, DdlType, Index, Position, TableName, TableSchema
from tidewire.model.tso import LOGICAL_BITS
from tidewire.sync import replays
from tidewire.sync.manifest import FoundDdl, Manifest, Partition, ReadRange, Rejected, StagedFile
from tidewire.sync.plan import Planned, PlanSettings, plan
from tidewire.sync.state import State
from tidewire.sync.steps import Create, Merge

AT = Partition("feed", 0)


def table(number: int, columns: int = 2, version: int = 1) -> TableSchema:
    """The table of a number."""
    texts = [Column.of(f"c{place}", "longtext") for place in range(1, columns)]
    return TableSchema.build(
        TableName("shop", f"t{number:03}"),
        [Column.of("id", "bigint", primary_key=True, nullable=False), *texts],
        [Index("primary", ("id",), unique=True, primary=True)],
        table_id=100 + number,
        version=version,
    )


def calls(work: Callable[[], object]) -> int:
    """How many functions of ours a piece of work calls."""
    count = 0

    def watch(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(watch)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def made(count: int) -> Planned:
    """A plan that makes so many tables and fills each."""
    tables = [table(number) for number in range(count)]
    query = "CREATE TABLE `{}` (id bigint PRIMARY KEY, c1 longtext)"
    statements = tuple(
        FoundDdl(
            Position("feed", 0, number),
            0,
            Ddl(each.name, 10 + number, query.format(each.name.table), DdlType.CREATE_TABLE),
        )
        for number, each in enumerate(tables)
    )
    files = tuple(StagedFile(f"{each.name}", each, AT, 1, 9000, 9000, count, count, False) for each in tables)
    return plan(State("s"), Manifest(0, files, {AT: (ReadRange(0, count + 2, 10_000),)}, {AT: count + 2}, statements))


def one_changed(state: State) -> Planned:
    """A plan that changes one table."""
    begin = state.frontier.partitions[AT].next or 0
    file = StagedFile("one", table(0), AT, 1, 11_000, 11_000, begin, begin, False)
    return plan(state, Manifest(1, (file,), {AT: (ReadRange(begin, begin + 2, 12_000),)}, {AT: begin + 2}))


def test_making_many_tables_takes_calls_in_proportion() -> None:
    few, many = calls(lambda: made(40)), calls(lambda: made(160))

    assert many < 4.2 * few
    steps = made(160).steps
    assert (sum(isinstance(step, Create) for step in steps), sum(isinstance(step, Merge) for step in steps)) == (
        160,
        160,
    )


def test_changing_one_table_takes_few_calls_for_each_of_the_others() -> None:
    few, many = made(40).state, made(160).state

    less, more = calls(lambda: one_changed(few)), calls(lambda: one_changed(many))

    assert (more - less) / 120 < 30
    assert len(one_changed(many).steps) == 1


# What is remembered

HOUR = 3600 * 1000 << LOGICAL_BITS
START = 450_000_000_000_000_000


class Years:
    """A sync that goes on for long; every message is one batch."""

    def __init__(self, **settings: Any) -> None:
        self.settings = PlanSettings(**settings)
        self.state = State("s")
        self.now = START
        self.offset = 0

    def hour(
        self,
        *statements: tuple[TableName, str],
        schemas: tuple[TableSchema, ...] = (),
        rows: tuple[TableSchema, ...] = (),
    ) -> Planned:
        """One hour: statements and rows, and a watermark."""
        self.now += HOUR
        ddls = [
            FoundDdl(Position("feed", 0, self.offset), n, Ddl(name, self.now, text))
            for n, (name, text) in enumerate(statements)
        ]
        ts = self.now + 1 if self.settings.has_watermarks else self.offset
        files = [
            StagedFile(f"{self.offset}/{n}", each, AT, 1, ts, ts, self.offset, self.offset)
            for n, each in enumerate(rows)
        ]
        watermark = self.now + 2 if self.settings.has_watermarks else 0
        read = {AT: (ReadRange(self.offset, self.offset + 1, watermark, watermark),)}
        self.offset += 1
        planned = plan(self.state, Manifest(0, tuple(files), read, {}, tuple(ddls), schemas), self.settings)
        self.state = planned.state
        return planned


def test_the_log_has_the_statements_of_a_week_and_at_least_a_thousand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "LOG_LEAST", 20)
    years, name = Years(), table(0).name
    for _ in range(200):
        years.hour((name, "TRUNCATE TABLE t000"))
    log, floor = years.state.log, years.state.log_floor
    oldest = START + HOUR

    assert len(log) == 7 * 24
    assert floor == log[0].ts - HOUR
    years.now = oldest - HOUR
    assert not years.hour((name, "TRUNCATE TABLE t000")).state.queue
    years.now = log[0].ts - HOUR
    assert not years.hour((name, "TRUNCATE TABLE t000")).state.queue
    with pytest.raises(SyncStopped, match="was never seen"):
        years.hour(
            (name, "ALTER TABLE t000 ADD COLUMN x INT"), (TableName("shop", "new"), "CREATE TABLE `new` (id INT)")
        )


def test_a_thousand_statements_are_remembered_however_old_they_are() -> None:
    years = Years()
    for _ in range(5):
        years.hour(*((table(number).name, f"TRUNCATE TABLE t{number:03}") for number in range(250)))
    years.now += 30 * 24 * HOUR
    years.hour()

    assert len(years.state.log) == 1000
    assert years.state.log_floor == START + HOUR


def test_names_that_are_gone_are_forgotten_with_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "LOG_LEAST", 20)
    years = Years()
    for number in range(100):
        name = TableName("shop", f"tmp{number}")
        years.hour((name, f"CREATE TABLE tmp{number} (id INT PRIMARY KEY)"))
        years.hour((name, f"DROP TABLE tmp{number}"))
    years.hour((table(0).name, "CREATE TABLE t000 (id INT PRIMARY KEY)"))
    for _ in range(200):
        years.hour((TableName("shop", "x"), "TRUNCATE TABLE x"))

    assert {*years.state.last_ddl_ts} == {table(0).name, TableName("shop", "x")}
    assert len(years.state.log) == 7 * 24


def test_of_a_table_the_schemas_stay_that_rows_may_still_refer_to() -> None:
    years = Years()
    for number in range(20):
        schemas = (table(0, 2 + number, years.now + HOUR), table(1, 2 + number, years.now + HOUR))
        years.hour(schemas=schemas, rows=schemas)
    quiet = (table(2, version=START),)
    years.hour(schemas=quiet)
    years.hour()

    known = [(schema.name.table, schema.version) for schema in years.state.schemas]
    assert [version for name, version in known if name == "t002"] == [START]
    assert len(known) <= 2 * 4 + 1
    assert ("t000", START + 20 * HOUR) in known
    assert ("t001", START + 20 * HOUR) in known


def test_a_held_table_keeps_the_schemas_from_its_hold_on() -> None:
    years = Years()
    first = table(0, 2, START)
    years.hour(schemas=(first,), rows=(first,))
    bad = Rejected(Position("feed", 0, 99), "bad", 0, first.name, years.now + 10)
    years.state = plan(years.state, Manifest(0, rejected=(bad,)), years.settings).state
    for number in range(20):
        years.hour(schemas=(table(0, 3 + number, years.now + HOUR),))

    assert len(years.state.schemas) == 21


def test_schemas_of_a_table_without_rows_stay() -> None:
    years = Years()
    one = table(0, 2, START + HOUR)
    years.hour((one.name, "TRUNCATE TABLE t000"), schemas=(one,))
    years.hour((one.name, "RENAME TABLE t000 TO t001"), schemas=(replace(one, name=table(1).name),))
    years.hour()

    assert years.state.schemas == (replace(one, name=table(1).name),)


def test_schemas_of_a_table_that_is_gone_go_with_it() -> None:
    years = Years()
    one = table(0, 2, START)
    years.hour((one.name, "CREATE TABLE t000 (id BIGINT PRIMARY KEY, c1 LONGTEXT)"), schemas=(one,))
    assert [*years.state.schemas] == [one]

    years.hour((one.name, "DROP TABLE t000"))

    assert not years.state.schemas


def test_without_statements_the_newest_shapes_of_a_table_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replays, "SHAPES", 10)
    years = Years(has_watermarks=False, ddl=False)
    for number in range(15):
        years.hour(rows=(table(0, 2 + number), table(1)))

    shapes = [schema for schema in years.state.schemas if schema.name == table(0).name]
    assert [len(shape.columns) for shape in shapes] == [*range(7, 17)]
    assert table(1) in years.state.schemas


def test_in_offset_order_no_statement_is_remembered() -> None:
    years = Years(has_watermarks=False)
    for _ in range(5):
        years.hour((table(0).name, "TRUNCATE TABLE t000"))

    assert years.state.log == ()
