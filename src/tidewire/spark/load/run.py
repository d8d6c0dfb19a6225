"""A load: chunks of a source are staged by tasks, then one plan in the ledger makes tables of them.

::

    loads/<id>/staged/…   staged rows
    loads/<id>/done/<n>   a chunk is staged: its files, and the rows that do not fit

The id is a hash of source, moment, options and tables, so the same command continues the load. Nothing of a load is in
a table before all of it is staged. Then its plan is kept, carried out and published as those of the sync are. If the
load dies there, the next driver of the target finishes it. At the end the folder is deleted.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import SparkSession

from tidewire.errors import LoadError
from tidewire.load.source import Moment, Opened, Source
from tidewire.model import Position, TableName
from tidewire.spark.execution import Execution
from tidewire.spark.job import Job
from tidewire.spark.ledger import now
from tidewire.spark.load.task import ChunkReport, ChunkWork, reports
from tidewire.spark.loop import Loop
from tidewire.spark.report import Observer, Point, Silent
from tidewire.spark.source import NoSource
from tidewire.spark.targets import Target
from tidewire.spark.tasks import run_in_tasks
from tidewire.storage import Storage
from tidewire.sync.beginnings import loads
from tidewire.sync.loads import LoadedTable, plan_load
from tidewire.sync.manifest import Manifest, Rejected
from tidewire.sync.plan import Planned
from tidewire.sync.state import Hold, OnBad

FEW_BYTES: Final = 4 << 20
"""Up to this many bytes are staged in the driver, because starting a Spark job takes longer."""

_LOOK_SECONDS: Final = 0.5
"""How often a load looks for chunks that are done."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is. ``done`` and ``all`` count bytes of files, or rows if there are no files."""

    rows: int
    files: int
    done: int
    all_files: int
    all: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did. ``rows`` are those of this run and of earlier ones, by table; all as of ``ts``."""

    ts: int
    rows: Mapping[TableName, int]
    rejected: int
    holds: tuple[Hold, ...]
    was_done: bool = False


def load(
    spark: SparkSession,
    target: Target,
    job: Job,
    wanted: Source,
    observer: Observer = Silent(),
    *,
    on_progress: Callable[[LoadProgress], None] = lambda progress: None,
    take_over: bool = False,
) -> Loaded:
    """Load tables into a target, or go on with it; :class:`LoadError` if a table cannot be loaded."""
    loop = Loop(spark, NoSource(), target, job, observer)
    with loop.driving(take_over=take_over) as execution:
        return _Run(spark, loop.storage, job, wanted, execution, observer, on_progress).run()


class _Run:
    """One run of a load."""

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        job: Job,
        wanted: Source,
        execution: Execution,
        observer: Observer,
        on_progress: Callable[[LoadProgress], None],
    ) -> None:
        self._spark = spark
        self._storage = storage
        self._job = job
        self._wanted = wanted
        self._execution = execution
        self._observer = observer
        self._on_progress = on_progress
        self._folder = f"loads/{_id(wanted, job)}"
        self._done: dict[str, ChunkReport] = {}

    def run(self) -> Loaded:
        begun = self._wanted.begun(self._storage, self._folder)
        if begun is not None and self._is_done(begun):
            self._clean()
            names = [table.name for table in begun.tables]
            return Loaded(begun.ts, dict.fromkeys(names, 0), 0, self._holds(begun), was_done=True)
        with self._wanted.opened(self._storage, self._folder, self._observer.told) as opened:
            moment = opened.moment
            self._planned(moment, {})  # what cannot be made is refused before anything is read
            self._stage(opened)
        self._observer.reached(Point.STAGED)
        by_table = self._by_table()
        rejected = [each for report in self._done.values() for each in report.rejected]
        if rejected and self._job.on_bad is OnBad.STOP:
            raise LoadError(f"{len(rejected):,} rows do not fit, the first: {min(rejected, key=_place).reason}")
        self._execution.take(Manifest(0), self._planned(moment, by_table), {})
        if not self._is_done(moment):
            reasons = "; ".join(self._execution.impossible) or "see the sync's own messages"
            raise LoadError(f"the tables cannot be made of what was read: {reasons}")
        self._clean()
        rows = {table.name: sum(each.rows for each in by_table.get(str(table.name), ())) for table in moment.tables}
        return Loaded(moment.ts, rows, len(rejected), self._holds(moment))

    def _is_done(self, moment: Moment) -> bool:
        found = loads(self._execution.state.beginnings)
        return all(found.get(table.name.folded) == moment.ts for table in moment.tables)

    def _holds(self, moment: Moment) -> tuple[Hold, ...]:
        names = {table.name.folded for table in moment.tables}
        holds = self._execution.state.holds
        return tuple(hold for hold in holds if hold.table is not None and hold.table.folded in names)

    # Staging

    def _stage(self, opened: Opened) -> None:
        """Stage the chunks that are not staged yet."""
        job, ts = self._job, opened.moment.ts
        work = [
            ChunkWork(
                self._storage, self._folder, number, chunk, ts, job.rules, job.before, job.time_zone, job.keep_rejected
            )
            for number, chunk in enumerate(opened.chunks)
        ]
        self._look()
        left = [each for each in work if each.document not in self._done]
        if len(left) < len(work):
            self._observer.told(f"{len(work) - len(left)} of {len(work)} chunks were read before")
        self._report(work)
        if opened.in_tasks and sum(each.chunk.size for each in left) > FEW_BYTES:
            self._stage_in_tasks(left, lambda: self._report(work))
        else:
            for each in left:
                each.run()
                if not opened.in_tasks:
                    self._look()
                    self._report(work)
        self._look()
        self._report(work)

    def _stage_in_tasks(self, left: list[ChunkWork], report: Callable[[], None]) -> None:
        """Stage chunks in Spark tasks, and say meanwhile how far they are."""
        failures: list[BaseException] = []

        def stage() -> None:
            try:
                run_in_tasks(self._spark.sparkContext, left)
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=stage, name="tidewire-load", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
            self._look()
            report()
        if failures:
            raise failures[0]

    def _look(self) -> None:
        """See which chunks are done."""
        self._done = dict(reports(self._storage, self._folder, self._done))

    def _report(self, work: Iterable[ChunkWork]) -> None:
        works = list(work)
        ready = [each for each in works if each.document in self._done]
        self._on_progress(
            LoadProgress(
                sum(each.rows for each in self._done.values()),
                sum(each.chunk.files for each in ready),
                sum(each.chunk.size for each in ready),
                sum(each.chunk.files for each in works),
                sum(each.chunk.size for each in works),
            )
        )

    # The plan

    def _by_table(self) -> dict[str, list[ChunkReport]]:
        found: dict[str, list[ChunkReport]] = {}
        for _, report in sorted(self._done.items()):
            found.setdefault(report.table, []).append(report)
        return found

    def _planned(self, moment: Moment, by_table: Mapping[str, list[ChunkReport]]) -> Planned:
        job, execution = self._job, self._execution
        tables = [
            LoadedTable(
                table,
                tuple(file for report in by_table.get(str(table.name), ()) for file in report.files),
                tuple(each for report in by_table.get(str(table.name), ()) for each in report.rejected),
            )
            for table in moment.tables
        ]
        return plan_load(
            execution.state,
            tables,
            moment.ts,
            job.rules,
            reject_files=tuple(path for found in by_table.values() for report in found for path in report.reject_files),
            on_bad=job.on_bad,
            has_watermarks=job.has_watermarks,
            check=execution.objection,
            now=now(),
        )

    def _clean(self) -> None:
        """Delete what the load has staged."""
        self._storage.delete(entry.name for entry in self._storage.list(self._folder, recursive=True))


def _place(rejected: Rejected) -> Position:
    return rejected.at


def _id(wanted: Source, job: Job) -> str:
    """What makes two loads the same."""
    facts = (wanted.facts, sorted(job.rules.to_plain().items()))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
