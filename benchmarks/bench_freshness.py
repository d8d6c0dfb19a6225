"""How fresh are tables while changes keep coming, and what does that cost?

A changefeed writes to a real broker: so many changes a second, spread evenly over some tables, with a watermark twice a
second. Six of ten changes are new rows, the others change a row that was written before, chosen at random. ``tidewire
sync`` runs as a process of its own. After some seconds of warm-up its CPU time is that of the whole process tree. The
lag of a moment is the time from then until the tables are published that have everything up to it.

    python benchmarks/bench_freshness.py --seconds 60
    python benchmarks/bench_freshness.py --tables 50 --rate 1000 --seconds 60
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from confluent_kafka import Producer  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # noqa: E402

from integration.kafka import kafka  # noqa: E402
from pipelines import cpu_seconds  # noqa: E402
from scripted import OPTIONS, table  # noqa: E402
from tidewire.codec import Options, protocol  # noqa: E402
from tidewire.model import Ddl, DdlType, RowChange, TableName, Watermark  # noqa: E402

TOPIC, PARTITIONS = "fresh", 3
WATERMARK_SECONDS = 0.5
WARM_UP = 40.0

CASES: Mapping[str, dict[str, float]] = {
    "one table": {"tables": 1, "rate": 2000, "cpu": 30.0, "lag": 2.0},
    "50 tables": {"tables": 50, "rate": 1000, "cpu": 60.0, "lag": 10.0},
}
"""What is measured: tables, changes a second, and the limits: CPU-seconds a minute, seconds of lag."""


def now_ts() -> int:
    """The TSO of this moment."""
    return int(time.time() * 1000) << 18


def feed(brokers: str, tables: int, rate: float, stop: threading.Event) -> None:
    """The changefeed."""
    producer = Producer({"bootstrap.servers": brokers, "linger.ms": 20})
    encoder = protocol("canal-json").Encoder(Options.parse(OPTIONS))
    columns = {"id": "bigint", "customer": "varchar(40)", "total": "decimal(12,2)", "state": "varchar(10)", "n": "int"}
    schemas = [table(f"t{number:03}", **columns) for number in range(tables)]
    types = ", ".join(f"`{name}` {type_}{' PRIMARY KEY' if name == 'id' else ''}" for name, type_ in columns.items())

    def send(event: Any, partition: int) -> None:
        for message in encoder.encode([event]):
            producer.produce(TOPIC, message.value, message.key, partition=partition)

    for schema in schemas:
        query = f"CREATE TABLE `shop`.`{schema.name.table}` ({types})"
        send(Ddl(TableName("shop", schema.name.table), now_ts(), query, DdlType.CREATE_TABLE), 0)
    chance, rows = random.Random(1), [0] * tables
    began, sent, marked = time.monotonic(), 0, 0.0
    while not stop.is_set():
        due = int((time.monotonic() - began) * rate)
        for number in range(sent, due):
            place = number % tables
            is_new = not rows[place] or chance.random() < 0.6
            key = rows[place] if is_new else chance.randrange(rows[place])
            rows[place] += is_new
            row: dict[str, Any] = {
                "id": key,
                "customer": f"customer {key % 977}",
                "total": Decimal(number % 9999),
                "state": "new",
                "n": 7,
            }
            send(RowChange(schemas[place], now_ts(), after=row), key % PARTITIONS)
        sent = due
        if time.monotonic() - marked >= WATERMARK_SECONDS:
            marked, ts = time.monotonic(), now_ts()
            for partition in range(PARTITIONS):
                send(Watermark(ts), partition)
        producer.poll(0)
        time.sleep(0.02)
    producer.flush(10)


def lags(lines: Iterator[dict[str, Any]], begin: float, end: float) -> list[float]:
    """The lag of every tenth of a second from ``begin`` to ``end``."""
    published = [
        (datetime.fromisoformat(line["time"]).timestamp(), (int(line["applied"]) >> 18) / 1000)
        for line in lines
        if "applied" in line
    ]
    found, place = [], 0
    moment = begin
    while moment < end:
        while place < len(published) and published[place][1] < moment:
            place += 1
        if place == len(published):
            found.append(time.time() - moment)
        else:
            found.append(published[place][0] - moment)
        moment += 0.1
    return found


def measured(name: str, tables: int, rate: float, seconds: float, cpu: float, lag: float) -> dict[str, Any]:
    """One case."""
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="tidewire-bench-") as folder, kafka() as brokers:
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            future.result()
        producer = threading.Thread(target=feed, args=(brokers.bootstrap, tables, rate, stop))
        producer.start()
        log = Path(folder, "log")
        command = [str(Path(sys.executable).parent / "tidewire"), "sync", f"kafka://{brokers.bootstrap}/{TOPIC}"]
        command += [
            f"{folder}/lake",
            "-p",
            "canal-json",
            *(f"--option={key}={value}" for key, value in OPTIONS.items()),
        ]
        with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
            try:
                time.sleep(WARM_UP)
                began, before = time.time(), cpu_seconds(process.pid)
                while time.time() < began + seconds:
                    time.sleep(1)
                    spent = cpu_seconds(process.pid) - before  # often, because workers that end are forgotten
                ended = time.time()
                time.sleep(2 * lag)  # until what came last is published
            finally:
                stop.set()
                process.terminate()
                process.wait(120)
                producer.join()
        lines = (json.loads(line) for line in log.read_bytes().splitlines() if line.startswith(b"{"))
        found = sorted(lags(lines, began, ended))
    return {
        "case": name,
        "tables": tables,
        "rate": rate,
        "cpu_a_minute": spent * 60 / (ended - began),
        "most_cpu_a_minute": cpu,
        "median_lag": statistics.median(found),
        "lag_95": found[int(len(found) * 0.95)],
        "most_lag_95": lag,
        "ratio": spent * 60 / (ended - began) / cpu,
    }


def measure(seconds: float = 60.0) -> list[dict[str, Any]]:
    """All cases."""
    return [
        measured(name, int(each["tables"]), each["rate"], seconds, each["cpu"], each["lag"])
        for name, each in CASES.items()
    ]


def line(found: Mapping[str, Any]) -> str:
    """A result as a line."""
    return (
        f"{found['tables']:3} tables, {found['rate']:5.0f} changes a second: {found['cpu_a_minute']:5.1f} CPU-seconds "
        f"a minute, {found['ratio']:.2f} of the limit {found['most_cpu_a_minute']:g}; lag {found['median_lag']:.1f} s, "
        f"95th percentile {found['lag_95']:.1f} s, limit {found['most_lag_95']:g} s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--tables", type=int)
    parser.add_argument("--rate", type=float, default=2000.0)
    given = parser.parse_args()
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    if given.tables is not None:
        case = CASES["one table" if given.tables == 1 else "50 tables"]
        print(line(measured("", given.tables, given.rate, given.seconds, case["cpu"], case["lag"])))
        return
    for name, each in CASES.items():
        print(line(measured(name, int(each["tables"]), each["rate"], given.seconds, each["cpu"], each["lag"])))


if __name__ == "__main__":
    main()
