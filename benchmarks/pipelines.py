"""The ways from a topic to a table that are measured against each other: tidewire's, and one written by hand.

By hand that is ``from_json``, ``row_number`` per key and ``MERGE INTO`` in ``foreachBatch``, once into a table with
default settings and once into a merge-on-read one. Each way runs in a process of its own, in turns, and the best of its
rounds counts; CPU is that of the whole process tree, JVM and Python workers included, after some batches of warm-up.
Every table is compared with the state that the generator knows.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidewire.spark.source import Source

ROWS, BATCH, COLUMNS, ROUNDS = 1_000_000, 250_000, (6, 20), 2
WARM_UP = 2
TOPIC = "feed"
OPTIONS = {"enable-tidb-extension": "true"}
SETTINGS = {"spark.driver.memory": "3g", "spark.sql.shuffle.partitions": "2"}
END = "end.parquet"
"""The file with what the table must hold in the end."""

OWN = "tidewire"
LEAST = {"by hand, default table": 2.7, "by hand, merge-on-read": 1.6}
"""tidewire must do so many times the rows per CPU-second."""

MOST_APPLY = {(250_000, 6): 1.0}
"""Applying may take so many CPU-seconds, by rows of a batch and columns."""

_PROPERTIES = {
    "by hand, default table": "",
    "by hand, merge-on-read": "TBLPROPERTIES ('format-version'='3', 'write.merge.mode'='merge-on-read', "
    "'write.update.mode'='merge-on-read', 'write.delete.mode'='merge-on-read')",
}

HEADS = (
    f"{'CPU-seconds a batch':24} {'columns':>7} {'rows/CPU-s':>10} {'CPU s':>6} {'stage':>6} {'apply':>6} "
    f"{'at most':>7} {'MB':>5} {'ratio':>6} {'at least':>8}"
)


def connector() -> dict[str, str]:
    """The setting that gives a session Spark's own Kafka source and Avro, which tidewire does without."""
    from tidewire.spark.jars import fetch

    jars = [*fetch(), *fetch(lock_file=Path(__file__).with_name("jars.lock.toml"))]
    return {"spark.jars": ",".join(map(str, jars))}


_ENDED: dict[int, dict[tuple[int, int], int]] = {}
"""By process whose time was asked for: Python workers of Spark below it, by number and start, and their time so far."""


def cpu_seconds(root: int | None = None) -> float:
    """The CPU time of a process, without a number this one, and everything below it, ended children included.

    Spark's Python workers are forgotten by the process that started them when they end. They count with what they had
    taken when they were last seen here.
    """
    root = root or os.getpid()
    parents, times, started = dict[int, int](), dict[int, int](), dict[int, int]()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            pid = int(folder.name)
            parents[pid], times[pid], started[pid] = int(fields[1]), sum(map(int, fields[11:15])), int(fields[19])
    below = {root}
    grown = True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in below} - below
        below |= more
        grown = bool(more)
    ended = _ENDED.setdefault(root, {})
    alive = {(pid, started[pid]) for pid in below if pid in started}
    gone = sum(time for process, time in ended.items() if process not in alive)
    daemons = {pid for pid in below if _is_daemon(pid)}
    ended.update({(pid, started[pid]): times[pid] for pid in daemons if parents[pid] in daemons})
    return (sum(times.get(pid, 0) for pid in below) + gone) / os.sysconf("SC_CLK_TCK")


def _is_daemon(pid: int) -> bool:
    """Is it Spark's process that starts Python workers, or one of these, which are its forks?"""
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def peak_memory() -> int:
    """The most memory this process has had, in MB."""
    status = Path("/proc/self/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1]) // 1024


def run_tidewire(source_of: Callable[[], Source], lake: Path) -> dict[str, Any]:
    """A sync; what each batch took, and its parts."""
    from tidewire.spark.loop import Job, Loop
    from tidewire.spark.report import PassReport, Point, Silent
    from tidewire.spark.sessions import LIGHT, session
    from tidewire.spark.snapshot import snapshot
    from tidewire.spark.targets import open_target

    class Meter(Silent):
        def __init__(self) -> None:
            self.batches: list[dict[str, float]] = []
            self.last = cpu_seconds()
            self.parts: dict[str, float] = {}

        def reached(self, point: Point) -> None:
            if point is Point.KEPT:
                self.parts["stage"] = self._lap()

        def finished(self, report: PassReport) -> None:
            self.parts["apply"] = self._lap()
            self.batches.append({"cpu": sum(self.parts.values()), **self.parts})
            self.last = cpu_seconds()

        def _lap(self) -> float:
            before, self.last = self.last, cpu_seconds()
            return self.last - before

    spark = session("bench", master="local[2]", conf=SETTINGS | LIGHT)
    meter = Meter()
    Loop(spark, source_of(), open_target(spark, str(lake), "iceberg"), Job("canal-json", OPTIONS), meter).run(once=True)
    return {"batches": meter.batches, "table": snapshot(spark, str(lake))["shop.orders"], "spark": spark}


def run_by_hand(
    stream_of: Callable[[SparkSession], DataFrame],
    lake: Path,
    types: Mapping[str, str],
    properties: str,
    conf: Mapping[str, str],
) -> dict[str, Any]:
    """What a careful person writes without tidewire."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    from tidewire.spark.sessions import iceberg_catalog_conf, session

    lake.mkdir(parents=True)
    spark = session("bench", master="local[2]", conf=SETTINGS | dict(conf) | iceberg_catalog_conf("lake", lake))
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
    source_of: Callable[[], Source],
    stream_of: Callable[[SparkSession], DataFrame],
    folder: Path,
    conf: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Callable[[Path], dict[str, Any]]]:
    """All ways into a lake, out of tidewire's source and a plain stream of the same messages.

    ``conf`` are settings of Spark for the plain stream.
    """
    return {
        OWN: partial(run_tidewire, source_of),
        **{
            name: partial(run_by_hand, stream_of, types=_spark_types(folder / END), properties=properties, conf=conf)
            for name, properties in _PROPERTIES.items()
        },
    }


def asked() -> dict[str, Any]:
    """How much is measured for the page; ``TIDEWIRE_BENCH_PIPELINES`` may hold less, such as ``{"columns": [6]}``."""
    less: dict[str, Any] = json.loads(os.environ.get("TIDEWIRE_BENCH_PIPELINES", "{}"))
    return {"rows": ROWS, "batch": BATCH, "columns": COLUMNS, "rounds": ROUNDS} | less


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


def measured(
    script: str, folder: Path, rows: int, batch: int, columns: int, rounds: int, *more: str
) -> Iterator[dict[str, Any]]:
    """All ways over the same topic: what a warm and full batch took, and how many times its rows tidewire does.

    ``more`` are arguments for the script's children, after the folder and a lake.
    """

    def run(way: str) -> dict[str, Any]:
        lake = folder / "lake"
        taken = _result(way, timed(script, way, str(folder), str(lake), *more), rows, batch, columns)
        shutil.rmtree(lake)
        return taken

    taken = [run(way) for _ in range(rounds) for way in WAYS]
    best = {way: min((each for each in taken if each["way"] == way), key=lambda each: each["cpu"]) for way in WAYS}
    for way in WAYS:
        yield best[way] | {"ratio": best[way]["cpu"] / best[OWN]["cpu"]}


def with_warm_up(rows: int, batch: int) -> int:
    """How many rows a topic has of which so many are measured."""
    return rows + WARM_UP * batch


def _result(way: str, taken: Mapping[str, Any], rows: int, batch: int, columns: int) -> dict[str, Any]:
    batches, full = taken["batches"], with_warm_up(rows, batch) // batch
    if len(batches) - full not in (0, 1):  # watermarks are messages too, so there may be a small one at the end
        raise RuntimeError(f"{way}: {len(batches)} batches instead of {full}")
    warm = batches[WARM_UP:full]
    mean = {name: sum(each[name] for each in warm) / len(warm) for name in warm[0]}
    return {
        "way": way,
        "columns": columns,
        **mean,
        "rows_per_cpu_second": batch / mean["cpu"],
        "memory_mb": taken["memory"],
        "right": taken["right"],
        **({"least": LEAST[way]} if way in LEAST else {}),
        **({"most_apply": MOST_APPLY[batch, columns]} if way == OWN and (batch, columns) in MOST_APPLY else {}),
    }


def line(found: Mapping[str, Any]) -> str:
    """A result under :data:`HEADS`."""
    parts = (("cpu", "6.1f"), ("stage", "6.1f"), ("apply", "6.2f"), ("most_apply", "7.1f"), ("memory_mb", "5"))
    shown = [_shown(found, name, form) for name, form in (*parts, ("ratio", "6.2f"), ("least", "8.2f"))]
    return (
        f"{found['way']:24} {found['columns']:7} {found['rows_per_cpu_second']:10.0f} {' '.join(shown)}  "
        f"{'right' if found['right'] else 'WRONG'}"
    )


def _shown(found: Mapping[str, Any], name: str, form: str) -> str:
    return format(found[name], form) if name in found else " " * int(form.partition(".")[0])


def command(
    about: str | None,
    results: Callable[[int, int, Sequence[int], int], Iterable[Mapping[str, Any]]],
    run_child: Callable[..., None],
    line_of: Callable[[Mapping[str, Any]], str] = line,
) -> None:
    """A benchmark's command: prints its results as they come, or runs one way as a child of itself."""
    parser = argparse.ArgumentParser(description=(about or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--batch", type=int, default=BATCH)
    parser.add_argument("--columns", type=int, nargs="+", default=list(COLUMNS))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        way, folder, lake, *more = arguments.child
        run_child(way, Path(folder), Path(lake), *more)
        return
    print(HEADS)
    for found in results(arguments.rows, arguments.batch, arguments.columns, arguments.rounds):
        print(line_of(found), flush=True)
