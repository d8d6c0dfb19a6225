"""A sync in a thread of its own, and the handle of it."""

from __future__ import annotations

import threading
from contextlib import closing
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pyspark import InheritableThread

from tidewire.spark.prepare import driven

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidewire.spark.loop import Loop
    from tidewire.spark.prepare import Prepared
    from tidewire.spark.report import PassReport
    from tidewire.spark.sync import Recorder, SyncResult


class SyncStatus(StrEnum):
    """The state of a started sync."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


class RunningSync:
    """The handle of a started sync, as ``StreamingQuery`` is for a stream.

    The sync runs in a daemon thread. If the process ends, the next start continues an unfinished plan.
    """

    def __init__(
        self, ready: Prepared, spark: SparkSession, recorder: Recorder, *, once: bool, take_over: bool
    ) -> None:
        self._recorder = recorder
        self._changing = threading.Lock()
        self._loop: Loop | None = None
        self._stop_asked = False
        self._error: BaseException | None = None
        self._result: SyncResult | None = None
        self._thread: Any = InheritableThread(self._run, args=(ready, spark, once, take_over))
        self._thread.name, self._thread.daemon = "tidewire-sync", True
        self._thread.start()

    @property
    def status(self) -> SyncStatus:
        """The current state."""
        if not self._thread.is_alive():
            return SyncStatus.STOPPED if self._error is None else SyncStatus.FAILED
        if self._stop_asked:
            return SyncStatus.STOPPING
        return SyncStatus.STARTING if self._loop is None or not self._loop.is_driving else SyncStatus.RUNNING

    @property
    def message(self) -> str:
        """The last note for people, such as what the sync waits for."""
        return self._recorder.said

    @property
    def last_report(self) -> PassReport | None:
        """The report of the last pass; ``None`` before the first."""
        return self._recorder.last_report

    @property
    def result(self) -> SyncResult | None:
        """The result of the sync, once it has ended without an error."""
        return self._result

    @property
    def exception(self) -> BaseException | None:
        """The error that ended the sync; ``None`` if there is none."""
        return self._error

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait at most ``timeout`` seconds until the sync has ended; True if it has. Raises the error that ended it."""
        self._thread.join(timeout)
        if self._thread.is_alive():
            return False
        if self._error is not None:
            raise self._error
        return True

    def stop(self, timeout: float | None = None) -> bool:
        """Stop the sync after the running pass, and wait at most ``timeout`` seconds for that; True if it has ended.

        A sync that failed before is ended; :attr:`exception` says why.
        """
        with self._changing:
            self._stop_asked = True
            if self._loop is not None:
                self._loop.stop()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self, ready: Prepared, spark: SparkSession, once: bool, take_over: bool) -> None:
        try:
            with closing(ready), ready.loop(spark, self._recorder) as loop:
                for note in ready.notes:
                    self._recorder.note(note)
                with self._changing:
                    self._loop = loop
                    if self._stop_asked:
                        loop.stop()
                state = driven(loop, self._recorder, once=once, take_over=take_over)
            self._result = self._recorder.result(state, ready.job.has_watermarks)
        except BaseException as error:
            self._error = error
