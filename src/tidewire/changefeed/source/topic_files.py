"""Topics in files, for the topic source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from tidewire.changefeed.source.watermark_buffer import Partition
from tidewire.model import Message, Position
from tidewire.topic.files import FileTopics, messages_of

AT_ONCE = 1000
"""How many messages of a partition are read at once, so that no partition gets far ahead of the others."""


class FileReader:
    """Topics in a folder, all of them or some."""

    def __init__(self, topics: FileTopics, names: Sequence[str] = ()) -> None:
        self._topics = topics
        self._names = names

    def partitions(self) -> Sequence[Partition]:
        """The partitions that exist now."""
        there = set(self._topics.topics())
        names = self._names or sorted(there)
        return [Partition(name, number) for name in names if name in there for number in self._topics.partitions(name)]

    def first(self, partition: Partition) -> int:
        """Always 0: topics in files keep all messages."""
        return 0

    def read(self, offsets: Mapping[Partition, int]) -> Iterator[tuple[Position, Message]]:
        """Yield some of the next messages of each partition."""
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
