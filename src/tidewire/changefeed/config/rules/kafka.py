"""How a broker is reached and written to."""

from __future__ import annotations

import re

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.kafka import security_parameters
from tidewire.changefeed.config.parameters import KAFKA_INVALID
from tidewire.changefeed.config.rules.candidate import CandidateConfig, Rule
from tidewire.changefeed.config.uri import SinkKind
from tidewire.errors import OptionError
from tidewire.kafka.settings import Security

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
    """TiCDC wants all three files; a source can do with fewer."""
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


RULES = tuple(
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
"""For sinks with brokers; a partition number is looked at wherever there are topics."""

TOPIC_RULES = RULES[:1]


def rules_for(kind: SinkKind) -> tuple[Rule, ...]:
    """The rules that count for a sink."""
    return {SinkKind.KAFKA: RULES, SinkKind.FILE_TOPIC: TOPIC_RULES}.get(kind, ())
