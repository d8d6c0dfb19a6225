"""The driver's part: one Spark job, and one manifest out of what its tasks report."""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from tidewire.model import Message, Position, TableSchema
from tidewire.spark.stage.files import MessageFile
from tidewire.spark.stage.reader import Reader
from tidewire.spark.stage.report import Report, Rising
from tidewire.spark.stage.task import COLUMNS, REJECT, SEGMENT, Task, rising
from tidewire.spark.work import Work
from tidewire.sync.floors import Floors
from tidewire.sync.manifest import Manifest, Parked, Partition, ReadRange, Rejected, StagedFile, newest

_PARKED = "key binary, value binary, topic string, partition int, offset long"
_FOLDERS = ("staged", "parked", "rejects")


def stage(
    messages: DataFrame,
    batch: int,
    reader: Reader,
    floors: Floors,
    work: Work,
    *,
    ends: Callable[[], Mapping[Partition, int]],
    parked: Sequence[Parked] = (),
) -> Manifest:
    """Stage a micro-batch with the columns of Spark's Kafka source, or with the names of files that have them.

    ``parked`` are the messages of earlier batches that still wait for a schema. Those whose schema is known now are
    staged along; the manifest's ``parked`` are all that go on waiting, old and new. ``ends`` is asked after the
    messages were read.
    """
    first = _run(messages, Task(batch, reader, floors, work))
    schemas = _schemas(first)
    waiting = [*parked, *_all(first, "parked")]
    known = {(schema.name, schema.version or 0) for schema in (*reader.schemas, *schemas)}
    ready = [message for message in waiting if (message.table, message.version) in known]
    second: list[Report] = []
    if ready:
        at = frozenset(message.at for message in ready)
        parking = messages.sparkSession.read.schema(_PARKED).parquet(*sorted({message.path for message in ready}))
        again = replace(reader, schemas=(*reader.schemas, *schemas))
        second = _run(parking, Task(batch, again, floors, work, only=at))
        waiting = [message for message in waiting if message.at not in at] + _all(second, "parked")
    reports = [*first, *second]
    return Manifest(
        batch,
        files=tuple(sorted(_all(reports, "files"), key=_file_order)),
        read=_read(first),
        ends=dict(ends()),
        ddls=tuple(sorted(_all(first, "ddls"), key=lambda found: (found.at, found.sub))),
        schemas=schemas,
        parked=tuple(sorted(waiting, key=lambda message: message.at)),
        rejected=_placed(_all(reports, "rejected"), _rising(first)),
        reject_files=tuple(sorted(_all(reports, "reject_files"))),
    )


def write_rejects(work: Work, batch: int, rejected: Iterable[Rejected], messages: Mapping[Position, Message]) -> str:
    """Write messages that turned out to be bad after staging, as tasks write theirs; the file's path."""
    file = MessageFile(work, work.path("rejects", str(batch), f"misfits-{uuid.uuid4()}.parquet"), REJECT)
    for each in rejected:
        message = messages[each.at]
        file.add(
            {
                "topic": each.at.topic,
                "partition": each.at.partition,
                "offset": each.at.offset,
                "key": message.key,
                "value": message.value,
                "reason": each.reason,
                "part": "value",
                "batch": batch,
            }
        )
    file.close()
    return file.path


def sweep(work: Work, keep: Collection[str], batch: int) -> None:
    """Delete the files of a batch that are not to be kept: those of failed attempts, and those that are done with."""
    found = (path for folder in _FOLDERS for path in work.files(f"{folder}/{batch}"))
    work.delete([path for path in found if path not in keep])


def _run(messages: DataFrame, task: Task) -> list[Report]:
    columns = [SEGMENT] if SEGMENT in messages.columns else COLUMNS
    rows = messages.select(*columns).mapInArrow(task, "report string").collect()
    return [Report.from_json(row.report) for row in rows]


def _all(reports: Iterable[Report], what: str) -> list[Any]:
    """One member of the manifests of all tasks."""
    return [found for report in reports for found in getattr(report.manifest, what)]


def _schemas(reports: Iterable[Report]) -> tuple[TableSchema, ...]:
    """New schemas, each once, in the order of where they were first."""
    seen = [found for report in reports for found in zip(report.first_seen, report.manifest.schemas, strict=True)]
    seen.sort(key=lambda found: (found[0], found[1].version or 0, found[1].name))
    return tuple(dict.fromkeys(schema for _, schema in seen))


def _file_order(file: StagedFile) -> tuple[object, ...]:
    counts = file.first_offset, file.last_offset, file.rows, file.min_ts, file.max_ts
    return file.partition, file.table, *counts, str(file.shape)


def _read(reports: Iterable[Report]) -> dict[Partition, ReadRange]:
    """What was read of each partition by all tasks."""
    read: dict[Partition, ReadRange] = {}
    for report in reports:
        for at, part in report.manifest.read.items():
            so_far = read.get(at, part)
            marks = newest([so_far.watermark, so_far.previous, part.watermark, part.previous])
            read[at] = ReadRange(min(so_far.start, part.start), max(so_far.end, part.end), *marks)
    return dict(sorted(read.items()))


def _rising(reports: Iterable[Report]) -> Rising:
    """The watermarks of each partition that all tasks saw."""
    marks: dict[Partition, list[tuple[int, int]]] = {}
    for report in reports:
        for at, seen in report.rising.items():
            marks.setdefault(at, []).extend(seen)
    return {at: list(rising(seen)) for at, seen in marks.items()}


def _placed(rejected: Iterable[Rejected], marks: Rising) -> tuple[Rejected, ...]:
    """Rejects in order, each with the watermark that was reached before it."""
    ordered = sorted(rejected, key=lambda reject: reject.at)
    return tuple(replace(reject, after=_watermark_before(reject.at, marks)) for reject in ordered)


def _watermark_before(at: Position, marks: Rising) -> int:
    own = marks.get(Partition.of(at), ())
    before = bisect_left(own, at.offset, key=lambda mark: mark[0])
    return own[before - 1][1] if before else 0
