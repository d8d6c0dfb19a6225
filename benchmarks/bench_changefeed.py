"""How much does a changefeed cost, the whole way from a workload to a real Kafka?

Prints the CPU time a row takes (workload, filter, dispatch, encoding, producing, all threads), its ratio to one
standard ``json.dumps`` of the same messages in the same run, and how much the process grew over ten million rows,
beyond what the workload itself remembers. The broker is another process and does not count.

    python benchmarks/bench_changefeed.py --rows 1000000      a quick run
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidewire.changefeed.checkpoint import MemoryCheckpoints
from tidewire.changefeed.config.settings import Settings
from tidewire.changefeed.config.validate import Request, validate
from tidewire.changefeed.runner import runner_for
from tidewire.changefeed.sink.base import BlackholeSink, MemoryQueue, Sink
from tidewire.changefeed.sink.open import queue_sink
from tidewire.changefeed.source import open_source

TESTS = Path(__file__).parents[1] / "tests"
LIMIT = 2.5
ROWS = 10_000_000
WARM_UP = 300_000
SAMPLE = 50_000
COLUMNS = 6
ROUNDS = 3


def settings_of(uri: str) -> Settings:
    """A changefeed of Canal-JSON with the extension, into one topic by table."""
    whole = f"{uri}?protocol=canal-json&enable-tidb-extension=true"
    return validate(Request(whole, "bench", now=1 << 62, start_ts=1)).settings


def fed(settings: Settings, rows: int, sink: Sink | None = None) -> float:
    """The CPU seconds it takes to feed so many rows, to the settings' own sink or to another."""
    source = open_source(f"workload://1?columns={COLUMNS}&rows={rows}")
    begin = time.process_time()
    runner_for(settings, source, MemoryCheckpoints(), start_ts=1, sink=sink).run()
    return time.process_time() - begin


def unit(settings: Settings) -> float:
    """The CPU seconds of one ``json.dumps`` of a message that the changefeed sends."""
    queue = MemoryQueue(1)
    fed(settings, SAMPLE, queue_sink(settings, queue))
    documents = [json.loads(message.value or b"{}") for message in queue.topics["bench"][0]]

    def rounds() -> Iterator[float]:
        for _ in range(ROUNDS):
            begin = time.process_time()
            for document in documents:
                json.dumps(document)
            yield (time.process_time() - begin) / len(documents)

    return min(rounds())


def peak_mib() -> float:
    """The most memory the process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(rows: int = ROWS) -> list[dict[str, Any]]:
    """CPU time of a row in nanoseconds, its ratio to the unit and the limit, and MiB beyond the workload's own."""
    sys.path.insert(0, str(TESTS))
    from integration.kafka import kafka

    with kafka() as cluster:
        warm, main = (settings_of(f"kafka://{cluster.bootstrap}/{topic}") for topic in ("warm", "bench"))
        fed(warm, WARM_UP)
        fed(main, rows, BlackholeSink())  # a workload remembers its keys; that much it takes by itself
        before = peak_mib()
        spent = fed(main, rows) / rows
        growth = peak_mib() - before
        one = unit(main)
    return [
        {
            "rows": rows,
            "row_ns": spent * 1e9,
            "dumps_ns": one * 1e9,
            "ratio": spent / one,
            "limit": LIMIT,
            "growth_mib": growth,
        }
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS)
    for found in measure(parser.parse_args().rows):
        print(
            f"{found['rows']} rows: {found['row_ns']:.0f} ns CPU each, json.dumps {found['dumps_ns']:.0f} ns, "
            f"ratio {found['ratio']:.2f} (limit {found['limit']:.1f}), grew by {found['growth_mib']:.0f} MiB"
        )


if __name__ == "__main__":
    main()
