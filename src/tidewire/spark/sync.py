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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tidewire.arrow.policy import Policy
from tidewire.errors import SyncError
from tidewire.model import Message, Position, TableName
from tidewire.spark.apply import Mode, misfits, modes_of, run_steps
from tidewire.spark.apply import Settings as HowTo
from tidewire.spark.maintain import DEFAULT, Every, Schedule, moved_on, turn
from tidewire.spark.ownership import Owner, claim, locked
from tidewire.spark.published import Published, PublishedTable, newest, publish
from tidewire.spark.reports import Observer, Point, Report, Silent, describe, report_of
from tidewire.spark.source import Source
from tidewire.spark.stage import Before, Reader, stage, sweep, with_decimals, write_rejects
from tidewire.spark.states import States
from tidewire.spark.targets import Target
from tidewire.spark.work import Work
from tidewire.sync.manifest import Manifest, Rejected
from tidewire.sync.plan import Planned, Settings, plan
from tidewire.sync.routing import routed
from tidewire.sync.rules import Rules, broken_promises
from tidewire.sync.state import OnBad, State
from tidewire.sync.steps import Merge

__all__ = ["Job", "Observer", "Point", "Report", "Silent", "Sync", "describe"]

_RULES = "rules.json"


@dataclass(frozen=True, slots=True)
class Job:
    """What is to be synced, and how."""

    protocol: str
    options: Mapping[str, str] = field(default_factory=dict)
    gated: bool = True
    mode: Mode = Mode.MIRROR
    format: str = "iceberg"
    catalog: str = ""
    on_bad: OnBad = OnBad.HOLD
    until: int | None = None
    parallel: int = 4
    rules: Rules = field(default_factory=Rules)
    keep_rejected: bool = True
    maintain: Every = DEFAULT

    @property
    def time_zone(self) -> str:
        """The upstream server's time zone."""
        return self.options.get("time-zone", "UTC")

    def mode_of(self, name: TableName, rules: Rules | None = None) -> Mode:
        """The mode a table is made in."""
        return Mode((rules or self.rules).mode(name, self.mode))

    @property
    def before(self) -> Before:
        """How much of old rows is wanted."""
        modes = {self.mode, *(Mode(rule.mode) for rule in self.rules.tables if rule.mode)}
        return Before.ALL if Mode.HISTORY in modes else Before.KEY


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
        self._states = States(work)
        self._schedule = Schedule(job.maintain, target, work)
        self._stopping = threading.Event()
        self._error: BaseException | None = None

    def run(self, *, once: bool) -> State:
        """Sync what there is (``once``), or until :meth:`stop`; the state afterwards."""
        with locked(self._work):
            self._owner = claim(self._work, self._wanted())
            self._state = self._load()
            self._published = newest(self._work)
            self._moved = self._moved_on()
            self._finish_begun()
            self._keep_promises()
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
        return Owner(self._source.uri, job.protocol, job.format, str(job.mode), job.gated, job.time_zone, job.catalog)

    def _load(self) -> State:
        state = self._states.newest()
        if state is None:
            return State(self._owner.id)
        if state.batch >= 0 and not self._work.exists("checkpoint"):
            raise SyncError(
                f"Spark's checkpoint is missing from {self._work.uri}: it says where to read on. "
                "Bring it back, or begin anew with an empty target"
            )
        return state

    def _finish_begun(self) -> None:
        """Carry out a plan that a process before this one left behind, by the rules it had."""
        document = self._work.read(self._plan_name())
        if document is None:
            return
        rules = self._rules_of(document["rules"])
        settings = replace(self._settings(), until=document["until"], on_bad=OnBad(document["on_bad"]), rules=rules)
        manifest = Manifest.from_plain(document["manifest"])
        self._carry_out(plan(self._state, manifest, settings), manifest, rules, {})

    def _keep_promises(self) -> None:
        """Refuse rules that say otherwise of tables which are made already; remember them if they do not."""
        document = self._work.read(_RULES)
        if document is not None:
            state = self._state
            known = [table for table in state.tables.values() if state.copies.get(table.name.folded) is not None]
            known += [each.file.shape for each in state.pending]
            broken = broken_promises(self._rules_of(document), self._job.rules, known, self._mode_by)
            if broken:
                raise SyncError(
                    f"rules about tables that are made cannot change. {'; '.join(dict.fromkeys(broken))}. "
                    "Take the rules back, or begin anew with an empty target"
                )
        if document != self._job.rules.to_plain():
            self._work.write(_RULES, self._job.rules.to_plain())

    def _mode_by(self, rules: Rules, name: TableName) -> str:
        return self._job.mode_of(name, rules)

    def _rules_of(self, document: Mapping[str, Any]) -> Rules:
        """The rules of a document; where they hash, their salt is ours, or it is an error."""
        rules = Rules.from_plain(document, self._job.rules.salt)
        if rules.hashes and document["salt"] != rules.proof:
            raise SyncError(
                f"the salt is not the one that hashes in {self._work.uri} were made with: rows would no longer be found"
            )
        return rules

    def _catch_up(self) -> None:
        """What can be done without new messages: rows beyond an earlier ``until``, tables that were held."""
        manifest = Manifest(self._state.batch, ends=self._source.ends(), parked=self._state.parked)
        before, planned = self._state, plan(self._state, manifest, self._settings())
        if planned.steps or planned.state.applied > before.applied or {*planned.state.holds} != {*before.holds}:
            self._begin(manifest, planned, {})

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
                self._source.batch(messages),
                batch,
                self._reader(),
                self._state.floors(),
                self._work,
                ends=self._source.ends,
                parked=self._state.parked,
            )
            staged = time.perf_counter()
            planned = plan(self._state, manifest, self._settings())
            self._begin(manifest, planned, {"stage": staged - began, "plan": time.perf_counter() - staged})
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
            before=job.before,
            schemas=self._state.schemas if job.gated else (),
            declared=with_decimals(self._state.tables.values()),
            rules=job.rules,
            keep_rejected=job.keep_rejected,
        )

    def _begin(self, manifest: Manifest, planned: Planned, seconds: dict[str, float]) -> None:
        """Keep what a plan is made from, so that it can be made again, and carry it out."""
        settings = self._settings()
        manifest, planned = self._without_misfits(manifest, planned, settings)
        self._work.write(
            self._plan_name(),
            {
                "manifest": manifest.to_plain(),
                "until": settings.until,
                "on_bad": str(settings.on_bad),
                "rules": settings.rules.to_plain(),
            },
        )
        self._observer.reached(Point.STAGED)
        self._carry_out(planned, manifest, settings.rules, seconds)

    def _without_misfits(self, manifest: Manifest, planned: Planned, settings: Settings) -> tuple[Manifest, Planned]:
        """The manifest, with the rows among its rejects that their tables cannot hold, and the plan of it.

        Only a plan tells which type a row's value has to have, so this is found out after staging. What is rejected can
        hold a table back and so change the plan.
        """
        while True:
            merges = [step for step in planned.steps if isinstance(step, Merge)]
            known = {rejected.at for rejected in manifest.rejected}
            with ThreadPoolExecutor(self._job.parallel, "tidewire-check") as pool:
                checked = list(pool.map(lambda step: misfits(step, self._target, self._how()), merges))
            found = [each for rejected in checked for each in rejected if each.at not in known]
            if not found:
                return manifest, planned
            path = write_rejects(self._work, manifest.batch, found, self._rejected_messages(found))
            manifest = replace(
                manifest,
                rejected=(*manifest.rejected, *found),
                reject_files=(*manifest.reject_files, path),
            )
            planned = plan(self._state, manifest, settings)

    def _rejected_messages(self, rejected: Sequence[Rejected]) -> Mapping[Position, Message]:
        places = [each.at for each in rejected]
        return self._source.fetch(places) if self._job.keep_rejected else dict.fromkeys(places, Message(None, None))

    def _how(self, *, check: bool = True) -> HowTo:
        return HowTo(Policy(self._job.time_zone), check)

    def _carry_out(self, planned: Planned, manifest: Manifest, rules: Rules, seconds: dict[str, float]) -> None:
        if self._published is not None and self._published.sequence >= planned.state.sequence:
            self._finish(planned, manifest, seconds)
            return
        with turn(self._work):
            self._apply(planned, manifest, rules, seconds)
        self._finish(planned, manifest, seconds)

    def _apply(self, planned: Planned, manifest: Manifest, rules: Rules, seconds: dict[str, float]) -> None:
        """Do the steps and publish what they led to, while no maintenance rewrites a table."""
        began = time.perf_counter()
        known = {} if self._published is None else self._published.tables
        before = {name.folded: table.mode for name, table in known.items()}
        modes, after = modes_of(planned.steps, before, lambda name: self._job.mode_of(name, rules), rules.route)
        run_steps(
            [routed(step, rules.route) for step in planned.steps],
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
        self._publish(planned, after, rules)
        self._observer.reached(Point.PUBLISHED)

    def _finish(self, planned: Planned, manifest: Manifest, seconds: dict[str, float]) -> None:
        self._save(planned, manifest)
        self._source.committed({at: progress.next for at, progress in self._state.frontier.partitions.items()})
        self._observer.reached(Point.SAVED)
        began = time.perf_counter()
        notes = () if self._stopping.is_set() else self._schedule.after(self._state.sequence)
        if notes:
            self._moved = self._moved_on()
            seconds["maintain"] = time.perf_counter() - began
        self._observer.finished(report_of(replace(planned, notes=(*planned.notes, *notes)), manifest, seconds))

    def _publish(self, planned: Planned, modes: Mapping[TableName, Mode], rules: Rules) -> None:
        publication = planned.publication
        if publication is None:
            return
        known = {} if self._published is None else self._published.tables
        touched = {rules.route(name) for step in planned.steps for name in step.tables} | self._moved
        tables = {}
        for schema in publication.tables:
            name = rules.route(schema.name)
            kept = known.get(name)
            version = self._target.version(name) if kept is None or name in touched else kept.version
            held = publication.held.get(schema.name)
            shown = schema if schema.name == name else replace(schema, name=name)
            tables[name] = PublishedTable(shown, version, modes[name.folded], held)
        published = Published(planned.state.sequence, publication.ts, tables)
        self._published = publish(self._work, published, self._published)
        self._moved = frozenset()

    def _moved_on(self) -> frozenset[TableName]:
        """The tables that maintenance gave another version of the same rows."""
        known = {} if self._published is None else self._published.tables
        return moved_on(self._work, {name: table.version for name, table in known.items()})

    def _save(self, planned: Planned, manifest: Manifest) -> None:
        self._state = planned.state
        self._states.save(self._state)
        self._clean(planned, manifest)

    def _clean(self, planned: Planned, manifest: Manifest) -> None:
        """Remove what no later run asks for; if this is cut short, the next one does it."""
        work, sequence = self._work, self._state.sequence
        done = [f"plans/{name}" for name in work.names("plans") if int(name.partition(".")[0]) <= sequence]
        work.delete([work.path(name) for name in done] + [file.path for file in planned.done])
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
            rules=job.rules,
        )

    def _plan_name(self) -> str:
        return f"plans/{self._state.sequence + 1:012}.json"

    def _reached_end(self) -> bool:
        return self._job.until is not None and self._state.applied >= self._job.until


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
