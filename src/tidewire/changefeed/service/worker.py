"""A running changefeed: its thread, restarted after errors until it is stopped, and what it records in the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Protocol

from tidewire.changefeed.checkpoint import Checkpoint
from tidewire.changefeed.runner import Runner, Status, runner_for
from tidewire.changefeed.service.errors import Failure, code_of, error_text
from tidewire.changefeed.service.lifecycle import Backoff, Life, Move, State, moved, next_try, progressed, struck
from tidewire.changefeed.service.store import Feed, FeedKey, Progress, Store, unknown
from tidewire.changefeed.source import Source
from tidewire.secrets import scrubbed, secrets_in

log = logging.getLogger(__name__)

BLIND_SECONDS = 10.0
"""The pause after an error that could not be stored."""


class WorkerHooks(Protocol):
    """What a worker calls, from its thread."""

    def open(self) -> Runner:
        """Make the runner of the next try."""
        ...

    def failed(self, error: Exception) -> float | None:
        """A run failed. Returns the seconds to wait before the next one; ``None`` if there is no next one."""
        ...

    def ended(self) -> None:
        """Note that everything is replicated."""
        ...


class Worker:
    """Runs a changefeed in a thread of its own, from now until it ends or is stopped."""

    def __init__(self, name: str, hooks: WorkerHooks) -> None:
        self._hooks = hooks
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._runner: Runner | None = None
        self._thread = threading.Thread(target=self._work, name=f"changefeed {name}", daemon=True)
        self._thread.start()

    @property
    def runs(self) -> bool:
        """Is the thread still alive?"""
        return self._thread.is_alive()

    @property
    def status(self) -> Status:
        """The status of the current try."""
        with self._lock:
            return Status() if self._runner is None else self._runner.status

    def ask_to_stop(self) -> None:
        """Let the run end soon; pending rows are still sent and the checkpoint is stored."""
        self._stopping.set()
        with self._lock:
            if self._runner is not None:
                self._runner.stop()

    def stop(self) -> None:
        """End the run and wait for the thread."""
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
                    log.warning("%s: %s while it was being stopped", self._thread.name, type(error).__name__)
                    return
                pause = self._reported(error)
                if pause is None:
                    return
                self._stopping.wait(pause)

    def _reported(self, error: Exception) -> float | None:
        """Report an error; if that fails too, as on a full disk, retry after a while."""
        try:
            return self._hooks.failed(error)
        except Exception as second:
            log.error("%s: %s while a %s was reported", self._thread.name, type(second).__name__, type(error).__name__)
            return BLIND_SECONDS

    def _run(self) -> bool:
        """Run once; return True if everything is replicated."""
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


class Keeper:
    """Records the state of changefeeds in the store, one change at a time."""

    def __init__(
        self, store: Store, addr: str, clock: Callable[[], float], backoff: Backoff, secrets: frozenset[str]
    ) -> None:
        self.store = store
        self._addr = addr
        self._clock = clock
        self._backoff = backoff
        self._secrets = secrets
        self._lock = threading.Lock()

    def move(self, key: FeedKey, move: Move) -> None:
        """Move a changefeed to another state, and forget its last error."""
        with self._lock:
            feed = self.store.get(key)
            if feed is not None:
                self._change(feed, Life(moved(feed.state, move)))

    def paused(self, key: FeedKey) -> bool:
        """Move a running changefeed to ``stopped``; return False if it does not run."""
        with self._lock:
            feed = self.store.get(key)
            if feed is None or not feed.state.runs:
                return False
            self._change(feed, Life(moved(feed.state, Move.PAUSE)))
            return True

    def failed(self, key: FeedKey, error: Exception) -> float | None:
        """Record a failed run; return the seconds until the next one, ``None`` if there is no next one."""
        with self._lock:
            feed = self.store.get(key)
            if feed is None or not feed.state.runs:
                return None
            stuck_after = feed.config.changefeed_error_stuck_duration.seconds
            life = struck(feed.life, self._failure(feed, error), feed.progress.checkpoint.ts, stuck_after)
            self._change(feed, life)
            if life.state is not State.WARNING:
                return None
            return next_try(life, self._clock(), stuck_after, self._backoff)

    def ended(self, key: FeedKey) -> None:
        """Record that a run has reached its end."""
        with self._lock:
            feed = self.store.get(key)
            if feed is not None and feed.state.runs:
                self._change(feed, Life(moved(feed.state, Move.END)))

    def advanced(self, key: FeedKey, checkpoint: Checkpoint, sent_rows: bool) -> None:
        """Record a checkpoint."""
        with self._lock:
            feed = self.store.get(key)
            if feed is None:
                return
            synced_ts = checkpoint.ts if sent_rows else feed.progress.synced_ts
            self.store.advance(key, Progress(checkpoint, synced_ts))
            life = progressed(feed.life, checkpoint.ts)
            if life is not feed.life:
                self._change(feed, life)

    def _change(self, feed: Feed, life: Life) -> None:
        self.store.live(feed.key, life)
        if life.failure is None:
            log.info("changefeed %s: %s", feed.key.id, life.state)
        else:
            log.warning("changefeed %s: %s: %s", feed.key.id, life.state, life.failure.message)

    def _failure(self, feed: Feed, error: Exception) -> Failure:
        secrets = {*self._secrets, *secrets_in((feed.sink_uri, feed.config))}
        return Failure(self._clock(), self._addr, code_of(error), scrubbed(error_text(error), secrets))


class FeedHooks:
    """The hooks of one changefeed's worker: they record what happens in the store."""

    def __init__(
        self, key: FeedKey, keeper: Keeper, open_upstream: Callable[[], Source], addr: str, time_zone: str
    ) -> None:
        self._key = key
        self._keeper = keeper
        self._open_upstream = open_upstream
        self._addr = addr
        self._time_zone = time_zone

    def open(self) -> Runner:
        """Make a runner that starts at the checkpoint."""
        feed = self._keeper.store.get(self._key)
        if feed is None:
            raise unknown(self._key)
        checkpoints = KeptCheckpoints(self._key, self._keeper, feed.progress.checkpoint)
        source = self._open_upstream()
        try:
            runner = runner_for(
                feed.settings(self._addr, self._time_zone),
                source,
                checkpoints,
                start_ts=feed.progress.checkpoint.ts,
                target_ts=feed.target_ts or None,
            )
        except BaseException:
            source.close()
            raise
        checkpoints.watch(runner)
        return runner

    def failed(self, error: Exception) -> float | None:
        """Record a failed run."""
        return self._keeper.failed(self._key, error)

    def ended(self) -> None:
        """Note that everything is replicated."""
        self._keeper.ended(self._key)


class KeptCheckpoints:
    """The checkpoints of one run, in the store."""

    def __init__(self, key: FeedKey, keeper: Keeper, checkpoint: Checkpoint) -> None:
        self._key = key
        self._keeper = keeper
        self._checkpoint = checkpoint
        self._runner: Runner | None = None
        self._rows = 0

    def watch(self, runner: Runner) -> None:
        """Set the run of these checkpoints, to see whether it sends rows."""
        self._runner = runner

    def load(self) -> Checkpoint | None:
        """The last checkpoint; ``None`` if no reading has given a position to resume at."""
        return None if self._checkpoint.place is None else self._checkpoint

    def save(self, checkpoint: Checkpoint) -> None:
        """Store a checkpoint."""
        rows = 0 if self._runner is None else self._runner.status.rows
        self._keeper.advanced(self._key, checkpoint, rows != self._rows)
        self._checkpoint, self._rows = checkpoint, rows
