"""Does a sync that runs for long stay as it is, and what does it cost to wait?

A changefeed of two tables writes to a real broker: three partitions with a watermark a second each, and, in the busy
part, some rows a second. ``tidewire sync`` runs as a process of its own. File descriptors, threads and memory of its
Python and Java processes are printed every half minute, with the CPU-seconds of the minute. At the end it says whether
they grew from the first third to the last, and how many CPU-seconds a minute of waiting took.

    python benchmarks/soak.py --minutes 60                 half of it busy, half of it waiting
    python benchmarks/soak.py --minutes 4 --idle           only waiting
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
sys.path.insert(0, str(TESTS))

from confluent_kafka import Producer  # noqa: E402
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # noqa: E402

from integration.kafka import kafka  # noqa: E402
from scripted import OPTIONS, Script, table  # noqa: E402

PARTITIONS = 3
TOPIC = "soak"
SAMPLE_SECONDS = 30.0
ROWS_A_SECOND = 20
LIMIT_CPU = 2.0
"""CPU-seconds a minute that waiting may take."""

ONE, TWO = table("one", id="int", v="varchar(20)"), table("two", id="int", v="varchar(20)")


@dataclass(frozen=True, slots=True)
class Sample:
    """A process at one time."""

    cpu: float
    files: int
    threads: int
    memory: int


def sample(pid: int) -> Sample:
    """A process now, by what the kernel says of it."""
    folder = Path(f"/proc/{pid}")
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
    return Sample(
        cpu=(int(fields[11]) + int(fields[12])) / 100,
        files=len(list((folder / "fd").iterdir())),
        threads=int(status["Threads"]),
        memory=int(status["VmRSS"].split()[0]) // 1024,
    )


def java_of(pid: int) -> int:
    """The Java process below a sync."""
    waiting = [pid]
    while waiting:
        each = waiting.pop()
        if Path(f"/proc/{each}/cmdline").read_bytes().split(b"\0")[0].endswith(b"java"):
            return each
        waiting += map(int, Path(f"/proc/{each}/task/{each}/children").read_text().split())
    raise RuntimeError("the sync has no Java process")


def feed(brokers: str, stop: threading.Event, busy: threading.Event) -> None:
    """A changefeed: a watermark a second to every partition, and rows while it is busy."""
    producer, script, number = Producer({"bootstrap.servers": brokers}), Script(), 0
    for name in ("one", "two"):
        script.ddl(name, f"CREATE TABLE `shop`.`{name}` (`id` INT PRIMARY KEY, `v` VARCHAR(20))")
    while not stop.wait(1.0):
        for _ in range(ROWS_A_SECOND if busy.is_set() else 0):
            number += 1
            script.insert(ONE if number % 2 else TWO, id=number % 10_000, v=f"v{number}")
        for message in script.messages:
            producer.produce(TOPIC, message.value, message.key, partition=0)
        script.messages = []
        script.watermark()
        for partition in range(PARTITIONS):
            for message in script.messages:
                producer.produce(TOPIC, message.value, message.key, partition=partition)
        script.messages = []
        producer.flush(10)


def watch(process: subprocess.Popen[bytes], seconds: float, what: str) -> list[tuple[Sample, Sample]]:
    """Samples of the Python and the Java process, printed as they are taken."""
    java, found = java_of(process.pid), []
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        time.sleep(SAMPLE_SECONDS)
        found.append((sample(process.pid), sample(java)))
        used = "" if len(found) < 2 else f"{(_cpu(found[-1]) - _cpu(found[-2])) * 60 / SAMPLE_SECONDS:6.2f} CPU-s/min"
        print(f"{what:5} python {_shown(found[-1][0])}   java {_shown(found[-1][1])}   {used}", flush=True)
    return found


def _cpu(samples: tuple[Sample, Sample]) -> float:
    return samples[0].cpu + samples[1].cpu


def _shown(each: Sample) -> str:
    return f"{each.files:4} files {each.threads:4} threads {each.memory:5} MiB"


def grew(samples: list[tuple[Sample, Sample]]) -> list[str]:
    """What grew from the first third to the last by more than a tenth."""
    third = max(1, len(samples) // 3)
    found = []
    for place, name in enumerate(("python", "java")):
        for what in ("files", "threads", "memory"):
            before = max(getattr(each[place], what) for each in samples[:third])
            after = max(getattr(each[place], what) for each in samples[-third:])
            if after > before * 1.1 + 5:
                found.append(f"{name}'s {what} from {before} to {after}")
    return found


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--idle", action="store_true", help="only wait")
    given = parser.parse_args()
    stop, busy = threading.Event(), threading.Event()
    with tempfile.TemporaryDirectory() as folder, kafka() as brokers:
        admin = AdminClient({"bootstrap.servers": brokers.bootstrap})
        for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)]).values():
            future.result()
        producer = threading.Thread(target=feed, args=(brokers.bootstrap, stop, busy))
        producer.start()
        uri = f"kafka://{brokers.bootstrap}/{TOPIC}"
        options = [f"--option={name}={value}" for name, value in OPTIONS.items()]
        command = [
            str(Path(sys.executable).parent / "tidewire"),
            "sync",
            uri,
            f"{folder}/lake",
            "-p",
            "canal-json",
            *options,
        ]
        with (Path(folder) / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
            try:
                time.sleep(60)  # until it has caught up
                seconds = given.minutes * 60
                if not given.idle:
                    busy.set()
                    watched = watch(process, seconds / 2, "busy")
                    busy.clear()
                    grown = grew(watched)
                    print("busy: " + ("; ".join(grown) or "nothing grew"))
                    seconds /= 2
                watched = watch(process, seconds, "idle")
                if len(watched) > 1:
                    minutes = (len(watched) - 1) * SAMPLE_SECONDS / 60
                    spent = (_cpu(watched[-1]) - _cpu(watched[0])) / minutes
                    print(f"idle: {'; '.join(grew(watched)) or 'nothing grew'}")
                    print(f"idle: {spent:.2f} CPU-seconds a minute, {spent / LIMIT_CPU:.2f} of the limit {LIMIT_CPU:g}")
            finally:
                stop.set()
                process.terminate()
                process.wait(120)
                producer.join()
        print(f"exit code {process.returncode}; the last lines:")
        print(b"\n".join((Path(folder) / "log").read_bytes().splitlines()[-3:]).decode())


if __name__ == "__main__":
    main()
