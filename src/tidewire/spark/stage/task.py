"""The executor's part: messages in, files of typed rows out, and a report of what else there was.

Messages of one task may come from several partitions and in any order of record batches. Nothing here looks at that
order; what depends on it is put together by the driver.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext

from tidewire.arrow import OpCode, Plan, Reject
from tidewire.arrow.declare import declared
from tidewire.errors import SchemaUnknown
from tidewire.model import Bootstrap, Ddl, Event, Message, MySQLType, Position, TableSchema, Watermark
from tidewire.spark.kafka_fetch import PREFIX, Range, fetched
from tidewire.spark.stage.files import NOWHERE, MessageFile, RowFiles, widened
from tidewire.spark.stage.glance import Told, glance
from tidewire.spark.stage.masking import masked
from tidewire.spark.stage.reader import Before, Reader, resources_of
from tidewire.spark.stage.report import Report
from tidewire.spark.work import Work, open_filesystem
from tidewire.sync.floors import Floors
from tidewire.sync.manifest import FoundDdl, Manifest, Parked, Partition, ReadRange, Rejected, newest

COLUMNS = ("key", "value", "topic", "partition", "offset")
"""What a task needs of a message."""

SEGMENT = "segment"
"""The one column of a batch of files: a task reads their messages itself, and they never pass through Java."""

_READ_AT_ONCE = 16384

_MESSAGE = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
    }
)
REJECT = pa.schema(
    [
        *_MESSAGE,
        pa.field("reason", pa.string()),
        pa.field("at", pa.string()),
        pa.field("part", pa.string()),
        pa.field("batch", pa.int64()),
    ]
)

_NO_TS = "no commit ts: with enable-tidb-extension=true TiCDC sends it, without it rows are applied in order of offset"
_KEY_ONLY = (
    "the message was too large, so that only the handle key was sent and the other columns are unknown; "
    "set large-message-handle-option to claim-check, or raise max-message-bytes, and replay the row"
)
_NO_COLUMNS = "a row without any column"


@dataclass(frozen=True, slots=True)
class Task:
    """What ``mapInArrow`` runs. ``only`` are the parked messages to read again; they count as read already."""

    batch: int
    reader: Reader
    floors: Floors
    work: Work
    only: frozenset[Position] | None = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = _Run(self, _attempt())
        for batch in opened(batches):
            for partition, messages in by_partition(batch):
                run.take(partition, messages)
        yield pa.record_batch({"report": [run.finish().to_json()]})


def opened(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches of messages, out of such batches or batches of files with messages."""
    for batch in batches:
        if batch.schema.names != [SEGMENT]:
            yield batch
            continue
        for name in batch.column(SEGMENT).to_pylist():
            yield from fetched(Range.parse(name)) if name.startswith(PREFIX) else _of_file(name)


def _of_file(uri: str) -> Iterator[pa.RecordBatch]:
    filesystem, path = open_filesystem(uri)
    with pq.ParquetFile(filesystem.open_input_file(path)) as file:
        yield from file.iter_batches(_READ_AT_ONCE, columns=list(COLUMNS))


def _attempt() -> str:
    """A name that no other attempt has, of this driver or another one."""
    context = TaskContext.get()
    numbers = "" if context is None else f"{context.partitionId():05}-{context.taskAttemptId()}-"
    return f"{numbers}{uuid.uuid4().hex}"


def by_partition(batch: pa.RecordBatch) -> Iterator[tuple[Partition, pa.RecordBatch]]:
    """The messages of each partition in a batch."""
    topics, numbers = pc.unique(batch.column("topic")), pc.unique(batch.column("partition"))
    alone = len(topics) == len(numbers) == 1
    for topic in topics:
        for number in numbers:
            mask = pc.and_(pc.equal(batch.column("topic"), topic), pc.equal(batch.column("partition"), number))
            messages = batch if alone else batch.filter(mask)
            if messages.num_rows:
                yield Partition(topic.as_py(), number.as_py()), messages


class _Range:
    """What a task has read of a partition."""

    def __init__(self) -> None:
        self.bounds = NOWHERE
        self.watermarks: list[tuple[int, int]] = []

    def add(self, offsets: pa.Array) -> None:
        self.bounds = widened(self.bounds, offsets)

    def found(self) -> ReadRange:
        first, last = self.bounds
        return ReadRange(first, last + 1, *newest(ts for _, ts in self.watermarks))


def rising(watermarks: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The watermarks that are above all before them, in the order of their offsets."""
    highest = 0
    for offset, ts in sorted(watermarks):
        if ts > highest:
            highest = ts
            yield offset, ts


class _Run:
    """One attempt of a task."""

    def __init__(self, task: Task, attempt: str) -> None:
        self._task = task
        self._reader = task.reader
        self._decoder = task.reader.decoder()
        self._options = task.reader.parsed()
        self._policy = task.reader.policy()
        self._resources = resources_of(self._options)
        self._known = frozenset(task.reader.schemas)
        self._decimals = task.reader.decimals()
        self._ranges: dict[Partition, _Range] = {}
        self._ddls: list[FoundDdl] = []
        self._schemas: dict[TableSchema, Position] = {}
        self._parked: list[Parked] = []
        self._rejected: list[Rejected] = []
        work, batch = task.work, str(task.batch)
        self._rows = RowFiles(work, f"staged/{batch}", attempt)
        self._parking = MessageFile(work, work.path("parked", batch, f"{attempt}.parquet"), _MESSAGE)
        self._rejects = MessageFile(work, work.path("rejects", batch, f"{attempt}.parquet"), REJECT)

    def take(self, partition: Partition, messages: pa.RecordBatch) -> None:
        """Read messages of one partition."""
        only = self._task.only
        if only is not None:
            offsets = messages.column("offset").to_pylist()
            wanted = [Position(partition.topic, partition.number, offset) in only for offset in offsets]
            messages = messages.filter(pa.array(wanted))
        if not messages.num_rows:
            return
        offsets = messages.column("offset")
        decoded = self._decoder.decode(messages)
        refused: dict[int, str] = {}
        wanted_rows = [
            (plan, self._wanted(partition, plan, rows, offsets, refused))
            for plan, rows in decoded.batches
            if self._reader.rules.wants(plan.table.name)
        ]
        self._refuse_untimed(decoded.controls, refused)
        for plan, rows in wanted_rows:
            if refused:
                rows = rows.filter(pc.invert(pc.is_in(rows.column("_pos"), pa.array(refused, pa.int32()))))
            if rows.num_rows:
                shape, rows = self._with_decimals(plan.table, rows)
                rows = masked(rows, shape, self._reader.rules, self._policy)
                self._rows.add(partition, shape, staged(shape, rows, self._reader.before))
        self._found(partition, offsets, [control for control in decoded.controls if control[0] not in refused])
        for pos, missing in decoded.parked:
            self._park(_at(partition, offsets, pos), _message(messages, pos), missing)
        for reject in decoded.rejects:
            self._reject(_at(partition, offsets, reject.pos), reject)
        for pos, reason in sorted(refused.items()):
            message = _message(messages, pos)
            self._reject(_at(partition, offsets, pos), Reject(pos, reason, None, "value", message.key, message.value))

    def _with_decimals(self, shape: TableSchema, rows: pa.RecordBatch) -> tuple[TableSchema, pa.RecordBatch]:
        """Rows with DECIMALs as they are declared, if all fit.

        The declaration may be older than the rows; then they either fit it none the less or stay as they were sent.
        """
        table = self._decimals.get(shape.name.folded)
        if table is None:
            return shape, rows
        known = {column.name.lower(): column for column in table.columns}
        columns = [
            replace(column, length=known[column.name.lower()].length, decimal=known[column.name.lower()].decimal)
            if column.type is MySQLType.DECIMAL and column.length is None and column.name.lower() in known
            else column
            for column in shape.columns
        ]
        typed = replace(shape, columns=tuple(columns))
        if typed == shape:
            return shape, rows
        found, misfits = declared(rows, typed)
        return (shape, rows) if misfits else (typed, found)

    def finish(self) -> Report:
        """Close all files and tell what there was."""
        self._parking.close()
        manifest = Manifest(
            self._task.batch,
            files=tuple(self._rows.close()),
            read={partition: read.found() for partition, read in self._ranges.items()},
            ddls=tuple(self._ddls),
            schemas=tuple(self._schemas),
            parked=tuple(self._parked),
            rejected=tuple(self._rejected),
            reject_files=(self._rejects.path,) if self._rejects.close() else (),
        )
        marks = {partition: tuple(rising(read.watermarks)) for partition, read in self._ranges.items()}
        return Report(manifest, marks, tuple(self._schemas.values()))

    def _wanted(
        self, partition: Partition, plan: Plan, rows: pa.RecordBatch, offsets: pa.Array, refused: dict[int, str]
    ) -> pa.RecordBatch:
        """The rows that are no replays, with ``_ts`` and ``_offset``; which of their messages cannot be used."""
        at = offsets.take(rows.column("_pos"))
        ts = rows.column("_commit_ts") if self._reader.gated else at
        rows = rows.append_column("_ts", ts).append_column("_offset", at)
        floor = self._task.floors.first(partition, plan.table.name)
        lowest = pc.min(ts).as_py()
        if lowest is not None and lowest < floor:
            rows = rows.filter(pc.fill_null(pc.greater_equal(ts, floor), True))
        for reason, bad in self._flaws(plan, rows):
            for pos in pc.unique(rows.column("_pos").filter(bad)).to_pylist():
                refused.setdefault(pos, reason)
        return rows

    def _flaws(self, plan: Plan, rows: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
        """Why rows cannot be used, and which."""
        if rows.column("_ts").null_count:
            yield _NO_TS, rows.column("_ts").is_null()
        key_only = rows.column("_key_only")
        if key_only.true_count:
            yield _KEY_ONLY, pc.and_(key_only, pc.not_equal(rows.column("_op"), int(OpCode.DELETE)))
        if not plan.columns:
            yield _NO_COLUMNS, pa.repeat(True, rows.num_rows)

    def _refuse_untimed(self, controls: list[tuple[int, int, Event]], refused: dict[int, str]) -> None:
        if self._reader.gated:
            for pos, _, event in controls:
                if isinstance(event, Ddl) and event.commit_ts is None:
                    refused.setdefault(pos, _NO_TS)

    def _found(self, partition: Partition, offsets: pa.Array, controls: list[tuple[int, int, Event]]) -> None:
        if self._task.only is not None:
            return  # what is parked are rows
        read = self._ranges.setdefault(partition, _Range())
        read.add(offsets)
        for pos, sub, event in controls:
            at = _at(partition, offsets, pos)
            match event:
                case Watermark(ts):
                    read.watermarks.append((at.offset, ts))
                case Bootstrap(schema):
                    self._learn(at, schema)
                case Ddl():
                    self._ddls.append(FoundDdl(at, sub, event))
                    for known in (event.pre_table_schema, event.table_schema):
                        if known is not None:
                            self._learn(at, known)

    def _learn(self, at: Position, schema: TableSchema) -> None:
        """Remember a schema that is new, and where it was first."""
        if schema not in self._known:
            self._schemas[schema] = min(at, self._schemas.get(schema, at))

    def _told(self, key: bytes | None, value: bytes | None) -> Told:
        return glance(self._reader.protocol, Message(key, value), self._options, self._resources)

    def _park(self, at: Position, message: Message, missing: SchemaUnknown) -> None:
        table, commit_ts = self._told(message.key, message.value)
        if table is None or commit_ts is None:
            self._reject(at, Reject(0, missing.reason, None, "value", message.key, message.value))
            return
        ts = commit_ts if self._reader.gated else at.offset
        if self._task.floors.drops(Partition.of(at), table, ts):
            return
        self._parking.add({**_place(at), "key": message.key, "value": message.value})
        self._parked.append(Parked(at, table, missing.version, ts, self._parking.path))

    def _reject(self, at: Position, reject: Reject) -> None:
        told = self._told(reject.key, reject.value)
        self._rejects.add(
            {
                **_place(at),
                "key": reject.key if self._reader.keep_rejected else None,
                "value": reject.value if self._reader.keep_rejected else None,
                "reason": reject.reason,
                "at": None if reject.at is None else str(reject.at),
                "part": reject.part,
                "batch": self._task.batch,
            }
        )
        self._rejected.append(Rejected(at, reject.reason, table=told.table, commit_ts=told.commit_ts))


def _at(partition: Partition, offsets: pa.Array, pos: int) -> Position:
    return Position(partition.topic, partition.number, offsets[pos].as_py())


def _place(at: Position) -> Mapping[str, str | int]:
    return {"topic": at.topic, "partition": at.partition, "offset": at.offset}


def _message(messages: pa.RecordBatch, pos: int) -> Message:
    return Message(messages.column("key")[pos].as_py(), messages.column("value")[pos].as_py())


_STAGED = ("_op", "_ts", "_offset", "_sub", "_partition", "after", "before", "_absent")


def staged(shape: TableSchema, rows: pa.RecordBatch, before: Before) -> pa.RecordBatch:
    """Rows in the columns of a staged file."""
    rows = rows.select(list(_STAGED))
    key = shape.handle_key
    if before is Before.ALL or not key:
        return rows
    old = rows.column("before")
    fields = [field for field in old.type if field.name in key]
    arrays = [old.field(field.name) for field in fields]
    return rows.set_column(
        rows.schema.get_field_index("before"),
        pa.field("before", pa.struct(fields)),
        pa.StructArray.from_arrays(arrays, fields=fields, mask=old.is_null()),
    )
