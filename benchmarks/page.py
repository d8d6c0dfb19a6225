"""Runs every benchmark and writes one page with tables and plots: ``docs/benchmarks.md``.

Each benchmark is measured in a process of its own, so that none warms another. A new one joins by a line in
``BENCHES``: a module with a function ``measure`` that returns its results as a list of dicts. Results are kept beside
the plots, so that some benchmarks can be measured again and the page is written as a whole:

    python benchmarks/page.py bench_cold bench_freshness
    TIDEWIRE_BENCH_GROWTH='{"busy": [1, 10, 50, 200]}' python benchmarks/page.py bench_growth
    TIDEWIRE_BENCH_PIPELINES='{"columns": [6], "rounds": 1}' python benchmarks/page.py bench_sync

What is measured takes the place of earlier results of the same curve, or of the same columns.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

import plots
import tables
from tables import Rows
from tidewire.spark.jars import java

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
PICTURES = PAGE.with_suffix("")
RESULTS = PICTURES / "results.json"
PARTS = ("question", "columns")
"""What tells the parts of a benchmark apart that can be measured alone."""

MEASURE = """
import importlib, json, pathlib, sys
pathlib.Path(sys.argv[2]).write_text(json.dumps(importlib.import_module(sys.argv[1]).measure()))
"""
LIBRARIES = ("pyarrow", "msgspec", "fastavro", "orjson", "confluent-kafka", "pyspark")


class Bench(NamedTuple):
    """A benchmark's module, its place on the page, and how its results are shown."""

    module: str
    title: str
    how: str
    table: Callable[[Rows], str]
    plot: Callable[[Rows], Figure] | None = None


BENCHES = (
    Bench(
        "bench_arrow_decode",
        "Decoding",
        "A thousand inserts become typed columns: CPU time of the best of fifteen rounds, each of which also times the "
        "unit, one standard `json.loads` of the Canal-JSON message of that width.\n"
        "*Go* is TiCDC's own decoder on the same bytes in the same unit, timed on another machine.",
        partial(tables.listed, tables.DECODE),
        plots.decode,
    ),
    Bench(
        "bench_native_decode",
        "Decoding with the native kernel",
        "The same messages in the same unit, sixteen thousand in a batch; the table is empty where cargo was missing.",
        partial(tables.listed, tables.NATIVE),
    ),
    Bench(
        "bench_arrow_encode",
        "Encoding",
        "A topic in Simple-JSON is transcoded: its rows, as typed columns, become messages of every protocol. "
        "*Measured* is how many times less CPU time the native kernel takes than the readable codec, which also writes "
        "what the kernel leaves, and everything without it; the bytes of both are compared.",
        partial(tables.listed, tables.ENCODE),
        plots.encode,
    ),
    Bench(
        "bench_peers",
        "Peers",
        "Others decode the same bytes, best of interleaved rounds; the ratio is tidewire's CPU time to the peer's.\n"
        "Spark's is that of the JVM and its Python workers together, warm, over 200 000 narrow or 50 000 wide rows "
        "whose columns are computed and dropped.\n"
        "*tidewire in Spark* does the same through `mapInArrow`, so bytes go to Python and columns come back.\n"
        "No peer reads Craft.",
        partial(tables.listed, tables.PEERS),
        plots.peers,
    ),
    Bench(
        "bench_arrow_rejects",
        "Bad messages",
        "One message in a hundred of ten thousand rows is bad; the number is the batch's CPU time, with the same batch "
        "without bad ones in the same rounds as the unit.\n"
        "The limit is 1.3, and exactly the bad messages must be rejected.\n"
        "A dash: that damage leaves this protocol's messages as they are.",
        tables.rejects,
    ),
    Bench(
        "bench_arrow_memory",
        "Memory",
        "Ten thousand narrow messages become columns: the highest use of Python and of Arrow together, with the size "
        "of the messages as the unit.",
        partial(tables.listed, tables.MEMORY),
        plots.memory,
    ),
    Bench(
        "bench_craft_sizes",
        "Sizes",
        "The rows of the Craft document's table, encoded now: bytes of keys and values, and beside them what the "
        "document says.\nIt was written before size tables became signed, which costs Craft 1 and 4 bytes.",
        partial(tables.listed, tables.SIZES),
    ),
    Bench(
        "bench_sync",
        "Sync",
        "A million Canal-JSON changes in files (60 inserts to 30 updates to 10 deletes, a transaction each) go into an "
        "Iceberg table in batches of 250 000. *By hand* is what one writes without tidewire: `from_json`, "
        "`row_number` per key and `MERGE`.\n"
        "CPU time of JVM and Python workers together, mean of these batches, after two more of warm-up; best of the "
        "rounds, with the ways in turns.",
        tables.pipelines,
        plots.pipelines,
    ),
    Bench(
        "bench_kafka",
        "Sync from Kafka",
        "The same from a topic of two partitions in a real broker, whose own CPU time is not counted; that of both "
        "ways' Kafka clients is.",
        tables.pipelines,
        plots.pipelines,
    ),
    Bench(
        "bench_decode",
        "DataFrames",
        "`tw.decode` reads Canal-JSON changes from Parquet files, and its rows are dropped. The unit is the CPU time "
        "of a sync's staging job over the same files, which writes typed ones. Each way runs in its own process, in "
        "the session that its user has, and the best of six passes counts, after two of warm-up.\n"
        "*mapInArrow, unchanged* sends the same messages to Python and back: what Spark itself takes for any such "
        "transform, and staging, which reads files without Java, does not. What `tw.decode` takes beyond it, in times "
        "of staging, is *own*.\n"
        '*format("ticdc")* reads the files without Java too, and is the cheapest way to a DataFrame.\n'
        "As VARIANT, Java parses the JSON text again; that has no limit.",
        partial(tables.listed, tables.FRAMES),
    ),
    Bench(
        "bench_kafka_fetch",
        "Fetching from Kafka",
        "Two hundred thousand narrow Canal-JSON inserts come from a real broker: CPU time of the whole process, with "
        "librdkafka's threads, best of five rounds; *measured* is how many times that of the first line it is.\n"
        "A sync reads by `consume(n)`, which gives one object of Python for each message, with its texts; *objects* "
        "counts their memory blocks. They live until their list is columns. A kernel that made the columns itself "
        "could save at most the difference of the first two lines.",
        partial(tables.listed, tables.FETCH),
    ),
    Bench(
        "bench_changefeed",
        "Changefeed",
        "A workload's narrow rows are filtered, dispatched, encoded as Canal-JSON and sent to a real Kafka; the unit "
        "is one standard `json.dumps` of the same message.\n"
        "How much the process grew is told beyond what the workload itself "
        "remembers.",
        partial(tables.listed, tables.CHANGEFEED),
    ),
    Bench(
        "bench_freshness",
        "Freshness",
        "A changefeed writes to a real Kafka while `tidewire sync` runs: six of ten changes are new rows, the others "
        "change an older row, chosen at random; a watermark comes twice a second.\n"
        "CPU time of the whole process tree over a minute, after 40 seconds of warm-up. The lag of a moment is the "
        "time from then until tables are published that have everything up to it.",
        partial(tables.listed, tables.FRESHNESS),
    ),
    Bench(
        "bench_cold",
        "Cold start",
        "`tidewire sync --once` reads Canal-JSON changes of 6 columns from a real Kafka and stops: CPU time of the "
        "whole process tree, from the start of the process to its end.\n"
        "A thousand changes cost little more than that start.",
        partial(tables.listed, tables.COLD),
    ),
    Bench(
        "bench_load",
        "Load",
        "`tidewire load` reads a dump of narrow rows in CSV into an Iceberg table. *pyspark* is Spark's CSV reader "
        "over the same files, sorted by key into Parquet files, without anything that a load promises. CPU time of all "
        "processes, the start of Spark included.",
        partial(tables.listed, tables.LOAD),
    ),
    Bench(
        "bench_growth",
        "Growth",
        "Small batches of Canal-JSON go through a whole sync into Iceberg while one thing grows. The time of a batch "
        "is the median of some after two of warm-up, in one process for each curve: CPU time of JVM and Python "
        "together, because it says more on a machine that others use.\n"
        "The dotted line is what growth in proportion would be.\n"
        "*tables*: a hundred rows of one table change, the others stand still; making them is told besides.\n"
        "*busy*: a hundred rows of every table change; *a further table* is what each one beyond the first takes.\n"
        "*partitions*: a thousand rows a batch, spread by their key.\n"
        "*rows*: a thousand rows change, spread over the whole table.\n"
        "*files*: sixty rows a batch, twenty of them new, without maintenance and then with it every 20 batches.\n"
        "On disk there are more with it, because every moment of the last day keeps its files.\n"
        "*transaction*: one transaction in one batch, cold start included.\n"
        "The sizes in the table are those that were run; what is not in it was not.",
        partial(tables.listed, tables.GROWTH),
        plots.growth,
    ),
)


def main() -> None:
    wanted = sys.argv[1:] or [bench.module for bench in BENCHES]
    unknown = set(wanted) - {bench.module for bench in BENCHES}
    if unknown:
        raise SystemExit(f"there is no benchmark {', '.join(sorted(unknown))}")
    facts = list(machine())
    found: dict[str, Rows] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for bench in (bench for bench in BENCHES if bench.module in wanted):
        print(f"\n== {bench.title}: {bench.module}", flush=True)
        rows = measured(bench.module)
        print(bench.table(rows), flush=True)
        found[bench.module] = together(found.get(bench.module, ()), rows)
        write(facts, found)
    print(f"\n{verdict(found)}\nwritten: {PAGE.relative_to(HERE.parent)}")


def together(old: Rows, new: Rows) -> Rows:
    """New results, and the old ones of parts that were not measured again."""
    parts = {part_of(row) for row in new}
    return [*(row for row in old if part_of(row) not in parts), *new]


def part_of(row: Mapping[str, object]) -> tuple[object, ...]:
    """The part of a benchmark that a result belongs to."""
    return tuple(row.get(name) for name in PARTS)


def write(facts: list[tuple[str, str]], found: Mapping[str, Rows]) -> None:
    """Keep the results, and write the page. A section without results stays as it is."""
    PICTURES.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    for bench in BENCHES:
        if bench.plot is not None and bench.module in found:
            plots.save(bench.plot(found[bench.module]), picture(bench))
    parts = PAGE.read_text("utf-8").split("\n## ")[1:] if PAGE.exists() else []
    known = {part.partition("\n")[0]: f"## {part.rstrip()}\n" for part in parts}
    PAGE.write_text("\n".join(page(facts, found, known)), "utf-8")


def measured(module: str) -> Rows:
    """What a benchmark returns, measured in a new process. It hands over a file, for Spark prints what it likes.

    Each result says when it was measured, and how loaded the machine was when that began.
    """
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.json"
        subprocess.run([sys.executable, "-c", MEASURE, module, file], cwd=HERE, check=True)
        rows: Rows = json.loads(file.read_text())
    return [{**row, "measured": f"{datetime.now(timezone.utc):%Y-%m-%d}", "load": load} for row in rows]


def machine() -> Iterator[tuple[str, str]]:
    """What the figures depend on."""
    yield "machine", f"{os.cpu_count()} cores, {processor()}"
    yield "Python", f"{platform.python_implementation()} {platform.python_version()}"
    yield "Java", java_version()
    for library in LIBRARIES:
        yield library, version(library)


def processor() -> str:
    """Its name, where Linux tells it."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text().splitlines() if facts.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def java_version() -> str:
    said = subprocess.run([java(), "-version"], check=True, capture_output=True, text=True).stderr
    return said.partition('"')[2].partition('"')[0]


def picture(bench: Bench) -> Path:
    return PICTURES / f"{bench.title.lower().replace(' ', '-')}.svg"


def page(facts: list[tuple[str, str]], found: Mapping[str, Rows], known: Mapping[str, str]) -> Iterator[str]:
    """The page. ``known`` has the sections that it had, by their titles."""
    yield "# Benchmarks\n"
    yield "Written by `make bench`, which measures all of it again; each section says when it was measured. Smaller is "
    yield "better, except for rows per CPU-second and speed-up.\n"
    yield "The messages were made by TiCDC's own encoders: inserts of 6 columns (narrow) and of 31 (wide)."
    yield "Machines differ and are shared, so look at ratios: both sides of one were measured in the same run.\n"
    yield f"{verdict(found)}\n"
    yield f"{tables.markdown(['', ''], facts)}\n"
    for bench in BENCHES:
        if bench.module in found:
            yield from section(bench, found[bench.module])
        elif bench.title in known:
            yield known[bench.title]


def section(bench: Bench, rows: Rows) -> Iterator[str]:
    """A benchmark's part of the page."""
    yield f"## {bench.title}\n"
    yield f"{bench.how}\n"
    days, load = sorted({row["measured"] for row in rows}), max(row["load"] for row in rows)
    yield f"Measured on {' and '.join(days)}; the load of the machine was {load:.1f} when it began.\n"
    if bench.plot is not None:
        yield f"![{bench.title}]({PICTURES.name}/{picture(bench).name})\n"
    yield f"{bench.table(rows)}\n"


def verdict(found: Mapping[str, Rows]) -> str:
    """Which limits hold, of the benchmarks that have results."""
    limited = [(bench, row) for bench in BENCHES for row in found.get(bench.module, ()) if tables.is_limited(row)]
    beyond = [
        f"{bench.title}, {', '.join(str(row[key]) for key in _NAMES if key in row)}"
        for bench, row in limited
        if tables.is_beyond(row)
    ]
    older = [bench.title for bench in BENCHES if bench.module not in found]
    text = f"All {len(limited)} limits hold."
    if beyond:
        text = f"{len(limited) - len(beyond)} of {len(limited)} limits hold. Beyond theirs: {'; '.join(beyond)}."
    return text + (f" Not counted, because they are from an earlier page: {', '.join(older)}." if older else "")


_NAMES = ("case", "width", "kind", "way", "question", "size", "tables", "rows", "columns")
"""What names a result."""


if __name__ == "__main__":
    main()
