"""Has everything arrived downstream? The rule of TiCDC's ``/synced``."""

from __future__ import annotations

from dataclasses import dataclass

from tidewire.changefeed.config.replica import SyncedStatusConfig
from tidewire.model.tso import physical_ms

DONE = "Data syncing is finished"
WAIT = "The data syncing is not finished, please wait"
LOOK = (
    "Nothing was sent for a while, but the checkpoint does not follow the upstream's clock: see that the upstream "
    "answers and the changefeed is not in trouble. If the upstream is gone, the data syncing is finished"
)


@dataclass(frozen=True, slots=True)
class Synced:
    """The answer, and the timestamps it was found by."""

    synced: bool
    info: str
    checkpoint_ts: int
    resolved_ts: int
    synced_ts: int
    now_ts: int


def is_synced(limits: SyncedStatusConfig, checkpoint_ts: int, resolved_ts: int, synced_ts: int, now: int) -> Synced:
    """Nothing was sent for ``synced-check-interval``, and the checkpoint is not ``checkpoint-interval`` behind."""
    quiet = _seconds(synced_ts, now) > limits.synced_check_interval
    close = _seconds(checkpoint_ts, now) < limits.checkpoint_interval
    read = _seconds(checkpoint_ts, resolved_ts) < limits.checkpoint_interval
    info = DONE if quiet and close else LOOK if quiet and read else WAIT
    return Synced(quiet and close, info, checkpoint_ts, resolved_ts, synced_ts, now)


def _seconds(earlier: int, later: int) -> float:
    return (physical_ms(later) - physical_ms(earlier)) / 1000
