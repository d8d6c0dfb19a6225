"""A real PostgreSQL on loopback with its own data folder, for a catalog in it.

If no server is installed and we may do so, the system's package is installed once; else the tests are skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from integration.servers import free_port, install_package

_USER = "postgres"
_START_SECONDS = 60


def _programs() -> Path | None:
    """The folder of the newest server's programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    own = shutil.which("initdb")
    return None if own is None else Path(own).parent


def _as_user(command: Iterable[object]) -> list[str]:
    """A command as PostgreSQL wants it: not as root."""
    plain = [str(each) for each in command]
    return ["runuser", "-u", _USER, "--", *plain] if os.geteuid() == 0 else plain


@contextmanager
def postgres() -> Iterator[str]:
    """An empty server; the JDBC URI of its database, for the user ``postgres`` without a password."""
    install_package("postgresql", lambda: _programs() is not None)
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is needed (initdb and postgres), and it could not be installed")
    port, home = free_port(), Path(tempfile.mkdtemp(prefix="postgres-"))
    if os.geteuid() == 0:
        shutil.chown(home, _USER)
    try:
        made = [programs / "initdb", "-D", home / "data", "-U", _USER, "--auth=trust", "--no-sync"]
        subprocess.run(_as_user(made), check=True, capture_output=True, cwd=home)
        settings = [f"port={port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={home}", "fsync=off"]
        options = [word for each in settings for word in ("-c", each)]
        with (home / "log").open("wb") as log:
            server = subprocess.Popen(
                _as_user([programs / "postgres", "-D", home / "data", *options]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=home,
            )
        try:
            deadline = time.monotonic() + _START_SECONDS
            while subprocess.run(
                [programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False
            ).returncode:
                if server.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the server is not ready; its log ends:\n{(home / 'log').read_text()[-2000:]}")
                time.sleep(0.1)
            yield f"jdbc:postgresql://127.0.0.1:{port}/postgres"
        finally:
            stopped = [programs / "pg_ctl", "stop", "-D", home / "data", "-m", "immediate"]
            subprocess.run(_as_user(stopped), check=False, capture_output=True, cwd=home)
            server.wait()
    finally:
        shutil.rmtree(home, ignore_errors=True)
