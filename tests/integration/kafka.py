"""A real Kafka: brokers in KRaft mode on loopback, each of them also a controller.

``make kafka`` runs one for a person to play with.
"""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from integration.servers import CACHE, free_port, java

GROUP, ARTIFACT, VERSION = "org.apache.kafka", "kafka_2.13", "4.3.1"
SHA256 = "38450ecbea2c8fc968a111ade75f663f70c36d8233e3730adf79e790c7453172"
"""Of the SHA-256 of all its jars, sorted by name."""

_START_SECONDS = 120
_STOP_SECONDS = 30
_CLUSTER = "dGlkZXdpcmUtdGVzdHMtMQ"


def jars() -> list[Path]:
    """The broker and everything it needs, fetched once."""
    from jgo.maven import Dependency, MavenContext

    context = MavenContext(repo_cache=CACHE / "maven", timeout=_START_SECONDS)
    broker = context.project(GROUP, ARTIFACT).at_version(VERSION).artifact()
    _, found = context.resolver.get_dependency_list([Dependency(broker)])
    paths = sorted(
        (Path(artifact.resolve()) for artifact in [broker, *(node.dep.artifact for node in found)]),
        key=lambda path: path.name,
    )
    whole = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            whole.update(hashlib.file_digest(file, "sha256").digest())
    if whole.hexdigest() != SHA256:
        raise RuntimeError(f"the broker's jars have the SHA-256 {whole.hexdigest()}, {SHA256} was expected")
    return paths


class Broker:
    """One broker's process, its settings and its data."""

    def __init__(self, number: int, port: int, home: Path, settings: dict[str, str], classpath: str) -> None:
        self.address = f"127.0.0.1:{port}"
        self._home = home
        self._classpath = classpath
        self._file = home / "server.properties"
        home.mkdir(parents=True)
        lines = settings | {
            "node.id": str(number),
            "process.roles": "broker,controller",
            "log.dirs": str(home / "data"),
        }
        self._file.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        self._process: subprocess.Popen[bytes] | None = None
        done = self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._file))
        if done.wait() != 0:
            raise RuntimeError(f"the broker's folder cannot be made:\n{self.log()}")

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", self._classpath, *arguments]
        with (self._home / "log").open("ab") as output:
            return subprocess.Popen(
                command, cwd=self._home, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def start(self) -> None:
        """Start it; it takes a few seconds to answer."""
        self._process = self._java("kafka.Kafka", str(self._file))

    def stop(self) -> None:
        """Stop it, and wait until it is gone."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Take it away without a word."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def check(self) -> None:
        """``RuntimeError`` with the end of its log, where it is not running."""
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError(f"the broker is not running; its log ends:\n{self.log()}")

    def log(self) -> str:
        """The end of its log."""
        return (self._home / "log").read_text(errors="replace")[-3000:]


class Cluster:
    """Some brokers."""

    def __init__(self, brokers: Sequence[Broker]) -> None:
        self.brokers = brokers
        self.bootstrap = ",".join(broker.address for broker in brokers)

    def wait(self) -> None:
        """Wait until all brokers know one another."""
        deadline = time.monotonic() + _START_SECONDS
        while not self._complete():
            for broker in self.brokers:
                broker.check()
            if time.monotonic() > deadline:
                raise RuntimeError(f"the brokers do not answer; a log ends:\n{self.brokers[0].log()}")
            time.sleep(0.2)

    def _complete(self) -> bool:
        try:
            known = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0}).list_topics(timeout=2)
        except Exception:  # whatever the client says, the answer is not there yet
            return False
        return len(known.brokers) == len(self.brokers)


@contextmanager
def kafka(count: int = 1, *, port: int | None = None) -> Iterator[Cluster]:
    """Empty brokers, ready to be used; they and their data are gone after the block."""
    classpath = ":".join(map(str, jars()))
    folder = Path(tempfile.mkdtemp(prefix="kafka-"))
    ports = [(port or free_port(), free_port()) for _ in range(count)]
    voters = ",".join(f"{number}@127.0.0.1:{control}" for number, (_, control) in enumerate(ports, 1))
    brokers = []
    try:
        for number, (client, control) in enumerate(ports, 1):
            brokers.append(
                Broker(number, client, folder / str(number), _settings(client, control, voters, count), classpath)
            )
            brokers[-1].start()
        cluster = Cluster(brokers)
        cluster.wait()
        yield cluster
    finally:
        for broker in brokers:
            broker.stop()
        shutil.rmtree(folder)


def _settings(client: int, control: int, voters: str, count: int) -> dict[str, str]:
    copies = str(min(count, 3))
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{client},CONTROLLER://127.0.0.1:{control}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{client}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": voters,
        "num.partitions": "1",
        "default.replication.factor": copies,
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "1",
        "min.insync.replicas": "1",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "message.max.bytes": "33554432",
    }


def main() -> None:
    """Run a broker until it is interrupted."""
    with kafka(port=9092) as cluster:
        print(f"Kafka is at {cluster.bootstrap}; Ctrl-C stops it and removes its data")
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
