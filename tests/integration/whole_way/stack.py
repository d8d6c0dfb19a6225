"""The pieces between a database and a lake, as a person runs them: a server with its changefeeds, and a sync.

Each can be killed and started again.
"""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from changefeed.http.servers import process
from integration.kafka import Cluster
from integration.servers import free_port
from spark_sessions import QUICK
from tidewire.cli.app import app

PATIENCE = 300
"""Seconds after which something that was waited for does not come any more."""

_COMMAND = [sys.executable, "-c", "from tidewire.cli import main; main()"]
_SMALL_SPARK = ("spark.driver.memory=1g", f"spark.driver.extraJavaOptions={QUICK}")


def until(condition: Callable[[], object], what: str, troubles: Callable[[], str] = str) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: it did not happen in time. {troubles()}"
        time.sleep(0.2)


def typed(*words: object) -> str:
    """Type a command that succeeds, in this process; what it prints."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == 0, f"{shlex.join(map(str, words))}\n{done.output[-3000:]}"
    return done.stdout


@dataclass(frozen=True, slots=True)
class Feed:
    """A changefeed in one protocol. ``topics`` names what a sync has to read, ``databases`` what it replicates."""

    protocol: str
    parameters: str
    dispatcher: Mapping[str, str]
    topics: str
    databases: tuple[str, ...]

    def sink(self, cluster: Cluster) -> str:
        """Where it writes."""
        return f"kafka://{cluster.bootstrap}/{self.protocol}?protocol={self.protocol}&partition-num=3{self.parameters}"

    def source(self, cluster: Cluster) -> str:
        """Where a sync reads it."""
        return f"kafka://{cluster.bootstrap}/{self.topics}"

    def config(self) -> str:
        """Its configuration file."""
        rules = json.dumps([f"{database}.*" for database in self.databases])
        said = ", ".join(f"{name} = {json.dumps(value)}" for name, value in self.dispatcher.items())
        return f"[filter]\nrules = {rules}\n[sink]\ndispatchers = [{{matcher = ['*.*'], {said}}}]\n"


class Server:
    """``tidewire server`` over a database."""

    def __init__(self, folder: Path, upstream: str) -> None:
        self._folder = folder
        self._upstream = upstream
        self._port = free_port()
        self._life = ExitStack()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self._process = self._life.enter_context(process(self._folder, self._port, self._upstream))
        assert self._process.poll() is None, self.log()

    def stop(self) -> None:
        """Stop it as its keeper would."""
        self._life.close()

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Take it away without a word; it is there again after the block."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        yield
        self.start()

    def create(self, feed: Feed, cluster: Cluster, *more: str) -> None:
        """Make a changefeed."""
        config = self._folder / f"{feed.protocol}.toml"
        config.write_text(feed.config())
        where = ("--server", self.uri, "--changefeed-id", feed.protocol, "--config", config)
        typed("cli", "changefeed", "create", *where, "--sink-uri", feed.sink(cluster), *more)

    def wait(self, ts: int) -> None:
        """Wait until every changefeed's checkpoint is past a moment."""
        until(
            lambda: all(each["summary"]["tso"] > ts for each in self._feeds()),
            f"all checkpoints are past {ts}",
            self.log,
        )

    def pause(self) -> None:
        """Stop all changefeeds once what they have sent is safe."""
        for each in self._feeds():
            typed("cli", "changefeed", "pause", "--server", self.uri, "--changefeed-id", each["id"])

    def _feeds(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(typed("cli", "changefeed", "list", "--server", self.uri))
        assert {each["summary"]["state"] for each in found} <= {"normal", "warning"}, found
        return found

    def log(self) -> str:
        """The end of its log."""
        return (self._folder / "server.log").read_text()[-5000:]


class RunningSync:
    """``tidewire sync`` in a process of its own, which runs on and writes a line for each batch."""

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self._command = [*_COMMAND, "sync", *arguments, *(word for each in _SMALL_SPARK for word in ("--spark", each))]
        self._lines = folder / "sync.jsonl"
        self._errors = folder / "sync.errors"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it goes on where it was."""
        with self._lines.open("ab") as lines, self._errors.open("ab") as errors:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=lines, stderr=errors)

    def wait(self, ts: int) -> None:
        """Wait until its tables are at a moment, or past it."""
        until(lambda: self._applied() >= ts, f"the sync is at {ts}", self._troubles)

    @contextmanager
    def killed(self) -> Iterator[None]:
        """Take it away without a word; it runs again after the block."""
        self.kill()
        yield
        self.start()

    def kill(self) -> None:
        """Take it away without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """End it after the batch that is running."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(PATIENCE) == 0, self._troubles()

    def _applied(self) -> int:
        assert self._process is not None
        assert self._process.poll() is None, self._troubles()
        whole = self._lines.read_text().rpartition("\n")[0].splitlines()
        passes = (line for line in map(json.loads, reversed(whole)) if "applied" in line)  # others are notes
        return int(next(passes, {"applied": 0})["applied"])

    def _troubles(self) -> str:
        return f"It says:\n{self._lines.read_text()[-3000:]}\n{self._errors.read_text()[-3000:]}"


@contextmanager
def broker_killed(cluster: Cluster) -> Iterator[None]:
    """Take the only broker away without a word; it is there again after the block."""
    (broker,) = cluster.brokers
    broker.kill()
    yield
    broker.start()
    cluster.wait()
