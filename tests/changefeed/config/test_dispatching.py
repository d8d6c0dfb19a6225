from __future__ import annotations

from changefeed.config.config_requests import CSV, OPEN, check, table
from tidewire.changefeed.config.dispatching import dispatching
from tidewire.dispatch import Dispatcher, Rule, Verdict
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
