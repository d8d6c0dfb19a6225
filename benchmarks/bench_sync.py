"""How much CPU does a sync take, against the way one would write it by hand?

A topic of Canal-JSON changes (60 inserts to 30 updates to 10 deletes) goes into an Iceberg table in batches. By hand
that is ``from_json``, ``row_number`` per key and ``MERGE INTO`` in ``foreachBatch``, once into a table with default
settings and once into a merge-on-read one. Each way runs in a process of its own, in turns; CPU is that of the whole
process tree, JVM and Python workers included, after two batches of warm-up. Every table is compared with the state
that the generator knows.

    python benchmarks/bench_sync.py --rows 200000 --batch 50000 --columns 6      a quick run
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidewire.codec import Options
from tidewire.topic.files import FileTopics
from tidewire.workload.bulk import Bulk
from tidewire.workload.delivery import Delivery

ROWS, BATCH, COLUMNS = 1_000_000, 250_000, (6, 20)
WARM_UP = 2
FILES_PER_BATCH = 8
TOPIC = "feed"
SCHEMA = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
OPTIONS = {"enable-tidb-extension": "true"}
SETTINGS = {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "2"}

LEAST = {"by hand, default table": 1.6, "by hand, merge-on-read": 1.0}
"""tidewire must do so many times the rows per CPU-second."""

MOST_GROWTH = 1.5
"""The driver's memory may grow so much when the topic is ten times as long."""

PROPERTIES = {
    "by hand, default table": "",
    "by hand, merge-on-read": "TBLPROPERTIES ('format-version'='3', 'write.merge.mode'='merge-on-read', "
    "'write.update.mode'='merge-on-read', 'write.delete.mode'='merge-on-read')",
}


def cpu_seconds() -> float:
    """The CPU time of this process and everything below it, ended children included."""
    parents, times = {}, {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            pid = int(folder.name)
            parents[pid], times[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    below = {os.getpid()}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below |= more
        grown = bool(more)
    return sum(times[pid] for pid in below) / os.sysconf("SC_CLK_TCK")


def peak_memory() -> int:
    """The most memory this process has had, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) // 1024


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
    pq.write_table(bulk.end(), folder / "end.parquet")


def run_tidewire(topics: FileTopics, lake: Path) -> dict[str, Any]:
    """A sync; what each batch took, and what of it was staging."""
    from tidewire.spark.session import session
    from tidewire.spark.snapshot import snapshot
    from tidewire.spark.source import FileSource
    from tidewire.spark.sync import Job, Point, Report, Sync
    from tidewire.spark.targets import open_target
    from tidewire.spark.work import Work

    class Meter:
        def __init__(self) -> None:
            self.batches: list[dict[str, float]] = []
            self.last = self.staged = 0.0

        def reached(self, point: Point) -> None:
            if point is Point.STAGED:
                self.staged = cpu_seconds()

        def finished(self, report: Report) -> None:
            now = cpu_seconds()
            self.batches.append({"cpu": now - self.last, "stage": self.staged - self.last})
            self.last = cpu_seconds()

    spark = session("bench", master="local[2]", conf=SETTINGS)
    meter = Meter()
    target = open_target(spark, str(lake), "iceberg")
    source = FileSource(topics, files_per_batch=FILES_PER_BATCH)
    meter.last = cpu_seconds()
    Sync(spark, source, target, Work.of(lake), Job("canal-json", OPTIONS), meter).run(once=True)
    return {"batches": meter.batches, "table": snapshot(spark, str(lake))["shop.orders"], "spark": spark}


def run_by_hand(topics: FileTopics, lake: Path, properties: str) -> dict[str, Any]:
    """What a careful person writes without tidewire."""
    from pyspark.sql import DataFrame, Window
    from pyspark.sql import functions as f

    from tidewire.spark.session import iceberg_catalog_conf, session

    lake.mkdir(parents=True)
    spark = session("bench", master="local[2]", conf=SETTINGS | iceberg_catalog_conf("lake", lake))
    types = _spark_types(lake.parent / "end.parquet")
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
    columns = ", ".join(f"{name} {type_}" for name, type_ in types.items())
    spark.sql(f"CREATE TABLE lake.shop.orders ({columns}) USING iceberg {properties}")
    row = ", ".join(f"{name}: string" for name in types)
    shape = f"type string, isDdl boolean, data array<struct<{row}>>, _tidb struct<commitTs: bigint>"
    batches: list[dict[str, float]] = []
    last = cpu_seconds()

    def merge(messages: DataFrame, number: int) -> None:
        nonlocal last
        latest = Window.partitionBy("id").orderBy(f.col("ts").desc(), f.col("offset").desc())
        (
            messages.select("offset", f.from_json(f.col("value").cast("string"), shape).alias("m"))
            .where("m.data is not null and not m.isDdl")
            .select("offset", "m.type", f.col("m._tidb.commitTs").alias("ts"), f.explode("m.data").alias("r"))
            .select("offset", "type", "ts", *(f.col(f"r.{name}").cast(to).alias(name) for name, to in types.items()))
            .withColumn("n", f.row_number().over(latest))
            .where("n = 1")
            .createOrReplaceTempView("changes")
        )
        changed = ", ".join(f"{name} = s.{name}" for name in types)
        names, values = ", ".join(types), ", ".join(f"s.{name}" for name in types)
        messages.sparkSession.sql(
            f"MERGE INTO lake.shop.orders t USING changes s ON t.id = s.id "
            f"WHEN MATCHED AND s.type = 'DELETE' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {changed} "
            f"WHEN NOT MATCHED AND s.type != 'DELETE' THEN INSERT ({names}) VALUES ({values})"
        )
        now = cpu_seconds()
        batches.append({"cpu": now - last})
        last = cpu_seconds()

    stream = (
        spark.readStream.schema(SCHEMA)
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.parquet")
        .option("maxFilesPerTrigger", FILES_PER_BATCH)
        .parquet(str(topics.folder))
    )
    query = (
        stream.writeStream.foreachBatch(merge)
        .option("checkpointLocation", str(lake / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return {"batches": batches, "table": spark.table("lake.shop.orders"), "spark": spark}


def _spark_types(path: Path) -> dict[str, str]:
    from tidewire.arrow import engines

    return {field.name: engines(field.type).spark for field in pq.read_schema(path)}


WAYS: dict[str, Callable[[FileTopics, Path], dict[str, Any]]] = {
    "tidewire": run_tidewire,
    **{name: partial(run_by_hand, properties=properties) for name, properties in PROPERTIES.items()},
}


def child(way: str, folder: Path, lake: Path) -> None:
    """One way, alone in its process: prints what it took as JSON."""
    found = WAYS[way](FileTopics(folder / "topics"), lake)
    memory = peak_memory()  # before the whole table is fetched to be compared
    wanted = pq.read_table(folder / "end.parquet")
    table = found["table"].toArrow().select(wanted.column_names).sort_by("id").cast(wanted.schema)
    print(json.dumps({"batches": found["batches"], "memory": memory, "right": table.equals(wanted)}))
    found["spark"].stop()


def timed(way: str, folder: Path, lake: Path) -> dict[str, Any]:
    """Run a way in a process of its own."""
    command = [sys.executable, __file__, "--child", way, str(folder), str(lake)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(rows: int, batch: int, columns: int, folder: Path) -> list[dict[str, Any]]:
    """All ways over the same topic."""
    written(folder, rows, batch, columns)
    results = []
    for number, way in enumerate(WAYS):
        found = timed(way, folder, folder / f"lake{number}")
        warm = found["batches"][WARM_UP:] or found["batches"][-1:]
        cpu = sum(each["cpu"] for each in warm) / len(warm)
        stage = sum(each.get("stage", 0.0) for each in warm) / len(warm)
        results.append(
            {
                "way": way,
                "columns": columns,
                "cpu": cpu,
                "stage": stage or None,
                "apply": cpu - stage if stage else None,
                "rows_per_cpu_second": batch / cpu,
                "memory_mb": found["memory"],
                "right": found["right"],
            }
        )
    own = results[0]["rows_per_cpu_second"]
    for result in results:
        result["ratio"] = own / result["rows_per_cpu_second"]
        result["limit"] = LEAST.get(result["way"])
    return results


def memory(rows: int, folder: Path) -> dict[str, Any]:
    """The driver's memory for a topic and for one ten times as long, in batches of the same size."""
    peaks = []
    for size in (rows // 10, rows):
        place = folder / str(size)
        written(place, size, rows // 10, 6)
        peaks.append(timed("tidewire", place, place / "lake")["memory"])
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
        child(way, Path(folder), Path(lake))
        return
    heads = (
        f"{'columns':>7} {'rows/CPU-s':>10} {'CPU s':>6} {'stage':>6} {'apply':>6} {'MB':>5} {'ratio':>6} {'limit':>6}"
    )
    print(f"{'CPU-seconds a batch':24} {heads}")
    for found in results(arguments.rows, arguments.batch, arguments.columns):
        if found["way"] == "memory":
            small, large = found["memory_mb"]
            print(f"driver's memory {small} MB, for ten times the topic {large} MB", end=", ")
            print(f"ratio {found['ratio']:.2f}, limit {found['limit']:.2f}")
            continue
        split = [f"{found[name]:6.1f}" if found[name] else f"{'':6}" for name in ("cpu", "stage", "apply")]
        limit = "" if found["limit"] is None else f"{found['limit']:6.2f}"
        print(
            f"{found['way']:24} {found['columns']:7} {found['rows_per_cpu_second']:10.0f} {' '.join(split)} "
            f"{found['memory_mb']:5} {found['ratio']:6.2f} {limit:>6}  {'right' if found['right'] else 'WRONG'}",
            flush=True,
        )


if __name__ == "__main__":
    main()
