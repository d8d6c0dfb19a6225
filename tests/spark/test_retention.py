"""Which publications stay, how ages and schedules are written, and that a sync thins publications as it goes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.errors import OptionError
from tidewire.model.tso import LOGICAL_BITS
from tidewire.spark.maintain import Every, Upkeep, parse_age
from tidewire.spark.maintain.retention import kept
from tidewire.spark.publications import Publications, sequence_of, ts_of
from tidewire.storage import open_storage

HOUR = 3_600_000


def publications(*hours: float) -> list[str]:
    """The names of publications so many hours before a common time."""
    return [
        f"{int(10_000 * HOUR - hour * HOUR) << LOGICAL_BITS:020}-{number:012}"
        for number, hour in enumerate(sorted(hours, reverse=True))
    ]


def ages(names: Sequence[str]) -> list[float]:
    """How many hours before the common time publications are."""
    return [10_000 - (ts_of(name) >> LOGICAL_BITS) / HOUR for name in names]


def test_publications_are_thinned_as_they_age() -> None:
    """All of the last hour stay, then one a minute for a day, then one an hour to three days, then one a day."""
    every_ten_seconds = [number / 360 for number in range(360 * 24 * 2)]
    every_half_hour = [number / 2 for number in range(24 * 2, 24 * 2 * 10)]

    stay = ages(kept(publications(*{*every_ten_seconds, *every_half_hour}), timedelta(days=7)))

    assert sum(age < 1 for age in stay) == 360
    assert sum(1 <= age < 24 for age in stay) in (23 * 60, 23 * 60 + 1)
    assert sum(24 <= age < 72 for age in stay) in (48, 49)
    assert sum(72 <= age < 168 for age in stay) in (4, 5)
    assert max(stay) < 168


def test_several_publications_of_one_time_count_as_one_later_on() -> None:
    names = [f"{10_000 * HOUR << LOGICAL_BITS:020}-{number:012}" for number in range(3)]
    newest = f"{10_002 * HOUR << LOGICAL_BITS:020}-{9:012}"

    assert kept(names, timedelta(days=7)) == names
    assert [sequence_of(name) for name in kept([*names, newest], timedelta(days=7))] == [2, 9]


def test_the_newest_publications_stay_however_old_they_are() -> None:
    assert ages(kept(publications(0, 1, 2, 3), timedelta(0), 2)) == [1, 0]
    without_time = [f"{0:020}-{number:012}" for number in range(5)]
    assert kept(without_time, timedelta(days=7), 2) == without_time[-2:]
    assert kept([], timedelta(days=7)) == []


@given(st.sets(st.integers(0, 400 * 60)), st.integers(0, 20), st.integers(1, 5))
def test_thinning_again_changes_nothing_and_keeps_what_a_longer_memory_would(
    minutes: set[int], days: int, least: int
) -> None:
    names = publications(*(minute / 60 for minute in minutes))
    stay = kept(names, timedelta(days=days), least)

    assert kept(stay, timedelta(days=days), least) == stay
    assert set(stay) <= set(kept(names, timedelta(days=days + 1), least))
    assert not names or stay[-1] == names[-1]


@pytest.mark.parametrize(("text", "hours"), [("7d", 168), ("1d12h", 36), ("90m", 1.5), ("0s", 0)])
def test_ages_are_read_as_people_write_them(text: str, hours: float) -> None:
    assert parse_age(text) == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["", "7", "d", "7 days", "-1d", "1w", "٣d"])
def test_other_texts_are_not_ages(text: str) -> None:
    with pytest.raises(OptionError, match="older-than"):
        parse_age(text)


@pytest.mark.parametrize("text", ["0b", "b", "0s", "sometimes", "1.5h", "100 b"])
def test_a_schedule_is_a_time_or_a_number_of_passes(text: str) -> None:
    assert Every.parse("1h") == Every(seconds=3600)
    assert Every.parse("20b") == Every(passes=20)
    assert Every.parse("never") == Every()
    with pytest.raises(OptionError, match="maintain-every"):
        Every.parse(text)


def test_publications_are_thinned_once_a_minute(tmp_path: Path) -> None:
    clock, storage = [0.0], open_storage(tmp_path)
    upkeep = Upkeep(Every(), None, storage, clock=lambda: clock[0])  # type: ignore[arg-type]
    names = publications(*(number / 120 for number in range(240)))
    for name in names:
        storage.put(f"published/{name}", b"")

    upkeep.thin()
    assert len(Publications(storage).names()) == 240
    clock[0] += 60
    upkeep.thin()

    found = Publications(storage).names()
    assert len(found) in (180, 181)
    assert found == kept(names, timedelta(days=7), 10)
