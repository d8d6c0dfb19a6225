"""Replica configurations: their sections, and how they are read from TOML and from the Open API's JSON, and written.

A field is named as in the file, with underscores. ``None`` is a key that was not given, or that does not belong to the
sink. Values are as they were written; ``validate`` decides which of them are allowed.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from tidewire.changefeed.config.durations import Nanoseconds, parse_duration
from tidewire.changefeed.config.reading import VALUES, Naming, Reader, json_names, kind_of, listed, toml_names, written
from tidewire.codec.storage_sink.csv_config import DEFAULT_TERMINATOR, PLAIN_CSV, CsvConfig
from tidewire.dispatch import ColumnSelector, EventFilterRule
from tidewire.errors import ChangefeedError
from tidewire.secrets import NO_SECRET, NO_URI, Secret, SecretURI

CONFIG_INVALID = "CDC:ErrInvalidReplicaConfig"
PARAM_INVALID = "CDC:ErrAPIInvalidParam"

_TEN_MINUTES = parse_duration("10m")
_A_DAY = parse_duration("24h")
HALF_AN_HOUR = parse_duration("30m")


def _natural(default: int | None) -> Any:
    """A number that cannot be negative."""
    return field(default=default, metadata={"least": 0})


def _api_names(default: Any, *names: str, least: int | None = None) -> Any:
    """A key with other names in the Open API; the first is used for writing, all for reading."""
    return field(default=default, metadata={"json": names, "least": least})


@dataclass(frozen=True, slots=True)
class FilterConfig:
    """``[filter]``: which tables, transactions and events are sent."""

    rules: tuple[str, ...] = ("*.*",)
    ignore_txn_start_ts: tuple[int, ...] = ()
    event_filters: tuple[EventFilterRule, ...] = ()


@dataclass(frozen=True, slots=True)
class DispatchRule:
    """One of ``sink.dispatchers``: where rows of some tables go.

    ``dispatcher`` is the old name of ``partition``; the Open API does not know it.
    """

    matcher: tuple[str, ...] = ()
    dispatcher: str = _api_names("")
    partition: str = ""
    index: str = ""
    columns: tuple[str, ...] = ()
    topic: str = ""
    target_schema: str = _api_names("", "target-schema", "target_schema")
    target_table: str = _api_names("", "target-table", "target_table")


@dataclass(frozen=True, slots=True)
class OpenConfig:
    """``[sink.open]``."""

    output_old_value: bool = True


@dataclass(frozen=True, slots=True)
class CodecConfig:
    """``[sink.kafka-config.codec-config]``."""

    enable_tidb_extension: bool | None = None
    max_batch_size: int | None = None
    avro_enable_watermark: bool | None = None
    avro_decimal_handling_mode: str | None = None
    avro_bigint_unsigned_handling_mode: str | None = None
    avro_include_before_value: bool | None = None
    encoding_format: str | None = None
    output_row_key: bool | None = None


@dataclass(frozen=True, slots=True)
class LargeMessageConfig:
    """``[sink.kafka-config.large-message-handle]``."""

    large_message_handle_option: str = "none"
    large_message_handle_compression: str = "none"
    claim_check_storage_uri: SecretURI = NO_URI
    claim_check_raw_value: bool = False


@dataclass(frozen=True, slots=True)
class GlueConfig:
    """``[sink.kafka-config.glue-schema-registry-config]``."""

    registry_name: str = ""
    region: str = ""
    access_key: Secret = NO_SECRET
    secret_access_key: Secret = NO_SECRET
    token: Secret = NO_SECRET


@dataclass(frozen=True, slots=True)
class KafkaConfig:
    """``[sink.kafka-config]``; most of it can be in the sink URI as well."""

    partition_num: int | None = None
    replication_factor: int | None = None
    kafka_version: str | None = None
    max_message_bytes: int | None = None
    compression: str | None = None
    kafka_client_id: str | None = None
    auto_create_topic: bool | None = None
    dial_timeout: str | None = None
    write_timeout: str | None = None
    read_timeout: str | None = None
    required_acks: int | None = None
    sasl_user: str | None = None
    sasl_password: Secret | None = None
    sasl_mechanism: str | None = None
    sasl_gssapi_auth_type: str | None = None
    sasl_gssapi_keytab_path: str | None = None
    sasl_gssapi_kerberos_config_path: str | None = None
    sasl_gssapi_service_name: str | None = None
    sasl_gssapi_user: str | None = None
    sasl_gssapi_password: Secret | None = None
    sasl_gssapi_realm: str | None = None
    sasl_gssapi_disable_pafxfast: bool | None = None
    sasl_oauth_client_id: str | None = None
    sasl_oauth_client_secret: Secret | None = None
    sasl_oauth_token_url: SecretURI | None = None
    sasl_oauth_scopes: tuple[str, ...] = ()
    sasl_oauth_grant_type: str | None = None
    sasl_oauth_audience: str | None = None
    enable_tls: bool | None = None
    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    insecure_skip_verify: bool | None = None
    codec_config: CodecConfig | None = None
    large_message_handle: LargeMessageConfig | None = None
    glue_schema_registry_config: GlueConfig | None = None
    output_raw_change_event: bool | None = None


@dataclass(frozen=True, slots=True)
class CloudStorageConfig:
    """``[sink.cloud-storage-config]``."""

    worker_count: int | None = None
    flush_interval: str | None = None
    file_size: int | None = None
    spool_disk_quota: int | None = None
    spool_base_dir: str | None = None
    output_column_id: bool | None = None
    file_expiration_days: int | None = None
    file_cleanup_cron_spec: str | None = None
    flush_concurrency: int | None = None
    use_table_id_as_path: bool | None = None
    output_raw_change_event: bool | None = None


@dataclass(frozen=True, slots=True)
class SinkConfig:
    """``[sink]``."""

    protocol: str | None = None
    dispatchers: tuple[DispatchRule, ...] = ()
    column_selectors: tuple[ColumnSelector, ...] = ()
    schema_registry: SecretURI | None = None
    encoder_concurrency: int | None = 32
    only_output_updated_columns: bool | None = False
    delete_only_output_handle_key_columns: bool | None = False
    content_compatible: bool | None = False
    transaction_atomicity: str | None = None
    terminator: str | None = DEFAULT_TERMINATOR
    date_separator: str | None = "day"
    enable_partition_separator: bool | None = True
    file_index_digit: int | None = _api_names(None, "file_index_width", "file_index_digit")
    send_bootstrap_interval_in_sec: int = 120
    send_bootstrap_in_msg_count: int = 10_000
    send_bootstrap_to_all_partition: bool = True
    send_all_bootstrap_at_start: bool = _api_names(False, "send_all_bootstrap_at_start", "send-all-bootstrap-at-start")
    advance_timeout_in_sec: int = _api_names(150, "advance_timeout_in_sec", "advance_timeout", least=0)
    open: OpenConfig = OpenConfig()
    csv: CsvConfig | None = PLAIN_CSV
    kafka_config: KafkaConfig | None = None
    cloud_storage_config: CloudStorageConfig | None = None


@dataclass(frozen=True, slots=True)
class MounterConfig:
    """``[mounter]``."""

    worker_num: int = 16


@dataclass(frozen=True, slots=True)
class SyncedStatusConfig:
    """``[synced-status]``, in seconds: when a changefeed may say that everything has arrived."""

    synced_check_interval: int = 300
    checkpoint_interval: int = 15


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """``[scheduler]``: how one table is spread over nodes."""

    enable_table_across_nodes: bool = False
    region_threshold: int = 10_000
    write_key_threshold: int = 0


@dataclass(frozen=True, slots=True)
class IntegrityConfig:
    """``[integrity]``: row checksums."""

    integrity_check_level: str = "none"
    corruption_handle_level: str = "warn"


@dataclass(frozen=True, slots=True)
class ConsistentConfig:
    """``[consistent]``: the redo log of database sinks. Intervals are milliseconds, the log size megabytes."""

    level: str = "none"
    max_log_size: int = 64
    flush_interval: int = 2000
    meta_flush_interval: int = 200
    encoding_worker_num: int = 16
    flush_worker_num: int = 8
    storage: SecretURI = NO_URI
    use_file_backend: bool = False
    compression: str = ""
    flush_concurrency: int = 1


@dataclass(frozen=True, slots=True)
class ReplicaConfig:
    """A replica configuration, complete with TiCDC's defaults."""

    case_sensitive: bool = False
    force_replicate: bool = False
    ignore_ineligible_table: bool = False
    check_gc_safe_point: bool = True
    memory_quota: int = _natural(1 << 30)
    bdr_mode: bool | None = False
    enable_sync_point: bool | None = False
    sync_point_interval: Nanoseconds | None = _TEN_MINUTES
    sync_point_retention: Nanoseconds | None = _A_DAY
    changefeed_error_stuck_duration: Nanoseconds = HALF_AN_HOUR
    sql_mode: str = ""
    performance_mode: str = "throughput"
    filter: FilterConfig = FilterConfig()
    mounter: MounterConfig = MounterConfig()
    sink: SinkConfig = SinkConfig()
    consistent: ConsistentConfig = ConsistentConfig()
    scheduler: SchedulerConfig = SchedulerConfig()
    integrity: IntegrityConfig = IntegrityConfig()
    synced_status: SyncedStatusConfig = SyncedStatusConfig()


DEFAULT = ReplicaConfig()
"""The configuration of a changefeed for which none was given."""


class Reading(NamedTuple):
    """A configuration, and warnings about it."""

    config: ReplicaConfig
    warnings: tuple[str, ...] = ()


def from_toml(text: str, over: ReplicaConfig = DEFAULT) -> Reading:
    """A configuration from a file. Unknown keys are an error that names all of them by their full paths."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ChangefeedError(CONFIG_INVALID, f"the configuration file is not TOML: {error}") from None
    config, unknown, unused = _read(document, over, toml_names, CONFIG_INVALID, "configuration file")
    if unknown:
        raise ChangefeedError(CONFIG_INVALID, f"the configuration file has unknown keys: {listed(unknown)}")
    return Reading(config, _unused(unused))


def from_json(document: Mapping[str, Any], over: ReplicaConfig = DEFAULT) -> Reading:
    """A configuration from a ``replica_config`` of the Open API, where unknown keys are ignored with a warning."""
    config, unknown, unused = _read(document, over, json_names, PARAM_INVALID, "replica_config")
    warned = (f"replica_config has unknown keys, which are ignored: {listed(unknown)}",) if unknown else ()
    return Reading(config, warned + _unused(unused))


def merged(current: ReplicaConfig, text: str) -> Reading:
    """A configuration overlaid with the keys of a file, as ``update`` does; lists are replaced as a whole."""
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
        raise ChangefeedError(code, f"the {what} has invalid values: {'; '.join(reader.problems)}")
    unused = [path for path in reader.unknown if path.replace("_", "-") in _UNUSED]
    return config, [path for path in reader.unknown if path not in unused], unused


def _unused(paths: list[str]) -> tuple[str, ...]:
    return (f"these TiCDC keys have no effect in tidewire: {listed(paths)}",) if paths else ()


_UNUSED = frozenset(
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
"""Keys of sinks, protocols and schedulers that tidewire does not have. A file with them is accepted."""
