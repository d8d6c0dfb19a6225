"""A changefeed's Kafka settings in the words of librdkafka, and the questions it asks a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tidewire.changefeed.config.settings import Acks, KafkaSettings, Sasl, Tls
from tidewire.errors import ChangefeedError, MissingExtra

try:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic  # type: ignore[attr-defined]
except ImportError as error:
    raise MissingExtra("confluent-kafka", "kafka") from error

INVALID = "CDC:ErrKafkaInvalidConfig"
UNREACHABLE = "CDC:ErrKafkaNewProducer"
NOT_CREATED = "CDC:ErrKafkaCreateTopic"
HEADROOM = 128
"""What TiCDC leaves free below a topic's limit."""

_ALREADY_THERE = "TOPIC_ALREADY_EXISTS"
_LOOK_AGAIN_SECONDS = 0.05


def connection(settings: KafkaSettings) -> dict[str, Any]:
    """How to reach the brokers: what every client of a changefeed is configured with."""
    security = ("SASL_" if settings.sasl else "") + ("SSL" if settings.tls else "PLAINTEXT")
    return {
        "bootstrap.servers": ",".join(settings.brokers),
        "client.id": settings.client_id,
        "security.protocol": security,
        "socket.timeout.ms": _milliseconds(settings.read_timeout),
        "socket.connection.setup.timeout.ms": max(1000, _milliseconds(settings.dial_timeout)),
        "log_level": 0,
        **(_tls(settings.tls) if settings.tls else {}),
        **(_MECHANISMS[settings.sasl.mechanism](settings.sasl) if settings.sasl else {}),
    }


def producing(settings: KafkaSettings) -> dict[str, Any]:
    """How messages are sent: in order, once, and given up after the retries the changefeed is allowed."""
    patience = _milliseconds(settings.write_timeout) * (settings.max_retry + 1)
    idempotent = settings.required_acks is Acks.ALL
    return {
        "acks": settings.required_acks.value,
        "enable.idempotence": idempotent,
        **({} if idempotent else {"max.in.flight.requests.per.connection": 1}),
        "compression.type": settings.compression,
        "linger.ms": 5,
        "message.timeout.ms": max(patience, 1000),
        "request.timeout.ms": max(1, min(_milliseconds(settings.write_timeout), 900_000)),
        "queue.buffering.max.messages": 100_000,
        "queue.buffering.max.kbytes": 64 * 1024,
        "message.max.bytes": 1_000_000_000,
        "delivery.report.only.error": True,
    }


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def _tls(tls: Tls) -> dict[str, Any]:
    files = {"ssl.ca.location": tls.ca, "ssl.certificate.location": tls.cert, "ssl.key.location": tls.key}
    return {
        **{name: path for name, path in files.items() if path},
        "enable.ssl.certificate.verification": not tls.insecure_skip_verify,
    }


def _password(sasl: Sasl) -> dict[str, Any]:
    return {"sasl.mechanism": sasl.mechanism, "sasl.username": sasl.user, "sasl.password": str(sasl.password)}


def _kerberos(sasl: Sasl) -> dict[str, Any]:
    found = sasl.gssapi
    if found is None or found.auth_type.lower() != "keytab":
        raise ChangefeedError(INVALID, "sasl-mechanism gssapi works with sasl-gssapi-auth-type=keytab only")
    return {
        "sasl.mechanism": sasl.mechanism,
        "sasl.kerberos.service.name": found.service_name,
        "sasl.kerberos.principal": f"{found.user}@{found.realm}" if found.realm else found.user,
        "sasl.kerberos.keytab": found.keytab_path,
    }


def _oauth(sasl: Sasl) -> dict[str, Any]:
    found = sasl.oauth
    if found is None:
        raise ChangefeedError(INVALID, "sasl-mechanism oauthbearer needs sasl-oauth-client-id and what goes with it")
    return {
        "sasl.mechanism": sasl.mechanism,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": found.client_id,
        "sasl.oauthbearer.client.secret": str(found.client_secret),
        "sasl.oauthbearer.token.endpoint.url": found.token_url,
        **({"sasl.oauthbearer.scope": " ".join(found.scopes)} if found.scopes else {}),
        **({"sasl.oauthbearer.extensions": f"audience={found.audience}"} if found.audience else {}),
    }


_MECHANISMS: Mapping[str, Callable[[Sasl], dict[str, Any]]] = {
    "PLAIN": _password,
    "SCRAM-SHA-256": _password,
    "SCRAM-SHA-512": _password,
    "GSSAPI": _kerberos,
    "OAUTHBEARER": _oauth,
}


class Cluster:
    """The topics of a cluster: how many partitions they have, how large their messages may be, making new ones."""

    def __init__(self, settings: KafkaSettings, new_topic_partitions: int) -> None:
        self._settings = settings
        self._new = settings.partition_num or new_topic_partitions
        self._patience = max(1.0, settings.dial_timeout + settings.read_timeout)
        self._checked = False
        try:
            self._admin = AdminClient(connection(settings))
        except (KafkaException, ValueError) as error:
            raise ChangefeedError(INVALID, f"Kafka's client does not take the settings: {error}") from error

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; it is made if it is not there and may be."""
        found = self._found(topic)
        if found:
            return found
        if not self._settings.auto_create_topic:
            raise ChangefeedError(
                INVALID, f"topic {topic} does not exist and auto-create-topic is false; create it or allow it"
            )
        self._make(topic)
        deadline = time.monotonic() + self._patience
        while not (found := self._found(topic)):
            if time.monotonic() > deadline:
                raise ChangefeedError(NOT_CREATED, f"topic {topic} was created, but no broker knows it yet")
            time.sleep(_LOOK_AGAIN_SECONDS)
        return found

    def message_limit(self, topic: str) -> int:
        """The largest message: ``max-message-bytes``, or less where the topic does not take so much."""
        limit = self._setting(ConfigResource.Type.TOPIC, topic, "max.message.bytes")
        wanted = self._settings.max_message_bytes
        return wanted if limit is None else max(1, min(wanted, int(limit) - HEADROOM))

    def _found(self, topic: str) -> int:
        """The partitions of a topic, 0 where there is no such topic."""
        try:
            topics = self._admin.list_topics(timeout=self._patience).topics
        except KafkaException as error:
            brokers = ", ".join(self._settings.brokers)
            raise ChangefeedError(UNREACHABLE, f"no answer from Kafka at {brokers}: {error}") from error
        known = topics.get(topic)
        return 0 if known is None or known.error is not None else len(known.partitions)

    def _make(self, topic: str) -> None:
        self._check_replicas()
        new = NewTopic(topic, self._new, self._settings.replication_factor)
        try:
            self._admin.create_topics([new], operation_timeout=self._patience)[topic].result()
        except KafkaException as error:
            if error.args[0].name() != _ALREADY_THERE:
                raise ChangefeedError(NOT_CREATED, f"topic {topic} cannot be created: {error}") from error

    def _check_replicas(self) -> None:
        """With all replicas to acknowledge there must be as many as the brokers insist on."""
        if self._settings.required_acks is not Acks.ALL or self._checked:
            return
        self._checked = True
        broker = next(iter(self._admin.list_topics(timeout=self._patience).brokers), None)
        least = (
            None if broker is None else self._setting(ConfigResource.Type.BROKER, str(broker), "min.insync.replicas")
        )
        factor = self._settings.replication_factor
        if least is not None and factor < int(least):
            raise ChangefeedError(
                INVALID,
                f"replication-factor is {factor}, but brokers want min.insync.replicas={least} and required-acks is -1",
            )

    def _setting(self, kind: Any, name: str, setting: str) -> str | None:
        """A broker's or topic's setting; ``None`` where the cluster does not show it."""
        resource = ConfigResource(kind, name)
        try:
            entries = self._admin.describe_configs([resource])[resource].result(self._patience)
        except KafkaException:
            return None
        found = entries.get(setting)
        return None if found is None or found.value is None else str(found.value)
