"""Topics as folders of Parquet files, on a local disk."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from tidewire.errors import TopicError
from tidewire.model import Message, Position
from tidewire.topic.appending import Appending
from tidewire.topic.segments import (
    Segment,
    checked_partition,
    checked_topic,
    end_of,
    partition_folder,
    partitions_in,
    segments_in,
    topics_in,
)

_READ_AT_ONCE = 8192

Messages: TypeAlias = Iterable[Message] | pa.RecordBatch
"""Messages, or a batch that has at least the columns ``key`` and ``value``."""


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """What can be said of a partition without reading messages: offsets ``first`` to ``end``, the latter excluded."""

    topic: str
    partition: int
    first: int
    end: int
    segments: int
    bytes: int


class FileTopics:
    """The topics in a folder. Any number of processes may read and append at a time."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).absolute()

    def __repr__(self) -> str:
        return f"FileTopics({str(self.folder)!r})"

    def topics(self) -> list[str]:
        """The names of all topics."""
        return topics_in(self.folder)

    def partitions(self, topic: str) -> list[int]:
        """The numbers of a topic's partitions."""
        folder = self.folder / checked_topic(topic)
        if not folder.is_dir():
            raise TopicError(topic, f"not in {self.folder}")
        return partitions_in(folder)

    def ends(self) -> dict[tuple[str, int], int]:
        """The next offset of every partition of every topic."""
        return {
            (topic, partition): end_of(partition_folder(self.folder, topic, partition))
            for topic in self.topics()
            for partition in self.partitions(topic)
        }

    def facts(self) -> Iterator[PartitionFacts]:
        """What there is, partition by partition."""
        for topic in self.topics():
            for partition in self.partitions(topic):
                segments = self._segments(topic, partition)
                first, last = (segments[0], segments[-1]) if segments else (None, None)
                yield PartitionFacts(
                    topic,
                    partition,
                    first.first if first else 0,
                    last.first + last.rows() if last else 0,
                    len(segments),
                    sum(segment.path.stat().st_size for segment in segments),
                )

    def read(self, topic: str, partition: int, start: int = 0) -> Iterator[pa.RecordBatch]:
        """The messages of a partition from an offset on, in order, in the columns of Spark's Kafka source."""
        if checked_partition(topic, partition) not in self.partitions(topic):
            raise TopicError(topic, f"there is no partition {partition}")
        segments = self._segments(topic, partition)
        begin = max(0, bisect_right(segments, start, key=lambda segment: segment.first) - 1)
        for segment in segments[begin:]:
            at = segment.first
            with segment.open() as file:
                for batch in file.iter_batches(_READ_AT_ONCE):
                    if at + batch.num_rows > start:
                        yield batch.slice(max(0, start - at))
                    at += batch.num_rows

    def append(self, topic: str, partition: int, messages: Messages, *, first: int | None = None) -> int:
        """Add messages to a partition and give the offset after them; all of them are there then, or none.

        ``first`` is the offset the caller believes the first one gets. ``TopicError`` where it does not.
        """
        with self.appending() as appending:
            at = appending.end(topic, partition) if first is None else first
            for message in messages_of(messages) if isinstance(messages, pa.RecordBatch) else messages:
                appending.add(Position(topic, partition, at), message)
                at += 1
        return at

    def appending(self) -> Appending:
        """A block that adds messages to any partitions; they are there when it ends well, else none is."""
        return Appending(self.folder)

    def _segments(self, topic: str, partition: int) -> Sequence[Segment]:
        return segments_in(partition_folder(self.folder, topic, partition))


def messages_of(batch: pa.RecordBatch) -> Iterator[Message]:
    """The messages in a batch."""
    headers = batch.column("headers").to_pylist() if "headers" in batch.schema.names else [None] * batch.num_rows
    for key, value, its in zip(
        batch.column("key").to_pylist(), batch.column("value").to_pylist(), headers, strict=True
    ):
        yield Message(key, value, tuple((header["key"], header["value"]) for header in its or ()))
