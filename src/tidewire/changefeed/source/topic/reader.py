"""Where messages are read from: a contract, and topics in files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from tidewire.changefeed.source.topic.watermark_buffer import Partition
from tidewire.model import Message, Position
from tidewire.topic.files import FileTopics, messages_of

AT_ONCE = 1000
"""Messages of a partition in one go: no partition runs far ahead of the others."""


class Reader(Protocol):
    """Topics to read."""

    def partitions(self) -> Sequence[Partition]:
        """The partitions there are now."""
        ...

    def first(self, partition: Partition) -> int:
        """The offset of the first message a partition still has."""
        ...

    def read(self, offsets: Mapping[Partition, int]) -> Iterator[tuple[Position, Message]]:
        """Some of what comes next in each partition, in the order of its offsets; nothing if nothing is new."""
        ...

    def ends(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """The offsets that the next messages of these partitions will get."""
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


class FileReader:
    """Topics in a folder, all of them or some."""

    def __init__(self, topics: FileTopics, names: Sequence[str] = ()) -> None:
        self._topics = topics
        self._names = names

    def partitions(self) -> Sequence[Partition]:
        """The partitions there are now."""
        there = set(self._topics.topics())
        names = self._names or sorted(there)
        return [Partition(name, number) for name in names if name in there for number in self._topics.partitions(name)]

    def first(self, partition: Partition) -> int:
        """Always 0: topics in files keep all messages."""
        return 0

    def read(self, offsets: Mapping[Partition, int]) -> Iterator[tuple[Position, Message]]:
        """Some of what comes next in each partition."""
        for (topic, number), offset in offsets.items():
            batches = self._topics.read(topic, number, offset)
            messages = (message for batch in batches for message in messages_of(batch))
            for at, message in enumerate(islice(messages, AT_ONCE), offset):
                yield Position(topic, number, at), message

    def ends(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """The offsets that the next messages of these partitions will get."""
        ends = self._topics.ends()
        return {partition: ends.get(partition, 0) for partition in partitions}

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""
