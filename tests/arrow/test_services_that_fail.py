"""A claim-check store or a schema registry that fails is not the message's fault: no good row becomes a reject."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from integration.servers import free_port
from object_stores import S3, Answer, Request, http_server
from tidewire.arrow import BatchDecoder
from tidewire.codec import Options, Resources, protocol
from tidewire.codec.claim_check import MemoryStore, open_store
from tidewire.codec.simple import Decoder as SimpleDecoder
from tidewire.errors import ClaimCheckError, OptionError, RegistryError, TidewireError
from tidewire.model import Column, Index, Message, RowChange, TableName, TableSchema
from tidewire.registry import ConfluentRegistry, FileRegistry, MemoryRegistry, Registry

TABLE = TableSchema.build(
    TableName("test", "t"),
    [Column.of("id", "int", primary_key=True), Column.of("v", "text")],
    [Index("PRIMARY", ("id",), unique=True, primary=True)],
    table_id=1,
    version=5,
)
EVENT = RowChange(TABLE, 1, after={"id": 7, "v": "v" * 3000})
CLAIMING = ["open-protocol", "canal-json", "simple"]
OPTIONS = Options.parse(
    {
        "enable-tidb-extension": True,
        "large-message-handle-option": "claim-check",
        "claim-check-storage-uri": "s3://bucket/large",
        "max-message-bytes": 900,
    }
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits between attempts that are short."""
    monkeypatch.setattr("tidewire.storage.bucket._FIRST_DELAY_SECONDS", 0.001)


def large_message(name: str) -> tuple[Message, dict[str, bytes]]:
    """A good message whose row is kept elsewhere, and the file it is kept in."""
    store = MemoryStore()
    encoder = protocol(name).Encoder(OPTIONS, Resources(claim_check=store, file_name=lambda: "x.json"))
    (message,) = encoder.encode([EVENT])
    return message, store.blobs


def batch(*messages: Message) -> pa.RecordBatch:
    keys = pa.array([message.key for message in messages], pa.binary())
    return pa.record_batch({"key": keys, "value": pa.array([message.value for message in messages], pa.binary())})


def decoder(name: str, resources: Resources, *, fast: bool = True) -> BatchDecoder:
    own: Any = protocol(name).Decoder(OPTIONS, resources)
    if isinstance(own, SimpleDecoder):
        own.schemas.add(TABLE)
    return BatchDecoder(name, OPTIONS, resources, fast=fast, decoder=own)


# Claim checks


def answered(answer: Callable[[Request], Answer | None], name: str) -> Any:
    message, _ = large_message(name)
    with http_server(answer) as server:
        store = open_store(S3(server.endpoint).uri("large"))
        return decoder(name, Resources(claim_check=store)).decode(batch(message))


@pytest.mark.parametrize("name", CLAIMING)
@pytest.mark.parametrize(("status", "transient"), [(503, True), (500, True), (429, True), (403, False)])
def test_a_store_that_refuses_rejects_no_row(name: str, status: int, transient: bool) -> None:
    with pytest.raises(ClaimCheckError, match=f"the store answers {status}") as caught:
        answered(lambda _: Answer(status), name)

    assert caught.value.transient is transient
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.transient) == (str(caught.value), transient)


@pytest.mark.parametrize("name", CLAIMING)
def test_a_store_that_does_not_answer_rejects_no_row(name: str) -> None:
    with pytest.raises(ClaimCheckError, match="no answer") as caught:
        answered(lambda _: None, name)
    assert caught.value.transient

    message, _ = large_message(name)
    store = open_store(S3(f"http://127.0.0.1:{free_port()}").uri())
    with pytest.raises(ClaimCheckError, match="Connection refused") as caught:
        decoder(name, Resources(claim_check=store)).decode(batch(message))
    assert caught.value.transient


@pytest.mark.parametrize("name", CLAIMING)
def test_a_store_that_is_not_there_rejects_no_row(name: str, tmp_path: Path) -> None:
    message, _ = large_message(name)
    missing = Answer(404, {}, b"<Error><Code>NoSuchBucket</Code><Message>The bucket does not exist</Message></Error>")

    with pytest.raises(ClaimCheckError, match="there is no bucket 'bucket'"):
        answered(lambda _: missing, name)
    with pytest.raises(ClaimCheckError, match=r"there is no folder .*; check claim-check-storage-uri"):
        decoder(name, Resources(claim_check=open_store(str(tmp_path / "x")))).decode(batch(message))


@pytest.mark.parametrize("name", CLAIMING)
def test_a_store_that_was_forgotten_rejects_no_row(name: str) -> None:
    message, _ = large_message(name)

    with pytest.raises(OptionError, match=r"option claim-check-storage-uri: .* s3://bucket/large/x.json"):
        decoder(name, Resources()).decode(batch(message))


@pytest.mark.parametrize("name", CLAIMING)
def test_a_file_that_is_not_there_rejects_its_row_alone(name: str, tmp_path: Path) -> None:
    message, files = large_message(name)
    store = open_store(str(tmp_path))
    rejected = decoder(name, Resources(claim_check=store)).decode(batch(message, message))
    assert [(reject.pos, "no such file" in reject.reason) for reject in rejected.rejects] == [(0, True), (1, True)]

    not_found = Answer(404, {}, b"<Error><Code>NoSuchKey</Code></Error>")
    (reject,) = answered(lambda _: not_found, name).rejects
    assert "no such file in s3://bucket/large" in reject.reason

    store.put("x.json", files["x.json"])
    decoded = decoder(name, Resources(claim_check=store)).decode(batch(message))
    assert decoded.rejects == []
    assert decoded.batches[0][1].num_rows == 1


# Schemas


def avro_message() -> tuple[Message, MemoryRegistry]:
    """A good message and the schemas it needs."""
    registry = MemoryRegistry()
    (message,) = protocol("avro").Encoder(Options(), Resources(registry=registry)).encode([EVENT])
    return message, registry


def read_avro(registry: Registry | None, *, fast: bool = True) -> Any:
    message, _ = avro_message()
    return BatchDecoder("avro", Options(), Resources(registry=registry), fast=fast).decode(batch(message))


def confluent(endpoint: str) -> ConfluentRegistry:
    return ConfluentRegistry(endpoint, attempts=2, sleep=lambda _: None)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    ("status", "transient"), [(503, True), (500, True), (429, True), (401, False), (403, False), (404, False)]
)
def test_a_registry_that_refuses_rejects_no_row(status: int, transient: bool, fast: bool) -> None:
    """A 404 that does not come from a registry is a wrong address, not an unknown schema."""
    answer = Answer(status, {}, b"<html>" if status == 404 else b'{"error_code": 1, "message": "no"}')

    with (
        http_server(lambda _: answer) as server,
        confluent(server.endpoint) as registry,
        pytest.raises(RegistryError) as caught,
    ):
        read_avro(registry, fast=fast)

    assert caught.value.transient is transient
    assert (caught.value.status == status) is (status != 404)
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.status, again.transient) == (str(caught.value), caught.value.status, transient)
    assert len(server.requests) == (2 if transient else 1)


@pytest.mark.parametrize("fast", [True, False])
def test_a_registry_that_does_not_answer_rejects_no_row(fast: bool) -> None:
    for endpoint in (f"http://127.0.0.1:{free_port()}", None):
        with http_server(lambda _: None) as server, confluent(endpoint or server.endpoint) as registry:
            with pytest.raises(RegistryError, match="no answer after 2 attempts") as caught:
                read_avro(registry, fast=fast)
            assert caught.value.transient


@pytest.mark.parametrize("fast", [True, False])
def test_a_registry_that_was_forgotten_rejects_no_row(fast: bool, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"option schema-registry: .* schema 1"):
        read_avro(None, fast=fast)
    with pytest.raises(RegistryError, match="there is no such file; check schema-registry"):
        read_avro(FileRegistry(tmp_path / "schemas.json"), fast=fast)


@pytest.mark.parametrize("fast", [True, False])
def test_a_schema_that_the_registry_does_not_know_rejects_its_rows(fast: bool) -> None:
    _, known = avro_message()

    def schema(request: Request) -> Answer:
        try:
            found = known.schema(int(request.target.rpartition("/")[2]))
        except RegistryError:
            return Answer(404, {}, b'{"error_code": 40403, "message": "Schema not found"}')
        return Answer(200, {}, json.dumps({"schema": found}).encode())

    message, _ = avro_message()
    strange = Message(message.key, b"\0\0\0\0\x63" + (message.value or b"")[5:])
    with http_server(schema) as server, confluent(server.endpoint) as registry:
        reading = BatchDecoder("avro", Options(), Resources(registry=registry), fast=fast)
        decoded = reading.decode(batch(message, strange))

    assert decoded.batches[0][1].num_rows == 1
    (reject,) = decoded.rejects
    assert reject.pos == 1
    assert "schema 99 not found" in reject.reason


def test_none_of_these_is_a_decode_error() -> None:
    for kind in (ClaimCheckError("x", "y", transient=True), RegistryError("x", "y", None, transient=True)):
        assert isinstance(kind, TidewireError)
        assert not isinstance(kind, ValueError)
