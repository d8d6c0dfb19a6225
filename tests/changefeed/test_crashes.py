"""A changefeed that breaks off anywhere and begins again loses nothing and promises nothing too early."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tidewire.changefeed.checkpoint import MemoryCheckpoints
from tidewire.changefeed.runner import Runner
from tidewire.changefeed.sink.base import MemoryQueue
from tidewire.changefeed.sink.queue import QueueSink
from tidewire.changefeed.source import open_source
from tidewire.changefeed.source.watermark_buffer import Partition, WatermarkBuffer
from tidewire.codec import Options, protocol
from tidewire.dispatch import Dispatch, DispatchRule, Filter
from tidewire.model import Ddl, Message, Position, RowChange, Watermark

OPTIONS = Options(enable_tidb_extension=True)
DISPATCH = Dispatch("feed", [DispatchRule(("*.*",), partition="index-value")], protocol="canal-json")
URI = "workload://11?transactions=25&tables=3"


class Breaking(MemoryQueue):
    """A queue that breaks after so many messages; some of what was not flushed is lost then."""

    def __init__(self, random: Random) -> None:
        super().__init__(3)
        self.left = 0
        self._random = random

    def send(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        for message in messages:
            if self.left <= 0:
                self._lose()
                raise ConnectionError
            self.left -= 1
            super().send(topic, partition, [message])

    def _lose(self) -> None:
        for topic, partitions in self.topics.items():
            for number, messages in enumerate(partitions):
                del messages[self._random.randint(self.flushed.get((topic, number), 0), len(messages)) :]


def told(queue: MemoryQueue) -> list[Any]:
    """What a careful reader gets, partition after partition."""
    gate = WatermarkBuffer()
    gate.expect(Partition("feed", number) for number in range(3))
    for number, messages in enumerate(queue.topics["feed"]):
        decoder = protocol("canal-json").Decoder(OPTIONS)
        for offset, message in enumerate(messages):
            for event in decoder.decode(message):
                gate.take(Position("feed", number, offset), event)
    return [
        (event.commit_ts, event.query if isinstance(event, Ddl) else (event.op, event.before, event.after))
        for event in gate.release()
    ]


def run(queue: MemoryQueue, checkpoints: MemoryCheckpoints) -> None:
    sink = QueueSink(queue, DISPATCH, OPTIONS)
    Runner(open_source(URI), sink, Filter(), checkpoints, interval=0).run()


@cache
def expected() -> list[Any]:
    """What arrives if nothing breaks."""
    queue = MemoryQueue(3)
    run(queue, MemoryCheckpoints())
    return told(queue)


def check_promises(queue: MemoryQueue) -> None:
    """No event is new after a watermark that covers it."""
    for messages in queue.topics["feed"]:
        decoder, newest, seen = protocol("canal-json").Decoder(OPTIONS), 0, set[str]()
        for message in messages:
            for event in decoder.decode(message):
                if isinstance(event, Watermark):
                    newest = max(newest, event.ts)
                elif isinstance(event, RowChange | Ddl):
                    assert repr(event) in seen or (event.commit_ts or 0) > newest
                    seen.add(repr(event))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 120), max_size=5), st.integers(0, 1 << 32))
def test_what_arrives_is_everything_however_often_it_breaks(breaks: list[int], seed: int) -> None:
    queue, checkpoints = Breaking(Random(seed)), MemoryCheckpoints()
    for left in [*breaks, 1 << 30]:
        queue.left = left
        try:
            run(queue, checkpoints)
        except ConnectionError:
            assert left < 1 << 30

    assert told(queue) == expected()
    check_promises(queue)
