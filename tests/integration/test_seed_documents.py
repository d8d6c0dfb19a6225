"""The commands and files that TiCDC's protocol documents print, with a real Kafka, registry and database.

Only the addresses are others, and ``cdc`` is ``tidewire``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from changefeed.http.servers import process
from changefeed.service.upstreams import until
from integration.kafka import Cluster, kafka
from integration.kafka_topics import ends
from integration.mariadb import MariaDB, mariadb
from integration.servers import free_port, schema_registry
from tidewire.codec import Options, Resources, protocol
from tidewire.model import Bootstrap, Event, Message, RowChange, Watermark
from tidewire.registry import ConfluentRegistry

pytestmark = [pytest.mark.integration, pytest.mark.slow]

AVRO = 'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-avro" --sink-uri="kafka://127.0.0.1:9092/topic-name?protocol=avro" --schema-registry=http://127.0.0.1:8081 --config changefeed_config.toml'  # noqa: E501
AVRO_EXTENSION = 'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-avro-enable-extension" --sink-uri="kafka://127.0.0.1:9092/topic-name?protocol=avro&enable-tidb-extension=true" --schema-registry=http://127.0.0.1:8081 --config changefeed_config.toml'  # noqa: E501
AVRO_STRINGS = 'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-avro-string-option" --sink-uri="kafka://127.0.0.1:9092/topic-name?protocol=avro&avro-decimal-handling-mode=string&avro-bigint-unsigned-handling-mode=string" --schema-registry=http://127.0.0.1:8081 --config changefeed_config.toml'  # noqa: E501
CANAL = 'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-canal-json" --sink-uri="kafka://127.0.0.1:9092/topic-name?kafka-version=2.4.0&protocol=canal-json"'
CANAL_EXTENSION = 'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-canal-json-enable-tidb-extension" --sink-uri="kafka://127.0.0.1:9092/topic-name?kafka-version=2.4.0&protocol=canal-json&enable-tidb-extension=true"'  # noqa: E501
SIMPLE = 'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="kafka-simple" --config changefeed_config.toml --sink-uri = "kafka://127.0.0.1:9092/topic-name?kafka-version=2.4.0"'  # noqa: E501
AVRO_FILE = """[sink]
dispatchers = [
 {matcher = ['*.*'], topic = "tidb_{schema}_{table}"},
]
"""
SIMPLE_FILE = """
[sink]
protocol = "simple"

# The following configuration parameters controls the sending behavior of bootstrap messages.
# send-bootstrap-interval-in-sec controls the time interval for sending bootstrap messages, in seconds.
# The default value is 120 seconds, which means that a bootstrap message is sent every 120 seconds for each table.
send-bootstrap-interval-in-sec = 120

# send-bootstrap-in-msg-count controls the message interval for sending bootstrap, in message count.
# The default value is 10000, which means that a bootstrap message is sent every 10000 row changed messages for each table.
send-bootstrap-in-msg-count = 10000
# Note: If you want to disable the sending of bootstrap messages, set both send-bootstrap-interval-in-sec and send-bootstrap-in-msg-count to 0.

# send-bootstrap-to-all-partition controls whether to send bootstrap messages to all partitions.
# The default value is true, which means that bootstrap messages are sent to all partitions of the corresponding table topic.
# Setting it to false means the bootstrap message is sent to only the first partition of the corresponding table topic.
send-bootstrap-to-all-partition = true

[sink.kafka-config.codec-config]
# encoding-format controls the encoding format of the Simple protocol messages. Currently, the Simple protocol message supports "json" and "avro" encoding formats.
# The default value is "json".
encoding-format = "json"
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Town:
    """Everything that runs."""

    folder: Path
    cluster: Cluster
    registry: str
    database: MariaDB
    server: str

    def type(self, command: str, file: str = "") -> subprocess.CompletedProcess[str]:
        """Type a command of a document, beside a configuration file of the document."""
        (self.folder / "changefeed_config.toml").write_text(file)
        for printed, here in {
            "cdc cli": "tidewire cli",
            "http://127.0.0.1:8300": self.server,
            "127.0.0.1:9092": self.cluster.bootstrap,
            "http://127.0.0.1:8081": self.registry,
        }.items():
            command = command.replace(printed, here)
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )

    def create(self, command: str, file: str = "") -> str:
        """Make a changefeed; its id."""
        result = self.type(command, file)
        assert result.returncode == 0, result.stderr
        assert result.stdout.startswith("Create changefeed successfully!\nID: ")
        return result.stdout.splitlines()[1].removeprefix("ID: ")

    def query(self, changefeed_id: str) -> dict[str, Any]:
        """How a changefeed is doing."""
        result = self.type(f"cdc cli changefeed query --server=http://127.0.0.1:8300 --changefeed-id={changefeed_id}")
        assert result.returncode == 0, result.stderr
        found: dict[str, Any] = json.loads(result.stdout)
        return found

    def remove(self, changefeed_id: str) -> None:
        """Take a changefeed away."""
        result = self.type(f"cdc cli changefeed remove --server=http://127.0.0.1:8300 --changefeed-id={changefeed_id}")
        assert result.stdout.startswith("Changefeed remove successfully."), result.stderr

    def insert(self, id_: int) -> None:
        """A row of the table there is."""
        self.database.run(f"INSERT INTO shop.orders (id, amount, big) VALUES ({id_}, 12.34, 7)")

    def messages(self, topic: str) -> list[Message]:
        """Everything in a topic, as it is now."""
        offsets = ends(self.cluster, topic)
        left = sum(offsets.values())
        consumer = Consumer({"bootstrap.servers": self.cluster.bootstrap, "group.id": "tests", "log_level": 0})
        try:
            consumer.assign([TopicPartition(*place, 0) for place in offsets])
            messages: list[Message] = []
            while len(messages) < left:
                messages += [
                    Message(record.key(), record.value())
                    for record in consumer.consume(left - len(messages), timeout=30)
                    if record.error() is None
                ]
            return messages
        finally:
            consumer.close()

    def events(self, topic: str, name: str, options: Options = Options()) -> list[Event]:
        """What the messages of a topic mean to a reader of that protocol; other messages are left out."""
        with ConfluentRegistry(self.registry) as registry:
            decoder = protocol(name).Decoder(replace(options, topic=topic), Resources(registry=registry))
            return [event for message in self.messages(topic) for event in decoder.decode(message)]


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("town")
    with mariadb() as database, kafka() as cluster, schema_registry() as registry:
        database.run(
            "CREATE DATABASE shop",
            "CREATE TABLE shop.orders (id INT PRIMARY KEY, amount DECIMAL(10, 2), big BIGINT UNSIGNED)",
        )
        port = free_port()
        with process(folder, port, database.uri):
            yield Town(folder, cluster, registry, database, f"http://127.0.0.1:{port}")


def rows(events: list[Event]) -> dict[int, RowChange]:
    return {int(str((event.after or {})["id"])): event for event in events if isinstance(event, RowChange)}


def arrives(town: Town, id_: int, read: Callable[[], list[Event]]) -> RowChange:
    """A row that is inserted now, when it has arrived."""
    town.insert(id_)
    until(lambda: id_ in rows(read()))
    return rows(read())[id_]


TOPIC = "tidb_shop_orders"


def test_avro_as_the_document_says(town: Town) -> None:
    made = town.create(AVRO, AVRO_FILE)
    row = arrives(town, 1, lambda: town.events(TOPIC, "avro"))
    assert (made, str(row.after and row.after["amount"]), row.commit_ts) == ("kafka-avro", "12.34", None)
    town.remove(made)

    made = town.create(AVRO_EXTENSION, AVRO_FILE)
    row = arrives(town, 2, lambda: town.events(TOPIC, "avro"))
    assert row.commit_ts is not None
    assert town.query(made)["state"] == "normal"
    town.remove(made)

    made = town.create(AVRO_STRINGS, AVRO_FILE)
    arrives(town, 3, lambda: town.events(TOPIC, "avro"))
    latest = httpx.get(f"{town.registry}/subjects/{TOPIC}-value/versions/latest", trust_env=False).json()
    types = {field["name"]: str(field["type"]) for field in json.loads(latest["schema"])["fields"]}
    assert all("'string'" in types[name] for name in ("amount", "big"))
    town.remove(made)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("", "{schema}"),
        ("[sink]\ndispatchers = [{matcher = ['*.*'], topic = \"static\"}]\n", "{schema}"),
        ("[sink]\ndispatchers = [{matcher = ['*.*'], topic = \"tidb_{schema}\"}]\n", "{table}"),
        (f"force-replicate = true\n{AVRO_FILE}", "CDC:ErrCodecInvalidConfig"),
    ],
)
def test_avro_is_refused_as_the_document_says(town: Town, file: str, words: str) -> None:
    result = town.type(AVRO, file)

    assert result.returncode == 1
    assert words in result.stderr
    listed = town.type("cdc cli changefeed list --server=http://127.0.0.1:8300 --all")
    assert json.loads(listed.stdout) == []


def test_an_incompatible_schema_is_told_in_the_registry_s_words_and_got_over(town: Town) -> None:
    town.database.run("CREATE TABLE shop.strict_ones (id INT PRIMARY KEY)")
    set_compatibility(town, "BACKWARD")
    made = town.create(AVRO.replace("kafka-avro", "strict"), '[filter]\nrules = ["shop.strict_ones"]\n' + AVRO_FILE)
    topic = "tidb_shop_strict_ones"
    town.database.run("INSERT INTO shop.strict_ones VALUES (1)")
    until(lambda: topic in topics(town) and rows(town.events(topic, "avro")))

    town.database.run(
        "ALTER TABLE shop.strict_ones ADD COLUMN more INT NOT NULL", "INSERT INTO shop.strict_ones VALUES (2, 5)"
    )
    until(lambda: town.query(made)["state"] == "warning")

    error = town.query(made)["error"]
    assert error["code"] == "CDC:ErrAvroSchemaAPIError"
    assert f"{topic}-value" in error["message"]
    assert "(HTTP 409)" in error["message"]
    assert "incompatible" in error["message"].lower()
    set_compatibility(town, "NONE")
    until(lambda: town.query(made)["state"] == "normal")
    until(lambda: 2 in rows(town.events(topic, "avro")))
    assert rows(town.events(topic, "avro"))[2].after == {"id": 2, "more": 5}
    town.remove(made)


def set_compatibility(town: Town, level: str) -> None:
    httpx.put(f"{town.registry}/config", json={"compatibility": level}, trust_env=False).raise_for_status()


def topics(town: Town) -> set[str]:
    consumer = Consumer({"bootstrap.servers": town.cluster.bootstrap, "group.id": "tests", "log_level": 0})
    try:
        return set(consumer.list_topics(timeout=30).topics)
    finally:
        consumer.close()


def test_canal_json_as_the_document_says(town: Town) -> None:
    def texts() -> list[dict[str, Any]]:
        return [json.loads(message.value or b"") for message in town.messages("topic-name")]

    made = town.create(CANAL)
    town.insert(11)
    until(lambda: any(text["data"] and text["data"][0]["id"] == "11" for text in texts()))
    assert all("_tidb" not in text and text["type"] != "TIDB_WATERMARK" for text in texts())
    town.remove(made)

    made = town.create(CANAL_EXTENSION)
    town.insert(12)
    until(lambda: any("_tidb" in text and text["data"] and text["data"][0]["id"] == "12" for text in texts()))
    until(lambda: any(text["type"] == "TIDB_WATERMARK" for text in texts()))
    assert town.query(made)["state"] == "normal"
    town.remove(made)


def test_simple_as_the_document_says(town: Town) -> None:
    """The topic is another one: a topic has messages of one protocol."""
    made = town.create(SIMPLE.replace("topic-name", "simple-name"), SIMPLE_FILE)
    arrives(town, 21, lambda: town.events("simple-name", "simple"))
    until(lambda: any(isinstance(event, Watermark) for event in town.events("simple-name", "simple")))

    events = town.events("simple-name", "simple")
    assert any(isinstance(event, Bootstrap) and event.table_schema.name.table == "orders" for event in events)
    assert town.query(made)["config"]["sink"]["kafka_config"]["codec_config"]["encoding_format"] == "json"
    town.remove(made)


@pytest.mark.parametrize("name", ["open-protocol", "craft"])
def test_the_other_protocols_by_their_names(town: Town, name: str) -> None:
    command = f'cdc cli changefeed create --server=http://127.0.0.1:8300 --changefeed-id="{name}" --sink-uri="kafka://127.0.0.1:9092/{name}?protocol={name}"'
    made = town.create(command)

    arrives(town, {"open-protocol": 31, "craft": 32}[name], lambda: town.events(name, name))

    paused = town.type(f"cdc cli changefeed pause --server=http://127.0.0.1:8300 --changefeed-id={made}")
    assert (paused.returncode, town.query(made)["state"]) == (0, "stopped")
    town.remove(made)
