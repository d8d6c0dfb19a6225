"""Settings out of a URI and a configuration that obey the rules."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar

from tidewire.changefeed.config.kafka import file_topic_settings, kafka_settings
from tidewire.changefeed.config.overrides import value_or
from tidewire.changefeed.config.protocols import protocol_name
from tidewire.changefeed.config.sections import (
    CodecConfig,
    KafkaConfig,
    LargeMessageConfig,
    ReplicaConfig,
    SinkConfig,
)
from tidewire.changefeed.config.settings import BootstrapSettings, Settings
from tidewire.changefeed.config.storage import storage_settings
from tidewire.changefeed.config.uri import SinkKind, SinkURI
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
from tidewire.secrets import NO_URI

Choice = TypeVar("Choice", bound=StrEnum)

EXTENDED = frozenset({"canal-json", "avro"})
"""The protocols that ``enable-tidb-extension`` changes."""

BLACKHOLE_TOPIC = "blackhole"
DEFAULT_MEMORY = 1 << 30
DEFAULT_ENCODERS = 32


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

    ``kept`` is the configuration to show and store, ``server`` and ``time_zone`` are those of the server.
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
    """The level of integrity checks, which only topics have."""
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
    """Do updates that change a key stay updates? Each kind of sink has a key for it."""
    own = sink.cloud_storage_config if uri.kind is SinkKind.STORAGE else sink.kafka_config
    return own is not None and bool(own.output_raw_change_event)


def _bootstrap(sink: SinkConfig, protocol: str) -> BootstrapSettings:
    """Both numbers must be above 0 for Simple to tell schemas."""
    every, count = sink.send_bootstrap_interval_in_sec, sink.send_bootstrap_in_msg_count
    return BootstrapSettings(
        every,
        count,
        sink.send_bootstrap_to_all_partition,
        sink.send_all_bootstrap_at_start,
        protocol == "simple" and every > 0 and count > 0,
    )


def _choice(kind: type[Choice], text: str | None) -> Choice:
    """One of some words, the first of them where none is given."""
    return kind(text) if text else next(iter(kind))
