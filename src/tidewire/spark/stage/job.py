"""The driver's part of staging: one Spark job, or the same code here, and one manifest of what was found."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Final

from pyspark.sql import SparkSession

from tidewire.model import Message, Position, TableSchema
from tidewire.spark.source import OffsetRange, Source
from tidewire.spark.stage.files import MessageFile
from tidewire.spark.stage.reader import Reader
from tidewire.spark.stage.task import REJECT, FileInput, Input, RangeInput, Share, Task, TaskReport, reject_row
from tidewire.spark.tasks import run_in_tasks
from tidewire.storage import Storage
from tidewire.sync.manifest import Manifest, Parked, Partition, ReadRange, Rejected, StagedFile
from tidewire.sync.replays import Replays

FEW_MESSAGES: Final = 10_000
"""The most messages of a pass that is staged in the driver: a Spark job alone takes longer."""

MESSAGES_PER_TASK: Final = 250_000
"""The messages that a task stages, about."""

FOLDERS: Final = ("staged", "parked", "rejects")
"""Where staged files, messages without a schema, and messages that cannot be read are."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Where messages come from and where their files go."""

    spark: SparkSession
    source: Source
    storage: Storage
    epoch: int

    def run(
        self,
        ranges: Sequence[OffsetRange],
        number: int,
        reader: Reader,
        replays: Replays,
        *,
        ends: Callable[[], Mapping[Partition, int]],
        parked: Sequence[Parked] = (),
        again: Mapping[Position, str] = {},
    ) -> Manifest:
        """Stage offset ranges.

        ``parked`` are earlier messages that still wait for a schema. Those whose schema is known now are staged along;
        the manifest's ``parked`` are all that go on waiting. ``again`` are messages that could not be read and are
        tried again, each with the file it is kept in. ``ends`` is asked after the messages were read.
        """
        task = Task(self.epoch, number, reader, replays, self.storage, self.source.fetcher)
        inputs: list[Input] = [RangeInput(*_place(each.partition), each.start, each.end) for each in ranges]
        messages = sum(each.messages for each in ranges) + len(again)
        first = self._reports(task, [*inputs, *_file_inputs(again)], messages)
        schemas = _schemas(first)
        waiting = [*parked, *_all(first, "parked")]
        known = {(schema.name, schema.version or 0) for schema in (*reader.schemas, *schemas)}
        ready = {message.at: message.path for message in waiting if (message.table, message.version) in known}
        second: list[TaskReport] = []
        if ready:
            task = replace(task, reader=replace(reader, schemas=(*reader.schemas, *schemas)))
            second = self._reports(task, _file_inputs(ready), len(ready))
            waiting = [message for message in waiting if message.at not in ready] + _all(second, "parked")
        reports = [*first, *second]
        if max(messages, len(ready)) > FEW_MESSAGES:
            self._sweep(task.folder, reports)
        read, rejected = _read(first), _all(reports, "rejected")
        bad = {each.at for each in rejected} | {each.at for each in waiting}
        return Manifest(
            number,
            files=tuple(sorted(_all(reports, "files"), key=_file_order)),
            read=read,
            ends=dict(ends()),
            ddls=tuple(sorted(_all(first, "ddls"), key=lambda found: (found.at, found.sub))),
            schemas=schemas,
            parked=tuple(sorted(waiting, key=lambda message: message.at)),
            rejected=_placed([each for each in rejected if each.at not in again], read),
            reject_files=tuple(sorted(_all(_with_new_rejects(reports, again), "reject_files"))),
            retried=tuple(sorted(at for at in again if at not in bad)),
        )

    def _reports(self, task: Task, inputs: list[Input], messages: int) -> list[TaskReport]:
        if not inputs:
            return []
        if messages <= FEW_MESSAGES:
            return [task.run(inputs)]
        context = self.spark.sparkContext
        count = min(len(inputs), max(context.defaultParallelism, -(-messages // MESSAGES_PER_TASK)))
        return run_in_tasks(context, [Share(task, tuple(inputs[number::count])) for number in range(count)])

    def _sweep(self, folder: str, reports: Iterable[TaskReport]) -> None:
        """Delete the files of task attempts that failed: no report names them."""
        named = {each.path for each in (*_all(reports, "files"), *_all(reports, "parked"))}
        named |= {*_all(reports, "reject_files")}
        entries = (entry.name for place in FOLDERS for entry in self.storage.list(f"{place}/{folder}"))
        self.storage.delete([name for name in entries if self.storage.path(name) not in named])


def write_rejects(
    storage: Storage, epoch: int, number: int, rejected: Iterable[Rejected], messages: Mapping[Position, Message]
) -> str:
    """Write messages that turned out to be bad after staging, as tasks write theirs; the file's path.

    A message that the topic no longer has is written without its bytes.
    """
    name = f"rejects/{epoch:08}/{number:08}/invalid-{uuid.uuid4().hex}.parquet"
    file = MessageFile(storage, name, REJECT)
    for each in rejected:
        file.add(reject_row(each.at, each.reason, messages.get(each.at, Message(None, None)), number))
    file.close()
    return file.path


def _place(partition: Partition) -> tuple[str, int]:
    return partition.topic, partition.number


def _file_inputs(messages: Mapping[Position, str]) -> list[Input]:
    """What is read to read messages again, by file and partition."""
    places = sorted((path, at.topic, at.partition, at.offset) for at, path in messages.items())
    return [
        FileInput(path, topic, number, tuple(offset for *_, offset in group))
        for (path, topic, number), group in groupby(places, key=lambda at: at[:3])
    ]


def _all(reports: Iterable[TaskReport], what: str) -> list[Any]:
    """One member of the reports of all tasks."""
    return [found for report in reports for found in getattr(report, what)]


def _with_new_rejects(reports: Iterable[TaskReport], again: Collection[Position]) -> list[TaskReport]:
    """The tasks that found bad messages which were not bad before: only those belong in the table of rejects."""
    return [report for report in reports if any(each.at not in again for each in report.rejected)]


def _schemas(reports: Iterable[TaskReport]) -> tuple[TableSchema, ...]:
    """New schemas, each once, in the order of where they were first."""
    seen = sorted(_all(reports, "schemas"), key=lambda found: (found[0], found[1].version or 0, found[1].name))
    return tuple(dict.fromkeys(schema for _, schema in seen))


def _file_order(file: StagedFile) -> tuple[object, ...]:
    counts = file.first_offset, file.last_offset, file.rows, file.min_ts, file.max_ts
    return file.partition, file.table, *counts, str(file.shape)


def _read(reports: Iterable[TaskReport]) -> dict[Partition, tuple[ReadRange, ...]]:
    """The ranges that were read of each partition, in order. Ranges with a hole between them stay apart."""
    found: dict[Partition, list[ReadRange]] = {}
    for partition, range_ in sorted(_all(reports, "ranges"), key=lambda each: (each[0], each[1].start)):
        found.setdefault(partition, []).append(range_)
    return {partition: tuple(ranges) for partition, ranges in found.items()}


def _placed(rejected: Iterable[Rejected], read: Mapping[Partition, tuple[ReadRange, ...]]) -> tuple[Rejected, ...]:
    """Rejects in order, each with the largest watermark that was read before it."""

    def placed(each: Rejected) -> Rejected:
        before = (range_.watermark for range_ in read.get(Partition.of(each.at), ()) if range_.end <= each.at.offset)
        return replace(each, after=max([each.after, *before]))

    return tuple(placed(each) for each in sorted(rejected, key=lambda reject: reject.at))
