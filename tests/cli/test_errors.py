"""Errors that a new user meets: each is one line that says what to do, with the right exit code and without a trace."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from subprocess import Popen

import pytest

from command_line import SMALL, closed_port, finished, lines_of, started
from scripted import OPTIONS, Script, table
from tidewire.cli.failures import one_line
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore
from tidewire.errors import StorageError
from tidewire.model import Message, RowChange
from tidewire.spark.ledger import Ledger, Owner, ledger_of
from tidewire.spark.publications import Publications
from tidewire.topic.files import FileTopics

ORDERS = table("orders", id="bigint", label="varchar(20)")


def orders(folder: Path) -> str:
    """A small topic in Canal-JSON."""
    script = Script()
    script.ddl("orders", "CREATE TABLE orders (id BIGINT PRIMARY KEY, label VARCHAR(20))")
    script.insert(ORDERS, id=1, label="one")
    script.watermark()
    script.write(folder)
    return folder.as_uri()


def filled(folder: Path, value: bytes) -> str:
    """A topic of three messages that are the same."""
    FileTopics(folder).append("t", 0, [Message(None, value)] * 3)
    return folder.as_uri()


def claims(folder: Path) -> str:
    """A topic with a row in an external store."""
    options = Options.parse({**OPTIONS, "max-message-bytes": "1000", "large-message-handle-option": "claim-check"})
    row = RowChange(ORDERS, 450_000_000_000_000_000, after={"id": 1, "label": "x" * 2000})
    messages = protocol("canal-json").Encoder(options, Resources(MemoryStore())).encode([row])
    FileTopics(folder).append("t", 0, list(messages))
    return folder.as_uri()


def other_sync(folder: Path) -> str:
    """A target that belongs to another sync."""
    owner = Owner("file:///elsewhere", "canal-json", "iceberg", "mirror", True, "UTC")
    Ledger.open(ledger_of(str(folder)), owner).close()
    return str(folder)


def rest_catalog(path: Path, port: int) -> Path:
    """Settings with an Iceberg catalog that does not answer."""
    path.write_text(f'[catalog.lake]\ntype = "rest"\nuri = "http://127.0.0.1:{port}"\n')
    return path


_MADE: Mapping[str, Callable[[Path, int], object]] = {
    "port": lambda folder, port: port,
    "lake": lambda folder, port: folder / "lake",
    "orders": lambda folder, port: orders(folder / "orders"),
    "avro": lambda folder, port: filled(folder / "avro", b"\0\0\0\0\7" + bytes(20)),
    "claims": lambda folder, port: claims(folder / "claims"),
    "garbage": lambda folder, port: filled(folder / "garbage", b"\x89PNG\r\n"),
    "taken": lambda folder, port: other_sync(folder / "taken"),
    "config": lambda folder, port: rest_catalog(folder / "sync.toml", port),
}
"""What stands for a word in braces."""


@dataclass(frozen=True)
class Situation:
    """What is typed, and what the line says then."""

    name: str
    typed: str
    says: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    first: str = ""
    waits: bool = False

    def __str__(self) -> str:
        return self.name

    def started(self, folder: Path, port: int) -> AbstractContextManager[Popen[str]]:
        """The command, in a folder of its own; nothing listens on the port."""
        made = {name: make(folder, port) for name, make in _MADE.items() if f"{{{name}}}" in self.typed}
        words = [word.format(**made) for word in self.typed.split()]
        return started("sync", *words, environment=self.environment, first=self.first)


_KEYS = "access-key=a&secret-access-key=hush-hush&region=us-east-1&force-path-style=true"

_FULL = "No space left on device"

SITUATIONS = [
    Situation(
        "unreachable broker",
        "kafka://127.0.0.1:{port}/orders {lake} -p canal-json",
        ("Kafka at 127.0.0.1:{port}: ", "onnection refused", "check the address"),
        waits=True,
    ),
    Situation(
        "unreachable registry",
        "{avro} {lake} -p avro -o schema-registry=http://127.0.0.1:{port}",
        ("schema registry http://127.0.0.1:{port}: ", "onnection refused", "check the address"),
        waits=True,
    ),
    Situation(
        "unreachable store",
        "{orders} s3://bucket/lake?endpoint=http://127.0.0.1:{port}&" + _KEYS + " -p canal-json --config {config}",
        ("storage s3://bucket/lake/_tidewire", "onnection refused", "check the address"),
    ),
    Situation(
        "unreachable store of claim checks",
        "{claims} {lake} -p canal-json -o claim-check-storage-uri=s3://bucket/c?endpoint=http://127.0.0.1:{port}&"
        + _KEYS,
        ("claim check", "s3://bucket/c", "onnection refused", "check the address"),
    ),
    Situation(
        "unreachable catalog",
        "{orders} {lake} -p canal-json --once --config {config} " + " ".join(SMALL[:2]),
        ("option catalog.", ".uri: no server answers (127.0.0.1:{port}: ", "onnection refused", "check the address"),
    ),
    Situation(
        "unreachable master",
        "{orders} {lake} -p canal-json --master spark://127.0.0.1:{port}",
        ("option master: no server answers (127.0.0.1:{port}: ", "check the address"),
    ),
    Situation("wrong protocol", "{orders} {lake} -p simple", ("reads as simple", "give --protocol canal-json")),
    Situation("no registry", "{avro} {lake} -p avro", ("option schema-registry", "their registry's URL")),
    Situation(
        "no registry, and another protocol", "{avro} {lake} -p canal-json", ("give --protocol avro", "schema-registry=")
    ),
    Situation(
        "no Java",
        "{orders} {lake} -p canal-json",
        ("there is no java in the path", "Java 17"),
        environment={"PATH": "/nowhere", "JAVA_HOME": ""},
    ),
    Situation(
        "no jars", "{orders} {lake} -p canal-json", ("run tidewire jars",), environment={"TIDEWIRE_HOME": "/nowhere"}
    ),
    Situation(
        "missing extra",
        "{orders} {lake} -p canal-json",
        ("pyspark is needed here", "pip install 'tidewire[sync]'"),
        first="import sys; sys.modules['pyspark'] = None",
    ),
    Situation(
        "missing extra of the source",
        "kafka://127.0.0.1:{port}/orders {lake} -p canal-json",
        ("confluent-kafka is needed here", "pip install 'tidewire[kafka]'"),
        first="import sys; sys.modules['confluent_kafka'] = None",
    ),
    Situation("typo in the scheme", "kafak://127.0.0.1:{port}/orders {lake} -p canal-json", ("did you mean kafka?",)),
    Situation(
        "typo in an option",
        "kafka://127.0.0.1:{port}/orders?sasl-usr=me {lake} -p canal-json",
        ("option sasl-usr: ", "did you mean sasl-user?"),
    ),
    Situation(
        "typo in a codec option",
        "{orders} {lake} -p canal-json -o enable-tidb-extensions=true",
        ("option enable-tidb-extensions: there is no such option; did you mean enable-tidb-extension?",),
    ),
    Situation(
        "topics that are not there", "file:nowhere {lake} -p canal-json", ("there is no folder", "check the path")
    ),
    Situation(
        "target below a file", "{orders} {config}/lake -p canal-json", ("sync.toml is a file: give another folder",)
    ),
    Situation(
        "two protocols",
        "kafka://127.0.0.1:{port}/orders?protocol=simple {lake} -p canal-json",
        ("the URI of the source says simple, but canal-json is given; give one of them",),
    ),
    Situation(
        "target of another sync",
        "{orders} {taken} -p canal-json",
        ("the target belongs to another sync: its source is file:///elsewhere", "Give another target"),
    ),
    Situation(
        "garbage", "{garbage} {lake} -p canal-json", ("no protocol reads them, so check that the topic is", "PNG")
    ),
]


@pytest.fixture(scope="module")
def waiting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, tuple[Path, int, Popen[str]]]]:
    """The commands that wait for a server before they give up: they do so while the other tests run."""
    with ExitStack() as stack:
        running = {}
        for situation in SITUATIONS:
            if situation.waits:
                folder, port = tmp_path_factory.mktemp("waiting"), closed_port()
                running[situation.name] = folder, port, stack.enter_context(situation.started(folder, port))
        yield running


@pytest.mark.slow
@pytest.mark.parametrize("situation", sorted(SITUATIONS, key=attrgetter("waits")), ids=str)
def test_an_error_is_one_line_that_says_what_to_do(
    tmp_path: Path, waiting: Mapping[str, tuple[Path, int, Popen[str]]], situation: Situation
) -> None:
    with ExitStack() as stack:
        if situation.waits:
            folder, port, process = waiting[situation.name]
        else:
            folder, port = tmp_path, closed_port()
            process = stack.enter_context(situation.started(folder, port))
        output, errors = process.communicate()

    assert process.returncode == 2, errors
    assert_one_line(errors)
    for text in situation.says:
        assert text.format(port=port) in errors
    assert all({"time", "note"} == line.keys() for line in lines_of(output)), output
    assert not (folder / "lake").exists()  # nothing was written


def assert_one_line(errors: str) -> None:
    """It is an error for people: one line, without traces and secrets."""
    (line,) = errors.splitlines()
    assert line.startswith("Error: ")
    for text in ("Traceback", "at org.apache", "hush-hush"):
        assert text not in line


@pytest.mark.parametrize("error", [StorageError("/lake", "plans/1", _FULL, transient=True), OSError(_FULL)])
def test_a_full_disk_is_called_so(error: Exception) -> None:
    assert f"{_FULL}; make room there, then give the same command again" in one_line(error)


def test_a_trace_is_printed_when_it_is_asked_for(tmp_path: Path) -> None:
    typed = ("sync", "kafak://here/orders", tmp_path / "lake", "-p", "avro")

    for done in (finished("--debug", *typed), finished(*typed, environment={"TIDEWIRE_DEBUG": "1"})):
        assert done.returncode == 2
        assert done.stderr.startswith("Traceback (most recent call last)")
        assert done.stderr.splitlines()[-1].startswith("Error: ")


# Signals


def notes(process: Popen[str]) -> Iterator[str]:
    """What a running command says, line by line, until it ends."""
    assert process.stdout is not None
    for line in process.stdout:
        yield from (each.get("note", line) for each in lines_of(line))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code", "name"), [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM")])
def test_a_signal_while_java_starts_ends_the_command_and_java(
    tmp_path: Path, number: signal.Signals, code: int, name: str
) -> None:
    with started("sync", orders(tmp_path / "orders"), tmp_path / "lake", "-p", "canal-json", *SMALL) as process:
        for note in notes(process):  # until the command and Java, which has the same output, have ended
            if note == "starting Spark":
                while not has_children(process.pid):
                    time.sleep(0.01)
                process.send_signal(number)
        process.wait()
        assert process.stderr is not None
        assert (process.returncode, process.stderr.read()) == (code, f"stopped by {name}\n")
    assert not (tmp_path / "lake").exists()


def has_children(pid: int) -> bool:
    """Has a process started others?"""
    return any(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))


@pytest.mark.slow
def test_a_signal_while_a_broker_is_waited_for_ends_the_command_at_once(tmp_path: Path) -> None:
    source = f"kafka://127.0.0.1:{closed_port()}/orders"

    with started("sync", source, tmp_path / "lake", "-p", "canal-json") as process:
        next(notes(process))
        process.send_signal(signal.SIGINT)
        assert process.communicate()[1] == "stopped by Ctrl-C\n"
        assert process.returncode == 130


@pytest.mark.slow
def test_a_signal_in_a_pass_lets_the_pass_end(tmp_path: Path) -> None:
    source, storage = orders(tmp_path / "orders"), ledger_of(str(tmp_path / "lake"))

    with started("sync", source, tmp_path / "lake", "-p", "canal-json", *SMALL) as process:
        while not storage.list("plans"):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()

    assert (process.returncode, errors) == (0, "")
    *_, last = (line for line in lines_of(output) if "sequence" in line)
    assert last["rows"] == {"shop.orders": 1}
    assert any(line.get("note", "").startswith("stopping after this pass") for line in lines_of(output))
    published = Publications(storage).newest()
    assert published is not None
    assert published.ts == last["applied"]


def test_a_second_signal_does_not_wait_for_the_pass() -> None:
    code = (
        "import os, signal, time; from tidewire.cli.stopping import stopping\n"
        "with stopping() as signals:\n"
        "    signals.in_order(lambda: True)\n"
        "    for _ in range(2): os.kill(os.getpid(), signal.SIGINT)\n"
        "    time.sleep(60)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (130, "stopped by Ctrl-C\n")
