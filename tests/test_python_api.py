"""What programs use beside the codecs: messages of Kafka's clients, topics to read, deserializers, pickles."""

from __future__ import annotations

import pickle
import typing
from collections import namedtuple
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tidewire
from scanner_checks import batch
from tidewire import (
    PROTOCOLS,
    Bootstrap,
    Column,
    DecodeError,
    Deserializer,
    Event,
    Message,
    Options,
    Position,
    RowChange,
    TableName,
    TableSchema,
    Watermark,
    protocol,
)
from tidewire.arrow import BatchDecoder, Policy, decode_batch
from tidewire.codec.options import OptionWords
from tidewire.errors import OptionError, SchemaUnknown, TopicError
from tidewire.registry import MemoryRegistry
from tidewire.topic.files import FileTopics

USERS = TableSchema.build(
    TableName("shop", "users"),
    [Column.of("id", "int", primary_key=True), Column.of("name", "varchar(9)")],
    table_id=7,
    version=3,
)
ROWS = [
    RowChange(USERS, 5, after={"id": 1, "name": "a"}),
    RowChange(USERS, 6, before={"id": 1, "name": "a"}, after={"id": 1, "name": None}),
    RowChange(USERS, 7, before={"id": 1, "name": None}),
]

Record = namedtuple("Record", ["topic", "partition", "offset", "key", "value", "headers"])


@dataclass
class ConfluentMessage:
    """A message as confluent-kafka gives it: facts are methods."""

    facts: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name not in self.facts:
            raise AttributeError(name)
        return lambda: self.facts[name]


FACTS: dict[str, Any] = {
    "topic": "t",
    "partition": 2,
    "offset": 9,
    "key": b"k",
    "value": None,
    "headers": [("a", b"1"), ("b", None)],
}


@pytest.mark.parametrize(
    "received", [Record(**FACTS), ConfluentMessage({**FACTS, "error": None})], ids=["kafka-python", "confluent"]
)
def test_a_clients_message_is_one_of_ours(received: Any) -> None:
    assert Message.of(received) == Message(b"k", None, (("a", b"1"), ("b", b"")))
    assert Position.of(received) == Position("t", 2, 9)


def test_what_is_no_message_is_refused() -> None:
    with pytest.raises(TypeError, match="an event of the client: partition end"):
        Message.of(ConfluentMessage({**FACTS, "error": "partition end"}))
    with pytest.raises(TypeError, match="the value is of type dict: use a consumer without a value deserializer"):
        Message.of(Record(**{**FACTS, "value": {}}))


@pytest.mark.parametrize("name", ["canal-json", "simple", "craft"])
def test_a_deserializer_gives_the_events_of_a_value(name: str) -> None:
    read = Deserializer(name, enable_tidb_extension=True)
    events: list[Event] = [*([Bootstrap(USERS)] if name == "simple" else []), *ROWS]
    sent = list(protocol(name).encode(events, enable_tidb_extension=True))

    found = [event for message in pickle.loads(pickle.dumps(sent)) for event in read(message.value, None)]

    assert [event.after for event in found if isinstance(event, RowChange)] == [row.after for row in ROWS]


def test_rows_that_wait_for_their_schema_come_with_it() -> None:
    schema, row = (message.value for message in protocol("simple").encode([Bootstrap(USERS), ROWS[0]]))
    read = Deserializer("simple")

    assert read(row) == []
    assert [type(event) for event in read(schema)] == [Bootstrap, RowChange]


def test_what_a_value_does_not_say_is_refused() -> None:
    with pytest.raises(OptionError, match="open-protocol: its keys say"):
        Deserializer("open-protocol")
    with pytest.raises(DecodeError, match="no value: what happened is in the key"):
        Deserializer("avro")(None)
    with pytest.raises(OptionError, match="colour"):
        Deserializer("simple", colour="red")  # type: ignore[call-arg]


def topics(folder: Path, name: str, events: list[Any]) -> None:
    sent = list(protocol(name).encode(events))
    FileTopics(folder).append("shop", 0, sent[:1])
    FileTopics(folder).append("shop", 1, sent[1:])


@pytest.mark.parametrize("address", ["file://{}/shop", "file://{}", "file-topic://{}/shop"])
def test_a_topic_in_files_is_read(tmp_path: Path, address: str) -> None:
    topics(tmp_path, "canal-json", ROWS)

    found = list(tidewire.read_positions(address.format(tmp_path), "canal-json"))

    assert [str(at) for at, _ in found] == ["shop[0]@0", "shop[1]@0", "shop[1]@1"]
    assert list(tidewire.read(address.format(tmp_path), "canal-json")) == [event for _, event in found]


def test_bad_messages_are_errors_or_the_callers(tmp_path: Path) -> None:
    FileTopics(tmp_path).append("shop", 0, [Message(None, b"?"), *protocol("craft").encode(ROWS[:1])])
    refused: list[Any] = []
    uri = f"file://{tmp_path}/shop"

    with pytest.raises(DecodeError) as error:
        list(tidewire.read(uri, "craft"))
    assert error.value.__notes__ == ["the message is at shop[0]@0"]
    found = list(tidewire.read(uri, "craft", on_bad_message=lambda at, message, error: refused.append((at, message))))

    assert len(found) == 1
    assert refused == [(Position("shop", 0, 0), Message(None, b"?"))]


def test_rows_without_their_schema_are_not_lost_silently(tmp_path: Path) -> None:
    topics(tmp_path, "simple", [ROWS[0]])

    with pytest.raises(SchemaUnknown, match=r"shop\.users at version 3 has not come"):
        list(tidewire.read(f"file://{tmp_path}/shop", "simple"))


def test_a_topic_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(TopicError, match="none"):
        list(tidewire.read(f"file://{tmp_path}/none", "simple"))
    with pytest.raises(OptionError, match="neither kafka://host:9092/topic nor file:///folder/topic"):
        list(tidewire.read("http://x/y", "simple"))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_everything_pickles(name: str) -> None:
    codec = protocol(name)
    registry = MemoryRegistry()
    resources = tidewire.Resources(registry=registry)
    first: list[Any] = [Bootstrap(USERS)] if name == "simple" else []
    sent = list(codec.Encoder(Options(), resources).encode([*first, *ROWS]))
    decoder, batches = codec.Decoder(Options(), resources), BatchDecoder(name, Options(), resources)
    events = [decoder.decode(message) for message in sent]
    whole = batches.decode(batch(sent))

    for thing in (codec, codec.Encoder(Options(), resources), Options(), Policy(), codec.capabilities(), events):
        assert type(pickle.loads(pickle.dumps(thing))) is type(thing)
    assert pickle.loads(pickle.dumps(codec)) == codec
    assert pickle.loads(pickle.dumps(events)) == events
    assert pickle.loads(pickle.dumps(decoder)).decode(sent[-1]) == events[-1]
    again = pickle.loads(pickle.dumps(batches)).decode(batch(sent[-1:]))
    assert len(again.batches) == 1 <= len(whole.batches)


def test_option_words_are_the_options() -> None:
    assert typing.get_type_hints(OptionWords).keys() == {field.name for field in fields(Options)}


def test_a_row_is_shown_briefly() -> None:
    wide = RowChange(USERS, None, before={f"c{number}": "x" * 99 for number in range(100)})

    assert repr(ROWS[1]) == "<update shop.users at 6: (id=1, name='a') -> (id=1, name=None)>"
    assert repr(ROWS[0]) == "<insert shop.users at 5: (id=1, name='a')>"
    assert len(repr(wide)) < 500
    assert repr(Watermark(5)) == "Watermark(ts=5)"


def test_images_are_flat_tables() -> None:
    sent = list(protocol("canal-json").encode(ROWS))
    (rows,) = {rows.plan.table.name: rows for rows in decode_batch("canal-json", batch(sent)).batches}.values()

    assert rows.after().to_pylist() == [
        {"_op": "insert", "_commit_ts": None, "id": 1, "name": "a"},
        {"_op": "update", "_commit_ts": None, "id": 1, "name": None},
    ]
    assert rows.before().column("_op").to_pylist() == ["update", "delete"]
    assert rows.after().schema.field("id").type == pa.int32()
    assert list(rows.after().to_pandas().columns) == ["_op", "_commit_ts", "id", "name"]
