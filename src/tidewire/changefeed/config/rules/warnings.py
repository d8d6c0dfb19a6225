"""What is accepted but is not as its author may think."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.kafka import COMPRESSIONS
from tidewire.changefeed.config.reading import int_of
from tidewire.changefeed.config.resolve import EXTENDED
from tidewire.changefeed.config.rules.draft import Draft
from tidewire.changefeed.config.storage import INDEX_DIGITS, MOST_WORKERS, file_bytes, flush_concurrency, flush_seconds
from tidewire.changefeed.config.uri import SinkKind

_UPDATES_IN_TWO = "an UPDATE that changes a key loses the old one"


def _extension(draft: Draft) -> str | None:
    if not draft.codec.enable_tidb_extension or not draft.protocol or draft.protocol in EXTENDED:
        return None
    return f"enable-tidb-extension is ignored: {draft.protocol} has no TiDB extension"


def _compression(draft: Draft) -> str | None:
    given = draft.kafka.compression
    if not given or given.lower() in COMPRESSIONS:
        return None
    return f"compression {given!r} is unknown and counts as none; there are {', '.join(sorted(COMPRESSIONS))}"


def _retries(draft: Draft) -> str | None:
    text = draft.uri.parameters.get("max-retry", "")
    return f"max-retry {text} is negative and ignored" if text and int_of(text) < 0 else None


def _user(draft: Draft) -> str | None:
    if not draft.uri.user:
        return None
    return "user and password before the brokers are ignored; brokers are told sasl-user and sasl-password"


def _skip_verify(draft: Draft) -> str | None:
    if not draft.kafka.insecure_skip_verify or draft.kafka.enable_tls or draft.kafka.ca:
        return None
    return "insecure-skip-verify is ignored: without enable-tls there is no TLS"


def _workers(draft: Draft) -> str | None:
    count = draft.storage.worker_count
    return None if count is None or count <= MOST_WORKERS else f"worker-count {count} counts as {MOST_WORKERS}"


def _interval(draft: Draft) -> str | None:
    given, used = draft.storage.flush_interval or "5s", flush_seconds(draft.storage)
    return None if parse_duration(given).seconds == used else f"flush-interval {given} counts as {used:g}s"


def _size(draft: Draft) -> str | None:
    given, used = draft.storage.file_size, file_bytes(draft.storage)
    return None if given in (None, used) else f"file-size {given} counts as {used}"


def _concurrency(draft: Draft) -> str | None:
    given, used = draft.storage.flush_concurrency, flush_concurrency(draft.storage)
    return None if given in (None, used) else f"flush-concurrency {given} counts as {used}"


def _digits(draft: Draft) -> str | None:
    digits = draft.sink.file_index_digit
    return None if digits is None or digits in INDEX_DIGITS else f"file-index-digit {digits} counts as 20"


def _expiry(draft: Draft) -> str | None:
    if not draft.storage.file_expiration_days or (draft.sink.date_separator or "day").lower() == "day":
        return None
    return "file-expiration-days is ignored: files are only sorted by day with date-separator 'day'"


def _handle_key(draft: Draft) -> str | None:
    if draft.protocol != "csv" or draft.sink.csv is None or not draft.sink.csv.output_handle_key:
        return None
    return "csv.output-handle-key is ignored, as newer servers do"


def _integrity(draft: Draft) -> str | None:
    if draft.uri.kind.has_topics or draft.config.integrity.integrity_check_level != "correctness":
        return None
    return f"integrity checks are switched off: a {draft.uri.scheme} sink does not carry checksums"


def _raw_avro(draft: Draft) -> str | None:
    old_values = {
        "avro": False,
        "open-protocol": draft.sink.open.output_old_value,
        "csv": draft.sink.csv is not None and draft.sink.csv.output_old_value,
    }
    raw = draft.storage if draft.uri.kind is SinkKind.STORAGE else draft.kafka
    if not raw.output_raw_change_event or old_values.get(draft.protocol, True):
        return None
    return f"output-raw-change-event with {draft.protocol} without old values: {_UPDATES_IN_TWO}"


def _large_forced(draft: Draft) -> str | None:
    if not draft.config.force_replicate or draft.large.large_message_handle_option in ("", "none"):
        return None
    return "with force-replicate a table may have no handle key, and its large messages cannot be sent"


def _without_effect(draft: Draft) -> str | None:
    config = draft.config
    keys = {
        "bdr-mode": config.bdr_mode,
        "consistent.level": config.consistent.level not in ("", "none"),
        "scheduler.enable-table-across-nodes": config.scheduler.enable_table_across_nodes,
        "sql-mode": config.sql_mode,
    }
    given = [name for name, value in keys.items() if value]
    return f"without effect here: {', '.join(given)}" if given else None


def _no_matcher(draft: Draft) -> str | None:
    sink = draft.sink
    idle = [f"sink.dispatchers[{at}]" for at, rule in enumerate(sink.dispatchers) if not rule.matcher]
    idle += [f"sink.column-selectors[{at}]" for at, rule in enumerate(sink.column_selectors) if not rule.matcher]
    return f"without a matcher, so for no table: {', '.join(idle)}; ['*.*'] matches all" if idle else None


_QUESTIONS: tuple[Callable[[Draft], str | None], ...] = (
    _extension,
    _integrity,
    _raw_avro,
    _large_forced,
    _without_effect,
    _no_matcher,
)
_OF_KAFKA = (_user, _compression, _retries, _skip_verify)
_OF_STORAGE = (_workers, _interval, _size, _concurrency, _digits, _expiry, _handle_key)


def warnings(draft: Draft) -> Iterable[str]:
    """Everything worth telling about a draft that obeys the rules."""
    own = {SinkKind.KAFKA: _OF_KAFKA, SinkKind.STORAGE: _OF_STORAGE}.get(draft.uri.kind, ())
    answers = (question(draft) for question in (*_QUESTIONS, *own))
    return [answer for answer in answers if answer is not None]
