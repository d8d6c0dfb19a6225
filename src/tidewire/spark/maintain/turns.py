"""Who may work on tables: a sync during a batch, or maintenance during a table, in turns.

Both would be right without it, because every commit is checked by the table format; but one of them would fail and
have to do its work again. Only a local target can be locked.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tidewire.errors import SyncError
from tidewire.spark.work import Work

_LOOK_AGAIN = 0.05


def can_lock(work: Work) -> bool:
    """Do turns mean anything here?"""
    return work.local_path("turn") is not None


@contextmanager
def turn(work: Work, what: str = "turn", wait: float | None = None) -> Iterator[None]:
    """Hold the turn for the time of a block; :class:`SyncError` where it does not come within ``wait`` seconds."""
    path = work.local_path(what)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        _take(file.fileno(), wait, f"{work.uri} is in use: {what}")
        yield


def _take(descriptor: int, wait: float | None, reason: str) -> None:
    if wait is None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return
    end = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise SyncError(reason) from None
            time.sleep(_LOOK_AGAIN)
        else:
            return
