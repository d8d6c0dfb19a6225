"""The planner's work grows with what there is to do, counted in calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

from growing_topic import table
from tidewire.model import Ddl, DdlType, Position
from tidewire.sync.increments import increment
from tidewire.sync.manifest import FoundDdl, Manifest, Partition, ReadRange, StagedFile
from tidewire.sync.plan import Planned, plan
from tidewire.sync.state import State
from tidewire.sync.steps import Create, Merge

AT = Partition("feed", 0)


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
    return plan(State("s"), Manifest(0, files, {AT: ReadRange(0, count + 2, 10_000)}, {AT: count + 2}, statements))


def one_changed(state: State) -> Planned:
    """A plan that changes one table."""
    begin = state.frontier.partitions[AT].next
    file = StagedFile("one", table(0), AT, 1, 11_000, 11_000, begin, begin, False)
    return plan(state, Manifest(1, (file,), {AT: ReadRange(begin, begin + 2, 12_000)}, {AT: begin + 2}))


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
    assert increment(many, one_changed(many).state).told == 0
