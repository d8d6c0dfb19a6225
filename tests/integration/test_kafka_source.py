"""A real Kafka as a source: partitions, offsets, ranges, and what becomes of them over time. No Spark takes part."""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from integration.kafka import Cluster, kafka
from integration.kafka_topics import PATIENCE, Background, created, deleted, emptied, grown, send
from tidewire.errors import BrokerError, SyncError
from tidewire.kafka import fetch
from tidewire.kafka.client import KafkaClient
from tidewire.kafka.fetch import fetched
from tidewire.kafka.uri import KafkaAddress
from tidewire.model import Message, Position
from tidewire.spark.source import Extent, OffsetRange, open_source, planned_ranges
from tidewire.spark.source.kafka import KafkaSource
from tidewire.sync.manifest import Partition

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with kafka() as running:
        yield running


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return str(request.node.name)[:100].replace("[", "-").replace("]", "")


class SetClock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def numbers(topic: str, count: int, partitions: int = 1) -> Iterator[tuple[str, int, Message]]:
    return ((topic, number % partitions, Message(None, b"%d" % number)) for number in range(count))


def source_of(cluster: Cluster, topics: str, clock: SetClock | None = None) -> KafkaSource:
    address = KafkaAddress.parse(f"kafka://{cluster.bootstrap}/{topics}")
    return KafkaSource(address, clock=clock or SetClock(), patience=PATIENCE)


def bounds(source: KafkaSource) -> dict[tuple[str, int], tuple[int, int]]:
    return {(at.topic, at.number): (extent.first, extent.end) for at, extent in source.partitions().items()}


def read(source: KafkaSource, topic: str, start: int, end: int, partition: int = 0) -> list[tuple[int, bytes]]:
    """The messages of a range, read as an executor reads them."""
    fetcher = pickle.loads(pickle.dumps(source.fetcher))
    found: list[tuple[int, bytes]] = []
    for batch in fetcher.batches(OffsetRange(Partition(topic, partition), start, end)):
        assert batch.schema.names == ["key", "value", "topic", "partition", "offset"]
        assert set(batch.column("topic").to_pylist()) == {topic}
        assert set(batch.column("partition").to_pylist()) == {partition}
        found += zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)
    return found


def test_messages_are_found_by_their_positions(cluster: Cluster, topic: str) -> None:
    created(cluster, topic, partitions=2)
    send(cluster, ((topic, number % 2, Message(b"k" if number % 3 else None, b"%d" % number)) for number in range(20)))
    emptied(cluster, topic, 1, before=2)
    source = source_of(cluster, topic)
    wanted = [Position(topic, 0, 9), Position(topic, 0, 0), Position(topic, 1, 4)]
    gone = [Position(topic, 1, 1), Position(topic, 0, 10), Position(topic, 2, 0), Position("unknown", 0, 0)]

    assert source.fetch([*wanted, *gone]) == {
        Position(topic, 0, 0): Message(None, b"0"),
        Position(topic, 0, 9): Message(None, b"18"),
        Position(topic, 1, 4): Message(None, b"9"),
    }
    assert source.fetch([]) == {}
    assert {message.value for message in source.sample(2)} == {b"0", b"2", b"5", b"7"}
    assert bounds(source) == {(topic, 0): (0, 10), (topic, 1): (2, 10)}


def test_ranges_are_read_whole_in_any_order_by_one_consumer(cluster: Cluster, topic: str) -> None:
    created(cluster, topic, partitions=1)
    send(cluster, numbers(topic, 20_000))
    source, chance = source_of(cluster, topic), random.Random(7)
    ranges = planned_ranges(source.partitions(), {}, 100_000, per_task=1000)
    assert len(ranges) == 20
    chance.shuffle(ranges)

    for range_ in ranges:
        if chance.random() < 0.5:  # a reader that stops early leaves nothing behind
            stopped: Any = source.fetcher.batches(OffsetRange(range_.partition, chance.randrange(19_000), 20_000))
            next(stopped)
            stopped.close()
        expected = [(offset, b"%d" % offset) for offset in range(range_.start, range_.end)]
        assert read(source, topic, range_.start, range_.end) == expected

    assert sum(len(kept) for key, kept in fetch._idle.items() if dict(key[1]) == source.fetcher.settings) == 1
    source.close()
    assert not any(dict(key[1]) == source.fetcher.settings for key in fetch._idle)


def test_a_partition_that_ends_in_transaction_markers_is_finished(cluster: Cluster, topic: str) -> None:
    created(cluster, topic, partitions=1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions()
    for number in range(3):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.commit_transaction()
    source = source_of(cluster, topic)
    (range_,) = planned_ranges(source.partitions(), {}, 100)

    assert (range_.start, range_.end) == (0, 6)
    assert read(source, topic, 0, 6) == [(0, b"0"), (2, b"1"), (4, b"2")]
    assert read(source, topic, 5, 6) == []
    assert read(source, topic, 1, 2) == []
    assert read(source, topic, 1, 4) == [(2, b"1")]
    assert planned_ranges(source.partitions(), {range_.partition: range_.end}, 100) == []


def test_a_compacted_partition_is_read_with_its_gaps(cluster: Cluster, topic: str) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0001", "segment.ms": "10"}
    created(cluster, topic, partitions=1, config=config)
    source = source_of(cluster, topic)
    for number in range(2000):  # until the broker has compacted
        send(cluster, [(topic, 0, Message(b"same", b"%d" % number))])
        end = bounds(source)[topic, 0][1]
        found = read(source, topic, 0, end)
        if len(found) < end:
            break

    assert len(found) < end
    assert found[-1] == (end - 1, b"%d" % (end - 1))
    assert read(source, topic, 0, 1) == []


def test_growing_partitions_and_new_topics_are_found_and_offsets_are_always_new(cluster: Cluster, topic: str) -> None:
    clock = SetClock()
    created(cluster, f"{topic}.a", partitions=1)
    source = source_of(cluster, f"?pattern={topic}\\..*", clock)
    assert bounds(source) == {(f"{topic}.a", 0): (0, 0)}

    grown(cluster, f"{topic}.a", 2)
    created(cluster, f"{topic}.b", f"{topic}x", partitions=1)
    send(cluster, numbers(f"{topic}.a", 4, 2))
    assert bounds(source) == {(f"{topic}.a", 0): (0, 2)}

    clock.now = 5
    assert bounds(source) == {(f"{topic}.a", 0): (0, 2), (f"{topic}.a", 1): (0, 2), (f"{topic}.b", 0): (0, 0)}


def test_a_topic_that_was_created_this_moment_is_waited_for(cluster: Cluster, topic: str) -> None:
    clock = SetClock()
    source = source_of(cluster, f"?pattern={topic}.*", clock)
    for number in range(20):  # some of them have no leaders yet when they are asked for
        created(cluster, f"{topic}.{number}", partitions=10)
        clock.now += 5
        while (f"{topic}.{number}", 0) not in (found := bounds(source)):
            clock.now += 5

        assert len(found) == 10 * (number + 1)


def test_a_topic_that_was_created_again_has_another_id(cluster: Cluster, topic: str) -> None:
    created(cluster, topic, partitions=1)
    send(cluster, numbers(topic, 3))
    source = source_of(cluster, topic)
    (before,) = source.partitions().values()

    deleted(cluster, topic)
    created(cluster, topic, partitions=1)
    send(cluster, numbers(topic, 2))
    (shorter,) = source.partitions().values()
    send(cluster, numbers(topic, 5))
    (longer,) = source_of(cluster, topic).partitions().values()

    assert (before.end, shorter.end, longer.end) == (3, 2, 7)
    assert before.topic_id != shorter.topic_id == longer.topic_id


def test_a_topic_that_is_deleted_is_missed(cluster: Cluster, topic: str) -> None:
    created(cluster, f"{topic}.a", f"{topic}.b", partitions=1)
    named, matched = source_of(cluster, f"{topic}.a,{topic}.b"), source_of(cluster, f"?pattern={topic}.*")
    assert bounds(named).keys() == bounds(matched).keys() == {(f"{topic}.a", 0), (f"{topic}.b", 0)}

    deleted(cluster, f"{topic}.b")

    assert bounds(matched).keys() == {(f"{topic}.a", 0)}
    with pytest.raises(SyncError, match=rf"there is no topic {topic}\.b; create it, or name topics by \?pattern="):
        named.partitions()


def test_a_topic_whose_messages_have_all_expired_has_an_empty_extent(cluster: Cluster, topic: str) -> None:
    created(cluster, topic, partitions=1)
    send(cluster, numbers(topic, 3))
    emptied(cluster, topic)
    source = source_of(cluster, topic)

    assert bounds(source) == {(topic, 0): (3, 3)}
    assert planned_ranges(source.partitions(), {}, 100) == []
    assert source.sample(5) == []


def test_a_range_whose_messages_are_gone_is_an_error(cluster: Cluster, topic: str) -> None:
    created(cluster, topic, partitions=1)
    send(cluster, numbers(topic, 10))
    emptied(cluster, topic, before=4)
    source = source_of(cluster, topic)

    with pytest.raises(SyncError, match=rf"{topic}\[0\]: messages from offset 2 on are gone .*has offsets 4 to 10"):
        read(source, topic, 2, 8)
    with pytest.raises(SyncError, match=rf"{topic}\[0\]: messages from offset 50 on are gone"):
        read(source, topic, 50, 60)
    assert [offset for offset, _ in read(source, topic, 4, 8)] == [4, 5, 6, 7]


def test_what_does_not_come_is_waited_for_and_then_named(cluster: Cluster, topic: str) -> None:
    created(cluster, topic, partitions=1)
    send(cluster, numbers(topic, 10))
    settings = {"bootstrap.servers": cluster.bootstrap}

    with pytest.raises(BrokerError, match=rf"{topic}\[0\]: nothing came from offset 10 on for 0.1 seconds") as told:
        list(fetched(settings, (topic, 0), 4, 12, patience=0.1))
    assert told.value.transient
    assert pickle.loads(pickle.dumps(told.value)).transient
    assert cluster.bootstrap in str(told.value)


def test_a_broker_that_restarts_is_waited_for(tmp_path: Path) -> None:
    with kafka() as cluster:
        created(cluster, "feed", partitions=1)
        send(cluster, numbers("feed", 10))
        source = source_of(cluster, "feed")
        assert len(read(source, "feed", 0, 5)) == 5
        cluster.brokers[0].stop()
        again = Background(cluster.brokers[0].start)

        assert bounds(source) == {("feed", 0): (0, 10)}
        assert len(read(source, "feed", 5, 10)) == 5
        again.done()
        cluster.wait()


@pytest.mark.parametrize("broker", ["127.0.0.1:1", "nowhere.invalid:9092"])
def test_a_broker_that_is_not_there_is_named(broker: str) -> None:
    client = KafkaClient({"bootstrap.servers": broker}, first_seconds=0.5)

    with pytest.raises(BrokerError, match=rf"Kafka at {broker}: no answer for 0.5 seconds: .*{broker}") as told:
        client.names()
    assert told.value.transient
    assert "\n" not in str(told.value)


def test_topics_that_do_not_exist_are_named(cluster: Cluster) -> None:
    source = open_source(f"kafka://{cluster.bootstrap}/missing,unknown")

    with pytest.raises(SyncError, match=r"there is no topic missing, unknown; create it, or name topics by \?pattern="):
        source.partitions()
    assert open_source(f"kafka://{cluster.bootstrap}/?pattern=missing").partitions() == {}


def test_lag_tools_see_how_far_a_sync_is(cluster: Cluster, topic: str) -> None:
    created(cluster, topic, partitions=2)
    source = source_of(cluster, f"{topic}?consumer-group=g-{topic}")
    source_of(cluster, topic).committed({Partition(topic, 0): 1})

    source.committed({Partition(topic, 0): 3})
    source.committed({Partition(topic, 0): 3, Partition(topic, 1): 4})

    found = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": f"g-{topic}"}).committed(
        [TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=PATIENCE
    )
    assert [place.offset for place in found] == [3, 4]


def test_a_source_without_messages_has_extents(cluster: Cluster, topic: str) -> None:
    created(cluster, topic, partitions=1)
    source = source_of(cluster, topic)
    (extent,) = source.partitions().values()

    assert extent == Extent(0, 0, extent.topic_id)
    assert extent.topic_id
    assert source.identity == f"kafka:///{topic}"
