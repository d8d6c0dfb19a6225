"""The configuration apart from its sink."""

from __future__ import annotations

from tidewire.changefeed.config.durations import duration_text, parse_duration
from tidewire.changefeed.config.replica import INVALID
from tidewire.changefeed.config.rules.candidate import CandidateConfig, Rule
from tidewire.changefeed.config.sections import HALF_AN_HOUR
from tidewire.changefeed.config.uri import SinkKind

_INTEGRITY = ("none", "correctness")
_CORRUPTION = ("warn", "error")
_MODES = ("throughput", "low-latency")
_REDO = ("none", "eventual")
_LEAST_REDO_MS = 50
_LEAST_INTERVAL = parse_duration("30s")
_LEAST_RETENTION = parse_duration("1h")


def _one_of(key: str, value: str, words: tuple[str, ...]) -> str | None:
    return None if value in words else f"{key} is {' or '.join(words)}, not {value!r}"


def _mode(candidate: CandidateConfig) -> str | None:
    return _one_of("performance-mode", candidate.config.performance_mode or _MODES[0], _MODES)


def _integrity(candidate: CandidateConfig) -> str | None:
    return _one_of("integrity.integrity-check-level", candidate.config.integrity.integrity_check_level, _INTEGRITY)


def _corruption(candidate: CandidateConfig) -> str | None:
    return _one_of("integrity.corruption-handle-level", candidate.config.integrity.corruption_handle_level, _CORRUPTION)


def _selected_and_checked(candidate: CandidateConfig) -> str | None:
    if not candidate.checks_integrity or not candidate.sink.column_selectors:
        return None
    return "integrity checks and sink.column-selectors exclude each other: a checksum is over all columns"


def _sync_point(candidate: CandidateConfig) -> str | None:
    if not candidate.config.enable_sync_point:
        return None
    if candidate.uri.kind is not SinkKind.DATABASE:
        return f"enable-sync-point is for database sinks, not for {candidate.uri.scheme}; set it to false"
    for key, value, least in (
        ("sync-point-interval", candidate.config.sync_point_interval, _LEAST_INTERVAL),
        ("sync-point-retention", candidate.config.sync_point_retention, _LEAST_RETENTION),
    ):
        if value is not None and value < least:
            return f"{key} is {duration_text(value)}; {duration_text(least)} is the least"
    return None


def _stuck(candidate: CandidateConfig) -> str | None:
    given = candidate.config.changefeed_error_stuck_duration
    if given >= HALF_AN_HOUR:
        return None
    return f"changefeed-error-stuck-duration is {duration_text(given)}; {duration_text(HALF_AN_HOUR)} is the least"


def _redo(candidate: CandidateConfig) -> str | None:
    consistent = candidate.config.consistent
    if consistent.level in ("", "none"):
        return None
    for key, value in (
        ("flush-interval", consistent.flush_interval),
        ("meta-flush-interval", consistent.meta_flush_interval),
    ):
        if value < _LEAST_REDO_MS:
            return f"consistent.{key} is {value} ms; {_LEAST_REDO_MS} is the least"
    return _one_of("consistent.level", consistent.level, _REDO) or _one_of(
        "consistent.compression", consistent.compression, ("", "lz4")
    )


def _synced(candidate: CandidateConfig) -> str | None:
    status = candidate.config.synced_status
    if status.synced_check_interval > 0 and status.checkpoint_interval > 0:
        return None
    return "synced-status.synced-check-interval and checkpoint-interval must be greater than 0"


RULES = (
    Rule(INVALID, _mode),
    Rule(INVALID, _sync_point),
    Rule(INVALID, _redo),
    Rule(INVALID, _integrity),
    Rule(INVALID, _corruption),
    Rule(INVALID, _selected_and_checked),
    Rule(INVALID, _stuck),
    Rule(INVALID, _synced),
)
