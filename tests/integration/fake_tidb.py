"""MariaDB as TiDB: a proxy between a client and a server that answers TiDB's own statements.

It rewrites statements on their way and notes which tables a session reads without a snapshot. Rows are as of now.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_QUERY = 3


class FakeTidb:
    """The proxy: which TSO it gives, which it refuses, and what it was asked."""

    def __init__(self, port: int, ts: int) -> None:
        self.ts = ts
        self.collected = 0
        """TSOs up to here are refused, as after a garbage collection."""
        self.life_time = "10m0s"
        self.snapshots: list[int] = []
        self.sampled: list[str] = []
        self.unguarded: list[str] = []
        """What was read from tables in a session without a snapshot."""
        self._behind = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads: list[threading.Thread] = []

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._listening.getsockname()[1])

    @property
    def uri(self) -> str:
        """The server as a source of a load."""
        return f"tidb://root@127.0.0.1:{self.port}/"

    def serve(self) -> None:
        """Take connections until it is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self._behind))
                self._start(_forward, client, server, self._rewriter())
                self._start(_forward, server, client, None)

    def close(self) -> None:
        """Take no more connections."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join()

    def _start(self, target: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _rewriter(self) -> Callable[[str], str]:
        """What becomes of the statements of one session."""
        snapshot = 0

        def rewritten(query: str) -> str:
            nonlocal snapshot
            if query == "SELECT VERSION()":
                return "SELECT '8.0.11-TiDB-v8.5.0'"
            if query == "SELECT @@tidb_current_ts":
                return f"SELECT '{self.ts}'"
            if query == "SELECT @@global.tidb_gc_life_time":
                return f"SELECT '{self.life_time}'"
            if (found := re.fullmatch(r"SET @@tidb_snapshot = '(\d+)'", query)) is not None:
                snapshot = int(found[1])
                self.snapshots.append(snapshot)
                if snapshot <= self.collected:
                    text = "snapshot is older than GC safe point"
                    return f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 8055, MESSAGE_TEXT = '{text}'"
                return f"SET @tidb_snapshot = {snapshot}"
            if not snapshot and re.search(r" FROM `|SHOW CREATE", query):
                self.unguarded.append(query)
            if "TABLESAMPLE" in query:
                self.sampled.append(query)
            return query.replace(" TABLESAMPLE REGIONS()", "")

        return rewritten


def _forward(source: socket.socket, sink: socket.socket, rewritten: Callable[[str], str] | None) -> None:
    """Send on what comes; a client's statements are rewritten."""
    with suppress(OSError), source.makefile("rb") as stream:
        if rewritten is None:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        else:
            while len(head := stream.read(4)) == 4:
                payload = stream.read(int.from_bytes(head[:3], "little"))
                if head[3] == 0 and payload[:1] == bytes([_QUERY]):
                    payload = payload[:1] + rewritten(payload[1:].decode()).encode()
                sink.sendall(len(payload).to_bytes(3, "little") + head[3:] + payload)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def fake_tidb(port: int, ts: int) -> Iterator[FakeTidb]:
    """A running proxy before a MariaDB."""
    proxy = FakeTidb(port, ts)
    thread = threading.Thread(target=proxy.serve)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join()
