"""When a changefeed may say that everything has arrived."""

from __future__ import annotations

import pytest

from tidewire.changefeed.config.replica import SyncedStatusConfig
from tidewire.changefeed.service.service import NOT_SYNCED, SYNCED, UNCLEAR, is_synced
from tidewire.model.tso import LOGICAL_BITS

NOW = 1_700_000_000


def tso(seconds: int) -> int:
    return seconds * 1000 << LOGICAL_BITS


@pytest.mark.parametrize(
    ("synced_ago", "checkpoint_ago", "resolved_ago", "synced", "info"),
    [
        (301, 14, 14, True, SYNCED),
        (300, 14, 14, False, NOT_SYNCED),
        (301, 15, 15, False, UNCLEAR),
        (301, 40, 1, False, NOT_SYNCED),
        (10, 1, 1, False, NOT_SYNCED),
    ],
)
def test_nothing_was_sent_for_long_and_the_checkpoint_is_close(
    synced_ago: int, checkpoint_ago: int, resolved_ago: int, synced: bool, info: str
) -> None:
    found = is_synced(
        SyncedStatusConfig(), tso(NOW - checkpoint_ago), tso(NOW - resolved_ago), tso(NOW - synced_ago), tso(NOW)
    )

    assert (found.synced, found.info) == (synced, info)


def test_the_limits_are_the_configuration_s() -> None:
    found = is_synced(SyncedStatusConfig(5, 60), tso(NOW - 50), tso(NOW - 50), tso(NOW - 6), tso(NOW))

    assert found.synced
