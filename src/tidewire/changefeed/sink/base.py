"""What a changefeed writes to: two contracts, each with its simplest implementation.

A :class:`Sink` takes changes; the runner drives it. A :class:`Queue` takes messages; ``QueueSink`` turns changes into
messages for one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic
from typing import Protocol

from tidewire.changefeed.config.parameters import KAFKA_INVALID
from tidewire.changefeed.source.base import RowBatch
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, Message, RowChange, TableName, TableSchema

REFRESH_SECONDS = 600.0

NEW_TOPIC = 3
"""The number of partitions of a new topic if ``partition-num`` is not given."""


class Queue(Protocol):
    """Topics with ordered partitions."""

    def partitions(self, topic: str) -> int:
        """The number of partitions of a topic; the topic is created if it does not exist."""
        ...

    def send(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        """Put messages at the end of a partition, in order. They are safe only after a flush."""
        ...

    def flush(self) -> None:
        """Return when everything sent is safe; raise an error if that fails."""
        ...

    def close(self) -> None:
        """Close connections. What was not flushed may be lost."""
        ...


class Sink(Protocol):
    """Takes the changes of a changefeed."""

    def begin(self, tables: Sequence[TableSchema]) -> None:
        """The changefeed begins, or begins again, with these tables."""
        ...

    def rows(self, changes: Sequence[RowChange]) -> None:
        """Take changes, in commit order. They are safe only after a flush."""
        ...

    def columns(self, batch: RowBatch) -> None:
        """Take many changes of one table at once, as :meth:`rows` would."""
        ...

    def ddl(self, ddl: Ddl) -> None:
        """Take a statement; it is safe when this returns."""
        ...

    def watermark(self, ts: int, tables: Iterable[TableName]) -> None:
        """Send a watermark: all changes of these tables up to ``ts`` have been sent, which must be true."""
        ...

    def flush(self) -> None:
        """Return when all changes are safe; raise an error if that fails."""
        ...

    def close(self) -> None:
        """Close connections and files. What was not flushed may be lost."""
        ...


class PartitionCounts:
    """Remembers how many partitions topics have; ``count`` looks it up, and creates a missing topic.

    The default topic keeps its number for the life of the sink; other topics are looked up every ten minutes.
    """

    def __init__(
        self,
        count: Callable[[str], int],
        default_topic: str,
        partition_num: int | None = None,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        if partition_num is not None and partition_num < 1:
            raise ChangefeedError(KAFKA_INVALID, f"partition-num must be at least 1, not {partition_num}")
        self._count = count
        self._clock = clock
        self._fixed = {default_topic: _default_count(default_topic, partition_num, count(default_topic))}
        self._known: dict[str, tuple[float, int]] = {}

    def of(self, topic: str) -> int:
        """The partitions of a topic."""
        fixed = self._fixed.get(topic)
        if fixed is not None:
            return fixed
        at, count = self._known.get(topic, (None, 0))
        now = self._clock()
        if at is None or now - at >= REFRESH_SECONDS:
            count = self._count(topic)
            self._known[topic] = now, count
        return count


def _default_count(topic: str, wanted: int | None, real: int) -> int:
    """How many partitions of the default topic are used: ``partition-num`` may be smaller than the real number."""
    if wanted is not None and wanted > real:
        raise ChangefeedError(
            KAFKA_INVALID, f"partition-num is {wanted}, but topic {topic} has {real}; add partitions or ask for fewer"
        )
    return real if wanted is None else wanted


class MemoryQueue:
    """Topics in a dict, for tests and notebooks. ``counts`` are the partitions of topics with another number."""

    def __init__(self, partitions: int = 3, counts: Mapping[str, int] = {}) -> None:
        self.topics: dict[str, list[list[Message]]] = {topic: _empty(count) for topic, count in counts.items()}
        self.flushed: dict[tuple[str, int], int] = {}
        """How many messages of each partition are safe."""
        self._usual = partitions

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        return len(self.topics.setdefault(topic, _empty(self._usual)))

    def send(self, topic: str, partition: int, messages: Iterable[Message]) -> None:
        """Put messages at the end of a partition."""
        self.partitions(topic)
        self.topics[topic][partition].extend(messages)

    def flush(self) -> None:
        """Count what was sent as safe."""
        self.flushed = {
            (topic, number): len(messages)
            for topic, partitions in self.topics.items()
            for number, messages in enumerate(partitions)
        }

    def close(self) -> None:
        """Do nothing."""


def _empty(count: int) -> list[list[Message]]:
    return [[] for _ in range(count)]


class BlackholeSink:
    """Counts changes and drops them: to measure a source, or to see that it works."""

    def __init__(self) -> None:
        self.rows_taken = 0
        self.ddls_taken = 0

    def begin(self, tables: Sequence[TableSchema]) -> None:
        """Do nothing."""

    def rows(self, changes: Sequence[RowChange]) -> None:
        """Count changes."""
        self.rows_taken += len(changes)

    def columns(self, batch: RowBatch) -> None:
        """Count changes."""
        self.rows_taken += batch.rows.num_rows

    def ddl(self, ddl: Ddl) -> None:
        """Count a statement."""
        self.ddls_taken += 1

    def watermark(self, ts: int, tables: Iterable[TableName]) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""
