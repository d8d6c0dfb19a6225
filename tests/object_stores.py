"""An S3 server on loopback, and a proxy in front of it that misbehaves as it is told."""

from __future__ import annotations

import http.client
import logging
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedIOBase
from typing import Any, NamedTuple
from urllib.parse import urlsplit

BUCKET = "bucket"
PARAMETERS = {
    "access-key": "key",
    "secret-access-key": "secret",
    "region": "us-east-1",
    "force-path-style": "true",
}


@dataclass(frozen=True, slots=True)
class S3:
    """A server that speaks S3 and has one bucket."""

    endpoint: str

    def parameters(self) -> dict[str, str]:
        """What a URI says of it, by TiCDC's names."""
        return {"endpoint": self.endpoint, **PARAMETERS}

    def uri(self, prefix: str | None = None, *, scheme: str = "s3", bucket: str = BUCKET) -> str:
        """A prefix in its bucket, one that is not used yet if none is given."""
        prefix = uuid.uuid4().hex if prefix is None else prefix
        query = "&".join(f"{name}={value}" for name, value in self.parameters().items())
        return f"{scheme}://{bucket}/{prefix}?{query}"


class Answer(NamedTuple):
    """What a server says; ``length`` is what it says of the body's length, if that is not true.

    The body is sent in so many ``pieces``.
    """

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""
    length: int | None = None
    pieces: int = 1


class Request(NamedTuple):
    """What a server is asked."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@contextmanager
def strict_glue() -> Iterator[None]:
    """Let moto's Glue refuse an update of a version that is not the newest one, as Glue itself does."""
    from moto.core.exceptions import JsonRESTError
    from moto.glue.responses import GlueResponse

    lock, update = threading.RLock(), GlueResponse.update_table

    def update_table(self: Any) -> Any:
        with lock:
            wanted = self.parameters.get("VersionId")
            name = self.parameters["TableInput"]["Name"]
            table = self.glue_backend.get_table(self.parameters["DatabaseName"], name)
            if wanted is not None and wanted != str(table._current_version):
                raise JsonRESTError(
                    "ConcurrentModificationException", "Update table failed: the version is not current"
                )
            return update(self)

    GlueResponse.update_table = update_table  # type: ignore[method-assign]
    try:
        yield
    finally:
        GlueResponse.update_table = update  # type: ignore[method-assign]


@contextmanager
def s3_server() -> Iterator[S3]:
    """A moto server on a free port."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    running: Any = server._server
    running.app = one_put_at_a_time(running.app)
    try:
        store = S3(f"http://{host}:{port}")
        send(store.endpoint, Request("PUT", f"/{BUCKET}", {}, b""))
        yield store
    finally:
        server.stop()


def one_put_at_a_time(app: Callable[..., Any]) -> Callable[..., Any]:
    """A server's application in which a put is one step, as in a real store. moto looks first and then puts."""
    lock = threading.Lock()

    def answered(environ: Mapping[str, Any], start_response: Any) -> Any:
        if environ["REQUEST_METHOD"] != "PUT":
            return app(environ, start_response)
        with lock:
            return app(environ, start_response)

    return answered


def send(endpoint: str, request: Request) -> Answer:
    """Ask a server."""
    connection = http.client.HTTPConnection(urlsplit(endpoint).netloc)
    try:
        connection.request(request.method, request.target, request.body, request.headers)
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


@dataclass(slots=True)
class Server:
    """A server that answers as it is told; ``None`` closes the connection without an answer."""

    endpoint: str
    answer: Callable[[Request], Answer | None]
    requests: list[Request] = field(default_factory=list)


def _chunks(source: BufferedIOBase) -> Iterator[bytes]:
    """The pieces of a body that comes without its length."""
    while size := int(source.readline().partition(b";")[0], 16):
        yield source.read(size)
        source.readline()
    while source.readline().strip():
        pass


@contextmanager
def http_server(answer: Callable[[Request], Answer | None]) -> Iterator[Server]:
    """A server on a free port."""
    told = Server("", answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            headers = {name: text for name, text in self.headers.items() if name.lower() != "transfer-encoding"}
            is_chunked = "chunked" in self.headers.get("Transfer-Encoding", "")
            size = int(self.headers.get("Content-Length") or 0)
            body = b"".join(_chunks(self.rfile)) if is_chunked else self.rfile.read(size)
            request = Request(self.command, self.path, headers, body)
            told.requests.append(request)
            answer = told.answer(request)
            if answer is None:
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                if name.lower() not in ("content-length", "transfer-encoding", "connection", "date", "server"):
                    self.send_header(name, value)
            if self.command == "HEAD":
                length = {name.lower(): value for name, value in answer.headers.items()}.get("content-length", "0")
            else:
                length = str(len(answer.body) if answer.length is None else answer.length)
                self.close_connection = answer.length is not None
            self.send_header("Content-Length", length)
            self.end_headers()
            if self.command != "HEAD":
                size = max(1, len(answer.body) // answer.pieces)
                for at in range(0, len(answer.body), size):
                    self.wfile.write(answer.body[at : at + size])

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    told.endpoint = f"http://127.0.0.1:{server.server_port}"
    try:
        yield told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
