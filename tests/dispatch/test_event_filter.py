"""Event filters: by type, by statement, by values and by columns."""

from __future__ import annotations

import pytest

from tidewire.dispatch import EventFilter, EventFilterRule
from tidewire.dispatch.statements import REPLICATED, named_events
from tidewire.errors import ChangefeedError
from tidewire.model import Column, Ddl, DdlKind, DdlType, Index, Op, Row, RowChange, TableName, TableSchema

T1 = TableName("test", "t1")
TABLE = TableSchema.build(
    T1,
    [
        Column.of("id", "bigint", primary_key=True),
        Column.of("age", "int"),
        Column.of("name", "varchar(9)"),
        Column.of("seen", "int"),
    ],
    [Index("name", ("name",))],
)
ROW: Row = {"id": 1, "age": 20, "name": "ann", "seen": 0}

DDL_NAMES = {
    "create schema": {1},
    "create database": {1},
    "drop schema": {2},
    "drop database": {2},
    "create table": {3, 60},
    "drop table": {4},
    "truncate table": {11},
    "rename table": {14, 47},
    "create index": {7},
    "drop index": {8},
    "create view": {21},
    "drop view": {24},
    "recover table": {25},
    "rebase auto id": {13},
    "modify table comment": {17},
    "modify table charset and collate": {22},
    "modify schema charset and collate": {26},
    "add table partition": {19},
    "drop table partition": {20},
    "truncate table partition": {23},
    "exchange table partition": {42},
    "reorganize table partition": {64},
    "alter table partitioning": {71},
    "remove table partitioning": {72},
    "add column": {5, 37},
    "drop column": {6, 38},
    "modify column": {12},
    "set default value": {15},
    "add primary key": {32},
    "drop primary key": {33},
    "rename index": {18},
    "alter index visibility": {41},
    "alter ttl info": {65},
    "alter ttl remove": {67},
    "multi schema change": {61},
    "add foreign key": {9},
    "drop foreign key": {10},
}
NOT_ALTER = {1, 2, 3, 4, 11, 21, 24, 25, 26, 60}


def ddl(type_: int, query: str = "", name: TableName = T1, old_name: TableName | None = None) -> Ddl:
    return Ddl(name, 9, query, type_, old_name=old_name)


def ignoring(**rule: object) -> EventFilter:
    return EventFilter([EventFilterRule(("test.t1",), **rule)])  # type: ignore[arg-type]


def inserted(**values: object) -> RowChange:
    return RowChange(TABLE, 9, after={**ROW, **values})  # type: ignore[dict-item]


def deleted(**values: object) -> RowChange:
    return RowChange(TABLE, 9, before={**ROW, **values})  # type: ignore[dict-item]


def updated(**values: object) -> RowChange:
    return RowChange(TABLE, 9, before=ROW, after={**ROW, **values})  # type: ignore[dict-item]


@pytest.mark.parametrize("name", DDL_NAMES)
def test_a_name_means_its_statements(name: str) -> None:
    rules = ignoring(ignore_event=(name.title(),))

    assert {int(type_) for type_ in DdlType if rules.ignores_ddl(ddl(type_))} == DDL_NAMES[name]
    assert not rules.ignores_type(inserted())


def test_every_replicated_statement_has_a_name_and_no_other() -> None:
    named = set().union(*DDL_NAMES.values())

    assert {int(type_) for type_ in REPLICATED} == named
    assert named_events(["all ddl"])[1] == REPLICATED
    assert {int(type_) for type_ in named_events(["alter table"])[1]} == named - NOT_ALTER


@pytest.mark.parametrize(
    ("names", "ops"),
    [
        (("all dml",), {"insert", "update", "delete"}),
        (("insert",), {"insert"}),
        (("update", "delete"), {"update", "delete"}),
        (("all ddl",), set()),
        ((), set()),
    ],
)
def test_names_of_row_changes(names: tuple[str, ...], ops: set[str]) -> None:
    rules = ignoring(ignore_event=names)

    assert {change.op for change in (inserted(), updated(age=2), deleted()) if rules.ignores_type(change)} == ops


@pytest.mark.parametrize("name", ["", "inserts", "drop everything", "alter"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(ChangefeedError, match="is not an event type") as caught:
        ignoring(ignore_event=("insert", name))
    assert caught.value.code == "CDC:ErrInvalidIgnoreEventType"


@pytest.mark.parametrize(
    ("pattern", "query", "ignored"),
    [
        ("^drop", "DROP TABLE t1", True),
        ("^drop", "ALTER TABLE t1 DROP COLUMN a", False),
        ("add column", "alter table t1 ADD  column a int", False),
        (r"add\s+column", "alter table t1 ADD  column a int", True),
        ("(?-i)DROP", "drop table t1", False),
        (r"int\z", "ADD c INT", True),
    ],
)
def test_statements_are_ignored_by_their_text(pattern: str, query: str, ignored: bool) -> None:
    assert ignoring(ignore_sql=("never", pattern)).ignores_ddl(ddl(DdlType.DROP_TABLE, query)) is ignored


def test_a_bad_pattern_of_statements_is_refused() -> None:
    with pytest.raises(ChangefeedError, match=r"ignore-sql: '\(' is not") as caught:
        ignoring(ignore_sql=("(",))
    assert caught.value.code == "CDC:ErrFilterRuleInvalid"


def test_a_statement_about_a_schema_is_under_the_rules_of_its_tables() -> None:
    rules = ignoring(ignore_sql=("^drop",))

    assert rules.ignores_ddl(ddl(DdlType.DROP_SCHEMA, "DROP DATABASE test", TableName("test", "")))
    assert not rules.ignores_ddl(ddl(DdlType.DROP_SCHEMA, "DROP DATABASE other", TableName("other", "")))


@pytest.mark.parametrize("told", [True, False])
def test_a_rename_goes_by_the_old_name(told: bool) -> None:
    rules, old, new = ignoring(ignore_event=("rename table",)), T1, TableName("test", "t9")
    query = "RENAME TABLE `test`.`t1` TO `test`.`t9`"
    back = "RENAME TABLE `test`.`t9` TO `test`.`t1`"

    assert rules.ignores_ddl(ddl(DdlType.RENAME_TABLE, query, new, old if told else None))
    assert not rules.ignores_ddl(ddl(DdlType.RENAME_TABLE, back, old, new if told else None))


def test_all_matching_rules_are_asked() -> None:
    rules = EventFilter(
        [
            EventFilterRule(("test.*",), ignore_event=("insert",)),
            EventFilterRule(("*.t1",), ignore_event=("delete",)),
            EventFilterRule(("other.*",), ignore_event=("update",)),
        ]
    )

    assert [rules.ignores_type(change) for change in (inserted(), deleted(), updated(age=1))] == [True, True, False]


@pytest.mark.parametrize(
    ("rule", "change", "ignored"),
    [
        ({"ignore_insert_value_expr": "age > 10"}, inserted(age=11), True),
        ({"ignore_insert_value_expr": "age > 10"}, inserted(age=10), False),
        ({"ignore_insert_value_expr": "age > 10"}, inserted(age=None), False),
        ({"ignore_insert_value_expr": "age > 10"}, deleted(age=11), False),
        ({"ignore_insert_value_expr": "age > 10"}, updated(age=11), False),
        ({"ignore_delete_value_expr": "name = 'ann'"}, deleted(), True),
        ({"ignore_delete_value_expr": "name = 'bob'"}, deleted(), False),
        ({"ignore_update_old_value_expr": "age = 20"}, updated(age=30), True),
        ({"ignore_update_old_value_expr": "age = 30"}, updated(age=30), False),
        ({"ignore_update_new_value_expr": "age = 30"}, updated(age=30), True),
        ({"ignore_update_new_value_expr": "age = 20"}, updated(age=30), False),
        (
            {"ignore_update_old_value_expr": "age = 99", "ignore_update_new_value_expr": "age = 30"},
            updated(age=30),
            True,
        ),
    ],
)
def test_row_changes_are_ignored_by_their_values(rule: dict[str, str], change: RowChange, ignored: bool) -> None:
    assert ignoring(**rule).ignores_values(change) is ignored


def test_matchers_of_values_are_case_sensitive_whatever_is_set() -> None:
    rule = EventFilterRule(("TEST.t1",), ignore_event=("insert",), ignore_insert_value_expr="id = 1")

    assert EventFilter([rule]).ignores_type(inserted())
    assert not EventFilter([rule], case_sensitive=True).ignores_type(inserted())
    assert not EventFilter([rule]).ignores_values(inserted())


def test_an_unknown_column_is_found_when_the_rules_are_verified_and_at_the_row() -> None:
    rules = ignoring(ignore_insert_value_expr="height > 2")

    with pytest.raises(ChangefeedError, match="height") as caught:
        rules.verify([TABLE])
    assert caught.value.code == "CDC:ErrExpressionColumnNotFound"
    with pytest.raises(ChangefeedError, match="height"):
        rules.ignores_values(inserted())
    rules.verify([TableSchema(TableName("other", "t"))])


def test_a_bad_expression_is_refused_at_once() -> None:
    with pytest.raises(ChangefeedError) as caught:
        ignoring(ignore_delete_value_expr="id >")
    assert caught.value.code == "CDC:ErrInvalidFilterExpression"


@pytest.mark.parametrize(
    ("change", "ignored"),
    [
        (updated(age=21), True),
        (updated(age=21, seen=5), True),
        (updated(age=21, name="bob"), False),
        (updated(name="bob"), False),
        (updated(id=2), False),
        (updated(), False),
        (inserted(), False),
        (deleted(), False),
    ],
)
def test_updates_of_unimportant_columns_only(change: RowChange, ignored: bool) -> None:
    rules = ignoring(ignore_update_only_columns=("AGE", "seen", "id", "name"))
    listed = ignoring(ignore_update_only_columns=("seen",))

    assert rules.ignores_type(change) is ignored
    assert not listed.ignores_type(updated(age=21, seen=1))


@pytest.mark.parametrize(
    ("kind", "query", "name"),
    [
        (DdlKind.CREATE, "create table t1 (a int)", "create table"),
        (DdlKind.ERASE, "drop table t1", "drop table"),
        (DdlKind.CINDEX, "create index i on t1 (a)", "create index"),
        (DdlKind.DINDEX, "drop index i on t1", "drop index"),
        (DdlKind.ALTER, "alter table t1 add a int", "alter table"),
        (DdlKind.QUERY, "create  database test", "create database"),
        (DdlKind.QUERY, "DROP SCHEMA test", "drop schema"),
        (DdlKind.QUERY, "create view v as select 1", "create view"),
    ],
)
def test_a_coarse_word_stands_for_a_type(kind: DdlKind, query: str, name: str) -> None:
    assert ignoring(ignore_event=(name,)).ignores_ddl(Ddl(T1, 9, query, kind=kind))
    assert not ignoring(ignore_event=("truncate table",)).ignores_ddl(Ddl(T1, 9, query, kind=kind))


def test_ops_are_those_of_the_model() -> None:
    assert named_events(["all dml"]) == (frozenset(Op), frozenset())
