"""The Kafka part of a changefeed's settings."""

from __future__ import annotations

import base64
import binascii
import re

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.given import given_or
from tidewire.changefeed.config.parameters import max_retry
from tidewire.changefeed.config.sections import KafkaConfig, ReplicaConfig
from tidewire.changefeed.config.settings import Acks, FileTopicSettings, Gssapi, KafkaSettings, OAuth, Sasl, Tls
from tidewire.changefeed.config.uri import SinkURI
from tidewire.codec import Options
from tidewire.secrets import NO_SECRET, NO_URI, Secret

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
        given_or(kafka.replication_factor, 1),
        given_or(kafka.auto_create_topic, True),
        Acks(str(given_or(kafka.required_acks, -1))),
        compression if compression in COMPRESSIONS else "none",
        given_or(kafka.max_message_bytes, Options().max_message_bytes),
        max_retry(uri),
        parse_duration(kafka.dial_timeout or "10s").seconds,
        parse_duration(kafka.read_timeout or "10s").seconds,
        parse_duration(kafka.write_timeout or "10s").seconds,
        _tls(kafka),
        _sasl(kafka),
    )


def _tls(kafka: KafkaConfig) -> Tls | None:
    """Three credential files turn TLS on by themselves."""
    if not kafka.enable_tls and not kafka.ca:
        return None
    return Tls(kafka.ca or "", kafka.cert or "", kafka.key or "", bool(kafka.insecure_skip_verify))


def mechanism_of(kafka: KafkaConfig) -> str:
    """The SASL mechanism as brokers spell it; plain where only a user is given, empty where there is no SASL."""
    return (kafka.sasl_mechanism or ("plain" if kafka.sasl_user else "")).upper()


def _sasl(kafka: KafkaConfig) -> Sasl | None:
    mechanism = mechanism_of(kafka)
    if not mechanism:
        return None
    return Sasl(
        mechanism,
        kafka.sasl_user or "",
        kafka.sasl_password or NO_SECRET,
        _gssapi(kafka) if mechanism == "GSSAPI" else None,
        _oauth(kafka) if mechanism == "OAUTHBEARER" else None,
    )


def _gssapi(kafka: KafkaConfig) -> Gssapi:
    return Gssapi(
        (kafka.sasl_gssapi_auth_type or "").lower(),
        kafka.sasl_gssapi_keytab_path or "",
        kafka.sasl_gssapi_kerberos_config_path or "",
        kafka.sasl_gssapi_service_name or "",
        kafka.sasl_gssapi_user or "",
        kafka.sasl_gssapi_password or NO_SECRET,
        kafka.sasl_gssapi_realm or "",
        bool(kafka.sasl_gssapi_disable_pafxfast),
    )


def _oauth(kafka: KafkaConfig) -> OAuth:
    return OAuth(
        kafka.sasl_oauth_client_id or "",
        client_secret(kafka),
        kafka.sasl_oauth_token_url or NO_URI,
        kafka.sasl_oauth_scopes,
        kafka.sasl_oauth_grant_type or "client_credentials",
        kafka.sasl_oauth_audience or "",
    )


def client_secret(kafka: KafkaConfig) -> Secret:
    """The OAuth secret out of its Base64; ``ValueError`` where it is none."""
    try:
        return Secret(base64.b64decode(kafka.sasl_oauth_client_secret or "", validate=True).decode())
    except (binascii.Error, UnicodeDecodeError):
        raise ValueError("sasl-oauth-client-secret must be Base64") from None


def file_topic_settings(uri: SinkURI, config: ReplicaConfig) -> FileTopicSettings:
    """Where the topics in files of a URI are."""
    kafka = config.sink.kafka_config or KafkaConfig()
    return FileTopicSettings(uri.folder, given_or(kafka.partition_num, 3))
