"""A worker runs its changefeed again after errors, and ends when it is told to."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from changefeed.pieces import DiarySink, ListSource
from changefeed.service.upstreams import Live, until
from tidewire.changefeed.checkpoint import MemoryCheckpoints
from tidewire.changefeed.runner import Runner
from tidewire.changefeed.service import worker as module
from tidewire.changefeed.service.worker import Worker
from tidewire.changefeed.source import Source
from tidewire.dispatch import Filter


class Diary:
    """A charge that writes down what it hears; each try takes the next source."""

    def __init__(self, *sources: Callable[[], Source], pause: float | None = 0.0) -> None:
        self.heard: list[str] = []
        self.pause = pause
        self._sources = list(sources)

    def open(self) -> Runner:
        """The next try."""
        self.heard.append("open")
        source = self._sources.pop(0)()
        return Runner(source, DiarySink(), Filter(), MemoryCheckpoints(), start_ts=0, interval=0.0)

    def failed(self, error: Exception) -> float | None:
        """Write down an error."""
        self.heard.append(str(error))
        return self.pause

    def ended(self) -> None:
        """Write down the end."""
        self.heard.append("ended")


def broken() -> Source:
    raise RuntimeError("no source")


def test_errors_are_told_and_the_next_try_may_end_well() -> None:
    diary = Diary(broken, broken, lambda: ListSource([]))

    worker = Worker("feed", diary)
    until(lambda: not worker.runs)

    assert diary.heard == ["open", "no source", "open", "no source", "open", "ended"]


def test_an_error_without_a_next_try_is_the_end() -> None:
    diary = Diary(broken, pause=None)

    worker = Worker("feed", diary)
    until(lambda: not worker.runs)

    assert diary.heard == ["open", "no source"]


def test_stopping_ends_a_run_without_a_word() -> None:
    live = Live()
    ts = live.begin()
    diary = Diary(live.open)
    worker = Worker("feed", diary)
    until(lambda: worker.status.checkpoint_ts == ts)

    worker.stop()
    worker.stop()

    assert (diary.heard, worker.runs, worker.status.checkpoint_ts) == (["open"], False, 0)


def test_stopping_ends_a_pause_at_once() -> None:
    diary = Diary(broken, pause=3600.0)
    worker = Worker("feed", diary)
    until(lambda: "no source" in diary.heard)

    worker.stop()

    assert diary.heard == ["open", "no source"]


def test_being_stopped_while_it_opens_it_does_not_stay() -> None:
    opening, go_on = threading.Event(), threading.Event()

    def slow() -> Source:
        opening.set()
        go_on.wait()
        return Live().open()

    diary = Diary(slow)
    worker = Worker("feed", diary)
    opening.wait()
    worker.ask_to_stop()
    go_on.set()

    until(lambda: not worker.runs)
    assert diary.heard == ["open"]


def test_where_an_error_cannot_be_told_it_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(Diary):
        def failed(self, error: Exception) -> float | None:
            self.heard.append("deaf")
            raise OSError("disk full")

    monkeypatch.setattr(module, "BLIND_SECONDS", 0.0)
    diary = Deaf(broken, lambda: ListSource([]))

    worker = Worker("feed", diary)
    until(lambda: not worker.runs)

    assert diary.heard == ["open", "deaf", "open", "ended"]
