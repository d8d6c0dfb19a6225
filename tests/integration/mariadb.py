"""A real MariaDB on loopback with its own data folder and a row log, which tests may stop and start again.

Where no server is installed and we may do so, the system's package is installed once; else the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from integration.servers import OwnProcess, free_port, install_package
from tidewire.changefeed.source.mysql.connection import driver

_START_SECONDS = 60
_FOLDERS = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/usr/local/libexec"))


def _found(*names: str) -> str | None:
    return next((path for name in names if (path := shutil.which(name, path=_FOLDERS))), None)


def programs() -> tuple[str, str]:
    """The server and the program that makes its data folder; the test is skipped where they cannot be had."""
    install_package("mariadb-server", lambda: _found("mariadbd") is not None)
    server, install = _found("mariadbd"), _found("mariadb-install-db")
    if server is None or install is None:
        pytest.skip("MariaDB is needed (mariadbd and mariadb-install-db), and it could not be installed")
    return server, install


class MariaDB(OwnProcess):
    """One server, its settings and its data."""

    def __init__(self, home: Path, options: Sequence[str] = ()) -> None:
        self.port = free_port()
        self._home = home
        self._options = tuple(options)
        self._server, install = programs()
        made = subprocess.run(
            [
                install,
                "--no-defaults",
                f"--datadir={home / 'data'}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                *self._user(),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise RuntimeError(f"the server's folder cannot be made:\n{made.stdout[-2000:]}{made.stderr[-2000:]}")

    @staticmethod
    def _user() -> list[str]:
        return ["--user=root"] if os.geteuid() == 0 else []

    @property
    def uri(self) -> str:
        """The server as a changefeed's source."""
        return f"mysql://root@127.0.0.1:{self.port}/"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [
            self._server,
            "--no-defaults",
            f"--datadir={self._home / 'data'}",
            f"--socket={self._home / 'socket'}",
            f"--pid-file={self._home / 'pid'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--server-id=1",
            "--log-bin=binlog",
            "--binlog-format=ROW",
            "--binlog-row-image=FULL",
            "--binlog-row-metadata=FULL",
            "--innodb-buffer-pool-size=32M",
            "--innodb-flush-log-at-trx-commit=0",
            *self._user(),
            *self._options,
        ]
        with (self._home / "log").open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = (self._home / "log").read_text(errors="replace")
                raise RuntimeError(f"the server does not answer; its log ends:\n{log[-3000:]}")
            time.sleep(0.1)

    def restart(self) -> None:
        """Stop it and start it again, at the same port."""
        self.stop()
        self.start()

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except driver("pymysql", "pymysql").err.MySQLError:
            return False
        return True

    def connect(self, **arguments: Any) -> Any:
        """A session of an administrator."""
        return driver("pymysql", "pymysql").connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            **{"charset": "utf8mb4", "autocommit": True, "connect_timeout": 5} | arguments,
        )

    def run(self, *statements: str, **arguments: Any) -> None:
        """Run statements, one after the other, in a session of their own."""
        connection = self.connect(**arguments)
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()


@contextmanager
def mariadb(options: Sequence[str] = ()) -> Iterator[MariaDB]:
    """A running server, empty; its data goes with it."""
    pytest.importorskip("pymysql")
    with tempfile.TemporaryDirectory(prefix="mariadb-", ignore_cleanup_errors=True) as folder:
        server = MariaDB(Path(folder), options)
        try:
            server.start()
            yield server
        finally:
            server.stop()
