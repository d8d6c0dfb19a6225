"""From a URI and a configuration that obey the rules to settings: defaults are filled in, limits applied."""

from __future__ import annotations

import re
from dataclasses import fields
from enum import StrEnum
from typing import TypeVar

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.parameters import max_retry
from tidewire.changefeed.config.reading import toml_names
from tidewire.changefeed.config.replica import (
    CloudStorageConfig,
    CodecConfig,
    KafkaConfig,
    LargeMessageConfig,
    ReplicaConfig,
    SinkConfig,
)
from tidewire.changefeed.config.settings import (
    Acks,
    BootstrapSettings,
    FileTopicSettings,
    KafkaSettings,
    Settings,
    StorageSettings,
)
from tidewire.changefeed.config.uri import SinkKind, SinkURI, protocol_name
from tidewire.codec import PROTOCOLS, Options
from tidewire.codec.options import (
    Compression,
    CorruptionHandling,
    DecimalMode,
    EncodingFormat,
    IntegrityCheck,
    LargeMessage,
    UnsignedBigintMode,
)
from tidewire.codec.storage_sink.layout import DateSeparator
from tidewire.kafka.settings import SECURITY, Security
from tidewire.secrets import NO_URI

Given = TypeVar("Given")
Choice = TypeVar("Choice", bound=StrEnum)

EXTENDED = frozenset({"canal-json", "avro"})
"""The protocols that ``enable-tidb-extension`` changes."""

BLACKHOLE_TOPIC = "blackhole"
DEFAULT_MEMORY = 1 << 30
DEFAULT_ENCODERS = 32
COMPRESSIONS = frozenset({"none", "gzip", "snappy", "lz4", "zstd"})
_FLUSH_SECONDS = (0.1, 600.0)
_FILE_BYTES = (1024, 512 * 1024 * 1024)
MOST_WORKERS = 512
INDEX_DIGITS = range(6, 21)


def resolved(
    uri: SinkURI,
    config: ReplicaConfig,
    kept: ReplicaConfig,
    changefeed_id: str,
    namespace: str = "default",
    server: str = "127.0.0.1:8300",
    time_zone: str = "UTC",
) -> Settings:
    """Settings of a checked configuration that has the URI's parameters in it already.

    ``kept`` is the configuration to show and store; ``server`` and ``time_zone`` are the server's.
    """
    name = protocol_name(config.sink.protocol)
    protocol = "" if uri.kind is SinkKind.BLACKHOLE and name not in PROTOCOLS else name
    client = f"{server}_{namespace}_{changefeed_id}"
    return Settings(
        changefeed_id,
        namespace,
        uri,
        kept,
        uri.kind,
        protocol,
        _options(uri, config, protocol, namespace, time_zone),
        config.filter,
        topic=(uri.topic or BLACKHOLE_TOPIC) if uri.kind is SinkKind.BLACKHOLE else uri.topic,
        kafka=kafka_settings(uri, config, client) if uri.kind is SinkKind.KAFKA else None,
        file_topic=file_topic_settings(uri, config) if uri.kind is SinkKind.FILE_TOPIC else None,
        storage=storage_settings(uri, config) if uri.kind is SinkKind.STORAGE else None,
        dispatchers=config.sink.dispatchers,
        column_selectors=config.sink.column_selectors,
        case_sensitive=config.case_sensitive,
        force_replicate=config.force_replicate,
        output_raw_change_event=_raw_changes(uri, config.sink),
        bootstrap=_bootstrap(config.sink, protocol),
        memory_quota=config.memory_quota or DEFAULT_MEMORY,
        error_stuck_duration=config.changefeed_error_stuck_duration.seconds,
        encoder_concurrency=config.sink.encoder_concurrency or DEFAULT_ENCODERS,
    )


def integrity_level(uri: SinkURI, config: ReplicaConfig) -> str:
    """The level of integrity checks; only sinks with topics have them."""
    return config.integrity.integrity_check_level if uri.kind.has_topics else IntegrityCheck.NONE


def _options(uri: SinkURI, config: ReplicaConfig, protocol: str, namespace: str, time_zone: str) -> Options:
    kafka, sink = config.sink.kafka_config or KafkaConfig(), config.sink
    codec, large = kafka.codec_config or CodecConfig(), kafka.large_message_handle or LargeMessageConfig()
    plain = Options()
    avro = protocol == "avro"
    return Options(
        max_message_bytes=value_or(kafka.max_message_bytes, plain.max_message_bytes),
        max_batch_size=value_or(codec.max_batch_size, plain.max_batch_size),
        enable_tidb_extension=bool(codec.enable_tidb_extension) and protocol in EXTENDED,
        output_old_value=sink.open.output_old_value,
        only_output_updated_columns=bool(sink.only_output_updated_columns),
        delete_only_output_handle_key_columns=bool(sink.delete_only_output_handle_key_columns),
        content_compatible=bool(sink.content_compatible),
        output_row_key=bool(codec.output_row_key),
        large_message_handle_option=_choice(LargeMessage, large.large_message_handle_option),
        large_message_handle_compression=_choice(Compression, large.large_message_handle_compression),
        claim_check_storage_uri=large.claim_check_storage_uri,
        claim_check_raw_value=large.claim_check_raw_value,
        encoding_format=_choice(EncodingFormat, codec.encoding_format if protocol == "simple" else None),
        avro_decimal_handling_mode=_choice(DecimalMode, codec.avro_decimal_handling_mode if avro else None),
        avro_bigint_unsigned_handling_mode=_choice(
            UnsignedBigintMode, codec.avro_bigint_unsigned_handling_mode if avro else None
        ),
        avro_enable_watermark=bool(codec.avro_enable_watermark),
        avro_include_before_value=bool(codec.avro_include_before_value),
        schema_registry=(sink.schema_registry or NO_URI) if avro else NO_URI,
        namespace=namespace,
        integrity_check_level=_choice(IntegrityCheck, integrity_level(uri, config)),
        corruption_handle_level=_choice(CorruptionHandling, config.integrity.corruption_handle_level),
        time_zone=time_zone,
        force_replicate=config.force_replicate,
        output_raw_change_event=_raw_changes(uri, sink),
    )


def _raw_changes(uri: SinkURI, sink: SinkConfig) -> bool:
    """Do updates that change a key stay updates? Kafka and storage sinks each have a key for it."""
    own = sink.cloud_storage_config if uri.kind is SinkKind.STORAGE else sink.kafka_config
    return own is not None and bool(own.output_raw_change_event)


def _bootstrap(sink: SinkConfig, protocol: str) -> BootstrapSettings:
    """When Simple sends schemas; it does so only if both numbers are above 0."""
    every, count = sink.send_bootstrap_interval_in_sec, sink.send_bootstrap_in_msg_count
    return BootstrapSettings(
        every,
        count,
        sink.send_bootstrap_to_all_partition,
        sink.send_all_bootstrap_at_start,
        protocol == "simple" and every > 0 and count > 0,
    )


def _choice(kind: type[Choice], text: str | None) -> Choice:
    """The choice for a text; the first choice if no text is given."""
    return kind(text) if text else next(iter(kind))


def kafka_settings(uri: SinkURI, config: ReplicaConfig, client: str) -> KafkaSettings:
    """How to reach the brokers of a URI; ``client`` is the last part of the default client id."""
    kafka = config.sink.kafka_config or KafkaConfig()
    compression = (kafka.compression or "none").lower()
    return KafkaSettings(
        uri.hosts,
        kafka.kafka_client_id or re.sub('[?:,"]', "_", f"TiCDC_producer_{client}"),
        kafka.kafka_version or None,
        kafka.partition_num,
        value_or(kafka.replication_factor, 1),
        value_or(kafka.auto_create_topic, True),
        Acks(str(value_or(kafka.required_acks, -1))),
        compression if compression in COMPRESSIONS else "none",
        value_or(kafka.max_message_bytes, Options().max_message_bytes),
        max_retry(uri),
        parse_duration(kafka.dial_timeout or "10s").seconds,
        parse_duration(kafka.read_timeout or "10s").seconds,
        parse_duration(kafka.write_timeout or "10s").seconds,
        Security.parse(security_parameters(kafka)),
    )


def security_parameters(kafka: KafkaConfig) -> dict[str, str]:
    """The parameters for TLS and SASL, as texts like those of a URI."""
    found = {}
    for item in fields(kafka):
        name, value = toml_names(item)[0], getattr(kafka, item.name)
        if name in SECURITY and value is not None:
            found[name] = " ".join(value) if isinstance(value, tuple) else _text(value)
    return found


def _text(value: str | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else value


def file_topic_settings(uri: SinkURI, config: ReplicaConfig) -> FileTopicSettings:
    """Where the topics in files of a URI are."""
    kafka = config.sink.kafka_config or KafkaConfig()
    return FileTopicSettings(uri.folder, value_or(kafka.partition_num, 3))


def storage_settings(uri: SinkURI, config: ReplicaConfig) -> StorageSettings:
    """How files are written to the folder of a URI."""
    sink, storage, plain = config.sink, config.sink.cloud_storage_config or CloudStorageConfig(), StorageSettings("")
    digits = value_or(sink.file_index_digit, plain.file_index_digit)
    return StorageSettings(
        uri.folder,
        min(value_or(storage.worker_count, plain.worker_count), MOST_WORKERS),
        flush_seconds(storage),
        file_bytes(storage),
        flush_concurrency(storage),
        value_or(sink.terminator, plain.terminator),
        DateSeparator((sink.date_separator or plain.date_separator).lower()),
        value_or(sink.enable_partition_separator, plain.enable_partition_separator),
        digits if digits in INDEX_DIGITS else plain.file_index_digit,
        value_or(storage.file_expiration_days, plain.file_expiration_days),
        storage.file_cleanup_cron_spec or plain.file_cleanup_cron_spec,
        bool(storage.output_column_id),
        bool(storage.use_table_id_as_path),
        value_or(sink.csv, plain.csv),
    )


def flush_seconds(storage: CloudStorageConfig) -> float:
    """The flush interval, between a tenth of a second and ten minutes."""
    least, most = _FLUSH_SECONDS
    return min(max(parse_duration(storage.flush_interval or "5s").seconds, least), most)


def file_bytes(storage: CloudStorageConfig) -> int:
    """The size at which a file is closed, between 1 KiB and 512 MiB."""
    least, most = _FILE_BYTES
    return min(max(value_or(storage.file_size, StorageSettings("").file_size), least), most)


def flush_concurrency(storage: CloudStorageConfig) -> int:
    """How many parts of a file are uploaded at once; 1 if the number is out of range."""
    count = value_or(storage.flush_concurrency, 1)
    return count if 1 <= count <= MOST_WORKERS else 1


def value_or(given: Given | None, default: Given) -> Given:
    """The given value, also if it is ``False`` or 0; the default if it is ``None``."""
    return default if given is None else given
