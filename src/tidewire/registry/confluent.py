"""A schema registry with Confluent's REST interface, as TiCDC talks to it."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote_plus, unquote, urlsplit, urlunsplit

from tidewire.errors import MissingExtra, OptionError, RegistryError

if TYPE_CHECKING:
    import ssl

    import httpx

_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
_ACCEPT = f"{_CONTENT_TYPE}, application/vnd.schemaregistry+json, application/json"
_TIMEOUT_SECONDS = 30.0  # the server's own
_FIRST_DELAY_SECONDS, _GROWTH, _JITTER = 0.5, 1.5, 0.5  # the server's backoff curve
_CACHED = 1000  # as many as Confluent's own clients keep; a schema is some kilobytes


class ConfluentRegistry:
    """A registry behind HTTP, at a host or below a path such as ``/apis/ccompat/v7``.

    User and password stand percent-encoded in the URI and are never shown again. A request that gets no answer or a
    5xx one is made again, ``attempts`` times in all, with growing pauses. What was asked once is remembered.
    """

    def __init__(
        self,
        uri: str,
        *,
        attempts: int = 8,
        verify: ssl.SSLContext | bool = True,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtra("httpx", "avro") from error
        try:
            parts = urlsplit(uri)
            address = parts.netloc.rpartition("@")[2]
            self.uri = urlunsplit((parts.scheme, address, parts.path.rstrip("/"), "", ""))
            usable = parts.scheme in ("http", "https") and httpx.URL(self.uri).host != ""
        except (ValueError, httpx.InvalidURL):
            usable = False
        if not usable:
            raise OptionError("schema-registry", "an http or https URI with a host is needed")
        self._attempts = attempts
        self._sleep = sleep
        self._transport_error, self._http_error = httpx.TransportError, httpx.HTTPError
        self._client = httpx.Client(
            auth=(unquote(parts.username or ""), unquote(parts.password or "")) if "@" in parts.netloc else None,
            verify=verify,
            transport=transport,
            timeout=_TIMEOUT_SECONDS,
            follow_redirects=True,
        )
        self._registered = lru_cache(_CACHED)(self._register)
        self._fetched = lru_cache(_CACHED)(self._fetch)

    def __repr__(self) -> str:
        return f"ConfluentRegistry({self.uri!r})"

    def __enter__(self) -> ConfluentRegistry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()

    def register(self, subject: str, schema: str) -> int:
        """The id of a schema under a subject; ``RegistryError`` with the registry's reason where it refuses."""
        return self._registered(subject, schema)

    def schema(self, schema_id: int) -> str:
        """The text of a schema."""
        return self._fetched(schema_id)

    def probe(self) -> None:
        """Make sure that a registry is there; raises ``RegistryError`` if another service answers.

        TiCDC wants ``{}`` at the root. A registry below a path has a page there, so its list of schema kinds will do.
        """
        if self._request("GET", "").content.strip() == b"{}":
            return
        response = self._request("GET", "/schemas/types")
        if response.status_code != 200 or not isinstance(_json(response), list):
            raise self._refuse("there is no schema registry here", response.status_code)

    def _register(self, subject: str, schema: str) -> int:
        response = self._request(
            "POST",
            f"/subjects/{quote_plus(subject)}/versions",
            content=json.dumps({"schema": schema}, ensure_ascii=False, separators=(",", ":")).encode(),
            headers={"Content-Type": _CONTENT_TYPE},
        )
        match response.status_code, _json(response):
            case 200, {"id": int(schema_id)} if schema_id is not True and schema_id > 0:
                return schema_id
            case 200, _:
                raise self._refuse(f"no schema id in the answer for {subject}", 200)
        raise self._refuse(f"{subject}: {_reason(response)}", response.status_code)

    def _fetch(self, schema_id: int) -> str:
        response = self._request("GET", f"/schemas/ids/{schema_id}")
        match response.status_code, _json(response):
            case 200, {"schema": str(schema)}:
                return schema
            case 200, _:
                raise self._refuse(f"no schema in the answer for id {schema_id}", 200)
            case 404, {"error_code": int(code)} if code == 404 or code // 100 == 404:
                raise self._refuse(f"schema {schema_id} not found: {_reason(response)}", 404)
            case 404, _:
                raise self._refuse("there is no schema registry here; check the path of its URI")
        raise self._refuse(f"schema {schema_id}: {_reason(response)}", response.status_code)

    def _request(
        self, method: str, path: str, content: bytes | None = None, headers: dict[str, str] | None = None
    ) -> httpx.Response:
        attempt, delay = 1, _FIRST_DELAY_SECONDS
        while True:
            last = attempt >= self._attempts
            try:
                response = self._client.request(
                    method, self.uri + path, content=content, headers={"Accept": _ACCEPT} | (headers or {})
                )
                if last or not _may_pass(response.status_code):
                    return response
            except self._transport_error as error:
                if last:
                    raise self._refuse(f"no answer after {attempt} attempts: {error}", transient=True) from error
            except self._http_error as error:
                raise self._refuse(str(error)) from error
            self._sleep(delay * random.uniform(1 - _JITTER, 1 + _JITTER))
            attempt, delay = attempt + 1, delay * _GROWTH

    def _refuse(self, reason: str, status: int | None = None, *, transient: bool = False) -> RegistryError:
        return RegistryError(self.uri, reason, status, transient or (status is not None and _may_pass(status)))


def _may_pass(status: int) -> bool:
    """Is an answer with this status worth another attempt?"""
    return status in (408, 429) or status >= 500


def _json(response: httpx.Response) -> Any:
    try:
        return json.loads(response.content)
    except (ValueError, RecursionError):
        return None


def _reason(response: httpx.Response) -> str:
    """The registry's own words, or the beginning of whatever answered."""
    match _json(response):
        case {"message": str(message)}:
            return message
    return response.text[:200].strip() or response.reason_phrase
