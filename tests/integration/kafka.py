"""A real Kafka: brokers in KRaft mode on loopback, each of them also a controller.

``make kafka`` runs one for a person to play with.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient

from integration.certificates import Authority
from integration.servers import Jars, OwnProcess, free_port, java

BROKER = Jars(
    (("org.apache.kafka", "kafka_2.13", "4.3.1"),), "38450ecbea2c8fc968a111ade75f663f70c36d8233e3730adf79e790c7453172"
)

_START_SECONDS = 120
_HOST = "127.0.0.1"
_PLAINTEXT, _CONTROLLER = "PLAINTEXT", "CONTROLLER"
_SECURED = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_CLUSTER = "dGlkZXdpcmUtdGVzdHMtMQ"


@dataclass(frozen=True, slots=True)
class BrokerSecurity:
    """TLS, where clients must show a certificate of the same authority, and users with their passwords."""

    authority: Authority
    users: Mapping[str, str]


class Broker(OwnProcess):
    """One broker's process, its settings and its data. ``ports`` are those of its listeners."""

    def __init__(
        self,
        number: int,
        ports: Mapping[str, int],
        home: Path,
        settings: Mapping[str, str],
        classpath: str,
        format_with: Sequence[str] = (),
    ) -> None:
        self.addresses = {listener: f"{_HOST}:{port}" for listener, port in ports.items()}
        self._home = home
        self._classpath = classpath
        self._file = home / "server.properties"
        home.mkdir(parents=True)
        lines = {
            **settings,
            "node.id": str(number),
            "process.roles": "broker,controller",
            "log.dirs": str(home / "data"),
        }
        escaped = {name: value.replace("\\", "\\\\") for name, value in lines.items()}
        self._file.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))
        done = self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._file), *format_with)
        if done.wait() != 0:
            raise RuntimeError(f"the broker's folder cannot be made:\n{self.log()}")

    def _java(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [
            java(),
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            self._classpath,
            *arguments,
        ]
        with (self._home / "log").open("ab") as output:
            return subprocess.Popen(
                command, cwd=self._home, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )

    def start(self) -> None:
        """Start it; it takes a few seconds to answer."""
        self._process = self._java("kafka.Kafka", str(self._file))

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
        self.bootstrap = self.at(_PLAINTEXT)

    def at(self, listener: str) -> str:
        """Where the brokers listen for a security protocol, such as ``SASL_SSL``."""
        return ",".join(broker.addresses[listener] for broker in self.brokers)

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
def kafka(count: int = 1, *, port: int | None = None, security: BrokerSecurity | None = None) -> Iterator[Cluster]:
    """Empty brokers, ready to be used; they and their data are gone after the block."""
    classpath = BROKER.classpath()
    folder = Path(tempfile.mkdtemp(prefix="kafka-"))
    protocols = (_PLAINTEXT, *(_SECURED if security else ()))
    ports = [{name: free_port() for name in (*protocols, _CONTROLLER)} for _ in range(count)]
    if port is not None:
        ports[0][_PLAINTEXT] = port
    voters = ",".join(f"{number}@{_HOST}:{own[_CONTROLLER]}" for number, own in enumerate(ports, 1))
    shared = _settings(voters, count) | (_secured(security) if security else {})
    users = [] if security is None else _scram_users(security.users)
    brokers: list[Broker] = []
    try:
        for number, own in enumerate(ports, 1):
            brokers.append(Broker(number, own, folder / str(number), shared | _listeners(own), classpath, users))
            brokers[-1].start()
        cluster = Cluster(brokers)
        cluster.wait()
        yield cluster
    finally:
        for broker in brokers:
            broker.stop()
        shutil.rmtree(folder)


def _listeners(ports: Mapping[str, int]) -> dict[str, str]:
    places = {name: f"{name}://{_HOST}:{port}" for name, port in ports.items()}
    return {
        "listeners": ",".join(places.values()),
        "advertised.listeners": ",".join(place for name, place in places.items() if name != _CONTROLLER),
        "controller.listener.names": _CONTROLLER,
        "inter.broker.listener.name": _PLAINTEXT,
        "listener.security.protocol.map": ",".join(
            f"{name}:{_PLAINTEXT if name == _CONTROLLER else name}" for name in places
        ),
    }


def _settings(voters: str, count: int) -> dict[str, str]:
    copies = str(min(count, 3))
    return {
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
        "log.cleaner.backoff.ms": "200",
    }


def _secured(security: BrokerSecurity) -> dict[str, str]:
    """TLS and SASL on the listeners that are called so."""
    broker = security.authority.issue("broker", _HOST)
    store = broker.cert.with_name("broker-store.pem")
    store.write_text(broker.key.read_text() + broker.cert.read_text())
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(security.authority.ca),
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(("PLAIN", "OAUTHBEARER", *_SCRAM)),
    }
    module = "org.apache.kafka.common.security"
    users = " ".join(f'user_{name}="{password}"' for name, password in security.users.items())
    for listener in ("sasl_plaintext", "sasl_ssl"):
        name = f"listener.name.{listener}"
        settings[f"{name}.plain.sasl.jaas.config"] = f"{module}.plain.PlainLoginModule required {users};"
        token = f'{module}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        settings[f"{name}.oauthbearer.sasl.jaas.config"] = token
        for mechanism in _SCRAM:
            settings[f"{name}.{mechanism.lower()}.sasl.jaas.config"] = f"{module}.scram.ScramLoginModule required;"
    return settings


def _scram_users(users: Mapping[str, str]) -> list[str]:
    return [
        argument
        for mechanism in _SCRAM
        for name, password in users.items()
        for argument in ("--add-scram", f"{mechanism}=[name={name},password={password}]")
    ]


def main() -> None:
    """Run a broker until it is interrupted."""
    with kafka(port=9092) as cluster:
        print(f"Kafka is at {cluster.bootstrap}; Ctrl-C stops it and removes its data")
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
