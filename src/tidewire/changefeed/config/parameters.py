"""The parameters of a sink URI, and what they do to a replica configuration: the URI wins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from tidewire.changefeed.config.protocols import protocol_name
from tidewire.changefeed.config.reading import TEXTS, Reader, int_of, toml_names
from tidewire.changefeed.config.replica import Reading
from tidewire.changefeed.config.sections import CodecConfig, KafkaConfig, ReplicaConfig
from tidewire.changefeed.config.uri import INVALID, SinkKind, SinkURI
from tidewire.errors import ChangefeedError

KAFKA_INVALID = "CDC:ErrKafkaInvalidConfig"
CODEC_INVALID = "CDC:ErrCodecInvalidConfig"
STORAGE_INVALID = "CDC:ErrStorageSinkInvalidConfig"
DEFAULT_MAX_RETRY = 5

_EVERYWHERE = frozenset(SinkKind)
_BROKERS = frozenset({SinkKind.KAFKA, SinkKind.BLACKHOLE})
_TOPICS = frozenset({SinkKind.KAFKA, SinkKind.FILE_TOPIC, SinkKind.BLACKHOLE})
_MESSAGES = _TOPICS | {SinkKind.STORAGE}
_FILES = frozenset({SinkKind.STORAGE, SinkKind.BLACKHOLE})


@dataclass(frozen=True, slots=True)
class Parameter:
    """Where a parameter belongs in a file, for which sinks it counts, and what TiCDC calls a value it cannot take.

    ``scheme`` is set where it counts for one scheme only.
    """

    home: str
    kinds: frozenset[SinkKind]
    code: str
    scheme: str = ""

    def counts_for(self, uri: SinkURI) -> bool:
        """Does it mean something to the sink of a URI?"""
        return uri.kind in self.kinds and self.scheme in ("", uri.scheme)


_FILE_ONLY = ("sasl-oauth-", "output-raw-change-event", "codec-config", "large-message-handle", "glue-")


def _kafka() -> Mapping[str, Parameter]:
    names = (name for item in fields(KafkaConfig) for name in toml_names(item))
    return {
        name: Parameter(f"sink.kafka-config.{name}", _BROKERS, KAFKA_INVALID)
        for name in names
        if not name.startswith(_FILE_ONLY)
    }


def _codec() -> Mapping[str, Parameter]:
    names = (name for item in fields(CodecConfig) for name in toml_names(item))
    return {name: Parameter(f"sink.kafka-config.codec-config.{name}", _MESSAGES, CODEC_INVALID) for name in names}


def _storage(*names: str) -> Mapping[str, Parameter]:
    return {name: Parameter(f"sink.cloud-storage-config.{name}", _FILES, STORAGE_INVALID) for name in names}


def _provider(scheme: str, *names: str) -> Mapping[str, Parameter]:
    return dict.fromkeys(names, Parameter("", _FILES, STORAGE_INVALID, scheme))


PARAMETERS: Mapping[str, Parameter] = {
    "protocol": Parameter("sink.protocol", _EVERYWHERE, INVALID),
    "transaction-atomicity": Parameter("sink.transaction-atomicity", _EVERYWHERE, INVALID),
    **_kafka(),
    "partition-num": Parameter("sink.kafka-config.partition-num", _TOPICS, KAFKA_INVALID),
    "max-message-bytes": Parameter("sink.kafka-config.max-message-bytes", _MESSAGES, KAFKA_INVALID),
    "max-retry": Parameter("", _BROKERS, KAFKA_INVALID),
    **_codec(),
    "schema-registry": Parameter("sink.schema-registry", _TOPICS, CODEC_INVALID),
    "content-compatible": Parameter("sink.content-compatible", _MESSAGES, CODEC_INVALID),
    "only-output-updated-columns": Parameter("sink.only-output-updated-columns", _MESSAGES, CODEC_INVALID),
    **_storage(
        "worker-count", "flush-interval", "file-size", "use-table-id-as-path", "spool-disk-quota", "spool-base-dir"
    ),
    **_provider(
        "s3",
        "endpoint",
        "region",
        "access-key",
        "secret-access-key",
        "session-token",
        "force-path-style",
        "role-arn",
        "external-id",
    ),
}
"""Every parameter a sink URI may have."""


def overlaid(uri: SinkURI, config: ReplicaConfig) -> Reading:
    """The configuration with the URI's parameters put over it, an explicit ``false`` too.

    An unknown parameter, or one that does not apply to this sink, is ignored with a warning, as TiCDC does.
    """
    warnings = []
    for name, text in uri.parameters.items():
        parameter = PARAMETERS.get(name)
        if parameter is None or not parameter.counts_for(uri):
            what = "is unknown" if parameter is None else f"means nothing to a {uri.scheme} sink"
            warnings.append(f"the sink-uri parameter {name} {what} and is ignored")
        elif text and parameter.home:
            warnings += _disagreement(name, text, config)
            config = _with(name, parameter, text, config)
    return Reading(config, tuple(warnings))


def max_retry(uri: SinkURI) -> int:
    """How often a send is tried again; a negative number counts as none given."""
    text = uri.parameters.get("max-retry", "")
    try:
        count = int_of(text) if text else DEFAULT_MAX_RETRY
    except ValueError as error:
        raise ChangefeedError(KAFKA_INVALID, f"the sink-uri parameter max-retry {error}") from None
    return DEFAULT_MAX_RETRY if count < 0 else count


def _with(name: str, parameter: Parameter, text: str, config: ReplicaConfig) -> ReplicaConfig:
    reader = Reader(toml_names, TEXTS)
    changed = reader.read(_nested(parameter.home, text), config)
    for problem in reader.problems:
        reason = problem.removeprefix(parameter.home)
        raise ChangefeedError(parameter.code, f"the sink-uri parameter {name}{reason}")
    return changed


def _nested(path: str, value: str) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: _nested(rest, value) if rest else value}


def _disagreement(name: str, text: str, config: ReplicaConfig) -> list[str]:
    both = {"protocol": config.sink.protocol, "transaction-atomicity": config.sink.transaction_atomicity}
    given = both.get(name)
    if not given or protocol_name(given) == protocol_name(text):
        return []
    return [f"{name} is {text!r} in the sink-uri and {given!r} in the configuration; the sink-uri counts"]
