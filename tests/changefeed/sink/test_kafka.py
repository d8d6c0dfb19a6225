"""Kafka as a queue and as a source, with a real broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from changefeed.pieces import SetClock
from integration.certificates import Authority
from integration.kafka import BrokerSecurity, Cluster, kafka
from integration.kafka_topics import ends
from tidewire.changefeed.checkpoint import MemoryCheckpoints
from tidewire.changefeed.config.settings import Acks, KafkaSettings
from tidewire.changefeed.config.validate import Request, validate
from tidewire.changefeed.runner import runner_for
from tidewire.changefeed.sink.base import REFRESH_SECONDS
from tidewire.changefeed.sink.kafka import HEADROOM, KafkaQueue, client_settings, producer_settings
from tidewire.changefeed.source import Resolved, open_source
from tidewire.errors import ChangefeedError
from tidewire.kafka.settings import Sasl, Security, Tls
from tidewire.model import Ddl, Message, RowChange
from tidewire.secrets import Secret
from tidewire.workload import Workload, events

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(authority: Authority) -> Iterator[Cluster]:
    with kafka(security=BrokerSecurity(authority, {"writer": "hush"})) as made:
        yield made


@pytest.fixture
def settings(cluster: Cluster) -> KafkaSettings:
    return KafkaSettings((cluster.bootstrap,), "test-client", write_timeout=5.0)


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:8]}"


def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap})


def make(cluster: Cluster, topic: str, partitions: int = 1, **config: str) -> None:
    settings = {name.replace("_", "."): value for name, value in config.items()}
    client = admin(cluster)
    client.create_topics([NewTopic(topic, partitions, 1, config=settings)])[topic].result()


def read(cluster: Cluster, topic: str, partition: int = 0) -> list[tuple[bytes | None, bytes | None]]:
    """Everything in a partition."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "auto.offset.reset": "earliest"})
    at = TopicPartition(topic, partition, 0)
    consumer.assign([at])
    end = ends(cluster, topic)[topic, partition]
    found: list[tuple[bytes | None, bytes | None]] = []
    while len(found) < end:
        for message in consumer.consume(1000, 1.0):
            assert message.error() is None
            found.append((message.key(), message.value()))
    consumer.close()
    return found


def test_messages_are_there_in_order_after_a_flush(cluster: Cluster, settings: KafkaSettings, topic: str) -> None:
    queue = KafkaQueue(settings, topic)
    messages = [Message(None if number % 2 else b"", b"%d" % number) for number in range(5000)]

    queue.send(topic, 1, [*messages, Message(b"k", None, (("h", b"v"),))])
    queue.flush()

    assert read(cluster, topic, 1) == [*((message.key, message.value) for message in messages), (b"k", None)]
    assert read(cluster, topic, 0) == []
    queue.close()


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_every_compression_and_acknowledgement_works(
    cluster: Cluster, settings: KafkaSettings, topic: str, compression: str
) -> None:
    for acks in (Acks.ALL, Acks.LEADER):  # what nobody acknowledges may be lost
        queue = KafkaQueue(replace(settings, compression=compression, required_acks=acks), topic)
        queue.send(topic, 0, [Message(None, b"x" * 1000)])
        queue.flush()
        queue.close()

    assert len(read(cluster, topic)) == 2


def test_topics_are_made_as_configured(cluster: Cluster, settings: KafkaSettings, topic: str) -> None:
    queue = KafkaQueue(replace(settings, partition_num=4), topic)

    assert queue.partitions(topic) == 4
    assert queue.partitions(f"{topic}-other") == 4
    found = admin(cluster).list_topics(timeout=10).topics
    assert len(found[topic].partitions) == len(found[f"{topic}-other"].partitions) == 4
    assert KafkaQueue(settings, f"{topic}-default").partitions(f"{topic}-default") == 3


def test_a_topic_that_may_not_be_made_is_an_error(settings: KafkaSettings, topic: str) -> None:
    with pytest.raises(ChangefeedError, match="auto-create-topic") as refusal:
        KafkaQueue(replace(settings, auto_create_topic=False), topic)

    assert refusal.value.code == "CDC:ErrKafkaInvalidConfig"


def test_the_default_topic_uses_no_more_partitions_than_asked(
    cluster: Cluster, settings: KafkaSettings, topic: str
) -> None:
    make(cluster, topic, 3)

    assert KafkaQueue(replace(settings, partition_num=2), topic).partitions(topic) == 2
    with pytest.raises(ChangefeedError, match="partition-num is 5") as refusal:
        KafkaQueue(replace(settings, partition_num=5), topic)
    assert refusal.value.code == "CDC:ErrKafkaInvalidConfig"


def test_new_partitions_of_other_topics_are_seen_after_ten_minutes(
    cluster: Cluster, settings: KafkaSettings, topic: str
) -> None:
    from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

    clock = SetClock()
    make(cluster, topic, 1)
    queue = KafkaQueue(settings, f"{topic}-default", clock)
    assert queue.partitions(topic) == 1

    client = admin(cluster)
    client.create_partitions([NewPartitions(topic, 2)])[topic].result()
    deadline = time.monotonic() + 30
    while len(client.list_topics(timeout=10).topics[topic].partitions) < 2:
        assert time.monotonic() < deadline
    assert queue.partitions(topic) == 1
    clock.now = REFRESH_SECONDS

    assert queue.partitions(topic) == 2


def test_the_message_limit_is_the_smaller_one(cluster: Cluster, settings: KafkaSettings, topic: str) -> None:
    make(cluster, topic, 1, max_message_bytes="5000")

    assert KafkaQueue(settings, topic).message_limit == 5000 - HEADROOM
    assert KafkaQueue(replace(settings, max_message_bytes=4000), topic).message_limit == 4000


def test_what_a_broker_refuses_is_raised(cluster: Cluster, settings: KafkaSettings, topic: str) -> None:
    make(cluster, topic, 1, max_message_bytes="5000")
    queue = KafkaQueue(settings, topic)
    queue.send(topic, 0, [Message(None, b"x" * 6000)])

    with pytest.raises(ChangefeedError, match="MSG_SIZE_TOO_LARGE") as refusal:
        queue.flush()

    assert refusal.value.code == "CDC:ErrKafkaAsyncSendMessage"
    queue.close()


def test_more_than_the_buffer_holds_is_sent_all_the_same(cluster: Cluster, settings: KafkaSettings, topic: str) -> None:
    queue = KafkaQueue(settings, topic)

    queue.send(topic, 0, (Message(None, b"x") for _ in range(150_000)))
    queue.flush()

    assert len(read(cluster, topic)) == 150_000
    queue.close()


def test_too_few_replicas_are_refused(settings: KafkaSettings, topic: str) -> None:
    with pytest.raises(ChangefeedError) as refusal:
        KafkaQueue(replace(settings, replication_factor=3), topic)

    assert refusal.value.code == "CDC:ErrKafkaCreateTopic"


def test_a_broker_that_is_not_there_is_an_error(topic: str) -> None:
    nowhere = KafkaSettings(("127.0.0.1:1",), "client", dial_timeout=0.1, read_timeout=0.1)

    with pytest.raises(ChangefeedError, match="no answer") as refusal:
        KafkaQueue(nowhere, topic)

    assert refusal.value.code == "CDC:ErrKafkaNewProducer"


def test_a_changefeed_writes_to_kafka_and_another_reads_it(cluster: Cluster, topic: str, tmp_path: Path) -> None:
    uri = f"kafka://{cluster.bootstrap}/{topic}?protocol=simple&partition-num=3"
    checked = validate(Request(uri, "feed", now=1 << 62, start_ts=1))
    runner_for(checked.settings, open_source("workload://5?transactions=50"), MemoryCheckpoints(), start_ts=1).run()

    found = list(open_source(f"{uri}&follow=false").read(0))

    expected = list(events(Workload(5, transactions=50)))
    rows = [item for item in found if isinstance(item, RowChange)]
    assert [row.commit_ts for row in rows] == [event.commit_ts for event in expected if isinstance(event, RowChange)]
    assert [item.query for item in found if isinstance(item, Ddl)] == [
        event.query for event in expected if isinstance(event, Ddl)
    ]
    assert isinstance(found[-1], Resolved)
    assert found[-1].place["offsets"].keys() == {topic}


MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
WAYS_IN = [("SSL", ""), *((listener, each) for listener in ("SASL_PLAINTEXT", "SASL_SSL") for each in MECHANISMS)]


@pytest.mark.parametrize(("listener", "mechanism"), WAYS_IN)
def test_brokers_are_reached_by_tls_and_sasl(
    cluster: Cluster, authority: Authority, topic: str, listener: str, mechanism: str
) -> None:
    client = authority.issue(f"client-{topic}")
    secure = KafkaSettings(
        (cluster.brokers[0].addresses[listener],),
        "client",
        security=Security(
            Tls(str(authority.ca), str(client.cert), str(client.key)) if "SSL" in listener else None,
            Sasl(mechanism, "writer", Secret("hush")) if mechanism else None,
        ),
    )

    queue = KafkaQueue(secure, topic)
    queue.send(topic, 0, [Message(None, b"x")])
    queue.flush()

    assert read(cluster, topic) == [(None, b"x")]
    queue.close()


def test_settings_are_put_in_the_clients_words() -> None:
    plain = KafkaSettings(("a:1", "b:2"), "me", max_retry=0, write_timeout=3.0)
    security = Security(Tls("ca.pem", insecure_skip_verify=True), Sasl("SCRAM-SHA-512", "u", Secret("p")))
    secure = replace(plain, security=security)

    assert client_settings(plain)["bootstrap.servers"] == "a:1,b:2"
    assert client_settings(plain)["security.protocol"] == "PLAINTEXT"
    words = client_settings(secure)
    assert (words["security.protocol"], words["ssl.ca.location"]) == ("SASL_SSL", "ca.pem")
    assert (words["sasl.mechanism"], words["sasl.username"], words["sasl.password"]) == ("SCRAM-SHA-512", "u", "p")
    assert words["enable.ssl.certificate.verification"] == "false"
    assert producer_settings(plain)["enable.idempotence"] is True
    assert producer_settings(plain)["message.timeout.ms"] == 3000
    assert producer_settings(replace(plain, required_acks=Acks.LEADER))["enable.idempotence"] is False
