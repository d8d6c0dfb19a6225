"""The sync: micro-batches of messages become tables that are right.

Every batch goes the same way, and everything on the way can be done again::

    stage      messages to typed files, on executors
    plan       files, watermarks and DDL to steps, here; what the plan is made from is kept first
    apply      the steps, each a commit that says which step it is
    publish    which version of which table belongs to which moment
    save       the state; then Spark commits its offsets

A process that dies anywhere leaves a plan without its state. The next one carries the same plan out, and what was done
of it is recognised by its marks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Protocol

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tidewire.arrow.policy import Policy
from tidewire.errors import SyncError
from tidewire.model import TableName
from tidewire.spark.apply import Mode, misfits, run_steps
from tidewire.spark.apply import Settings as HowTo
from tidewire.spark.ownership import Owner, claim, locked
from tidewire.spark.published import Published, PublishedTable, newest, publish
from tidewire.spark.source import Source
from tidewire.spark.stage import Before, Reader, stage, sweep, write_rejects
from tidewire.spark.targets import Target
from tidewire.spark.work import Work
from tidewire.sync.manifest import Manifest
from tidewire.sync.plan import Planned, Settings, plan
from tidewire.sync.state import Hold, OnBad, State
from tidewire.sync.steps import Create, Drop, Merge, Rename, Step


class Point(StrEnum):
    """A place on a batch's way."""

    STAGED = "staged"
    STEP = "step"
    APPLIED = "applied"
    PUBLISHED = "published"
    SAVED = "saved"


@dataclass(frozen=True, slots=True)
class Report:
    """What one batch did. Times are in seconds, ``tables`` gives the rows applied to each."""

    batch: int
    sequence: int
    messages: int
    rows: int
    tables: Mapping[TableName, int]
    steps: int
    applied: int
    watermark: int
    rejected: int
    parked: int
    holds: tuple[Hold, ...]
    notes: tuple[str, ...]
    seconds: Mapping[str, float]


class Observer(Protocol):
    """Hears how a sync goes."""

    def reached(self, point: Point) -> None:
        """A batch came to a point."""
        ...

    def finished(self, report: Report) -> None:
        """A batch is done."""
        ...


class Silent:
    """An observer that says nothing."""

    def reached(self, point: Point) -> None:
        """A batch came to a point."""

    def finished(self, report: Report) -> None:
        """A batch is done."""


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be synced, and how."""

    protocol: str
    options: Mapping[str, str] = field(default_factory=dict)
    gated: bool = True
    mode: Mode = Mode.MIRROR
    format: str = "iceberg"
    on_bad: OnBad = OnBad.HOLD
    until: int | None = None
    parallel: int = 4
    wants: Callable[[TableName], bool] = lambda name: True

    @property
    def time_zone(self) -> str:
        """The upstream server's time zone."""
        return self.options.get("time-zone", "UTC")


class Sync:
    """A running sync. One at a time writes to a target."""

    def __init__(
        self, spark: SparkSession, source: Source, target: Target, work: Work, job: Job, observer: Observer = Silent()
    ) -> None:
        self._spark = spark
        self._source = source
        self._target = target
        self._work = work
        self._job = job
        self._observer = observer
        self._stopping = threading.Event()
        self._error: BaseException | None = None

    def run(self, *, once: bool) -> State:
        """Sync what there is (``once``), or until :meth:`stop`; the state afterwards."""
        with locked(self._work):
            self._owner = claim(self._work, self._wanted())
            self._state = self._load()
            self._modes = self._published_modes()
            self._finish_begun()
            self._catch_up()
            if not self._reached_end():
                self._stream(once=once)
            return self._state

    def stop(self) -> None:
        """End after the batch that is running."""
        self._stopping.set()

    # Beginning

    def _wanted(self) -> Owner:
        job = self._job
        return Owner(self._source.uri, job.protocol, job.format, str(job.mode), job.gated, job.time_zone)

    def _load(self) -> State:
        names = self._work.names("state")
        if not names:
            return State(self._owner.id)
        state = State.from_plain(self._work.read(f"state/{names[-1]}"))
        if state.batch >= 0 and not self._work.exists("checkpoint"):
            raise SyncError(
                f"Spark's checkpoint is missing from {self._work.uri}: it says where to read on. "
                "Bring it back, or begin anew with an empty target"
            )
        return state

    def _published_modes(self) -> Mapping[TableName, Mode]:
        found = newest(self._work)
        return {} if found is None else {name.folded: table.mode for name, table in found.tables.items()}

    def _finish_begun(self) -> None:
        """Carry out a plan that a process before this one left behind."""
        document = self._work.read(self._plan_name())
        if document is not None:
            settings = replace(self._settings(), until=document["until"], on_bad=OnBad(document["on_bad"]))
            self._carry_out(Manifest.from_plain(document["manifest"]), settings, {})

    def _catch_up(self) -> None:
        """What can be done without new messages: rows beyond an earlier ``until``, tables that were held."""
        manifest = Manifest(self._state.batch, ends=self._source.ends(), parked=self._state.parked)
        planned = plan(self._state, manifest, self._settings())
        if planned.steps or planned.state.applied > self._state.applied:
            self._begin(manifest, {})

    def _stream(self, *, once: bool) -> None:
        writer = (
            self._source.stream(self._spark)
            .writeStream.foreachBatch(self._batch)
            .option("checkpointLocation", self._work.path("checkpoint"))
        )
        query = (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")).start()
        try:
            while not query.awaitTermination(1):
                if self._stopping.is_set() and not query.status["isTriggerActive"]:
                    query.stop()
        except StreamingQueryException as error:
            if self._error is not None:
                raise self._error from error
            if not self._stopping.is_set():
                raise SyncError(f"Spark could not go on: {error}") from error
        finally:
            query.stop()

    # One batch

    def _batch(self, messages: DataFrame, batch: int) -> None:
        if batch <= self._state.batch:
            return
        if self._stopping.is_set():
            raise SyncError("the sync is stopping; this batch is for the next one")
        try:
            began = time.perf_counter()
            manifest = stage(
                messages,
                batch,
                self._reader(),
                self._state.floors(),
                self._work,
                ends=self._source.ends,
                parked=self._state.parked,
            )
            self._begin(manifest, {"stage": time.perf_counter() - began})
            if self._reached_end():
                self._stopping.set()
        except BaseException as error:
            self._error = error
            raise

    def _reader(self) -> Reader:
        job = self._job
        return Reader(
            job.protocol,
            job.options,
            gated=job.gated,
            before=Before.ALL if job.mode is Mode.HISTORY else Before.KEY,
            schemas=self._state.schemas if job.gated else (),
            declared=tuple(self._state.tables.values()),
        )

    def _begin(self, manifest: Manifest, seconds: dict[str, float]) -> None:
        """Keep what a plan is made from, so that it can be made again, and carry it out."""
        settings = self._settings()
        manifest = self._without_misfits(manifest, settings)
        self._work.write(
            self._plan_name(),
            {"manifest": manifest.to_plain(), "until": settings.until, "on_bad": str(settings.on_bad)},
        )
        self._observer.reached(Point.STAGED)
        self._carry_out(manifest, settings, seconds)

    def _without_misfits(self, manifest: Manifest, settings: Settings) -> Manifest:
        """The manifest, with the rows among its rejects that their tables cannot hold.

        Only a plan tells which type a row's value has to have, so this is found out after staging. What is rejected can
        hold a table back and so change the plan.
        """
        while True:
            merges = [step for step in plan(self._state, manifest, settings).steps if isinstance(step, Merge)]
            known = {rejected.at for rejected in manifest.rejected}
            with ThreadPoolExecutor(self._job.parallel, "tidewire-check") as pool:
                checked = list(pool.map(lambda step: misfits(step, self._target, self._how()), merges))
            found = [each for rejected in checked for each in rejected if each.at not in known]
            if not found:
                return manifest
            path = write_rejects(self._work, manifest.batch, found, self._source.fetch([each.at for each in found]))
            manifest = replace(
                manifest,
                rejected=(*manifest.rejected, *found),
                reject_files=(*manifest.reject_files, path),
            )

    def _how(self, *, check: bool = True) -> HowTo:
        return HowTo(Policy(self._job.time_zone), check)

    def _carry_out(self, manifest: Manifest, settings: Settings, seconds: dict[str, float]) -> None:
        began = time.perf_counter()
        planned = plan(self._state, manifest, settings)
        seconds["plan"] = time.perf_counter() - began
        began = time.perf_counter()
        modes, after = modes_of(planned.steps, self._modes, self._job.mode)
        run_steps(
            planned.steps,
            self._target,
            sync=self._owner.id,
            sequence=planned.state.sequence,
            modes=modes,
            journal=_Journal(self._work, planned.state.sequence),
            settings=self._how(check=bool(manifest.rejected)),
            workers=self._job.parallel,
            on_step=lambda *_: self._observer.reached(Point.STEP),
        )
        seconds["apply"] = time.perf_counter() - began
        self._observer.reached(Point.APPLIED)
        self._publish(planned, after)
        self._observer.reached(Point.PUBLISHED)
        self._save(planned, manifest)
        self._source.committed({at: progress.next for at, progress in self._state.frontier.partitions.items()})
        self._observer.reached(Point.SAVED)
        self._observer.finished(_report(planned, manifest, seconds))

    def _publish(self, planned: Planned, modes: Mapping[TableName, Mode]) -> None:
        publication = planned.publication
        if publication is None:
            return
        before = newest(self._work)
        known = {} if before is None else before.tables
        touched = {name for step in planned.steps for name in step.tables}
        tables = {}
        for schema in publication.tables:
            kept = known.get(schema.name)
            fresh = kept is None or schema.name in touched
            version = self._target.version(schema.name) if fresh or kept is None else kept.version
            mode = modes[schema.name.folded]
            tables[schema.name] = PublishedTable(schema, version, mode, publication.held.get(schema.name))
        publish(self._work, Published(planned.state.sequence, publication.ts, tables))
        self._modes = modes

    def _save(self, planned: Planned, manifest: Manifest) -> None:
        self._state = planned.state
        self._work.write(f"state/{self._state.sequence:012}.json", self._state.to_plain())
        self._clean(planned, manifest)

    def _clean(self, planned: Planned, manifest: Manifest) -> None:
        """Remove what no later run asks for; if this is cut short, the next one does it."""
        work, sequence = self._work, self._state.sequence
        old = [f"state/{name}" for name in work.names("state")[:-2]]
        done = [f"plans/{name}" for name in work.names("plans") if int(name.partition(".")[0]) <= sequence]
        work.delete([work.path(name) for name in (*old, *done)] + [file.path for file in planned.done])
        work.delete(work.files(f"steps/{sequence}"))
        keep = {each.file.path for each in self._state.pending} | {each.path for each in self._state.parked}
        sweep(work, keep, manifest.batch)
        work.delete([path for path in work.files("parked") if path not in keep])

    # What it goes by

    def _settings(self) -> Settings:
        job = self._job
        return Settings(
            gated=job.gated,
            ddl=job.gated or job.protocol != "avro",
            contiguous=self._source.contiguous,
            until=job.until,
            on_bad=job.on_bad,
            time_zone=job.time_zone,
            wants=job.wants,
        )

    def _plan_name(self) -> str:
        return f"plans/{self._state.sequence + 1:012}.json"

    def _reached_end(self) -> bool:
        return self._job.until is not None and self._state.applied >= self._job.until


def modes_of(
    steps: Sequence[Step], known: Mapping[TableName, Mode], wanted: Mode
) -> tuple[list[Mode], dict[TableName, Mode]]:
    """The mode each step is done in, and those of all tables afterwards.

    A table has its mode from when it is made, and takes it along to other names. One without a key can only be kept as
    history.
    """
    modes, found = dict(known), []
    for step in steps:
        first = next(iter(step.tables)).folded
        if isinstance(step, Create):
            modes[first] = wanted if step.table.handle_key else Mode.HISTORY
        found.append(modes.get(first, wanted))
        if isinstance(step, Rename):
            moved = {new.folded: modes.pop(old.folded, wanted) for old, new in step.moves}
            modes |= moved
        if isinstance(step, Drop):
            modes.pop(first, None)
    return found, modes


class _Journal:
    """What is done of a plan, in the work directory."""

    def __init__(self, work: Work, sequence: int) -> None:
        self._work = work
        self._folder = f"steps/{sequence}"
        self._done = set(work.names(self._folder))

    def done(self, step: int, part: int | None = None) -> bool:
        return self._name(step, part) in self._done

    def record(self, step: int, part: int | None = None) -> None:
        self._work.write(f"{self._folder}/{self._name(step, part)}", {})

    def _name(self, step: int, part: int | None) -> str:
        return f"{step}.json" if part is None else f"{step}-{part}.json"


def _report(planned: Planned, manifest: Manifest, seconds: Mapping[str, float]) -> Report:
    tables: dict[TableName, int] = {}
    for step in planned.steps:
        if isinstance(step, Merge):
            tables[step.table.name] = tables.get(step.table.name, 0) + sum(s.file.rows for s in step.slices)
    state = planned.state
    return Report(
        batch=manifest.batch,
        sequence=state.sequence,
        messages=sum(range_.end - range_.start for range_ in manifest.read.values()),
        rows=sum(file.rows for file in manifest.files),
        tables=tables,
        steps=len(planned.steps),
        applied=state.applied,
        watermark=state.frontier.watermark,
        rejected=len(manifest.rejected),
        parked=len(state.parked),
        holds=state.holds,
        notes=planned.notes,
        seconds=dict(seconds),
    )


def describe(report: Report) -> dict[str, Any]:
    """A report as one line of a log."""
    return {
        "batch": report.batch,
        "sequence": report.sequence,
        "messages": report.messages,
        "rows": report.rows,
        "tables": {str(name): rows for name, rows in report.tables.items()},
        "steps": report.steps,
        "applied": report.applied,
        "watermark": report.watermark,
        "rejected": report.rejected,
        "parked": report.parked,
        "held": [f"{hold.table or 'all tables'} at {hold.ts}: {hold.reason}" for hold in report.holds],
        "notes": list(report.notes),
        "seconds": {name: round(value, 3) for name, value in report.seconds.items()},
    }
