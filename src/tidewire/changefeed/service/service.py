"""The verbs of the service: create, list, query, update, pause, resume, remove; and the answers to questions about
changefeeds: which tables they match, whether everything has arrived.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone

from tidewire import __version__
from tidewire.changefeed.checkpoint import Checkpoint
from tidewire.changefeed.config.reading import unmasked, unmasked_uri
from tidewire.changefeed.config.replica import DEFAULT, PARAM_INVALID, ReplicaConfig, SyncedStatusConfig
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.config.uri import URI_INVALID
from tidewire.changefeed.config.validate import Checked, Request, validate
from tidewire.changefeed.service.errors import code_of, error_text
from tidewire.changefeed.service.lifecycle import REFUSED, UPDATABLE, Backoff, Move, State, moved
from tidewire.changefeed.service.store import NO_SAFE_POINT, Feed, FeedKey, Progress, Store, unknown
from tidewire.changefeed.service.worker import FeedHooks, Keeper, Worker
from tidewire.changefeed.sink.open import open_sink
from tidewire.changefeed.source import Source
from tidewire.dispatch import TableRules, is_eligible
from tidewire.errors import ChangefeedError, TidewireError
from tidewire.model import TableSchema
from tidewire.model.tso import LOGICAL_BITS, physical_ms
from tidewire.registry import ConfluentRegistry
from tidewire.secrets import NO_SECRET, Secret

SYNCED = "Data syncing is finished"
NOT_SYNCED = "The data syncing is not finished, please wait"

UNCLEAR = (
    "Nothing was sent for a while, but the checkpoint does not follow the upstream's clock: see that the upstream "
    "answers and the changefeed is not in trouble. If the upstream is gone, the data syncing is finished"
)

_ATTEMPTS = 2
"""Few attempts, because a person waits for the answer."""

log = logging.getLogger(__name__)
_NAMESPACE = re.compile(r"[a-zA-Z0-9]+([-_][a-zA-Z0-9]+)*")


@dataclass(frozen=True, slots=True)
class MatchedTables:
    """The tables that ``filter.rules`` keep; ineligible are those whose rows cannot be told apart."""

    eligible: tuple[TableSchema, ...]
    ineligible: tuple[TableSchema, ...]

    @property
    def all(self) -> tuple[TableSchema, ...]:
        """All matched tables."""
        return self.eligible + self.ineligible


def matched_tables(config: ReplicaConfig, tables: Iterable[TableSchema]) -> MatchedTables:
    """The tables that the rules of a configuration keep."""
    rules = TableRules.parse(config.filter.rules, case_sensitive=config.case_sensitive)
    kept = [table for table in tables if rules.matches(table.name)]
    return MatchedTables(
        tuple(table for table in kept if is_eligible(table)), tuple(table for table in kept if not is_eligible(table))
    )


@dataclass(frozen=True, slots=True)
class Synced:
    """Has everything arrived downstream? With the timestamps behind the answer, as TiCDC's ``/synced`` gives it."""

    synced: bool
    info: str
    checkpoint_ts: int
    resolved_ts: int
    synced_ts: int
    now_ts: int


def is_synced(limits: SyncedStatusConfig, checkpoint_ts: int, resolved_ts: int, synced_ts: int, now: int) -> Synced:
    """Synced: nothing sent for ``synced-check-interval``, and the checkpoint not older than ``checkpoint-interval``."""
    quiet = _seconds(synced_ts, now) > limits.synced_check_interval
    close = _seconds(checkpoint_ts, now) < limits.checkpoint_interval
    read = _seconds(checkpoint_ts, resolved_ts) < limits.checkpoint_interval
    info = SYNCED if quiet and close else UNCLEAR if quiet and read else NOT_SYNCED
    return Synced(quiet and close, info, checkpoint_ts, resolved_ts, synced_ts, now)


def _seconds(earlier: int, later: int) -> float:
    return (physical_ms(later) - physical_ms(earlier)) / 1000


def verify_sink(settings: Settings, start_ts: int) -> None:
    """Open the sink once and close it; raises ``CDC:ErrSinkURIInvalid`` with the reason if that fails."""
    try:
        registry = settings.options.schema_registry
        if registry.startswith(("http:", "https:")):
            with ConfluentRegistry(registry, attempts=_ATTEMPTS) as found:
                found.probe()
        open_sink(settings, start_ts).close()
    except (TidewireError, OSError, ValueError) as error:
        if isinstance(error, ChangefeedError) and error.code == URI_INVALID:
            raise
        inner = "" if isinstance(error, ChangefeedError) else f"[{code_of(error)}]"
        raise ChangefeedError(URI_INVALID, f"{settings.uri} cannot be used: {inner}{error_text(error)}") from error


@dataclass(frozen=True, slots=True)
class Wanted:
    """A changefeed to create. Without an id it gets one; a timestamp of 0 is not given."""

    sink_uri: Secret = NO_SECRET
    changefeed_id: str = ""
    config: ReplicaConfig = DEFAULT
    start_ts: int = 0
    target_ts: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """Changes to a changefeed; ``None`` and 0 leave a setting as it is."""

    sink_uri: Secret | None = None
    config: ReplicaConfig | None = None
    start_ts: int = 0
    target_ts: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """A changefeed, and up to which timestamp its source has been read."""

    feed: Feed
    resolved_ts: int


class Service:
    """The changefeeds of a store, all from one upstream. Any thread may call it.

    ``addr`` is the server's name in errors; ``secrets`` are texts that must not appear in errors.
    """

    def __init__(
        self,
        store: Store,
        open_upstream: Callable[[], Source],
        *,
        addr: str = "127.0.0.1:8300",
        time_zone: str = "UTC",
        backoff: Backoff = Backoff(),
        clock: Callable[[], float] = time.time,
        secrets: Iterable[str] = (),
    ) -> None:
        self.addr = addr
        self.secrets = frozenset(secrets)
        self._store = store
        self._open_upstream = open_upstream
        self._time_zone = time_zone
        self._clock = clock
        self._keeper = Keeper(store, addr, clock, backoff, self.secrets)
        self._workers: dict[FeedKey, Worker] = {}
        self._lock = threading.Lock()
        self._verb_locks: dict[FeedKey, threading.Lock] = {}

    def start(self) -> None:
        """Start all changefeeds that were running when the server stopped."""
        for feed in self._store.feeds():
            if feed.state.runs:
                self._begin(feed)
            elif feed.state is State.REMOVED:
                self._store.remove(feed.key)

    def stop(self) -> None:
        """End all runs, each with a last checkpoint; they continue with the next start."""
        with self._lock:
            workers, self._workers = list(self._workers.values()), {}
        for worker in workers:
            worker.ask_to_stop()
        for worker in workers:
            worker.stop()

    def create(self, namespace: str, wanted: Wanted) -> View:
        """Create a changefeed and start it."""
        changefeed_id = wanted.changefeed_id or str(uuid.uuid4())
        taken = {feed.key.id for feed in self._store.feeds(_valid_namespace(namespace))}
        checked, _ = self._check(namespace, replace(wanted, changefeed_id=changefeed_id), taken)
        verify_sink(checked.settings, checked.start_ts)
        feed = Feed(
            FeedKey(namespace, changefeed_id),
            wanted.sink_uri,
            checked.settings.config,
            checked.start_ts,
            wanted.target_ts,
            datetime.now(timezone.utc),
            __version__,
            Progress(Checkpoint(checked.start_ts)),
        )
        self._store.add(feed)
        for warning in checked.warnings:
            log.warning("changefeed %s: %s", changefeed_id, warning)
        self._begin(feed)
        return View(feed, feed.start_ts)

    def views(self, namespace: str) -> list[View]:
        """All changefeeds of a namespace."""
        return [self._view(feed) for feed in self._store.feeds(namespace)]

    def view(self, key: FeedKey) -> View:
        """One changefeed; raises ``CDC:ErrChangeFeedNotExists`` if it does not exist."""
        return self._view(self._feed(key))

    def update(self, key: FeedKey, change: Change) -> View:
        """Change a changefeed that does not run; a configuration replaces the old one as a whole."""
        with self._one_verb(key):
            feed = self._feed(key)
            if feed.state not in UPDATABLE:
                raise ChangefeedError(
                    REFUSED, f"can only update a changefeed that is stopped or failed, but this one is {feed.state}"
                )
            if change.start_ts:
                raise ChangefeedError(PARAM_INVALID, "start_ts cannot be changed; make a new changefeed")
            if change.target_ts and change.target_ts <= feed.start_ts:
                raise ChangefeedError(
                    REFUSED, f"target_ts {change.target_ts} must be after start_ts {feed.start_ts} of the changefeed"
                )
            wanted = Wanted(
                feed.sink_uri if change.sink_uri is None else Secret(unmasked_uri(change.sink_uri, feed.sink_uri)),
                key.id,
                feed.config if change.config is None else unmasked(change.config, feed.config),
                feed.start_ts,
                change.target_ts or feed.target_ts,
            )
            checked, _ = self._check(key.namespace, wanted)
            verify_sink(checked.settings, feed.progress.checkpoint.ts)
            changed = replace(
                feed, sink_uri=wanted.sink_uri, config=checked.settings.config, target_ts=wanted.target_ts
            )
            self._store.define(changed)
            return self._view(changed)

    def pause(self, key: FeedKey) -> None:
        """Stop a changefeed, and wait until its pending rows are safe. One that does not run stays as it is."""
        with self._one_verb(key):
            if self._keeper.paused(key):
                self._end(key)

    def resume(self, key: FeedKey, checkpoint_ts: int = 0) -> None:
        """Resume a changefeed from its checkpoint, or from ``checkpoint_ts`` if it is given."""
        with self._one_verb(key):
            feed = self._feed(key)
            moved(feed.state, Move.RESUME)
            if checkpoint_ts:
                self._overwrite(feed, checkpoint_ts)
            self._end(key)
            self._keeper.move(key, Move.RESUME)
            self._begin(self._feed(key))

    def remove(self, key: FeedKey) -> bool:
        """Stop and delete a changefeed; False if it does not exist."""
        if self._store.get(key) is None:
            return False
        with self._one_verb(key):
            self._keeper.move(key, Move.REMOVE)
            self._end(key)
            self._store.remove(key)
        return True

    def synced(self, key: FeedKey) -> Synced:
        """Has everything that happened upstream arrived downstream?"""
        view = self.view(key)
        progress = view.feed.progress
        limits = view.feed.config.synced_status
        return is_synced(limits, progress.checkpoint.ts, view.resolved_ts, progress.synced_ts, self.now())

    def verify(self, namespace: str, wanted: Wanted) -> MatchedTables:
        """The tables of a changefeed that could be created; raises ``ChangefeedError`` if it could not."""
        config = replace(wanted.config, ignore_ineligible_table=True)
        asked = replace(wanted, changefeed_id=wanted.changefeed_id or "verify", config=config)
        _, tables = self._check(namespace, asked)
        return matched_tables(config, tables)

    def tables(self, config: ReplicaConfig) -> MatchedTables:
        """The tables that a configuration's filter keeps."""
        with self._upstream() as upstream:
            return matched_tables(config, upstream.tables())

    def now(self) -> int:
        """The newest timestamp upstream; the server's own clock where the upstream has none."""
        with self._upstream() as upstream:
            return upstream.now() or self._wall_clock()

    def running(self) -> list[FeedKey]:
        """The changefeeds that have a thread."""
        with self._lock:
            return sorted(key for key, worker in self._workers.items() if worker.runs)

    def _check(
        self, namespace: str, wanted: Wanted, taken: Iterable[str] = ()
    ) -> tuple[Checked, Sequence[TableSchema]]:
        """Check a request against the rules and the upstream's tables, and return the tables too."""
        with self._upstream() as upstream:
            now, tables = upstream.now(), upstream.tables()
        if wanted.start_ts:  # the clock of an upstream that replays the past is in the past
            now = max(now, self._wall_clock())
        checked = validate(
            Request(
                wanted.sink_uri,
                wanted.changefeed_id,
                now,
                wanted.config,
                wanted.start_ts,
                wanted.target_ts,
                tables,
                frozenset(taken),
                NO_SAFE_POINT,
                namespace=_valid_namespace(namespace),
                server=self.addr,
                time_zone=self._time_zone,
            )
        )
        return checked, tables

    def _overwrite(self, feed: Feed, checkpoint_ts: int) -> None:
        now = max(self.now(), self._wall_clock())
        if checkpoint_ts > now:
            raise ChangefeedError(
                PARAM_INVALID, f"overwrite_checkpoint_ts {checkpoint_ts} is in the future; the upstream is at {now}"
            )
        self._store.advance(feed.key, replace(feed.progress, checkpoint=Checkpoint(checkpoint_ts)))

    def _begin(self, feed: Feed) -> None:
        hooks = FeedHooks(feed.key, self._keeper, self._open_upstream, self.addr, self._time_zone)
        worker = Worker(feed.key.id, hooks)
        with self._lock:
            self._workers[feed.key] = worker

    def _end(self, key: FeedKey) -> None:
        with self._lock:
            worker = self._workers.pop(key, None)
        if worker is not None:
            worker.stop()

    def _feed(self, key: FeedKey) -> Feed:
        feed = self._store.get(key)
        if feed is None:
            raise unknown(key)
        return feed

    def _view(self, feed: Feed) -> View:
        with self._lock:
            worker = self._workers.get(feed.key)
        read = 0 if worker is None else worker.status.resolved_ts
        return View(feed, max(feed.progress.checkpoint.ts, read))

    @contextmanager
    def _one_verb(self, key: FeedKey) -> Iterator[None]:
        """Lock a changefeed: verbs on it run one after the other."""
        self._feed(key)
        with self._lock:
            lock = self._verb_locks.setdefault(key, threading.Lock())
        with lock:
            yield

    @contextmanager
    def _upstream(self) -> Iterator[Source]:
        upstream = self._open_upstream()
        try:
            yield upstream
        finally:
            upstream.close()

    def _wall_clock(self) -> int:
        return int(self._clock() * 1000) << LOGICAL_BITS


def _valid_namespace(namespace: str) -> str:
    if not _NAMESPACE.fullmatch(namespace):
        raise ChangefeedError(PARAM_INVALID, f"{namespace!r} is not a namespace; use letters, digits, '-' and '_'")
    return namespace
