"""Emulators of Google Cloud Storage and Azure Blob Storage on loopback, kept in memory.

They come from where their authors publish them, with ``go`` and ``npm``, and are kept below ``build/servers``. If that
program is missing, or the emulator cannot be installed, the tests are skipped.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import os
import shutil
import subprocess
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest

from integration.servers import CACHE, free_port, running
from object_stores import BUCKET

_INSTALL_SECONDS = 900  # Go compiles; alone it takes two minutes
_AZURITE = "3.35.0"  # the newest one for Node 20
_FAKE_GCS = "1.56.1"

_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that Azurite has, and its key: both are in Azurite's documentation."""


@dataclass(frozen=True, slots=True)
class Azure:
    """An Azurite with one container."""

    endpoint: str

    def uri(self, prefix: str | None = None, *, container: str = BUCKET, key: str = _KEY) -> str:
        """A prefix in its container, one that is not used yet if none is given."""
        return f"{self.place(prefix, container)}&{urlencode({'account-key': key})}"

    def uri_by_token(self, prefix: str | None = None) -> str:
        """The same with a shared access signature in place of the key."""
        return f"{self.place(prefix)}&{urlencode({'sas-token': self.token()})}"

    def place(self, prefix: str | None = None, container: str = BUCKET) -> str:
        """The same without credentials."""
        prefix = uuid.uuid4().hex if prefix is None else prefix
        return f"abfss://{container}@{_ACCOUNT}.dfs.core.windows.net/{prefix}?endpoint={self.endpoint}"

    @staticmethod
    def token() -> str:
        """A shared access signature for everything in the account."""
        said = {"sp": "rwdlac", "ss": "b", "srt": "sco", "se": "2100-01-01T00:00:00Z", "sv": "2020-10-02"}
        signed = "\n".join((_ACCOUNT, said["sp"], said["ss"], said["srt"], "", said["se"], "", "", said["sv"], ""))
        signature = hmac.digest(base64.b64decode(_KEY), signed.encode(), hashlib.sha256)
        return urlencode({**said, "sig": base64.b64encode(signature).decode()})


@contextmanager
def azurite() -> Iterator[Azure]:
    """An Azurite whose container is empty."""
    npm, node = _program("npm"), _program("node")
    home = CACHE / f"azurite-{_AZURITE}"
    _installed(
        [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(home), f"azurite@{_AZURITE}"],
        main := home / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js",
    )
    port = free_port()
    store = Azure(f"http://127.0.0.1:{port}/{_ACCOUNT}")
    command = (node, str(main), "--blobPort", str(port), "--inMemoryPersistence", "--disableTelemetry", "--silent")
    ready_at = f"{store.endpoint}/?comp=list&{store.token()}"
    with running(command, home, CACHE / f"azurite-{port}.log", ready_at):
        made = f"{store.endpoint}/{BUCKET}?restype=container&{store.token()}"
        urllib.request.urlopen(urllib.request.Request(made, method="PUT")).close()
        yield store


@contextmanager
def fake_gcs_server() -> Iterator[str]:
    """An empty fake-gcs-server; its endpoint."""
    go, home = _program("go"), CACHE / f"fake-gcs-server-{_FAKE_GCS}"
    _installed(
        [go, "install", f"github.com/fsouza/fake-gcs-server@v{_FAKE_GCS}"],
        server := home / "fake-gcs-server",
        GOBIN=str(home),
    )
    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = (
        *(str(server), "-scheme", "http", "-backend", "memory", "-log-level", "error"),
        *("-host", "127.0.0.1", "-port", str(port), "-public-host", f"127.0.0.1:{port}"),
    )
    with running(command, home, CACHE / f"fake-gcs-{port}.log", f"{endpoint}/_internal/healthcheck"):
        yield endpoint


def _program(name: str) -> str:
    """A program that installs or runs an emulator; the test is skipped where it is missing."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is needed, for an emulator of an object store")
    return found


def _installed(command: list[str], program: Path, **environment: str) -> None:
    """Run a command that installs a program, unless that is done; the test is skipped if the command fails."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "emulators.lock").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        ready = program.parent / ".ready"  # npm leaves a part of its files behind if it is stopped
        if ready.is_file():
            return
        try:
            subprocess.run(
                command, env=os.environ | environment, timeout=_INSTALL_SECONDS, capture_output=True, check=True
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            pytest.skip(f"{command[-1]} is needed, and it could not be installed")
        ready.touch()
