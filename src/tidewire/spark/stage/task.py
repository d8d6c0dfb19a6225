"""The executor's part: messages in, files of typed rows out, and a report of what else there was.

Messages of one task may come from several partitions and in any order of record batches. Nothing here looks at that
order; what depends on it is put together by the driver.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext

from tidewire.arrow import OpCode, Plan, Reject
from tidewire.arrow.declared_types import declared
from tidewire.errors import SchemaUnknown
from tidewire.model import Bootstrap, Ddl, Event, Message, MySQLType, Position, TableSchema, Watermark
from tidewire.spark.decoding import resources_of
from tidewire.spark.peek import MessageHeader, peek
from tidewire.spark.source import Fetcher, OffsetRange
from tidewire.spark.stage.files import MessageFile, RowFiles
from tidewire.spark.stage.mask import masked
from tidewire.spark.stage.reader import Before, Reader
from tidewire.storage import Storage
from tidewire.sync.manifest import FoundDdl, Parked, Partition, ReadRange, Rejected, StagedFile
from tidewire.sync.replays import Replays
from tidewire.sync.rules import Mask

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
class TaskReport:
    """What a task found. ``schemas`` are new ones, each with the position where it was first."""

    files: tuple[StagedFile, ...]
    ranges: tuple[tuple[Partition, ReadRange], ...]
    ddls: tuple[FoundDdl, ...]
    schemas: tuple[tuple[Position, TableSchema], ...]
    parked: tuple[Parked, ...]
    rejected: tuple[Rejected, ...]
    reject_files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RangeInput:
    """Read an offset range."""

    topic: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class FileInput:
    """Read messages again that were set aside in a file: those at ``offsets`` of a partition."""

    path: str
    topic: str
    partition: int
    offsets: tuple[int, ...]


Input: TypeAlias = RangeInput | FileInput
"""What a task reads."""


@dataclass(frozen=True, slots=True)
class Task:
    """Stages messages of one pass, in Spark tasks or in the driver."""

    epoch: int
    number: int
    reader: Reader
    replays: Replays
    storage: Storage
    fetcher: Fetcher

    @property
    def folder(self) -> str:
        """The folder of this pass, below those of staged, parked and rejected messages."""
        return f"{self.epoch:08}/{self.number:08}"

    def run(self, inputs: Iterable[Input]) -> TaskReport:
        """Stage messages and tell what there was."""
        run = _Run(self, _attempt())
        for each in inputs:
            run.read(each)
        return run.finish()


@dataclass(frozen=True, slots=True)
class Share:
    """What one Spark task stages."""

    task: Task
    inputs: tuple[Input, ...]

    def run(self) -> TaskReport:
        """Stage it."""
        return self.task.run(self.inputs)


def _of_file(storage: Storage, path: str) -> Iterator[pa.RecordBatch]:
    with storage.input(storage.relative(path)) as source, pq.ParquetFile(source) as file:
        yield from file.iter_batches(_READ_AT_ONCE, columns=["key", "value", "topic", "partition", "offset"])


def _attempt() -> str:
    """A name that no other attempt has, of this driver or another one."""
    context = TaskContext.get()
    numbers = "" if context is None else f"{context.partitionId():05}-{context.taskAttemptId()}-"
    return f"{numbers}{uuid.uuid4().hex}"


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
        self._ranges: list[tuple[Partition, ReadRange]] = []
        self._first_ts: int | None = None
        self._ddls: list[FoundDdl] = []
        self._schemas: dict[TableSchema, Position] = {}
        self._parked: list[Parked] = []
        self._rejected: list[Rejected] = []
        storage, folder = task.storage, task.folder
        self._rows = RowFiles(storage, f"staged/{folder}", attempt)
        self._parking = MessageFile(storage, f"parked/{folder}/{attempt}.parquet", _MESSAGE)
        self._rejects = MessageFile(storage, f"rejects/{folder}/{attempt}.parquet", REJECT)

    def read(self, given: Input) -> None:
        """Read an offset range, or messages of a file."""
        partition = Partition(given.topic, given.partition)
        if isinstance(given, FileInput):
            wanted = pa.array(given.offsets, pa.int64())
            for batch in _of_file(self._task.storage, given.path):
                own = pc.and_(pc.equal(batch["topic"], given.topic), pc.equal(batch["partition"], given.partition))
                self._take(partition, batch.filter(pc.and_(own, pc.is_in(batch["offset"], wanted))))
            return
        watermarks: list[tuple[int, int]] = []
        known, self._first_ts = len(self._rejected), None
        for batch in self._task.fetcher.batches(OffsetRange(partition, given.start, given.end)):
            watermarks += self._take(partition, batch)
        self._rejected[known:] = _with_watermarks(self._rejected[known:], watermarks)
        self._ranges.append((partition, ReadRange.of(given.start, given.end, watermarks, self._first_ts)))

    def _take(self, partition: Partition, messages: pa.RecordBatch) -> list[tuple[int, int]]:
        """Read messages of one partition; the watermarks among them, each with its offset."""
        if not messages.num_rows:
            return []
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
        controls = [control for control in decoded.controls if control[0] not in refused]
        watermarks = list(self._controls(partition, offsets, controls))
        for pos, missing in decoded.parked:
            self._park(_at(partition, offsets, pos), _message(messages, pos), missing)
        for reject in decoded.rejects:
            self._reject(_at(partition, offsets, reject.pos), reject)
        for pos, reason in sorted(refused.items()):
            message = _message(messages, pos)
            self._reject(_at(partition, offsets, pos), Reject(pos, reason, None, "value", message.key, message.value))
        return watermarks

    def _with_decimals(self, shape: TableSchema, rows: pa.RecordBatch) -> tuple[TableSchema, pa.RecordBatch]:
        """Rows with DECIMALs as they are declared, if all fit.

        The declaration may be older than the rows; then they either fit it none the less or stay as they were sent.
        Columns that will be hashed stay as they were sent, so that a hash does not depend on the other rows.
        """
        table = self._decimals.get(shape.name.folded)
        if table is None:
            return shape, rows
        hashed = {name.lower() for name, mask in self._reader.rules.masks(shape).items() if mask is Mask.HASH}
        known = {column.name.lower(): column for column in table.columns if column.name.lower() not in hashed}
        columns = [
            replace(column, length=known[column.name.lower()].length, decimal=known[column.name.lower()].decimal)
            if column.type is MySQLType.DECIMAL and column.length is None and column.name.lower() in known
            else column
            for column in shape.columns
        ]
        typed = replace(shape, columns=tuple(columns))
        if typed == shape:
            return shape, rows
        found, invalid = declared(rows, typed)
        return (shape, rows) if invalid else (typed, found)

    def finish(self) -> TaskReport:
        """Close all files and tell what there was."""
        self._parking.close()
        return TaskReport(
            files=tuple(self._rows.close()),
            ranges=tuple(self._ranges),
            ddls=tuple(self._ddls),
            schemas=tuple((at, schema) for schema, at in self._schemas.items()),
            parked=tuple(self._parked),
            rejected=tuple(self._rejected),
            reject_files=(self._rejects.path,) if self._rejects.close() else (),
        )

    def _wanted(
        self, partition: Partition, plan: Plan, rows: pa.RecordBatch, offsets: pa.Array, refused: dict[int, str]
    ) -> pa.RecordBatch:
        """The rows that are no replays, with ``_ts`` and ``_offset``; which of their messages cannot be used."""
        at = offsets.take(rows.column("_pos"))
        ts = rows.column("_commit_ts") if self._reader.has_watermarks else at
        rows = rows.append_column("_ts", ts).append_column("_offset", at)
        floor = self._task.replays.first(partition, plan.table.name)
        lowest = pc.min(ts).as_py()
        self._note_ts(lowest)
        if lowest is not None and lowest < floor:
            rows = rows.filter(pc.fill_null(pc.greater_equal(ts, floor), True))
        for reason, bad in self._flaws(plan, rows):
            for pos in pc.unique(rows.column("_pos").filter(bad)).to_pylist():
                refused.setdefault(pos, reason)
        return rows

    def _note_ts(self, ts: int | None) -> None:
        """Note the ts of a change, whether it is a replay or not."""
        if ts is not None and self._reader.has_watermarks:
            self._first_ts = ts if self._first_ts is None else min(ts, self._first_ts)

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
        if self._reader.has_watermarks:
            for pos, _, event in controls:
                if isinstance(event, Ddl) and event.commit_ts is None:
                    refused.setdefault(pos, _NO_TS)

    def _controls(
        self, partition: Partition, offsets: pa.Array, controls: list[tuple[int, int, Event]]
    ) -> Iterator[tuple[int, int]]:
        """Remember DDL and schemas; the watermarks come out, each with its offset."""
        for pos, sub, event in controls:
            at = _at(partition, offsets, pos)
            match event:
                case Watermark(ts):
                    yield at.offset, ts
                case Bootstrap(schema):
                    self._learn(at, schema)
                case Ddl():
                    self._note_ts(event.commit_ts)
                    self._ddls.append(FoundDdl(at, sub, event))
                    for known in (event.pre_table_schema, event.table_schema):
                        if known is not None:
                            self._learn(at, known)

    def _learn(self, at: Position, schema: TableSchema) -> None:
        """Remember a schema that is new, and where it was first."""
        if schema not in self._known:
            self._schemas[schema] = min(at, self._schemas.get(schema, at))

    def _peek(self, key: bytes | None, value: bytes | None) -> MessageHeader:
        if self._reader.form is not None:
            return self._reader.form.header(Message(key, value), self._options)
        return peek(self._reader.protocol, Message(key, value), self._options, self._resources)

    def _park(self, at: Position, message: Message, missing: SchemaUnknown) -> None:
        table, commit_ts = self._peek(message.key, message.value)
        if table is None or commit_ts is None:
            self._reject(at, Reject(0, missing.reason, None, "value", message.key, message.value))
            return
        ts = commit_ts if self._reader.has_watermarks else at.offset
        if self._task.replays.drops(Partition.of(at), table, ts):
            return
        self._parking.add({**_place(at), "key": message.key, "value": message.value})
        self._parked.append(Parked(at, table, missing.version, ts, self._parking.path))

    def _reject(self, at: Position, reject: Reject) -> None:
        told = self._peek(reject.key, reject.value)
        form = self._reader.form
        reason = f"{form.place(Message(reject.key, None))}: {reject.reason}" if form is not None else reject.reason
        data = Message(reject.key, reject.value) if self._reader.keep_rejected else Message(None, None)
        self._rejects.add(reject_row(at, reason, data, self._task.number, reject.part, reject.at))
        self._rejected.append(Rejected(at, reason, table=told.table, commit_ts=told.commit_ts))


def _with_watermarks(rejected: list[Rejected], watermarks: list[tuple[int, int]]) -> Iterator[Rejected]:
    """Rejects of a range, each with the largest watermark before it in the range."""
    rest, largest = iter(watermarks), 0
    found = next(rest, None)
    for each in sorted(rejected, key=lambda each: each.at.offset):
        while found is not None and found[0] < each.at.offset:
            largest, found = max(largest, found[1]), next(rest, None)
        yield replace(each, after=largest)


def _at(partition: Partition, offsets: pa.Array, pos: int) -> Position:
    return Position(partition.topic, partition.number, offsets[pos].as_py())


def _place(at: Position) -> Mapping[str, str | int]:
    return {"topic": at.topic, "partition": at.partition, "offset": at.offset}


def reject_row(
    at: Position, reason: str, data: Message, batch: int, part: str | None = "value", place: int | str | None = None
) -> dict[str, Any]:
    """A row of the rejects table. ``place`` is where in the ``part`` of the message the fault is."""
    return {
        **_place(at),
        "key": data.key,
        "value": data.value,
        "reason": reason,
        "at": None if place is None else str(place),
        "part": part,
        "batch": batch,
    }


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
