"""The contract of a source: partitions with their offsets, offset ranges, and the messages in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import pyarrow as pa

from tidewire.arrow import BatchDecoder, Policy
from tidewire.codec import Options
from tidewire.errors import SyncError
from tidewire.model import Message, Position
from tidewire.spark.peek import MessageHeader
from tidewire.storage import Storage
from tidewire.sync.manifest import Partition

MESSAGES_PER_PASS = 1_000_000
"""How many messages a pass reads unless a source is told otherwise: a backlog becomes tables in pieces."""

MESSAGES_PER_TASK = 500_000
"""A range of more messages is split, so that several tasks read it."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets of a partition: the first one that is left, and the one after the last message.

    ``topic_id`` is the id that Kafka gave the topic when it was created, ``None`` for topics in files.
    """

    first: int
    end: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Messages of one partition, from the offset ``start`` to before the offset ``end``.

    ``estimate`` is about how many messages are in it, where offsets do not count them.
    """

    partition: Partition
    start: int
    end: int
    estimate: int | None = field(default=None, compare=False)

    @property
    def offsets(self) -> int:
        """How many offsets are in it. There can be fewer messages: offsets have gaps."""
        return self.end - self.start

    @property
    def messages(self) -> int:
        """About how many messages are in it, never fewer than there are unless it is an estimate."""
        return self.offsets if self.estimate is None else self.estimate

    def __str__(self) -> str:
        return f"{self.partition}@{self.start}..{self.end}"


class Fetcher(Protocol):
    """Reads messages. It travels to executors, so it holds settings and opens nothing until it is used."""

    def batches(self, range_: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The messages of a range in order of offset: columns ``key``, ``value``, ``topic``, ``partition``, ``offset``.

        When the iterator ends, the whole range has been read, also if its last offsets have no messages.
        """
        ...


class MessageForm(Protocol):
    """How the messages of a source are read that has a form of its own. It travels to executors."""

    def decoder(self, options: Mapping[str, str], policy: Policy) -> BatchDecoder:
        """A decoder for one task."""
        ...

    def place(self, message: Message) -> str:
        """Where a message stands, for people."""
        ...

    def header(self, message: Message, options: Options) -> MessageHeader:
        """What a message that cannot be read tells of itself."""
        ...


class Source(Protocol):
    """A place with topics."""

    @property
    def form(self) -> MessageForm | None:
        """How its messages are read, ``None`` if they are those of a protocol."""
        ...

    @property
    def uri(self) -> str:
        """Its URI without credentials, for messages to people."""
        ...

    @property
    def identity(self) -> str:
        """What a target remembers of its source. A changed list of brokers does not change it."""
        ...

    @property
    def options(self) -> Mapping[str, str]:
        """The codec options its URI carries, by TiCDC's names."""
        ...

    @property
    def max_messages(self) -> int:
        """How many messages one pass reads at most."""
        ...

    @property
    def fetcher(self) -> Fetcher:
        """Reads messages, here or on an executor."""
        ...

    def begin(self, storage: Storage, next_offsets: Mapping[Partition, int]) -> None:
        """A sync begins that has read up to some offsets; in its storage the source can keep what it has to know."""
        ...

    def partitions(self) -> Mapping[Partition, Extent]:
        """All partitions there are now."""
        ...

    def ranges(self, extents: Mapping[Partition, Extent], next_offsets: Mapping[Partition, int]) -> list[OffsetRange]:
        """The ranges that the next pass reads, by partition and offset."""
        ...

    def sample(self, count: int) -> list[Message]:
        """The first messages of every partition, at most ``count`` of each."""
        ...

    def fetch(self, positions: Iterable[Position]) -> Mapping[Position, Message]:
        """The messages at some positions. A message that no longer exists is left out."""
        ...

    def holes(self) -> Mapping[Partition, int]:
        """Partitions that have messages behind a hole, each with the first missing offset, as of the last look."""
        ...

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Tell lag tools how far the sync is, if it can. Nothing is read from there."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


class MessageOffsets:
    """What sources share whose offsets count messages: nothing has to be kept for them."""

    max_messages: int
    form: MessageForm | None = None

    def begin(self, storage: Storage, next_offsets: Mapping[Partition, int]) -> None:
        """Nothing to do: offsets mean the same always."""

    def ranges(self, extents: Mapping[Partition, Extent], next_offsets: Mapping[Partition, int]) -> list[OffsetRange]:
        """The ranges that the next pass reads, by partition and offset."""
        return planned_ranges(extents, next_offsets, self.max_messages)


class NoSource(MessageOffsets):
    """A source without topics, for work on a target that reads none."""

    uri = identity = ""
    options: Mapping[str, str] = {}
    max_messages = 0

    @property
    def fetcher(self) -> Fetcher:
        """There is nothing to fetch."""
        raise NotImplementedError

    def partitions(self) -> Mapping[Partition, Extent]:
        """There are no partitions."""
        return {}

    def sample(self, count: int) -> list[Message]:
        """There are no messages."""
        return []

    def fetch(self, positions: Iterable[Position]) -> Mapping[Position, Message]:
        """There are no messages."""
        return {}

    def holes(self) -> Mapping[Partition, int]:
        """There are no holes."""
        return {}

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Do nothing: there is no topic."""

    def close(self) -> None:
        """There is nothing to close."""


def planned_ranges(
    extents: Mapping[Partition, Extent],
    next_offsets: Mapping[Partition, int],
    max_messages: int,
    per_task: int = MESSAGES_PER_TASK,
) -> list[OffsetRange]:
    """The ranges that the next pass reads, by partition and offset.

    Each partition is read from its next offset to its end; a partition without a next offset from its first. If that
    is more than ``max_messages``, small partitions are read whole and the large ones share the rest evenly. A range has
    at most ``per_task`` offsets. Raises :class:`SyncError` if messages that were not read yet are gone.
    """
    starts = {at: _start(at, extents[at], next_offsets.get(at)) for at in sorted(extents)}
    shares = _shares({at: extents[at].end - start for at, start in starts.items()}, max_messages)
    return [piece for at, share in shares.items() for piece in _pieces(at, starts[at], share, per_task)]


def _start(at: Partition, extent: Extent, known: int | None) -> int:
    if known is None:
        return extent.first
    if known < extent.first:
        raise SyncError(
            f"{at}: messages from offset {known} on are gone (the first that is left is {extent.first}): the topic's "
            "retention is shorter than the sync was behind, and a table cannot be right without them. "
            "Begin anew with an empty target, and give the topic a longer retention"
        )
    if known > extent.end:
        raise SyncError(
            f"{at}: the partition ends at offset {extent.end}, but messages up to offset {known} were read before: "
            "the topic was created again or cut short. Begin anew with an empty target"
        )
    return known


def _shares(wanted: Mapping[Partition, int], most: int) -> dict[Partition, int]:
    """How many offsets of each partition are read: all of a small one, an even share of the rest for each large one."""
    shares = {}
    left, waiting = most, len(wanted)
    for at in sorted(wanted, key=lambda at: (wanted[at], at)):
        share = -(-left // waiting)  # rounded up, so that a pass always reads something
        shares[at] = min(wanted[at], share)
        left -= shares[at]
        waiting -= 1
    return {at: shares[at] for at in wanted if shares[at]}


def _pieces(at: Partition, start: int, count: int, per_task: int) -> Iterator[OffsetRange]:
    """Consecutive ranges of about the same size."""
    number = -(-count // per_task)
    cuts = [start + count * index // number for index in range(number + 1)]
    return (OffsetRange(at, begin, end) for begin, end in pairwise(cuts))
