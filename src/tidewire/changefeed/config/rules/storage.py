"""How files are written."""

from __future__ import annotations

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.parameters import STORAGE_INVALID
from tidewire.changefeed.config.rules.candidate import CandidateConfig, Rule, inside
from tidewire.changefeed.config.rules.codec import SINK_INVALID
from tidewire.codec.storage_sink.csv_config import PLAIN_CSV, CsvConfig
from tidewire.codec.storage_sink.layout import DateSeparator

_BINARY = ("base64", "hex")
_MOST_DELIMITER_BYTES = 3


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


def _quote(candidate: CandidateConfig) -> str | None:
    quote = _csv(candidate).quote
    if len(quote.encode()) > 1:
        return f"csv.quote is one character or none, not {quote!r}"
    return "csv.quote cannot be a line break" if quote in ("\r", "\n") else None


def _delimiter(candidate: CandidateConfig) -> str | None:
    delimiter = _csv(candidate).delimiter
    if not 1 <= len(delimiter.encode()) <= _MOST_DELIMITER_BYTES:
        return f"csv.delimiter is one to three bytes, not {delimiter!r}"
    return "csv.delimiter cannot hold a line break" if set(delimiter) & set("\r\n") else None


def _common(candidate: CandidateConfig) -> str | None:
    csv = _csv(candidate)
    return "csv.delimiter and csv.quote must not share characters" if set(csv.delimiter) & set(csv.quote) else None


def _binary(candidate: CandidateConfig) -> str | None:
    method = _csv(candidate).binary_encoding_method
    return None if method in _BINARY else f"csv.binary-encoding-method is {' or '.join(_BINARY)}, not {method!r}"


def _csv(candidate: CandidateConfig) -> CsvConfig:
    return candidate.sink.csv or PLAIN_CSV


RULES = (
    Rule(SINK_INVALID, _date),
    Rule(SINK_INVALID, _quote),
    Rule(SINK_INVALID, _delimiter),
    Rule(SINK_INVALID, _common),
    Rule(SINK_INVALID, _binary),
    Rule(STORAGE_INVALID, _workers),
    Rule(STORAGE_INVALID, _interval),
    Rule(STORAGE_INVALID, _quota),
)
