"""What can be told of a message that cannot be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import topic_files
from staging import reader as reader_of
from staging import recorded
from tidewire.codec import Options, Resources
from tidewire.model import Message, RowChange
from tidewire.spark.decoding import resources_of
from tidewire.spark.peek import MessageHeader, peek

PEEKED = [
    ("seed11", "canal-json"),
    ("seed11", "open-protocol"),
    ("seed11", "simple-json"),
    ("seed11", "simple-avro"),
    ("seed11-classic", "craft"),
]


@pytest.mark.parametrize(("topic", "name"), PEEKED)
def test_peeking_tells_table_and_time_of_every_row_message(topic: str, name: str) -> None:
    how, options = topic_files.PROTOCOLS.get(name, name), topic_files.options(topic, name)
    seen = 0
    for (_, message), (_, events) in zip(recorded(topic, name).items(), topic_files.events(topic, name), strict=True):
        changes = [event for event in events if isinstance(event, RowChange)]
        if changes and len(changes) == len(events):
            seen += 1
            tables = {change.table.name for change in changes}
            times = [change.commit_ts or 0 for change in changes]
            assert peek(how, message, options) == MessageHeader(tables.pop() if len(tables) == 1 else None, min(times))
    assert seen > 100


def test_peeking_at_avro_tells_the_table(tmp_path: Path) -> None:
    options = Options.parse(reader_of("seed11", "avro", tmp_path).options)
    resources = resources_of(options)
    for message, (_, events) in zip(
        recorded("seed11", "avro").values(), topic_files.events("seed11", "avro"), strict=True
    ):
        for event in events:  # none for a delete of a table without a key
            assert isinstance(event, RowChange)
            assert peek("avro", message, options, resources) == MessageHeader(event.table.name)


@pytest.mark.parametrize(("topic", "name"), [*PEEKED, ("seed11", "avro")])
def test_peeking_at_a_broken_message_never_fails_or_guesses(topic: str, name: str) -> None:
    how, options = topic_files.PROTOCOLS.get(name, name), topic_files.options(topic, name)
    resources = Resources(registry=topic_files.registry(topic))
    tables = {
        change.table.name
        for _, events in topic_files.events(topic, name)
        for change in events
        if isinstance(change, RowChange)
    }
    for message in list(recorded(topic, name).values())[100:400:50]:
        key, value = message.key or b"", message.value or b""
        broken = [
            *(Message(key[:cut], value) for cut in range(0, len(key), 7)),
            *(Message(key, value[:cut]) for cut in range(0, len(value), 7)),
        ]
        for half in broken:
            assert peek(how, half, options, resources).table in {None, *tables}


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null", json.dumps({"database": 1, "table": [], "_tidb": 3})])
def test_peeking_at_other_json_tells_nothing(text: str) -> None:
    for how in ("canal-json", "simple"):
        assert peek(how, Message(None, text.encode()), Options()) == MessageHeader()
