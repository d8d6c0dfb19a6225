"""The ways from a topic to a table that are measured against each other: tidewire's, and one written by hand.

By hand that is ``from_json``, ``row_number`` per key and ``MERGE INTO`` in ``foreachBatch``, once into a table with
default settings and once into a merge-on-read one. Each way runs in a process of its own; CPU is that of the whole
process tree, JVM and Python workers included, after some batches of warm-up. Every table is compared with the state
that the generator knows.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidewire.spark.source import Source

WARM_UP = 2
TOPIC = "feed"
OPTIONS = {"enable-tidb-extension": "true"}
SETTINGS = {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "2"}
END = "end.parquet"
"""The file with what the table must hold in the end."""

OWN = "tidewire"
LEAST = {"by hand, default table": 1.6, "by hand, merge-on-read": 1.0}
"""tidewire must do so many times the rows per CPU-second."""

_PROPERTIES = {
    "by hand, default table": "",
    "by hand, merge-on-read": "TBLPROPERTIES ('format-version'='3', 'write.merge.mode'='merge-on-read', "
    "'write.update.mode'='merge-on-read', 'write.delete.mode'='merge-on-read')",
}

HEADS = (
    f"{'CPU-seconds a batch':24} {'columns':>7} {'rows/CPU-s':>10} {'CPU s':>6} {'stage':>6} {'apply':>6} {'MB':>5} "
    f"{'ratio':>6} {'limit':>6}"
)


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


def run_tidewire(source_of: Callable[[SparkSession], Source], lake: Path) -> dict[str, Any]:
    """A sync; what each batch took, and what of it was staging."""
    from tidewire.spark.session import session
    from tidewire.spark.snapshot import snapshot
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
    source = source_of(spark)
    meter.last = cpu_seconds()
    Sync(spark, source, target, Work.of(lake), Job("canal-json", OPTIONS), meter).run(once=True)
    return {"batches": meter.batches, "table": snapshot(spark, str(lake))["shop.orders"], "spark": spark}


def run_by_hand(
    stream_of: Callable[[SparkSession], DataFrame], lake: Path, types: Mapping[str, str], properties: str
) -> dict[str, Any]:
    """What a careful person writes without tidewire."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    from tidewire.spark.session import iceberg_catalog_conf, session

    lake.mkdir(parents=True)
    spark = session("bench", master="local[2]", conf=SETTINGS | iceberg_catalog_conf("lake", lake))
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

    query = (
        stream_of(spark)
        .writeStream.foreachBatch(merge)
        .option("checkpointLocation", str(lake / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return {"batches": batches, "table": spark.table("lake.shop.orders"), "spark": spark}


def ways(
    source_of: Callable[[SparkSession], Source], stream_of: Callable[[SparkSession], DataFrame], folder: Path
) -> dict[str, Callable[[Path], dict[str, Any]]]:
    """All ways into a lake, out of tidewire's source and a plain stream of the same messages."""
    return {
        OWN: partial(run_tidewire, source_of),
        **{
            name: partial(run_by_hand, stream_of, types=_spark_types(folder / END), properties=properties)
            for name, properties in _PROPERTIES.items()
        },
    }


WAYS: Sequence[str] = (OWN, *_PROPERTIES)
"""The names of the ways."""


def _spark_types(path: Path) -> dict[str, str]:
    from tidewire.arrow import engines

    return {field.name: engines(field.type).spark for field in pq.read_schema(path)}


def child(way: Callable[[Path], dict[str, Any]], folder: Path, lake: Path) -> None:
    """One way, alone in its process: prints what it took as JSON."""
    found = way(lake)
    memory = peak_memory()  # before the whole table is fetched to be compared
    wanted = pq.read_table(folder / END)
    table = found["table"].toArrow().select(wanted.column_names).sort_by("id").cast(wanted.schema)
    print(json.dumps({"batches": found["batches"], "memory": memory, "right": table.equals(wanted)}))
    found["spark"].stop()


def timed(script: str, *arguments: str) -> dict[str, Any]:
    """Run a way in a process of its own: a benchmark's own file with ``--child``."""
    done = subprocess.run(
        [sys.executable, script, "--child", *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def compared(found: Mapping[str, dict[str, Any]], rows: int, batch: int, columns: int) -> list[dict[str, Any]]:
    """What each way took for a warm and full batch, and how many times its rows per CPU-second tidewire does."""
    results = [_result(way, taken, rows // batch, batch, columns) for way, taken in found.items()]
    own = next(result["rows_per_cpu_second"] for result in results if result["way"] == OWN)
    return [result | {"ratio": own / result["rows_per_cpu_second"]} for result in results]


def _result(way: str, taken: Mapping[str, Any], full: int, batch: int, columns: int) -> dict[str, Any]:
    batches = taken["batches"][:full]  # watermarks are messages too, so there may be a small one at the end
    warm = batches[WARM_UP:] or batches[-1:]
    cpu = sum(each["cpu"] for each in warm) / len(warm)
    stage = sum(each.get("stage", 0.0) for each in warm) / len(warm)
    return {
        "way": way,
        "columns": columns,
        "cpu": cpu,
        "stage": stage or None,
        "apply": cpu - stage if stage else None,
        "rows_per_cpu_second": batch / cpu,
        "memory_mb": taken["memory"],
        "right": taken["right"],
        "limit": LEAST.get(way),
    }


def line(found: Mapping[str, Any]) -> str:
    """A result under :data:`HEADS`."""
    split = [f"{found[name]:6.1f}" if found[name] else f"{'':6}" for name in ("cpu", "stage", "apply")]
    limit = "" if found["limit"] is None else f"{found['limit']:6.2f}"
    return (
        f"{found['way']:24} {found['columns']:7} {found['rows_per_cpu_second']:10.0f} {' '.join(split)} "
        f"{found['memory_mb']:5} {found['ratio']:6.2f} {limit:>6}  {'right' if found['right'] else 'WRONG'}"
    )
