"""Warnings about settings that are accepted but may not do what the user expects."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.reading import int_of
from tidewire.changefeed.config.resolve import (
    COMPRESSIONS,
    EXTENDED,
    INDEX_DIGITS,
    MOST_WORKERS,
    file_bytes,
    flush_concurrency,
    flush_seconds,
)
from tidewire.changefeed.config.rules import CandidateConfig
from tidewire.changefeed.config.uri import SinkKind

_UPDATES_IN_TWO = "an UPDATE that changes a key loses the old one"


def _extension(candidate: CandidateConfig) -> str | None:
    if not candidate.codec.enable_tidb_extension or not candidate.protocol or candidate.protocol in EXTENDED:
        return None
    return f"enable-tidb-extension is ignored: {candidate.protocol} has no TiDB extension"


def _compression(candidate: CandidateConfig) -> str | None:
    given = candidate.kafka.compression
    if not given or given.lower() in COMPRESSIONS:
        return None
    return f"compression {given!r} is unknown and counts as none; there are {', '.join(sorted(COMPRESSIONS))}"


def _retries(candidate: CandidateConfig) -> str | None:
    text = candidate.uri.parameters.get("max-retry", "")
    return f"max-retry {text} is negative and ignored" if text and int_of(text) < 0 else None


def _user(candidate: CandidateConfig) -> str | None:
    if not candidate.uri.user:
        return None
    return "user and password before the brokers are ignored; use sasl-user and sasl-password"


def _skip_verify(candidate: CandidateConfig) -> str | None:
    if not candidate.kafka.insecure_skip_verify or candidate.kafka.enable_tls or candidate.kafka.ca:
        return None
    return "insecure-skip-verify is ignored: without enable-tls there is no TLS"


def _workers(candidate: CandidateConfig) -> str | None:
    count = candidate.storage.worker_count
    return None if count is None or count <= MOST_WORKERS else f"worker-count {count} counts as {MOST_WORKERS}"


def _interval(candidate: CandidateConfig) -> str | None:
    given, used = candidate.storage.flush_interval or "5s", flush_seconds(candidate.storage)
    return None if parse_duration(given).seconds == used else f"flush-interval {given} counts as {used:g}s"


def _size(candidate: CandidateConfig) -> str | None:
    given, used = candidate.storage.file_size, file_bytes(candidate.storage)
    return None if given in (None, used) else f"file-size {given} counts as {used}"


def _concurrency(candidate: CandidateConfig) -> str | None:
    given, used = candidate.storage.flush_concurrency, flush_concurrency(candidate.storage)
    return None if given in (None, used) else f"flush-concurrency {given} counts as {used}"


def _digits(candidate: CandidateConfig) -> str | None:
    digits = candidate.sink.file_index_digit
    return None if digits is None or digits in INDEX_DIGITS else f"file-index-digit {digits} counts as 20"


def _expiry(candidate: CandidateConfig) -> str | None:
    if not candidate.storage.file_expiration_days or (candidate.sink.date_separator or "day").lower() == "day":
        return None
    return "file-expiration-days is ignored: files are only sorted by day with date-separator 'day'"


def _handle_key(candidate: CandidateConfig) -> str | None:
    if candidate.protocol != "csv" or candidate.sink.csv is None or not candidate.sink.csv.output_handle_key:
        return None
    return "csv.output-handle-key is ignored, as newer servers do"


def _integrity(candidate: CandidateConfig) -> str | None:
    if candidate.uri.kind.has_topics or candidate.config.integrity.integrity_check_level != "correctness":
        return None
    return f"integrity checks are switched off: a {candidate.uri.scheme} sink does not carry checksums"


def _raw_avro(candidate: CandidateConfig) -> str | None:
    old_values = {
        "avro": False,
        "open-protocol": candidate.sink.open.output_old_value,
        "csv": candidate.sink.csv is not None and candidate.sink.csv.output_old_value,
    }
    raw = candidate.storage if candidate.uri.kind is SinkKind.STORAGE else candidate.kafka
    if not raw.output_raw_change_event or old_values.get(candidate.protocol, True):
        return None
    return f"output-raw-change-event with {candidate.protocol} without old values: {_UPDATES_IN_TWO}"


def _large_forced(candidate: CandidateConfig) -> str | None:
    if not candidate.config.force_replicate or candidate.large.large_message_handle_option in ("", "none"):
        return None
    return "with force-replicate a table may have no handle key, and its large messages cannot be sent"


def _without_effect(candidate: CandidateConfig) -> str | None:
    config = candidate.config
    keys = {
        "bdr-mode": config.bdr_mode,
        "consistent.level": config.consistent.level not in ("", "none"),
        "scheduler.enable-table-across-nodes": config.scheduler.enable_table_across_nodes,
        "sql-mode": config.sql_mode,
    }
    given = [name for name, value in keys.items() if value]
    return f"without effect here: {', '.join(given)}" if given else None


def _no_matcher(candidate: CandidateConfig) -> str | None:
    sink = candidate.sink
    idle = [f"sink.dispatchers[{at}]" for at, rule in enumerate(sink.dispatchers) if not rule.matcher]
    idle += [f"sink.column-selectors[{at}]" for at, rule in enumerate(sink.column_selectors) if not rule.matcher]
    return f"without a matcher, so for no table: {', '.join(idle)}; ['*.*'] matches all" if idle else None


_EVERY_SINK: tuple[Callable[[CandidateConfig], str | None], ...] = (
    _extension,
    _integrity,
    _raw_avro,
    _large_forced,
    _without_effect,
    _no_matcher,
)
_OF_KAFKA = (_user, _compression, _retries, _skip_verify)
_OF_STORAGE = (_workers, _interval, _size, _concurrency, _digits, _expiry, _handle_key)


def warnings(candidate: CandidateConfig) -> Iterable[str]:
    """All warnings about a candidate that obeys the rules."""
    own = {SinkKind.KAFKA: _OF_KAFKA, SinkKind.STORAGE: _OF_STORAGE}.get(candidate.uri.kind, ())
    answers = (question(candidate) for question in (*_EVERY_SINK, *own))
    return [answer for answer in answers if answer is not None]
