"""The upkeep of an Iceberg table: what its metadata says is to be done, and Iceberg's own actions that do it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any, Final, NamedTuple

from tidewire.model import TableName
from tidewire.spark.targets.base import Java, Size, quoted, text_literal
from tidewire.spark.targets.iceberg_catalog import IcebergCatalog

_MANY_MANIFESTS: Final = 20
"""Every commit adds one or two, and every plan reads them all."""


_TAG: Final = "tidewire-"
_OWN_TAG: Final = re.compile(_TAG + r"\d+-\d+", re.ASCII)
"""Tags that maintenance adds and removes. Tags with other names are those of people and other programs."""


def size_of(metadata: Mapping[str, Any]) -> Size:
    """What a table takes, from the summary of its current snapshot."""
    summary = _current(metadata)
    return Size(
        int(summary.get("total-data-files", 0)),
        int(summary.get("total-delete-files", 0)),
        int(summary.get("total-files-size", 0)),
        len(metadata["snapshots"]),
    )


def row_count(summary: Mapping[str, str]) -> int | None:
    """How many rows a snapshot has; ``None`` if its summary does not say, or has deletes that are not counted."""
    total, dead, equal = (summary.get(f"total-{what}") for what in ("records", "position-deletes", "equality-deletes"))
    if total is None or int(equal or 0):
        return None
    return int(total) - int(dead or 0)


def tidy(catalog: IcebergCatalog, name: TableName, session: Java, summary: Mapping[str, str], deletes: int) -> None:
    """Write many manifests anew, and take away dead rows of files that are gone, which other programs left.

    ``deletes`` is how many deletions the files of the table have. What is committed has the entries of ``summary`` in
    the summary of its snapshot.
    """
    table = catalog.table(name)
    assert table is not None
    metadata = table.metadata()
    noted, size = _current(metadata), size_of(metadata)
    actions = catalog.java_named("org.apache.iceberg.spark.actions.SparkActions.get")(session)
    rounds = []
    if size.deletes > deletes:
        rounds.append(actions.rewritePositionDeletes(table.java))
    if sum(int(noted.get(f"manifests-{part}", 0)) for part in ("created", "kept")) >= _MANY_MANIFESTS:
        rounds.append(actions.rewriteManifests(table.java))
    for action in rounds:
        table.java.refresh()
        for key, value in summary.items():
            action.snapshotProperty(key, value)
        action.execute()


class Expiry(NamedTuple):
    """What an expiry changes: snapshots that go, tags that go, and tags that come with their snapshots."""

    snapshots: list[int]
    gone: list[str]
    added: dict[str, int]


def expiry(metadata: Mapping[str, Any], before: datetime, keep: Mapping[int, str | None]) -> Expiry:
    """What changes if snapshots to ``keep`` stay, tagged with their labels, and others go.

    The current snapshot stays too, and so do those that are not from before the moment and those to which other
    programs gave a name.
    """
    there = {snapshot["snapshot-id"] for snapshot in metadata["snapshots"]}
    wanted = {_TAG + text: id_ for id_, text in keep.items() if text is not None and id_ in there}
    refs = {name: ref["snapshot-id"] for name, ref in metadata.get("refs", {}).items()}
    gone = [name for name in refs if _OWN_TAG.fullmatch(name) and name not in wanted]
    needed = {*keep, *(id_ for name, id_ in refs.items() if name not in gone)}
    limit = before.timestamp() * 1000
    old = [
        snapshot["snapshot-id"]
        for snapshot in metadata["snapshots"]
        if snapshot["timestamp-ms"] < limit and snapshot["snapshot-id"] not in needed
    ]
    return Expiry(old, gone, {name: id_ for name, id_ in wanted.items() if name not in refs})


def expire(transaction: Java, change: Expiry) -> None:
    """Make the changes of an expiry in a transaction. Files that only old snapshots have are left alone."""
    if change.gone or change.added:
        refs = transaction.manageSnapshots()
        for gone in change.gone:
            refs = refs.removeTag(gone)
        for added, id_ in change.added.items():
            refs = refs.createTag(added, id_)
        refs.commit()
    if change.snapshots:
        # Without the limits Iceberg would choose more snapshots by itself.
        removal = transaction.expireSnapshots().cleanExpiredFiles(False).expireOlderThan(1).retainLast(1)
        for id_ in change.snapshots:
            removal = removal.expireSnapshotId(id_)
        removal.commit()


def orphans(catalog: str, name: TableName, before: datetime, *, local: bool) -> str:
    """The statement that deletes the files which belong to no snapshot.

    Files in a store are listed by the table's own file IO; Hadoop, which lists local ones, would need a driver.
    """
    moment = before.astimezone(timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%fZ")
    given = {"table": text_literal(quoted(*name)), "older_than": f"TIMESTAMP {text_literal(moment)}"}
    if not local:
        given["prefix_listing"] = "true"
    said = ", ".join(f"{key} => {value}" for key, value in given.items())
    return f"CALL {quoted(catalog)}.system.remove_orphan_files({said})"


def _current(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    """The summary of the current snapshot; empty for a table without snapshots."""
    current = metadata.get("current-snapshot-id")
    found = (snapshot["summary"] for snapshot in metadata["snapshots"] if snapshot["snapshot-id"] == current)
    return next(found, {})
