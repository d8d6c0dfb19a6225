"""How much CPU does a sync take, against the way one would write it by hand?

A topic of Canal-JSON changes (60 inserts to 30 updates to 10 deletes) in files goes into an Iceberg table in batches.
``pipelines.py`` says what the ways are and how they are measured.

    python benchmarks/bench_sync.py --rows 200000 --batch 50000 --columns 6      a quick run
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines import END, HEADS, OPTIONS, OWN, TOPIC, WAYS, child, compared, line, timed, ways
from tidewire.codec import Options
from tidewire.topic.files import FileTopics
from tidewire.workload.bulk import Bulk
from tidewire.workload.delivery import Delivery

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidewire.spark.source import Source

ROWS, BATCH, COLUMNS = 1_000_000, 250_000, (6, 20)
FILES_PER_BATCH = 8
SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"

MOST_GROWTH = 1.5
"""The driver's memory may grow so much when the topic is ten times as long."""


def written(folder: Path, rows: int, batch: int, columns: int) -> None:
    """A topic of one partition, in files of an eighth of a batch, and the table it leads to."""
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


def run_child(way: str, folder: Path, lake: Path) -> None:
    """One way over the files."""
    topics = FileTopics(folder / "topics")

    def source_of(spark: SparkSession) -> Source:
        from tidewire.spark.source import FileSource

        return FileSource(topics, files_per_batch=FILES_PER_BATCH)

    def stream_of(spark: SparkSession) -> DataFrame:
        return (
            spark.readStream.schema(SCHEMA)
            .option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.parquet")
            .option("maxFilesPerTrigger", FILES_PER_BATCH)
            .parquet(str(topics.folder))
        )

    child(ways(source_of, stream_of, folder)[way], folder, lake)


def measured(rows: int, batch: int, columns: int, folder: Path) -> list[dict[str, Any]]:
    """All ways over the same topic."""
    written(folder, rows, batch, columns)
    found = {way: timed(__file__, way, str(folder), str(folder / f"lake{n}")) for n, way in enumerate(WAYS)}
    return compared(found, rows, batch, columns)


def memory(rows: int, folder: Path) -> dict[str, Any]:
    """The driver's memory for a topic and for one ten times as long, in batches of the same size."""
    peaks = []
    for size in (rows // 10, rows):
        place = folder / str(size)
        written(place, size, rows // 10, 6)
        peaks.append(timed(__file__, OWN, str(place), str(place / "lake"))["memory"])
    return {"way": "memory", "rows": rows, "memory_mb": peaks, "ratio": peaks[1] / peaks[0], "limit": MOST_GROWTH}


def results(rows: int, batch: int, columns: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Each way and width, and the driver's memory, as they are done."""
    with tempfile.TemporaryDirectory(prefix="tidewire-bench-") as name:
        for width in columns:
            yield from measured(rows, batch, width, Path(name, str(width)))
        yield memory(rows // 2, Path(name, "memory"))


def measure(rows: int = ROWS, batch: int = BATCH, columns: Iterable[int] = COLUMNS) -> list[dict[str, Any]]:
    """Each way and width: rows per CPU-second, how many times that tidewire does, and the least it must."""
    return list(results(rows, batch, columns))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--columns", type=int, nargs="+", default=list(COLUMNS))
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        way, folder, lake = arguments.child
        run_child(way, Path(folder), Path(lake))
        return
    print(HEADS)
    for found in results(arguments.rows, arguments.batch, arguments.columns):
        if found["way"] == "memory":
            small, large = found["memory_mb"]
            print(f"driver's memory {small} MB, for ten times the topic {large} MB", end=", ")
            print(f"ratio {found['ratio']:.2f}, limit {found['limit']:.2f}")
            continue
        print(line(found), flush=True)


if __name__ == "__main__":
    main()
