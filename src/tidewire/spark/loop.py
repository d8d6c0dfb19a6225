"""The sync: a loop of passes that read ranges of offsets and write tables.

::

    read       which offsets are there, and which of them are new
    stage      messages to typed files, in Spark tasks; few messages here in the driver
    plan       files, watermarks and DDL to steps; every step is checked
    keep       the plan, in the ledger
    apply      the steps, each a commit that says which step it is
    publish    which version of which table belongs to which upstream time

The first two are here, the others in :mod:`tidewire.spark.execution`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

from pyspark.sql import SparkSession

from tidewire.arrow.policy import Policy
from tidewire.errors import Fenced, LoadError, OptionError, SyncError
from tidewire.model import Position, TableName
from tidewire.spark.apply import Applier, ApplySettings
from tidewire.spark.catalogs import remember
from tidewire.spark.execution import Execution
from tidewire.spark.job import Job
from tidewire.spark.ledger import RULES, Answer, KeptRules, Ledger, Request
from tidewire.spark.legacy import legacy_rules
from tidewire.spark.load.replace import Replacement, clean_finished, requested
from tidewire.spark.maintain import Every, Maintained, MaintenanceSettings, TableUpkeep, Upkeep, maintain, upkeep_line
from tidewire.spark.patience import Patience
from tidewire.spark.report import Observer, PassReport, Point, Silent, describe, report_of
from tidewire.spark.requests import CANCEL, REPLACE, carry_out
from tidewire.spark.sessions import java_process
from tidewire.spark.source import Extent, NoSource, OffsetRange, Source
from tidewire.spark.stage import Stage, folded
from tidewire.spark.staging import begun, remember_staging
from tidewire.spark.targets import CommitTag, Target, together
from tidewire.storage import Storage
from tidewire.sync.beginnings import incomplete, missing_rows
from tidewire.sync.documents import decode, encode
from tidewire.sync.manifest import Manifest, Partition, ReadRange
from tidewire.sync.plan import Planned
from tidewire.sync.rules import Rules, broken_promises
from tidewire.sync.state import State

__all__ = ["Job", "Loop", "Observer", "PassReport", "Point", "Silent", "describe"]

PASS_SECONDS: Final = 1.0
"""The least seconds between the begins of two passes, unless a backlog is left."""

REST: Final = 0.25
LONGEST_REST: Final = 4.0
"""After a pass the sync waits for a quarter of the time that its commits took, at most four seconds, unless a
backlog is left. Each table costs a commit, whatever its rows, so passes over many tables come less often."""


class Loop:
    """The loop of a running sync, the only driver of its target."""

    execution: Execution
    """Its state and its plans, from :meth:`run` on."""

    def __init__(
        self, spark: SparkSession, source: Source, target: Target, job: Job, observer: Observer = Silent()
    ) -> None:
        self._spark = spark
        self._source = source
        self._target = target
        self._job = job
        self._observer = observer
        self._stopping = threading.Event()
        self._patiently = Patience(job.patience, self._stopping, observer.note)
        self._driving = threading.Event()
        self._passes = 0
        self._rest = 0.0
        self._replacements: dict[str, Replacement] = {}
        self._left: Collection[str] = ()
        self._making: Collection[TableName] = ()
        self.storage: Storage = begun(target.uri, job.staging)

    def run(self, *, once: bool, take_over: bool = False) -> State:
        """Sync what there is (``once``), or until :meth:`stop`; the state afterwards."""
        with self.driving(take_over=take_over) as execution:
            self._tell_incomplete()
            self.catch_up()
            requested = {each.arguments["load"] for each in self._ledger.requests() if each.verb == REPLACE}
            clean_finished(self.storage, requested, execution)
            self._loop(once=once)
        return execution.state

    @contextmanager
    def driving(self, *, take_over: bool = False) -> Iterator[Execution]:
        """Become the driver of the target for the time of a block. An unfinished plan is carried out first."""
        job, target = self._job, self._target
        both = together(target) if job.atomic else None
        opened = Ledger.open(
            self.storage,
            job.owner(self._source),
            jvm=java_process(self._spark),
            take_over=take_over,
            tell=self._observer.note,
        )
        settings = ApplySettings(Policy(job.time_zone), self.storage)
        with closing(opened) as ledger, closing(Applier(target, settings, job.parallel, both)) as applier:
            self._ledger, self._applier = ledger, applier
            self._replacements = {}
            self._left = {each.id for each in ledger.requests() if each.verb != REPLACE}
            self._driving.set()
            remember_staging(self.storage, job.staging)
            if job.catalog is not None:
                remember(self.storage, job.catalog)
            self._stage = Stage(self._spark, self._source, self.storage, ledger.epoch.number)
            self._upkeep = Upkeep(job.maintain, target, self.storage, self._upkeep_tag)
            self.execution = Execution(
                job, self._source, target, ledger, applier, self._upkeep, self._observer, self._patiently
            )
            self.execution.begin(ledger.recover())
            self._source.begin(self.storage, self.execution.next_offsets)
            self._keep_promises()
            try:
                yield self.execution
            finally:
                for each in self._replacements.values():
                    each.close()
            self.execution.save()
            self._upkeep.save()

    @property
    def is_driving(self) -> bool:
        """Whether it has become the driver of its target, and so should end in good order."""
        return self._driving.is_set()

    @property
    def reads_topics(self) -> bool:
        """Whether it has a source. A load has none."""
        return not isinstance(self._source, NoSource)

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to end."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """End after the pass that is running."""
        self._stopping.set()

    # Beginning

    def _keep_promises(self) -> None:
        """Refuse rules that contradict tables that exist already; otherwise remember the rules."""
        data = self.storage.read(RULES)
        document = legacy_rules(self.storage) if data is None else decode(data, KeptRules).rules
        if document is not None:
            state = self.execution.state
            known = [table for table in state.tables.values() if state.target_tables.get(table.name.folded) is not None]
            made = {table.name for table in known}
            staged = [each.file.shape for each in state.pending if each.file.shape.name not in made]
            broken = broken_promises(self._rules_of(document), self._job.rules, known, self._mode_by, staged)
            if broken:
                raise SyncError(
                    f"rules about tables that are made cannot change. {'; '.join(dict.fromkeys(broken))}. "
                    "Take the rules back, or begin anew with an empty target"
                )
        if data is None or document != self._job.rules.to_plain():
            self.storage.put(RULES, encode(KeptRules(self._job.rules.to_plain())))

    def _tell_incomplete(self) -> None:
        """Say which tables lack rows from before the topic."""
        state = self.execution.state
        for name, ts in sorted(incomplete(state.tables, state.beginnings).items()):
            self._observer.note(missing_rows(name, ts))

    def _mode_by(self, rules: Rules, name: TableName) -> str:
        return self._job.mode_of(name, rules)

    def _rules_of(self, document: Mapping[str, Any]) -> Rules:
        """The rules of a document; :class:`SyncError` if they hash with another salt."""
        rules = Rules.from_plain(document, self._job.rules.salt)
        if rules.hashes and document["salt"] != rules.proof:
            raise SyncError(
                f"the salt is not the one that hashes in {self.storage.uri} were made with: rows would no longer be "
                "found. Give the salt that the sync began with"
            )
        return rules

    def catch_up(self) -> None:
        """Do the work that needs no new messages: rows beyond an earlier ``until``, and holds that have ended."""
        state = self.execution.state
        manifest = Manifest(self._passes, ends=_ends(self._extents()), parked=state.parked)
        planned = self.execution.plan(manifest)
        after = planned.state
        if planned.steps or after.applied > state.applied or after.holds != state.holds:
            self._take(manifest, planned, {})

    # Passes

    def _loop(self, *, once: bool) -> None:
        limits = self._extents() if once else None
        while not self._stopping.is_set():
            began = time.monotonic()
            self._ledger.epoch.check()
            replaces = self._requests()
            if self._reached_end() and not replaces:
                return
            extents = self._extents()
            ranges = self._ranges(extents, limits)
            self._rest = 0.0
            if ranges or extents.keys() - self.execution.state.frontier.partitions.keys():
                self._pass(ranges, extents)
            elif once and not replaces:
                return
            self._fold_waiting()
            self._tend()
            if not once and sum(each.messages for each in ranges) < self._source.max_messages:
                self._stopping.wait(max(self._rest, PASS_SECONDS - (time.monotonic() - began)))

    def _reached_end(self) -> bool:
        return self._job.until is not None and self.execution.state.applied >= self._job.until

    def _extents(self) -> Mapping[Partition, Extent]:
        """The partitions there are; :class:`SyncError` if a topic was created again."""
        extents = self._patiently(self._source.partitions)
        known = self.execution.topic_ids
        for at, extent in extents.items():
            if extent.topic_id is not None and known.setdefault(at.topic, extent.topic_id) != extent.topic_id:
                raise SyncError(
                    f"topic {at.topic} was deleted and created again since the sync began: its offsets mean other "
                    "messages now. Begin anew with an empty target, or with another topic"
                )
        return extents

    def _ranges(
        self, extents: Mapping[Partition, Extent], limits: Mapping[Partition, Extent] | None
    ) -> list[OffsetRange]:
        """What the next pass reads. ``limits`` are the ends at the start of a run that drains its source."""
        known = self.execution.next_offsets
        if limits is not None:
            extents = {
                at: replace(extent, end=min(extent.end, max(limits[at].end, known.get(at, 0))))
                for at, extent in extents.items()
                if at in limits
            }
        return self._source.ranges(extents, known)

    def _pass(
        self,
        ranges: Sequence[OffsetRange],
        extents: Mapping[Partition, Extent] = {},
        again: Mapping[Position, str] = {},
    ) -> None:
        began = time.perf_counter()
        self._passes += 1
        state = self.execution.state
        manifest = self._patiently(
            lambda: self._stage.run(
                ranges,
                self._passes,
                self._job.reader(state, self._source.form),
                state.replays(),
                ends=lambda: _ends(self._extents()),
                parked=state.parked,
                again=again,
            )
        )
        manifest = replace(manifest, read={**self._empty(extents), **manifest.read})
        self._observer.reached(Point.STAGED)
        staged = time.perf_counter()
        planned = self.execution.plan(manifest)
        seconds = {"stage": staged - began, "plan": time.perf_counter() - staged}
        self._take(manifest, planned, seconds, sum(each.messages for each in ranges))

    def _empty(self, extents: Mapping[Partition, Extent]) -> dict[Partition, tuple[ReadRange, ...]]:
        """Partitions that are seen first while they are empty: read up to here, so that nothing to come is missed."""
        new = extents.keys() - self.execution.next_offsets.keys()
        empty = ((at, extents[at].end) for at in sorted(new) if extents[at].first == extents[at].end)
        return {at: (ReadRange.of(end, end),) for at, end in empty}

    def _take(self, manifest: Manifest, planned: Planned, seconds: dict[str, float], messages: int = 0) -> None:
        manifest, planned = self.execution.take(manifest, planned, seconds)
        self._rest = min(REST * seconds.get("apply", 0.0), LONGEST_REST)
        rows = self.execution.rows(planned)
        self._observer.finished(report_of(planned, manifest, self._ledger.sequence, rows, seconds, messages))

    # Between passes

    def _fold_waiting(self) -> None:
        """Join the staged files of tables that have waited long."""
        folder, state = f"{self._ledger.epoch.number:08}/{self._passes:08}", self.execution.state
        pending, gone = self._patiently(lambda: folded(self.storage, folder, state.pending))
        if gone:
            self.execution.change(replace(state, pending=pending), gone)

    def _tend(self) -> None:
        """Compact and expire one table, if that is due."""
        name = self._upkeep.due()
        if name is None or self._stopping.is_set():
            return
        self._patiently(self._ledger.epoch.look)
        if self._patiently(lambda: self._target.exists(name)):
            self._tended(self._patiently(lambda: self._upkeep.tend(name)))
        else:
            self._upkeep.forget(name)

    def _tended(self, done: TableUpkeep) -> None:
        self.execution.tended(done)
        self._observer.note(upkeep_line(done))

    @property
    def _upkeep_tag(self) -> CommitTag:
        """The tag of commits that maintenance makes."""
        return CommitTag(self._ledger.owner.id, self._ledger.epoch.number, self._ledger.sequence, "maintenance")

    def serve(self, making: Collection[TableName] = ()) -> bool:
        """Carry out what other processes ask of a driver without topics, such as a load. Is there more to do now?

        Tables are replaced as far as that needs no topic, except those that the driver is ``making`` itself. Other
        requests are refused, unless they were left for the next sync before this driver began.
        """
        self._making = {name.folded for name in making}
        return self._requests(self._left)

    def _requests(self, left: Collection[str] = ()) -> bool:
        """Carry out what other processes ask. Did the replacement of a table come further, with more to do?

        Requests that are ``left`` to another driver stay.
        """
        moved, found = False, self._patiently(self._ledger.requests)
        found.sort(key=lambda each: each.verb != CANCEL)
        cancelled = {each.arguments["request"] for each in found if each.verb == CANCEL}
        for request in found:
            if request.id in cancelled or (request.id in left and request.verb != CANCEL):
                continue
            try:
                lines = carry_out(self, request)
            except Fenced:
                raise
            except (SyncError, OptionError) as error:
                if request.verb == REPLACE and not isinstance(error, LoadError):
                    raise  # it goes on when the sync is started again
                answer = Answer(False, (str(error),))
            else:
                moved |= request.id in self._replacements and self._replacements[request.id].has_moved
                if lines is None:
                    moved |= request.verb == CANCEL
                    continue
                answer = Answer(True, lines)
            for line in answer.lines if request.verb != "maintain" else ():
                self._observer.note(f"{request.verb}: {line}")
            self._observer.reached(Point.REQUESTED)
            self._patiently(partial(self._ledger.answer, request.id, answer))
        return moved

    def read_again(self, messages: Mapping[Position, str]) -> None:
        """Read messages again that are kept in files, and go on from there."""
        self._pass([], again=messages)

    def replace(self, request: Request) -> tuple[str, ...] | None:
        """Go on with a request to replace tables; the lines of its answer when it is carried out."""
        found = self._replacement(request)
        if any(name.folded in self._making for name in found.names):
            return None
        try:
            extents = self._extents()
            lines = found.go_on(request.id, extents, lambda: _ends(self._extents()))
        except LoadError:
            found.give_up(self._target, self._upkeep_tag)
            raise
        if lines is not None:
            found.clean()
        return lines

    def cancel(self, request: str) -> tuple[str, ...] | None:
        """Take a request back, and remove what was made for it; ``None`` if new tables are being filled just now."""
        wanted = next((each for each in self._ledger.requests() if each.id == request), None)
        if wanted is None:
            raise SyncError(f"there is no request {request}: it was answered before, see tidewire requests ls")
        if wanted.verb == REPLACE and requested(self.storage, wanted) is not None:  # else a driver died right here
            found = self._replacement(wanted)
            if found.is_filling():
                return None
            found.give_up(self._target, self._upkeep_tag)
            self._replacements.pop(request).close()
        self._ledger.answer(request, Answer(False, ("it was taken back",)))
        return (f"{request} is taken back",)

    def _replacement(self, request: Request) -> Replacement:
        found = self._replacements.get(request.id)
        if found is None:
            load = request.arguments["load"]
            found = Replacement(self.storage, load, self._job, self.execution, self._beside)
            self._observer.note(found.plan)
            self._replacements[request.id] = found
        return found

    def _beside(self, storage: Storage, job: Job) -> tuple[Execution, Stage]:
        """An execution with a ledger of its own, and what it stages with."""
        ledger = Ledger(storage, self._ledger.owner, self._ledger.epoch)
        upkeep = Upkeep(Every(), self._target, storage)
        execution = Execution(
            job, NoSource(), self._target, ledger, self._applier, upkeep, self._observer, self._patiently
        )
        execution.begin(ledger.recover())
        return execution, Stage(self._spark, self._source, storage, ledger.epoch.number)

    def maintain(self, settings: MaintenanceSettings) -> Maintained:
        """Do a whole round of maintenance, and publish the versions it leads to."""
        done = maintain(self._target, self.storage, settings, self._upkeep_tag, self._ledger.epoch.look, self._tended)
        self.execution.save()
        return done


def _ends(extents: Mapping[Partition, Extent]) -> dict[Partition, int]:
    """The end of every partition; 0 if no message is left in it, so that it holds no watermark back."""
    return {at: extent.end if extent.first < extent.end else 0 for at, extent in extents.items()}
