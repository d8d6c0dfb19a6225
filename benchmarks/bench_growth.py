"""Does a batch take time for what changed, or for what there is?

Small batches go through a whole sync, one after the other in one process, while one thing grows: tables beside the one
that changes, tables that all change, partitions that the same rows are spread over, rows the table has already, small
files that batches left with maintenance and without, rows of one transaction. A batch's time is the median of some
after the first two.

    python benchmarks/bench_growth.py --tables 1 10 --busy 1 10 --partitions 1 8 --rows 10000 --batches 40 \\
        --transaction 50000
    python benchmarks/bench_growth.py --only rows --rows 10000 1000000 10000000 100000000
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from growth_topic import OPTIONS, Growing, table, transaction
from pipelines import SETTINGS, cpu_seconds, peak_memory
from tidewire.topic.files import FileTopics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidewire.spark.report import PassReport, Point
    from tidewire.spark.targets import Target
    from tidewire.spark.targets.files import NewFile

TABLES, PARTITIONS, ROWS = (1, 10, 100, 500), (1, 4, 16, 64), (10_000, 100_000, 1_000_000, 10_000_000)
BUSY = (1, 10, 50, 200)
BATCHES, TRANSACTION = 200, 1_000_000
EVERY = 20
"""Batches between two rounds of maintenance."""

ROWS_A_FILE = 1_000_000
"""So many rows of the large tables are written at a time."""

MEASURED = 5
CHANGES = 1000
WARM_UP = 2
ALL = 1_000_000_000

SIZES: Mapping[str, tuple[int, ...]] = {
    "tables": TABLES,
    "busy": BUSY,
    "partitions": PARTITIONS,
    "rows": ROWS,
    "files": (BATCHES,),
    "transaction": (TRANSACTION // 10, TRANSACTION),
}


LIMITS: Mapping[tuple[str, int], float] = {("rows", 10_000_000): 1.5, ("rows", 100_000_000): 4.0}
"""A batch may take so many times the CPU time of the first one of its curve."""

MOST_A_TABLE = 0.12
"""CPU-seconds that each table beyond the first may take in a batch."""


class Meter:
    """What batches take."""

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []
        self.last = (time.perf_counter(), cpu_seconds())

    def reached(self, point: Point) -> None:
        """A batch came to a point."""

    def finished(self, report: PassReport) -> None:
        """Note the time since the last one."""
        now = (time.perf_counter(), cpu_seconds())
        took = {"seconds": now[0] - self.last[0], "cpu": now[1] - self.last[1], "plan": report.sequence}
        self.batches.append(took | {f"{name} s": value for name, value in report.seconds.items()})
        self.last = (time.perf_counter(), cpu_seconds())

    def note(self, line: str) -> None:
        """Note the time of maintenance, which comes between two batches and counts with the next one."""
        if self.batches and line.startswith("maintenance of "):
            self.batches[-1]["maintain s"] = time.perf_counter() - self.last[0]

    def median(self, key: str) -> float:
        """The median of the batches that count."""
        return float(statistics.median(batch[key] for batch in self.batches[WARM_UP:]))


def synced(spark: SparkSession, topics: Path, lake: Path, messages: int, maintain: str = "never") -> Meter:
    """A sync to the end of the topics, so many messages a batch."""
    from tidewire.spark.loop import Job, Loop
    from tidewire.spark.maintain import Every
    from tidewire.spark.source import FileSource
    from tidewire.spark.targets import open_target

    job = Job("canal-json", OPTIONS, maintain=Every.parse(maintain))
    meter = Meter()
    source = FileSource(FileTopics(topics), max_messages=messages)
    Loop(spark, source, open_target(spark, str(lake), "iceberg"), job, meter).run(once=True)
    return meter


def result(question: str, size: int, meter: Meter, **more: Any) -> dict[str, Any]:
    """One point of a curve."""
    median = {"seconds": meter.median("seconds"), "cpu": meter.median("cpu")}
    return {"question": question, "size": size, **median, **more}


def tables(spark: SparkSession, folder: Path, size: int) -> Iterator[dict[str, Any]]:
    """Batches that change one of so many tables."""
    from tidewire.spark.ledger import ledger_of

    topic, lake = Growing(folder / "topics", size), folder / "lake"
    topic.create()
    began = time.perf_counter()
    synced(spark, topic.folder, lake, ALL)
    created = time.perf_counter() - began
    for batch in range(WARM_UP + MEASURED):
        topic.put(range(CHANGES // 10), f"b{batch}")
    meter = synced(spark, topic.folder, lake, CHANGES // 10 + 1)
    documents = ledger_of(str(lake)).list("plans")
    yield result("tables", size, meter, created=created, state=max(entry.size for entry in documents))


def busy(spark: SparkSession, folder: Path, size: int) -> Iterator[dict[str, Any]]:
    """Batches that change a hundred rows of each of so many tables."""
    topic, lake = Growing(folder / "topics", size), folder / "lake"
    topic.create()
    synced(spark, topic.folder, lake, ALL)
    for batch in range(WARM_UP + MEASURED):
        topic.put_in_all(range(100), f"b{batch}")
    yield result("busy", size, synced(spark, topic.folder, lake, 100 * size + 1))


def partitions(spark: SparkSession, folder: Path, size: int) -> Iterator[dict[str, Any]]:
    """The same rows out of so many partitions."""
    topic, lake = Growing(folder / "topics", 1, size), folder / "lake"
    topic.create()
    for batch in range(WARM_UP + MEASURED):
        topic.put(range(CHANGES), f"b{batch}")
    yield result("partitions", size, synced(spark, topic.folder, lake, CHANGES + size))


def rows(spark: SparkSession, folder: Path, size: int) -> Iterator[dict[str, Any]]:
    """Batches that change a thousand rows of so many."""
    from tidewire.spark.targets import open_target

    topic, lake = Growing(folder / "topics", 1), folder / "lake"
    topic.create()
    synced(spark, topic.folder, lake, ALL)
    fill(open_target(spark, str(lake), "iceberg"), size)
    for batch in range(WARM_UP + MEASURED):
        topic.put(range(batch, size, max(1, size // CHANGES)), f"b{batch}")
    yield result("rows", size, synced(spark, topic.folder, lake, CHANGES + 1))


def fill(target: Target, size: int) -> None:
    """Give the first table so many rows, in files as a sync writes them."""
    from tidewire.spark.apply.write import write_rows
    from tidewire.spark.targets import CommitTag
    from tidewire.spark.targets.files import FileChange

    name = table(0).name
    stored = replace(target.stored(name), key=("id",))
    added: list[NewFile] = []
    for start in range(0, size, ROWS_A_FILE):
        ids = np.arange(start, min(size, start + ROWS_A_FILE))
        columns = {
            f"c{place}": pc.binary_join_element_wise("row", pa.array(ids + place).cast(pa.string()), " ")
            for place in range(1, len(table(0).columns))
        }
        added += write_rows(stored, pa.table({"id": pa.array(ids), **columns}), "filled")
    target.write(name, FileChange(stored, tuple(added)), CommitTag("fill", 0, 0, "fill"))


def files(spark: SparkSession, folder: Path, size: int) -> Iterator[dict[str, Any]]:
    """So many small batches, with maintenance and without."""
    from tidewire.spark.targets import open_target

    topic = Growing(folder / "topics", 1)
    topic.create()
    for batch in range(size):
        topic.put(range(batch * 20, batch * 20 + 60), f"b{batch}")
    for way, every in (("without", "never"), ("with", f"{EVERY}b")):
        lake = folder / way
        meter = synced(spark, topic.folder, lake, 61, every)
        found = open_target(spark, str(lake), "iceberg").size(table(0).name)
        on_disk = sum(1 for path in (lake / "data").rglob("*") if path.is_file())
        times = [batch["cpu"] for batch in meter.batches]
        upkeep = sum(batch.get("maintain s", 0.0) for batch in meter.batches)
        yield result(
            "files",
            size,
            meter,
            way=way,
            times=times,
            live=found.files + found.deletes,
            on_disk=on_disk,
            last=statistics.median(times[-10:]),
            upkeep=upkeep,
        )


def one_transaction(spark: SparkSession, folder: Path, size: int) -> Iterator[dict[str, Any]]:
    """One transaction of so many rows, in one batch."""
    transaction(folder / "topics", size)
    began = time.perf_counter()
    cpu = cpu_seconds()
    synced(spark, folder / "topics", folder / "lake", ALL)
    took = {"seconds": time.perf_counter() - began, "cpu": cpu_seconds() - cpu}
    yield {"question": "transaction", "size": size, **took, "memory": peak_memory()}


QUESTIONS: Mapping[str, Callable[[SparkSession, Path, int], Iterator[dict[str, Any]]]] = {
    "tables": tables,
    "busy": busy,
    "partitions": partitions,
    "rows": rows,
    "files": files,
    "transaction": one_transaction,
}


def asked(question: str, sizes: Iterable[int], folder: Path) -> list[dict[str, Any]]:
    """The points of one curve, in this process."""
    from tidewire.spark.sessions import LIGHT, session

    spark = session("bench", master="local[2]", conf=SETTINGS | LIGHT)
    list(partitions(spark, folder / "warm-up", 1))  # else the first point would pay for Java's compiler
    found: list[dict[str, Any]] = []
    for size in sizes:
        place = folder / f"{question}-{size}"
        found += QUESTIONS[question](spark, place, size)
    return found


def results(sizes: Mapping[str, Iterable[int]]) -> Iterator[dict[str, Any]]:
    """All curves, each in a process of its own."""
    for question, wanted in sizes.items():
        with tempfile.TemporaryDirectory(prefix="tidewire-bench-") as name:
            out = Path(name, "found.json")
            arguments = [question, name, str(out), *map(str, wanted)]
            subprocess.run([sys.executable, __file__, "--child", *arguments], check=True)
            yield from compared(json.loads(out.read_text()))


def compared(points: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The points of a curve, each with what it takes against the first one, and what it may take."""
    points = list(points)
    for point in points:
        question, size, first = point["question"], point["size"], points[0]
        if question not in ("files", "transaction"):
            point["ratio"] = point["cpu"] / first["cpu"]
        if (question, size) in LIMITS:
            point["limit"] = LIMITS[question, size]
        if question == "busy" and size > first["size"]:
            point["a_table"] = (point["cpu"] - first["cpu"]) / (size - first["size"])
            point["most_a_table"] = MOST_A_TABLE
        print(line(point), file=sys.stderr, flush=True)
        yield point


def measure(sizes: Mapping[str, Iterable[int]] = SIZES) -> list[dict[str, Any]]:
    """Every point of every curve; ``TIDEWIRE_BENCH_GROWTH`` may hold other sizes, or fewer curves, as JSON."""
    given = os.environ.get("TIDEWIRE_BENCH_GROWTH")
    return list(results(json.loads(given) if given else sizes))


def line(point: Mapping[str, Any]) -> str:
    """A point as a line."""
    known = ("question", "size", "seconds", "cpu", "times")
    more = ", ".join(
        f"{key.replace('_', ' ')} {value if isinstance(value, str | int) else f'{value:.3g}'}"
        for key, value in point.items()
        if key not in known
    )
    return f"{point['question']:12} {point['size']:>12,} {point['seconds']:8.2f} s {point['cpu']:8.2f} CPU s  {more}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, default in (("tables", TABLES), ("busy", BUSY), ("partitions", PARTITIONS), ("rows", ROWS)):
        parser.add_argument(f"--{name}", type=int, nargs="*", default=default)
    parser.add_argument("--batches", type=int, nargs="*", default=[BATCHES])
    parser.add_argument("--transaction", type=int, nargs="*", default=[TRANSACTION])
    parser.add_argument("--only", choices=QUESTIONS, nargs="+", default=list(QUESTIONS), help="the curves to measure")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        question, folder, out, *sizes = arguments.child
        Path(out).write_text(json.dumps(asked(question, map(int, sizes), Path(folder))))
        return
    given = vars(arguments)
    measure({name: given["batches" if name == "files" else name] for name in arguments.only})


if __name__ == "__main__":
    main()
