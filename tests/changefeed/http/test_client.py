"""The client: what servers refuse, and servers that are none."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from changefeed.http.servers import server
from integration.servers import free_port
from tidewire.changefeed.http.authentication import Credentials, Guard
from tidewire.changefeed.http.client import ApiClient
from tidewire.errors import ChangefeedError
from tidewire.secrets import Secret


class _Other(BaseHTTPRequestHandler):
    """A server of another kind: the path says what it answers."""

    def do_GET(self) -> None:
        status, body = (500, b"<html>") if "text" in self.path else (502, b"{}") if "bad" in self.path else (200, b"[]")
        self.send_response(status)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def other() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Other) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def test_a_refusal_is_the_error_the_server_raised(tmp_path: Path) -> None:
    with server(tmp_path) as api, pytest.raises(ChangefeedError) as caught:
        ApiClient(api.uri).query("no body & else?")

    assert str(caught.value) == "[CDC:ErrChangeFeedNotExists]there is no changefeed no body & else?"


def test_an_address_needs_no_scheme(tmp_path: Path) -> None:
    with server(tmp_path) as api:
        assert ApiClient(api.uri.removeprefix("http://")).list_all() == []


def test_credentials_are_shown(tmp_path: Path) -> None:
    credentials = Credentials(user="me", password=Secret("word"))
    with server(tmp_path, Guard(credentials)) as api:
        assert ApiClient(api.uri, credentials).list_all() == []
        with pytest.raises(ChangefeedError, match="CDC:ErrUnauthorized"):
            ApiClient(api.uri).list_all()


@pytest.mark.parametrize(
    ("changefeed_id", "words"),
    [("text", "answers 500, and not as"), ("bad", "answers 502"), ("list", "does not answer as a changefeed server")],
)
def test_another_kind_of_server_is_told(other: str, changefeed_id: str, words: str) -> None:
    with pytest.raises(ChangefeedError, match=words):
        ApiClient(other).query(changefeed_id)


@pytest.mark.parametrize("address", ["http://me:hush@127.0.0.1:{port}", "ftp://me:hush@127.0.0.1", "http://[", ""])
def test_no_server_is_told_without_secrets(address: str) -> None:
    with pytest.raises(ChangefeedError, match="CDC:ErrInvalidServerOption") as caught:
        ApiClient(address.format(port=free_port())).list_all()

    assert "hush" not in str(caught.value)
