from __future__ import annotations

import pytest

from tidewire.changefeed.config.routing import Routing
from tidewire.changefeed.config.sections import DispatchRule
from tidewire.errors import ChangefeedError
from tidewire.model import TableName

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
