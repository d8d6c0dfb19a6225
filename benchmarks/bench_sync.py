"""How much CPU does a sync take, against the way one would write it by hand?

A topic of Canal-JSON changes (60 inserts to 30 updates to 10 deletes) in files goes into an Iceberg table in batches.
``pipelines.py`` says what the ways are and how they are measured.

    python benchmarks/bench_sync.py --rows 200000 --batch 50000 --columns 6      a quick run
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import (
    END,
    OPTIONS,
    OWN,
    TOPIC,
    asked,
    child,
    command,
    line,
    measured,
    timed,
    ways,
    with_warm_up,
)
from tidewire.codec import Options
from tidewire.topic.files import FileTopics
from tidewire.workload.bulk import Bulk
from tidewire.workload.delivery import Delivery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidewire.spark.source import Source

FILES_PER_BATCH = 16
"""So many that none grows beyond a segment of a file topic, which would make two of it."""

SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"

MOST_GROWTH = 1.5
"""The driver's memory may grow so much when the topic is ten times as long."""


def written(folder: Path, rows: int, batch: int, columns: int) -> None:
    """A topic of one partition, in files of equal parts of a batch, and the table it leads to."""
    bulk = Bulk(1, rows, columns)
    topics = FileTopics(folder / "topics")
    first: list[pa.RecordBatch] = []
    for part in bulk.parts(Delivery("canal-json", Options.parse(OPTIONS), TOPIC, 1), size=batch // FILES_PER_BATCH):
        if part.messages.num_rows == 1:  # the statement that makes the table shares a file with the first rows
            first.append(part.messages)
            continue
        messages = pa.Table.from_batches([*first, part.messages]).combine_chunks().to_batches()[0]
        topics.append(TOPIC, part.partition, messages)
        first = []
    pq.write_table(bulk.end(), folder / END)


def run_child(way: str, folder: Path, lake: Path, batch: str) -> None:
    """One way over the files."""
    topics = FileTopics(folder / "topics")

    def source_of() -> Source:
        from tidewire.spark.source import FileSource

        return FileSource(topics, max_messages=int(batch))

    def stream_of(spark: SparkSession) -> DataFrame:
        return (
            spark.readStream.schema(SCHEMA)
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.parquet")
            .option("maxFilesPerTrigger", FILES_PER_BATCH)
            .parquet(str(topics.folder))
        )

    child(ways(source_of, stream_of, folder)[way], folder, lake)


def memory(rows: int, folder: Path) -> dict[str, Any]:
    """The driver's memory for a topic and for one ten times as long, in batches of the same size."""
    peaks = []
    for size in (rows // 10, rows):
        place = folder / str(size)
        written(place, size, rows // 10, 6)
        peaks.append(timed(__file__, OWN, str(place), str(place / "lake"), str(rows // 10))["memory"])
    return {"way": "memory", "rows": rows, "memory_mb": peaks, "ratio": peaks[1] / peaks[0], "limit": MOST_GROWTH}


def results(rows: int, batch: int, columns: Iterable[int], rounds: int) -> Iterator[dict[str, Any]]:
    """Each way and width, and the driver's memory, as they are done."""
    with tempfile.TemporaryDirectory(prefix="tidewire-bench-") as name:
        for width in columns:
            folder = Path(name, str(width))
            written(folder, with_warm_up(rows, batch), batch, width)
            yield from measured(__file__, folder, rows, batch, width, rounds, str(batch))
        yield memory(rows // 2, Path(name, "memory"))


def measure() -> list[dict[str, Any]]:
    """Each way and width: rows per CPU-second, how many times that tidewire does, and the least it must."""
    return list(results(**asked()))


def shown(found: Mapping[str, Any]) -> str:
    """A line of text for a result."""
    if found["way"] != "memory":
        return line(found)
    small, large = found["memory_mb"]
    return (
        f"driver's memory {small} MB, for ten times the topic {large} MB, "
        f"ratio {found['ratio']:.2f}, limit {found['limit']:.2f}"
    )


if __name__ == "__main__":
    command(__doc__, results, run_child, shown)
