"""What happens upstream: seeded, in order, of every kind, and with a state that can be computed in two ways."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from tidewire.ddl.parse import edits
from tidewire.errors import OptionError
from tidewire.model import Ddl, MySQLType, Op, RowChange, TableName, TableSchema, Value
from tidewire.plain import event_from_plain, event_to_plain
from tidewire.sync.catalogue import Catalogue
from tidewire.sync.catalogue import Statement as Read
from tidewire.workload import (
    ActionRates,
    Entry,
    Habits,
    Kind,
    ResolvedTs,
    Statement,
    Transaction,
    Workload,
    events,
    states,
)

BUSY = Habits(statements=0.2, ties=0.2, pairs=0.3)


def busy(seed: int, rates: ActionRates = ActionRates(), *, raw: bool = False) -> list[Entry]:
    return list(Workload(seed, transactions=150, tables=7, habits=replace(BUSY, rates=rates, raw=raw)))


def changes(entries: list[Entry]) -> list[RowChange]:
    return [event for event in events(entries) if isinstance(event, RowChange)]


def test_a_seed_makes_the_same_workload_again_and_another_seed_another() -> None:
    plain = [[event_to_plain(event) for event in events(Workload(seed, transactions=40))] for seed in (4, 4, 5)]

    assert plain[0] == plain[1]
    assert plain[0] != plain[2]


@pytest.mark.parametrize("seed", range(3))
def test_entries_are_in_commit_order_and_rows_of_a_statements_moment_come_before_it(seed: int) -> None:
    for before, after in pairwise(busy(seed)):
        assert before.ts <= after.ts
        if isinstance(before, Statement | ResolvedTs):
            assert before.ts < after.ts or isinstance(after, ResolvedTs)


def test_ties_happen() -> None:
    shared = [(one, other) for one, other in pairwise(busy(1)) if one.ts == other.ts]

    assert any(isinstance(other, Transaction) for _, other in shared)
    assert any(isinstance(other, Statement) for _, other in shared)


@pytest.mark.parametrize("raw", [False, True])
def test_no_row_is_changed_twice_in_one_moment(raw: bool) -> None:
    """Were it otherwise, no consumer could tell which change is the last."""
    seen: Counter[tuple[int | None, TableName, str, tuple[Value, ...]]] = Counter()
    for change in changes(busy(2, raw=raw, rates=ActionRates(move=10, swap=10, rewrite=10))):
        for side, row in (("before", change.before), ("after", change.after)):
            if row is not None:
                key = tuple(row[name] for name in change.table.handle_key)
                seen[change.commit_ts, change.table.name, side, key] += 1

    assert set(seen.values()) == {1}


def test_proportions_are_as_asked_for() -> None:
    workload = Workload(1, rows=6000, habits=Habits(ActionRates(move=0, swap=0, rewrite=0), statements=0))

    done = Counter(change.op for change in changes(list(workload)))

    whole = sum(done.values())
    assert done[Op.INSERT] / whole == pytest.approx(0.6, abs=0.03)
    assert done[Op.UPDATE] / whole == pytest.approx(0.3, abs=0.03)
    assert done[Op.DELETE] / whole == pytest.approx(0.1, abs=0.03)


def test_a_changed_key_is_a_delete_and_an_insert_unless_changes_are_raw() -> None:
    def moved(raw: bool) -> int:
        entries = busy(3, raw=raw, rates=ActionRates(move=20, swap=20))
        pairs = ((change.before, change.after, change.table.handle_key) for change in changes(entries))
        return sum(
            before is not None and after is not None and any(before[name] != after[name] for name in key)
            for before, after, key in pairs
        )

    assert moved(raw=False) == 0
    assert moved(raw=True) > 10


def test_every_kind_of_statement_comes_up() -> None:
    queries = " ".join(event.query for seed in range(3) for event in events(busy(seed)) if isinstance(event, Ddl))

    for words in (
        "CREATE TABLE",
        "ADD COLUMN",
        "FIRST",
        "AFTER",
        "DROP COLUMN",
        "RENAME COLUMN",
        "MODIFY COLUMN",
        "ADD INDEX",
        "TRUNCATE TABLE",
        "RENAME TABLE",
        "DROP TABLE",
    ):
        assert words in queries


def test_kinds_can_be_chosen() -> None:
    workload = Workload(1, transactions=60, habits=Habits(statements=0.5, kinds={Kind.TRUNCATE: 1}))

    statements = [entry.ddl.query.split()[0] for entry in workload if isinstance(entry, Statement)]

    assert set(statements) == {"CREATE", "TRUNCATE"}


@pytest.mark.parametrize("seed", range(3))
def test_statements_say_what_they_do(seed: int) -> None:
    """The sync reads the texts alone, and comes to the tables that the workload has."""
    catalogue = Catalogue([], {})
    for entry in busy(seed):
        if not isinstance(entry, Statement):
            continue
        told = replace(entry.ddl, table_schema=None, pre_table_schema=None)
        catalogue.execute([Read(edits(told), entry.ts)])
        for name, table in entry.tables.items():
            found = catalogue.find(name)
            if table is None:
                assert found is None
            else:
                assert found is not None
                assert facts(found) == facts(table.schema)


def facts(schema: TableSchema) -> list[tuple[object, ...]]:
    sized = {MySQLType.DECIMAL, MySQLType.VARCHAR, MySQLType.BIT}
    return [
        (each.name, each.short_type, each.elements, each.nullable, each.handle_key, each.default)
        + ((each.length, each.decimal or 0) if each.type in sized else ())
        for each in schema.columns
    ]


@pytest.mark.parametrize("raw", [False, True])
def test_the_state_is_what_the_statements_and_rows_lead_to(raw: bool) -> None:
    """Each statement brings the tables as the generator has them; up to there, rows alone must lead to the same."""
    entries = busy(4, raw=raw, rates=ActionRates(move=5, swap=5, rewrite=5))
    altered = [entry for entry in entries if isinstance(entry, Statement) and "ADD INDEX" in entry.ddl.query]
    assert altered

    for statement in altered:
        (known,) = states(entries, [statement.ts])
        ((name, table),) = statement.tables.items()
        assert table is not None
        assert len(known["tables"][str(name)]["rows"]) == len(table.rows)
        assert known["tables"][str(name)]["columns"] == [column.name for column in table.schema.columns]


def test_states_are_given_for_moments_between_and_after_entries() -> None:
    entries = busy(5)
    last = entries[-1].ts

    before, end, later = states(entries, [entries[0].ts - 1, last, last + 1000])

    assert before["tables"] == {}
    assert end["tables"] == later["tables"] != {}


def test_an_added_column_is_filled_and_a_truncated_table_is_empty() -> None:
    entries = list(Workload(1, transactions=80, habits=Habits(statements=0.3)))
    for entry in entries:
        if not isinstance(entry, Statement):
            continue
        (after,) = states(entries, [entry.ts])
        name = str(entry.ddl.table)
        if "NOT NULL DEFAULT" in entry.ddl.query and "ADD COLUMN" in entry.ddl.query:
            place = next(at for at, column in enumerate(after["tables"][name]["columns"]) if column.startswith("added"))
            assert all(row[place] is not None for row in after["tables"][name]["rows"])
        if entry.ddl.query.startswith("TRUNCATE"):
            assert after["tables"][name]["rows"] == []


def test_events_survive_their_plain_form() -> None:
    for event in events(Workload(6, transactions=30, tables=7)):
        if isinstance(event, RowChange):
            again = event_from_plain(event_to_plain(event))
            assert isinstance(again, RowChange)
            assert (again.before, again.after) == (event.before, event.after)


@pytest.mark.parametrize(("tables", "rows"), [(0, 5), (4, None)])
def test_a_workload_that_cannot_be_is_refused(tables: int, rows: int | None) -> None:
    with pytest.raises(OptionError):
        Workload(1, tables=tables, rows=rows)
