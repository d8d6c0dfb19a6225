"""The plain form: what the command line reads and writes."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strategies import BOOTSTRAPS, DDLS, WATERMARKS, row_changes
from tidewire.model import Column, Event, Message, Position, RowChange
from tidewire.plain import (
    event_from_plain,
    event_to_plain,
    message_from_plain,
    message_to_plain,
    position_from_plain,
    value_from_plain,
)
from vector_files import VECTORS, files, vectors


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(row_changes(), DDLS, WATERMARKS, BOOTSTRAPS))
def test_an_event_survives_as_json(event: Event) -> None:
    again = event_from_plain(json.loads(json.dumps(event_to_plain(event))))

    if isinstance(event, RowChange):  # a row's line tells its columns, not the table's indexes
        event = replace(event, table=replace(event.table, indexes=()))
    assert again == event


@pytest.mark.parametrize("protocol", sorted(path.name for path in VECTORS.iterdir()))
def test_events_of_the_vectors_keep_every_member(protocol: str) -> None:
    for file in files(protocol):
        for vector in vectors(protocol, file):
            for plain in vector.plain:
                written = event_to_plain(event_from_plain(plain))
                assert told(plain).items() <= told(written).items(), vector.id


def told(plain: dict[str, Any]) -> dict[str, Any]:
    """Members that must come back to the letter; images are compared by the vector tests."""
    skipped = ("before", "after", "columns", "table_schema", "pre_table_schema", "handle_key", "checksum")
    return {name: value for name, value in plain.items() if value is not None and name not in skipped}


@pytest.mark.parametrize(
    ("plain", "complaint"),
    [
        ({}, "kind is one of row, ddl, watermark, bootstrap"),
        ({"kind": "watermark"}, "needs 'ts'"),
        ({"kind": "row", "schema": "s", "table": "t"}, "needs 'columns'"),
        ({"kind": "row", "schema": "s", "table": "t", "columns": 7}, "not in the expected form"),
        (
            {"kind": "row", "schema": "s", "table": "t", "columns": [], "after": {"a": "1"}},
            "values without a column: a",
        ),
    ],
)
def test_what_is_no_event_is_refused(plain: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        event_from_plain(plain)


@pytest.mark.parametrize(
    ("type_", "plain"),
    [
        ("int", "x"),
        ("int", 7),
        ("enum('a')", "a"),
        ("decimal(3,1)", "1,5"),
        ("blob", {"base64": "!"}),
        ("float", "1e99"),
    ],
)
def test_what_is_no_value_is_refused_with_its_column(type_: str, plain: Any) -> None:
    with pytest.raises(ValueError, match=r"column c \("):
        value_from_plain(plain, Column.of("c", type_))


def test_a_short_event_line_is_enough() -> None:
    line = {
        "kind": "row",
        "schema": "shop",
        "table": "orders",
        "commit_ts": 1,
        "handle_key": ["id"],
        "columns": [{"name": "id", "mysql_type": "int unsigned"}, {"name": "photo", "mysql_type": "blob"}],
        "after": {"id": "7", "photo": {"base64": "AA=="}},
    }

    event = event_from_plain(line)

    assert event_to_plain(event)["after"] == line["after"]
    assert event_to_plain(event)["columns"][0]["handle_key"] is True


def test_messages_and_positions() -> None:
    message = Message(None, b"", (("h", b"x"),))

    assert message_from_plain(message_to_plain(message)) == message
    assert message_from_plain({"value": "AA=="}) == Message(None, b"\0")
    assert position_from_plain({"topic": "t", "partition": 1, "offset": 2}) == Position("t", 1, 2)
    assert position_from_plain({"topic": "t"}) is None
    assert str(Position("t", 1, 2)) == "t[1]@2"
    for wrong in ({}, {"value": 7}, {"value": "?"}):
        with pytest.raises(ValueError, match=r"key|Base64"):
            message_from_plain(wrong)
