"""Who writes to a target: one sync, in one process at a time."""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields

from tidewire.errors import SyncError
from tidewire.spark.targets.iceberg_catalog import catalog_name
from tidewire.spark.work import Work

_NAME = "owner.json"


@dataclass(frozen=True, slots=True)
class Owner:
    """The sync a target belongs to: what cannot change once it has begun."""

    source: str
    protocol: str
    format: str
    mode: str
    gated: bool
    time_zone: str
    catalog: str = ""
    """The name of the catalog, where it is not the embedded one."""
    id: str = ""


def owner_of(work: Work) -> Owner | None:
    """The sync a target belongs to, if any."""
    document = work.read(_NAME)
    return None if document is None else Owner(**document)


def required_owner(work: Work, catalog: Mapping[str, str]) -> Owner:
    """The sync a target belongs to; :class:`SyncError` where there is none, or its tables are in another catalog."""
    owner = owner_of(work)
    if owner is None:
        raise SyncError(f"no sync has written to {work.uri}")
    given = catalog_name(catalog) if catalog else ""
    if given != owner.catalog:
        place = f"the catalog {owner.catalog}" if owner.catalog else "the target's own catalog"
        raise SyncError(
            f"the tables are in {place}, not in {given or 'the embedded one'}: give the sync's own settings"
        )
    return owner


def claim(work: Work, wanted: Owner) -> Owner:
    """Make a target this sync's own; :class:`SyncError` where it is another's."""
    found = owner_of(work)
    if found is None:
        found = Owner(**(asdict(wanted) | {"id": uuid.uuid4().hex[:12]}))
        work.write(_NAME, asdict(found))
        return found
    for field in fields(Owner):
        ours, theirs = getattr(wanted, field.name), getattr(found, field.name)
        if field.name != "id" and ours != theirs:
            raise SyncError(
                f"the target belongs to another sync: its {field.name.replace('_', ' ')} is {theirs}, not {ours}. "
                f"Give another target, or remove {work.uri} and the tables to start anew"
            )
    return found


@contextmanager
def locked(work: Work) -> Iterator[None]:
    """Hold a target while a sync runs. Only a local one can be locked; elsewhere the last commit would tell."""
    path = work.local_path("lock")
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise SyncError(f"another sync, process {file.read() or 'unknown'}, writes to {work.uri}") from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield
