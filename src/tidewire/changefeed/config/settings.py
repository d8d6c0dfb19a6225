"""The settings of a changefeed: sink URI and replica configuration combined, with defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tidewire.changefeed.config.replica import DispatchRule, FilterConfig, ReplicaConfig
from tidewire.changefeed.config.uri import SinkKind, SinkURI
from tidewire.codec import Options
from tidewire.codec.storage_sink.csv_config import DEFAULT_TERMINATOR, PLAIN_CSV, CsvConfig
from tidewire.codec.storage_sink.layout import DateSeparator
from tidewire.dispatch import ColumnSelector
from tidewire.kafka.settings import NO_SECURITY, Security


class Acks(StrEnum):
    """``required-acks``: which replicas must have a message before it counts as sent."""

    NOBODY = "0"
    LEADER = "1"
    ALL = "-1"


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """How to reach a broker and how to write to it. Times are seconds.

    ``partition_num`` is ``None`` if it was not given: an existing topic keeps its count, a new one gets three.
    ``kafka_version`` is ``None`` if the broker is asked.
    """

    brokers: tuple[str, ...]
    client_id: str
    kafka_version: str | None = None
    partition_num: int | None = None
    replication_factor: int = 1
    auto_create_topic: bool = True
    required_acks: Acks = Acks.ALL
    compression: str = "none"
    max_message_bytes: int = 10 * 1024 * 1024
    max_retry: int = 5
    dial_timeout: float = 10.0
    read_timeout: float = 10.0
    write_timeout: float = 10.0
    security: Security = NO_SECURITY


@dataclass(frozen=True, slots=True)
class FileTopicSettings:
    """Topics in files: a folder with a sub-folder for each topic."""

    folder: str
    partition_num: int = 3


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """How changes are written into files. Times are seconds, sizes bytes.

    ``folder`` is the path of the URI, in an object store with the bucket before it.
    """

    folder: str
    worker_count: int = 16
    flush_interval: float = 5.0
    file_size: int = 64 * 1024 * 1024
    flush_concurrency: int = 1
    terminator: str = DEFAULT_TERMINATOR
    date_separator: DateSeparator = DateSeparator.DAY
    enable_partition_separator: bool = True
    file_index_digit: int = 20
    file_expiration_days: int = 0
    file_cleanup_cron_spec: str = "0 0 2 * * *"
    output_column_id: bool = False
    use_table_id_as_path: bool = False
    csv: CsvConfig = PLAIN_CSV


@dataclass(frozen=True, slots=True)
class BootstrapSettings:
    """When protocol Simple repeats the schema of a table."""

    interval_seconds: int = 120
    message_count: int = 10_000
    to_all_partitions: bool = True
    all_at_start: bool = False
    enabled: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """A changefeed's configuration, resolved: the URI has won over the file, and defaults are filled in.

    Exactly one of ``kafka``, ``file_topic`` and ``storage`` is set, none of them for ``blackhole``. ``topic`` is the
    default topic and empty if there are no topics. ``protocol`` is TiCDC's plain name, without aliases, and empty
    for a blackhole without a protocol that tidewire can write. ``options`` name no topic: with Avro it differs from
    table to table. ``config`` is stored and shown: as given, without the keys that the sink does not have.
    """

    changefeed_id: str
    namespace: str
    uri: SinkURI
    config: ReplicaConfig
    kind: SinkKind
    protocol: str
    options: Options
    filter: FilterConfig
    topic: str = ""
    kafka: KafkaSettings | None = None
    file_topic: FileTopicSettings | None = None
    storage: StorageSettings | None = None
    dispatchers: tuple[DispatchRule, ...] = ()
    column_selectors: tuple[ColumnSelector, ...] = ()
    case_sensitive: bool = False
    force_replicate: bool = False
    output_raw_change_event: bool = False
    """``False``: an UPDATE that changes a key becomes a DELETE and an INSERT."""
    bootstrap: BootstrapSettings = BootstrapSettings()
    memory_quota: int = 1 << 30
    watermark_interval: float = 1.0
    error_stuck_duration: float = 1800.0
    encoder_concurrency: int = 32
