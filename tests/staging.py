"""Staging in tests: topics, the rows in staged files, and what the readable codec says they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import topic_files
from tidewire.arrow import BatchDecoder, Policy
from tidewire.codec import Options, Resources, protocol
from tidewire.errors import TidewireError
from tidewire.model import Column, Event, Index, Message, Position, RowChange, TableName, TableSchema
from tidewire.plain import message_from_plain
from tidewire.spark.source import Extent, OffsetRange
from tidewire.spark.source.base import MessageOffsets
from tidewire.spark.stage import Reader
from tidewire.spark.stage.task import TaskReport
from tidewire.sync.manifest import Manifest, Partition
from tidewire.topic.files import FileTopics

Messages = Mapping[Position, Message]
Rows = dict[tuple[Position, int], dict[str, Any]]


def recorded(topic: str, name: str) -> Messages:
    """The messages of a whole topic; a topic without a name of its own is ``t``."""
    return {
        Position(line.get("topic", "t"), line["partition"], line["offset"]): message_from_plain(line)
        for line in topic_files.lines(topic, name)
    }


def reader(topic: str, name: str, folder: Path) -> Reader:
    """How a whole topic is read."""
    base = name.removesuffix(".faults")
    settings = {option: str(value) for option, value in topic_files.expected(topic)["options"][base].items()}
    if base == "simple-avro":
        settings["encoding-format"] = "avro"
    if base == "avro":
        schemas = folder / f"{topic}.schemas.json"
        schemas.write_text(topic_files.read(topic, "avro.schemas.json"))
        settings["schema-registry"] = f"file:{schemas}"
    return Reader(topic_files.PROTOCOLS.get(base, base), settings, has_watermarks=base != "avro")


def written(messages: Messages, folder: Path) -> FileTopics:
    """The messages as topics in files."""
    topics = FileTopics(folder)
    with topics.appending() as appending:
        for at, message in messages.items():
            appending.add(at, message)
    return topics


def ends(topics: FileTopics) -> dict[Partition, int]:
    """Where the partitions end."""
    return {Partition(*at): end for at, end in topics.ends().items()}


@dataclass(frozen=True, slots=True)
class MemoryFetcher:
    """Reads messages that it carries along, some of them in each record batch. Offsets may have gaps.

    ``trouble`` is raised instead, if it is set.
    """

    messages: Messages
    at_once: int = 16384
    trouble: TidewireError | None = None

    def batches(self, range_: OffsetRange) -> Iterator[pa.RecordBatch]:
        """The messages of a range in order of offset."""
        if self.trouble is not None:
            raise self.trouble
        wanted = sorted(
            at
            for at in self.messages
            if Partition.of(at) == range_.partition and range_.start <= at.offset < range_.end
        )
        for start in range(0, len(wanted), self.at_once):
            yield record_batch({at: self.messages[at] for at in wanted[start : start + self.at_once]})


@dataclass(slots=True)
class MemorySource(MessageOffsets):
    """Topics in memory. ``ends`` are partitions that end after their last message, as with transaction markers."""

    messages: dict[Position, Message]
    ends: dict[Partition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    trouble: TidewireError | None = None
    max_messages: int = 1_000_000
    told: dict[Partition, int] = field(default_factory=dict)
    uri: str = "memory:"
    identity: str = "memory:"
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def fetcher(self) -> MemoryFetcher:
        """Reads messages, here or on an executor."""
        return MemoryFetcher(dict(self.messages), trouble=self.trouble)

    def partitions(self) -> Mapping[Partition, Extent]:
        """All partitions there are now."""
        found: dict[Partition, list[int]] = {at: [] for at in self.ends}
        for at in self.messages:
            found.setdefault(Partition.of(at), []).append(at.offset)
        return {
            at: Extent(
                min(offsets, default=0),
                max([self.ends.get(at, 0), *(offset + 1 for offset in offsets)]),
                self.topic_ids.get(at.topic),
            )
            for at, offsets in sorted(found.items())
        }

    def sample(self, count: int) -> list[Message]:
        """The first messages of every partition."""
        return [
            message
            for partition in self.partitions()
            for message in [self.messages[at] for at in sorted(self.messages) if Partition.of(at) == partition][:count]
        ]

    def fetch(self, positions: Iterable[Position]) -> Mapping[Position, Message]:
        """The messages at some positions."""
        return {at: self.messages[at] for at in positions if at in self.messages}

    def holes(self) -> Mapping[Partition, int]:
        """None: gaps are normal."""
        return {}

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Remember what was told."""
        self.told = dict(offsets)

    def close(self) -> None:
        """Nothing is open."""


def record_batch(messages: Messages) -> pa.RecordBatch:
    """Messages in the columns a task takes."""
    rows = [
        {"key": message.key, "value": message.value, "topic": at.topic, "partition": at.partition, "offset": at.offset}
        for at, message in messages.items()
    ]
    types = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
    }
    return pa.RecordBatch.from_pylist(rows, pa.schema(types))


def staged(report: Manifest | TaskReport) -> Rows:
    """The rows in the staged files by their places, checked against what is said of each file."""
    found: Rows = {}
    for file in report.files:
        rows = pq.read_table(file.path).to_pylist()
        assert len(rows) == file.rows
        assert (file.min_ts, file.max_ts) == (min(row["_ts"] for row in rows), max(row["_ts"] for row in rows))
        offsets = [row["_offset"] for row in rows]
        assert (file.first_offset, file.last_offset) == (min(offsets), max(offsets))
        for row in rows:
            place = Position(file.partition.topic, file.partition.number, row.pop("_offset")), row.pop("_sub")
            assert place not in found
            found[place] = {"table": file.table, **row}
    return found


def read_by_codec(messages: Messages, reader: Reader, resources: Resources) -> tuple[Rows, set[Position]]:
    """The rows as the readable codec has them, and the messages that hold none because a value fits no column."""
    options = Options.parse(reader.options)
    policy = Policy(options.time_zone, lost_floats=reader.protocol == "craft")
    decoder = BatchDecoder(reader.protocol, options, resources, policy=policy, fast=False)
    decoded = decoder.decode(record_batch(messages))
    places = list(messages)
    found: Rows = {}
    for plan, batch in decoded.batches:
        for row in batch.to_pylist():
            at, sub, ts = places[row.pop("_pos")], row.pop("_sub"), row.pop("_commit_ts")
            del row["_key_only"]
            found[at, sub] = {"table": plan.table.name, "_ts": ts if reader.has_watermarks else at.offset, **row}
    return found, {places[reject.pos] for reject in decoded.rejects}


def without_paths(manifest: Manifest) -> Any:
    """A manifest as it should be again when the same offsets are staged again."""
    files = [(file.shape, file.partition, file.rows, file.min_ts, file.max_ts) for file in manifest.files]
    parked = [(parked.at, parked.table, parked.version, parked.commit_ts) for parked in manifest.parked]
    return files, manifest.read, manifest.ddls, manifest.schemas, parked, manifest.rejected


TABLE = TableSchema.build(
    TableName("test", "t"),
    [Column.of("id", "bigint", primary_key=True, nullable=False), Column.of("v", "varchar(2000)")],
    [Index("primary", ("id",), unique=True, primary=True)],
    table_id=7,
    version=100,
)
OTHER = replace(TABLE, name=TableName("test", "other"), table_id=8)


def insert(id_: int, ts: int | None, v: str | None = "x", table: TableSchema = TABLE) -> RowChange:
    """A row that came."""
    return RowChange(table, ts, after={"id": id_, "v": v}, table_id=table.table_id)


def delete(id_: int, ts: int | None, v: str | None = "x", table: TableSchema = TABLE) -> RowChange:
    """A row that went."""
    return RowChange(table, ts, before={"id": id_, "v": v}, table_id=table.table_id)


def encoded(
    reader: Reader, *events: Event | bytes, partition: int = 0, first: int = 0, resources: Resources = Resources()
) -> Messages:
    """Each event as a message of its own at successive offsets; bytes stand for a message that cannot be read."""
    encoder = protocol(reader.protocol).Encoder(Options.parse(reader.options), resources)
    messages = [
        message
        for event in events
        for message in ([Message(None, event)] if isinstance(event, bytes) else encoder.encode([event]))
    ]
    return {Position("t", partition, first + number): message for number, message in enumerate(messages)}
