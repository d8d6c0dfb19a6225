"""All steps of a plan: those of one table in order, those of different tables at the same time.

If the target commits to several tables at once, a step whose rows are ready waits until those of all others are ready
that need not wait for a commit. Then all these commits are sent together. If a table refuses, because another program
changed it meanwhile, it is searched again while the others wait; after ``MOST_REFUSALS`` it is committed alone. Steps
that change names or columns commit by themselves, and so do loads, whose tables are written for a long time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from heapq import heappop, heappush
from typing import Final

from tidewire.errors import Fenced, Retry, StepImpossible
from tidewire.model import TableName
from tidewire.spark.apply.execute import (
    ApplySettings,
    Outcome,
    UnfinishedStep,
    Waiting,
    go_on,
    invalid_changes,
    work_of,
)
from tidewire.spark.apply.layout import Mode
from tidewire.spark.targets import CommitTag, Target
from tidewire.spark.targets.commits import Together
from tidewire.sync.manifest import Rejected
from tidewire.sync.steps import Create, Drop, Fill, Merge, Rename, Step

_NAMES: Final = (Create, Drop, Rename)
"""Steps after which a name may lead to another table."""

MOST_REFUSALS: Final = 3
"""How often the commits of all tables may be refused because of one of them, before that one is committed alone."""


class Applier:
    """Does the steps of plans, one plan after the other, for the life of a sync.

    It has one pool of threads. Each thread has a Spark session of its own, and a session has connections to its
    catalog, so a pool for each plan would leak them. With ``together`` the rows of all tables are committed at once.
    """

    def __init__(
        self,
        target: Target,
        settings: ApplySettings = ApplySettings(),
        workers: int = 4,
        together: Together | None = None,
    ) -> None:
        self._target = target
        self._settings = settings
        self._workers = workers
        self.together = together
        self._pool = ThreadPoolExecutor(workers, "tidewire-step")

    def close(self) -> None:
        """End the threads and release their sessions."""
        self._pool.shutdown(cancel_futures=True)
        self._target.close()

    def invalid_changes(self, merges: Sequence[Merge]) -> list[Rejected]:
        """The changes of Merge steps that do not fit their tables."""
        found = self._pool.map(lambda step: invalid_changes(step, self._target, self._settings), merges)
        return [each for rejected in found for each in rejected]

    def run(
        self,
        steps: Sequence[Step],
        modes: Sequence[Mode],
        *,
        tag: Callable[[Step], CommitTag],
        known: Mapping[TableName, str] = {},
        on_step: Callable[[Step], None] = lambda step: None,
    ) -> dict[str, Outcome | StepImpossible]:
        """Do the steps of a plan that are not done, and say what became of each, by the ids in their tags.

        If a step is impossible, the steps that depend on it, because they touch one of its tables or depend on one that
        does, are not run and are not in the answer. Any other failure is raised once the running steps have ended, and
        no further step begins; the same holds for ``on_step``, which is called from this thread after each step.
        ``known`` has the versions of the tables that the plan was made for: a step that changes the name of a table
        refuses another table under that name.
        """
        return _Run(self, steps, modes, [tag(step) for step in steps], known, on_step).run()

    def has_begun(self, step: Step, tag: CommitTag) -> bool:
        """Has a step left anything in its tables or in their names? Then the steps before it are done."""
        target = self._target
        found = any(target.find(name, tag.step) or target.parts(name, tag.step) for name in step.tables)
        return found or target.moved(tag)

    def submit(
        self, step: Step, tag: CommitTag, mode: Mode, known: Mapping[TableName, str]
    ) -> Future[Outcome | Waiting]:
        """Begin a step in a thread of the pool."""
        work = work_of(step, self._target, tag, mode, self._settings, known)
        return self.resume(work, alone=isinstance(step, Fill))

    def resume(
        self, work: UnfinishedStep, answer: str | Exception | None = None, *, alone: bool = False
    ) -> Future[Outcome | Waiting]:
        """Go on with a step, given what became of its commit. ``alone``: its next commits wait for no other step."""
        write = self._target.write if alone or self.together is None else self.together.begin
        return self._pool.submit(go_on, work, write, answer)

    @property
    def workers(self) -> int:
        """How many steps run at the same time."""
        return self._workers


class _Run:
    """One plan."""

    def __init__(
        self,
        applier: Applier,
        steps: Sequence[Step],
        modes: Sequence[Mode],
        tags: Sequence[CommitTag],
        known: Mapping[TableName, str],
        on_step: Callable[[Step], None],
    ) -> None:
        self._applier = applier
        self._steps = steps
        self._modes = modes
        self._tags = tags
        self._known = dict(known)
        self._on_step = on_step
        self._before = predecessors(steps)
        self._later = _followers(self._before)
        self._outcomes: dict[str, Outcome | StepImpossible] = {}
        self._waiting: dict[int, Waiting] = {}
        self._refusals: Counter[int] = Counter()

    def run(self) -> dict[str, Outcome | StepImpossible]:
        left = [len(earlier) for earlier in self._before]
        ready = [number for number, count in enumerate(left) if not count]
        done = self._done()
        running: dict[Future[Outcome | Waiting], int] = {}
        failures: list[BaseException] = []
        while running or ((ready or self._waiting) and not failures):
            while ready and not failures and len(running) < self._applier.workers:
                number = heappop(ready)
                running[self._begin(number, skipped=number in done)] = number
            if self._waiting and not failures and all(map(self._is_alone, running.values())):
                try:
                    running |= self._exchange()
                except BaseException as error:
                    failures.append(error)
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                number = running.pop(future)
                try:
                    if not self._ended(number, future):
                        continue
                except BaseException as error:
                    failures.append(error)
                    continue
                for follower in self._later[number]:
                    left[follower] -= 1
                    if not left[follower]:
                        heappush(ready, follower)
        if failures:
            raise next((error for error in failures if isinstance(error, Fenced)), failures[0])
        return self._outcomes

    def _done(self) -> set[int]:
        """The steps that are done because a later one has begun that gives a name to another table.

        Such a step cannot be looked up any more in the table that has the name now. Looking costs time, so only steps
        that come after another one are looked at; all others are looked up when they come.
        """
        done: set[int] = set()
        for number in reversed(range(len(self._steps))):
            step, earlier = self._steps[number], self._before[number]
            renames = isinstance(step, _NAMES) and bool(earlier)
            if number in done or (renames and self._applier.has_begun(step, self._tags[number])):
                done |= earlier
        return done

    def _begin(self, number: int, *, skipped: bool) -> Future[Outcome | Waiting]:
        step = self._steps[number]
        if skipped and not isinstance(step, Rename):  # a rename that is complete tells the versions it left
            done: Future[Outcome | Waiting] = Future()
            done.set_result(Outcome())
            return done
        return self._applier.submit(step, self._tags[number], self._modes[number], dict(self._known))

    def _exchange(self) -> dict[Future[Outcome | Waiting], int]:
        """Send all commits that wait, and go on with the steps that got an answer."""
        together, found = self._applier.together, {}
        assert together is not None
        numbers = list(self._waiting)
        answers = together.exchange([self._waiting[number].begun for number in numbers])
        for number, answer in zip(numbers, answers, strict=True):
            if answer is not None:
                self._refusals[number] += isinstance(answer, Retry)
                work = self._waiting.pop(number).work
                found[self._applier.resume(work, answer, alone=self._is_alone(number))] = number
        return found

    def _is_alone(self, number: int) -> bool:
        """Is a step one that no other waits for?"""
        return isinstance(self._steps[number], Fill) or self._refusals[number] >= MOST_REFUSALS

    def _ended(self, number: int, future: Future[Outcome | Waiting]) -> bool:
        """Note what became of a step; may the next steps of its tables begin?"""
        step, id_ = self._steps[number], self._tags[number].step
        try:
            outcome = future.result()
        except StepImpossible as error:
            self._outcomes[id_] = error
            return False
        if isinstance(outcome, Waiting):
            self._waiting[number] = outcome
            return False
        self._outcomes[id_] = outcome
        self._follow(step, outcome)
        self._on_step(step)
        return True

    def _follow(self, step: Step, outcome: Outcome) -> None:
        """Which table a name leads to after a step."""
        match step:
            case Create() if outcome.version is not None:
                self._known[step.table.name] = outcome.version
            case Drop(name):
                self._known.pop(name, None)
            case Rename(moves):
                moved = {new: self._known.pop(old, None) for old, new in moves}
                self._known |= {new: version for new, version in moved.items() if version is not None}


def predecessors(steps: Sequence[Step]) -> list[set[int]]:
    """For every step the last ones before it that touch one of its tables."""
    last: dict[TableName, int] = {}
    found = []
    for number, step in enumerate(steps):
        names = {name.folded for name in step.tables}
        found.append({last[name] for name in names if name in last})
        last |= dict.fromkeys(names, number)
    return found


def _followers(before: Sequence[set[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in before]
    for number, earlier in enumerate(before):
        for each in earlier:
            found[each].append(number)
    return found
