"""Kafka as a source, through Spark's own connector."""

from __future__ import annotations

import json
import re
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tidewire.errors import SyncError
from tidewire.model import Message, Position
from tidewire.spark.kafka_fetch import Range
from tidewire.spark.kafka_place import KafkaPlace, trusting
from tidewire.spark.stage import SEGMENT
from tidewire.sync.manifest import Partition

_FIRST_SECONDS, _LATER_SECONDS = 30, 180
"""How long to wait for an answer: at first somebody may have mistyped an address, later a broker may restart."""

_MESSAGES_PER_TASK = 500_000
"""A partition with more messages in a batch is read by several tasks."""


class KafkaSource:
    """Topics of a Kafka cluster. Offsets may have gaps: transactions and retention leave some."""

    contiguous = False

    def __init__(self, spark: SparkSession, place: KafkaPlace) -> None:
        self._spark = spark
        self._place = place
        self._client = dict(place.client) | (_unchecked(place) if place.trust_any else {})
        self._patience = _FIRST_SECONDS
        self.uri = place.uri
        self.options = place.options

    def stream(self, spark: SparkSession) -> DataFrame:
        """The messages from the earliest on, as a stream; a hole in them is an error."""
        self._check_topics()
        # Spark 4.1.1 has two readers for Kafka. The newer one fails when a batch that was cut short is done again
        # (SPARK-57438): it reports how far it is from the newest message before it has asked for that.
        spark.conf.set(
            "spark.sql.streaming.disabledV2MicroBatchReaders", "org.apache.spark.sql.kafka010.KafkaSourceProvider"
        )
        place = self._place
        chosen = {"subscribe": ",".join(place.topics)} if place.pattern is None else {"subscribePattern": place.pattern}
        return (
            spark.readStream.format("kafka")
            .options(**self._brokers(), **chosen)
            .option("startingOffsets", "earliest")
            .option("failOnDataLoss", "true")
            .option("maxOffsetsPerTrigger", place.offsets_per_batch)
            .option("maxRecordsPerPartition", _MESSAGES_PER_TASK)
            .load()
        )

    def batch(self, messages: DataFrame) -> DataFrame:
        """A micro-batch as the ranges that Spark planned for it, for tasks to fetch.

        Spark has checked by then that nothing is missing. Without librdkafka the messages come through Java.
        """
        if find_spec("confluent_kafka") is None:
            return messages
        names = [range_.name for range_ in self._ranges(messages)]
        return messages.sparkSession.createDataFrame(pa.table({SEGMENT: pa.array(names, pa.string())}))

    def _ranges(self, messages: DataFrame) -> Iterator[Range]:
        for task in messages._jdf.queryExecution().toRdd().partitions():
            found = task.offsetRange()
            at = found.topicPartition()
            yield Range(at.topic(), at.partition(), found.fromOffset(), found.untilOffset(), self._place.native)

    def ends(self) -> Mapping[Partition, int]:
        """All partitions there are now, each with the offset after its last message; 0 where none is left to read.

        A topic that is no longer fed loses its messages in the end. Nobody should wait for those.
        """
        first, last = self._offsets("earliest", "latest")
        return {at: end if first[at] < end else 0 for at, end in last.items()}

    def sample(self, count: int) -> Iterable[Message]:
        """Some of the first messages of every partition."""
        first, last = self._offsets("earliest", "latest")
        wanted = {at: (start, min(start + count, last[at])) for at, start in first.items()}
        rows = self._read({at: bounds for at, bounds in wanted.items() if bounds[0] < bounds[1]})
        return [] if rows is None else list(_messages(rows).values())

    def fetch(self, positions: Iterable[Position]) -> Mapping[Position, Message]:
        """The messages at some places."""
        wanted: dict[Partition, list[int]] = {}
        for at in positions:
            wanted.setdefault(Partition.of(at), []).append(at.offset)
        rows = self._read({at: (min(offsets), max(offsets) + 1) for at, offsets in wanted.items()})
        if rows is None:
            return {}
        places = [(at.topic, at.number, offset) for at, offsets in wanted.items() for offset in offsets]
        asked = self._spark.createDataFrame(places, "topic string, partition int, offset long")
        return _messages(rows.join(asked.hint("broadcast"), ["topic", "partition", "offset"], "left_semi"))

    def _read(self, wanted: Mapping[Partition, tuple[int, int]]) -> DataFrame | None:
        """The messages from one offset of a partition to before another; ``None`` where none are wanted."""
        if not wanted:
            return None
        return (
            self._spark.read.format("kafka")
            .options(**self._brokers())
            .option("assign", json.dumps(_by_topic({at: at.number for at in wanted}, list)))
            .option("startingOffsets", _offsets_json({at: start for at, (start, _) in wanted.items()}))
            .option("endingOffsets", _offsets_json({at: end for at, (_, end) in wanted.items()}))
            .load()
            .select("topic", "partition", "offset", "key", "value")
        )

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

    def _brokers(self) -> dict[str, str]:
        client = {f"kafka.{name}": value for name, value in self._client.items()}
        return client | {"kafka.bootstrap.servers": self._place.brokers}

    def _check_topics(self) -> None:
        present: set[str] = self._asked(lambda admin: set(admin.listTopics().names().get()))
        missing = [topic for topic in self._place.topics if topic not in present]
        if missing:
            raise SyncError(
                f"{self.uri}: there is no topic {', '.join(missing)}; create it, or name topics by ?pattern= to take "
                "them as they come"
            )

    def _offsets(self, *which: str) -> list[dict[Partition, int]]:
        """The offsets of all partitions, as of one moment after the other."""
        jvm: Any = self._spark._jvm

        def ask(admin: Any) -> list[dict[Partition, int]]:
            topics = jvm.java.util.ArrayList()
            for topic in self._topics(admin):
                topics.add(topic)
            described = admin.describeTopics(topics).allTopicNames().get()
            places = [
                jvm.org.apache.kafka.common.TopicPartition(topic, partition.partition())
                for topic in list(described.keySet())
                for partition in described.get(topic).partitions()
            ]
            return [offsets(admin, places, name) for name in which]

        def offsets(admin: Any, places: list[Any], name: str) -> dict[Partition, int]:
            wanted = jvm.java.util.HashMap()
            for place in places:
                wanted.put(place, getattr(jvm.org.apache.kafka.clients.admin.OffsetSpec, name)())
            found = admin.listOffsets(wanted).all().get()
            return {Partition(at.topic(), at.partition()): found.get(at).offset() for at in list(found.keySet())}

        found: list[dict[Partition, int]] = self._asked(ask)
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
        for name, value in {**self._client, "bootstrap.servers": self._place.brokers}.items():
            settings.put(name, value)
        settings.put("default.api.timeout.ms", str(self._patience * 1000))
        settings.put("request.timeout.ms", str(_FIRST_SECONDS * 1000 // 2))
        try:
            admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
            try:
                answer = question(admin)
            finally:
                admin.close()
        except Py4JJavaError as error:
            cause = error.java_exception.getCause() or error.java_exception
            raise SyncError(f"{self.uri}: {cause.toString()}") from error
        self._patience = _LATER_SECONDS
        return answer


def _unchecked(place: KafkaPlace) -> dict[str, str]:
    """Settings to trust whatever certificates the brokers show: Java's client has no switch for it."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    shown = []
    for broker in place.brokers.split(","):
        host, _, port = broker.rpartition(":")
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), _FIRST_SECONDS) as plain,
                context.wrap_socket(plain, server_hostname=host.strip("[]")) as secured,
            ):
                certificate = secured.getpeercert(binary_form=True)
        except OSError as error:
            raise SyncError(f"{place.uri}: {broker} does not talk TLS: {error}") from error
        if certificate is not None:
            shown.append(ssl.DER_cert_to_PEM_cert(certificate))
    return trusting("".join(shown))


def _messages(rows: DataFrame) -> dict[Position, Message]:
    return {
        Position(row.topic, row.partition, row.offset): Message(_bytes(row.key), _bytes(row.value))
        for row in rows.collect()
    }


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def _by_topic(values: Mapping[Partition, Any], gather: Callable[[Iterable[Any]], Any]) -> dict[str, Any]:
    topics: dict[str, list[Any]] = {}
    for at, value in values.items():
        topics.setdefault(at.topic, []).append(value)
    return {topic: gather(found) for topic, found in topics.items()}


def _offsets_json(offsets: Mapping[Partition, int]) -> str:
    return json.dumps(_by_topic({at: (str(at.number), offset) for at, offset in offsets.items()}, dict))
