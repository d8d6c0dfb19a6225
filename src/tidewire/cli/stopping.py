"""Ctrl-C and SIGTERM: a command ends at once, or in good order if it has begun to change something.

Python calls signal handlers in the main thread, between two instructions. The main thread may be waiting for Java or
for a broker, and Spark replaces the handlers by its own. So the handlers here do nothing: Python also writes each
signal to a pipe as it comes, and a thread that reads the pipe decides.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_NAMES: Final = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
_SHOW_CURSOR: Final = b"\x1b[?25h\r\n"


class Stopping:
    """How the running command ends when a signal comes: at once, until :meth:`in_order` says otherwise."""

    def __init__(self, errors: int | None = None) -> None:
        self._errors = errors
        self._stop: Callable[[], bool] = lambda: False
        self.asked = False
        """Whether a signal asked the command to end in good order."""

    def in_order(self, stop: Callable[[], bool]) -> None:
        """Call ``stop`` at the first signal. A second signal, or the first if ``stop`` says no, ends at once."""
        self._stop = stop
        self.install()

    def install(self) -> None:
        """Take the signals again after other code, such as Spark, has taken them."""
        for number in _SIGNALS if self._errors is not None else ():
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _nothing)

    def came(self, number: int) -> None:
        """Handle a signal. The thread that reads the pipe calls it."""
        if number not in _SIGNALS:
            return
        if not self.asked and self._stop():
            self.asked = True
            return
        _end(number, 2 if self._errors is None else self._errors)


@contextmanager
def stopping() -> Iterator[Stopping]:
    """Handle signals for the time of a block. In a thread other than the main one, nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield Stopping()
        return
    before = [signal.getsignal(number) for number in _SIGNALS]
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    errors = os.dup(2)  # what is 2 may lead elsewhere while Java is started
    handling = Stopping(errors)
    thread = threading.Thread(target=_read, args=(reading, handling), name="tidewire-signals", daemon=True)
    old = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    handling.install()
    thread.start()
    try:
        yield handling
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)
        signal.set_wakeup_fd(old)
        os.close(writing)
        thread.join()
        os.close(reading)
        os.close(errors)


def _read(reading: int, handling: Stopping) -> None:
    while data := os.read(reading, 1):
        handling.came(data[0])


def _nothing(number: int, frame: Any) -> None:
    """Do nothing: the thread that reads the pipe handles the signal."""


def _end(number: int, errors: int) -> None:
    """End this process and its children, without waiting for any thread."""
    for child in _children():
        with suppress(OSError):
            os.kill(child, signal.SIGTERM)
    if sys.stdout.isatty():
        os.write(1, _SHOW_CURSOR)
    with suppress(OSError):
        os.write(errors, f"stopped by {_NAMES[signal.Signals(number)]}\n".encode())
    os._exit(128 + number)


def _children() -> list[int]:
    """The processes that this one started, if the system tells. Java ends by itself when this process is gone."""
    found: list[int] = []
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            found += map(int, path.read_text().split())
    return found
