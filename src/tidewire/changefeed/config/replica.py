"""Replica configurations: read from TOML and from the Open API's JSON, merged, written as JSON."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from tidewire.changefeed.config.reading import VALUES, Naming, Reader, json_names, kind_of, listed, toml_names, written
from tidewire.changefeed.config.sections import DEFAULT, DispatchRule, ReplicaConfig
from tidewire.errors import ChangefeedError
from tidewire.secrets import SecretURI

__all__ = [
    "DEFAULT",
    "Reading",
    "ReplicaConfig",
    "from_json",
    "from_toml",
    "merged",
    "settled",
    "to_json",
    "with_schema_registry",
]

INVALID = "CDC:ErrInvalidReplicaConfig"
INVALID_PARAM = "CDC:ErrAPIInvalidParam"


class Reading(NamedTuple):
    """A configuration, and warnings about it."""

    config: ReplicaConfig
    warnings: tuple[str, ...] = ()


def from_toml(text: str, over: ReplicaConfig = DEFAULT) -> Reading:
    """A configuration from a file. Unknown keys are an error that names all of them by their full paths."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ChangefeedError(INVALID, f"the configuration file is no TOML: {error}") from None
    config, unknown, unused = _read(document, over, toml_names, INVALID, "configuration file")
    if unknown:
        raise ChangefeedError(INVALID, f"the configuration file has unknown keys: {listed(unknown)}")
    return Reading(config, _unused(unused))


def from_json(document: Mapping[str, Any], over: ReplicaConfig = DEFAULT) -> Reading:
    """A configuration from a ``replica_config`` of the Open API, where unknown keys are ignored with a warning."""
    config, unknown, unused = _read(document, over, json_names, INVALID_PARAM, "replica_config")
    warned = (f"replica_config has unknown keys, which are ignored: {listed(unknown)}",) if unknown else ()
    return Reading(config, warned + _unused(unused))


def merged(current: ReplicaConfig, text: str) -> Reading:
    """A configuration with a file's keys put over it, as ``update`` does; lists are replaced as a whole."""
    return from_toml(text, over=current)


def with_schema_registry(config: ReplicaConfig, uri: str) -> ReplicaConfig:
    """A configuration with the registry of ``--schema-registry``, which wins over the file's."""
    return replace(config, sink=replace(config.sink, schema_registry=SecretURI(uri))) if uri else config


def to_json(config: ReplicaConfig, *, redact: bool = False) -> dict[str, Any]:
    """A configuration under the Open API's names, durations in nanoseconds; with ``redact`` without its secrets."""
    return written(settled(config), json_names, redact)


def settled(config: ReplicaConfig) -> ReplicaConfig:
    """A configuration whose dispatch rules use ``partition`` alone, not its old name."""
    rules = tuple(_with_partition(rule) for rule in config.sink.dispatchers)
    return replace(config, sink=replace(config.sink, dispatchers=rules))


def _with_partition(rule: DispatchRule) -> DispatchRule:
    return replace(rule, partition=rule.partition or rule.dispatcher, dispatcher="")


def _read(
    document: object, over: ReplicaConfig, names: Naming, code: str, what: str
) -> tuple[ReplicaConfig, list[str], list[str]]:
    if not isinstance(document, Mapping):
        raise ChangefeedError(code, f"the {what} must be a section, not {kind_of(document)}")
    reader = Reader(names, VALUES)
    config = reader.read(document, over)
    if reader.problems:
        raise ChangefeedError(code, f"the {what} has values that cannot be: {'; '.join(reader.problems)}")
    unused = [path for path in reader.unknown if path.replace("_", "-") in UNUSED]
    return config, [path for path in reader.unknown if path not in unused], unused


def _unused(paths: list[str]) -> tuple[str, ...]:
    return (f"these keys of TiCDC have no effect here: {listed(paths)}",) if paths else ()


UNUSED = frozenset(
    {
        "active-active-progress-interval",
        "active-active-sync-stats-interval",
        "consistent.memory-usage",
        "enable-active-active",
        "enable-table-monitor",
        "event-collector-batch-bytes",
        "event-collector-batch-count",
        "scheduler.balance-score-threshold",
        "scheduler.enable-splittable-check",
        "scheduler.force-split",
        "scheduler.max-traffic-percentage",
        "scheduler.min-traffic-percentage",
        "scheduler.region-count-per-span",
        "scheduler.region-count-refresh-interval",
        "scheduler.region-per-span",
        "scheduler.scheduling-task-count-per-node",
        "sink.debezium",
        "sink.debezium-disable-schema",
        "sink.enable-kafka-sink-v2",
        "sink.mysql-config",
        "sink.pulsar-config",
        "sink.safe-mode",
    }
)
"""Keys of sinks, protocols and schedulers that are not built: a file that has them is accepted all the same."""
