"""Which keys of a configuration belong to a sink. The others are left out when a changefeed is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tidewire.changefeed.config.protocols import protocol_name
from tidewire.changefeed.config.sections import DispatchRule, ReplicaConfig, SinkConfig
from tidewire.changefeed.config.uri import SinkKind, SinkURI

_TOPICS_ONLY = (
    "schema_registry",
    "encoder_concurrency",
    "only_output_updated_columns",
    "delete_only_output_handle_key_columns",
    "content_compatible",
    "kafka_config",
)
_STORAGE_ONLY = (
    "csv",
    "date_separator",
    "enable_partition_separator",
    "file_index_digit",
    "cloud_storage_config",
)
_DATABASE_ONLY = ("enable_sync_point", "bdr_mode", "sync_point_interval", "sync_point_retention")


def of_sink(uri: SinkURI, config: ReplicaConfig) -> ReplicaConfig:
    """A configuration without the keys that mean nothing to its sink; a blackhole keeps everything."""
    if uri.kind is SinkKind.BLACKHOLE:
        return config
    absent = _without(_DATABASE_ONLY) if uri.kind is not SinkKind.DATABASE else {}
    return replace(config, sink=_sink(uri, config.sink), **absent)


def _sink(uri: SinkURI, sink: SinkConfig) -> SinkConfig:
    if uri.kind is not SinkKind.STORAGE:
        sink = replace(sink, **_without(_STORAGE_ONLY))
    if not uri.kind.has_topics:
        return replace(sink, dispatchers=_routing(sink), **_without(_TOPICS_ONLY))
    return sink if protocol_name(sink.protocol) == "avro" else replace(sink, schema_registry=None)


def _routing(sink: SinkConfig) -> tuple[DispatchRule, ...]:
    """Without topics a rule can still give tables other names."""
    return tuple(
        DispatchRule(rule.matcher, target_schema=rule.target_schema, target_table=rule.target_table)
        for rule in sink.dispatchers
        if rule.target_schema or rule.target_table
    )


def _without(names: tuple[str, ...]) -> Mapping[str, Any]:
    return dict.fromkeys(names)
