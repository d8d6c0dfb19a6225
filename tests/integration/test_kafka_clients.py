"""The clients that programs read Kafka with, on a real broker: messages, deserializers, topics, and the examples."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import aiokafka
import pytest
from confluent_kafka import Consumer, DeserializingConsumer

import tidewire
from integration.kafka import Cluster, kafka
from integration.kafka_topics import PATIENCE, created, send
from tidewire import (
    Bootstrap,
    Column,
    Deserializer,
    Event,
    Message,
    Position,
    RowChange,
    TableName,
    TableSchema,
    protocol,
)
from tidewire.errors import DecodeError, TopicError

ROOT = Path(__file__).parents[2]
USERS = TableSchema.build(
    TableName("shop", "users"),
    [Column.of("id", "int", primary_key=True), Column.of("name", "varchar(9)")],
    table_id=7,
    version=3,
)
EVENTS: list[Event] = [
    Bootstrap(USERS),
    RowChange(USERS, 5, after={"id": 1, "name": "a"}),
    RowChange(USERS, 5, after={"id": 2, "name": "b"}),
    RowChange(USERS, 6, before={"id": 1, "name": "a"}, after={"id": 1, "name": "c"}),
    RowChange(USERS, 7, before={"id": 2, "name": "b"}),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with kafka() as running:
        created(running, "users", "changes", "rows", partitions=1)
        created(running, "parts", partitions=3)
        sent = list(protocol("simple").encode(EVENTS))
        send(running, [("users", 0, message) for message in [*sent, Message(None, b"?")]])
        send(running, [("changes", 0, message) for message in protocol("canal-json").encode(EVENTS[1:])])
        send(running, [("parts", number % 3, message) for number, message in enumerate(sent)])
        yield running


def sent() -> list[Message]:
    return [*protocol("simple").encode(EVENTS), Message(None, b"?")]


def as_sent(received: list[Any]) -> None:
    values = [message.value for message in map(Message.of, received)]
    assert [len(value or b"") for value in values] == [len(message.value or b"") for message in sent()]
    assert [Position.of(message) for message in received] == [Position("users", 0, n) for n in range(len(values))]


def images(events: list[Event]) -> list[Any]:
    return [(event.before, event.after) if isinstance(event, RowChange) else type(event) for event in events]


def settings(cluster: Cluster, **more: Any) -> dict[str, Any]:
    own = {"group.id": "tests", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    return {"bootstrap.servers": cluster.bootstrap, **own, **more}


def test_messages_of_confluent_kafka(cluster: Cluster) -> None:
    consumer = Consumer(settings(cluster))
    consumer.subscribe(["users"])
    as_sent([consumer.poll(PATIENCE) for _ in range(6)])
    consumer.close()


def test_messages_of_kafka_python(cluster: Cluster) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        client: Any = import_module("kafka")
    consumer = client.KafkaConsumer("users", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
    as_sent([next(consumer) for _ in range(6)])
    consumer.close()


def test_messages_of_aiokafka(cluster: Cluster) -> None:
    async def received() -> list[Any]:
        consumer = aiokafka.AIOKafkaConsumer("users", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest")
        await consumer.start()
        try:
            return [await consumer.getone() for _ in range(6)]
        finally:
            await consumer.stop()

    as_sent(asyncio.run(received()))


def test_a_deserializing_consumer_gives_events(cluster: Cluster) -> None:
    consumer: Any = DeserializingConsumer(settings(cluster, **{"value.deserializer": Deserializer("simple")}))
    consumer.subscribe(["users"])

    found = [event for _ in range(5) for event in consumer.poll(PATIENCE).value()]

    assert images(found) == images(EVENTS)
    with pytest.raises(Exception, match="not JSON"):
        consumer.poll(PATIENCE)
    consumer.close()


def test_a_topic_is_read_to_its_end(cluster: Cluster) -> None:
    refused: list[Any] = []
    uri = f"kafka://{cluster.bootstrap}/users"

    with pytest.raises(DecodeError):
        list(tidewire.read(uri, "simple"))
    found = list(tidewire.read(uri, "simple", on_bad_message=lambda *bad: refused.append(bad[0])))

    assert images(found) == images(EVENTS)
    assert refused == [Position("users", 0, 5)]


def test_rows_of_other_partitions_wait_for_their_schema(cluster: Cluster) -> None:
    found = list(tidewire.read_positions(f"kafka://{cluster.bootstrap}/?pattern=part.*", "simple"))

    assert {at.partition for at, _ in found} == {0, 1, 2}
    assert len(found) == len(EVENTS)


def test_a_topic_that_does_not_exist_is_named(cluster: Cluster) -> None:
    with pytest.raises(TopicError, match="nothing"):
        list(tidewire.read(f"kafka://{cluster.bootstrap}/nothing", "simple"))


def run(python: Path, example: str, *arguments: str) -> str:
    program = ROOT / "examples" / "kafka" / example
    assert len(program.read_text().splitlines()) < 40
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        [python, program, *arguments], env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_confluent_example(cluster: Cluster) -> None:
    told = run(Path(sys.executable), "confluent_loop.py", cluster.bootstrap, "users", "simple")

    assert told.splitlines()[-1] == "shop.users [{'id': 1, 'name': 'c'}]"
    assert told.startswith("set aside: users[0]@5: simple: ")


def test_the_quix_streams_example(cluster: Cluster, tmp_path: Path) -> None:
    python = Path(sys.prefix) / "quix" / "bin" / "python"
    assert python.exists(), "make .venv/quix/.ready installs Quix Streams, which wants a client of Kafka of its own"
    run(python, "quix_app.py", cluster.bootstrap, "changes", "rows", "canal-json", "4")

    consumer: Any = Consumer(settings(cluster))
    consumer.subscribe(["rows"])
    found = [consumer.poll(PATIENCE).value() for _ in range(3)]
    consumer.close()

    assert [b'"id":"1"' in value for value in found] == [True, False, True]
    assert all(b'"table":"users"' in value for value in found)
