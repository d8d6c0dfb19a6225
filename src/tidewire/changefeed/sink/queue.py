"""The sink for queues: changes to messages, each in the topic and partition that TiCDC's rules give it.

Protocol Simple also sends the schema of a table: before its first row, then at intervals while the table has rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import NamedTuple

from tidewire.changefeed.config.dispatching import Projection
from tidewire.changefeed.config.settings import BootstrapSettings
from tidewire.changefeed.sink.base import Queue
from tidewire.changefeed.source.base import RowBatch, changes_of, table_key
from tidewire.codec import Encoder, Options, Resources, protocol
from tidewire.dispatch import Address, Broadcast, Dispatch, Dispatcher
from tidewire.model import Bootstrap, Ddl, Event, Message, RowChange, TableName, TableSchema, Watermark

CHECK_SECONDS = 5.0
SILENCE_CHECK_SECONDS = 30.0
SILENT_SECONDS = 30 * 60.0
"""A table without rows for this long is forgotten; its next row counts as the first one."""

_PACKING = frozenset({"open-protocol", "craft"})
"""Protocols with several rows in a message: only rows with the same partition key share one."""

_BY_TOPIC = frozenset({"avro"})
"""Protocols whose encoder depends on the topic: Avro names its schemas after it."""


class Due(NamedTuple):
    """A schema that is due to be sent to a topic."""

    topic: str
    table: TableSchema


@dataclass(slots=True)
class _Table:
    schema: TableSchema
    topic: str
    sent: float
    active: float
    rows: int = 0


class Bootstraps:
    """Remembers for each table when its schema was sent, and how many rows ago."""

    def __init__(self, settings: BootstrapSettings, clock: Callable[[], float] = monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._tables: dict[int | TableName, _Table] = {}
        self._checked = self._swept = clock()

    def note(self, table: TableSchema, topic: str, rows: int = 1) -> Due | None:
        """Note rows of a table; return the schema if it must be sent before them."""
        key = table_key(table)
        now, known = self._clock(), self._tables.get(key)
        if known is None:
            self._tables[key] = _Table(table, topic, now, now, rows)
            return Due(topic, table)
        known.schema, known.active = table, now
        known.rows += rows
        return None

    def changed(self, table: TableSchema) -> None:
        """Note the new schema of a table; it is sent from now on."""
        known = self._tables.get(table_key(table))
        if known is not None:
            known.schema = table

    def again(self) -> Iterator[Due]:
        """Yield the schemas that are due again; checks at most every few seconds, however often it is called."""
        now = self._clock()
        if now - self._swept >= SILENCE_CHECK_SECONDS:
            self._swept = now
            self._tables = {key: table for key, table in self._tables.items() if now - table.active < SILENT_SECONDS}
        if now - self._checked < CHECK_SECONDS:
            return
        self._checked = now
        for table in self._tables.values():
            if now - table.sent >= self._settings.interval_seconds or table.rows >= self._settings.message_count:
                table.sent, table.rows = now, 0
                yield Due(table.topic, table.schema)


class QueueSink:
    """Dispatches and encodes changes and sends them to a queue.

    Topics and partitions are computed from whole rows under their upstream names; ``projection`` is applied after.
    """

    def __init__(
        self,
        queue: Queue,
        dispatch: Dispatch,
        options: Options = Options(),
        resources: Resources = Resources(),
        bootstrap: BootstrapSettings = BootstrapSettings(),
        projection: Projection = Projection(),
        clock: Callable[[], float] = monotonic,
    ) -> None:
        name = dispatch.protocol
        self._queue = queue
        self._dispatch = dispatch
        self._options = options
        self._resources = resources
        self._broadcast = Broadcast(dispatch, name, options, bootstrap.to_all_partitions)
        self._projection = projection
        self._codec = protocol(name)
        self._encoders: dict[str, Encoder] = {}
        self._packs = name in _PACKING
        self._at_start = bootstrap.all_at_start
        sends_schemas = bootstrap.enabled and self._codec.capabilities(options).bootstrap
        self._bootstraps = Bootstraps(bootstrap, clock) if sends_schemas else None

    def begin(self, tables: Sequence[TableSchema]) -> None:
        """Send the schema of every table, if the configuration wants that at the start."""
        if self._bootstraps is not None and self._at_start:
            for table in tables:
                topic = self._dispatch.topic_of(table.name)
                self._bootstrap(self._bootstraps.note(self._projection.table(table), topic, rows=0))

    def rows(self, changes: Sequence[RowChange]) -> None:
        """Send changes. A partition keeps their order, or the order per partition key if rows share messages."""
        self._repeat_bootstraps()
        groups: dict[tuple[str, int, str], list[Event]] = {}
        for change in changes:
            topic = self._dispatch.topic_of(change.table.name)
            selected = self._projection.row(change)
            if self._bootstraps is not None:
                due = self._bootstraps.note(selected.table, topic)
                for number in self._bootstrap_partitions(due):
                    groups.setdefault((topic, number, ""), []).append(Bootstrap(selected.table))
            number = self._dispatch.partition(change, self._queue.partitions(topic))
            key = self._dispatch.partition_key(change) if self._packs else ""
            groups.setdefault((topic, number, key), []).append(selected)
        for (topic, number, _), events in groups.items():
            self._queue.send(topic, number, self._encoder(topic).encode(events))

    def columns(self, batch: RowBatch) -> None:
        """Send many changes of one table, without making an object of each where that is possible."""
        rule, table = self._dispatch.rule_of(batch.table.name), batch.table
        if self._projection.table(table) is not table or (self._packs and rule.dispatcher is not Dispatcher.TABLE):
            self.rows(list(changes_of(batch)))
            return
        from tidewire.arrow.encode import encode_batch
        from tidewire.arrow.policy import Policy
        from tidewire.changefeed.sink.columns import shares

        self._repeat_bootstraps()
        topic = self._dispatch.topic_of(table.name)
        if self._bootstraps is not None:
            self._bootstrap(self._bootstraps.note(table, topic, batch.rows.num_rows))
        options, policy = self._options_for(topic), Policy(batch.time_zone)
        for number, rows in shares(batch, rule, self._queue.partitions(topic)):
            made = encode_batch(self._dispatch.protocol, table, rows, options, self._resources, policy=policy)
            keys, values = (made.column(name).to_pylist() for name in ("key", "value"))
            self._queue.send(topic, number, map(Message, keys, values))

    def ddl(self, ddl: Ddl) -> None:
        """Send a statement and wait until it is safe."""
        sent = self._projection.ddl(ddl)
        self._send(self._broadcast.ddl(ddl, self._queue.partitions), sent)
        if self._bootstraps is not None and sent.table_schema is not None:
            self._bootstraps.changed(sent.table_schema)
        self._queue.flush()

    def watermark(self, ts: int, tables: Iterable[TableName]) -> None:
        """Send a watermark to the topics of these tables, the default topic last."""
        self._repeat_bootstraps()
        self._send(self._broadcast.watermark(tables, self._queue.partitions), Watermark(ts))

    def flush(self) -> None:
        """Wait until everything is safe."""
        self._queue.flush()

    def close(self) -> None:
        """Close the queue."""
        self._queue.close()

    def _send(self, addresses: Iterable[Address], event: Event) -> None:
        for topic, number in addresses:
            self._queue.send(topic, number, self._encoder(topic).encode([event]))

    def _encoder(self, topic: str) -> Encoder:
        name = topic if self._dispatch.protocol in _BY_TOPIC else ""
        encoder = self._encoders.get(name)
        if encoder is None:
            encoder = self._encoders[name] = self._codec.Encoder(self._options_for(topic), self._resources)
        return encoder

    def _options_for(self, topic: str) -> Options:
        return replace(self._options, topic=topic) if self._dispatch.protocol in _BY_TOPIC else self._options

    def _repeat_bootstraps(self) -> None:
        if self._bootstraps is not None:
            for due in self._bootstraps.again():
                self._bootstrap(due)

    def _bootstrap(self, due: Due | None) -> None:
        if due is not None:
            self._send((Address(due.topic, number) for number in self._bootstrap_partitions(due)), Bootstrap(due.table))

    def _bootstrap_partitions(self, due: Due | None) -> range:
        """The partitions that get a schema."""
        if due is None:
            return range(0)
        return range(self._queue.partitions(due.topic) if self._broadcast.bootstrap_everywhere else 1)
