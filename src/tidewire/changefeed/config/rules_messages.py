"""The rules about messages: protocols, large messages, topics, and how brokers are reached."""

from __future__ import annotations

import re

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.parameters import CODEC_INVALID, KAFKA_INVALID
from tidewire.changefeed.config.reading import bool_of
from tidewire.changefeed.config.replica import CONFIG_INVALID
from tidewire.changefeed.config.resolve import security_parameters
from tidewire.changefeed.config.rules import SINK_INVALID, CandidateConfig, Rule
from tidewire.changefeed.config.uri import SinkKind
from tidewire.codec.options import Compression, DecimalMode, EncodingFormat, LargeMessage, UnsignedBigintMode
from tidewire.errors import OptionError
from tidewire.kafka.settings import Security

GLUE_INVALID = "CDC:ErrInvalidGlueSchemaRegistryConfig"

_REGISTRIES = ("http:", "https:", "file:", "memory:")


def _two_registries_in_file(candidate: CandidateConfig) -> str | None:
    kafka = candidate.given.sink.kafka_config
    if not candidate.given.sink.schema_registry or kafka is None or kafka.glue_schema_registry_config is None:
        return None
    return "sink.schema-registry and sink.kafka-config.glue-schema-registry-config exclude each other; keep one"


def _glue(candidate: CandidateConfig) -> str | None:
    glue = candidate.kafka.glue_schema_registry_config
    if glue is None:
        return None
    missing = [name for name, value in (("registry-name", glue.registry_name), ("region", glue.region)) if not value]
    missing += ["secret-access-key"] if glue.access_key and not glue.secret_access_key else []
    return f"glue-schema-registry-config needs {', '.join(missing)}" if missing else None


def _registry(candidate: CandidateConfig) -> str | None:
    if candidate.protocol != "avro":
        return None
    confluent, glue = candidate.sink.schema_registry, candidate.kafka.glue_schema_registry_config
    if confluent and glue is not None:
        return 'Avro takes either "schema-registry" or a glue-schema-registry-config, not both'
    if glue is not None:
        return 'AWS Glue registries are not supported; give Avro a "schema-registry" with an http or https address'
    if not confluent:
        return 'Avro protocol requires parameter "schema-registry", as in --schema-registry=http://127.0.0.1:8081'
    if not confluent.lower().startswith(_REGISTRIES):
        return f'the parameter "schema-registry" must begin with one of {", ".join(_REGISTRIES)}'
    return None


def _avro_forced(candidate: CandidateConfig) -> str | None:
    if candidate.protocol != "avro" or not candidate.config.force_replicate:
        return None
    return "force-replicate and Avro exclude each other: without a handle key a row has no Avro key"


def _decimals(candidate: CandidateConfig) -> str | None:
    mode = candidate.codec.avro_decimal_handling_mode
    if candidate.protocol != "avro" or not mode or mode in set(DecimalMode):
        return None
    return f'avro-decimal-handling-mode value could only be "string" or "precise", not {mode!r}'


def _bigints(candidate: CandidateConfig) -> str | None:
    mode = candidate.codec.avro_bigint_unsigned_handling_mode
    if candidate.protocol != "avro" or not mode or mode in set(UnsignedBigintMode):
        return None
    return f'avro-bigint-unsigned-handling-mode value could only be "long" or "string", not {mode!r}'


def _avro_integrity(candidate: CandidateConfig) -> str | None:
    if candidate.protocol != "avro" or not candidate.checks_integrity:
        return None
    codec = candidate.codec
    strings = codec.avro_decimal_handling_mode == codec.avro_bigint_unsigned_handling_mode == "string"
    if strings and codec.enable_tidb_extension:
        return None
    return (
        "with Avro, integrity checks need enable-tidb-extension=true, avro-decimal-handling-mode=string and "
        "avro-bigint-unsigned-handling-mode=string"
    )


def _encoding(candidate: CandidateConfig) -> str | None:
    if candidate.protocol != "simple" or (candidate.codec.encoding_format or "json") in set(EncodingFormat):
        return None
    return f"encoding-format is {' or '.join(EncodingFormat)}, not {candidate.codec.encoding_format!r}"


def _message_bytes(candidate: CandidateConfig) -> str | None:
    return _positive("max-message-bytes", candidate.kafka.max_message_bytes)


def _batch_size(candidate: CandidateConfig) -> str | None:
    return _positive("max-batch-size", candidate.codec.max_batch_size)


def _positive(name: str, value: int | None) -> str | None:
    return None if value is None or value > 0 else f"{name} must be greater than 0, not {value}"


def _deletes_forced(candidate: CandidateConfig) -> str | None:
    if not candidate.sink.delete_only_output_handle_key_columns or not candidate.config.force_replicate:
        return None
    return (
        "delete-only-output-handle-key-columns and force-replicate exclude each other: without a handle key "
        "nothing of a deleted row would be left"
    )


def _csv_deletes(candidate: CandidateConfig) -> str | None:
    if candidate.protocol != "csv" or not candidate.sink.delete_only_output_handle_key_columns:
        return None
    return "csv always writes all columns of a deleted row; do not set delete-only-output-handle-key-columns"


def _concurrency(candidate: CandidateConfig) -> str | None:
    count = candidate.sink.encoder_concurrency
    return None if count is None or count >= 0 else f"encoder-concurrency must not be negative, but is {count}"


CODEC_RULES = (
    Rule(CONFIG_INVALID, _two_registries_in_file),
    Rule(GLUE_INVALID, _glue),
    Rule(SINK_INVALID, _concurrency),
    Rule(SINK_INVALID, _csv_deletes),
    Rule(KAFKA_INVALID, _message_bytes),
    Rule(CODEC_INVALID, _batch_size),
    Rule(CODEC_INVALID, _registry),
    Rule(CODEC_INVALID, _avro_forced),
    Rule(CODEC_INVALID, _decimals),
    Rule(CODEC_INVALID, _bigints),
    Rule(CODEC_INVALID, _avro_integrity),
    Rule(CODEC_INVALID, _encoding),
    Rule(CODEC_INVALID, _deletes_forced),
)


_HANDLED = frozenset({"open-protocol", "simple", "canal-json"})


def _option(candidate: CandidateConfig) -> str:
    return candidate.large.large_message_handle_option or LargeMessage.NONE


def _unknown_option(candidate: CandidateConfig) -> str | None:
    if _option(candidate) in set(LargeMessage):
        return None
    return f"large-message-handle-option is {' or '.join(LargeMessage)}, not {_option(candidate)!r}"


def _unknown_compression(candidate: CandidateConfig) -> str | None:
    given = candidate.large.large_message_handle_compression or Compression.NONE
    if given in set(Compression):
        return None
    return f"large-message-handle-compression is {' or '.join(Compression)}, not {given!r}"


def _protocol(candidate: CandidateConfig) -> str | None:
    if _option(candidate) == LargeMessage.NONE or not candidate.protocol or candidate.protocol in _HANDLED:
        return None
    option = _option(candidate)
    return f"large-message-handle-option {option!r} is not for {candidate.protocol}, which cannot mark such messages"


def _extension(candidate: CandidateConfig) -> str | None:
    if _option(candidate) == LargeMessage.NONE or candidate.protocol != "canal-json":
        return None
    if bool_of(candidate.uri.parameters.get("enable-tidb-extension") or "false"):
        return None
    return (
        f"large-message-handle-option {_option(candidate)!r} needs the TiDB extension of canal-json: put "
        "enable-tidb-extension=true into the sink-uri, where this check of TiCDC looks for it"
    )


def _storage(candidate: CandidateConfig) -> str | None:
    if _option(candidate) != LargeMessage.CLAIM_CHECK or candidate.large.claim_check_storage_uri:
        return None
    return "large-message-handle-option 'claim-check' needs a claim-check-storage-uri"


def _raw_value(candidate: CandidateConfig) -> str | None:
    if _option(candidate) != LargeMessage.CLAIM_CHECK or candidate.protocol != "open-protocol":
        return None
    if not candidate.large.claim_check_raw_value:
        return None
    return "claim-check-raw-value is not for open-protocol, whose keys are part of the message; set it to false"


LARGE_MESSAGE_RULES = (
    Rule(CONFIG_INVALID, _unknown_compression),
    Rule(CONFIG_INVALID, _unknown_option),
    Rule(CONFIG_INVALID, _protocol),
    Rule(CONFIG_INVALID, _extension),
    Rule(CONFIG_INVALID, _storage),
    Rule(CONFIG_INVALID, _raw_value),
)


def _two_names(candidate: CandidateConfig) -> str | None:
    for number, rule in enumerate(candidate.sink.dispatchers):
        if rule.dispatcher and rule.partition:
            return f"sink.dispatchers[{number}] has both partition and its old name dispatcher; keep partition"
    return None


def _avro_topics(candidate: CandidateConfig) -> str | None:
    if candidate.protocol != "avro":
        return None
    if any("{schema}" in rule.topic and "{table}" in rule.topic for rule in candidate.sink.dispatchers):
        return None
    return (
        "Avro needs a topic for each table, but no rule of sink.dispatchers has a topic with both {schema} and "
        "{table}; add one such as {matcher = ['*.*'], topic = \"tidb_{schema}_{table}\"}"
    )


DISPATCH_RULES = (Rule(SINK_INVALID, _two_names), Rule(KAFKA_INVALID, _avro_topics))


_VERSION = re.compile(r"[0-9]+(\.[0-9]+){2,3}")
_CLIENT_ID = re.compile(r"[A-Za-z0-9._-]+")
_ACKS = (-1, 0, 1)
_MOST_PARTITIONS = 2**31 - 1


def _partitions(candidate: CandidateConfig) -> str | None:
    count = candidate.kafka.partition_num
    if count is None or 0 < count <= _MOST_PARTITIONS:
        return None
    return f"partition-num must be greater than 0 and below 2^31, not {count}"


def _replicas(candidate: CandidateConfig) -> str | None:
    factor = candidate.kafka.replication_factor
    return None if factor is None or factor > 0 else f"replication-factor must be greater than 0, not {factor}"


def _version(candidate: CandidateConfig) -> str | None:
    version = candidate.kafka.kafka_version
    if not version or _VERSION.fullmatch(version):
        return None
    return f"kafka-version must be a version such as 2.4.0, not {version!r}"


def _client(candidate: CandidateConfig) -> str | None:
    client = candidate.kafka.kafka_client_id
    if not client or _CLIENT_ID.fullmatch(client):
        return None
    return f"kafka-client-id may hold letters, digits, '.', '_' and '-', so it cannot be {client!r}"


def _acks(candidate: CandidateConfig) -> str | None:
    acks = candidate.kafka.required_acks
    return None if acks is None or acks in _ACKS else f"required-acks is -1, 0 or 1, not {acks}"


def _timeouts(candidate: CandidateConfig) -> str | None:
    kafka = candidate.kafka
    for name, text in (
        ("dial-timeout", kafka.dial_timeout),
        ("read-timeout", kafka.read_timeout),
        ("write-timeout", kafka.write_timeout),
    ):
        try:
            if text and parse_duration(text) <= 0:
                return f"{name} must be greater than 0, not {text}"
        except ValueError as error:
            return f"{name} {error}"
    return None


def _credentials(candidate: CandidateConfig) -> str | None:
    """TiCDC requires all three files."""
    kafka = candidate.kafka
    files = {"ca": kafka.ca, "cert": kafka.cert, "key": kafka.key}
    missing = [name for name, path in files.items() if not path]
    if not missing or len(missing) == len(files):
        return None
    return f"ca, cert and key belong together; {' and '.join(missing)} is missing"


def _security(candidate: CandidateConfig) -> str | None:
    try:
        Security.parse(security_parameters(candidate.kafka))
    except OptionError as error:
        return error.reason
    return None


_BROKER_RULES = tuple(
    Rule(KAFKA_INVALID, broken)
    for broken in (
        _partitions,
        _replicas,
        _version,
        _client,
        _acks,
        _timeouts,
        _credentials,
        _security,
    )
)
"""For sinks with brokers. Topics in files only check the number of partitions."""

_TOPIC_RULES = _BROKER_RULES[:1]


def kafka_rules(kind: SinkKind) -> tuple[Rule, ...]:
    """The rules about brokers and topics for a kind of sink."""
    return {SinkKind.KAFKA: _BROKER_RULES, SinkKind.FILE_TOPIC: _TOPIC_RULES}.get(kind, ())
