"""TiDB's change data in your own Spark session: ``import tidewire.spark as tw``.

``decode``, ``rows``, ``learn`` and ``infer`` are plain transforms of DataFrames, on Spark 3.5 to 4.3 and Spark Connect.
``TicdcSource`` is the same as a data source, ``format("ticdc")``, from Spark 4.0 on.
``Sync`` is the whole way from topics to tables, on Spark 4.1; ``session`` starts a Spark that it can run in. ``Lake``
reads what a sync wrote, on Spark 4.1 and over Connect.
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
    from tidewire.spark.lake import Lake
    from tidewire.spark.running import RunningSync
    from tidewire.spark.sessions import session
    from tidewire.spark.snapshot import Snapshot
    from tidewire.spark.sync import Sync, SyncResult
    from tidewire.spark.ticdc import TicdcSource

__all__ = [
    "Lake",
    "RunningSync",
    "Schemas",
    "Snapshot",
    "Sync",
    "SyncResult",
    "TicdcSource",
    "archive",
    "decode",
    "infer",
    "learn",
    "rows",
    "session",
]

_MODULES = {
    "Lake": "lake",
    "RunningSync": "running",
    "Schemas": "frames.schemas",
    "Snapshot": "snapshot",
    "Sync": "sync",
    "SyncResult": "sync",
    "TicdcSource": "ticdc",
    "archive": "frames.executors",
    "decode": "frames.decode",
    "infer": "frames.learn",
    "learn": "frames.learn",
    "rows": "frames.rows",
    "session": "sessions",
}
"""The module of each name. It is imported when the name is first used, because not every Spark has what each needs."""


def __getattr__(name: str) -> Any:
    """A public name, from its module."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
