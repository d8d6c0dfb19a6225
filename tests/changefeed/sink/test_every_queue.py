"""Queues without a broker: what is sent is there in order, and partitions are counted as TiCDC counts them."""

from __future__ import annotations

from pathlib import Path

import pytest

from changefeed.pieces import SetClock
from tidewire.changefeed.sink.base import REFRESH_SECONDS, MemoryQueue, PartitionCounts, Queue
from tidewire.changefeed.sink.files import FileQueue
from tidewire.errors import ChangefeedError
from tidewire.model import Message
from tidewire.topic.files import FileTopics, messages_of


def values(topics: FileTopics, topic: str, partition: int) -> list[bytes | None]:
    return [message.value for batch in topics.read(topic, partition) for message in messages_of(batch)]


def test_what_is_sent_to_files_is_there_after_a_flush(tmp_path: Path) -> None:
    queue: Queue = FileQueue(tmp_path, "feed", 2)
    topics = FileTopics(tmp_path)

    queue.send("feed", 1, [Message(None, b"a"), Message(b"k", b"b")])
    assert values(topics, "feed", 1) == []
    queue.flush()
    queue.send("feed", 1, [Message(None, b"c")])
    queue.flush()
    queue.flush()

    assert values(topics, "feed", 1) == [b"a", b"b", b"c"]
    assert values(topics, "feed", 0) == []


def test_new_topics_in_files_get_the_configured_partitions_and_old_ones_keep_theirs(tmp_path: Path) -> None:
    FileTopics(tmp_path).append("old", 0, [Message(None, b"a")])
    queue = FileQueue(tmp_path, "feed", 4)

    assert queue.partitions("feed") == 4
    assert queue.partitions("other") == 4
    assert queue.partitions("old") == 1
    assert FileTopics(tmp_path).partitions("other") == [0, 1, 2, 3]


def test_a_second_run_appends_to_files(tmp_path: Path) -> None:
    for value in (b"a", b"b"):
        queue = FileQueue(tmp_path, "feed", 1)
        queue.send("feed", 0, [Message(None, value)])
        queue.close()

    assert values(FileTopics(tmp_path), "feed", 0) == [b"a", b"b"]


def test_memory_counts_what_is_safe() -> None:
    queue = MemoryQueue(2, {"other": 1})
    queue.send("feed", 1, [Message(None, b"a")])
    assert queue.flushed == {}

    queue.flush()

    assert queue.flushed == {("other", 0): 0, ("feed", 0): 0, ("feed", 1): 1}
    assert (queue.partitions("feed"), queue.partitions("other")) == (2, 1)


def test_the_default_topic_keeps_its_partitions_and_others_are_asked_again() -> None:
    real, clock = {"feed": 3, "other": 3}, SetClock()
    counts = PartitionCounts(real.__getitem__, "feed", clock=clock)
    assert (counts.of("feed"), counts.of("other")) == (3, 3)

    real.update(feed=5, other=5)
    clock.now = REFRESH_SECONDS - 1
    assert (counts.of("feed"), counts.of("other")) == (3, 3)
    clock.now = REFRESH_SECONDS

    assert (counts.of("feed"), counts.of("other")) == (3, 5)


def test_the_default_topic_may_use_fewer_partitions_than_there_are_but_not_more() -> None:
    assert PartitionCounts(lambda _: 3, "feed", 2).of("feed") == 2
    assert PartitionCounts(lambda _: 3, "feed", 2).of("other") == 3
    for wrong in (4, 0, -1):
        with pytest.raises(ChangefeedError, match="partition-num"):
            PartitionCounts(lambda _: 3, "feed", wrong)
