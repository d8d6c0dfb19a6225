"""Topics in files: a changefeed without a broker, which Spark and the embedded sync read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

from tidewire.changefeed.sink.base import NEW_TOPIC, PartitionCounts
from tidewire.model import Message, Position
from tidewire.topic.appending import Appending
from tidewire.topic.files import FileTopics
from tidewire.topic.segments import checked_topic, partition_folder


class FileQueue:
    """Topics in a folder. A flush makes segments of what was sent since the last one.

    ``partition_num`` is for new topics; existing ones keep their number of partitions.
    """

    def __init__(
        self,
        folder: Path | str,
        default_topic: str,
        partition_num: int = NEW_TOPIC,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._topics = FileTopics(folder)
        self._new = partition_num
        self._counts = PartitionCounts(self._count, default_topic, clock=clock)
        self._open = ExitStack()
        self._appending: Appending | None = None

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic; the topic is created if it does not exist."""
        return self._counts.of(topic)

    def send(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        """Put messages at the end of a partition."""
        if self._appending is None:
            self._appending = self._open.enter_context(self._topics.appending())
        end = self._appending.end(topic, partition)
        for offset, message in enumerate(messages, end):
            self._appending.add(Position(topic, partition, offset), message)

    def flush(self) -> None:
        """Write the segments."""
        self._appending = None
        self._open.close()

    def close(self) -> None:
        """Write the last segments."""
        self.flush()

    def _count(self, topic: str) -> int:
        if topic not in self._topics.topics():
            for number in range(self._new):
                partition_folder(self._topics.folder, checked_topic(topic), number).mkdir(parents=True, exist_ok=True)
        return len(self._topics.partitions(topic))
