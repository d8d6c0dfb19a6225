"""Topics in files as a source."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import pyarrow as pa

from tidewire.errors import OptionError, SyncError, TopicError
from tidewire.model import Message, Position
from tidewire.spark.source.base import MESSAGES_PER_PASS, Extent, MessageOffsets, OffsetRange
from tidewire.sync.manifest import Partition
from tidewire.topic.files import FileTopics, messages_of
from tidewire.topic.segments import Segment, partition_folder, segments_in

COLUMNS = ("key", "value", "topic", "partition", "offset")
_AT_ONCE = 16384
_SETTLED_NS = 2_000_000_000
"""A folder that was changed this long ago has no change that its modification time does not show yet."""


@dataclass(frozen=True, slots=True)
class FileFetcher:
    """Reads the segments that a range needs. Executors must see the folder under the same path."""

    folder: Path

    def batches(self, range_: OffsetRange) -> Generator[pa.RecordBatch]:
        """The messages of a range. Raises :class:`SyncError` if one of its offsets is missing."""
        at = range_.start
        for segment in self._needed(range_):
            if segment.first > at:
                break
            with segment.open() as file:
                begin = segment.first
                for batch in file.iter_batches(_AT_ONCE, columns=list(COLUMNS)):
                    end = begin + batch.num_rows
                    if at < end and at < range_.end:
                        wanted = batch.slice(at - begin, min(end, range_.end) - at)
                        at += wanted.num_rows
                        yield wanted
                    begin = end
        if at < range_.end:
            raise SyncError(
                f"{range_.partition}: the segment with offset {at} is gone from {self.folder}, and a table cannot be "
                "right without its messages; bring the file back"
            )

    def _needed(self, range_: OffsetRange) -> Iterable[Segment]:
        at = range_.partition
        segments = segments_in(partition_folder(self.folder, at.topic, at.number))
        begin = bisect_right(segments, range_.start, key=lambda segment: segment.first) - 1
        return (segment for segment in segments[max(0, begin) :] if segment.first < range_.end)


@dataclass(slots=True)
class _Known:
    """What is known of a partition's segments: how many messages each has, by its first offset."""

    changed: int = -1
    rows: dict[int, int] = field(default_factory=dict)
    extent: Extent = field(default_factory=lambda: Extent(0, 0))
    hole: bool = False


class FileSource(MessageOffsets):
    """Topics in a folder. Segments count as far as they are complete: what lies behind a hole is not read yet."""

    def __init__(self, topics: FileTopics, *, max_messages: int = MESSAGES_PER_PASS) -> None:
        self.uri = self.identity = topics.folder.as_uri()
        self.options: Mapping[str, str] = {}
        self.max_messages = max_messages
        self.fetcher = FileFetcher(topics.folder)
        self._topics = topics
        self._known: dict[Partition, _Known] = {}

    def partitions(self) -> Mapping[Partition, Extent]:
        """All partitions there are now. Each ends where its segments stop following one another."""
        if not self._topics.folder.is_dir():
            raise OptionError("source", f"there is no folder {self._topics.folder}: check the path")
        found = [
            Partition(topic, number) for topic in self._topics.topics() for number in self._topics.partitions(topic)
        ]
        self._known = {at: self._looked_at(at) for at in found}
        return {at: known.extent for at, known in self._known.items()}

    def holes(self) -> Mapping[Partition, int]:
        """Partitions that have segments behind a hole, each with the first missing offset, as of the last look."""
        return {at: known.extent.end for at, known in self._known.items() if known.hole}

    def sample(self, count: int) -> list[Message]:
        """The first messages of every partition, at most ``count`` of each."""
        return [
            message
            for at, extent in self.partitions().items()
            for message in self._messages(OffsetRange(at, extent.first, min(extent.end, extent.first + count)))
        ]

    def fetch(self, positions: Iterable[Position]) -> Mapping[Position, Message]:
        """The messages at some positions. A message that no longer exists is left out."""
        extents = self.partitions()
        found = {}
        for at in positions:
            extent = extents.get(Partition.of(at))
            if extent is not None and extent.first <= at.offset < extent.end:
                found[at] = next(self._messages(OffsetRange(Partition.of(at), at.offset, at.offset + 1)))
        return found

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Nothing to do: no tool asks files."""

    def close(self) -> None:
        """Nothing to do: files are open only while they are read."""

    def _messages(self, range_: OffsetRange) -> Iterator[Message]:
        with closing(self.fetcher.batches(range_)) as batches:
            yield from islice((message for batch in batches for message in messages_of(batch)), range_.offsets)

    def _looked_at(self, at: Partition) -> _Known:
        folder = partition_folder(self._topics.folder, at.topic, at.number)
        known = self._known.get(at, _Known())
        changed = folder.stat().st_mtime_ns
        if changed == known.changed:
            return known
        segments = segments_in(folder)
        rows = {segment.first: known.rows.get(segment.first) or segment.rows() for segment in segments}
        first = segments[0].first if segments else 0
        if known.rows and first < known.extent.first:
            raise TopicError(
                at.topic,
                f"{segments[0].path} came after partition {at.number} had been read from offset {known.extent.first}; "
                "begin anew with an empty target once all segments are there",
            )
        end = first
        for segment in segments:
            if segment.first < end:
                raise TopicError(
                    at.topic, f"{segment.path} begins before offset {end}, where the segment before it ends"
                )
            if segment.first > end:
                break
            end += rows[segment.first]
        settled = time.time_ns() - changed > _SETTLED_NS
        return _Known(changed if settled else -1, rows, Extent(first, end), bool(segments) and segments[-1].first > end)
