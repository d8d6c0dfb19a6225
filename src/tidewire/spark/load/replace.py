"""Tables loaded anew while the sync goes on: filled beside the old ones, caught up, and put in their place.

::

    loads/<id>/replacing    what was staged, and as of when
    loads/<id>/staged/…     staged rows of the load, and of the topics as they are read again
    loads/<id>/plans/…      a ledger of its own, by the rules of the target's: how far the new tables are

The request for it is answered in the plan that puts the new tables in place. Until then every driver of the target goes
on with it between its passes. The old tables are synced and published meanwhile as always, and the new ones are in no
publication before they are at the moment of all others. Each driver's commits to them carry its epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from typing import Final

from tidewire.errors import LoadError, SyncError, SyncStopped
from tidewire.model import TableName
from tidewire.spark.execution import Execution
from tidewire.spark.job import Job
from tidewire.spark.ledger import RULES, Answer, KeptRules, Request, files_of, leave, now, requests, withdraw
from tidewire.spark.requests import CANCEL
from tidewire.spark.source import Extent, OffsetRange
from tidewire.spark.stage import Stage
from tidewire.spark.targets import CommitTag, Target
from tidewire.storage import Storage
from tidewire.sync.documents import decode
from tidewire.sync.loads import plan_load
from tidewire.sync.manifest import Manifest, Partition
from tidewire.sync.plan import Planned
from tidewire.sync.replacing import Replacing, behind, first_state, is_level, plan_swap
from tidewire.sync.rules import Rules
from tidewire.sync.state import OnBad

_LOOK_SECONDS: Final = 0.1
"""How long a pass waits for new tables that are being filled."""

FOLDER: Final = "loads"
DOCUMENT: Final = "replacing"

Beside = Callable[[Storage, Job], tuple[Execution, Stage]]
"""Opens an execution with a ledger of its own, which the same driver writes."""


class Replacement:
    """One request to replace tables, as far as the driver of a target is with it."""

    def __init__(self, ledger: Storage, load: str, job: Job, main: Execution, beside: Beside) -> None:
        data = ledger.read(f"{FOLDER}/{load}/{DOCUMENT}")
        if data is None:
            raise LoadError("what was read for it is gone: give the command again")
        self._replacing = decode(data, Replacing)
        self._ledger, self._folder, self._main = ledger, f"{FOLDER}/{load}", main
        self._rules = job.rules
        self._job = replace(
            job,
            rules=self._replacing.rules(job.rules),
            until=None,
            on_bad=OnBad.SKIP if job.on_bad is OnBad.SKIP else OnBad.HOLD,
            keep_rejected=False,
        )
        self._new, self._stage = beside(ledger.below(self._folder), self._job)
        self._passes = 0
        self._filling: Future[None] | None = None
        self._pool = ThreadPoolExecutor(1, "tidewire-fill")
        self.has_moved = False
        """Did the last call of :meth:`go_on` come any further?"""

    def fill(self) -> None:
        """Make and fill the new tables, unless that is done."""
        new, found = self._new, self._replacing
        if new.state.sequence:
            return
        new.change(first_state(self._main.state))
        planned = plan_load(
            new.state,
            found.tables,
            found.ts,
            self._job.rules,
            reject_files=found.reject_files,
            on_bad=OnBad.SKIP,
            has_watermarks=self._job.has_watermarks,
            check=new.objection,
            now=now(),
        )
        new.take(Manifest(0), planned, {})
        if new.impossible:
            raise LoadError(f"the tables cannot be made of what was read: {'; '.join(new.impossible)}")

    def go_on(
        self, request: str, extents: Mapping[Partition, Extent], ends: Callable[[], Mapping[Partition, int]]
    ) -> tuple[str, ...] | None:
        """Go on for one pass; the lines of the answer when the tables are replaced.

        Raises :class:`LoadError` if they cannot be replaced.
        """
        main, new, has_watermarks = self._main, self._new, self._job.has_watermarks
        self.has_moved = True
        if not self._is_filled():
            return None
        if main.next_offsets and not extents:
            self.has_moved = False  # the driver is a load, and the next sync reads the topic again
            return None
        self._check_reach(extents)
        new.until = main.state.applied if has_watermarks else None
        ranges = self._ranges(extents)
        self.has_moved = bool(ranges)
        if ranges:
            self._pass(ranges, ends)
        if self._ranges(extents):
            return None
        new.change(replace(new.state, frontier=main.state.frontier))
        self._take(Manifest(self._passes, ends=dict(ends()), parked=new.state.parked))
        hold = behind(main.state, new.state, has_watermarks=has_watermarks)
        if hold is not None:
            raise LoadError(f"{self._names} cannot be replaced: {hold.reason}")
        if not is_level(main.state, new.state, self._replacing.ts, has_watermarks=has_watermarks):
            return None
        return self._swap(request)

    def _is_filled(self) -> bool:
        """Are the new tables filled? That is done in a thread, so that the sync goes on meanwhile."""
        if self._filling is None:
            self._filling = self._pool.submit(self.fill)
        if self.is_filling():
            return False
        self._filling.result()
        return True

    def is_filling(self) -> bool:
        """Are the new tables being filled now? Waits a moment for the end of it."""
        if self._filling is None:
            return False
        wait([self._filling], _LOOK_SECONDS)
        return not self._filling.done()

    def close(self) -> None:
        """Wait until new tables that are being filled are filled."""
        self._pool.shutdown()

    def _check_reach(self, extents: Mapping[Partition, Extent]) -> None:
        """Refuse a topic whose messages since the load are gone."""
        read = self._new.next_offsets
        for at, progress in self._main.state.frontier.active():
            if at not in extents or progress.next is None:
                continue
            first, is_late = extents[at].first, progress.watermark > self._replacing.ts
            is_empty = at not in read and first >= progress.next > 0 and is_late and self._job.has_watermarks
            if is_empty or read.get(at, first) < min(first, progress.next):
                raise LoadError(
                    f"{self._names} cannot be replaced: the messages of {at} from before offset {first} are gone, and "
                    "what changed since the load is in them. Load as of a later moment"
                )

    def _ranges(self, extents: Mapping[Partition, Extent]) -> list[OffsetRange]:
        """What is to be read again: from the first message that is left to where the sync is."""
        read, ends = self._new.next_offsets, self._main.next_offsets
        there = {at: replace(extent, end=ends[at]) for at, extent in extents.items() if extent.first < ends.get(at, 0)}
        return self._stage.source.ranges(there, read)

    def _pass(self, ranges: Sequence[OffsetRange], ends: Callable[[], Mapping[Partition, int]]) -> None:
        state = self._new.state
        self._passes += 1
        manifest = self._stage.run(
            ranges,
            self._passes,
            self._job.reader(state, self._stage.source.form),
            state.replays(),
            ends=ends,
            parked=state.parked,
        )
        self._take(replace(manifest, reject_files=()))  # the table of rejects has them

    def _take(self, manifest: Manifest) -> None:
        try:
            planned = self._new.plan(manifest)
            self._new.take(manifest, planned, {})
        except SyncStopped as error:
            raise LoadError(f"{self._names} cannot be replaced: {error}") from error

    def _swap(self, request: str) -> tuple[str, ...]:
        """Put the new tables in place of the old ones, in one plan."""
        main, new, found = self._main, self._new, self._replacing
        planned = plan_swap(main.state, new.state, found, self._rules, has_watermarks=self._job.has_watermarks)
        since = " and all changes since" if main.next_offsets else ""
        lines = tuple(f"{name} is replaced by the load of {found.ts}{since}" for name in found.names)
        new.lend(main)
        main.take(Manifest(0), planned, {}, {request: lines})
        self._check_swapped(planned)
        return lines

    def _check_swapped(self, planned: Planned) -> None:
        if any(
            self._main.state.target_tables.get(n.folded) != planned.state.target_tables[n.folded]
            for n in self._replacing.names
        ):
            raise LoadError(f"{self._names} cannot be replaced: {'; '.join(self._main.impossible)}")

    def clean(self) -> None:
        """Delete what is left of it; files that the sync goes on with stay until they are done."""
        _clean(self._ledger, self._folder, self._main)

    def give_up(self, target: Target, tag: CommitTag) -> None:
        """Remove the new tables. The old ones stay as they are."""
        for name in map(self._replacing.beside, self._replacing.names):
            if target.exists(name):
                target.drop(name, tag)
        self.clean()

    @property
    def names(self) -> tuple[TableName, ...]:
        """The tables, by their names upstream."""
        return self._replacing.names

    @property
    def plan(self) -> str:
        """What is done, for people."""
        again = "; the topic is read again" if self._main.next_offsets else ""
        return f"{self._names}: loading anew as of {self._replacing.ts} beside what is there{again}"

    @property
    def _names(self) -> str:
        return ", ".join(map(str, self._replacing.names))


def _clean(ledger: Storage, folder: str, main: Execution) -> None:
    named = files_of((), (main.state,))
    found = [entry.name for entry in ledger.list(folder, recursive=True)]
    ledger.delete([name for name in found if ledger.path(name) not in named])


def clean_finished(ledger: Storage, requested: set[str], main: Execution) -> None:
    """Delete what is left of replacements that a driver began and that are not requested any more."""
    names = [entry.name.split("/") for entry in ledger.list(FOLDER, recursive=True)]
    begun = {parts[1] for parts in names if parts[2] == "plans"}
    for load in sorted(begun - requested):
        _clean(ledger, f"{FOLDER}/{load}", main)


def requested(ledger: Storage, request: Request) -> Replacing | None:
    """What a request replaces; ``None`` if it is another request, or what was read for it is gone."""
    load = request.arguments.get("load")
    data = None if load is None else ledger.read(f"{FOLDER}/{load}/{DOCUMENT}")
    return None if data is None else decode(data, Replacing)


def cancel_alone(ledger: Storage, id: str) -> Answer:
    """Take a request back while no driver runs. If tables were made for it, the next driver removes them."""
    wanted = next((each for each in requests(ledger) if each.id == id), None)
    if wanted is None:
        raise SyncError(f"there is no request {id}: see tidewire requests ls")
    folder = f"{FOLDER}/{wanted.arguments['load']}" if "load" in wanted.arguments else None
    if folder is not None and ledger.list(f"{folder}/plans"):
        leave(ledger, CANCEL, {"request": id})
        return Answer(True, (f"{id}: the next tidewire sync removes what was made for it",))
    if folder is not None:
        ledger.delete([entry.name for entry in ledger.list(folder, recursive=True)])
    withdraw(ledger, id)
    return Answer(True, (f"{id} is taken back",))


def check_rules(ledger: Storage, rules: Rules) -> None:
    """Raise :class:`LoadError` if rows would be masked, routed or kept by other rules than those of the target."""
    data = ledger.read(RULES)
    if data is not None and {**decode(data, KeptRules).rules, "follow": []} != {**rules.to_plain(), "follow": []}:
        raise LoadError("the rules of the target's sync are others: give its file with --config")
