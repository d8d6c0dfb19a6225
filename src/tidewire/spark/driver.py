"""Decides which process may drive a sync: one at a time, identified by its epoch.

::

    epochs/<number>      the process that drives, and a count of its heartbeats

A driver takes the next epoch with put-if-absent, so of two that start at once one wins. It counts a heartbeat every few
seconds. A start finds a living driver because the count grows while it looks: no clocks are compared. On one machine it
asks the operating system instead and need not wait. A driver that finds a newer epoch stops.

What an older driver still commits is refused by the tables themselves, see :mod:`tidewire.spark.targets`.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

import msgspec

from tidewire.errors import AlreadyRunning, Fenced, StorageError, SyncError
from tidewire.storage import Storage
from tidewire.sync.documents import decode, encode

FOLDER: Final = "epochs"

BEAT_SECONDS: Final = 5.0
"""How often a driver counts a heartbeat, and looks for a newer epoch."""

_LOOK_SECONDS: Final = 2.4 * BEAT_SECONDS
"""How long a start watches the heartbeats of a driver on another machine."""

_JVM_SECONDS: Final = 600.0
"""How long a start waits for the Java process of a dead driver: it may be in the middle of a commit."""

_KEPT: Final = 20
"""The number of old epochs that are kept, for people to look at."""


class Process(msgspec.Struct, frozen=True):
    """A process of one machine. ``started`` tells it from a later one with the same number."""

    host: str
    pid: int
    started: str

    @classmethod
    def of(cls, pid: int) -> Process:
        """A process of this machine."""
        return cls(_machine(), pid, _started(pid) or "")

    @property
    def is_here(self) -> bool:
        """Is it a process of this machine?"""
        return self.host == _machine()

    @property
    def is_alive(self) -> bool:
        """Does it run? Only this machine's processes can be asked."""
        started = _started(self.pid)
        return started is not None and (not self.started or started == self.started)


class Driver(msgspec.Struct, frozen=True):
    """The document of an epoch. ``jvm`` is the driver's Java process; ``ended``: it stopped in good order."""

    epoch: int
    process: Process
    jvm: Process | None
    since: str
    beats: int = 0
    ended: bool = False


class Epoch:
    """The epoch of this process, from :func:`take` to :meth:`end`."""

    def __init__(self, storage: Storage, driver: Driver) -> None:
        self._storage = storage
        self._driver = driver
        self._over = threading.Event()
        self._newer: Driver | None = None
        self._thread = threading.Thread(target=self._beat, name="tidewire-heartbeat", daemon=True)
        self._thread.start()

    @property
    def number(self) -> int:
        """Later drivers have larger numbers."""
        return self._driver.epoch

    def check(self) -> None:
        """Raise :class:`Fenced` if a newer driver was seen."""
        if self._newer is not None:
            raise _fenced(self._storage, self._newer)

    def look(self) -> None:
        """Look for a newer driver now; raise :class:`Fenced` if there is one."""
        newest = newest_driver(self._storage)
        if newest is not None and newest.epoch > self.number:
            self._newer = newest
        self.check()

    def end(self) -> None:
        """End the epoch, so that the next start need not wait."""
        self._over.set()
        self._thread.join()
        if self._newer is None:
            self._write(msgspec.structs.replace(self._driver, ended=True))

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            try:
                self._driver = msgspec.structs.replace(self._driver, beats=self._driver.beats + 1)
                self._write(self._driver)
                self.look()
            except Fenced:
                return
            except StorageError:
                continue  # the loop meets the same store and says so

    def _write(self, driver: Driver) -> None:
        self._storage.put(_name(driver.epoch), encode(driver))


def take(
    storage: Storage,
    *,
    jvm: int | None = None,
    take_over: bool = False,
    tell: Callable[[str], None] = lambda line: None,
    wait: Callable[[float], None] = time.sleep,
) -> Epoch:
    """Become the driver; :class:`AlreadyRunning` if there is a living one and ``take_over`` is not set.

    ``tell`` gets a line when there is something to wait for.
    """
    found = newest_driver(storage)
    if found is not None and not found.ended:
        if not take_over and _is_living(storage, found, tell, wait):
            raise AlreadyRunning(storage.uri, found.process.host, found.process.pid, found.since)
        _await_jvm(found, tell, wait)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    number = 1 if found is None else found.epoch + 1
    driver = Driver(number, Process.of(os.getpid()), None if jvm is None else Process.of(jvm), now)
    if not storage.put_if_absent(_name(number), encode(driver)):
        other = newest_driver(storage)
        raise AlreadyRunning(storage.uri, *(("unknown", 0, now) if other is None else _facts(other)))
    storage.delete([_name(old) for old in _numbers(storage) if old <= number - _KEPT])
    return Epoch(storage, driver)


def newest_driver(storage: Storage) -> Driver | None:
    """The driver of the newest epoch."""
    for number in reversed(_numbers(storage)):
        data = storage.read(_name(number))
        if data is not None:
            return decode(data, Driver)
    return None


def living_driver(
    storage: Storage, tell: Callable[[str], None] = lambda line: None, wait: Callable[[float], None] = time.sleep
) -> Driver | None:
    """The driver that runs now, if there is one."""
    found = newest_driver(storage)
    return found if found is not None and not found.ended and _is_living(storage, found, tell, wait) else None


def _is_living(storage: Storage, driver: Driver, tell: Callable[[str], None], wait: Callable[[float], None]) -> bool:
    if driver.process.is_here:
        return driver.process.is_alive
    tell(f"a sync on {driver.process.host} did not say that it ended; looking at its heartbeat")
    until, passed = driver.beats + 1, 0.0
    while passed < _LOOK_SECONDS:
        wait(BEAT_SECONDS / 5)
        passed += BEAT_SECONDS / 5
        now = newest_driver(storage)
        if now is not None and (now.epoch > driver.epoch or now.beats >= until):
            return not now.ended
    return False


def _await_jvm(driver: Driver, tell: Callable[[str], None], wait: Callable[[float], None]) -> None:
    """Wait until the Java process of an earlier driver has ended: it may be in the middle of a commit."""
    jvm, passed = driver.jvm, 0.0
    if jvm is None or not jvm.is_here or driver.process.is_alive:
        return
    while jvm.is_alive:
        if not passed:
            tell(f"waiting for Java process {jvm.pid} of the sync before this one to end")
        if passed >= _JVM_SECONDS:
            raise SyncError(f"Java process {jvm.pid} of the sync before this one does not end; kill it and start again")
        wait(0.2)
        passed += 0.2


def _fenced(storage: Storage, newer: Driver) -> Fenced:
    host, pid, since = _facts(newer)
    return Fenced(f"process {pid} on {host} has taken over {storage.uri} since {since}")


def _facts(driver: Driver) -> tuple[str, int, str]:
    return driver.process.host, driver.process.pid, driver.since


def _numbers(storage: Storage) -> list[int]:
    names = (entry.name.rpartition("/")[2] for entry in storage.list(FOLDER))
    return sorted(int(name) for name in names if name.isdecimal())


def _name(number: int) -> str:
    return f"{FOLDER}/{number:08}"


def _machine() -> str:
    return socket.gethostname()


def _started(pid: int) -> str | None:
    """When a process of this machine began, in the kernel's ticks; ``None`` if there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except OSError:
        return None
    else:
        fields = text.rpartition(")")[2].split()
        return None if fields[0] in ("Z", "X") else fields[19]
    try:  # a system without /proc can only say whether the number is in use
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        return ""
    return ""
