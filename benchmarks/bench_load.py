"""How fast is a dump loaded, and in how much memory?

A dump of narrow rows in CSV is written by a script, then loaded by ``tidewire load``'s own code, and beside it read by
pyspark's CSV reader, sorted by key and written to Parquet files, without any of what a load promises. Both run in a
process of their own, and the CPU time is that of all its processes.

    python benchmarks/bench_load.py --rows 10000000
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines import SETTINGS, cpu_seconds

ROWS = 10_000_000
ROWS_PER_FILE = 500_000
LEAST = 150_000
"""So many rows a CPU-second the load must reach."""

_TS = 470490294711746569
_CREATE = (
    "CREATE TABLE `orders` (`id` bigint NOT NULL, `customer` int NOT NULL, `status` varchar(10), "
    "`amount` decimal(12,2), `note` varchar(40), `at` datetime(3), PRIMARY KEY (`id`));\n"
)
_COLUMNS = "id bigint, customer int, status string, amount decimal(12,2), note string, at timestamp_ntz"
_STATES = ("new", "paid", "sent")


def write_dump(folder: Path, rows: int) -> int:
    """A dump with so many rows; how many bytes its data files have."""
    folder.mkdir(parents=True)
    position = f"SHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: {_TS}\n\tGTID:\n"
    (folder / "metadata").write_text(f"Started dump at: now\n{position}\nFinished dump at: now\n")
    (folder / "shop.orders-schema.sql").write_text(_CREATE)
    size = 0
    for number, start in enumerate(range(0, rows, ROWS_PER_FILE)):
        lines = ['"id","customer","status","amount","note","at"\r\n']
        lines += [
            f'{i},{i % 9973},"{_STATES[i % 3]}",{i % 1000}.{i % 100:02},"note \\"{i}\\"",'
            f'"2024-01-{i % 28 + 1:02} 10:{i % 60:02}:00.123"\r\n'
            for i in range(start, min(start + ROWS_PER_FILE, rows))
        ]
        size += (folder / f"shop.orders.{number:09}.csv").write_text("".join(lines), newline="")
    return size


def load_dump(dump: Path, lake: Path) -> int:
    """The load; how many rows."""
    from tidewire.load.chunks import DumpSource
    from tidewire.load.dumpling import read_dump
    from tidewire.spark.job import Job
    from tidewire.spark.load.run import load
    from tidewire.spark.sessions import LIGHT, session
    from tidewire.spark.targets import open_target
    from tidewire.storage import open_storage

    spark = session("load", master="local[2]", conf=LIGHT | SETTINGS)
    storage = open_storage(dump)
    wanted = DumpSource(storage, read_dump(storage).tables, _TS)
    found = load(spark, open_target(spark, str(lake), "iceberg"), Job(""), wanted)
    spark.stop()
    return sum(found.rows.values())


def by_spark(dump: Path, lake: Path) -> int:
    """The same files through pyspark's CSV reader into a table; how many rows."""
    from tidewire.spark.sessions import session

    spark = session("by hand", master="local[2]", conf=SETTINGS)
    reader = spark.read.schema(_COLUMNS).option("header", True).option("escape", "\\").option("nullValue", "\\N")
    rows = reader.csv(str(dump / "*.csv"))
    rows.sort("id").write.parquet(str(lake / "orders"), compression="zstd")
    count = spark.read.parquet(str(lake / "orders")).count()
    spark.stop()
    return int(count)


_WAYS = {"tidewire": load_dump, "pyspark": by_spark}


def measured(way: str, dump: Path, lake: Path) -> dict[str, Any]:
    """One way in this process: rows, seconds, CPU-seconds, and the most memory of a Python worker."""
    peak, cpu, over = [0], [0.0], threading.Event()

    def watch() -> None:
        while not over.wait(0.2):
            peak[0] = max(peak[0], max(_resident(path) for path in Path("/proc").glob("[0-9]*/status")))
            cpu[0] = max(cpu[0], cpu_seconds())  # Java and its workers are gone in the end

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    began = time.perf_counter()
    rows = _WAYS[way](dump, lake)
    over.set()
    seconds = time.perf_counter() - began
    took = {"seconds": seconds, "cpu": cpu[0], "rows_per_cpu_second": rows / cpu[0], "worker_mb": peak[0]}
    return {"way": way, "rows": rows, **took}


def _resident(status: Path) -> int:
    """The memory of a Python process that Spark has started, in MB; 0 for others."""
    try:
        text = status.read_text()
        command = (status.parent / "cmdline").read_bytes()
    except OSError:
        return 0
    if b"pyspark.daemon" not in command:
        return 0
    found = [line for line in text.splitlines() if line.startswith("VmRSS")]
    return int(found[0].split()[1]) // 1024 if found else 0


def results(rows: int) -> Iterator[dict[str, Any]]:
    """Each way with the same dump, as it is done; the load says how many times faster it is than pyspark."""
    with tempfile.TemporaryDirectory(prefix="tidewire-bench-") as name:
        size = write_dump(Path(name, "dump"), rows)
        peer: dict[str, Any] | None = None
        for way in ("pyspark", "tidewire"):
            command = [sys.executable, __file__, "--way", way, "--folder", name]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1]) | {"csv_mb": size / 1e6}
            rate = found["rows_per_cpu_second"]
            if peer is None:
                peer = found
            else:
                found |= {"least_rate": LEAST, "ratio": rate / LEAST, "least": 1.0}
            yield found | {"times": rate / peer["rows_per_cpu_second"]}


def measure() -> list[dict[str, Any]]:
    """Ten million rows."""
    return list(results(ROWS))


def line(found: Mapping[str, Any]) -> str:
    """A result as a line."""
    return (
        f"{found['way']:9} {found['rows']:,} rows, {found['csv_mb']:,.0f} MB of CSV: {found['seconds']:.1f} s, "
        f"{found['rows_per_cpu_second']:,.0f} rows a CPU-second, {found['times']:.2f} times pyspark's CSV reader, "
        f"a worker took {found['worker_mb']} MB at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--way", choices=list(_WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.way:
        print(json.dumps(measured(arguments.way, arguments.folder / "dump", arguments.folder / arguments.way)))
        return
    for found in results(arguments.rows):
        print(line(found), flush=True)


if __name__ == "__main__":
    main()
