"""A topic that grows a transaction at a time: tables of a key and a text, written in Canal-JSON."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tidewire.codec import Options, protocol
from tidewire.model import Column, Ddl, DdlType, Event, Index, Message, RowChange, TableName, TableSchema, Watermark
from tidewire.spark.loop import Job
from tidewire.spark.report import PassReport, Point
from tidewire.topic.files import FileTopics

OPTIONS = {"enable-tidb-extension": "true"}
JOB = Job("canal-json", OPTIONS)
SECOND = 1000 << 18
_START = 449_000_000_000_000_000


def table(number: int, columns: int = 2) -> TableSchema:
    """The table of a number."""
    texts = [Column.of(f"c{place}", "longtext") for place in range(1, columns)]
    return TableSchema.build(
        TableName("shop", f"t{number:03}"),
        [Column.of("id", "bigint", primary_key=True, nullable=False), *texts],
        [Index("primary", ("id",), unique=True, primary=True)],
        table_id=100 + number,
        version=1,
    )


class Reports:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.all: list[PassReport] = []
        self.lines: list[str] = []

    def reached(self, point: Point) -> None:
        """A pass came to a point."""

    def finished(self, report: PassReport) -> None:
        """A pass is done."""
        self.all.append(report)

    def note(self, line: str) -> None:
        """There is something to say to people."""
        self.lines.append(line)


@dataclass(slots=True)
class Feed:
    """A changefeed played by hand. Every transaction is a segment in each partition that gets a message of it."""

    folder: Path
    tables: Sequence[TableSchema]
    partitions: int = 1
    topic_of: Callable[[TableSchema], str] = lambda table: "feed"
    ts: int = _START
    rows: dict[TableName, dict[int, str]] = field(default_factory=dict)

    @property
    def topics(self) -> FileTopics:
        """The topics there are."""
        return FileTopics(self.folder)

    def create(self) -> None:
        """Make all tables."""
        statements = []
        for each in self.tables:
            self.ts += 1
            names = ", ".join(f"{column.name} {column.mysql_type}" for column in each.columns)
            query = f"CREATE TABLE `{each.name.table}` ({names}, PRIMARY KEY (id))"
            statements.append(Ddl(each.name, self.ts, query, DdlType.CREATE_TABLE))
            self.rows[each.name] = {}
        self._send([(self.topic_of(each), 0, ddl) for each, ddl in zip(self.tables, statements, strict=True)])

    def put(
        self, keys: Iterable[int], text: str = "x", *, into: int = 0, stalled: Collection[int] = (), later: int = SECOND
    ) -> None:
        """One transaction that writes rows of a table; ``stalled`` partitions do not get the watermark after it."""
        self.ts += later
        chosen, found = self.tables[into], []
        others = {column.name: text for column in chosen.columns[1:]}
        for key in keys:
            old = self.rows[chosen.name].get(key)
            before = None if old is None else {"id": key} | dict.fromkeys(others, old)
            change = RowChange(chosen, self.ts, before, {"id": key, **others}, table_id=chosen.table_id)
            found.append((self.topic_of(chosen), key % self.partitions, change))
            self.rows[chosen.name][key] = text
        self._send(found, stalled)

    def mark(self) -> None:
        """A watermark for all partitions."""
        self.ts += SECOND
        self._send([])

    def _send(self, events: Iterable[tuple[str, int, Event]], stalled: Collection[int] = ()) -> None:
        encoder = protocol("canal-json").Encoder(Options.parse(OPTIONS))
        homes = {(self.topic_of(each), number) for each in self.tables for number in range(self.partitions)}
        messages: dict[tuple[str, int], list[Message]] = {home: [] for home in sorted(homes)}
        for topic, number, event in events:
            messages[topic, number] += encoder.encode([event])
        for home in messages:
            if home[1] not in stalled:
                messages[home] += encoder.encode([Watermark(self.ts)])
        for home, found in messages.items():
            if found:
                self.topics.append(*home, found)
