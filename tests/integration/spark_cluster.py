"""A real Spark cluster: a standalone master and workers on loopback, out of the installed package."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark

from integration.servers import free_port, java

HOME = Path(pyspark.__file__).parent
_HOST = "127.0.0.1"
_START_SECONDS = 180
_STOP_SECONDS = 20
_SETTINGS = {
    "SPARK_LOCAL_IP": _HOST,
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
_UNWANTED = ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET")


def environment(**more: str) -> dict[str, str]:
    """The environment of a process that has nothing of this one's Python or Spark."""
    kept = {name: value for name, value in os.environ.items() if name not in _UNWANTED}
    return {**kept, "SPARK_HOME": str(HOME), "SPARK_LOCAL_IP": _HOST, **more}


class Daemon:
    """A master or a worker."""

    def __init__(self, folder: Path, name: str, kind: str, arguments: Sequence[str]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / f"{name}.log"
        command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", "--host", _HOST, *arguments]
        with self._log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=environment(**_SETTINGS),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> None:
        """Stop it, and wait until it is gone."""
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def kill(self) -> None:
        """Take it and all processes below it away without a word, as when a machine is lost."""
        below = list(_below(self._process.pid))
        self._process.kill()
        self._process.wait()
        for pid in below:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue  # it went with its parent

    def executors(self) -> int:
        """How many executors it runs."""
        return sum("CoarseGrainedExecutorBackend" in _command(pid) for pid in _below(self._process.pid))

    def check(self) -> None:
        """``RuntimeError`` with the end of its log, where it is not running."""
        if self._process.poll() is not None:
            raise RuntimeError(f"{self._log.name} ends:\n{self._log.read_text(errors='replace')[-3000:]}")


def _below(pid: int) -> Iterator[int]:
    """All processes below one."""
    try:
        children = Path(f"/proc/{pid}/task").glob("*/children")
        found = [int(child) for path in children for child in path.read_text().split()]
    except OSError:
        return  # it has just ended
    for child in found:
        yield child
        yield from _below(child)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


class SparkCluster:
    """A master and its workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        port, self._page = free_port(), free_port()
        self.master = f"spark://{_HOST}:{port}"
        arguments = ("--port", str(port), "--webui-port", str(self._page))
        self._daemons = [Daemon(folder, "master", "master.Master", arguments)]
        self.workers: list[Daemon] = []

    def add_worker(self) -> None:
        """Start a worker with one core."""
        name = f"worker-{len(self.workers)}"
        arguments = ["--webui-port", str(free_port()), "--cores", "1", "--memory", "1200m"]
        arguments += ["--work-dir", str(self._folder / name), self.master]
        self.workers.append(Daemon(self._folder, name, "worker.Worker", arguments))
        self._daemons.append(self.workers[-1])

    def wait(self, workers: int) -> None:
        """Wait until the master knows so many workers."""
        deadline = time.monotonic() + _START_SECONDS
        while self._state().get("aliveworkers") != workers:
            self._daemons[0].check()
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.master} has not {workers} workers: {self._state()}")
            time.sleep(0.2)

    def _state(self) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(f"http://{_HOST}:{self._page}/json/", timeout=5) as response:
                found: dict[str, Any] = json.load(response)
                return found
        except OSError:
            return {}

    def stop(self) -> None:
        """Stop all of it."""
        for daemon in reversed(self._daemons):
            daemon.stop()


@contextmanager
def spark_cluster(folder: Path, workers: int = 2) -> Iterator[SparkCluster]:
    """A master with workers of one core each, ready to be used."""
    java()
    cluster = SparkCluster(folder)
    try:
        cluster.wait(0)
        for _ in range(workers):
            cluster.add_worker()
        cluster.wait(workers)
        yield cluster
    finally:
        cluster.stop()


def python_without_tidewire(folder: Path) -> Path:
    """A Python with all packages of this one, but not with tidewire.

    A folder named in a ``.pth`` file is searched for packages, but its own ``.pth`` files are not read, and one of
    those is how a source tree is installed.
    """
    venv.create(folder, symlinks=True)
    packages = next((folder / "lib").glob("python*/site-packages"))
    own = next(Path(entry) for entry in sys.path if entry.endswith("site-packages"))
    (packages / "others.pth").write_text(f"{own}\n")
    return folder / "bin" / "python"
