from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.changefeed.config.durations import Nanoseconds, duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("10s", 10_000_000_000),
        ("1m30s", 90_000_000_000),
        ("1.5h", 5_400_000_000_000),
        ("-2m", -120_000_000_000),
        ("+300ms", 300_000_000),
        ("0", 0),
        ("1us", 1_000),
        ("1µs", 1_000),
        (".5s", 500_000_000),
        ("2.s", 2_000_000_000),
        ("3h0m0.000000001s", 10_800_000_000_001),
    ],
)
def test_go_durations_are_understood(text: str, nanoseconds: int) -> None:
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize("text", ["", "10", "s", "10 s", "1d", "1m-30s", "ten", "1.2.3s", ".s", "300000000h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration"):
        parse_duration(text)


@given(st.integers(-(2**63) + 1, 2**63 - 1))
def test_a_duration_survives_its_text(nanoseconds: int) -> None:
    assert parse_duration(duration_text(nanoseconds)) == nanoseconds


def test_a_duration_shows_itself_as_text() -> None:
    assert str(Nanoseconds(90_000_000_000)) == "1m30s"
    assert Nanoseconds(1_500_000_000).seconds == 1.5
