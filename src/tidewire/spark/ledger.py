"""The ledger: the documents of plans and publications, and their order. Exactly-once depends on this module.

::

    owner                      the sync that a target belongs to, and what cannot change once it has begun
    epochs/<number>            who drives (:mod:`tidewire.spark.driver`)
    plans/<sequence>           a plan: what it was made from, its steps, the state after them
    published/<ts>-<sequence>  a plan is done: the version of every table (:mod:`tidewire.spark.publications`)
    requests/<id>, answers/<id>   what another process asks of the driver, and what came of it
    staged/, parked/, rejects/<epoch>/<pass>/…   files; their names carry the epoch, documents do not

One pass: stage files, plan, *keep the plan*, commit its steps, *publish*, clean. A plan is kept by put-if-absent under
the next sequence, so two drivers collide on it: the older one stops, the newer one adopts the plan it finds. A plan
without steps (only watermarks moved) is done as soon as it is kept. Commits carry (sync, epoch, sequence, step); a step
is known by its id, which says table, ts, kind and content, so a step that is already in its table is never done twice.

==  =======================================  ==============================  =====================================
    the driver dies …                        the next one finds              and does
==  =======================================  ==============================  =====================================
1   while it takes the epoch                 a dead process's epoch          takes the next one
2   while it stages, or before it keeps the  files that no document names    reads the same messages again;
    plan                                                                     maintenance deletes the files by age
3   after the plan is kept                   a plan without publication      fences its tables, does all steps
4   inside a step, or between steps          some steps in their tables      does the others
5   after the last step                      all steps in their tables       publishes the versions it finds
6   after the publication                    a plan with publication         takes its state, deletes leftovers
7   while it deletes leftovers               the same                        the same
8   after a step proved impossible           a plan without publication      finds the step impossible again
9   after it kept the plan without the step  two plans without publication   carries out the newer one
10  after a request is carried out           the request's id in the plan    answers it, does not do it again
11  while a table is replaced                the request, and a ledger of    goes on with it, see
                                             the load's below ``loads/``     :mod:`tidewire.spark.load.replace`
==  =======================================  ==============================  =====================================

Tests, in ``tests/spark``: ``test_driver.py`` has row 1, ``test_ledger_windows.py`` rows 2 to 9 by number,
``test_ledger.py`` row 10, ``test_replace.py`` row 11; ``test_sync_crashes.py`` kills processes. In
``tests/integration``, ``test_atomic.py`` has rows 2 to 7 for steps that are committed together.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, Final

import msgspec

from tidewire.errors import AlreadyRunning, Fenced, SyncError
from tidewire.model import TableName, TableSchema
from tidewire.spark.driver import Epoch, living_driver, newest_driver, take
from tidewire.spark.legacy import legacy_owner, legacy_publications, legacy_state
from tidewire.spark.publications import Publications, Published, sequence_of
from tidewire.storage import Storage, open_storage
from tidewire.sync.documents import decode, encode
from tidewire.sync.manifest import Manifest
from tidewire.sync.state import State
from tidewire.sync.steps import Step

FOLDER: Final = "_tidewire"
"""The ledger's folder in a target."""

RULES: Final = "rules"
"""The document of the rules that the sync went by last."""

_OWNER: Final = "owner"
_PLANS: Final = "plans"
_REQUESTS: Final = "requests"
_ANSWERS: Final = "answers"
_KEPT_PLANS: Final = 3
"""Plans that stay; those before the newest are for people."""


class Owner(msgspec.Struct, frozen=True):
    """The sync a target belongs to: what cannot change once it has begun.

    ``source`` names topics without brokers, which may change. ``catalog`` is empty for the embedded catalog.
    """

    source: str
    protocol: str
    format: str
    mode: str
    has_watermarks: bool
    time_zone: str
    catalog: str = ""
    id: str = ""


class KeptStep(msgspec.Struct, frozen=True):
    """A step under the target's names, and the mode of its table."""

    step: Step
    mode: str


class KeptTable(msgspec.Struct, frozen=True):
    """A table as it will be published, under the target's name."""

    schema: TableSchema
    mode: str
    held: int | None = None
    rows_since: int | None = None


class KeptPublication(msgspec.Struct, frozen=True):
    """What will be published when all steps are done; the versions are known then."""

    ts: int | None
    tables: tuple[KeptTable, ...]


class KeptPlan(msgspec.Struct, frozen=True):
    """A plan. ``before`` and ``manifest`` are what it was made from, to plan again if a step proves impossible.

    ``done`` are staged files that nothing needs after the plan. ``answers`` are the requests it carried out.
    """

    epoch: int
    sequence: int
    at: str
    state: State
    topic_ids: Mapping[str, str] = {}
    publication: KeptPublication | None = None
    steps: tuple[KeptStep, ...] = ()
    before: State | None = None
    manifest: Manifest | None = None
    done: tuple[str, ...] = ()
    answers: Mapping[str, tuple[str, ...]] = {}


class KeptRules(msgspec.Struct, frozen=True):
    """The rules about tables that the sync went by last, as a plain document."""

    rules: Mapping[str, Any]


class Request(msgspec.Struct, frozen=True):
    """What another process asks of the driver."""

    id: str
    verb: str
    arguments: Mapping[str, str]


class Answer(msgspec.Struct, frozen=True):
    """What came of a request."""

    ok: bool
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recovered:
    """What earlier drivers left: the last state, an unfinished plan if there is one, and the last publication."""

    state: State
    unfinished: KeptPlan | None
    published: Published | None
    topic_ids: Mapping[str, str] = field(default_factory=dict)


class Ledger:
    """The ledger of a target, written by the driver of one epoch."""

    def __init__(self, storage: Storage, owner: Owner, epoch: Epoch) -> None:
        self.storage = storage
        self.owner = owner
        self.epoch = epoch
        self.publications = Publications(storage)
        self._sequence = max(plan_numbers(storage), default=0)

    @classmethod
    def open(
        cls,
        storage: Storage,
        wanted: Owner,
        *,
        jvm: int | None = None,
        take_over: bool = False,
        tell: Callable[[str], None] = lambda line: None,
    ) -> Ledger:
        """Become the driver of a target; :class:`SyncError` if the target belongs to another sync."""
        found = owner_of(storage)
        if found is not None:
            _check_owner(storage, found, wanted)
        storage.probe()
        epoch = take(storage, jvm=jvm, take_over=take_over, tell=tell)
        try:
            if found is None:
                found = msgspec.structs.replace(wanted, id=uuid.uuid4().hex[:12])
                if not storage.put_if_absent(_OWNER, encode(found)):
                    found = required_owner(storage)
            elif storage.read(_OWNER) is None:  # a target of 0.1
                storage.put_if_absent(_OWNER, encode(found))
            elif not found.protocol and wanted.protocol:  # a load came first
                found = _completed(storage, found, wanted)
        except BaseException:
            epoch.end()
            raise
        return cls(storage, found, epoch)

    @property
    def sequence(self) -> int:
        """The sequence of the last plan."""
        return self._sequence

    def close(self) -> None:
        """End the epoch of this driver."""
        self.epoch.end()

    # Plans

    def recover(self) -> Recovered:
        """What earlier drivers left."""
        published = self.publications.newest()
        plan = newest_plan(self.storage)
        if plan is None:
            state = legacy_state(self.storage, self.owner.id)
            if state is not None and published is None:
                published = self._take_over_publications()
            return Recovered(state or State(self.owner.id), None, published)
        for request in self.requests():
            if request.id in plan.answers:
                self.answer(request.id, Answer(True, plan.answers[request.id]))
        if plan.publication is not None and (published is None or published.sequence < plan.sequence):
            return Recovered(plan.before or plan.state, plan, published, plan.topic_ids)
        return Recovered(plan.state, None, published, plan.topic_ids)

    def _take_over_publications(self) -> Published | None:
        for published in legacy_publications(self.storage):
            self.publications.publish(published)
        return self.publications.newest()

    def keep(self, make: Callable[[int, int, str], KeptPlan]) -> KeptPlan:
        """Keep a plan under the next sequence; ``make`` gets epoch, sequence and time.

        If an older driver has kept another plan there meanwhile, that one comes back and must be carried out instead.
        :class:`Fenced` if a newer driver has.
        """
        self.epoch.check()
        sequence = self._sequence + 1
        plan = make(self.epoch.number, sequence, now())
        if not self.storage.put_if_absent(_plan(sequence), encode(plan)):
            found = _read_plan(self.storage, sequence)
            if found is None or found.epoch > self.epoch.number:
                self.epoch.look()
                raise Fenced(f"another driver has kept plan {sequence} in {self.storage.uri}")
            plan = found
        self._sequence = sequence
        return plan

    def publish(self, published: Published) -> None:
        """Write the publication of a plan, which marks it as done."""
        self.epoch.check()
        self.publications.publish(published)

    def remember(self, state: State) -> None:
        """Keep a state that was changed by hand. There must be no unfinished plan."""
        self._keep_own(state, None)

    def republish(self, state: State, published: Published, versions: Mapping[TableName, str]) -> None:
        """Publish the newest publication again with other versions of the same rows, which maintenance made."""
        tables = {
            name: replace(table, version=versions.get(name, table.version)) for name, table in published.tables.items()
        }
        kept = tuple(KeptTable(table.schema, table.mode, table.held, table.rows_since) for table in tables.values())
        plan = self._keep_own(state, KeptPublication(published.ts, kept))
        self.publish(Published(plan.sequence, published.ts, tables))

    def _keep_own(self, state: State, publication: KeptPublication | None) -> KeptPlan:
        plan = self.keep(
            lambda epoch, sequence, at: KeptPlan(epoch, sequence, at, state, self._topic_ids(), publication)
        )
        if plan.epoch != self.epoch.number:
            raise SyncError(f"another driver wrote to {self.storage.uri} at the same time; try again")
        return plan

    def _topic_ids(self) -> Mapping[str, str]:
        plan = newest_plan(self.storage)
        return {} if plan is None else plan.topic_ids

    def clean(self, plan: KeptPlan) -> None:
        """Delete what no later run needs; if this is cut short, the next plan's cleaning does it."""
        numbers = plan_numbers(self.storage)
        old = [_plan(number) for number in numbers if number <= plan.sequence - _KEPT_PLANS]
        self.storage.delete([*old, *(self.storage.relative(path) for path in plan.done)])

    # Requests

    def requests(self) -> list[Request]:
        """What other processes ask, oldest first."""
        return requests(self.storage)

    def answer(self, request: str, answer: Answer) -> None:
        """Answer a request; it is not asked again."""
        self.storage.put(f"{_ANSWERS}/{request}", encode(answer))
        self.storage.delete([f"{_REQUESTS}/{request}"])


def ledger_of(target: str) -> Storage:
    """Where the ledger of a target is."""
    return open_storage(str(target)).below(FOLDER)


def owner_of(storage: Storage) -> Owner | None:
    """The sync a target belongs to, if any."""
    data = storage.read(_OWNER)
    if data is not None:
        return decode(data, Owner)
    found = legacy_owner(storage)
    return None if found is None else Owner(**found)


def required_owner(storage: Storage) -> Owner:
    """The sync a target belongs to; :class:`SyncError` if there is none."""
    owner = owner_of(storage)
    if owner is None:
        target = storage.uri.removesuffix(f"/{FOLDER}")
        raise SyncError(f"no sync has written to {target}: check the path, or start one with tidewire sync")
    return owner


def newest_plan(storage: Storage) -> KeptPlan | None:
    """The plan with the highest sequence."""
    for number in reversed(plan_numbers(storage)):
        plan = _read_plan(storage, number)
        if plan is not None:
            return plan
    return None


def read_plans(storage: Storage) -> list[KeptPlan]:
    """All plans that are kept, oldest first."""
    return [plan for number in plan_numbers(storage) if (plan := _read_plan(storage, number)) is not None]


def newest_state(storage: Storage) -> State | None:
    """The state to look at: that after the newest plan which is done, as far as it is known without driving."""
    plan = newest_plan(storage)
    if plan is None:
        return legacy_state(storage, "")
    published = Publications(storage).names()
    done = not plan.steps or any(sequence_of(name) >= plan.sequence for name in published)
    return plan.state if done else plan.before


def plan_numbers(storage: Storage) -> list[int]:
    """The sequences of all plans, in order."""
    names = (entry.name.rpartition("/")[2] for entry in storage.list(_PLANS))
    return sorted(int(name) for name in names if name.isdecimal())


def ask(
    storage: Storage,
    verb: str,
    arguments: Mapping[str, str],
    *,
    seconds: float,
    wait: Callable[[float], None] = time.sleep,
    tell: Callable[[str], None] = lambda line: None,
) -> Answer | None:
    """Ask the living driver to do something; ``None`` if there is no driver.

    :class:`SyncError` if the answer does not come in time; the request is taken back then.
    """
    driver = living_driver(storage, tell)
    if driver is None:
        return None
    request = leave(storage, verb, arguments)
    tell(f"asked the running sync (process {driver.process.pid} on {driver.process.host})")
    passed = 0.0
    while passed < seconds:
        if (answer := take_answer(storage, request.id)) is not None:
            return answer
        wait(0.2)
        passed += 0.2
    withdraw(storage, request.id)
    raise SyncError(f"the running sync did not answer within {seconds:.0f} seconds; the request is taken back")


def requests(storage: Storage) -> list[Request]:
    """What the driver of a target is asked for and has not answered, oldest first."""
    found = sorted(storage.list(_REQUESTS), key=lambda entry: entry.modified)
    documents = [data for entry in found if (data := storage.read(entry.name)) is not None]
    return [decode(data, Request) for data in documents]


def take_answer(storage: Storage, request: str) -> Answer | None:
    """The answer to a request, which is then forgotten; ``None`` if there is no answer yet."""
    data = storage.read(f"{_ANSWERS}/{request}")
    if data is None:
        return None
    storage.delete([f"{_ANSWERS}/{request}"])
    return decode(data, Answer)


def await_answer(storage: Storage, request: str, *, wait: Callable[[float], None] = time.sleep) -> Answer | None:
    """The answer to a request that was left, however long it takes; ``None`` if no driver runs that could answer."""
    while True:
        runs = living_driver(storage) is not None
        for _ in range(10):
            if (answer := take_answer(storage, request)) is not None or not runs:
                return answer
            wait(0.5)


def leave(storage: Storage, verb: str, arguments: Mapping[str, str]) -> Request:
    """Leave a request; the driver that runs, or the next one when it starts, carries it out."""
    request = Request(uuid.uuid4().hex[:12], verb, arguments)
    storage.put(f"{_REQUESTS}/{request.id}", encode(request))
    return request


def withdraw(storage: Storage, request: str) -> None:
    """Take back a request that no driver works at."""
    storage.delete([f"{_REQUESTS}/{request}"])


def refuse_other_sync(storage: Storage, wanted: Owner, *, take_over: bool) -> None:
    """Refuse a target as :meth:`Ledger.open` would, as far as that can be told at once and without writing."""
    found = owner_of(storage)
    if found is not None:
        _check_owner(storage, found, wanted)
    driver = newest_driver(storage)
    if driver is None or driver.ended or take_over:
        return
    if driver.process.is_here and driver.process.is_alive:
        raise AlreadyRunning(storage.uri, driver.process.host, driver.process.pid, driver.since)


def now() -> str:
    """The time, as documents have it."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _completed(storage: Storage, found: Owner, wanted: Owner) -> Owner:
    """The owner of a target that has only been loaded, once a sync goes on with it."""
    if not wanted.has_watermarks:  # then publications have no moment
        publications = Publications(storage)
        for name in publications.names():
            publications.publish(replace(publications.read(name), ts=None))
            publications.forget([name] if not name.startswith("0" * 20) else [])
    completed = msgspec.structs.replace(wanted, id=found.id)
    storage.put(_OWNER, encode(completed))
    return completed


_OF_SYNC: Final = frozenset({"source", "protocol", "has_watermarks", "time_zone"})
"""What only a sync says, so that a load leaves it open."""


def _check_owner(storage: Storage, found: Owner, wanted: Owner) -> None:
    of_load = not (found.protocol and wanted.protocol)
    for name in Owner.__struct_fields__:
        if of_load and name in _OF_SYNC:
            continue
        ours, theirs = getattr(wanted, name), getattr(found, name)
        if name != "id" and ours != theirs and not (name == "source" and _same_source(theirs, ours)):
            raise SyncError(
                f"the target belongs to another sync: its {name.replace('_', ' ')} is {theirs}, not {ours}. "
                f"Give another target, or remove {storage.uri} and the tables to start anew"
            )


def _same_source(theirs: str, ours: str) -> bool:
    """Is it the source as 0.1 wrote it, with its brokers and its topics in any order?"""
    kafka = theirs.startswith("kafka://") and ours.startswith("kafka://")
    return kafka and _topics(theirs) == _topics(ours)


def _topics(source: str) -> tuple[list[str], str]:
    """The topics and the pattern of a Kafka source."""
    names, _, pattern = source.partition("://")[2].partition("/")[2].partition("?")
    return sorted(names.split(",")), pattern


def _read_plan(storage: Storage, sequence: int) -> KeptPlan | None:
    data = storage.read(_plan(sequence))
    return None if data is None else decode(data, KeptPlan)


def _plan(sequence: int) -> str:
    return f"{_PLANS}/{sequence:012}"


def files_of(plans: Iterable[KeptPlan], states: Iterable[State] = ()) -> set[str]:
    """The staged, parked and rejected files that plans and states name, whether they are done or not."""
    found: set[str] = set()
    for state in states:
        found |= {each.file.path for each in state.pending} | {each.path for each in state.parked}
    for plan in plans:
        found |= files_of((), filter(None, (plan.state, plan.before)))
        if plan.manifest is not None:
            found |= {file.path for file in plan.manifest.files} | {each.path for each in plan.manifest.parked}
            found |= {*plan.manifest.reject_files}
    return found
