"""Spark for a command: started without noise, with the command's own handling of signals."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import click

from tidewire.cli.stopping import Stopping

_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
_QUIET: Final = "-Dtidewire.spark.log=fatal"
_NOISE: Final = (b"WARNING: Using incubator modules",)
"""What Java prints at each start and cannot be told not to."""


@contextmanager
def spark_session(
    name: str,
    signals: Stopping,
    *,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    jars: Collection[str] | None = None,
) -> Iterator[Any]:
    """A Spark session for the time of a block. Spark's log, which is full of stack traces, is shown with --debug."""
    from tidewire.spark.sessions import borrowed

    settings = dict(conf or {})
    debug = click.get_current_context().find_root().params.get("debug")
    if not debug and "PYSPARK_GATEWAY_PORT" not in os.environ:  # spark-submit has started Java already
        settings[_JAVA_OPTIONS] = f"{_QUIET} {settings.get(_JAVA_OPTIONS, '')}".rstrip()
    with ExitStack() as stack:
        with _without_noise():
            spark = stack.enter_context(borrowed(name, master=master, conf=settings, jars=jars))
        signals.install()
        yield spark


@contextmanager
def _without_noise() -> Iterator[None]:
    """Let processes that are started in the block print their errors through a thread that leaves noise out."""
    reading, writing = os.pipe()
    own = os.dup(2)
    threading.Thread(target=_forward, args=(reading, own), name="tidewire-java-errors", daemon=True).start()
    os.dup2(writing, 2)
    os.close(writing)
    try:
        yield
    finally:
        os.dup2(own, 2)


def _forward(reading: int, own: int) -> None:
    """Copy lines until all processes that print them have ended."""
    with open(reading, "rb") as lines, open(own, "wb", buffering=0) as errors:
        for line in lines:
            if not line.startswith(_NOISE):
                errors.write(line)
