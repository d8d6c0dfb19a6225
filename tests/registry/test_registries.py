"""Registries in memory, in a file and behind HTTP: one contract, and what each adds to it."""

from __future__ import annotations

import base64
import json
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidewire.errors import MissingExtra, OptionError, RegistryError
from tidewire.registry import ConfluentRegistry, FileRegistry, MemoryRegistry, Registry, open_registry

INT, TEXT = '{"type":"int"}', '{"type":"string"}'
Handler = Callable[[httpx.Request], httpx.Response]


class Server:
    """A registry's REST interface in a few lines, with every request it got."""

    def __init__(self) -> None:
        self.memory = MemoryRegistry()
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        match request.method, request.url.raw_path.decode().removeprefix("/base").split("/")[1:]:
            case "GET", [""]:
                return httpx.Response(200, text="{}")
            case "POST", ["subjects", subject, "versions"]:
                schema = json.loads(request.content)["schema"]
                return httpx.Response(200, json={"id": self.memory.register(subject, schema)})
            case "GET", ["schemas", "ids", number]:
                try:
                    return httpx.Response(200, json={"schema": self.memory.schema(int(number))})
                except RegistryError:
                    return httpx.Response(404, json={"error_code": 40403, "message": "Schema not found"})
        raise AssertionError(request)


def confluent(handler: Handler, uri: str = "http://registry", **options: Any) -> ConfluentRegistry:
    options = {"sleep": lambda _: None} | options
    return ConfluentRegistry(uri, transport=httpx.MockTransport(handler), **options)


REGISTRIES: dict[str, Callable[[Path], Registry]] = {
    "memory": lambda _: MemoryRegistry(),
    "file": lambda folder: FileRegistry(folder / "deep" / "schemas.json"),
    "http": lambda _: confluent(Server()),
    "http below a path": lambda _: confluent(Server(), "http://registry/base/"),
}


@pytest.fixture(params=REGISTRIES)
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Registry:
    return REGISTRIES[request.param](tmp_path)


def test_a_schema_is_found_under_the_id_it_got(registry: Registry) -> None:
    first, second = registry.register("t-key", INT), registry.register("t-value", TEXT)

    assert first != second
    assert (registry.schema(first), registry.schema(second)) == (INT, TEXT)


def test_the_same_schema_always_has_the_same_id(registry: Registry) -> None:
    assert len({registry.register("t-value", INT) for _ in range(20)}) == 1
    assert registry.register("u-value", INT) == registry.register("t-value", INT)


def test_an_unknown_id_is_not_found(registry: Registry) -> None:
    registry.register("t-value", INT)

    with pytest.raises(RegistryError, match="not found") as refusal:
        registry.schema(77)

    assert refusal.value.status == 404


def test_memory_keeps_ids_that_others_gave() -> None:
    registry = MemoryRegistry({5: INT})
    registry.put(9, TEXT)
    registry.put(5, '"long"')

    assert registry.schema(5) == '"long"'
    assert registry.register("t", TEXT) == 9
    assert registry.register("t", INT) == 10
    assert registry.schemas() == {5: '"long"', 9: TEXT, 10: INT}


def test_a_file_has_the_form_of_recorded_topics(tmp_path: Path) -> None:
    path = tmp_path / "schemas.json"
    registry = FileRegistry(path)
    registry.register("test_t-key", INT)
    registry.register("test_t-value", TEXT)
    registry.register("test_u-value", TEXT)

    assert json.loads(path.read_text()) == {
        "schemas": {"1": INT, "2": TEXT},
        "subjects": {"test_t-key": [1], "test_t-value": [2], "test_u-value": [2]},
    }
    assert FileRegistry(path).register("test_t-value", '"long"') == 3
    assert registry.schema(3) == '"long"'
    assert [found.name for found in tmp_path.iterdir()] == ["schemas.json"]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"schemas": {"x": ""}, "subjects": {}}',
        '{"schemas": {"1": 2}, "subjects": {}}',
        '{"schemas": {}, "subjects": {"t": 1}}',
    ],
)
def test_a_file_of_something_else_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "schemas.json"
    path.write_text(content)

    with pytest.raises(RegistryError, match="not a"):
        FileRegistry(path).schema(1)


def test_a_registry_that_is_not_there_is_not_an_empty_one(tmp_path: Path) -> None:
    """Else a wrong path makes bad messages of good ones."""
    for path in (tmp_path, tmp_path / "missing.json", tmp_path / "missing" / "schemas.json"):
        with pytest.raises(RegistryError, match="there is no such file; check schema-registry") as refusal:
            FileRegistry(path).schema(1)
        assert refusal.value.status is None


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("http://registry:8081", ConfluentRegistry),
        ("https://registry/apis/ccompat/v7", ConfluentRegistry),
        ("file:schemas.json", FileRegistry),
        ("file:///tmp/a%20b.json", FileRegistry),
        ("memory:", MemoryRegistry),
    ],
)
def test_a_uri_opens_its_kind(uri: str, kind: type) -> None:
    registry = open_registry(uri)

    assert isinstance(registry, kind)
    if isinstance(registry, FileRegistry):
        assert str(registry.path) in ("schemas.json", "/tmp/a b.json")


@pytest.mark.parametrize(
    "uri", ["", "registry:8081", "ftp://registry", "http://", "http://[", "http://a:b:c", "file:", "file://host/x.json"]
)
def test_a_uri_that_is_none_is_refused_without_its_secrets(uri: str) -> None:
    with pytest.raises(OptionError, match="schema-registry"):
        open_registry(uri)
    with pytest.raises(OptionError) as refusal:
        ConfluentRegistry("http://user:secret@host:port")
    assert "secret" not in str(refusal.value)


def test_requests_are_the_servers_own() -> None:
    server = Server()
    registry = confluent(server, "https://registry:8081/base//")
    schema = '{"type":"record","name":"测"}'

    registry.schema(registry.register("a b/c-value", schema))

    register, fetch = server.requests
    assert register.method == "POST"
    assert register.url.raw_path == b"/base/subjects/a+b%2Fc-value/versions"
    assert register.headers["Content-Type"] == "application/vnd.schemaregistry.v1+json"
    assert json.loads(register.content) == {"schema": schema}
    assert fetch.url == "https://registry:8081/base/schemas/ids/1"
    for request in server.requests:
        assert request.headers["Accept"] == (
            "application/vnd.schemaregistry.v1+json, application/vnd.schemaregistry+json, application/json"
        )
        assert "Authorization" not in request.headers


def test_credentials_are_decoded_sent_and_never_shown() -> None:
    server = Server()
    registry = confluent(server, "https://us%40er:p%3Ass%2Fword@registry")

    registry.register("t", INT)
    with pytest.raises(RegistryError) as refusal:
        registry.schema(77)

    expected = base64.b64encode(b"us@er:p:ss/word").decode()
    assert server.requests[0].headers["Authorization"] == f"Basic {expected}"
    for text in (repr(registry), str(refusal.value), repr(refusal.value), registry.uri):
        assert "ss" not in text
        assert "er:" not in text


def test_what_was_asked_once_is_not_asked_again() -> None:
    server = Server()
    registry = confluent(server)

    for _ in range(5):
        registry.schema(registry.register("t", INT))
    for _ in range(2):
        with pytest.raises(RegistryError):
            registry.schema(77)

    assert len(server.requests) == 4


def test_a_refusal_has_the_registrys_reason_and_ticdcs_code() -> None:
    body = {"error_code": 409, "message": "Schema being registered is incompatible with an earlier schema"}
    registry = confluent(lambda _: httpx.Response(409, json=body))

    with pytest.raises(RegistryError) as refusal:
        registry.register("t-value", INT)

    error = refusal.value
    assert (error.status, error.code, error.registry) == (409, "CDC:ErrAvroSchemaAPIError", "http://registry")
    assert error.reason == f"t-value: {body['message']}"
    assert str(error) == f"schema registry http://registry: {error.reason} (HTTP 409) [{error.code}]"
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.status, copy.reason) == (str(error), 409, error.reason)


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(200, json={"id": 0}),
        httpx.Response(200, json={"id": True}),
        httpx.Response(200, json={"id": "1"}),
        httpx.Response(200, text="<html>"),
        httpx.Response(422, text=""),
        httpx.Response(401, text="who are you?"),
        httpx.Response(200, json={"schema": 7}),
    ],
)
def test_an_answer_that_is_none_is_refused(response: httpx.Response) -> None:
    registry = confluent(lambda _: response)

    with pytest.raises(RegistryError):
        registry.register("t", INT)
    with pytest.raises(RegistryError):
        registry.schema(1)


def test_a_server_error_is_tried_again_with_growing_pauses() -> None:
    answers: list[httpx.Response | Exception] = [
        httpx.Response(500),
        httpx.ConnectError("refused"),
        httpx.Response(503),
        httpx.Response(200, json={"id": 3}),
    ]
    pauses: list[float] = []

    def answer(_: httpx.Request) -> httpx.Response:
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    assert confluent(answer, sleep=pauses.append).register("t", INT) == 3
    assert len(pauses) == 3
    for pause, middle in zip(pauses, (0.5, 0.75, 1.125), strict=True):
        assert middle * 0.5 <= pause <= middle * 1.5


@pytest.mark.parametrize(
    ("failure", "reason"),
    [(httpx.ConnectError("refused"), "no answer after 4 attempts: refused"), (None, r"out of order \(HTTP 500\)")],
)
def test_the_last_attempt_tells_what_was_wrong(failure: Exception | None, reason: str) -> None:
    calls = 0

    def answer(_: httpx.Request) -> httpx.Response:
        nonlocal calls
        calls += 1
        if failure is not None:
            raise failure
        return httpx.Response(500, text="out of order")

    with pytest.raises(RegistryError, match=reason):
        confluent(answer, attempts=4).register("t", INT)
    assert calls == 4


def test_redirects_in_a_circle_are_refused() -> None:
    registry = confluent(lambda request: httpx.Response(301, headers={"Location": str(request.url)}))

    with pytest.raises(RegistryError):
        registry.schema(1)


def test_a_probe_finds_a_registry_at_a_root_or_below_a_path() -> None:
    def below(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/schemas/types"):
            return httpx.Response(200, json=["AVRO"])
        return httpx.Response(200, text="<html>")

    confluent(Server()).probe()
    confluent(below, "http://registry/apis/ccompat/v7").probe()
    with pytest.raises(RegistryError, match="there is no schema registry here"):
        confluent(lambda _: httpx.Response(200, text="<html>")).probe()
    with pytest.raises(RegistryError, match="no answer after 1 attempts"):
        ConfluentRegistry("http://127.0.0.1:1", attempts=1).probe()


def test_a_registry_can_be_closed() -> None:
    with confluent(Server()) as registry:
        registry.register("t", INT)

    with pytest.raises(RuntimeError, match="closed"):
        registry.register("t", TEXT)


def test_without_httpx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)

    with pytest.raises(MissingExtra, match="avro"):
        open_registry("http://registry")
