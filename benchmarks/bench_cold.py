"""How much CPU does a sync take that starts, reads what there is, and stops?

A topic of two partitions with Canal-JSON changes of 6 columns (60 inserts to 30 updates to 10 deletes) is in a real
broker. ``tidewire sync --once`` runs as a process of its own; its CPU time is that of the whole process tree, Python,
Java and Python workers, from the start of the process to its end. A topic with a thousand changes says what of that is
the start.

    python benchmarks/bench_cold.py --rows 100000      a quick run
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench_kafka import TESTS, produced
from pipelines import BATCH, ROWS, cpu_seconds

FEW = 1000
LIMITS: Mapping[int, float] = {ROWS: 42.0}
"""CPU-seconds, by rows."""


def once(brokers: str, topic: str, lake: Path) -> dict[str, float]:
    """A sync of what is in a topic: seconds and CPU-seconds."""
    command = [str(Path(sys.executable).parent / "tidewire"), "sync", f"kafka://{brokers}/{topic}", str(lake)]
    command += ["-p", "canal-json", "-o", "enable-tidb-extension=true", "--once"]
    began, cpu = time.perf_counter(), 0.0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None:
            cpu = max(cpu, cpu_seconds(process.pid))  # Java is gone from the tree when it has ended
            time.sleep(0.02)
    if process.returncode:
        raise RuntimeError(f"the sync ended with {process.returncode}")
    return {"seconds": time.perf_counter() - began, "cpu": cpu}


def results(sizes: Iterable[int]) -> Iterator[dict[str, Any]]:
    """Each size, as it is done."""
    sys.path.insert(0, str(TESTS))
    from integration.kafka import kafka

    with tempfile.TemporaryDirectory(prefix="tidewire-bench-") as name, kafka() as cluster:
        for size in sizes:
            topic = f"cold{size}"
            produced(cluster.bootstrap, topic, Path(name, topic), size, min(size, BATCH), 6)
            found = once(cluster.bootstrap, topic, Path(name, topic, "lake"))
            limit = {"most_cpu": LIMITS[size], "ratio": found["cpu"] / LIMITS[size]} if size in LIMITS else {}
            yield {"rows": size, **found, "rows_per_cpu_second": size / found["cpu"], **limit}


def measure() -> list[dict[str, Any]]:
    """The start alone, and a million changes."""
    return list(results((FEW, ROWS)))


def line(found: Mapping[str, Any]) -> str:
    """A result as a line."""
    limit = f", {found['ratio']:.2f} of the limit {found['most_cpu']:g}" if "most_cpu" in found else ""
    return f"{found['rows']:>9,} changes: {found['seconds']:5.1f} s, {found['cpu']:5.1f} CPU-seconds{limit}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[FEW, ROWS])
    for found in results(parser.parse_args().rows):
        print(line(found), flush=True)


if __name__ == "__main__":
    main()
