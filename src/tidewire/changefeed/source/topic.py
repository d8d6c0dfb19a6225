"""Another changefeed's topics as a source: messages decoded, put in commit order at watermarks, each event once.

Without watermarks, changes are passed on in the order of their offsets, and gaps cannot be detected. The source URI is
the sink URI of the changefeed that fills the topics:
``kafka://broker:9092/topic,other?protocol=simple``, ``file-topic:///folder/topic?protocol=avro&schema-registry=…``, and
``file:///folder?protocol=…`` for all topics in a folder. ``follow=false`` ends where the topics end now.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from tidewire.changefeed.config.parameters import overlaid
from tidewire.changefeed.config.replica import DEFAULT
from tidewire.changefeed.config.resolve import resolved
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.config.uri import UNKNOWN_PROTOCOL, URI_INVALID, SinkKind, SinkURI
from tidewire.changefeed.source.base import Resolved, ResumePosition, Upstream, table_key
from tidewire.changefeed.source.watermark_buffer import Partition, WatermarkBuffer
from tidewire.codec import PROTOCOLS, Options, Resources, protocol
from tidewire.codec.parking import Parking
from tidewire.errors import ChangefeedError, DecodeError, MissingExtra
from tidewire.model import Bootstrap, Ddl, Event, Message, Position, RowChange, TableName, TableSchema
from tidewire.model.tso import LOGICAL_BITS
from tidewire.plain import event_from_plain, event_to_plain

UNREADABLE = "CDC:ErrDecodeFailed"
_WAIT_SECONDS = 0.2

_CLIENT = "source"
_FOLLOW: Mapping[str, bool] = {"true": True, "false": False}


class Reader(Protocol):
    """Topics to read."""

    def partitions(self) -> Sequence[Partition]:
        """The partitions that exist now."""
        ...

    def first(self, partition: Partition) -> int:
        """The offset of the first message a partition still has."""
        ...

    def read(self, offsets: Mapping[Partition, int]) -> Iterator[tuple[Position, Message]]:
        """Yield some of the next messages of each partition, in the order of offsets; none if there are no new ones."""
        ...

    def ends(self, partitions: Iterable[Partition]) -> Mapping[Partition, int]:
        """The offsets that the next messages of these partitions will get."""
        ...

    def close(self) -> None:
        """Close connections."""
        ...


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class TopicSource:
    """Messages of topics as a stream of changes. ``follow``: wait for more at the end of the topics."""

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
        """Always 0: a topic is read from its beginning."""
        return 0

    def tables(self) -> Sequence[TableSchema]:
        """Always empty: the tables of a topic are not known before it is read."""
        return ()

    def read(self, start_ts: int, place: ResumePosition | None = None) -> Iterator[Upstream]:
        """Yield the changes after a timestamp."""
        self._reading = True
        self._restore(start_ts, place or {})
        read_on = self._by_watermark if self._has_watermarks else self._by_offset
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
        """End a reading after its current messages; it closes the topics itself."""
        self._closed.set()
        if not self._reading:
            self._reader.close()

    def _pause(self) -> bool:
        """Wait for new messages; return True if the topics have ended."""
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
            raise ChangefeedError(UNREADABLE, f"the message at {at} cannot be decoded: {error}") from error

    def _by_watermark(self) -> Iterator[Upstream]:
        before = self._buffer.released
        for at, event in self._decoded():
            if self._needs_schemas:
                self._schemas.note_bootstrap(event)
            self._buffer.take(at, event)
        for event in self._buffer.release(self._is_topic_read):
            if self._needs_schemas:
                self._schemas.note_ddl(event)
            yield event
        if self._buffer.released > before:
            yield Resolved(self._buffer.released, self._place(self._buffer.first_held()))

    def _by_offset(self) -> Iterator[Upstream]:
        before, start_ts = dict(self._offsets), self._start_ts
        for _, event in self._decoded():
            if isinstance(event, RowChange | Ddl) and (event.commit_ts is None or event.commit_ts > start_ts):
                yield event
        if self._offsets != before:
            yield Resolved(self._clock() << LOGICAL_BITS, self._place({}))

    def _place(self, first_held: Mapping[Partition, int]) -> ResumePosition:
        """Where to resume: before the first event of each partition that was not released."""
        for at, _, _ in self._decoder.parked:
            partition = Partition(at.topic, at.partition)
            first_held = {**first_held, partition: min(at.offset, first_held.get(partition, at.offset))}
        offsets: dict[str, dict[str, int]] = {}
        for partition, offset in self._offsets.items():
            offsets.setdefault(partition.topic, {})[str(partition.number)] = first_held.get(partition, offset)
        return {"offsets": offsets, **({"schemas": self._schemas.plain()} if self._needs_schemas else {})}


class Schemas:
    """The schema of each table at the position up to which events were released.

    A reader needs them to resume in the middle of a topic, because Simple sends schemas apart from the rows.
    """

    def __init__(self) -> None:
        self._tables: dict[int | TableName, TableSchema] = {}

    def note_bootstrap(self, event: Event) -> None:
        """Note a schema that came before rows; a known one stays."""
        if isinstance(event, Bootstrap):
            self._tables.setdefault(table_key(event.table_schema), event.table_schema)

    def note_ddl(self, event: Event) -> None:
        """Note the schema after a released statement."""
        if isinstance(event, Ddl) and event.table_schema is not None:
            self._tables[table_key(event.table_schema)] = event.table_schema

    def plain(self) -> list[Any]:
        """All schemas, as plain JSON."""
        return [event_to_plain(Bootstrap(table)) for table in self._tables.values()]

    def restored(self, plain: Iterable[Any], name: str, options: Options) -> Iterator[Message]:
        """The messages that carry these schemas."""
        for line in plain:
            event = event_from_plain(line)
            self.note_bootstrap(event)
            yield from protocol(name).Encoder(options).encode([event])


def open_topics(uri: str) -> TopicSource:
    """The source behind a URI of topics."""
    parsed = SinkURI.parse(uri)
    follow = _FOLLOW.get(parsed.parameters.get("follow", "true").lower())
    if follow is None:
        raise ChangefeedError(URI_INVALID, f"{parsed}: follow must be true or false")
    config = overlaid(parsed, DEFAULT).config
    settings = resolved(parsed, config, config, _CLIENT)
    if settings.protocol not in PROTOCOLS:
        known = ", ".join(PROTOCOLS)
        raise ChangefeedError(
            UNKNOWN_PROTOCOL, f"{parsed}: give the protocol of the topics, as in ?protocol=simple; known are {known}"
        )
    reader = _READERS[settings.kind](settings)
    options = settings.options
    return TopicSource(reader, settings.protocol, options, Resources.of(options), follow=follow)


def _files(settings: Settings) -> Reader:
    try:
        from tidewire.changefeed.source.topic_files import FileReader
        from tidewire.topic.files import FileTopics
    except ImportError as error:
        raise MissingExtra("pyarrow", "arrow") from error
    return FileReader(FileTopics(settings.uri.folder), _names(settings))


def _kafka(settings: Settings) -> Reader:
    from tidewire.changefeed.source.topic_kafka import KafkaReader

    assert settings.kafka is not None
    names = _names(settings)
    if not names:
        raise ChangefeedError(URI_INVALID, f"{settings.uri} names no topic; write kafka://broker:9092/topic")
    return KafkaReader(settings.kafka, names)


def _names(settings: Settings) -> tuple[str, ...]:
    return tuple(name for name in settings.topic.split(",") if name)


_READERS: Mapping[SinkKind, Callable[[Settings], Reader]] = {
    SinkKind.KAFKA: _kafka,
    SinkKind.FILE_TOPIC: _files,
    SinkKind.STORAGE: _files,
}
