"""Publications: which version of which table belongs to which moment of the upstream."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidewire.errors import SyncError
from tidewire.model import TableName, TableSchema
from tidewire.spark.apply import Mode
from tidewire.spark.work import Work
from tidewire.sync.shapes import schema_from_plain, schema_to_plain

_FOLDER = "published"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One table at a moment. ``held`` is the ts it really is at, where that is earlier."""

    schema: TableSchema
    version: str
    mode: Mode
    held: int | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """All tables at a moment; ``ts`` is ``None`` where the protocol has no watermarks and no moment can be named."""

    sequence: int
    ts: int | None
    tables: Mapping[TableName, PublishedTable]


def publish(work: Work, published: Published) -> None:
    """Keep a publication."""
    document = {
        "sequence": published.sequence,
        "ts": published.ts,
        "tables": [
            {
                "schema": schema_to_plain(table.schema),
                "version": table.version,
                "mode": str(table.mode),
                "held": table.held,
            }
            for table in published.tables.values()
        ],
    }
    work.write(f"{_FOLDER}/{_name(published)}", document)


def newest(work: Work, at: int | None = None) -> Published | None:
    """The newest publication, or the newest one not after a moment."""
    names = work.names(_FOLDER)
    if at is not None:
        names = [name for name in names if _ts_of(name) <= at]
    return _read(work.read(f"{_FOLDER}/{names[-1]}")) if names else None


def _name(published: Published) -> str:
    return f"{published.ts or 0:020}-{published.sequence:012}.json"


def _ts_of(name: str) -> int:
    return int(name.partition("-")[0])


def _read(document: Any) -> Published:
    tables = [
        PublishedTable(schema_from_plain(table["schema"]), table["version"], Mode(table["mode"]), table["held"])
        for table in document["tables"]
    ]
    return Published(document["sequence"], document["ts"], {table.schema.name: table for table in tables})


def required(work: Work, at: int | None = None) -> Published:
    """The newest publication not after a moment; :class:`SyncError` where there is none."""
    found = newest(work, at)
    if found is None:
        when = "" if at is None else f" not after {at}"
        raise SyncError(f"nothing is published in {work.uri}{when}")
    return found
