"""A client of the Open API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import quote, urlsplit

from tidewire.changefeed.http.authentication import Credentials, is_loopback
from tidewire.errors import ChangefeedError, MissingExtra
from tidewire.secrets import redacted

Document: TypeAlias = dict[str, Any]

UNREACHABLE = "CDC:ErrInvalidServerOption"
_TIMEOUT_SECONDS = 120.0
"""Long, because pausing waits until the last messages are safe."""


@dataclass(frozen=True, slots=True)
class ApiClient:
    """The changefeed verbs of a server, for one namespace. A refusal raises ``ChangefeedError``."""

    server: str
    credentials: Credentials = field(default_factory=Credentials)
    namespace: str = "default"

    def create(self, body: Mapping[str, Any]) -> Document:
        """Create a changefeed."""
        return self._document("POST", "/changefeeds", body)

    def list_all(self, state: str = "all") -> list[Document]:
        """The changefeeds in a state."""
        return list(self._document("GET", "/changefeeds", query={"state": state})["items"])

    def query(self, changefeed_id: str) -> Document:
        """Everything about a changefeed."""
        return self._document("GET", _path(changefeed_id))

    def update(self, changefeed_id: str, body: Mapping[str, Any]) -> Document:
        """Change a changefeed."""
        return self._document("PUT", _path(changefeed_id), body)

    def pause(self, changefeed_id: str) -> None:
        """Stop a changefeed."""
        self._request("POST", _path(changefeed_id, "/pause"))

    def resume(self, changefeed_id: str, checkpoint_ts: int = 0) -> None:
        """Resume a changefeed."""
        self._request("POST", _path(changefeed_id, "/resume"), {"overwrite_checkpoint_ts": checkpoint_ts})

    def remove(self, changefeed_id: str) -> None:
        """Remove a changefeed."""
        self._request("DELETE", _path(changefeed_id))

    def verify_table(self, body: Mapping[str, Any]) -> Document:
        """The tables a changefeed would have."""
        return self._document("POST", "/verify_table", body)

    def get_all_tables(self, body: Mapping[str, Any]) -> Document:
        """The tables that a configuration's filter keeps."""
        return self._document("POST", "/get_all_tables", body)

    def tso(self) -> Document:
        """The two halves of the newest timestamp upstream."""
        return self._document("POST", "/tso")

    def captures(self) -> list[Document]:
        """The servers of the cluster."""
        return list(self._document("GET", "/captures")["items"])

    def processors(self) -> list[Document]:
        """The running changefeeds, and their servers."""
        return list(self._document("GET", "/processors")["items"])

    def _document(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str] = {}
    ) -> Document:
        answer = self._request(method, path, body, query)
        if not isinstance(answer, dict):
            raise ChangefeedError(UNREACHABLE, f"{redacted(self.server)} does not answer as a changefeed server does")
        return answer

    def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, query: Mapping[str, str] = {}
    ) -> Any:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra("httpx", "cli") from error
        base = _base(self.server)
        try:
            response = httpx.request(
                method,
                f"{base}/api/v2{path}",
                params={**query, "namespace": self.namespace},
                content=None if body is None else json.dumps(body).encode(),
                headers={"Content-Type": "application/json", **self.credentials.header()},
                timeout=_TIMEOUT_SECONDS,
                trust_env=not is_loopback(urlsplit(base).hostname or ""),  # no proxy leads to this machine
            )
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            raise ChangefeedError(UNREACHABLE, f"no answer from {redacted(self.server)}: {error}") from error
        return _read(redacted(self.server), response.status_code, response.content)


def _read(server: str, status: int, content: bytes) -> Any:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        raise ChangefeedError(UNREACHABLE, f"{server} answers {status}, and not as a changefeed server does") from None
    match document:
        case {"error_code": str(code), "error_msg": str(message)} if status >= 400:
            raise ChangefeedError(code, message.removeprefix(f"[{code}]"))
        case _ if status >= 400:
            raise ChangefeedError(UNREACHABLE, f"{server} answers {status}")
    return document


def _path(changefeed_id: str, verb: str = "") -> str:
    return f"/changefeeds/{quote(changefeed_id, safe='')}{verb}"


def _base(server: str) -> str:
    """The base of a server's URLs; like TiCDC, an address without a scheme is accepted."""
    text = server if "://" in server else f"http://{server}"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable:
        shown = redacted(server)
        raise ChangefeedError(UNREACHABLE, f"{shown!r} is not the address of a server; write http://127.0.0.1:8300")
    return text.rstrip("/")
