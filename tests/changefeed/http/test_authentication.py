"""Who is let in."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from changefeed.http.servers import server
from tidewire.changefeed.http.app import VERBS
from tidewire.changefeed.http.authentication import Credentials, Guard, is_loopback
from tidewire.secrets import Secret

TOKEN = Credentials(Secret("the-token"))
BASIC = Credentials(user="me", password=Secret("pass:wörd"))


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


@pytest.mark.parametrize(
    ("credentials", "shown", "accepted"),
    [
        (TOKEN, "Bearer the-token", True),
        (TOKEN, "bearer  the-token ", True),
        (TOKEN, "Bearer the-toke", False),
        (TOKEN, "the-token", False),
        (TOKEN, "", False),
        (TOKEN, basic("me:the-token"), False),
        (BASIC, basic("me:pass:wörd"), True),
        (BASIC, basic("me:pass"), False),
        (BASIC, basic("you:pass:wörd"), False),
        (BASIC, "Basic ===", False),
        (BASIC, "Basic /w==", False),
        (BASIC, "Bearer pass:wörd", False),
        (Credentials(Secret("the-token"), "me", Secret("word")), basic("me:word"), True),
        (Credentials(), "", True),
    ],
)
def test_credentials(credentials: Credentials, shown: str, accepted: bool) -> None:
    assert credentials.accepts(shown) is accepted


@given(st.text(max_size=20), st.text(max_size=20).filter(lambda text: ":" not in text), st.text(max_size=20))
def test_a_header_that_shows_credentials_is_accepted(token: str, user: str, password: str) -> None:
    credentials = Credentials(Secret(token.strip()), user, Secret(password))

    assert credentials.accepts(credentials.header().get("Authorization", ""))


@pytest.mark.parametrize(
    ("headers", "let_in"),
    [
        ({"host": "127.0.0.1:8300"}, True),
        ({"host": "localhost"}, True),
        ({"host": "[::1]:8300"}, True),
        ({"host": "evil.example:8300"}, False),
        ({"host": "[bad"}, False),
        ({}, False),
        ({"host": "127.0.0.1:8300", "origin": "http://localhost:8300"}, True),
        ({"host": "127.0.0.1:8300", "origin": "https://evil.example"}, False),
        ({"host": "127.0.0.1:8300", "origin": "null"}, False),
    ],
)
def test_without_credentials_only_this_machine_and_no_other_site(headers: dict[str, str], let_in: bool) -> None:
    assert (Guard().refuses(headers) is None) is let_in
    assert Guard(open_to_all=True).refuses(headers) is None


def test_addresses_of_this_machine() -> None:
    assert all(map(is_loopback, ["127.0.0.1", "127.1.2.3", "::1", "LOCALHOST"]))
    assert not any(map(is_loopback, ["0.0.0.0", "::", "10.0.0.1", "", "127.0.0.1.evil.example"]))


def test_every_path_but_health_asks_for_credentials(tmp_path: Path) -> None:
    with server(tmp_path, Guard(TOKEN)) as api:
        for path, verbs in VERBS.items():
            for method in verbs:
                response = api.client.request(method, path.replace("{changefeed_id}", "feed"))
                if path == "/api/v2/health":
                    assert response.status_code == 200
                    continue
                assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer"), path
                assert response.json()["error_code"] == "CDC:ErrUnauthorized"
        shown = api.client.get("/api/v2/changefeeds", headers=dict(TOKEN.header()))
        assert shown.status_code == 200
