"""What does a message cost on its way from Kafka into Arrow?

Narrow Canal-JSON inserts in a real broker are read by ``consume(n)`` of confluent-kafka, which hands over what
librdkafka has in its queue: alone, as a sync does it (into columns), with the native kernel behind it, and by
``poll()``, one at a time. The broker's CPU time is not counted, librdkafka's threads are.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench_arrow_decode import messages
from tidewire.arrow import BatchDecoder
from tidewire.kafka.fetch import fetched
from tidewire.spark.source.base import OffsetRange
from tidewire.spark.source.kafka import KafkaFetcher
from tidewire.sync.manifest import Partition

COPIES = 200
TOPIC = "fetch"
ROUNDS = 5
MOST_COLUMNS = 1.3
"""The most that fetching into columns may take, in times of fetching alone."""

PATIENCE = 120
TESTS = Path(__file__).parents[1] / "tests"


def produced(brokers: str) -> int:
    """Write the topic; how many messages it has."""
    admin = AdminClient({"bootstrap.servers": brokers})
    for created in admin.create_topics([NewTopic(TOPIC, 1, 1)]).values():
        created.result()
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    batch = messages("canal-json-narrow").to_pylist()
    for _ in range(COPIES):
        for message in batch:
            producer.produce(TOPIC, key=message["key"], value=message["value"], partition=0)
        producer.poll(0)
    if producer.flush(PATIENCE):
        raise RuntimeError("the broker did not take all messages")
    return COPIES * len(batch)


def best(read: Callable[[], int], count: int) -> float:
    """Nanoseconds of CPU time a message, in the best of some rounds after one of warm-up."""
    spent = []
    for _ in range(ROUNDS + 1):
        start = time.process_time()
        if read() != count:
            raise RuntimeError("not all messages came")
        spent.append(time.process_time() - start)
    return min(spent[1:]) / count * 1e9


def polled(brokers: str, count: int) -> int:
    """Read the topic one message at a time."""
    settings = {"bootstrap.servers": brokers, "group.id": "poll", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([TOPIC])
    found = 0
    while found < count:
        message = consumer.poll(PATIENCE)
        found += message is not None and message.error() is None
    consumer.close()
    return found


def objects(brokers: str, count: int) -> float:
    """How many of Python's memory blocks a message of ``consume(n)`` holds."""
    lists = fetched({"bootstrap.servers": brokers}, (TOPIC, 0), 0, count)
    first, before = next(lists), sys.getallocatedblocks()
    second = next(lists)
    found = (sys.getallocatedblocks() - before) / len(second)
    del first
    lists.close()
    return found


def results() -> Iterator[dict[str, Any]]:
    """Each way, as it is done."""
    sys.path.insert(0, str(TESTS))
    from integration.kafka import kafka

    with kafka() as cluster:
        brokers = cluster.bootstrap
        count = produced(brokers)
        settings = {"bootstrap.servers": brokers}
        fetcher, whole = KafkaFetcher(settings), OffsetRange(Partition(TOPIC, 0), 0, count)
        decoder = BatchDecoder("canal-json", before=False)
        ways: dict[str, Callable[[], int]] = {
            "consume(n) alone": lambda: sum(map(len, fetched(settings, (TOPIC, 0), 0, count))),
            "consume(n) into columns": lambda: sum(batch.num_rows for batch in fetcher.batches(whole)),
            "consume(n) into columns, decoded": lambda: sum(
                rows.num_rows for batch in fetcher.batches(whole) for _, rows in decoder.decode(batch).batches
            ),
            "poll(), one at a time": lambda: polled(brokers, count),
        }
        each, alone = objects(brokers, count), 0.0
        for way, read in ways.items():
            found = best(read, count)
            alone = alone or found
            limit = {"limit": MOST_COLUMNS} if way.endswith("columns") else {}
            yield {"way": way, "fetch_ns": found, "ratio": found / alone, "objects": each, **limit}


def measure() -> list[dict[str, Any]]:
    """Each way: CPU time a message, and how many times that of ``consume(n)`` alone it is."""
    return list(results())


if __name__ == "__main__":
    for row in results():
        print(f"{row['way']:34} {row['fetch_ns']:7.0f} ns {row['ratio']:5.2f} {row['objects']:5.1f} objects a message")
