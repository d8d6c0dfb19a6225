"""A real HDFS on loopback, in one process: Hadoop's own cluster for tests."""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import struct
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from integration.servers import CACHE, Jars, free_port, jdk, running

_START_SECONDS = 60
_SOURCE = Path(__file__).with_name("MiniDfs.java")
CLUSTER = Jars(
    (("org.apache.hadoop", "hadoop-client-minicluster", "3.4.2"),),
    "3c559e5396c4af8949c9f9a5b4bdc5fc0ec6dcf7c74dd2dc5e9ff860b951ed01",
)


@contextmanager
def hdfs() -> Iterator[str]:
    """An empty file system; its URI."""
    port, web = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="hdfs-") as folder:
        command = (
            jdk(),
            "-Xmx512m",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-cp",
            CLUSTER.classpath(),
            str(_SOURCE),
            str(port),
            str(web),
            folder,
        )
        with running(command, Path(folder), CACHE / f"hdfs-{port}.log", f"http://127.0.0.1:{web}/jmx"):
            uri, deadline = f"hdfs://127.0.0.1:{port}", time.monotonic() + _START_SECONDS
            while not _has_node(web):
                if time.monotonic() > deadline:
                    raise RuntimeError("the data node of HDFS does not start")
                time.sleep(0.1)
            yield uri


Trouble = Literal["refused", "half an answer", "no answer"]
"""What becomes of a call: it does not arrive, or its answer does not, or half of it does. The connection is closed."""

_HEAD = 7
"""The bytes with which Hadoop's protocol begins a connection; all that follows comes with its length."""


@contextmanager
def in_trouble(uri: str, trouble: Callable[[], Trouble | None]) -> Iterator[str]:
    """A proxy in front of a name node, which asks for each call whether it is in trouble; its URI."""
    server = urlsplit(uri)

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            met: list[Trouble] = []
            with socket.create_connection((server.hostname or "", server.port or 0)) as behind:
                answers = threading.Thread(target=self._answer, args=(behind, met))
                answers.start()
                try:
                    with contextlib.suppress(OSError, EOFError):
                        behind.sendall(_exactly(self.request, _HEAD))
                        while True:
                            call = _framed(self.request)
                            found = trouble()
                            if found == "refused":
                                break
                            if found is not None:
                                met.append(found)
                            behind.sendall(call)
                finally:
                    _shut(behind)
                    _shut(self.request)
                    answers.join()

        def _answer(self, behind: socket.socket, met: list[Trouble]) -> None:
            with contextlib.suppress(OSError, EOFError):
                while True:
                    answer = _framed(behind)
                    if met:
                        if met[0] == "half an answer":
                            self.request.sendall(answer[: len(answer) // 2])
                        break
                    self.request.sendall(answer)
            _shut(self.request)
            _shut(behind)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

    with Server(("127.0.0.1", 0), Handler) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"hdfs://127.0.0.1:{proxy.server_address[1]}"
        finally:
            proxy.shutdown()
            thread.join()


def _framed(source: socket.socket) -> bytes:
    head = _exactly(source, 4)
    return head + _exactly(source, struct.unpack(">I", head)[0])


def _exactly(source: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        more = source.recv(size - len(found))
        if not more:
            raise EOFError
        found += more
    return found


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def _has_node(web: int) -> bool:
    query = "qry=Hadoop:service=NameNode,name=FSNamesystemState"
    with urllib.request.urlopen(f"http://127.0.0.1:{web}/jmx?{query}", timeout=5) as answer:
        beans = json.load(answer)["beans"]
    return bool(beans and beans[0]["NumLiveDataNodes"])
