"""The log of a Delta table, looked at from outside: which commits it has, and since when."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Final

from pyarrow import fs

from tidewire.spark.work import Work

_LOG: Final = "_delta_log"
_SLACK: Final = 60.0
"""A commit is written after its files are marked as removed; clocks and a slow store are within this."""


def commits(place: Work, table: str) -> dict[int, float]:
    """The commits in the log of a table's folder, each with the second it was written in."""
    folder = place.arrow_path(f"{table}/{_LOG}")
    found = place.filesystem.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    named = ((info.base_name.removesuffix(".json"), info.mtime_ns) for info in found)
    return {int(name): written / 1e9 for name, written in named if name.isdecimal()}


def hours_kept(commits: Mapping[int, float], before: float, needed: int | None) -> int:
    """For how many hours removed files stay, so that what is younger than a second, or needed by a commit, is there.

    Delta takes whole hours. None at all are right only for a second just now, with nothing committed since.
    """
    now = time.time()
    if needed is None and max(commits.values(), default=0.0) <= before and now - before < _SLACK:
        return 0
    since = before if needed is None else min(before, commits.get(needed, 0.0) - _SLACK)
    return max(1, math.ceil((now - since) / 3600))
