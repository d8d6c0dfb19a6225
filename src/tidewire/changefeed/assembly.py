"""A changefeed put together: a source and checked settings become a runner."""

from __future__ import annotations

from tidewire.changefeed.checkpoint import CheckpointStore
from tidewire.changefeed.config.dispatching import dispatching
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.integrity import check_for
from tidewire.changefeed.runner import Runner
from tidewire.changefeed.sink.base import Sink
from tidewire.changefeed.sink.opening import open_sink
from tidewire.changefeed.source.base import Source


def runner_for(
    settings: Settings,
    source: Source,
    checkpoints: CheckpointStore,
    *,
    start_ts: int,
    target_ts: int | None = None,
    sink: Sink | None = None,
) -> Runner:
    """The runner of a changefeed. ``sink`` takes the place of the one the settings name."""
    kept = checkpoints.load()
    begins = start_ts if kept is None else kept.ts
    storage, filter_, check = settings.storage, dispatching(settings).filter, check_for(settings.options)
    return Runner(
        source,
        open_sink(settings, begins)
        if sink is None
        else sink,  # last, because it would stay open if a setting were refused
        filter_,
        checkpoints,
        start_ts=start_ts,
        target_ts=target_ts,
        interval=settings.watermark_interval if storage is None else storage.flush_interval,
        check=check,
        by_columns=not _looks_at_rows(settings),
    )


def _looks_at_rows(settings: Settings) -> bool:
    """Do the rules depend on what single rows are like?"""
    filters = settings.filter
    targets = any(rule.target_schema or rule.target_table for rule in settings.dispatchers)
    return bool(filters.event_filters or filters.ignore_txn_start_ts or settings.column_selectors or targets)
