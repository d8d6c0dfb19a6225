"""Topics of a Kafka cluster as a source."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from tidewire.errors import BrokerError, SyncError
from tidewire.kafka.client import FIRST_SECONDS, KafkaClient, Topic
from tidewire.kafka.fetch import close, fetched
from tidewire.kafka.uri import KafkaAddress
from tidewire.model import Message, Position
from tidewire.spark.source.base import Extent, MessageOffsets, OffsetRange
from tidewire.sync.manifest import Partition

REFRESH_SECONDS = 5.0
"""How often new topics and partitions are looked for. Offsets are asked every time."""

_GONE_SECONDS = 3.0
"""A broker that has just started may not know its topics yet."""

_AGAIN_SECONDS = 0.2
_COMMIT_SECONDS = 2.0
_NEAR = 1000
"""Messages that are this close to one another are fetched together."""


@dataclass(frozen=True, slots=True)
class KafkaFetcher:
    """Fetches messages with librdkafka's settings, which hold certificates and keys themselves."""

    settings: Mapping[str, str] = field(repr=False)

    def batches(self, range_: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The messages of a range. Raises :class:`SyncError` if some are gone."""
        at = range_.partition
        with closing(fetched(self.settings, (at.topic, at.number), range_.start, range_.end)) as lists:
            for messages in lists:
                yield _columns(at, messages)


class KafkaSource(MessageOffsets):
    """Topics of a Kafka cluster: named ones, or all that match a pattern.

    It is asked once a second or so, so topics and partitions are looked up at most every ``refresh_seconds``, or when
    offsets show that something has changed. Brokers that do not answer are waited for up to ``patience`` seconds; the
    caller decides whether to ask again.
    """

    def __init__(
        self,
        address: KafkaAddress,
        *,
        refresh_seconds: float = REFRESH_SECONDS,
        patience: float = FIRST_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.uri = address.uri
        self.identity = address.identity
        self.options = address.options
        self.max_messages = address.max_messages
        self.fetcher = KafkaFetcher(dict(address.settings))
        self._address = address
        self._client = KafkaClient(address.settings, first_seconds=patience, later_seconds=patience)
        self._refresh = refresh_seconds
        self._patience = patience
        self._clock = clock
        self._looked_up = float("-inf")
        self._topics: Mapping[str, Topic] = {}
        self._ends: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}

    @classmethod
    def open(cls, uri: str) -> KafkaSource:
        """The source behind a URI."""
        return cls(KafkaAddress.parse(uri))

    def partitions(self) -> Mapping[Partition, Extent]:
        """All partitions there are now. Raises :class:`SyncError` if a topic that was named does not exist."""
        found = self._extents()
        if any(found[at].end < end if at in found else True for at, end in self._ends.items()):
            self._looked_up = float("-inf")  # a topic was deleted, perhaps created again
            found = self._extents()
        self._ends = {at: extent.end for at, extent in found.items()}
        return found

    def holes(self) -> Mapping[Partition, int]:
        """None: gaps in offsets are normal in Kafka."""
        return {}

    def sample(self, count: int) -> list[Message]:
        """The first messages of every partition, at most ``count`` of each."""
        return [
            message
            for at, extent in self.partitions().items()
            for _, message in islice(self._messages(OffsetRange(at, extent.first, extent.end)), count)
        ]

    def fetch(self, positions: Iterable[Position]) -> Mapping[Position, Message]:
        """The messages at some positions. A message that no longer exists is left out."""
        extents, wanted = self.partitions(), set(positions)
        there = [at for at in sorted(wanted) if _within(at, extents.get(Partition.of(at)))]
        return {at: message for range_ in _gathered(there) for at, message in self._messages(range_) if at in wanted}

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Set the offsets of the consumer group, if the URI names one; later, if brokers do not answer."""
        news = {at: offset for at, offset in offsets.items() if self._committed.get(at) != offset}
        if self._address.group is None or not news:
            return
        try:
            self._client.commit(
                self._address.group,
                {(at.topic, at.number): offset for at, offset in news.items()},
                seconds=_COMMIT_SECONDS,
            )
        except BrokerError as error:
            if not error.transient:
                raise
        else:
            self._committed |= news

    def close(self) -> None:
        """Close the consumers of this process."""
        close(self.fetcher.settings)

    def _extents(self) -> dict[Partition, Extent]:
        """All partitions. One whose offsets are not known is waited for: a watermark must not pass it by."""
        deadline = time.monotonic() + self._patience
        while True:
            if self._clock() >= self._looked_up + self._refresh:
                self._topics = self._found_topics()
                self._looked_up = self._clock()
            places = [(topic.name, number) for topic in self._topics.values() for number in topic.partitions]
            found = self._client.offsets(places)
            lacking = next((place for place in places if place not in found), None)
            if lacking is None:
                return {
                    Partition(*place): Extent(offsets.first, offsets.end, self._topics[place[0]].id)
                    for place, offsets in found.items()
                }
            if time.monotonic() >= deadline:
                raise BrokerError(self._client.brokers, f"{Partition(*lacking)} has no leader")
            self._looked_up = float("-inf")
            time.sleep(_AGAIN_SECONDS)

    def _found_topics(self) -> Mapping[str, Topic]:
        """The topics there are now. That a topic is gone is believed when brokers say so for some seconds."""
        address, deadline = self._address, time.monotonic() + _GONE_SECONDS
        found = self._asked_topics()
        while self._topics.keys() - found.keys() and time.monotonic() < deadline:
            time.sleep(_AGAIN_SECONDS)
            found = self._asked_topics()
        missing = [name for name in address.topics if name not in found]
        if missing:
            raise SyncError(
                f"{self.uri}: there is no topic {', '.join(missing)}; create it, or name topics by ?pattern= to take "
                "them as they come"
            )
        return found

    def _asked_topics(self) -> Mapping[str, Topic]:
        if self._address.pattern is None:
            return self._client.topics(self._address.topics)
        wanted = re.compile(self._address.pattern)
        return self._client.topics(name for name in self._client.names() if wanted.fullmatch(name))

    def _messages(self, range_: OffsetRange) -> Iterator[tuple[Position, Message]]:
        at = range_.partition
        with closing(fetched(self.fetcher.settings, (at.topic, at.number), range_.start, range_.end)) as lists:
            for messages in lists:
                for message in messages:
                    yield Position(at.topic, at.number, message.offset()), Message(message.key(), message.value())


def _within(at: Position, extent: Extent | None) -> bool:
    return extent is not None and extent.first <= at.offset < extent.end


def _gathered(positions: Iterable[Position]) -> Iterator[OffsetRange]:
    """Ranges that hold sorted positions, each range of positions that are close together."""
    current: OffsetRange | None = None
    for at in positions:
        if current is None or current.partition != Partition.of(at) or at.offset >= current.end + _NEAR:
            if current is not None:
                yield current
            current = OffsetRange(Partition.of(at), at.offset, at.offset + 1)
        else:
            current = OffsetRange(current.partition, current.start, at.offset + 1)
    if current is not None:
        yield current


def _columns(at: Partition, messages: list[Any]) -> pa.RecordBatch:
    count = len(messages)
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([message.key() for message in messages], pa.binary()),
            "value": pa.array([message.value() for message in messages], pa.binary()),
            "topic": pa.repeat(at.topic, count),
            "partition": pa.repeat(pa.scalar(at.number, pa.int32()), count),
            "offset": pa.array([message.offset() for message in messages], pa.int64()),
        }
    )
