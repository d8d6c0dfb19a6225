"""A load: chunks of a dump are staged by tasks, then one plan in the ledger makes tables of them.

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
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import SparkSession

from tidewire.errors import LoadError
from tidewire.load.chunks import CHUNK_BYTES, chunks_of
from tidewire.load.dialect import Dialect
from tidewire.load.dumpling import DumpedTable
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
class LoadJob:
    """What is to be loaded: tables of a dump as of a moment."""

    dump: Storage
    tables: tuple[DumpedTable, ...]
    ts: int
    dialect: Dialect = field(default_factory=Dialect)
    chunk_bytes: int = CHUNK_BYTES


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a load is. ``bytes`` are those of the dump's files."""

    rows: int
    files: int
    bytes: int
    all_files: int
    all_bytes: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a load did. ``rows`` are those of this run and of earlier ones, by table."""

    rows: Mapping[TableName, int]
    rejected: int
    holds: tuple[Hold, ...]
    was_done: bool = False


def load(
    spark: SparkSession,
    target: Target,
    job: Job,
    wanted: LoadJob,
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
        wanted: LoadJob,
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
        names = [table.schema.name for table in self._wanted.tables]
        if self._is_done():
            self._clean()
            return Loaded(dict.fromkeys(names, 0), 0, self._holds(), was_done=True)
        self._planned({})  # what cannot be made is refused before anything is read
        work = self._work()
        self._stage(work)
        self._observer.reached(Point.STAGED)
        by_table = self._by_table()
        rejected = [each for report in self._done.values() for each in report.rejected]
        if rejected and self._job.on_bad is OnBad.STOP:
            raise LoadError(f"{len(rejected):,} rows do not fit, the first: {min(rejected, key=_place).reason}")
        self._execution.take(Manifest(0), self._planned(by_table), {})
        if not self._is_done():
            reasons = "; ".join(self._execution.impossible) or "see the sync's own messages"
            raise LoadError(f"the tables cannot be made of what was read: {reasons}")
        self._clean()
        rows = {name: sum(each.rows for each in by_table.get(str(name), ())) for name in names}
        return Loaded(rows, len(rejected), self._holds())

    def _is_done(self) -> bool:
        state, ts = self._execution.state, self._wanted.ts
        found = loads(state.beginnings)
        return all(found.get(table.schema.name.folded) == ts for table in self._wanted.tables)

    def _holds(self) -> tuple[Hold, ...]:
        names = {table.schema.name.folded for table in self._wanted.tables}
        holds = self._execution.state.holds
        return tuple(hold for hold in holds if hold.table is not None and hold.table.folded in names)

    # Staging

    def _work(self) -> list[ChunkWork]:
        job, wanted = self._job, self._wanted
        chunks = [
            (table, chunk)
            for table in wanted.tables
            for chunk in chunks_of(table.files, wanted.dialect, wanted.chunk_bytes)
        ]
        return [
            ChunkWork(
                wanted.dump,
                self._storage,
                self._folder,
                number,
                chunk,
                table.schema,
                wanted.dialect,
                wanted.ts,
                job.rules,
                job.before,
                job.time_zone,
                job.keep_rejected,
            )
            for number, (table, chunk) in enumerate(chunks)
        ]

    def _stage(self, work: list[ChunkWork]) -> None:
        """Stage the chunks that are not staged yet."""
        self._look()
        left = [each for each in work if each.document not in self._done]
        if len(left) < len(work):
            self._observer.told(f"{len(work) - len(left)} of {len(work)} chunks were read before")
        self._report(work)
        if sum(each.chunk.bytes for each in left) <= FEW_BYTES:
            for each in left:
                each.run()
        else:
            self._stage_in_tasks(left, work)
        self._look()
        self._report(work)

    def _stage_in_tasks(self, left: list[ChunkWork], work: list[ChunkWork]) -> None:
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
            self._report(work)
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
                sum(len(each.chunk.parts) for each in ready),
                sum(each.chunk.bytes for each in ready),
                sum(len(each.chunk.parts) for each in works),
                sum(each.chunk.bytes for each in works),
            )
        )

    # The plan

    def _by_table(self) -> dict[str, list[ChunkReport]]:
        found: dict[str, list[ChunkReport]] = {}
        for _, report in sorted(self._done.items()):
            found.setdefault(report.table, []).append(report)
        return found

    def _planned(self, by_table: Mapping[str, list[ChunkReport]]) -> Planned:
        job, execution = self._job, self._execution
        tables = [
            LoadedTable(
                table.schema,
                tuple(file for report in by_table.get(str(table.schema.name), ()) for file in report.files),
                tuple(each for report in by_table.get(str(table.schema.name), ()) for each in report.rejected),
            )
            for table in self._wanted.tables
        ]
        return plan_load(
            execution.state,
            tables,
            self._wanted.ts,
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


def _id(wanted: LoadJob, job: Job) -> str:
    """What makes two loads the same."""
    tables = [(table.schema, [(file.name, file.size) for file in table.files]) for table in wanted.tables]
    facts = (
        wanted.dump.uri,
        wanted.ts,
        wanted.dialect,
        wanted.chunk_bytes,
        tables,
        sorted(job.rules.to_plain().items()),
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
