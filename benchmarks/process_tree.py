"""CPU time of a process together with every process below it, such as Spark's JVM and its Python workers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

_TICKS = os.sysconf("SC_CLK_TCK")
_PROCESSES = Path("/proc")


class Process(NamedTuple):
    """A process by its number and when it started, because numbers are used again."""

    pid: int
    started: int


class _Facts(NamedTuple):
    parent: int
    process: Process
    ticks: int


def tree_cpu_time(work: Callable[[], Any]) -> float:
    """The CPU seconds this process and all below it spend while the work is done.

    A process that is there at the start and gone at the end counts nothing: Spark ends Python workers that were idle
    for a minute, and keeps those that have work.
    """
    before = _ticks(os.getpid())
    work()
    after = _ticks(os.getpid())
    return sum(ticks - before.get(process, 0) for process, ticks in after.items()) / _TICKS


def _ticks(root: int) -> Mapping[Process, int]:
    known = {facts.process.pid: facts for facts in _processes()}
    return {facts.process: facts.ticks for facts in known.values() if _is_below(facts.process.pid, root, known)}


def _is_below(pid: int, root: int, known: Mapping[int, _Facts]) -> bool:
    while pid != root and pid in known:
        pid = known[pid].parent
    return pid == root


def _processes() -> Iterator[_Facts]:
    for folder in _PROCESSES.iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            text = (folder / "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it ended since
            continue
        # The name, in parentheses, may hold spaces; what follows it does not. proc(5) numbers the fields: 4 is the
        # parent, 14 and 15 are the process's own user and system time, 22 is when it started.
        fields = text.rpartition(")")[2].split()
        parent, user, system, started = (int(fields[number - 3]) for number in (4, 14, 15, 22))
        yield _Facts(parent, Process(int(folder.name), started), user + system)
