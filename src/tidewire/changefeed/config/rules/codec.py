"""What the protocols ask for."""

from __future__ import annotations

from tidewire.changefeed.config.parameters import CODEC_INVALID, KAFKA_INVALID
from tidewire.changefeed.config.replica import INVALID
from tidewire.changefeed.config.rules.candidate import CandidateConfig, Rule
from tidewire.codec.options import DecimalMode, EncodingFormat, UnsignedBigintMode

SINK_INVALID = "CDC:ErrSinkInvalidConfig"
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
        return 'registries of AWS Glue are not built here; give Avro a "schema-registry" with an http or https address'
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
        "integrity checks need of Avro enable-tidb-extension=true, avro-decimal-handling-mode=string and "
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


RULES = (
    Rule(INVALID, _two_registries_in_file),
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
