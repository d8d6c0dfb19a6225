"""When the schema of a table is due: first row, time, rows, and after a long silence."""

from __future__ import annotations

from dataclasses import replace

from changefeed.pieces import SetClock, table
from tidewire.changefeed.config.settings import BootstrapSettings
from tidewire.changefeed.sink.bootstrap import CHECK_SECONDS, SILENT_SECONDS, Bootstraps, Due

SETTINGS = BootstrapSettings(interval_seconds=120, message_count=10, enabled=True)


def test_only_the_first_row_of_a_table_asks_for_its_schema() -> None:
    bootstraps, one, other = Bootstraps(SETTINGS, SetClock()), table("one", table_id=1), table("other", table_id=2)

    assert bootstraps.note(one, "topic") == Due("topic", one)
    assert bootstraps.note(one, "topic") is None
    assert bootstraps.note(other, "topic") == Due("topic", other)


def test_a_schema_is_due_again_after_the_interval_and_looked_for_every_few_seconds() -> None:
    clock = SetClock()
    bootstraps = Bootstraps(SETTINGS, clock)
    bootstraps.note(table(), "topic")

    clock.now = 119
    assert list(bootstraps.again()) == []
    clock.now = 121
    assert list(bootstraps.again()) == []  # it looked two seconds ago
    clock.now = 119 + CHECK_SECONDS
    assert list(bootstraps.again()) == [Due("topic", table())]
    clock.now += CHECK_SECONDS
    assert list(bootstraps.again()) == []


def test_a_schema_is_due_again_after_so_many_rows() -> None:
    clock = SetClock()
    bootstraps = Bootstraps(SETTINGS, clock)
    bootstraps.note(table(), "topic", rows=9)
    clock.now = CHECK_SECONDS
    assert list(bootstraps.again()) == []

    bootstraps.note(table(), "topic")
    clock.now += CHECK_SECONDS

    assert list(bootstraps.again()) == [Due("topic", table())]


def test_a_table_that_was_silent_begins_anew() -> None:
    clock = SetClock()
    bootstraps = Bootstraps(SETTINGS, clock)
    bootstraps.note(table(), "topic")

    clock.now = SILENT_SECONDS
    assert list(bootstraps.again()) == []

    assert bootstraps.note(table(), "topic") == Due("topic", table())


def test_after_a_statement_the_new_schema_is_told_and_the_old_topic_is_remembered() -> None:
    clock = SetClock()
    bootstraps = Bootstraps(SETTINGS, clock)
    old, new = table("old"), table("new", version=9)
    bootstraps.note(old, "old")

    bootstraps.changed(new)
    bootstraps.note(new, "new")
    bootstraps.changed(replace(table("unknown"), table_id=7))
    clock.now = 130

    assert list(bootstraps.again()) == [Due("old", new)]
