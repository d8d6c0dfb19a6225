"""A load: chunks of a source are staged by tasks, then one plan in the ledger makes tables of them.

::

    loads/<id>/staged/…   staged rows
    loads/<id>/done/<n>   a chunk is staged: its files, and the rows that do not fit

Tables that are to replace others are staged in the same way, by :func:`ask_replacement`; the driver of the target does
the rest (:mod:`tidewire.spark.load.replace`).

The id is a hash of source, moment, options and tables, so the same command continues the load. Nothing of a load is in
a table before all of it is staged. Then its plan is kept, carried out and published as those of the sync are. If the
load dies there, the next driver of the target finishes it. At the end the folder is deleted.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Final

from pyspark.sql import SparkSession

from tidewire.errors import AlreadyRunning, LoadError
from tidewire.load.source import Moment, Opened, Source
from tidewire.model import Position, TableName
from tidewire.spark.driver import living_driver
from tidewire.spark.execution import Execution
from tidewire.spark.job import Job
from tidewire.spark.ledger import leave, now, requests
from tidewire.spark.load.adopt import check_adoptable
from tidewire.spark.load.replace import DOCUMENT, FOLDER
from tidewire.spark.load.task import ChunkReport, ChunkWork, reports
from tidewire.spark.loop import Loop
from tidewire.spark.report import Observer, Point, Silent
from tidewire.spark.requests import REPLACE
from tidewire.spark.source import NoSource
from tidewire.spark.staging import begun
from tidewire.spark.targets import Target
from tidewire.spark.tasks import run_in_tasks
from tidewire.storage import Storage
from tidewire.sync.beginnings import loads
from tidewire.sync.documents import decode, encode
from tidewire.sync.loads import LoadedTable, plan_load
from tidewire.sync.manifest import Manifest, Rejected
from tidewire.sync.plan import Planned
from tidewire.sync.replacing import Replacing
from tidewire.sync.state import Hold, OnBad

FEW_BYTES: Final = 4 << 20
"""Up to this many bytes are staged in the driver, because starting a Spark job takes longer."""

FEW_ROWS: Final = 50_000
"""As :data:`FEW_BYTES`, for sources without files."""

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
    adopts: bool = False,
) -> Loaded:
    """Load tables into a target, or go on with it; :class:`LoadError` if a table cannot be loaded.

    With ``adopts`` the tables are in the target already, and are taken over as of the moment of the load.
    """
    loop = Loop(spark, NoSource(), target, job, observer)
    with loop.driving(take_over=take_over) as execution:
        run = _Run(spark, loop, job, wanted, execution, observer, on_progress)
        if adopts:
            return run.adopt(target)
        found = run.run()
        while loop.serve():
            pass
        return found


@dataclass(frozen=True, slots=True)
class Asked:
    """A replacement that was asked for: the request, and the moment of the load. ``was_asked``: by an earlier run."""

    request: str
    ts: int
    tables: tuple[TableName, ...]
    was_asked: bool = False


def ask_replacement(
    spark: SparkSession,
    target: Target,
    job: Job,
    wanted: Source,
    observer: Observer = Silent(),
    *,
    on_progress: Callable[[LoadProgress], None] = lambda progress: None,
) -> Asked:
    """Stage what replaces tables of a target, and leave the request to its driver, the running one or the next.

    Raises :class:`LoadError` if rows do not fit, unless the job skips them.
    """
    return _Replace(spark, begun(target.uri, job.staging), job, wanted, observer, on_progress).ask()


def replace_tables(
    spark: SparkSession,
    target: Target,
    job: Job,
    wanted: Source,
    observer: Observer = Silent(),
    *,
    on_progress: Callable[[LoadProgress], None] = lambda progress: None,
) -> Asked:
    """Ask for a replacement; if no sync runs, fill the new tables here, and the next sync does the rest."""
    asked = ask_replacement(spark, target, job, wanted, observer, on_progress=on_progress)
    if living_driver(begun(target.uri, job.staging), observer.note) is None:
        loop = Loop(spark, NoSource(), target, job, observer)
        with suppress(AlreadyRunning), loop.driving():
            while loop.serve():
                pass
    return asked


class _Staging:
    """The chunks of a load, which are staged once, however often the load is begun."""

    _PREFIX: ClassVar[str] = ""
    """How the name of its folder begins."""

    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        job: Job,
        wanted: Source,
        observer: Observer,
        on_progress: Callable[[LoadProgress], None],
    ) -> None:
        self._spark = spark
        self._storage = storage
        self._job = job
        self._wanted = wanted
        self._observer = observer
        self._on_progress = on_progress
        self._load = f"{self._PREFIX}{_id(wanted, job)}"
        self._folder = f"{FOLDER}/{self._load}"
        self._done: dict[str, ChunkReport] = {}

    def _meanwhile(self, opened: Opened) -> None:
        """Do what is to be done now and then while chunks are staged."""

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
            self._observer.note(f"{len(work) - len(left)} of {len(work)} chunks were read before")
        self._report(work)

        def look() -> None:
            self._look()
            self._report(work)
            self._meanwhile(opened)

        few = FEW_BYTES if any(each.chunk.files for each in left) else FEW_ROWS
        if opened.in_tasks and sum(each.chunk.size for each in left) > few:
            self._stage_in_tasks(left, look)
        else:
            for each in left:
                each.run()
                if not opened.in_tasks:
                    look()
        self._look()
        self._report(work)

    def _stage_in_tasks(self, left: list[ChunkWork], look: Callable[[], None]) -> None:
        """Stage chunks in Spark tasks, and look meanwhile how far they are."""
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
            look()
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

    def _by_table(self) -> dict[str, list[ChunkReport]]:
        found: dict[str, list[ChunkReport]] = {}
        for _, report in sorted(self._done.items()):
            found.setdefault(report.table, []).append(report)
        return found

    def _clean(self) -> None:
        """Delete what the load has staged."""
        self._storage.delete(entry.name for entry in self._storage.list(self._folder, recursive=True))


class _Run(_Staging):
    """One run of a load by the driver of its target."""

    def __init__(
        self,
        spark: SparkSession,
        loop: Loop,
        job: Job,
        wanted: Source,
        execution: Execution,
        observer: Observer,
        on_progress: Callable[[LoadProgress], None],
    ) -> None:
        super().__init__(spark, loop.storage, job, wanted, observer, on_progress)
        self._loop = loop
        self._execution = execution

    def _meanwhile(self, opened: Opened) -> None:
        self._loop.serve([table.name for table in opened.moment.tables])

    def run(self) -> Loaded:
        begun = self._wanted.begun(self._storage, self._folder)
        if begun is not None and self._is_done(begun):
            self._clean()
            names = [table.name for table in begun.tables]
            return Loaded(begun.ts, dict.fromkeys(names, 0), 0, self._holds(begun), was_done=True)
        with self._wanted.opened(self._storage, self._folder, self._observer.note) as opened:
            moment = opened.moment
            self._planned(moment, {})  # what cannot be made is refused before anything is read
            self._stage(opened)
        self._observer.reached(Point.STAGED)
        by_table = self._by_table()
        rejected = [each for report in self._done.values() for each in report.rejected]
        if rejected and self._job.on_bad is OnBad.STOP:
            # The next run reads these chunks again: perhaps their files were corrected.
            self._storage.delete(document for document, report in self._done.items() if report.rejected)
            raise LoadError(_misfits(rejected))
        self._execution.take(Manifest(0), self._planned(moment, by_table), {})
        if not self._is_done(moment):
            reasons = "; ".join(self._execution.impossible) or "see the sync's own messages"
            raise LoadError(f"the tables cannot be made of what was read: {reasons}")
        self._clean()
        rows = {table.name: sum(each.rows for each in by_table.get(str(table.name), ())) for table in moment.tables}
        return Loaded(moment.ts, rows, len(rejected), self._holds(moment))

    def adopt(self, target: Target) -> Loaded:
        """Take over the tables, if they fit the schemas of the source."""
        with self._wanted.opened(self._storage, self._folder, self._observer.note) as opened:
            moment = opened.moment
        names = [table.name for table in moment.tables]
        done = self._is_done(moment)
        if not done:
            planned = self._planned(moment, {}, adopts=True)
            for table in moment.tables:
                check_adoptable(target, table, self._job)
            self._execution.take(Manifest(0), planned, {})
            if not self._is_done(moment):
                raise LoadError(f"the tables cannot be adopted: {'; '.join(self._execution.impossible)}")
        self._clean()
        counts = {name: target.read(self._job.rules.route(name)).count() for name in names}
        return Loaded(moment.ts, counts, 0, self._holds(moment), was_done=done)

    def _is_done(self, moment: Moment) -> bool:
        found = loads(self._execution.state.beginnings)
        return all(found.get(table.name.folded) == moment.ts for table in moment.tables)

    def _holds(self, moment: Moment) -> tuple[Hold, ...]:
        names = {table.name.folded for table in moment.tables}
        holds = self._execution.state.holds
        return tuple(hold for hold in holds if hold.table is not None and hold.table.folded in names)

    def _planned(self, moment: Moment, by_table: Mapping[str, list[ChunkReport]], *, adopts: bool = False) -> Planned:
        job, execution = self._job, self._execution
        return plan_load(
            execution.state,
            _tables(moment, by_table),
            moment.ts,
            job.rules,
            reject_files=_reject_files(by_table),
            on_bad=job.on_bad,
            has_watermarks=job.has_watermarks,
            adopts=adopts,
            check=execution.objection,
            now=now(),
        )


class _Replace(_Staging):
    """What replaces tables is staged here, and the driver of the target does the rest."""

    _PREFIX = "replace-"

    def ask(self) -> Asked:
        """Stage, and leave the request; one that is left already is not left again."""
        document = f"{self._folder}/{DOCUMENT}"
        data = self._storage.read(document)
        if data is not None:
            asked = decode(data, Replacing)
            return Asked(self._leave(), asked.ts, asked.names, was_asked=True)
        with self._wanted.opened(self._storage, self._folder, self._observer.note) as opened:
            moment = opened.moment
            self._stage(opened)
        by_table = self._by_table()
        tables = _tables(moment, by_table)
        rejected = [each for table in tables for each in table.rejected]
        if rejected and self._job.on_bad is not OnBad.SKIP:
            self._clean()
            raise LoadError(
                f"{_misfits(rejected)}. Nothing is replaced; --on-bad-row skip replaces the tables without them"
            )
        made = Replacing(uuid.uuid4().hex[:12], moment.ts, tables, _reject_files(by_table))
        self._storage.put(document, encode(made))
        self._observer.reached(Point.STAGED)
        return Asked(self._leave(), moment.ts, made.names)

    def _leave(self) -> str:
        known = [each.id for each in requests(self._storage) if each.arguments.get("load") == self._load]
        return known[0] if known else leave(self._storage, REPLACE, {"load": self._load}).id


def _tables(moment: Moment, by_table: Mapping[str, list[ChunkReport]]) -> tuple[LoadedTable, ...]:
    return tuple(
        LoadedTable(
            table,
            tuple(file for report in by_table.get(str(table.name), ()) for file in report.files),
            tuple(each for report in by_table.get(str(table.name), ()) for each in report.rejected),
        )
        for table in moment.tables
    )


def _reject_files(by_table: Mapping[str, list[ChunkReport]]) -> tuple[str, ...]:
    return tuple(path for found in by_table.values() for report in found for path in report.reject_files)


def _misfits(rejected: Sequence[Rejected]) -> str:
    count = "1 row does not fit" if len(rejected) == 1 else f"{len(rejected):,} rows do not fit"
    return f"{count}, the first: {min(rejected, key=_place).reason}"


def _place(rejected: Rejected) -> Position:
    return rejected.at


def _id(wanted: Source, job: Job) -> str:
    """What makes two loads the same."""
    facts = (wanted.facts, sorted(job.rules.to_plain().items()))
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:16]
