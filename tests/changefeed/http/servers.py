"""Real servers: in the test's own process over an upstream that the test fills, and as processes of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from changefeed.service.upstreams import Live, until
from tidewire.changefeed.http.app import HttpServer, listening_socket, web_app
from tidewire.changefeed.http.authentication import Guard
from tidewire.changefeed.http.documents import Node
from tidewire.changefeed.service.lifecycle import Backoff
from tidewire.changefeed.service.service import Service
from tidewire.changefeed.service.store import Store

NODE = Node("capture", "127.0.0.1:8300", 77)


@dataclass(frozen=True, slots=True)
class Api:
    """A server and a client of it. ``folder`` is for its topics."""

    uri: str
    client: httpx.Client
    service: Service
    live: Live
    folder: Path

    def sink(self, parameters: str = "protocol=simple") -> str:
        """Topics in files."""
        return f"file-topic://{self.folder}/topics/topic?{parameters}"


@contextmanager
def server(folder: Path, guard: Guard | None = None, live: Live | None = None) -> Iterator[Api]:
    """A server until the end of the block."""
    live = live or Live()
    store = Store(folder / "data")
    service = Service(store, live.open, backoff=Backoff(0.01, 0.01), secrets=["upstream-word"])
    service.start()
    listening = listening_socket("127.0.0.1", 0)
    uri = f"http://127.0.0.1:{listening.getsockname()[1]}"
    http = HttpServer(web_app(service, NODE, guard or Guard()), listening)
    try:
        with httpx.Client(base_url=uri, timeout=60, trust_env=False) as client:
            yield Api(uri, client, service, live, folder)
    finally:
        http.stop()
        service.stop()
        store.close()


@contextmanager
def process(folder: Path, port: int, upstream: str, *more: str) -> Iterator[subprocess.Popen[bytes]]:
    """``tidewire server`` from when it answers until the end of the block, with ``data`` and a log in a folder."""
    command = [sys.executable, "-c", "from tidewire.cli import main; main()", "server", "--log-file", "server.log"]
    running = subprocess.Popen(
        [*command, "--addr", f"127.0.0.1:{port}", "--upstream", upstream, "--data-dir", "data", *more], cwd=folder
    )
    try:
        until(lambda: running.poll() is not None or _answers(port))
        yield running
    finally:
        running.terminate()
        try:
            running.wait(60)
        except subprocess.TimeoutExpired:
            running.kill()
            running.wait()


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/api/v2/health", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
