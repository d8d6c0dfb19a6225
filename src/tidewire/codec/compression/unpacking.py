"""What unpacking needs in both formats: the compiled libraries, and a limit."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tidewire.errors import MissingExtra

LARGEST = 128 * 1024 * 1024
"""No value is larger when unpacked: TiDB's largest transaction entry has 120 MiB."""


def library(name: str) -> Any:
    """An optional package's module, imported when it is needed."""
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtra(name.partition(".")[0], "compression") from None
