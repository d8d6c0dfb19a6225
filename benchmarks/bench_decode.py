"""How much CPU does ``tw.decode`` take, against the job that stages the same messages for a sync?

Canal-JSON messages in Parquet files are decoded into a sink that throws rows away. Staging reads the same files and
writes typed ones. Each way runs in a process of its own, in the session that its user has: staging in that of
``tidewire sync``, the others in a plain one. After the warm-up the best of several passes counts.
``tw.decode`` as JSON must take at most 1.15 times what staging takes; as VARIANT it is shown beside it, because Java
parses that. ``mapInArrow, unchanged`` sends the same messages to Python and back and does nothing with them: what Spark
itself takes for any such transform, and staging does not, because it reads its files without Java. What is beyond that
is tidewire's ``own``, and must be at most what staging takes. ``format("ticdc")`` reads its files without Java too; its
rows go to Java.

    python benchmarks/bench_decode.py --rows 100000 --columns 6      a quick run
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench_sync import written
from pipelines import COLUMNS, OPTIONS, SETTINGS, cpu_seconds, timed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS, PASSES, WARM_UP = 500_000, 8, 2
STAGING = "staging"
UNCHANGED = "mapInArrow, unchanged"
SOURCE = 'format("ticdc")'
DECODE = "decode, json"
WAYS = (STAGING, UNCHANGED, SOURCE, DECODE, "decode, json, no before", "decode, variant")
LIMITS = {DECODE: {"limit": 1.15, "most_own": 1.0}}
"""The most CPU time that a way may take, in times of staging: in all, and beyond ``mapInArrow``."""


def staging(spark: SparkSession, folder: Path) -> Callable[[], object]:
    """The staging job, over all messages."""
    from tidewire.spark.source import FileSource, planned_ranges
    from tidewire.spark.stage import Reader, Stage
    from tidewire.storage import open_storage
    from tidewire.sync.replays import Replays
    from tidewire.topic.files import FileTopics

    source = FileSource(FileTopics(folder / "topics"))
    stage = Stage(spark, source, open_storage(str(folder / "staged")), 1)
    ranges = planned_ranges(source.partitions(), {}, 1 << 60, per_task=ROWS // 4)
    reader = Reader("canal-json", OPTIONS)
    return lambda: stage.run(ranges, 1, reader, Replays(), ends=dict)


def decoding(way: str, spark: SparkSession, folder: Path) -> Callable[[], object]:
    """``tw.decode``, the data source, or a transform that does nothing; the rows are dropped."""
    import tidewire.spark as tw

    if way == SOURCE:
        spark.dataSource.register(tw.TicdcSource)
        source = spark.read.format("ticdc").options(protocol="canal-json", **OPTIONS).load(f"file:{folder / 'topics'}")
        return lambda: source.write.format("noop").mode("overwrite").save()
    files = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", "*.parquet")
    messages = files.parquet(str(folder / "topics")).select("topic", "partition", "offset", "key", "value")
    if way == UNCHANGED:
        found = messages.mapInArrow(lambda batches: batches, messages.schema)
    else:
        _, values, *rest = way.split(", ")
        shown: Literal["variant", "json"] = "variant" if values == "variant" else "json"
        found = tw.decode(messages, "canal-json", options=OPTIONS, values=shown, before=not rest)
    return lambda: found.write.format("noop").mode("overwrite").save()


def own_session() -> SparkSession:
    """The session of ``tidewire sync``, whose Java has little to do."""
    from tidewire.spark.sessions import LIGHT, session

    return session("bench", master="local[2]", conf=SETTINGS | LIGHT)


def plain_session() -> SparkSession:
    """A session as any user of Spark has it."""
    from pyspark.sql import SparkSession

    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    builder: Any = SparkSession.builder
    spark: SparkSession = builder.master("local[2]").config(map=SETTINGS | {"spark.ui.enabled": "false"}).getOrCreate()
    return spark


def run_child(way: str, folder: Path) -> None:
    """One way, alone in its process: prints the CPU-seconds of each pass."""
    spark = own_session() if way == STAGING else plain_session()
    work = staging(spark, folder) if way == STAGING else decoding(way, spark, folder)
    passes = []
    for _ in range(PASSES):
        before = cpu_seconds()
        work()
        passes.append(cpu_seconds() - before)
    print(json.dumps({"passes": passes}))
    spark.stop()


def results(rows: int, widths: list[int]) -> Iterator[dict[str, Any]]:
    """Each way and width, and its ratio to staging."""
    with tempfile.TemporaryDirectory(prefix="tidewire-bench-") as name:
        for width in widths:
            folder = Path(name, str(width))
            written(folder, rows, rows // 2, width)
            best = {way: min(timed(__file__, way, str(folder))["passes"][WARM_UP:]) for way in WAYS}
            for way in WAYS:
                found = {
                    "way": way,
                    "columns": width,
                    "rows": rows,
                    "cpu": best[way],
                    "ratio": best[way] / best[STAGING],
                }
                if way.startswith("decode"):
                    found["own"] = (best[way] - best[UNCHANGED]) / best[STAGING]
                yield found | {"rows_per_cpu_second": rows / best[way]} | LIMITS.get(way, {})


def measure() -> list[dict[str, Any]]:
    """Each way and width, and the most it may take."""
    return list(results(ROWS, list(COLUMNS)))


def line(found: dict[str, Any]) -> str:
    """A result as text."""
    most = f"  limit {found['limit']:.2f}" if "limit" in found else ""
    most += f"  own {found['own']:.2f}" if "own" in found else ""
    return (
        f"{found['way']:24} {found['columns']:3} columns {found['rows_per_cpu_second']:9,.0f} rows/CPU-s "
        f"{found['cpu']:6.2f} s  ratio to staging {found['ratio']:.2f}{most}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--columns", type=int, nargs="+", default=list(COLUMNS))
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_child(arguments.child[0], Path(arguments.child[1]))
    else:
        for each in results(arguments.rows, arguments.columns):
            print(line(each), flush=True)
