"""Hand-written topics: a few messages, read one piece at a time."""

from __future__ import annotations

from dataclasses import replace

from sync.consumer import Batch, Consumer
from sync.histories import Event, Message
from sync.upstream import DdlEvent, RowEvent, column
from tidewire.ddl.edits import Edit
from tidewire.model import Ddl, Row, TableName, TableSchema, Value, Watermark
from tidewire.sync.manifest import Partition
from tidewire.sync.plan import Planned

P0, P1, P2 = (Partition("feed", number) for number in range(3))
T = TableName("d", "t")
SHAPE = TableSchema(T, (column("id", "int", True), column("v", "varchar(20)")))


def shaped(name: TableName, version: int | None = None) -> TableSchema:
    """The usual columns under another name."""
    return replace(SHAPE, name=name, version=version)


def row(ts: int, before: Row | None, after: Row | None, table: TableSchema = SHAPE) -> RowEvent:
    """A row change."""
    return RowEvent(ts, table, before, after, 0)


def put(ts: int, key: int, value: Value, table: TableSchema = SHAPE) -> RowEvent:
    """A row that is new, or new to us."""
    return row(ts, None, {"id": key, "v": value}, table)


def delete(ts: int, key: int, value: Value, table: TableSchema = SHAPE) -> RowEvent:
    """A row that goes."""
    return row(ts, {"id": key, "v": value}, None, table)


def ddl(ts: int, *edits: Edit, table: TableName = T, query: str | None = None) -> DdlEvent:
    """A statement; its text stands for what it does."""
    return DdlEvent(ts, Ddl(table, ts, query or repr(edits)), edits, frozenset({table}), table)


class Scene(Consumer):
    """Partitions that are written and read by hand."""

    def __init__(self, *partitions: Partition, schemas_first: bool = False) -> None:
        self.topics: dict[Partition, list[Message]] = {partition: [] for partition in partitions or (P0,)}
        super().__init__(self.topics, schemas_first=schemas_first)
        self.positions: dict[Partition, int] = {}
        self.number = 0

    def send(self, to: Partition, *events: Event) -> None:
        """Write messages of one event each."""
        for event in events:
            self.send_together(to, event)

    def send_together(self, to: Partition, *events: Event) -> None:
        """Write one message of several events."""
        self.topics.setdefault(to, []).append(Message(0.0, events))

    def everywhere(self, event: Event) -> None:
        """Write an event into all partitions."""
        for partition in self.topics:
            self.send(partition, event)

    def next(self, *partitions: Partition) -> Batch:
        """The batch that reads what is new in some partitions, or in all."""
        read = {
            partition: (self.positions.get(partition, 0), len(messages))
            for partition, messages in self.topics.items()
            if (not partitions or partition in partitions) and len(messages) > self.positions.get(partition, 0)
        }
        self.number += 1
        return Batch(self.number, read, {partition: len(messages) for partition, messages in self.topics.items()})

    def next_message(self, partition: Partition) -> Batch:
        """The batch that reads one message."""
        at = self.positions.get(partition, 0)
        return replace(self.next(partition), read={partition: (at, at + 1)})

    def commit(self, planned: Planned) -> None:
        """Keep the state, and go on from where it is."""
        super().commit(planned)
        self.positions = {at: progress.next or 0 for at, progress in planned.state.frontier.partitions.items()}

    def read(self, *partitions: Partition) -> Planned:
        """Work off what is new in some partitions, or in all."""
        return self.work(self.next(*partitions))

    def flow(self, *events: Event) -> Planned:
        """Write to the first partition, and read."""
        self.send(next(iter(self.topics)), *events)
        return self.read()

    def table(self, name: TableName = T) -> dict[Value, Value] | None:
        """The rows of a table of the usual columns, value by key; nothing where there is no such table."""
        table = self.target.tables.get(name)
        return None if table is None else {row["id"]: row["v"] for row in table.rows.values()}

    def full(self, name: TableName = T) -> list[Row]:
        """All rows of a table, in the order of their keys."""
        return [row for _, row in sorted(self.target.tables[name].rows.items(), key=repr)]


def watermark(ts: int) -> Watermark:
    """Everything up to here has been sent."""
    return Watermark(ts)
