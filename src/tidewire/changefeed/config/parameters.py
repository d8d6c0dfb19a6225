"""What belongs to a sink: the parameters of its URI, which win over the file, and the keys of the file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tidewire.changefeed.config.reading import TEXTS, Reader, int_of, toml_names
from tidewire.changefeed.config.replica import (
    CodecConfig,
    DispatchRule,
    KafkaConfig,
    Reading,
    ReplicaConfig,
    SinkConfig,
)
from tidewire.changefeed.config.uri import URI_INVALID, SinkKind, SinkURI, protocol_name
from tidewire.errors import ChangefeedError

KAFKA_INVALID = "CDC:ErrKafkaInvalidConfig"
CODEC_INVALID = "CDC:ErrCodecInvalidConfig"
STORAGE_INVALID = "CDC:ErrStorageSinkInvalidConfig"
DEFAULT_MAX_RETRY = 5

_EVERYWHERE = frozenset(SinkKind)
_BROKERS = frozenset({SinkKind.KAFKA, SinkKind.BLACKHOLE})
_TOPICS = frozenset({SinkKind.KAFKA, SinkKind.FILE_TOPIC, SinkKind.BLACKHOLE})
_MESSAGES = _TOPICS | {SinkKind.STORAGE}
_FILES = frozenset({SinkKind.STORAGE, SinkKind.BLACKHOLE})

_TOPIC_KEYS = (
    "schema_registry",
    "encoder_concurrency",
    "only_output_updated_columns",
    "delete_only_output_handle_key_columns",
    "content_compatible",
    "kafka_config",
)

_STORAGE_KEYS = (
    "csv",
    "date_separator",
    "enable_partition_separator",
    "file_index_digit",
    "cloud_storage_config",
)
_DATABASE_KEYS = ("enable_sync_point", "bdr_mode", "sync_point_interval", "sync_point_retention")


@dataclass(frozen=True, slots=True)
class Parameter:
    """The key of a parameter in a file, the sinks that have it, and TiCDC's error code for an invalid value.

    ``scheme`` is set if only sinks of that scheme have it.
    """

    home: str
    kinds: frozenset[SinkKind]
    code: str
    scheme: str = ""

    def counts_for(self, uri: SinkURI) -> bool:
        """Does the sink of a URI have this parameter?"""
        return uri.kind in self.kinds and self.scheme in ("", uri.scheme)


_FILE_ONLY = ("sasl-oauth-", "output-raw-change-event", "codec-config", "large-message-handle", "glue-")


def _kafka() -> Mapping[str, Parameter]:
    names = (name for item in fields(KafkaConfig) for name in toml_names(item))
    return {
        name: Parameter(f"sink.kafka-config.{name}", _BROKERS, KAFKA_INVALID)
        for name in names
        if not name.startswith(_FILE_ONLY)
    }


def _codec() -> Mapping[str, Parameter]:
    names = (name for item in fields(CodecConfig) for name in toml_names(item))
    return {name: Parameter(f"sink.kafka-config.codec-config.{name}", _MESSAGES, CODEC_INVALID) for name in names}


def _storage(*names: str) -> Mapping[str, Parameter]:
    return {name: Parameter(f"sink.cloud-storage-config.{name}", _FILES, STORAGE_INVALID) for name in names}


def _provider(scheme: str, *names: str) -> Mapping[str, Parameter]:
    return dict.fromkeys(names, Parameter("", _FILES, STORAGE_INVALID, scheme))


PARAMETERS: Mapping[str, Parameter] = {
    "protocol": Parameter("sink.protocol", _EVERYWHERE, URI_INVALID),
    "transaction-atomicity": Parameter("sink.transaction-atomicity", _EVERYWHERE, URI_INVALID),
    **_kafka(),
    "partition-num": Parameter("sink.kafka-config.partition-num", _TOPICS, KAFKA_INVALID),
    "max-message-bytes": Parameter("sink.kafka-config.max-message-bytes", _MESSAGES, KAFKA_INVALID),
    "max-retry": Parameter("", _BROKERS, KAFKA_INVALID),
    **_codec(),
    "schema-registry": Parameter("sink.schema-registry", _TOPICS, CODEC_INVALID),
    "content-compatible": Parameter("sink.content-compatible", _MESSAGES, CODEC_INVALID),
    "only-output-updated-columns": Parameter("sink.only-output-updated-columns", _MESSAGES, CODEC_INVALID),
    **_storage(
        "worker-count", "flush-interval", "file-size", "use-table-id-as-path", "spool-disk-quota", "spool-base-dir"
    ),
    **_provider(
        "s3",
        "endpoint",
        "region",
        "access-key",
        "secret-access-key",
        "session-token",
        "force-path-style",
        "role-arn",
        "external-id",
    ),
}
"""Every parameter a sink URI may have."""


def overlaid(uri: SinkURI, config: ReplicaConfig) -> Reading:
    """The configuration overlaid with the URI's parameters; an explicit ``false`` counts too.

    An unknown parameter, or one that does not apply to this sink, is ignored with a warning, as TiCDC does.
    """
    warnings = []
    for name, text in uri.parameters.items():
        parameter = PARAMETERS.get(name)
        if parameter is None or not parameter.counts_for(uri):
            what = "is unknown" if parameter is None else f"means nothing to a {uri.scheme} sink"
            warnings.append(f"the sink-uri parameter {name} {what} and is ignored")
        elif text and parameter.home:
            warnings += _disagreement(name, text, config)
            config = _with(name, parameter, text, config)
    return Reading(config, tuple(warnings))


def max_retry(uri: SinkURI) -> int:
    """How often a send is retried; a negative number counts as not given."""
    text = uri.parameters.get("max-retry", "")
    try:
        count = int_of(text) if text else DEFAULT_MAX_RETRY
    except ValueError as error:
        raise ChangefeedError(KAFKA_INVALID, f"the sink-uri parameter max-retry {error}") from None
    return DEFAULT_MAX_RETRY if count < 0 else count


def _with(name: str, parameter: Parameter, text: str, config: ReplicaConfig) -> ReplicaConfig:
    reader = Reader(toml_names, TEXTS)
    changed = reader.read(_nested(parameter.home, text), config)
    for problem in reader.problems:
        reason = problem.removeprefix(parameter.home)
        raise ChangefeedError(parameter.code, f"the sink-uri parameter {name}{reason}")
    return changed


def _nested(path: str, value: str) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: _nested(rest, value) if rest else value}


def _disagreement(name: str, text: str, config: ReplicaConfig) -> list[str]:
    in_file = {"protocol": config.sink.protocol, "transaction-atomicity": config.sink.transaction_atomicity}
    given = in_file.get(name)
    if not given or protocol_name(given) == protocol_name(text):
        return []
    return [f"{name} is {text!r} in the sink-uri and {given!r} in the configuration; the sink-uri counts"]


def of_sink(uri: SinkURI, config: ReplicaConfig) -> ReplicaConfig:
    """A configuration without the keys that its sink does not have; a blackhole keeps all keys."""
    if uri.kind is SinkKind.BLACKHOLE:
        return config
    absent = _without(_DATABASE_KEYS) if uri.kind is not SinkKind.DATABASE else {}
    return replace(config, sink=_sink_keys(uri, config.sink), **absent)


def _sink_keys(uri: SinkURI, sink: SinkConfig) -> SinkConfig:
    if uri.kind is not SinkKind.STORAGE:
        sink = replace(sink, **_without(_STORAGE_KEYS))
    if not uri.kind.has_topics:
        return replace(sink, dispatchers=_routing(sink), **_without(_TOPIC_KEYS))
    return sink if protocol_name(sink.protocol) == "avro" else replace(sink, schema_registry=None)


def _routing(sink: SinkConfig) -> tuple[DispatchRule, ...]:
    """Dispatch rules for a sink without topics: only those that rename tables, reduced to that."""
    return tuple(
        DispatchRule(rule.matcher, target_schema=rule.target_schema, target_table=rule.target_table)
        for rule in sink.dispatchers
        if rule.target_schema or rule.target_table
    )


def _without(names: tuple[str, ...]) -> Mapping[str, Any]:
    return dict.fromkeys(names)
