"""How a broker is reached and written to."""

from __future__ import annotations

import re

from tidewire.changefeed.config.durations import parse_duration
from tidewire.changefeed.config.kafka import client_secret, mechanism_of
from tidewire.changefeed.config.parameters import KAFKA_INVALID
from tidewire.changefeed.config.rules.draft import Draft, Rule
from tidewire.changefeed.config.uri import SinkKind

_VERSION = re.compile(r"[0-9]+(\.[0-9]+){2,3}")
_CLIENT_ID = re.compile(r"[A-Za-z0-9._-]+")
_ACKS = (-1, 0, 1)
_MOST_PARTITIONS = 2**31 - 1
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER")
_BY_PASSWORD = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


def _partitions(draft: Draft) -> str | None:
    count = draft.kafka.partition_num
    if count is None or 0 < count <= _MOST_PARTITIONS:
        return None
    return f"partition-num must be greater than 0 and below 2^31, not {count}"


def _replicas(draft: Draft) -> str | None:
    factor = draft.kafka.replication_factor
    return None if factor is None or factor > 0 else f"replication-factor must be greater than 0, not {factor}"


def _version(draft: Draft) -> str | None:
    version = draft.kafka.kafka_version
    if not version or _VERSION.fullmatch(version):
        return None
    return f"kafka-version must be a version such as 2.4.0, not {version!r}"


def _client(draft: Draft) -> str | None:
    client = draft.kafka.kafka_client_id
    if not client or _CLIENT_ID.fullmatch(client):
        return None
    return f"kafka-client-id may hold letters, digits, '.', '_' and '-', so it cannot be {client!r}"


def _acks(draft: Draft) -> str | None:
    acks = draft.kafka.required_acks
    return None if acks is None or acks in _ACKS else f"required-acks is -1, 0 or 1, not {acks}"


def _timeouts(draft: Draft) -> str | None:
    kafka = draft.kafka
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


def _credentials(draft: Draft) -> str | None:
    kafka = draft.kafka
    files = {"ca": kafka.ca, "cert": kafka.cert, "key": kafka.key}
    missing = [name for name, path in files.items() if not path]
    if len(missing) == len(files):
        return None
    if missing:
        return f"ca, cert and key belong together; {' and '.join(missing)} is missing"
    if kafka.enable_tls is False:
        return "enable-tls is false, but ca, cert and key are given; take them away or set it to true"
    return None


def _mechanism(draft: Draft) -> str | None:
    mechanism = mechanism_of(draft.kafka)
    if not mechanism or mechanism in _MECHANISMS:
        return None
    return f"sasl-mechanism is {', '.join(word.lower() for word in _MECHANISMS)}, not {draft.kafka.sasl_mechanism!r}"


def _password(draft: Draft) -> str | None:
    kafka, mechanism = draft.kafka, mechanism_of(draft.kafka)
    if mechanism not in _BY_PASSWORD or (kafka.sasl_user and kafka.sasl_password):
        return None
    return f"sasl-mechanism {mechanism.lower()} needs sasl-user and sasl-password"


def _gssapi(draft: Draft) -> str | None:
    kafka = draft.kafka
    if mechanism_of(kafka) != "GSSAPI":
        return None
    by = (kafka.sasl_gssapi_auth_type or "").lower()
    credentials = {"user": kafka.sasl_gssapi_password, "keytab": kafka.sasl_gssapi_keytab_path}
    if by not in credentials:
        return f"sasl-gssapi-auth-type is user or keytab, not {kafka.sasl_gssapi_auth_type or ''!r}"
    needed = {
        "kerberos-config-path": kafka.sasl_gssapi_kerberos_config_path,
        "service-name": kafka.sasl_gssapi_service_name,
        "user": kafka.sasl_gssapi_user,
        "realm": kafka.sasl_gssapi_realm,
        {"user": "password", "keytab": "keytab-path"}[by]: credentials[by],
    }
    missing = [f"sasl-gssapi-{name}" for name, value in needed.items() if not value]
    return f"sasl-mechanism gssapi needs {', '.join(missing)}" if missing else None


def _oauth(draft: Draft) -> str | None:
    kafka = draft.kafka
    needed = {
        "sasl-oauth-client-id": kafka.sasl_oauth_client_id,
        "sasl-oauth-client-secret": kafka.sasl_oauth_client_secret,
        "sasl-oauth-token-url": kafka.sasl_oauth_token_url,
    }
    if mechanism_of(kafka) != "OAUTHBEARER":
        given = [name for name, value in needed.items() if value]
        return f"{', '.join(given)} need sasl-mechanism oauthbearer" if given else None
    missing = [name for name, value in needed.items() if not value]
    if missing:
        return f"sasl-mechanism oauthbearer needs {', '.join(missing)}"
    try:
        client_secret(kafka)
    except ValueError as error:
        return str(error)
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
        _mechanism,
        _password,
        _gssapi,
        _oauth,
    )
)
"""For sinks with brokers; a partition number is looked at wherever there are topics."""

TOPIC_RULES = RULES[:1]


def rules_for(kind: SinkKind) -> tuple[Rule, ...]:
    """The rules that count for a sink."""
    return {SinkKind.KAFKA: RULES, SinkKind.FILE_TOPIC: TOPIC_RULES}.get(kind, ())
