"""How long Delta keeps removed files."""

from __future__ import annotations

import time

import pytest

from tidewire.spark.targets.delta_log import hours_kept, is_younger

HOUR = 3600.0


@pytest.mark.parametrize(
    ("before", "needed", "hours"),
    [
        (0.0, None, 0),  # everything up to now, and nothing came since
        (0.5, None, 1),
        (2.5, None, 3),  # the newest commit is older, but a writer may be at work
        (0.0, 2, 2),
        (0.0, 1, 6),
        (24.0, 2, 24 + 1),
        (0.0, 99, None),  # a commit without a known time
    ],
)
def test_removed_files_stay_for_whole_hours_and_rather_too_long(
    before: float, needed: int | None, hours: int | None
) -> None:
    now = time.time()
    commits = {1: now - 5 * HOUR, 2: now - 1.5 * HOUR}

    found = hours_kept(commits, now - before * HOUR, needed)

    if hours is None:
        assert found > 400_000
    else:
        assert found == hours


@pytest.mark.parametrize(
    ("first", "age", "hours", "younger"),
    [(0, 0.5, 1, True), (0, 1.5, 1, False), (0, 1.5, 2, True), (0, 0.0, 0, False), (7, 0.5, 1, False)],
)
def test_a_table_that_was_made_since_has_no_older_files(first: int, age: float, hours: int, younger: bool) -> None:
    now = time.time()

    assert is_younger({first: now - age * HOUR, first + 1: now}, hours) is younger
