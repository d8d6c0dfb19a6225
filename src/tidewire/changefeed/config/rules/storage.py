"""How files are written."""

from __future__ import annotations

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.parameters import STORAGE_INVALID
from tidewire.changefeed.config.rules.candidate import CandidateConfig, Rule, inside
from tidewire.changefeed.config.rules.codec import SINK_INVALID
from tidewire.codec.storage_sink.csv_config import PLAIN_CSV
from tidewire.codec.storage_sink.layout import DateSeparator


def _workers(candidate: CandidateConfig) -> str | None:
    count = candidate.storage.worker_count
    return None if count is None or count > 0 else f"worker-count must be greater than 0, not {count}"


def _interval(candidate: CandidateConfig) -> str | None:
    try:
        parse_duration(candidate.storage.flush_interval or "5s")
    except ValueError as error:
        return f"flush-interval {error}"
    return None


def _quota(candidate: CandidateConfig) -> str | None:
    quota = candidate.storage.spool_disk_quota
    return None if quota is None or quota > 0 else f"spool-disk-quota must be greater than 0, not {quota}"


def _date(candidate: CandidateConfig) -> str | None:
    separator = candidate.sink.date_separator
    if not separator or separator.lower() in set(DateSeparator):
        return None
    reason = f"date-separator is {' or '.join(DateSeparator)}, not {separator!r}"
    return inside("CDC:ErrStorageSinkInvalidDateSeparator", reason)


def _csv(candidate: CandidateConfig) -> str | None:
    return next((f"csv.{name} {reason}" for name, reason in (candidate.sink.csv or PLAIN_CSV).mistakes()), None)


RULES = (
    Rule(SINK_INVALID, _date),
    Rule(SINK_INVALID, _csv),
    Rule(STORAGE_INVALID, _workers),
    Rule(STORAGE_INVALID, _interval),
    Rule(STORAGE_INVALID, _quota),
)
