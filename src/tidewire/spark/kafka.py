"""Kafka as a source, through Spark's own connector.

``kafka://host:port[,host:port]/topic[,topic][?name=value&…]``; ``?pattern=REGEX`` in place of topics takes every topic
that matches, also those that are made later. Options for TLS and SASL have TiCDC's names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

from pyspark.sql import DataFrame, SparkSession

from tidewire.errors import OptionError, SyncError
from tidewire.model import Message, Position
from tidewire.sync.manifest import Partition

_MECHANISMS = {
    "plain": "PLAIN",
    "scram-sha-256": "SCRAM-SHA-256",
    "scram-sha-512": "SCRAM-SHA-512",
}
_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_PATIENCE_MS = 30_000


@dataclass(frozen=True, slots=True)
class KafkaPlace:
    """Brokers, topics, and how to talk to them."""

    brokers: str
    topics: tuple[str, ...]
    pattern: str | None = None
    client: Mapping[str, str] = field(default_factory=dict, repr=False)
    group: str | None = None
    offsets_per_batch: int | None = None

    @property
    def uri(self) -> str:
        """What it is called, without anything secret."""
        return f"kafka://{self.brokers}/{','.join(self.topics)}" + (f"?pattern={self.pattern}" if self.pattern else "")

    @classmethod
    def parse(cls, uri: str) -> KafkaPlace:
        """The place a URI names; :class:`OptionError` where it names none."""
        rest, _, query = uri.removeprefix("kafka://").partition("?")
        brokers, _, path = rest.partition("/")
        if not brokers:
            raise OptionError("source", f"{uri!r} names no broker: kafka://host:port/topic")
        topics = tuple(unquote(topic) for topic in path.split(",") if topic)
        given = dict(parse_qsl(query, keep_blank_values=True))
        pattern = given.pop("pattern", None)
        if bool(topics) == bool(pattern):
            raise OptionError("source", "give either topics after the brokers or ?pattern=, and not both")
        group = given.pop("consumer-group", None)
        limit = given.pop("max-offsets-per-batch", None)
        return cls(brokers, topics, pattern, _client(given), group, None if limit is None else _positive(limit))


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise OptionError("max-offsets-per-batch", f"{text!r} is not a number above zero")
    return int(text)


def _client(given: Mapping[str, str]) -> dict[str, str]:
    """The settings of a Kafka client for TiCDC's options."""
    unknown = given.keys() - _TICDC
    if unknown:
        raise OptionError(sorted(unknown)[0], f"no option of a Kafka source; known are {', '.join(sorted(_TICDC))}")
    tls = given.get("enable-tls", "false") == "true" or "ca" in given
    user = given.get("sasl-user")
    settings = {"security.protocol": ("SASL_" if user else "") + ("SSL" if tls else "PLAINTEXT")}
    for name, value in given.items():
        settings |= _TICDC[name](value)
    if user is not None:
        mechanism = _MECHANISMS.get(given.get("sasl-mechanism", "plain").lower())
        if mechanism is None:
            raise OptionError("sasl-mechanism", f"one of {', '.join(_MECHANISMS)}")
        settings["sasl.mechanism"] = mechanism
        settings["sasl.jaas.config"] = (
            f"{_LOGIN_MODULES[mechanism]} required username={_quoted(user)} "
            f"password={_quoted(given.get('sasl-password', ''))};"
        )
    if "cert" in given:
        settings |= _key_pair(given)
    return settings


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _key_pair(given: Mapping[str, str]) -> dict[str, str]:
    if "key" not in given:
        raise OptionError("key", "a certificate needs its key")
    chain, key = (Path(given[name]).read_text() for name in ("cert", "key"))
    return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}


_TICDC: Mapping[str, Callable[[str], dict[str, str]]] = {
    "enable-tls": lambda _: {},
    "ca": lambda path: {"ssl.truststore.type": "PEM", "ssl.truststore.location": path},
    "cert": lambda _: {},
    "key": lambda _: {},
    "insecure-skip-verify": lambda on: {"ssl.endpoint.identification.algorithm": ""} if on == "true" else {},
    "sasl-user": lambda _: {},
    "sasl-password": lambda _: {},
    "sasl-mechanism": lambda _: {},
    "kafka-client-id": lambda name: {"client.id": name},
}


class KafkaSource:
    """Topics of a Kafka cluster. Offsets may have gaps: transactions and retention leave some."""

    contiguous = False

    def __init__(self, spark: SparkSession, place: KafkaPlace) -> None:
        self._spark = spark
        self._place = place
        self.uri = place.uri

    def stream(self, spark: SparkSession) -> DataFrame:
        """The messages from the earliest on, as a stream; a hole in them is an error."""
        reader = spark.readStream.format("kafka").options(**self._options())
        reader = reader.option("startingOffsets", "earliest").option("failOnDataLoss", "true")
        limit = self._place.offsets_per_batch
        return (reader if limit is None else reader.option("maxOffsetsPerTrigger", limit)).load()

    def ends(self) -> Mapping[Partition, int]:
        """All partitions there are now, each with the offset after its last message."""
        return self._offsets("latest")

    def sample(self, count: int) -> Iterable[Message]:
        """Some of the first messages of every partition."""
        first, ends = self._offsets("earliest"), self.ends()
        wanted = {at: (start, min(start + count, ends.get(at, start))) for at, start in first.items()}
        return self._read({at: bounds for at, bounds in wanted.items() if bounds[0] < bounds[1]}).values()

    def fetch(self, positions: Iterable[Position]) -> Mapping[Position, Message]:
        """The messages at some places."""
        found: dict[Position, Message] = {}
        for at in positions:  # Spark takes one range of a partition at a time; bad rows are few
            found |= self._read({Partition(at.topic, at.partition): (at.offset, at.offset + 1)})
        return found

    def _read(self, wanted: Mapping[Partition, tuple[int, int]]) -> dict[Position, Message]:
        """The messages from one offset of a partition to before another."""
        if not wanted:
            return {}
        rows = (
            self._spark.read.format("kafka")
            .options(**self._brokers())
            .option("assign", json.dumps(_by_topic({at: at.number for at in wanted}, list)))
            .option("startingOffsets", _offsets_json({at: start for at, (start, _) in wanted.items()}))
            .option("endingOffsets", _offsets_json({at: end for at, (_, end) in wanted.items()}))
            .load()
            .select("topic", "partition", "offset", "key", "value")
            .collect()
        )
        return {
            Position(row.topic, row.partition, row.offset): Message(_bytes(row.key), _bytes(row.value)) for row in rows
        }

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Tell lag tools how far the sync is, where a consumer group was named. Nothing is read from there."""
        if self._place.group is None or not offsets:
            return
        jvm: Any = self._spark._jvm
        positions = jvm.java.util.HashMap()
        for at, offset in offsets.items():
            partition = jvm.org.apache.kafka.common.TopicPartition(at.topic, at.number)
            positions.put(partition, jvm.org.apache.kafka.clients.consumer.OffsetAndMetadata(offset))
        self._asked(lambda admin: admin.alterConsumerGroupOffsets(self._place.group, positions).all().get())

    def _options(self) -> dict[str, str]:
        place = self._place
        chosen = {"subscribePattern": place.pattern} if place.pattern else {"subscribe": ",".join(place.topics)}
        return self._brokers() | {name: value for name, value in chosen.items() if value is not None}

    def _brokers(self) -> dict[str, str]:
        client = {f"kafka.{name}": value for name, value in self._place.client.items()}
        return client | {"kafka.bootstrap.servers": self._place.brokers}

    def _offsets(self, which: str) -> dict[Partition, int]:
        jvm: Any = self._spark._jvm
        spec = getattr(jvm.org.apache.kafka.clients.admin.OffsetSpec, which)()

        def ask(admin: Any) -> dict[Partition, int]:
            topics = jvm.java.util.ArrayList()
            for topic in self._topics(admin):
                topics.add(topic)
            wanted = jvm.java.util.HashMap()
            described = admin.describeTopics(topics).allTopicNames().get()
            for topic in list(described.keySet()):
                for partition in described.get(topic).partitions():
                    wanted.put(jvm.org.apache.kafka.common.TopicPartition(topic, partition.partition()), spec)
            found = admin.listOffsets(wanted).all().get()
            return {Partition(at.topic(), at.partition()): found.get(at).offset() for at in list(found.keySet())}

        found: dict[Partition, int] = self._asked(ask)
        return found

    def _topics(self, admin: Any) -> list[str]:
        present = set(admin.listTopics().names().get())
        if self._place.pattern is not None:
            return sorted(topic for topic in present if re.fullmatch(self._place.pattern, topic))
        return [topic for topic in self._place.topics if topic in present]

    def _asked(self, question: Callable[[Any], Any]) -> Any:
        from py4j.protocol import Py4JJavaError

        jvm: Any = self._spark._jvm
        settings = jvm.java.util.HashMap()
        for name, value in {**self._place.client, "bootstrap.servers": self._place.brokers}.items():
            settings.put(name, value)
        settings.put("default.api.timeout.ms", str(_PATIENCE_MS))
        settings.put("request.timeout.ms", str(_PATIENCE_MS // 2))
        try:
            admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
            try:
                return question(admin)
            finally:
                admin.close()
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            raise SyncError(f"{self.uri}: {cause.toString()}") from error


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _by_topic(values: Mapping[Partition, Any], gather: Callable[[Iterable[Any]], Any]) -> dict[str, Any]:
    topics: dict[str, list[Any]] = {}
    for at, value in values.items():
        topics.setdefault(at.topic, []).append(value)
    return {topic: gather(found) for topic, found in topics.items()}


def _offsets_json(offsets: Mapping[Partition, int]) -> str:
    return json.dumps(_by_topic({at: (str(at.number), offset) for at, offset in offsets.items()}, dict))
