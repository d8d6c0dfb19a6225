"""Topics as a source: messages decoded, put in commit order at watermarks, and told once.

Without watermarks, changes are passed on in the order of their offsets, and gaps cannot be detected.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidewire.changefeed.source.base import Resolved, ResumePosition, Upstream
from tidewire.changefeed.source.topic.reader import Reader
from tidewire.changefeed.source.topic.schemas import Schemas
from tidewire.changefeed.source.topic.watermark_buffer import Partition, WatermarkBuffer
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.parking import Parking
from tidewire.errors import ChangefeedError, DecodeError
from tidewire.model import Ddl, Event, Message, Position, RowChange, TableSchema
from tidewire.model.tso import LOGICAL_BITS

UNREADABLE = "CDC:ErrDecodeFailed"
_WAIT_SECONDS = 0.2


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class TopicSource:
    """Messages of topics as a stream of changes. ``follow``: wait for more at the end, and do not end."""

    def __init__(
        self,
        reader: Reader,
        protocol_name: str,
        options: Options = Options(),
        resources: Resources = Resources(),
        *,
        follow: bool = True,
        clock: Callable[[], int] = _now_ms,
        wait: Callable[[float], Any] | None = None,
    ) -> None:
        codec = protocol(protocol_name)
        capabilities = codec.capabilities(options)
        self._reader = reader
        self._name = protocol_name
        self._options = options
        self._decoder: Parking[Position] = Parking(codec.Decoder(options, resources))
        self._has_watermarks = capabilities.watermark
        self._needs_schemas = capabilities.needs_schema
        self._follow = follow
        self._clock = clock
        self._closed = threading.Event()
        self._wait = self._closed.wait if wait is None else wait
        self._offsets: dict[Partition, int] = {}
        self._buffer = WatermarkBuffer()
        self._schemas = Schemas()
        self._start_ts = 0
        self._reading = False

    def now(self) -> int:
        """Before everything: a topic is read from its beginning."""
        return 0

    def tables(self) -> Sequence[TableSchema]:
        """A topic does not say before it is read."""
        return ()

    def read(self, start_ts: int, place: ResumePosition | None = None) -> Iterator[Upstream]:
        """The changes after a moment."""
        self._reading = True
        self._restore(start_ts, place or {})
        read_on = self._gated if self._has_watermarks else self._as_it_comes
        try:
            while not self._closed.is_set():
                self._look_for_partitions()
                before = dict(self._offsets)
                yield from read_on()
                if self._offsets == before and self._pause():
                    return
        finally:
            self._reader.close()

    def close(self) -> None:
        """A reading ends after what it has in hand, and lets go of the topics itself."""
        self._closed.set()
        if not self._reading:
            self._reader.close()

    def _pause(self) -> bool:
        """Nothing came: is this the end?"""
        if not self._follow and self._is_read(self._offsets):
            return True
        self._wait(_WAIT_SECONDS)
        return False

    def _is_read(self, partitions: Iterable[Partition]) -> bool:
        ends = self._reader.ends(partitions)
        return all(self._offsets[partition] >= end for partition, end in ends.items())

    def _is_topic_read(self, topic: str) -> bool:
        return self._is_read([partition for partition in self._offsets if partition.topic == topic])

    def _restore(self, start_ts: int, place: ResumePosition) -> None:
        offsets: Mapping[str, Mapping[str, int]] = place.get("offsets", {})
        self._offsets = {
            Partition(topic, int(number)): offset
            for topic, numbers in offsets.items()
            for number, offset in numbers.items()
        }
        self._buffer = WatermarkBuffer(released=start_ts)
        self._start_ts = 0 if place else start_ts
        self._buffer.expect(self._offsets)
        for message in self._schemas.restored(place.get("schemas", ()), self._name, self._options):
            list(self._decoder.decode(message, Position("", 0, 0)))

    def _look_for_partitions(self) -> None:
        for partition in self._reader.partitions():
            if partition not in self._offsets:
                self._offsets[partition] = self._reader.first(partition)
        self._buffer.expect(self._offsets)

    def _decoded(self) -> Iterator[tuple[Position, Event]]:
        for at, message in self._reader.read(self._offsets):
            self._offsets[Partition(at.topic, at.partition)] = at.offset + 1
            yield from self._events(at, message)

    def _events(self, at: Position, message: Message) -> Iterator[tuple[Position, Event]]:
        try:
            yield from self._decoder.decode(message, at)
        except DecodeError as error:
            raise ChangefeedError(UNREADABLE, f"the message at {at} cannot be read: {error}") from error

    def _gated(self) -> Iterator[Upstream]:
        before = self._buffer.released
        for at, event in self._decoded():
            if self._needs_schemas:
                self._schemas.heard(event)
            self._buffer.take(at, event)
        for event in self._buffer.release(self._is_topic_read):
            if self._needs_schemas:
                self._schemas.passed(event)
            yield event
        if self._buffer.released > before:
            yield Resolved(self._buffer.released, self._place(self._buffer.first_held()))

    def _as_it_comes(self) -> Iterator[Upstream]:
        before, start_ts = dict(self._offsets), self._start_ts
        for _, event in self._decoded():
            if isinstance(event, RowChange | Ddl) and (event.commit_ts is None or event.commit_ts > start_ts):
                yield event
        if self._offsets != before:
            yield Resolved(self._clock() << LOGICAL_BITS, self._place({}))

    def _place(self, first_held: Mapping[Partition, int]) -> ResumePosition:
        """Where to go on: before the first event of each partition that was not let through."""
        for at, _, _ in self._decoder.parked:
            partition = Partition(at.topic, at.partition)
            first_held = {**first_held, partition: min(at.offset, first_held.get(partition, at.offset))}
        offsets: dict[str, dict[str, int]] = {}
        for partition, offset in self._offsets.items():
            offsets.setdefault(partition.topic, {})[str(partition.number)] = first_held.get(partition, offset)
        return {"offsets": offsets, **({"schemas": self._schemas.plain()} if self._needs_schemas else {})}
