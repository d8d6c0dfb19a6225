"""How a changefeed brings a workload to topics: who hears what, and what shares a message.

Rows go to one partition each. DDL goes to all of them, in Canal-JSON to the first only; watermarks go to all. Simple
tells the schema of a table, a BOOTSTRAP, before its first row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple, assert_never

from tidewire.codec import Options, Resources, protocol
from tidewire.codec.avro.names import topic_of
from tidewire.codec.capabilities import Capabilities
from tidewire.dispatch import Rule, partition
from tidewire.model import Bootstrap, Ddl, Event, Message, RowChange, TableName, TableSchema, Watermark
from tidewire.workload.statements import Statement
from tidewire.workload.workload import Entry, ResolvedTs, Transaction

_MOST_TRANSACTIONS = 4
"""A changefeed sends what it has, so rows of a few transactions share messages where the protocol packs them."""


class Packet(NamedTuple):
    """Events that go to one partition at one time; rows of one packet may share messages."""

    topic: str
    partition: int
    events: tuple[Event, ...]

    @property
    def holds_rows(self) -> bool:
        """Is this about rows, and not broadcast?"""
        return isinstance(self.events[0], RowChange)


class Sent(NamedTuple):
    """A message on its way to a partition. ``bad`` names what is wrong with it, if something is."""

    topic: str
    partition: int
    message: Message
    bad: str | None = None


@dataclass(frozen=True, slots=True)
class Growth:
    """What happens after a moment is spread over more partitions than before."""

    after: int
    partitions: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """How a changefeed is set up.

    ``topic`` is the default one; Avro has a topic for each table. ``rule_of`` says how the rows of a table are spread.
    """

    protocol: str
    options: Options
    topic: str = "feed"
    partitions: int = 3
    rule_of: Callable[[TableSchema], Rule] = lambda table: Rule()
    growth: Growth | None = None

    @property
    def first_only(self) -> bool:
        """Does only the first partition hear of DDL?"""
        return self.protocol == "canal-json"

    @property
    def one_topic(self) -> bool:
        """Do all tables share a topic?"""
        return self.protocol != "avro"


def deliver(entries: Iterable[Entry], delivery: Delivery, random: Random) -> Iterator[Packet]:
    """The packets a changefeed makes of a workload, in the order it sends them."""
    return _Changefeed(delivery, random).run(entries)


@dataclass(slots=True)
class _Changefeed:
    delivery: Delivery
    random: Random
    waiting: list[RowChange] = field(default_factory=list)
    told: set[int | None] = field(default_factory=set)
    topics: dict[TableName, str] = field(default_factory=dict)
    count: int = 0

    def run(self, entries: Iterable[Entry]) -> Iterator[Packet]:
        delivery, transactions = self.delivery, self.random.randint(1, _MOST_TRANSACTIONS)
        self.count = delivery.partitions
        for entry in entries:
            growth = delivery.growth
            if growth is not None and entry.ts > growth.after and self.count != growth.partitions:
                yield from self._flush()
                self.count = growth.partitions
            match entry:
                case Transaction(_, rows):
                    self.waiting += rows
                    transactions -= 1
                    if transactions <= 0:
                        yield from self._flush()
                        transactions = self.random.randint(1, _MOST_TRANSACTIONS)
                case Statement(_, ddl, _):
                    yield from self._flush()
                    hearing = 1 if delivery.first_only else self.count
                    topic = self._topic(ddl.old_name or ddl.table)
                    yield from (Packet(topic, number, (ddl,)) for number in range(hearing))
                case ResolvedTs(ts):
                    yield from self._flush()
                    yield from self._watermark(ts)
                case _:
                    assert_never(entry)
        yield from self._flush()

    def _watermark(self, ts: int) -> Iterator[Packet]:
        for topic in dict.fromkeys((*self.topics.values(), self.delivery.topic)):
            yield from (Packet(topic, number, (Watermark(ts),)) for number in range(self.count))

    def _topic(self, table: TableName) -> str:
        return self.delivery.topic if self.delivery.one_topic else topic_of(table)

    def _flush(self) -> Iterator[Packet]:
        """Send the rows that wait, each table's schema before its first row."""
        groups: dict[tuple[str, int], list[Event]] = {}
        for row in self.waiting:
            topic = self.topics[row.table.name] = self._topic(row.table.name)
            if row.table.table_id not in self.told:
                self.told.add(row.table.table_id)
                yield from (Packet(topic, number, (Bootstrap(row.table),)) for number in range(self.count))
            at = (topic, partition(row, self.delivery.rule_of(row.table), self.count))
            groups.setdefault(at, []).append(row)
        self.waiting.clear()
        # Partitions are written to independently; their order is not guaranteed.
        places = list(groups)
        self.random.shuffle(places)
        yield from (Packet(*place, tuple(groups[place])) for place in places)


def encoded(packets: Iterable[Packet], delivery: Delivery, resources: Resources) -> Iterator[Sent]:
    """The packets as messages. What the protocol cannot say is left out only here, so that its order counts before."""
    codec = protocol(delivery.protocol)
    encoder, capabilities = codec.Encoder(delivery.options, resources), codec.capabilities(delivery.options)
    for topic, number, events in packets:
        for message in encoder.encode(event for event in events if _said(event, capabilities)):
            yield Sent(topic, number, message)


def _said(event: Event, capabilities: Capabilities) -> bool:
    match event:
        case RowChange():
            return True
        case Ddl():
            return capabilities.ddl is not None
        case Watermark():
            return capabilities.watermark
        case Bootstrap():
            return capabilities.bootstrap
        case _:
            assert_never(event)


def since(entries: Sequence[Entry], ts: int) -> list[Entry]:
    """What a changefeed sends that goes on after a watermark: the watermark again, and everything after it."""
    return [ResolvedTs(ts), *(entry for entry in entries if entry.ts > ts)]
