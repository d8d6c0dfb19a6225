"""A sync on a real Spark cluster, with executors that know nothing of tidewire but what is shipped to them.

The commands are those of docs/how-to/cluster.md.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import topic_files
from integration.kafka import kafka
from integration.kafka_topics import PATIENCE, created, send_lines
from integration.spark_cluster import HOME, SparkCluster, environment, python_without_tidewire, spark_cluster
from spark_sessions import QUICK
from sync_checks import assert_equal, job_of
from tidewire.spark.frames.executors import archive
from tidewire.spark.jars import fetch, lock
from tidewire.spark.ledger import ledger_of, plan_numbers

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
TOPIC, NAME = "seed23-classic", "craft.faults"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.executor.cores": "1",
    "spark.executor.memory": "800m",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": QUICK,
    "spark.executor.extraJavaOptions": QUICK,
}
MAIN = "from tidewire.cli import main\n\nmain()\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def wheel(folder: Path) -> Path:
    """The wheel, under a name that Spark takes for an archive of Python code."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    built = next(folder.glob("*.whl"))
    return Path(shutil.copy(built, built.with_suffix(".zip")))


def until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait for something while a process runs."""
    deadline = time.monotonic() + 3 * PATIENCE
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def sync_arguments(uri: str, target: Path, folder: Path) -> list[str]:
    job = job_of(TOPIC, NAME, folder)
    options = [part for name, value in job.options.items() for part in ("--option", f"{name}={value}")]
    return ["sync", uri, str(target), "--protocol", job.protocol, *options]


def test_the_archive_for_executors_is_complete(tmp_path: Path) -> None:
    python = python_without_tidewire(tmp_path / "python")
    code_zip = archive(tmp_path / "tidewire.zip")
    code = (
        "import tidewire.spark.stage.task, tidewire.codec.simple.avro_wire as wire, tidewire.spark.jars as jars; "
        "print(tidewire.__file__, len(jars.lock()), bool(wire.__file__))"
    )

    missing = subprocess.run(
        [str(python), "-c", "import tidewire"], env=environment(), capture_output=True, check=False
    )
    shipped = subprocess.run(
        [str(python), "-c", code], env=environment(PYTHONPATH=code_zip), capture_output=True, text=True, check=True
    )

    assert b"No module named 'tidewire'" in missing.stderr
    assert shipped.stdout.split() == [f"{code_zip}/tidewire/__init__.py", str(len(lock())), "True"]


def test_a_sync_on_a_cluster_survives_a_lost_worker_and_goes_on_by_spark_submit(
    spark: SparkSession, cluster: SparkCluster, tmp_path: Path
) -> None:
    lines, recorded = topic_files.lines(TOPIC, NAME), topic_files.expected(TOPIC)
    half, target = len(lines) // 2, tmp_path / "target"
    python = python_without_tidewire(tmp_path / "python")
    ledger = ledger_of(str(target))
    with kafka() as brokers:
        created(brokers, "feed")
        send_lines(brokers, "feed", lines[:half])
        arguments = sync_arguments(f"kafka://{brokers.bootstrap}/feed?max-offsets-per-batch=300", target, tmp_path)

        settings = [part for name, value in SETTINGS.items() for part in ("--spark", f"{name}={value}")]
        command = [str(Path(sys.executable).with_name("tidewire")), *arguments, "--master", cluster.master, *settings]
        with (tmp_path / "errors").open("w") as errors:
            running = subprocess.Popen(
                command,
                env=environment(PYSPARK_PYTHON=str(python)),
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        try:
            until(lambda: len(plan_numbers(ledger)) > 1, running)  # in the middle of a later pass
            assert [worker.executors() for worker in cluster.workers] == [1, 1]
            cluster.workers[0].kill()
            read, output = 0, running.stdout
            assert output is not None
            while read < half:
                read += json.loads(output.readline()).get("messages", 0)  # other lines say what it waits for
            running.send_signal(signal.SIGTERM)
            assert running.wait(PATIENCE) == 0, (tmp_path / "errors").read_text()[-3000:]
            output.close()
        finally:
            running.kill()
            running.wait()

        cluster.add_worker()
        cluster.wait(2)
        send_lines(brokers, "feed", lines[half:])
        main = tmp_path / "main.py"
        main.write_text(MAIN)
        settings = [part for name, value in SETTINGS.items() for part in ("--conf", f"{name}={value}")]
        submitted = subprocess.run(
            [
                *(str(HOME / "bin" / "spark-submit"), "--master", cluster.master, *settings),
                *("--conf", f"spark.pyspark.python={python}"),
                *("--jars", ",".join(map(str, fetch()))),
                *("--py-files", str(wheel(tmp_path))),
                *(str(main), *arguments, "--once"),
            ],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert submitted.returncode == 0, submitted.stderr[-3000:]

    assert_equal(spark, target, recorded["end"], floats=False)
