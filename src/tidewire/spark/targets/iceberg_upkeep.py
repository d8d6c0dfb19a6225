"""The upkeep of an Iceberg table: what its metadata says is to be done, and the statements that do it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, Final

from tidewire.model import TableName
from tidewire.spark.targets.base import Size
from tidewire.spark.targets.sql_text import quoted, text_literal

_FEW_FILES: Final = 5
"""Fewer small files than this are not worth a new one; Iceberg's own default."""

_MANY_MANIFESTS: Final = 20
"""Every commit adds one or two, and every plan reads them all."""

_REWRITE: Final = (
    ("min-input-files", str(_FEW_FILES)),
    # Groups of files are committed as they are done, so what is done stays when the rest is cut short.
    ("partial-progress.enabled", "true"),
    ("remove-dangling-deletes", "true"),
)


def size_of(metadata: Mapping[str, Any]) -> Size:
    """What a table takes, from the notes of its current snapshot."""
    notes = _current(metadata)
    return Size(
        int(notes.get("total-data-files", 0)),
        int(notes.get("total-delete-files", 0)),
        int(notes.get("total-files-size", 0)),
        len(metadata["snapshots"]),
    )


def compaction(metadata: Mapping[str, Any], catalog: str, name: TableName) -> Iterator[str]:
    """The statements that put a table in order. Nothing is left to do after a compaction that nothing followed."""
    notes, size = _current(metadata), size_of(metadata)
    if notes.get("operation") == "replace" or (size.files < _FEW_FILES and not size.deletes):
        return
    options = ", ".join(f"{text_literal(key)}, {text_literal(value)}" for key, value in _REWRITE)
    yield _call(catalog, "rewrite_data_files", name, options=f"map({options})")
    if size.deletes:
        yield _call(catalog, "rewrite_position_delete_files", name)
    kept = sum(int(notes.get(f"manifests-{part}", 0)) for part in ("created", "kept"))
    if kept >= _MANY_MANIFESTS:
        yield _call(catalog, "rewrite_manifests", name)


def expired(metadata: Mapping[str, Any], before: datetime, keep: Collection[int]) -> list[int]:
    """The snapshots from before a moment that nobody needs; the current one and those with a name are needed."""
    needed = {*keep, *(ref["snapshot-id"] for ref in metadata.get("refs", {}).values())}
    limit = before.timestamp() * 1000
    return [
        snapshot["snapshot-id"]
        for snapshot in metadata["snapshots"]
        if snapshot["timestamp-ms"] < limit and snapshot["snapshot-id"] not in needed
    ]


def orphans(catalog: str, name: TableName, before: datetime) -> str:
    """The statement that deletes the files which no snapshot has."""
    moment = before.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%fZ")
    return _call(catalog, "remove_orphan_files", name, older_than=f"TIMESTAMP {text_literal(moment)}")


def _current(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    """What the writer of the current snapshot noted; nothing where there is none."""
    current = metadata.get("current-snapshot-id")
    found = (snapshot["summary"] for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] == current)
    return next(found, {})


def _call(catalog: str, procedure: str, name: TableName, **arguments: str) -> str:
    given = {"table": text_literal(quoted(*name))} | arguments
    said = ", ".join(f"{key} => {value}" for key, value in given.items())
    return f"CALL {quoted(catalog)}.system.{procedure}({said})"
