"""The whole filter: the order of its steps, and what becomes of statements."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidewire.dispatch import (
    ColumnSelector,
    ColumnSelectors,
    Dispatch,
    DispatchRule,
    EventFilter,
    EventFilterRule,
    Filter,
    TableRules,
    Verdict,
)
from tidewire.errors import ChangefeedError
from tidewire.model import Column, Ddl, DdlType, Index, Op, Row, RowChange, TableName, TableSchema

T1, T2, OTHER = TableName("test", "t1"), TableName("test", "t2"), TableName("other", "t")
COLUMNS = [Column.of("id", "bigint", primary_key=True), Column.of("v", "bigint")]
TABLE = TableSchema.build(T1, COLUMNS)
KEYLESS = TableSchema.build(T1, [Column.of("id", "bigint")])
ROW: Row = {"id": 1, "v": 10}
INSERT = RowChange(TABLE, 9, after=ROW, start_ts=8)
DELETE = RowChange(TABLE, 9, before=ROW, start_ts=8)
UPDATE = RowChange(TABLE, 9, before=ROW, after={"id": 1, "v": 11}, start_ts=8)
MOVE = RowChange(TABLE, 9, before=ROW, after={"id": 2, "v": 11}, start_ts=8)


def events(**rule: object) -> EventFilter:
    return EventFilter([EventFilterRule(("*.*",), **rule)])  # type: ignore[arg-type]


def sent(filter_: Filter, change: RowChange) -> list[Op]:
    return [row.op for row in filter_.row(change)]


def test_everything_passes_an_empty_filter_and_keys_are_split() -> None:
    assert Filter().row(INSERT) == (INSERT,)
    assert Filter().row(UPDATE) == (UPDATE,)
    assert Filter().row(MOVE) == (replace(MOVE, after=None), replace(MOVE, before=None))
    assert Filter(raw_updates=True).row(MOVE) == (MOVE,)


@pytest.mark.parametrize(
    ("filter_", "passes"),
    [
        (Filter(ignored_start_ts=frozenset({8})), False),
        (Filter(ignored_start_ts=frozenset({9})), True),
        (Filter(TableRules.parse(["test.*"])), True),
        (Filter(TableRules.parse(["other.*"])), False),
        (Filter(events=events(ignore_event=("insert",))), False),
        (Filter(events=events(ignore_event=("all dml",))), False),
        (Filter(events=events(ignore_event=("delete",))), True),
        (Filter(events=events(ignore_insert_value_expr="v > 5")), False),
        (Filter(events=events(ignore_insert_value_expr="v > 15")), True),
    ],
)
def test_a_change_has_to_pass_every_step(filter_: Filter, passes: bool) -> None:
    assert filter_.row(INSERT) == ((INSERT,) if passes else ())


def test_later_steps_are_not_asked_about_what_earlier_ones_drop() -> None:
    broken = events(ignore_event=("insert",), ignore_insert_value_expr="missing = 1")

    assert Filter(events=broken).row(INSERT) == ()
    with pytest.raises(ChangefeedError, match="missing"):
        Filter(events=events(ignore_insert_value_expr="missing = 1")).row(INSERT)


@pytest.mark.parametrize(
    ("rule", "new", "classic", "raw"),
    [
        ({}, ["delete", "insert"], ["delete", "insert"], ["update"]),
        ({"ignore_event": ("update",)}, [], [], []),
        ({"ignore_event": ("delete",)}, ["insert"], ["delete", "insert"], ["update"]),
        ({"ignore_event": ("insert",)}, ["delete"], ["delete", "insert"], ["update"]),
        ({"ignore_delete_value_expr": "v = 10"}, ["insert"], ["delete", "insert"], ["update"]),
        ({"ignore_insert_value_expr": "v = 11"}, ["delete"], ["delete", "insert"], ["update"]),
        ({"ignore_update_new_value_expr": "v = 11"}, ["delete", "insert"], [], []),
        ({"ignore_update_old_value_expr": "v = 10"}, ["delete", "insert"], [], []),
    ],
)
def test_halves_are_filtered_again_except_by_the_classic_server(
    rule: dict[str, object], new: list[str], classic: list[str], raw: list[str]
) -> None:
    assert sent(Filter(events=events(**rule)), MOVE) == new
    assert sent(Filter(events=events(**rule), classic=True), MOVE) == classic
    assert sent(Filter(events=events(**rule), raw_updates=True), MOVE) == raw


def test_an_update_that_keeps_its_key_is_filtered_as_an_update() -> None:
    assert sent(Filter(events=events(ignore_update_new_value_expr="v = 11")), UPDATE) == []
    assert sent(Filter(events=events(ignore_event=("delete", "insert"))), UPDATE) == ["update"]


def test_rows_that_cannot_be_told_apart_are_skipped_unless_forced() -> None:
    change = RowChange(KEYLESS, 9, after={"id": 1})

    assert Filter().row(change) == ()
    assert Filter(force_replicate=True).row(change) == (change,)


def test_selected_columns_are_sent_but_partitions_are_of_whole_rows() -> None:
    filter_ = Filter(selectors=ColumnSelectors([ColumnSelector(("*.*",), ("id",))]))

    assert [row.after for row in filter_.row(INSERT)] == [{"id": 1}]
    assert filter_.passed(INSERT) == (INSERT,)
    assert filter_.select(INSERT) == filter_.row(INSERT)[0]


def test_expressions_see_columns_that_are_not_selected() -> None:
    selectors = ColumnSelectors([ColumnSelector(("*.*",), ("id",))])

    assert Filter(events=events(ignore_insert_value_expr="v = 10"), selectors=selectors).row(INSERT) == ()


def ddl(type_: int, name: TableName = T1, query: str = "", **facts: object) -> Ddl:
    return Ddl(name, 9, query, type_, start_ts=8, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("filter_", "statement", "verdict"),
    [
        (Filter(), ddl(DdlType.ADD_COLUMN), Verdict.SEND),
        (Filter(), ddl(DdlType.CREATE_SCHEMA, TableName("test", "")), Verdict.SEND),
        (Filter(), ddl(DdlType.SET_TIFLASH_REPLICA), Verdict.DISCARD),
        (Filter(), ddl(DdlType.CREATE_SEQUENCE), Verdict.DISCARD),
        (Filter(), ddl(999), Verdict.DISCARD),
        (Filter(), ddl(DdlType.CREATE_TABLE, TableName("mysql", "t")), Verdict.DISCARD),
        (Filter(), ddl(DdlType.DROP_SCHEMA, TableName("mysql", "")), Verdict.DISCARD),
        (Filter(TableRules.parse(["other.*"])), ddl(DdlType.ADD_COLUMN), Verdict.DISCARD),
        (Filter(TableRules.parse(["test.t1"])), ddl(DdlType.CREATE_SCHEMA, TableName("test", "")), Verdict.SEND),
        (Filter(TableRules.parse(["test.t1"])), ddl(DdlType.CREATE_SCHEMA, TableName("x", "")), Verdict.DISCARD),
        (Filter(events=events(ignore_event=("add column",))), ddl(DdlType.ADD_COLUMN), Verdict.IGNORE),
        (Filter(events=events(ignore_sql=("^alter",))), ddl(DdlType.ADD_COLUMN, query="ALTER T"), Verdict.IGNORE),
        (Filter(ignored_start_ts=frozenset({8})), ddl(DdlType.ADD_COLUMN), Verdict.IGNORE),
        (Filter(), ddl(DdlType.ADD_COLUMN, table_schema=KEYLESS), Verdict.IGNORE),
        (Filter(), ddl(DdlType.ADD_INDEX, table_schema=KEYLESS), Verdict.SEND),
        (Filter(force_replicate=True), ddl(DdlType.ADD_COLUMN, table_schema=KEYLESS), Verdict.SEND),
    ],
)
def test_a_statement_is_sent_ignored_or_discarded(filter_: Filter, statement: Ddl, verdict: Verdict) -> None:
    assert filter_.ddl(statement) is verdict


@pytest.mark.parametrize(
    ("rules", "old", "new", "verdict"),
    [
        (["*.*"], T1, T2, Verdict.SEND),
        (["test.t1"], T1, T2, Verdict.SEND),
        (["other.*"], T1, T2, Verdict.DISCARD),
        (["test.*"], T1, OTHER, Verdict.SEND),
    ],
)
@pytest.mark.parametrize("told", [True, False])
def test_a_rename_goes_by_the_old_name(
    rules: list[str], old: TableName, new: TableName, verdict: Verdict, told: bool
) -> None:
    query = f"RENAME TABLE {old} TO {new}"
    statement = ddl(DdlType.RENAME_TABLE, new, query, old_name=old if told else None)

    assert Filter(TableRules.parse(rules)).ddl(statement) is verdict


def test_a_rename_into_the_rules_stops_the_changefeed() -> None:
    rules = TableRules.parse(["test.t2"])
    statement = ddl(DdlType.RENAME_TABLE, T2, "RENAME TABLE test.t1 TO test.t2")

    with pytest.raises(ChangefeedError, match=r"test\.t1 is renamed to test\.t2") as caught:
        Filter(rules).ddl(statement)
    assert caught.value.code == "CDC:ErrSyncRenameTableFailed"
    assert Filter(rules, ignored_start_ts=frozenset({8})).ddl(statement) is Verdict.IGNORE


def test_schemas_of_statements_have_the_selected_columns() -> None:
    filter_ = Filter(selectors=ColumnSelectors([ColumnSelector(("*.*",), ("id",))]))
    statement = filter_.schema(ddl(DdlType.ADD_COLUMN, table_schema=TABLE))

    assert statement.table_schema is not None
    assert [column.name for column in statement.table_schema.columns] == ["id"]
    assert statement.pre_table_schema is None


def test_tables_are_verified_before_anything_is_sent() -> None:
    foreign = TableSchema.build(OTHER, [Column.of("x", "bigint")])
    filter_ = Filter(TableRules.parse(["test.*"]))

    filter_.verify([TABLE, foreign])
    with pytest.raises(ChangefeedError, match=r"test\.t1") as caught:
        filter_.verify([KEYLESS])
    assert caught.value.code == "CDC:ErrTableIneligible"
    filter_.verify([KEYLESS], ignore_ineligible=True)
    Filter(force_replicate=True).verify([KEYLESS, foreign])


@pytest.mark.parametrize(
    ("filter_", "code"),
    [
        (Filter(), "CDC:ErrDispatcherFailed"),
        (Filter(events=events(ignore_insert_value_expr="missing = 1")), "CDC:ErrExpressionColumnNotFound"),
    ],
)
def test_every_part_is_verified(filter_: Filter, code: str) -> None:
    dispatch = Dispatch("feed", [DispatchRule(("*.*",), partition="columns", columns=("gone",))])

    with pytest.raises(ChangefeedError) as caught:
        filter_.verify([TABLE], dispatch)
    assert caught.value.code == code


def test_selectors_are_verified_with_the_dispatchers() -> None:
    table = TableSchema.build(T1, COLUMNS, [Index("v", ("v",))])
    dispatch = Dispatch("feed", [DispatchRule(("*.*",), partition="columns", columns=("v",))])
    filter_ = Filter(selectors=ColumnSelectors([ColumnSelector(("*.*",), ("id",))]))

    filter_.verify([table])
    with pytest.raises(ChangefeedError, match="needs v") as caught:
        filter_.verify([table], dispatch)
    assert caught.value.code == "CDC:ErrColumnSelectorFailed"
