"""Targets of tidewire 0.1: JSON documents of another layout, read once when a newer sync takes over.

0.1 kept its offsets in a streaming checkpoint and also in its state; the state's are the ones that count. What it wrote
stays where it is, and is not written again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tidewire.errors import StateError
from tidewire.model import TableName
from tidewire.spark.publications import Published, PublishedTable
from tidewire.storage import Storage
from tidewire.sync.legacy import schema_from_plain, state_from_documents
from tidewire.sync.state import State


def legacy_owner(storage: Storage) -> dict[str, Any] | None:
    """The owner of a target of 0.1, by the names that its fields have now."""
    document = _read(storage, "owner.json")
    if document is None:
        return None
    return {"has_watermarks" if name == "gated" else name: value for name, value in document.items()}


def legacy_rules(storage: Storage) -> Mapping[str, Any] | None:
    """The rules about tables that 0.1 went by last; ``None`` if there are none. Their document has not changed."""
    document: Mapping[str, Any] | None = _read(storage, "rules.json")
    return document


def legacy_state(storage: Storage, sync: str) -> State | None:
    """The last state of a target of 0.1; ``None`` if there is none.

    Raises :class:`StateError` if 0.1 died in the middle of a plan with DDL: only 0.1 knows which half is done.
    """
    names = _names(storage, "state")
    if not names:
        return None
    document = _required(storage, f"state/{names[-1]}")
    whole = _required(storage, f"state/whole/{document['base']:012}.json") if "base" in document else None
    state = state_from_documents(document, whole)
    plan = _read(storage, f"plans/{state.sequence + 1:012}.json")
    if plan is not None and (plan["manifest"]["ddls"] or state.queue):
        raise StateError(
            f"{storage.uri} was left by tidewire 0.1 in the middle of a plan with DDL; run tidewire 0.1 once more with "
            "--once, then this version"
        )
    return state


def legacy_publications(storage: Storage) -> Iterator[Published]:
    """The publications of a target of 0.1, oldest first."""
    for name in _names(storage, "published"):
        document = _read(storage, f"published/{name}")
        base = None if document is None else _read(storage, f"published/tables/{document['base']:012}.json")
        if document is None or base is None:
            continue
        gone = {TableName(*each) for each in document["gone"]}
        tables = {each: table for each, table in _tables(base) if each not in gone} | dict(_tables(document["tables"]))
        yield Published(document["sequence"], document["ts"], tables)


def _tables(plain: list[Mapping[str, Any]]) -> Iterator[tuple[TableName, PublishedTable]]:
    for table in plain:
        schema = schema_from_plain(table["schema"])
        yield schema.name, PublishedTable(schema, table["version"], table["mode"], table["held"])


def _names(storage: Storage, folder: str) -> list[str]:
    names = (entry.name.rpartition("/")[2] for entry in storage.list(folder))
    return sorted(name for name in names if name.endswith(".json"))


def _read(storage: Storage, name: str) -> Any | None:
    data = storage.read(name)
    return None if data is None else json.loads(data)


def _required(storage: Storage, name: str) -> Any:
    document = _read(storage, name)
    if document is None:
        raise StateError(f"{name} of tidewire 0.1 is missing from {storage.uri}; restore it from a backup")
    return document
