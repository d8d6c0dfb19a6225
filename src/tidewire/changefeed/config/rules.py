"""The rules a changefeed must obey, as tables of TiCDC's code and the question that breaks it.

These are about its name and times, the configuration, and the sink; ``rules_messages`` has those about messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import NamedTuple

from tidewire.changefeed.config.durations import duration_text, parse_duration
from tidewire.changefeed.config.parameters import KAFKA_INVALID, STORAGE_INVALID
from tidewire.changefeed.config.replica import (
    CONFIG_INVALID,
    HALF_AN_HOUR,
    CloudStorageConfig,
    CodecConfig,
    KafkaConfig,
    LargeMessageConfig,
    ReplicaConfig,
    SinkConfig,
)
from tidewire.changefeed.config.uri import (
    BUILT,
    KNOWN_PROTOCOLS,
    PROTOCOLS_OF,
    UNKNOWN_PROTOCOL,
    URI_INVALID,
    SinkKind,
    SinkURI,
    protocol_name,
)
from tidewire.codec.storage_sink.csv_config import PLAIN_CSV
from tidewire.codec.storage_sink.layout import DateSeparator
from tidewire.errors import ChangefeedError

SINK_INVALID = "CDC:ErrSinkInvalidConfig"


@dataclass(frozen=True, slots=True)
class CandidateConfig:
    """What is to become a changefeed. ``config`` is ``given`` overlaid with the URI's parameters."""

    uri: SinkURI
    given: ReplicaConfig
    config: ReplicaConfig
    changefeed_id: str
    start_ts: int
    target_ts: int
    now: int
    gc_safe_point: int
    taken: Collection[str]

    @property
    def sink(self) -> SinkConfig:
        """``[sink]``."""
        return self.config.sink

    @property
    def kafka(self) -> KafkaConfig:
        """``[sink.kafka-config]``."""
        return self.sink.kafka_config or KafkaConfig()

    @property
    def codec(self) -> CodecConfig:
        """``[sink.kafka-config.codec-config]``."""
        return self.kafka.codec_config or CodecConfig()

    @property
    def large(self) -> LargeMessageConfig:
        """``[sink.kafka-config.large-message-handle]``."""
        return self.kafka.large_message_handle or LargeMessageConfig()

    @property
    def storage(self) -> CloudStorageConfig:
        """``[sink.cloud-storage-config]``."""
        return self.sink.cloud_storage_config or CloudStorageConfig()

    @property
    def protocol(self) -> str:
        """The plain name of the protocol; empty for a blackhole, which needs none."""
        return "" if self.uri.kind is SinkKind.BLACKHOLE else protocol_name(self.sink.protocol)

    @property
    def checks_integrity(self) -> bool:
        """Are rows sent with checksums? Only sinks with topics do."""
        return self.uri.kind.has_topics and self.config.integrity.integrity_check_level == "correctness"


class Rule(NamedTuple):
    """An error code and a check, which returns what is wrong with a candidate or ``None``."""

    code: str
    broken: Callable[[CandidateConfig], str | None]

    def check(self, candidate: CandidateConfig) -> None:
        """Raise ``ChangefeedError`` if a candidate breaks the rule."""
        reason = self.broken(candidate)
        if reason is not None:
            raise ChangefeedError(self.code, reason)


def nested(code: str, reason: str) -> str:
    """A reason that starts with a second code, as newer servers write it."""
    return f"[{code}]{reason}"


LONGEST_ID = 128
_ID = re.compile(r"[a-zA-Z0-9]+(-[a-zA-Z0-9]+)*")


def _id(candidate: CandidateConfig) -> str | None:
    if _ID.fullmatch(candidate.changefeed_id) and len(candidate.changefeed_id) <= LONGEST_ID:
        return None
    reason = f"the changefeed id {candidate.changefeed_id!r} must be letters and digits with single dashes between them"
    return nested("CDC:ErrInvalidChangefeedID", f"{reason}, {LONGEST_ID} characters at most")


def _taken(candidate: CandidateConfig) -> str | None:
    if candidate.changefeed_id not in candidate.taken:
        return None
    return f"there is a changefeed {candidate.changefeed_id} already; choose another id or remove that one"


def _start_ts(candidate: CandidateConfig) -> str | None:
    if candidate.start_ts <= candidate.now:
        return None
    return f"start-ts {candidate.start_ts} is in the future; the newest timestamp upstream is {candidate.now}"


def _collected(candidate: CandidateConfig) -> str | None:
    if not candidate.config.check_gc_safe_point or candidate.start_ts > candidate.gc_safe_point:
        return None
    return (
        f"start-ts {candidate.start_ts} is not after the GC safe point {candidate.gc_safe_point}: that history is gone"
    )


def _target_ts(candidate: CandidateConfig) -> str | None:
    if not candidate.target_ts or candidate.target_ts > candidate.start_ts:
        return None
    return f"target-ts {candidate.target_ts} must be after start-ts {candidate.start_ts}"


IDENTITY_RULES = (
    Rule("CDC:ErrAPIInvalidParam", _id),
    Rule("CDC:ErrChangeFeedAlreadyExists", _taken),
    Rule("CDC:ErrAPIInvalidParam", _start_ts),
    Rule("CDC:ErrStartTsBeforeGC", _collected),
    Rule("CDC:ErrTargetTsBeforeStartTs", _target_ts),
)


_INTEGRITY = ("none", "correctness")
_CORRUPTION = ("warn", "error")
_MODES = ("throughput", "low-latency")
_REDO = ("none", "eventual")
_LEAST_REDO_MS = 50
_LEAST_INTERVAL = parse_duration("30s")
_LEAST_RETENTION = parse_duration("1h")


def _one_of(key: str, value: str, words: tuple[str, ...]) -> str | None:
    return None if value in words else f"{key} is {' or '.join(words)}, not {value!r}"


def _performance_mode(candidate: CandidateConfig) -> str | None:
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


def _error_stuck(candidate: CandidateConfig) -> str | None:
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


REPLICA_RULES = (
    Rule(CONFIG_INVALID, _performance_mode),
    Rule(CONFIG_INVALID, _sync_point),
    Rule(CONFIG_INVALID, _redo),
    Rule(CONFIG_INVALID, _integrity),
    Rule(CONFIG_INVALID, _corruption),
    Rule(CONFIG_INVALID, _selected_and_checked),
    Rule(CONFIG_INVALID, _error_stuck),
    Rule(CONFIG_INVALID, _synced),
)


_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_ATOMICITY = frozenset({"none", "table"})


def _database_protocol(candidate: CandidateConfig) -> str | None:
    if candidate.uri.kind is not SinkKind.DATABASE or not candidate.sink.protocol:
        return None
    return f"a {candidate.uri.scheme} sink has no protocol; remove {candidate.sink.protocol!r}"


def _pulsar_protocol(candidate: CandidateConfig) -> str | None:
    if candidate.uri.kind is not SinkKind.PULSAR or candidate.protocol == "canal-json":
        return None
    return f"a {candidate.uri.scheme} sink speaks canal-json only, not {candidate.sink.protocol or ''!r}"


def _not_built(candidate: CandidateConfig) -> str | None:
    if candidate.uri.scheme in BUILT:
        return None
    return f"tidewire has no {candidate.uri.scheme} sink; it has {', '.join(sorted(BUILT))}"


def _no_topic(candidate: CandidateConfig) -> str | None:
    if not candidate.uri.kind.has_topics or candidate.uri.topic:
        return None
    return nested(
        KAFKA_INVALID, f"no topic is specified in sink-uri {candidate.uri}; it is the path, as in kafka://host/topic"
    )


def _bad_topic(candidate: CandidateConfig) -> str | None:
    if not candidate.uri.kind.has_topics or _TOPIC.fullmatch(candidate.uri.topic):
        return None
    reason = f"the topic {candidate.uri.topic!r} of the sink-uri must be letters, digits, '.', '_' and '-', at most 249"
    return nested(KAFKA_INVALID, reason)


def _no_folder(candidate: CandidateConfig) -> str | None:
    if candidate.uri.kind is not SinkKind.STORAGE or candidate.uri.folder.strip("/"):
        return None
    return f"sink-uri {candidate.uri} names no folder; write file:///whole/path/of/folder, or s3://bucket/prefix"


def _atomicity(candidate: CandidateConfig) -> str | None:
    level = candidate.sink.transaction_atomicity or "none"
    if level not in _ATOMICITY:
        return f"transaction-atomicity is none or table, not {level!r}"
    if level == "table" and candidate.uri.kind.has_topics:
        return f"a {candidate.uri.scheme} sink has no transaction-atomicity 'table'; set none"
    return None


def _unknown_protocol(candidate: CandidateConfig) -> str | None:
    if candidate.uri.kind not in PROTOCOLS_OF or candidate.protocol in KNOWN_PROTOCOLS:
        return None
    known = ", ".join(sorted(PROTOCOLS_OF[candidate.uri.kind]))
    return (
        f"unknown {candidate.sink.protocol or ''!r} message protocol for a {candidate.uri.scheme} sink; it has {known}"
    )


def _unspoken_protocol(candidate: CandidateConfig) -> str | None:
    spoken = PROTOCOLS_OF.get(candidate.uri.kind)
    if spoken is None or candidate.protocol in spoken:
        return None
    where = " (topics in files are file-topic://)" if candidate.uri.scheme == "file" else ""
    known = ", ".join(sorted(spoken))
    return f"a {candidate.uri.scheme} sink has no encoder for {candidate.protocol!r}; it has {known}{where}"


SINK_RULES = (
    Rule(URI_INVALID, _database_protocol),
    Rule(URI_INVALID, _pulsar_protocol),
    Rule(URI_INVALID, _not_built),
    Rule(URI_INVALID, _no_topic),
    Rule(URI_INVALID, _bad_topic),
    Rule(URI_INVALID, _no_folder),
    Rule(URI_INVALID, _atomicity),
    Rule(UNKNOWN_PROTOCOL, _unknown_protocol),
    Rule(UNKNOWN_PROTOCOL, _unspoken_protocol),
)


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
    return nested("CDC:ErrStorageSinkInvalidDateSeparator", reason)


def _csv(candidate: CandidateConfig) -> str | None:
    return next((f"csv.{name} {reason}" for name, reason in (candidate.sink.csv or PLAIN_CSV).mistakes()), None)


STORAGE_RULES = (
    Rule(SINK_INVALID, _date),
    Rule(SINK_INVALID, _csv),
    Rule(STORAGE_INVALID, _workers),
    Rule(STORAGE_INVALID, _interval),
    Rule(STORAGE_INVALID, _quota),
)
