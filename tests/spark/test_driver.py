"""Who may drive a sync: epochs, heartbeats, take-over."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from tidewire.errors import AlreadyRunning, Fenced
from tidewire.spark.driver import Driver, Epoch, Process, living_driver, newest_driver, take
from tidewire.storage import Storage, open_storage
from tidewire.sync.documents import encode


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(tmp_path)


@pytest.fixture
def lines() -> list[str]:
    return []


class Elsewhere:
    """A driver on another machine that beats whenever this one waits, up to a number of times."""

    def __init__(self, storage: Storage, epoch: int, beats: int) -> None:
        process = Process("another-machine", 4711, "12345")
        self._storage = storage
        self._driver = Driver(epoch, process, None, "2026-11-18T12:00:00+00:00")
        self._left = beats
        self.beat(0.0)

    def beat(self, _: float) -> None:
        if self._left >= 0:
            self._left -= 1
            self._driver = msgspec.structs.replace(self._driver, beats=self._driver.beats + 1)
            self._storage.put(f"epochs/{self._driver.epoch:08}", encode(self._driver))


def dead_process() -> Process:
    """A process of this machine that has ended."""
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    found = Process.of(child.pid)
    child.wait()
    return found


def leave(storage: Storage, process: Process, jvm: Process | None = None) -> None:
    """What a driver leaves that died without a word."""
    storage.put("epochs/00000001", encode(Driver(1, process, jvm, "2026-11-18T12:00:00+00:00")))


def test_epochs_follow_each_other(storage: Storage) -> None:
    numbers = []
    for _ in range(3):
        epoch = take(storage)
        numbers.append(epoch.number)
        epoch.end()

    assert numbers == [1, 2, 3]


def test_a_living_driver_on_this_machine_is_found_at_once(storage: Storage, lines: list[str]) -> None:
    epoch = take(storage)
    try:
        with pytest.raises(AlreadyRunning, match=r"process .* on .* --take-over"):
            take(storage, tell=lines.append, wait=lambda _: pytest.fail("there is nothing to wait for"))
        assert living_driver(storage) is not None
    finally:
        epoch.end()
    assert living_driver(storage) is None


def test_a_dead_driver_on_this_machine_is_no_reason_to_wait(storage: Storage) -> None:
    leave(storage, dead_process())

    epoch = take(storage, wait=lambda _: pytest.fail("there is nothing to wait for"))

    assert epoch.number == 2
    epoch.end()


def test_a_process_number_that_is_in_use_again_is_another_process(storage: Storage) -> None:
    own = Process.of(threading.get_native_id())
    leave(storage, msgspec.structs.replace(own, started="1"))

    epoch = take(storage)

    assert epoch.number == 2
    epoch.end()


def test_a_driver_elsewhere_lives_as_long_as_its_heartbeats_grow(storage: Storage, lines: list[str]) -> None:
    alive = Elsewhere(storage, 1, beats=100)
    with pytest.raises(AlreadyRunning, match="another-machine"):
        take(storage, tell=lines.append, wait=alive.beat)
    assert "looking at its heartbeat" in lines[0]

    dead = Elsewhere(storage, 2, beats=0)
    epoch = take(storage, wait=dead.beat)

    assert epoch.number == 3
    epoch.end()


@pytest.mark.parametrize("clock", [-120, 0, 120])
def test_no_clock_is_compared(storage: Storage, clock: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes back two minutes neither frees a target nor locks it for ever."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + clock)
    with pytest.raises(AlreadyRunning):
        take(storage, wait=Elsewhere(storage, 1, beats=100).beat)

    epoch = take(storage, wait=Elsewhere(storage, 2, beats=0).beat)

    epoch.end()


def test_taking_over_fences_the_older_driver(storage: Storage) -> None:
    older = take(storage)
    newer = take(storage, take_over=True)
    try:
        assert newer.number == older.number + 1
        with pytest.raises(Fenced, match="has taken over"):
            older.look()
        with pytest.raises(Fenced):
            older.check()
        newer.look()
    finally:
        older.end()
        newer.end()
    found = newest_driver(storage)
    assert found is not None
    assert (found.epoch, found.ended) == (newer.number, True)


def test_the_java_process_of_a_dead_driver_is_waited_for(storage: Storage, lines: list[str]) -> None:
    java = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    leave(storage, dead_process(), Process.of(java.pid))

    def wait(_: float) -> None:
        java.communicate(b"\n")

    epoch = take(storage, tell=lines.append, wait=wait)

    assert lines == [f"waiting for Java process {java.pid} of the sync before this one to end"]
    epoch.end()


def test_of_drivers_that_start_at_once_no_two_have_one_epoch(tmp_path: Path) -> None:
    barrier, found = threading.Barrier(4), list[Epoch]()

    def race() -> None:
        barrier.wait()
        with suppress(AlreadyRunning):
            found.append(take(open_storage(tmp_path), take_over=True))

    racers = [threading.Thread(target=race) for _ in range(4)]
    for each in racers:
        each.start()
    for each in racers:
        each.join()
    for epoch in found:
        epoch.end()

    assert found
    assert len({epoch.number for epoch in found}) == len(found)
