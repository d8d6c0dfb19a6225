"""TiDB's change data in a Spark session of one's own: ``import tidewire.spark as tw``.

``decode``, ``rows``, ``learn`` and ``infer`` are plain transforms of DataFrames, on Spark 3.5 to 4.3 and Spark Connect.
``Sync`` is the whole way from topics to tables, on Spark 4.1; ``session`` starts a Spark that it can run in.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tidewire.spark.frames.decode import decode
    from tidewire.spark.frames.executors import archive
    from tidewire.spark.frames.learn import infer, learn
    from tidewire.spark.frames.rows import rows
    from tidewire.spark.frames.schemas import Schemas
    from tidewire.spark.running import RunningSync
    from tidewire.spark.session import session
    from tidewire.spark.sync import Sync, SyncResult

__all__ = ["RunningSync", "Schemas", "Sync", "SyncResult", "archive", "decode", "infer", "learn", "rows", "session"]

_MODULES = {
    "RunningSync": "running",
    "Schemas": "frames.schemas",
    "Sync": "sync",
    "SyncResult": "sync",
    "archive": "frames.executors",
    "decode": "frames.decode",
    "infer": "frames.learn",
    "learn": "frames.learn",
    "rows": "frames.rows",
    "session": "session",
}
"""The module of each name. It is imported when the name is first used, because not every Spark has what each needs."""


def __getattr__(name: str) -> Any:
    """A public name, from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
