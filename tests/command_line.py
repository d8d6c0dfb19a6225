"""The ``tidewire`` command in a process of its own, as a person or a supervisor starts it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from spark_sessions import QUICK

_MAIN = "from tidewire.cli import main; main()"

SMALL = (
    *("--master", "local[2]", "--spark", "spark.driver.memory=1g"),
    *("--spark", f"spark.driver.extraJavaOptions={QUICK}", "--spark", "spark.sql.shuffle.partitions=2"),
)
"""Options of a sync that starts a small Spark."""


def finished(
    *arguments: object, environment: Mapping[str, str] | None = None, first: str = ""
) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself; ``first`` is Python code that runs before it."""
    with started(*arguments, environment=environment, first=first) as process:
        output, errors = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


@contextmanager
def started(
    *arguments: object, environment: Mapping[str, str] | None = None, first: str = ""
) -> Iterator[subprocess.Popen[str]]:
    """A command that runs during the block, and is killed if it still does after it."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{first}\n{_MAIN}", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def lines_of(output: str) -> list[dict[str, Any]]:
    """Lines of JSON."""
    return [json.loads(line) for line in output.splitlines()]


def closed_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port
