"""Another changefeed's topics as a source: whatever was sent twice or out of order comes once and in order."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import topic_files
from changefeed.pieces import insert
from tidewire.changefeed.checkpoint import MemoryCheckpoints
from tidewire.changefeed.config.settings import BootstrapSettings
from tidewire.changefeed.runner import Runner
from tidewire.changefeed.sink.files import FileQueue
from tidewire.changefeed.sink.queue import QueueSink
from tidewire.changefeed.source import Resolved, Upstream, open_source
from tidewire.changefeed.source.topic import TopicSource
from tidewire.changefeed.source.topic_files import FileReader
from tidewire.codec import Options, Resources, protocol
from tidewire.dispatch import Dispatch, DispatchRule, Filter
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, Event, Message, Position, RowChange, Watermark
from tidewire.plain import message_from_plain
from tidewire.topic.files import FileTopics
from tidewire.workload import Workload, events

FILES = ["canal-json", "open-protocol", "simple-json", "simple-avro"]


def imported(folder: Path, topic: str, file: str) -> FileTopics:
    topics = FileTopics(folder)
    with topics.appending() as appending:
        for line in topic_files.lines(topic, file):
            at = Position(line.get("topic", "feed"), line["partition"], line["offset"])
            appending.add(at, message_from_plain(line))
    return topics


def source_of(topics: FileTopics, topic: str, file: str, **more: Any) -> TopicSource:
    base = file.removesuffix(".faults")
    name, options = topic_files.PROTOCOLS.get(base, base), topic_files.options(topic, file)
    resources = Resources(registry=topic_files.registry(topic))
    return TopicSource(FileReader(topics), name, options, resources, **{"follow": False, **more})


def told(items: list[Upstream]) -> list[Any]:
    """What is said, once for each: rows by table, moment and images, statements by text."""
    return [
        (item.commit_ts, item.query)
        if isinstance(item, Ddl)
        else (item.commit_ts, item.table.name, item.op, item.before, item.after)
        for item in items
        if isinstance(item, RowChange | Ddl)
    ]


@pytest.mark.parametrize("file", FILES)
def test_a_topic_with_restarts_tells_what_one_without_tells(tmp_path: Path, file: str) -> None:
    well, badly = imported(tmp_path / "well", "seed11", file), imported(tmp_path / "badly", "seed11", f"{file}.faults")

    first = list(source_of(well, "seed11", file).read(0))
    second = list(source_of(badly, "seed11", f"{file}.faults").read(0))

    for items in (first, second):
        times = [item.ts if isinstance(item, Resolved) else item.commit_ts for item in items]  # type: ignore[union-attr]
        assert times == sorted(times, key=lambda ts: ts or 0)
    assert sorted(told(first), key=repr) == sorted(told(second), key=repr)
    assert len(told(first)) == topic_files.expected("seed11")["row_events"] + len(
        topic_files.expected("seed11")["ddl_events"]
    )


@pytest.mark.parametrize("file", ["canal-json.faults", "simple-json.faults"])
def test_it_goes_on_at_every_place_without_loss(tmp_path: Path, file: str) -> None:
    topics = imported(tmp_path, "seed11", file)
    whole = list(source_of(topics, "seed11", file).read(0))
    places = [(index, item) for index, item in enumerate(whole) if isinstance(item, Resolved)]

    for index, mark in places[:: max(1, len(places) // 4)]:
        rest = list(source_of(topics, "seed11", file).read(mark.ts, mark.place))
        assert told(rest) == told(whole[index + 1 :])


def test_a_protocol_without_watermarks_comes_as_it_is(tmp_path: Path) -> None:
    topics = imported(tmp_path, "seed11", "avro")

    source = source_of(topics, "seed11", "avro", clock=lambda: 5)
    items = list(source.read(0))

    recorded = [event for _, some in topic_files.events("seed11", "avro") for event in some]
    assert sum(isinstance(item, RowChange) for item in items) == len(recorded)
    marks = [item for item in items if isinstance(item, Resolved)]
    assert {mark.ts for mark in marks} == {5 << 18}
    assert list(source_of(topics, "seed11", "avro").read(marks[-1].ts, marks[-1].place)) == []


def test_it_waits_for_more_and_ends_when_it_is_closed(tmp_path: Path) -> None:
    topics, options = FileTopics(tmp_path), Options(enable_tidb_extension=True)
    topics.append("feed", 0, encoded([insert(1, 10), Watermark(10)], options))
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            topics.append("feed", 0, encoded([insert(2, 11), Watermark(11)], options))
        else:
            source.close()

    source = TopicSource(FileReader(topics), "canal-json", options, wait=wait)

    assert [item.ts for item in source.read(0) if isinstance(item, Resolved)] == [10, 11]
    assert len(waits) == 2


def encoded(changes: list[Event], options: Options) -> list[Message]:
    return list(protocol("canal-json").Encoder(options).encode(changes))


def test_what_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    topics = FileTopics(tmp_path)
    topics.append("feed", 0, [Message(None, b"?")])

    with pytest.raises(ChangefeedError, match=r"feed\[0\]@0"):
        list(TopicSource(FileReader(topics), "canal-json", follow=False).read(0))


@pytest.mark.parametrize("target", ["open-protocol", "canal-json", "craft", "simple"])
def test_topics_are_transcoded_live_and_mean_the_same(tmp_path: Path, target: str) -> None:
    """A workload into Simple topics, those into another protocol, and what it says is the workload."""
    rule = DispatchRule(("*.*",), partition="index-value")
    options = Options(enable_tidb_extension=True)
    workload = Workload(3, transactions=60)
    upstream = open_source("workload://3?transactions=60")
    for source, name, folder in (
        (upstream, "simple", "one"),
        (open_source(f"file-topic:{tmp_path}/one/feed?protocol=simple&follow=false"), target, "other"),
    ):
        dispatch = Dispatch("feed", [rule], protocol=name)
        sink = QueueSink(
            FileQueue(tmp_path / folder, "feed"), dispatch, options, bootstrap=BootstrapSettings(enabled=True)
        )
        Runner(source, sink, Filter(), MemoryCheckpoints(), start_ts=0, interval=0).run()

    extension = "&enable-tidb-extension=true" if target == "canal-json" else ""
    found = list(open_source(f"file:{tmp_path}/other?protocol={target}&follow=false{extension}").read(0))

    expected = [event for event in events(workload) if isinstance(event, RowChange | Ddl)]
    assert [item.commit_ts for item in found if isinstance(item, RowChange)] == [
        event.commit_ts for event in expected if isinstance(event, RowChange)
    ]
    assert [item.query for item in found if isinstance(item, Ddl)] == [
        event.query for event in expected if isinstance(event, Ddl)
    ]


@pytest.mark.parametrize(
    "uri", ["file-topic:///x/feed", "file-topic:///x/feed?protocol=morse", "file:/x?protocol=simple&follow=perhaps"]
)
def test_a_wrong_uri_is_refused(uri: str) -> None:
    with pytest.raises(ChangefeedError):
        open_source(uri)


def test_a_reading_can_be_ended_by_another_thread(tmp_path: Path) -> None:
    FileTopics(tmp_path).append("feed", 0, [])
    source = open_source(f"file:{tmp_path}?protocol=simple")

    thread = threading.Thread(target=list, args=(source.read(0),))
    thread.start()
    source.close()
    thread.join(30)

    assert not thread.is_alive()
