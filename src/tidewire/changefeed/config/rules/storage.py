"""How files are written."""

from __future__ import annotations

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.parameters import STORAGE_INVALID
from tidewire.changefeed.config.rules.codec import SINK_INVALID
from tidewire.changefeed.config.rules.draft import Draft, Rule, inside
from tidewire.codec.storage_sink.csv_config import PLAIN_CSV, CsvConfig
from tidewire.codec.storage_sink.layout import DateSeparator

_BINARY = ("base64", "hex")
_MOST_DELIMITER_BYTES = 3


def _workers(draft: Draft) -> str | None:
    count = draft.storage.worker_count
    return None if count is None or count > 0 else f"worker-count must be greater than 0, not {count}"


def _interval(draft: Draft) -> str | None:
    try:
        parse_duration(draft.storage.flush_interval or "5s")
    except ValueError as error:
        return f"flush-interval {error}"
    return None


def _quota(draft: Draft) -> str | None:
    quota = draft.storage.spool_disk_quota
    return None if quota is None or quota > 0 else f"spool-disk-quota must be greater than 0, not {quota}"


def _date(draft: Draft) -> str | None:
    separator = draft.sink.date_separator
    if not separator or separator.lower() in set(DateSeparator):
        return None
    reason = f"date-separator is {' or '.join(DateSeparator)}, not {separator!r}"
    return inside("CDC:ErrStorageSinkInvalidDateSeparator", reason)


def _quote(draft: Draft) -> str | None:
    quote = _csv(draft).quote
    if len(quote.encode()) > 1:
        return f"csv.quote is one character or none, not {quote!r}"
    return "csv.quote cannot be a line break" if quote in ("\r", "\n") else None


def _delimiter(draft: Draft) -> str | None:
    delimiter = _csv(draft).delimiter
    if not 1 <= len(delimiter.encode()) <= _MOST_DELIMITER_BYTES:
        return f"csv.delimiter is one to three bytes, not {delimiter!r}"
    return "csv.delimiter cannot hold a line break" if set(delimiter) & set("\r\n") else None


def _common(draft: Draft) -> str | None:
    csv = _csv(draft)
    return "csv.delimiter and csv.quote must not share characters" if set(csv.delimiter) & set(csv.quote) else None


def _binary(draft: Draft) -> str | None:
    method = _csv(draft).binary_encoding_method
    return None if method in _BINARY else f"csv.binary-encoding-method is {' or '.join(_BINARY)}, not {method!r}"


def _csv(draft: Draft) -> CsvConfig:
    return draft.sink.csv or PLAIN_CSV


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
