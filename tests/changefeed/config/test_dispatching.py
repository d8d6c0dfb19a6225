"""What a configuration says about tables: what is sent, where to, and under which names."""

from __future__ import annotations

import pytest

from changefeed.config.config_requests import CSV, OPEN, check, table
from tidewire.changefeed.config.dispatching import Routing, dispatching
from tidewire.changefeed.config.replica import DispatchRule
from tidewire.dispatch import Dispatcher, Rule, Verdict
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, DdlType, RowChange, TableName


def test_what_a_file_says_about_tables_is_parsed() -> None:
    file = """
    [filter]
    rules = ["shop.*"]
    ignore-txn-start-ts = [7]
    [[filter.event-filters]]
    matcher = ["shop.*"]
    ignore-event = ["drop table"]
    ignore-insert-value-expr = "id > 100"
    [sink]
    dispatchers = [{matcher = ["shop.orders"], topic = "t_{table}", dispatcher = "columns", columns = ["id"]}]
    column-selectors = [{matcher = ["shop.*"], columns = ["id"]}]
    """
    parsed = dispatching(check(OPEN, file).settings)
    orders = table("shop.orders")

    assert parsed.filter.takes(orders)
    assert not parsed.filter.takes(table("other.orders"))
    assert parsed.filter.row(RowChange(orders, 9, after={"id": 101, "email": "a"}, start_ts=8)) == ()
    assert parsed.filter.row(RowChange(orders, 9, after={"id": 1, "email": "a"}, start_ts=7)) == ()
    (sent,) = parsed.filter.row(RowChange(orders, 9, after={"id": 1, "email": "a"}, start_ts=8))
    assert sent.after == {"id": 1}
    assert parsed.filter.ddl(Ddl(orders.name, 9, "DROP TABLE orders", DdlType.DROP_TABLE)) is Verdict.IGNORE
    assert parsed.dispatch is not None
    assert parsed.dispatch.topic_of(orders.name) == "t_orders"
    assert parsed.dispatch.rule_of(orders.name) == Rule(Dispatcher.COLUMNS, columns=("id",))
    assert parsed.dispatch.topic_of(TableName("shop", "other")) == "topic-name"


def test_switches_reach_the_filter() -> None:
    file = "force-replicate = true\ncase-sensitive = true\nfilter.rules = ['Shop.*']\n"
    parsed = dispatching(check(OPEN, file + "[sink.kafka-config]\noutput-raw-change-event = true").settings)

    assert parsed.filter.takes(table("Shop.bare", key=False))
    assert not parsed.filter.takes(table("shop.bare", key=False))
    assert parsed.filter.raw_updates


def test_storage_has_no_topics_but_other_names() -> None:
    file = "[sink]\ndispatchers = [{matcher = ['*.*'], topic = 'x', target-schema = 'archive'}]"
    parsed = dispatching(check(CSV, file).settings)

    assert parsed.dispatch is None
    assert parsed.routing.target(TableName("shop", "orders")) == TableName("archive", "orders")


ORDERS = TableName("sales", "orders")


@pytest.mark.parametrize(
    ("schema", "table", "target"),
    [
        ("archive", "", "archive.orders"),
        ("", "{table}_bak", "sales.orders_bak"),
        ("{schema}_mirror", "", "sales_mirror.orders"),
        ("archive", "{schema}_{table}", "archive.sales_orders"),
        ("{table}", "{schema}", "orders.sales"),
    ],
)
def test_targets(schema: str, table: str, target: str) -> None:
    rules = [DispatchRule(("sales.*",), target_schema=schema, target_table=table)]

    assert str(Routing.parse(rules).target(ORDERS)) == target


def test_only_rules_with_a_target_count_and_of_those_the_first() -> None:
    rules = [
        DispatchRule(("*.*",), topic="all"),
        DispatchRule(("SALES.*",), target_schema="first"),
        DispatchRule(("*.*",), target_schema="second"),
    ]

    assert Routing.parse(rules).target(ORDERS).schema == "first"
    assert Routing.parse(rules, case_sensitive=True).target(ORDERS).schema == "second"
    assert Routing().target(ORDERS) == ORDERS


def test_a_name_of_a_table_is_not_looked_at_again() -> None:
    rules = [DispatchRule(("*.*",), target_table="{schema}_{table}")]

    assert Routing.parse(rules).target(TableName("{table}", "t")).table == "{table}_t"


def test_a_schema_is_routed_without_a_table() -> None:
    rules = [DispatchRule(("sales.*",), target_schema="archive", target_table="{table}_bak")]

    assert Routing.parse(rules).target(TableName("sales", "")) == TableName("archive", "")


@pytest.mark.parametrize("text", ["{db}", "{Schema}", "{", "a}b", "{schema}_{}"])
def test_other_braces_are_refused(text: str) -> None:
    with pytest.raises(ChangefeedError) as caught:
        Routing.parse([DispatchRule(("*.*",), target_table=text)])

    assert caught.value.code == "CDC:ErrInvalidTableRoutingRule"


def test_two_tables_cannot_have_one_name() -> None:
    routing = Routing.parse([DispatchRule(("a.*", "b.*"), target_schema="Both")])

    routing.verify([TableName("a", "t"), TableName("b", "u"), TableName("a", "t")])
    with pytest.raises(ChangefeedError, match=r"a\.t and b\.T would both become Both\.T") as caught:
        routing.verify([TableName("a", "t"), TableName("b", "T")])
    assert caught.value.code == "CDC:ErrTableRouteConflict"
