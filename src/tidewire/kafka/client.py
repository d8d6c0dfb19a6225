"""One client of a Kafka cluster, kept open: which topics there are, how far their partitions go, a group's offsets."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, TypeVar

from tidewire.errors import BrokerError, MissingExtra
from tidewire.kafka.settings import configured

try:
    from confluent_kafka import (
        ConsumerGroupTopicPartitions,
        KafkaError,
        KafkaException,
        TopicCollection,
        TopicPartition,
    )
    from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec  # type: ignore[attr-defined]
except ImportError as error:
    raise MissingExtra("confluent-kafka", "kafka") from error

FIRST_SECONDS, LATER_SECONDS = 10.0, 120.0
"""How long a broker is waited for: before its first answer an address may be mistyped, later a broker may restart."""

_LOOK_SECONDS = 0.2
_RETRY_SECONDS = 0.2
_LEAST_SECONDS, _REQUEST_SECONDS = 1.0, 10.0

PartitionId: TypeAlias = tuple[str, int]
"""A topic and the number of a partition."""

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")
_Question: TypeAlias = Callable[[float], Answer]
"""Asks within so many seconds."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: the id that Kafka gave it when it was created, and the numbers of its partitions.

    Brokers before Kafka 2.8 do not give ids: ``None``.
    """

    name: str
    id: str | None
    partitions: tuple[int, ...]


class Offsets(NamedTuple):
    """The offsets of a partition: the first one that is left, and the one after the last message."""

    first: int
    end: int


_REFUSED = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError.SASL_AUTHENTICATION_FAILED})
_TLS_ALERT = "ssl/tls alert"
"""librdkafka calls it a lost connection when a broker refuses the client's certificate."""

_ALREADY_THERE = KafkaError.TOPIC_ALREADY_EXISTS
_UNKNOWN = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._NOENT,  # the topics do not exist, or are so new that their partitions have no leaders yet
    }
)
_PASSING = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
    }
)
"""Errors that go away by themselves when a broker is back."""

_ADVICE: Mapping[int, str] = {
    KafkaError._RESOLVE: "check the brokers in the URI",
    KafkaError._AUTHENTICATION: "check sasl-mechanism, sasl-user and sasl-password",
    KafkaError.SASL_AUTHENTICATION_FAILED: "check sasl-mechanism, sasl-user and sasl-password",
    KafkaError._SSL: "check enable-tls, ca, cert and key, and that the port is the one for TLS",
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "the user needs the right to DESCRIBE and READ the topic",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "the user needs the right to READ the consumer group",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "the user has no right to do this in the cluster",
    KafkaError.UNKNOWN_MEMBER_ID: "another consumer is in the consumer group; name a group of its own",
    KafkaError.NON_EMPTY_GROUP: "another consumer is in the consumer group; name a group of its own",
}
"""What to do about an error of the client."""


def explained(error: KafkaError) -> str:
    """An error of the client in one line, with what to do about it if that is known."""
    text = " ".join(error.str().split())
    advice = _ADVICE.get(KafkaError._SSL if _TLS_ALERT in text else error.code())
    return text if advice is None else f"{text} ({advice})"


def refuses(error: KafkaError) -> bool:
    """Whether a broker does not let the client in."""
    return error.code() in _REFUSED or _TLS_ALERT in error.str()


def passes(error: KafkaError) -> bool:
    """Whether an error goes away by itself when a broker is back."""
    return error.code() in _PASSING or bool(error.retriable())


class KafkaClient:
    """Asks a cluster about topics and offsets. Every question waits for brokers that do not answer, up to a limit.

    ``settings`` are librdkafka's. Raises :class:`BrokerError` if the brokers refuse, or if they do not answer within
    ``first_seconds`` before the first answer and ``later_seconds`` afterwards.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        first_seconds: float = FIRST_SECONDS,
        later_seconds: float = LATER_SECONDS,
    ) -> None:
        self.brokers = str(settings["bootstrap.servers"])
        self._patience = first_seconds
        self._later = later_seconds
        self._answered = False
        self._troubles: deque[KafkaError] = deque(maxlen=8)
        try:
            self._admin = AdminClient(configured(settings, error_cb=self._troubles.append))
        except (KafkaException, ValueError) as error:
            raise unusable(self.brokers, error) from error

    def names(self) -> list[str]:
        """The names of all topics of the cluster."""

        found: list[str] = self._patiently(lambda seconds: sorted(self._admin.list_topics(timeout=seconds).topics))
        return found

    def topics(self, names: Iterable[str]) -> dict[str, Topic]:
        """The topics of these names. A topic that does not exist is left out."""
        wanted = list(names)
        if not wanted:
            return {}
        found = self._results(
            lambda seconds: self._admin.describe_topics(TopicCollection(wanted), request_timeout=seconds)
        )
        return {
            name: Topic(name, _id_of(topic), tuple(sorted(part.id for part in topic.partitions)))
            for name, topic in found.items()
        }

    def offsets(self, places: Iterable[PartitionId]) -> dict[PartitionId, Offsets]:
        """The offsets of partitions, in two requests for all of them. One that does not exist (yet) is left out."""
        wanted = list(places)
        if not wanted:
            return {}
        first = self._listed(wanted, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        end = self._listed(wanted, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        return {at: Offsets(first[at], end[at]) for at in wanted if at in first and at in end}

    def commit(self, group: str, offsets: Mapping[PartitionId, int], *, seconds: float | None = None) -> None:
        """Set a consumer group's offsets. The group must have no members. ``seconds``: how long to wait for brokers."""
        places = [TopicPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        asked = ConsumerGroupTopicPartitions(group, places)
        (answer,) = self._results(
            lambda left: self._admin.alter_consumer_group_offsets([asked], request_timeout=left), seconds
        ).values()
        for place in answer.topic_partitions:
            if place.error is not None:
                raise BrokerError(self.brokers, f"consumer group {group}: {explained(place.error)}", transient=False)

    def create_topic(self, name: str, partitions: int, replicas: int) -> None:
        """Create a topic, unless there is one of that name, and wait until the brokers know it."""
        new = NewTopic(name, partitions, replicas)
        try:
            self._results(lambda seconds: self._admin.create_topics([new], operation_timeout=seconds))
        except BrokerError as error:
            if not isinstance(error.__cause__, KafkaException) or error.__cause__.args[0].code() != _ALREADY_THERE:
                raise
        deadline = time.monotonic() + self._patience
        while name not in self.topics([name]):
            if time.monotonic() > deadline:
                raise BrokerError(self.brokers, f"topic {name} was created, but no broker knows it yet")
            time.sleep(_RETRY_SECONDS)

    def topic_setting(self, topic: str, name: str) -> str | None:
        """A setting of a topic; ``None`` if the cluster does not show it."""
        return self._setting(ConfigResource(ConfigResource.Type.TOPIC, topic), name)

    def broker_setting(self, name: str) -> str | None:
        """A setting of one of the brokers; ``None`` if the cluster does not show it."""
        brokers = self._patiently(lambda seconds: self._admin.list_topics(timeout=seconds).brokers)
        return self._setting(ConfigResource(ConfigResource.Type.BROKER, str(next(iter(brokers)))), name)

    def _setting(self, resource: ConfigResource, name: str) -> str | None:
        try:
            found = self._results(lambda seconds: self._admin.describe_configs([resource], request_timeout=seconds))
        except BrokerError as error:
            if error.transient:
                raise
            return None
        entry = found[resource].get(name) if resource in found else None
        return None if entry is None or entry.value is None else str(entry.value)

    def _listed(self, places: list[PartitionId], spec: OffsetSpec) -> dict[PartitionId, int]:
        asked = {TopicPartition(*place): spec for place in places}
        found = self._results(lambda seconds: self._admin.list_offsets(asked, request_timeout=seconds))
        return {(at.topic, at.partition): int(result.offset) for at, result in found.items()}

    def _results(self, ask: _Question[Mapping[Key, Future[Any]]], seconds: float | None = None) -> dict[Key, Any]:
        """The answers to a question about many things. Those that do not exist are left out."""
        found: dict[Key, Any] = self._patiently(lambda left: self._answers(ask(left)), seconds)
        return found

    def _answers(self, futures: Mapping[Key, Future[Any]]) -> dict[Key, Any]:
        waiting = set(futures.values())
        while waiting:
            waiting = wait(waiting, _LOOK_SECONDS).not_done
            self._look()
        found = {}
        for key, future in futures.items():
            try:
                found[key] = future.result()
            except KafkaException as error:
                if error.args[0].code() not in _UNKNOWN:
                    raise
        return found

    def _patiently(self, ask: _Question[Any], seconds: float | None = None) -> Any:
        patience = self._patience if seconds is None else seconds
        deadline = time.monotonic() + patience
        while True:
            try:
                answer = ask(max(_LEAST_SECONDS, min(_REQUEST_SECONDS, deadline - time.monotonic())))
            except KafkaException as error:
                self._look()
                found: KafkaError = error.args[0]
                if not passes(found):
                    raise BrokerError(self.brokers, explained(found), transient=False) from error
                if time.monotonic() >= deadline:
                    raise self._silent(found, patience) from error
                time.sleep(_RETRY_SECONDS)
            else:
                self._answered, self._patience = True, self._later
                self._look()
                self._troubles.clear()
                return answer

    def _look(self) -> None:
        """Hear what librdkafka complains of. Before the first answer, a refusal is final."""
        self._admin.poll(0)
        refused = next(filter(refuses, self._troubles), None)
        if refused is not None and not self._answered:
            raise BrokerError(self.brokers, explained(refused), transient=False)

    def _silent(self, error: KafkaError, patience: float) -> BrokerError:
        told = [each for each in self._troubles if each.code() != KafkaError._ALL_BROKERS_DOWN]
        return BrokerError(self.brokers, f"no answer for {patience:g} seconds: {explained((told or [error])[-1])}")


def _id_of(topic: Any) -> str | None:
    found = topic.topic_id
    known = found is not None and (found.get_most_significant_bits() or found.get_least_significant_bits())
    return str(found) if known else None


def unusable(brokers: str, error: Exception) -> BrokerError:
    """The error of a client that does not take its settings."""
    found = error.args[0] if error.args else error
    text = explained(found) if isinstance(found, KafkaError) else str(found)
    if "GSSAPI" in text:
        text = (
            "the installed confluent-kafka was built without Kerberos; for sasl-mechanism gssapi install librdkafka "
            "with libsasl2 and then: pip install --no-binary confluent-kafka confluent-kafka"
        )
    return BrokerError(brokers, f"Kafka's client does not take the settings: {text}", transient=False)
