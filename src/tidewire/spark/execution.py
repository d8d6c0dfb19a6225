"""From a manifest to tables: plan, keep, apply, publish. The order of these is what makes every step happen once.

The ledger's docstring says what is found and done after a death at any place here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from tidewire.arrow.policy import Policy
from tidewire.errors import StepImpossible, TargetError
from tidewire.model import Message, Position, TableName
from tidewire.spark.apply import Applier, Mode, Outcome, check, modes_of
from tidewire.spark.job import Job
from tidewire.spark.ledger import KeptPlan, KeptPublication, KeptStep, KeptTable, Ledger, Recovered, now
from tidewire.spark.maintain import TableUpkeep, Upkeep
from tidewire.spark.patience import Patience
from tidewire.spark.publications import Published, PublishedTable
from tidewire.spark.report import Observer, Point
from tidewire.spark.source import Source
from tidewire.spark.stage import write_rejects
from tidewire.spark.targets import CommitTag, Target
from tidewire.sync.manifest import Manifest, Partition, Rejected
from tidewire.sync.plan import Planned, PlanSettings, plan
from tidewire.sync.rules import routed
from tidewire.sync.state import State
from tidewire.sync.steps import Drop, Fill, Merge, Rename, Step, Truncate

SAVE_SECONDS: Final = 5.0
"""The seconds between two saves of progress without steps, if only watermarks moved."""


class Execution:
    """The state of a running sync, and the only code that changes it."""

    def __init__(
        self,
        job: Job,
        source: Source,
        target: Target,
        ledger: Ledger,
        applier: Applier,
        upkeep: Upkeep,
        observer: Observer,
        patiently: Patience,
    ) -> None:
        self._job = job
        self._source = source
        self._target = target
        self._ledger = ledger
        self._applier = applier
        self._upkeep = upkeep
        self._observer = observer
        self._patiently = patiently
        self._impossible: dict[str, str] = {}
        self._versions: dict[TableName, str] = {}
        self._published: Published | None = None
        self._unsaved = False
        self._saved_at = 0.0
        self._publication: KeptPublication | None = None
        self._done: list[str] = []
        self._lent: dict[TableName, Mode] = {}
        self.state = State(ledger.owner.id)
        self.until = job.until
        """The ts above which nothing is applied."""
        self.topic_ids: dict[str, str] = {}
        """The ids of Kafka's topics, which tell a topic from another one that was created under its name later."""

    def begin(self, found: Recovered) -> None:
        """Go on from what the ledger has; finish a plan that another driver left."""
        self.state, self._published = found.state, found.published
        if not self._job.has_watermarks:  # a load notes its moment, and in offset order a row's ts is its offset
            self.state = replace(self.state, last_ddl_ts={})
        self.topic_ids |= found.topic_ids
        tables = {} if found.published is None else found.published.tables
        self._versions = {name: table.version for name, table in tables.items()}
        if found.unfinished is not None:
            self._adopt(found.unfinished)

    @property
    def next_offsets(self) -> dict[Partition, int]:
        """How far every partition has been read."""
        found = ((at, progress.next) for at, progress in self.state.frontier.partitions.items())
        return {at: offset for at, offset in found if offset is not None}

    # Planning

    def plan(self, manifest: Manifest) -> Planned:
        """What a manifest makes of the tables."""
        job = self._job
        settings = PlanSettings(
            has_watermarks=job.has_watermarks,
            ddl=job.has_watermarks or job.protocol != "avro",
            until=self.until,
            on_bad=job.on_bad,
            time_zone=job.time_zone,
            rules=job.rules,
            check=self.objection,
            now=now(),
        )
        return plan(self.state, manifest, settings)

    @property
    def impossible(self) -> list[str]:
        """Why steps failed that can never be done."""
        return list(dict.fromkeys(self._impossible.values()))

    def objection(self, step: Step) -> str | None:
        """Why a step cannot be done: because it failed before, or because it never can."""
        (mode,), _ = modes_of([step], self._modes(), self._job.mode_of, self._job.rules.route)
        done = routed(step, self._job.rules.route)
        return self._impossible.get(done.id) or check(done, mode, Policy(self._job.time_zone))

    def _modes(self) -> dict[TableName, Mode]:
        tables = {} if self._published is None else self._published.tables
        return {name.folded: Mode(table.mode) for name, table in tables.items()} | self._lent

    def lend(self, other: Execution) -> None:
        """Let another execution rename the tables that this one has made."""
        other._lent = self._modes()

    def _without_invalid_changes(self, manifest: Manifest, planned: Planned) -> tuple[Manifest, Planned]:
        """The manifest with the rows among its rejects that their tables cannot hold, and the plan of it.

        Only a plan tells which type a row's value has to have, so this is found out after staging. What is rejected can
        hold a table back and so change the plan.
        """
        while True:
            merges = [step for step in planned.steps if isinstance(step, Merge)]
            known = {rejected.at for rejected in manifest.rejected}
            invalid = self._patiently(partial(self._applier.invalid_changes, merges))
            found = [each for each in invalid if each.at not in known]
            if not found:
                return manifest, planned
            messages = self._patiently(partial(self._messages, found))
            kept = partial(write_rejects, self._ledger.storage, self._ledger.epoch.number, manifest.batch)
            path = self._patiently(partial(kept, found, messages))
            manifest = replace(
                manifest,
                rejected=(*manifest.rejected, *found),
                reject_files=(*manifest.reject_files, path),
                retried=tuple(at for at in manifest.retried if at not in {each.at for each in found}),
            )
            planned = self.plan(manifest)

    def _messages(self, rejected: Sequence[Rejected]) -> Mapping[Position, Message]:
        return self._source.fetch([each.at for each in rejected]) if self._job.keep_rejected else {}

    # Keeping and carrying out

    def take(
        self,
        manifest: Manifest,
        planned: Planned,
        seconds: dict[str, float],
        answers: Mapping[str, tuple[str, ...]] = {},
    ) -> tuple[Manifest, Planned]:
        """Keep a plan and carry it out. A plan without steps is only remembered, and saved now and then.

        ``answers`` are requests that are carried out by steps, each with the lines of its answer.
        """
        manifest, planned = self._without_invalid_changes(manifest, planned)
        if planned.steps:
            kept = self._keep(self._kept_plan(planned, manifest, answers))
            self._observer.reached(Point.KEPT)
            if self._is_own(kept):
                planned = self._carry_out(kept, seconds) or planned
            return manifest, planned
        self._publication = self._kept_publication(planned) or self._publication
        self._done += [file.path for file in planned.done]
        self.change(planned.state)
        if time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self.save()
        return manifest, planned

    def change(self, state: State, done: Sequence[str] = ()) -> None:
        """Go on from another state; it is kept with the next plan, and files that are ``done`` are deleted then."""
        self.state, self._unsaved = state, True
        self._done += done

    def save(self, answers: Mapping[str, tuple[str, ...]] = {}) -> None:
        """Keep and publish what passes without steps, maintenance and requests have come to.

        ``answers`` are requests that are carried out with it, each with the lines of its answer.
        """
        if not self._unsaved:
            return
        publication, done = self._publication or self._last_publication(), tuple(self._done)

        def make(epoch: int, sequence: int, at: str) -> KeptPlan:
            topics = dict(self.topic_ids)
            return KeptPlan(epoch, sequence, at, self.state, topics, publication, done=done, answers=answers)

        kept = self._keep(make)
        if self._is_own(kept):
            self._publish(kept, {})
            self._finish(kept)

    def _keep(self, make: Callable[[int, int, str], KeptPlan]) -> KeptPlan:
        return self._patiently(lambda: self._ledger.keep(make))

    def _is_own(self, kept: KeptPlan) -> bool:
        """Is it this driver's plan? A plan that an older driver kept in its place is carried out instead."""
        if kept.epoch == self._ledger.epoch.number:
            return True
        self._adopt(kept)
        return False

    def _adopt(self, kept: KeptPlan) -> None:
        """Carry out a plan that another driver kept. Its tables are fenced first: that driver may still run."""
        if kept.before is not None:
            self.state = kept.before
        for name in _tables(kept.steps):
            self._patiently(partial(self._fence, name, kept))
        self._observer.reached(Point.FENCED)
        self._carry_out(kept, {})

    def _fence(self, name: TableName, kept: KeptPlan) -> None:
        if self._target.exists(name):
            self._target.fence(name, self._tag(kept, "fence"))

    def _carry_out(self, kept: KeptPlan, seconds: dict[str, float]) -> Planned | None:
        """Do the steps of a plan and publish what they led to.

        If a step proves impossible, its table is held and the plan is made again without it; that plan comes back.
        """
        began = time.perf_counter()
        try:
            outcomes = self._patiently(
                lambda: self._applier.run(
                    [each.step for each in kept.steps],
                    [Mode(each.mode) for each in kept.steps],
                    tag=lambda step: self._tag(kept, step.id),
                    known=self._versions,
                    on_step=lambda step: self._observer.reached(Point.STEP),
                )
            )
        except TargetError:
            self._ledger.epoch.look()  # if a newer driver has replaced or renamed the table, that is the reason
            raise
        seconds["apply"] = seconds.get("apply", 0.0) + time.perf_counter() - began
        failed = {id_: outcome for id_, outcome in outcomes.items() if isinstance(outcome, StepImpossible)}
        if failed:
            self._patiently(self._ledger.epoch.look)  # a newer driver may have renamed or dropped the table
            return self._plan_again(kept, failed, seconds)
        self._observer.reached(Point.APPLIED)
        self._publish(kept, {id_: outcome for id_, outcome in outcomes.items() if isinstance(outcome, Outcome)})
        self._observer.reached(Point.PUBLISHED)
        self._finish(kept)
        return None

    def _plan_again(self, kept: KeptPlan, failed: Mapping[str, StepImpossible], seconds: dict[str, float]) -> Planned:
        """The plan without steps that proved impossible, under a new sequence, after their tables are fenced.

        The planner gives the other steps the same ids, so those that are done already are recognised.
        """
        assert kept.before is not None
        assert kept.manifest is not None
        self._impossible |= {id_: failure.reason for id_, failure in failed.items()}
        for name in sorted({name for failure in failed.values() for name in failure.tables}):
            self._patiently(partial(self._fence, name, kept))
        self.state = kept.before
        planned = self.plan(kept.manifest)
        again = self._keep(self._kept_plan(planned, kept.manifest))
        self._observer.reached(Point.REPLANNED)
        return (self._carry_out(again, seconds) if self._is_own(again) else None) or planned

    def _tag(self, kept: KeptPlan, step: str) -> CommitTag:
        return CommitTag(self._ledger.owner.id, self._ledger.epoch.number, kept.sequence, step)

    def _publish(self, kept: KeptPlan, outcomes: Mapping[str, Outcome]) -> None:
        """Say which version every table has: that of its last step, or that of a compaction since."""
        self._versions = versions_after(self._versions, kept.steps, outcomes)
        if kept.publication is None:
            return
        tables = {}
        for table in kept.publication.tables:
            name = table.schema.name
            self._versions[name] = self._versions.get(name) or self._patiently(partial(self._target.version, name))
            tables[name] = PublishedTable(table.schema, self._versions[name], table.mode, table.held, table.rows_since)
        self._published = Published(kept.sequence, kept.publication.ts, tables)
        published = self._published
        self._patiently(lambda: self._ledger.publish(published))

    def _finish(self, kept: KeptPlan) -> None:
        self.state, self._unsaved, self._publication, self._done = kept.state, False, None, []
        self._saved_at = time.monotonic()
        self._patiently(lambda: self._ledger.clean(kept))
        for name in _tables(kept.steps):
            self._upkeep.changed(name)
        self._patiently(self._upkeep.thin)
        self._source.committed(self.next_offsets)
        self._observer.reached(Point.CLEANED)

    # What is kept

    def _kept_plan(
        self, planned: Planned, manifest: Manifest, answers: Mapping[str, tuple[str, ...]] = {}
    ) -> Callable[[int, int, str], KeptPlan]:
        """What is kept of a plan: its steps under the target's names, each with the mode of its table."""
        route = self._job.rules.route
        modes, _ = modes_of(planned.steps, self._modes(), self._job.mode_of, route)
        steps = tuple(KeptStep(routed(step, route), str(mode)) for step, mode in zip(planned.steps, modes, strict=True))
        publication = self._kept_publication(planned)
        done = (*self._done, *(file.path for file in planned.done))

        def make(epoch: int, sequence: int, at: str) -> KeptPlan:
            topics = dict(self.topic_ids)
            before = self.state
            return KeptPlan(
                epoch, sequence, at, planned.state, topics, publication, steps, before, manifest, done, answers
            )

        return make

    def _kept_publication(self, planned: Planned) -> KeptPublication | None:
        """What a plan publishes, under the target's names."""
        if planned.publication is None:
            return None
        route = self._job.rules.route
        _, modes = modes_of(planned.steps, self._modes(), self._job.mode_of, route)
        tables = []
        for schema in planned.publication.tables:
            name, held = route(schema.name), planned.publication.held.get(schema.name)
            since = planned.publication.rows_since.get(schema.name)
            tables.append(KeptTable(replace(schema, name=name), str(modes[name.folded]), held, since))
        return KeptPublication(planned.publication.ts, tuple(tables))

    def _last_publication(self) -> KeptPublication | None:
        """What was published last, to be published again with other versions of the same rows."""
        if self._published is None:
            return None
        found = self._published.tables.values()
        tables = (KeptTable(each.schema, each.mode, each.held, each.rows_since) for each in found)
        return KeptPublication(self._published.ts, tuple(tables))

    # What others ask

    def rows(self, planned: Planned) -> dict[TableName, int]:
        """How many rows the tables have that a plan changed or gave another name, if the target knows."""
        route = self._job.rules.route
        steps = (step for step in planned.steps if isinstance(step, Merge | Fill | Truncate | Rename))
        changed = {name for step in steps for name in step.tables if name in planned.state.tables}
        counts = {name: self._patiently(partial(self._count, route(name))) for name in changed}
        return {name: count for name, count in counts.items() if count is not None}

    def _count(self, name: TableName) -> int | None:
        version = self._versions.get(name)
        found = None if version is None else self._target.rows_at(version)
        return self._target.row_count(name) if found is None and self._target.exists(name) else found

    def forget_failures(self) -> None:
        """Try steps again that failed before."""
        self._impossible.clear()

    def tended(self, done: TableUpkeep) -> None:
        """Take over the version that maintenance gave a table; the next publication names it."""
        if done.version is not None and self._versions.get(done.table, done.version) != done.version:
            self._versions[done.table] = done.version
            self._unsaved = True


def _tables(steps: Sequence[KeptStep]) -> list[TableName]:
    """The tables that steps change, each once."""
    return list(dict.fromkeys(name for each in steps for name in sorted(each.step.tables)))


def versions_after(
    versions: Mapping[TableName, str], steps: Sequence[KeptStep], outcomes: Mapping[str, Outcome]
) -> dict[TableName, str]:
    """The version of every table after some steps: that of its last step. A rename takes it along."""
    found = dict(versions)
    for each in steps:
        step, outcome = each.step, outcomes.get(each.step.id, Outcome())
        if isinstance(step, Drop):
            found.pop(step.name, None)
        elif isinstance(step, Rename):
            moved = [(new, found.pop(old, None)) for old, new in step.moves]
            found |= {new: version for new, version in moved if version is not None}
            found |= {new: outcome.renamed[new] for _, new in step.moves if new in outcome.renamed}
        elif outcome.version is not None:
            found |= dict.fromkeys(step.tables, outcome.version)
    return found
