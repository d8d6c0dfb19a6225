"""The Kafka part of a changefeed's settings."""

from __future__ import annotations

import re
from dataclasses import fields

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.overrides import value_or
from tidewire.changefeed.config.parameters import max_retry
from tidewire.changefeed.config.reading import toml_names
from tidewire.changefeed.config.sections import KafkaConfig, ReplicaConfig
from tidewire.changefeed.config.settings import Acks, FileTopicSettings, KafkaSettings
from tidewire.changefeed.config.uri import SinkURI
from tidewire.codec import Options
from tidewire.kafka.settings import SECURITY, Security

COMPRESSIONS = frozenset({"none", "gzip", "snappy", "lz4", "zstd"})


def kafka_settings(uri: SinkURI, config: ReplicaConfig, client: str) -> KafkaSettings:
    """How to reach the broker of a URI; ``client`` ends the name by which it knows us."""
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
    """The parameters for TLS and SASL as texts, as a URI has them."""
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
