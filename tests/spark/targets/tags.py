"""Tags for tests: each step has its own unless a test names one."""

from __future__ import annotations

from itertools import count

from tidewire.spark.targets import CommitTag

_NUMBERS = count(1)


def tag(
    step: str | None = None, *, sync: str = "a/sync", epoch: int = 1, sequence: int = 1, part: int | None = None
) -> CommitTag:
    """The tag of a step; without a name it is a step of its own."""
    return CommitTag(sync, epoch, sequence, f"step {next(_NUMBERS)}" if step is None else step, part)
