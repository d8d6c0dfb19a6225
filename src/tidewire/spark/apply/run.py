"""All steps of a plan: those of one table in order, those of different tables at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from heapq import heappop, heappush

from tidewire.model import TableName
from tidewire.spark.apply.execute import Journal, Outcome, Settings, execute
from tidewire.spark.apply.modes import Mode
from tidewire.spark.targets import Mark, Target
from tidewire.sync.steps import Step

OnStep = Callable[[int, Step, Outcome], None]


def run_steps(
    steps: Sequence[Step],
    target: Target,
    *,
    sync: str,
    sequence: int,
    modes: Sequence[Mode],
    journal: Journal,
    settings: Settings = Settings(),
    workers: int = 4,
    on_step: OnStep = lambda number, step, outcome: None,
) -> dict[int, Outcome]:
    """Do the steps of a plan that are not done, and say what became of each.

    ``modes`` are those the steps are done in. After a crash the same steps are given again, with the same sync,
    sequence and journal. ``on_step`` is called from this thread when a step is done and recorded. Where a step or
    ``on_step`` raises no further step begins; those that run are waited for.
    """

    def do(number: int) -> Outcome:
        step = steps[number]
        if done[number]:
            return Outcome(False)
        outcome = execute(step, target, Mark(sync, sequence, number), modes[number], settings, journal)
        journal.record(number)
        return outcome

    done, before = finished(steps, journal), predecessors(steps)
    later, left = _followers(before), [len(earlier) for earlier in before]
    ready = [number for number, count in enumerate(left) if not count]
    outcomes: dict[int, Outcome] = {}
    running: dict[Future[Outcome], int] = {}
    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="tidewire-step")
    try:
        while ready or running:
            while ready and len(running) < workers:
                number = heappop(ready)
                running[pool.submit(do, number)] = number
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                number = running.pop(future)
                outcomes[number] = future.result()
                for follower in later[number]:
                    left[follower] -= 1
                    if not left[follower]:
                        heappush(ready, follower)
                on_step(number, steps[number], outcomes[number])
    finally:
        pool.shutdown(cancel_futures=True)
    return outcomes


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


def finished(steps: Sequence[Step], journal: Journal) -> list[bool]:
    """Which steps are done: those recorded, and those before a recorded one of the same table."""
    done = [journal.done(number) for number in range(len(steps))]
    before = predecessors(steps)
    for number in reversed(range(len(steps))):
        if done[number]:
            for earlier in before[number]:
                done[earlier] = True
    return done
