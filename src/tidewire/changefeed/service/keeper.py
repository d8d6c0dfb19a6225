"""What a running changefeed reports, and what becomes of it in the store."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from tidewire.changefeed.checkpoint import Checkpoint
from tidewire.changefeed.runner import Runner, runner_for
from tidewire.changefeed.service.failure import Failure, code_of, error_text
from tidewire.changefeed.service.feed import Feed, FeedKey, Progress, unknown
from tidewire.changefeed.service.lifecycle import Backoff, Life, Move, State, moved, next_try, progressed, struck
from tidewire.changefeed.service.store import Store
from tidewire.changefeed.source import Source
from tidewire.secrets import scrubbed, secrets_in

log = logging.getLogger(__name__)


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
        """A changefeed goes into another state; its last error is history."""
        with self._lock:
            feed = self.store.get(key)
            if feed is not None:
                self._change(feed, Life(moved(feed.state, move)))

    def paused(self, key: FeedKey) -> bool:
        """Move a running changefeed to ``stopped``; False if it does not run."""
        with self._lock:
            feed = self.store.get(key)
            if feed is None or not feed.state.runs:
                return False
            self._change(feed, Life(moved(feed.state, Move.PAUSE)))
            return True

    def failed(self, key: FeedKey, error: Exception) -> float | None:
        """A run ended with an error: how long to wait before the next, or ``None`` if there will be none."""
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
        """A run reached its end."""
        with self._lock:
            feed = self.store.get(key)
            if feed is not None and feed.state.runs:
                self._change(feed, Life(moved(feed.state, Move.END)))

    def advanced(self, key: FeedKey, checkpoint: Checkpoint, sent_rows: bool) -> None:
        """Everything up to a checkpoint is safe."""
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
    """One changefeed as its worker sees it."""

    def __init__(
        self, key: FeedKey, keeper: Keeper, open_upstream: Callable[[], Source], addr: str, time_zone: str
    ) -> None:
        self._key = key
        self._keeper = keeper
        self._open_upstream = open_upstream
        self._addr = addr
        self._time_zone = time_zone

    def open(self) -> Runner:
        """A runner that goes on at the checkpoint."""
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
        """A try went wrong."""
        return self._keeper.failed(self._key, error)

    def ended(self) -> None:
        """Everything is replicated."""
        self._keeper.ended(self._key)


class KeptCheckpoints:
    """The checkpoints of one run, kept in the store."""

    def __init__(self, key: FeedKey, keeper: Keeper, checkpoint: Checkpoint) -> None:
        self._key = key
        self._keeper = keeper
        self._checkpoint = checkpoint
        self._runner: Runner | None = None
        self._rows = 0

    def watch(self, runner: Runner) -> None:
        """The run that the checkpoints are of, to see whether it sends rows."""
        self._runner = runner

    def load(self) -> Checkpoint | None:
        """The last checkpoint; ``None`` if no reading has left a place to go on at."""
        return None if self._checkpoint.place is None else self._checkpoint

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep a checkpoint."""
        rows = 0 if self._runner is None else self._runner.status.rows
        self._keeper.advanced(self._key, checkpoint, rows != self._rows)
        self._checkpoint, self._rows = checkpoint, rows
