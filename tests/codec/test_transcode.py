"""A topic in one protocol becomes a topic in another: what the target can carry arrives, the rest is counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import topic_files
from carried import check_carried
from tidewire.cli.app import app
from tidewire.codec import Encoder, Options, Resources, protocol
from tidewire.codec.capabilities import THE_EVENT
from tidewire.codec.parking import Parking
from tidewire.codec.transcode import Adapter
from tidewire.errors import EncodeError
from tidewire.model import Bootstrap, Column, Event, Message, MySQLType, RowChange, TableName, TableSchema, Watermark
from tidewire.registry import MemoryRegistry

TARGETS: dict[str, tuple[str, dict[str, Any]]] = {
    "open-protocol": ("open-protocol", {}),
    "canal-json": ("canal-json", {"enable-tidb-extension": True}),
    "craft": ("craft", {}),
    "avro": ("avro", {"enable-tidb-extension": True, "avro-enable-watermark": True, "avro-include-before-value": True}),
    "simple-json": ("simple", {}),
    "simple-avro": ("simple", {"encoding-format": "avro"}),
}
SOURCES = [
    *(("seed11", name) for name in ("open-protocol", "canal-json", "avro", "simple-json", "simple-avro")),
    ("seed11-classic", "craft"),
    ("seed23-classic", "open-protocol.faults"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("topic", "source"), SOURCES)
def test_a_topic_arrives_in_every_protocol_that_can_carry_it(topic: str, source: str, target: str) -> None:
    name, settings = TARGETS[target]
    options = Options.parse(settings)
    codec = protocol(name)
    capabilities = codec.capabilities(options)
    adapter, resources = Adapter(capabilities), Resources(registry=MemoryRegistry())
    encoder = codec.Encoder(options, resources)
    parking: Parking[None] = Parking(codec.Decoder(options, resources))
    rows = 0
    for channel, events in topic_files.events(topic, source):
        ready = list(adapter.adapt(map(mended, events), channel))
        messages, written = encoded(encoder, ready)
        got = [event for message in messages for _, event in parking.decode(message, None)]
        assert len(got) == len(written)
        for original, event in zip(written, got, strict=True):
            check_carried(original, event, capabilities)
            rows += isinstance(event, RowChange)

    assert rows > 300
    assert not parking.parked


def encoded(encoder: Encoder, ready: list[Event]) -> tuple[list[Message], list[Event]]:
    """The messages, and the events in them: all but Avro's deletes, which have no commit ts."""
    messages: list[Message] = []
    feed = Feed(ready)
    while True:
        try:
            for message in encoder.encode(feed):
                messages.append(message)  # noqa: PERF402 - what came before an error counts
        except EncodeError:
            (refused,) = feed.taken[-1:]
            assert isinstance(refused, RowChange)
            assert refused.commit_ts is None
            feed.taken.pop()
        else:
            return messages, feed.taken


class Feed:
    """Events, and those that were taken so far."""

    def __init__(self, events: list[Event]) -> None:
        self._events = iter(events)
        self.taken: list[Event] = []

    def __iter__(self) -> Iterator[Event]:
        for event in self._events:
            self.taken.append(event)
            yield event


def mended(event: Event) -> Event:
    """Craft's FLOATs, which the classic server corrupts, as some FLOAT."""
    if not isinstance(event, RowChange):
        return event
    floats = [column.name for column in event.table.columns if column.type is MySQLType.FLOAT]
    images: dict[str, Any] = {}
    for side, row in (("before", event.before), ("after", event.after)):
        images[side] = None if row is None else {**row, **{name: 0.5 for name in floats if row.get(name) is not None}}
    return replace(event, **images)


def test_what_cannot_be_said_is_counted() -> None:
    table = TableSchema(TableName("s", "t"), (Column.of("id", "int", primary_key=True),), version=7)
    events: list[Event] = [Bootstrap(table), RowChange(table, 1, after={"id": 1}, start_ts=9), Watermark(2)]
    adapter = Adapter(protocol("canal-json").capabilities(Options()))

    ready = list(adapter.adapt(events))

    assert [type(event) for event in ready] == [RowChange]
    assert adapter.losses["bootstrap", THE_EVENT] == 1
    assert adapter.losses["watermark", THE_EVENT] == 1
    assert adapter.losses["row", "commit ts"] == 1
    assert adapter.losses["row", "start ts"] == 1
    assert adapter.losses["row", "schema version"] == 1


def test_a_schema_is_announced_once_in_each_partition_and_again_when_it_changes() -> None:
    name = TableName("s", "t")
    narrow = TableSchema(name, (Column.of("id", "int", primary_key=True),))
    wide = TableSchema(name, (*narrow.columns, Column.of("note", "text")))
    adapter = Adapter(protocol("simple").capabilities(Options()))

    def kinds(table: TableSchema, ts: int, partition: int) -> list[str]:
        row = {column.name: None for column in table.columns}
        return [type(event).__name__ for event in adapter.adapt([RowChange(table, ts, after=row)], partition)]

    assert kinds(narrow, 1, 0) == ["Bootstrap", "RowChange"]
    assert kinds(narrow, 2, 0) == ["RowChange"]
    assert kinds(narrow, 2, 1) == ["Bootstrap", "RowChange"]
    assert kinds(wide, 3, 0) == ["Bootstrap", "RowChange"]
    assert kinds(narrow, 4, 0) == ["RowChange"]


def test_the_command_keeps_places_and_reports_losses(tmp_path: Path) -> None:
    source = tmp_path / "topic.jsonl"
    source.write_text(topic_files.read("seed11", "open-protocol.jsonl"))
    report = tmp_path / "losses.json"

    result = CliRunner().invoke(
        app, ["transcode", "--from", "open-protocol", "--to", "simple", "--report", str(report), str(source)]
    )

    assert result.exit_code == 0, result.stderr
    written = [json.loads(line) for line in result.stdout.splitlines()]
    for partition in range(3):
        offsets = [line["offset"] for line in written if line["partition"] == partition]
        assert offsets == list(range(len(offsets)))
    losses = json.loads(report.read_text())
    assert losses["ddl"]["type"] == 17 * 3
    assert "not carried over" in result.stderr


def test_a_row_that_cannot_be_written_costs_only_itself(tmp_path: Path) -> None:
    """Craft's FLOATs come corrupted from the server, some of them larger than a FLOAT can be."""
    source = tmp_path / "topic.jsonl"
    source.write_text(topic_files.read("seed11-classic", "craft.jsonl"))

    result = CliRunner().invoke(app, ["transcode", "--from", "craft", "--to", "open-protocol", str(source)])

    assert result.exit_code == 1
    bad = result.stderr.count("error: line")
    assert 0 < bad < 200
    again = CliRunner().invoke(app, ["decode", "--protocol", "open-protocol"], input=result.stdout)
    rows = [line for line in map(json.loads, again.stdout.splitlines()) if line["kind"] == "row"]
    everything = topic_files.events("seed11-classic", "craft")
    assert len(rows) + bad == sum(isinstance(event, RowChange) for _, events in everything for event in events)
