"""One changefeed in a thread of its own, restarted after errors until it is stopped."""

from __future__ import annotations

import logging
import threading
from typing import Protocol

from tidewire.changefeed.runner import Runner, Status

log = logging.getLogger(__name__)

BLIND_SECONDS = 10.0
"""The pause after an error that could not be written down."""


class WorkerHooks(Protocol):
    """What a worker looks after; the worker's thread calls it."""

    def open(self) -> Runner:
        """A runner for the next try."""
        ...

    def failed(self, error: Exception) -> float | None:
        """A run failed. Returns the seconds to wait before the next one; ``None`` if there is no next one."""
        ...

    def ended(self) -> None:
        """Everything is replicated."""
        ...


class Worker:
    """Runs a changefeed. It begins at once and ends with it, or when it is stopped."""

    def __init__(self, name: str, hooks: WorkerHooks) -> None:
        self._hooks = hooks
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._runner: Runner | None = None
        self._thread = threading.Thread(target=self._work, name=f"changefeed {name}", daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Has it not ended yet?"""
        return self._thread.is_alive()

    @property
    def status(self) -> Status:
        """How the current try is doing."""
        with self._lock:
            return Status() if self._runner is None else self._runner.status

    def ask_to_stop(self) -> None:
        """Let it end soon; what is on its way is still sent and the checkpoint kept."""
        self._stopping.set()
        with self._lock:
            if self._runner is not None:
                self._runner.stop()

    def stop(self) -> None:
        """End it and wait until it has."""
        self.ask_to_stop()
        self._thread.join()

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._run():
                    self._hooks.ended()
                return
            except Exception as error:
                if self._stopping.is_set():
                    log.warning("%s: an error while it was stopped: %s", self._thread.name, type(error).__name__)
                    return
                pause = self._reported(error)
                if pause is None:
                    return
                self._stopping.wait(pause)

    def _reported(self, error: Exception) -> float | None:
        """Tell of an error; where even that does not work, as on a full disk, try again after a while."""
        try:
            return self._hooks.failed(error)
        except Exception as second:
            log.error("%s: %s while a %s was told", self._thread.name, type(second).__name__, type(error).__name__)
            return BLIND_SECONDS

    def _run(self) -> bool:
        """One try: was everything replicated?"""
        runner = self._hooks.open()
        with self._lock:
            self._runner = runner
            if self._stopping.is_set():
                runner.stop()
        try:
            runner.run()
            return runner.status.finished
        finally:
            with self._lock:
                self._runner = None
