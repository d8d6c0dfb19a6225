"""How much CPU does a sync from Kafka take, against the way one would write it by hand?

A topic of two partitions with Canal-JSON changes (60 inserts to 30 updates to 10 deletes) in a real broker goes into an
Iceberg table in batches. ``pipelines.py`` says what the ways are and how they are measured; the broker's CPU is not
counted, that of both ways' Kafka clients is.

    python benchmarks/bench_kafka.py --rows 200000 --batch 50000 --columns 6      a quick run
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from pipelines import (
    END,
    OPTIONS,
    asked,
    child,
    command,
    connector,
    measured,
    ways,
    with_warm_up,
)
from tidewire.codec import Options
from tidewire.workload.bulk import Bulk
from tidewire.workload.delivery import Delivery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidewire.spark.source import Source

PARTITIONS = 2
PIECES_PER_BATCH = 8
"""Watermarks come so often."""

PATIENCE = 120
TESTS = Path(__file__).parents[1] / "tests"


def produced(brokers: str, topic: str, folder: Path, rows: int, batch: int, columns: int) -> None:
    """Write a topic, and beside it the table it leads to."""
    admin = AdminClient({"bootstrap.servers": brokers})
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
        future.result()
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 20, "queue.buffering.max.messages": 2_000_000})
    bulk = Bulk(1, rows, columns)
    delivery = Delivery("canal-json", Options.parse(OPTIONS), topic, PARTITIONS)
    for part in bulk.parts(delivery, size=batch // PIECES_PER_BATCH):
        for row in part.messages.to_pylist():
            producer.produce(topic, key=row["key"], value=row["value"], partition=part.partition)
        producer.poll(0)
    if producer.flush(PATIENCE):
        raise RuntimeError("the broker did not take all messages")
    folder.mkdir(parents=True)
    pq.write_table(bulk.end(), folder / END)


def run_child(way: str, folder: Path, lake: Path, brokers: str, topic: str, batch: str) -> None:
    """One way over the topic."""

    def source_of() -> Source:
        from tidewire.spark.source import open_source

        return open_source(f"kafka://{brokers}/{topic}?max-offsets-per-batch={batch}")

    def stream_of(spark: SparkSession) -> DataFrame:
        return (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", brokers)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .option("maxOffsetsPerTrigger", int(batch))
            .load()
        )

    child(ways(source_of, stream_of, folder, connector())[way], folder, lake)


def results(rows: int, batch: int, columns: Iterable[int], rounds: int) -> Iterator[dict[str, Any]]:
    """Each way and width, as they are done."""
    sys.path.insert(0, str(TESTS))
    from integration.kafka import kafka

    with tempfile.TemporaryDirectory(prefix="tidewire-bench-") as name, kafka() as cluster:
        for width in columns:
            folder, topic = Path(name, str(width)), f"feed{width}"
            produced(cluster.bootstrap, topic, folder, with_warm_up(rows, batch), batch, width)
            yield from measured(__file__, folder, rows, batch, width, rounds, cluster.bootstrap, topic, str(batch))


def measure() -> list[dict[str, Any]]:
    """Each way and width: rows per CPU-second, how many times that tidewire does, and the least it must."""
    return list(results(**asked()))


if __name__ == "__main__":
    command(__doc__, results, run_child)
