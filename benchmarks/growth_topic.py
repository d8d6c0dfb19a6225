"""Topics for the question of growth: many small tables, or one with many rows, written a batch at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from tidewire.arrow import encode_batch
from tidewire.codec import Options, Resources, protocol
from tidewire.model import Column, Ddl, DdlType, Event, Index, Message, RowChange, TableName, TableSchema, Watermark
from tidewire.topic.files import FileTopics
from tidewire.workload.bulk import Bulk

OPTIONS = {"enable-tidb-extension": "true"}
TOPIC = "feed"
COLUMNS = 10
_START = 449_000_000_000_000_000
_SECOND = 1000 << 18


def table(number: int) -> TableSchema:
    """A table of ten columns."""
    texts = [Column.of(f"c{place}", "varchar(2000)") for place in range(1, COLUMNS)]
    return TableSchema.build(
        TableName("shop", f"t{number:04}"),
        [Column.of("id", "bigint", primary_key=True, nullable=False), *texts],
        [Index("primary", ("id",), unique=True, primary=True)],
        table_id=100 + number,
        version=1,
    )


@dataclass(slots=True)
class Growing:
    """A topic that gets a segment in every partition with each batch."""

    folder: Path
    tables: int = 1
    partitions: int = 1
    ts: int = _START

    def create(self) -> None:
        """Make all tables."""
        found: list[Event] = []
        for number in range(self.tables):
            self.ts += 1
            made = table(number)
            names = ", ".join(f"{column.name} {column.mysql_type}" for column in made.columns)
            query = f"CREATE TABLE `{made.name.table}` ({names}, PRIMARY KEY (id))"
            found.append(Ddl(made.name, self.ts, query, DdlType.CREATE_TABLE))
        self._send({0: found})

    def put(self, keys: Iterable[int], text: str, number: int = 0) -> None:
        """A transaction that writes rows of a table."""
        self.ts += _SECOND
        made, found = table(number), dict[int, list[Event]]()
        for key in keys:
            after = {"id": key} | {column.name: text for column in made.columns[1:]}
            change = RowChange(made, self.ts, None, after, table_id=made.table_id)
            found.setdefault(key % self.partitions, []).append(change)
        self._send(found)

    def put_in_all(self, keys: Iterable[int], text: str) -> None:
        """A transaction that writes rows of all tables."""
        self.ts += _SECOND
        found: list[Event] = []
        for made in map(table, range(self.tables)):
            names = [column.name for column in made.columns[1:]]
            found += [
                RowChange(made, self.ts, None, {"id": key, **dict.fromkeys(names, text)}, table_id=made.table_id)
                for key in keys
            ]
        self._send({0: found})

    def _send(self, events: dict[int, list[Event]]) -> None:
        encoder = protocol("canal-json").Encoder(Options.parse(OPTIONS))
        for number in range(self.partitions):
            messages: list[Message] = [*encoder.encode(events.get(number, ())), *encoder.encode([Watermark(self.ts)])]
            FileTopics(self.folder).append(TOPIC, number, messages)


def transaction(folder: Path, rows: int) -> None:
    """A topic with one transaction of so many rows, and the statement that made its table."""
    bulk, options = Bulk(1, rows, 6, inserts=1.0, updates=0.0), Options.parse(OPTIONS)
    encoder, topics = protocol("canal-json").Encoder(options), FileTopics(folder)
    topics.append(TOPIC, 0, list(encoder.encode([bulk.create()])))
    ts = bulk.create().commit_ts or 0
    for batch in _at_one_ts(bulk.changes(), ts + _SECOND):
        topics.append(TOPIC, 0, encode_batch("canal-json", bulk.table, batch, options, Resources()))
    topics.append(TOPIC, 0, list(encoder.encode([Watermark(ts + 2 * _SECOND)])))


def _at_one_ts(batches: Iterable[pa.RecordBatch], ts: int) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        place = batch.schema.get_field_index("_commit_ts")
        yield batch.set_column(place, "_commit_ts", pa.array([ts] * batch.num_rows, pa.int64()))
