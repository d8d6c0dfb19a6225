"""Whole topics as the servers wrote them: every event is where our rules send it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest

import topic_files
from tidewire.dispatch import Address, Broadcast, Dispatch, DispatchRule
from tidewire.model import Bootstrap, Ddl, Event, RowChange, TableName, Watermark

TOPICS = ("seed11", "seed11-classic", "seed23", "seed23-classic")
FEED = "feed"
FILES = [
    (topic, name)
    for topic in TOPICS
    for name in sorted(path.name.removesuffix(".jsonl.xz") for path in (topic_files.TOPICS / topic).glob("*.jsonl.xz"))
    if not name.endswith(".faults")
]
KINDS: dict[str, set[type]] = {"avro": set(), "simple": {Ddl, Watermark, Bootstrap}}
"""What a file holds besides rows, where it is more or less than DDL and watermarks."""


def protocol_of(name: str) -> str:
    return topic_files.PROTOCOLS.get(name, name)


def dispatch(topic: str, name: str) -> Dispatch:
    entries = topic_files.expected(topic)["dispatch"]
    expression = "{schema}_{table}" if protocol_of(name) == "avro" else ""
    rules = [DispatchRule(tuple(entry["matcher"]), expression, entry["partition"]) for entry in entries]
    return Dispatch(FEED, rules, protocol=protocol_of(name))


def recorded(topic: str, name: str) -> Iterator[tuple[Address, Event]]:
    for (where, partition), events in topic_files.events(topic, name):
        yield from ((Address(where or FEED, partition), event) for event in events)


@cache
def handle_keys(topic: str) -> dict[TableName, tuple[str, ...]]:
    """The handle keys, which Open Protocol tells and Canal-JSON and Avro do not always."""
    rows = (event for _, event in recorded(topic, "open-protocol") if isinstance(event, RowChange))
    return {row.table.name: row.table.handle_key for row in rows}


def keyed(topic: str, row: RowChange) -> RowChange:
    key = handle_keys(topic)[row.table.name]
    columns = tuple(replace(column, handle_key=column.name in key) for column in row.table.columns)
    return replace(row, table=replace(row.table, columns=columns))


@pytest.mark.parametrize(("topic", "name"), FILES)
def test_every_row_is_where_the_rules_send_it(topic: str, name: str) -> None:
    rules, count = dispatch(topic, name), topic_files.expected(topic)["partitions"]
    rows = [(at, keyed(topic, event)) for at, event in recorded(topic, name) if isinstance(event, RowChange)]

    assert len(rows) > 1000
    for at, row in rows:
        assert at == (rules.topic_of(row.table.name), rules.partition(row, count)), row


@pytest.mark.parametrize(("topic", "name"), FILES)
def test_everything_else_reaches_whom_it_concerns(topic: str, name: str) -> None:
    count = topic_files.expected(topic)["partitions"]
    broadcast = Broadcast(dispatch(topic, name), protocol_of(name), topic_files.options(topic, name))
    others = [(at, event) for at, event in recorded(topic, name) if not isinstance(event, RowChange)]
    heard: dict[str, tuple[Event, set[Address]]] = {}
    for at, event in others:
        heard.setdefault(repr(event), (event, set()))[1].add(at)

    for told, addresses in heard.values():
        assert addresses == set(expected(told, broadcast, count)), told
    assert {type(told) for told, _ in heard.values()} == KINDS.get(protocol_of(name), {Ddl, Watermark})


def expected(event: Event, broadcast: Broadcast, count: int) -> tuple[Address, ...]:
    match event:
        case Ddl():
            return broadcast.ddl(event, lambda _: count)
        case Watermark():
            return broadcast.watermark([TableName("test", "accounts")], lambda _: count)
        case Bootstrap():
            return broadcast.bootstrap(event.table_schema.name, lambda _: count)
    raise AssertionError(event)
