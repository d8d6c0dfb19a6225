"""Renames of several Iceberg tables at once, which no catalog knows, and drops that can be undone.

Every table first leaves its name for one that no other table has, and then goes to its new name; so chains and swaps
are nothing special. The name in between comes from the step's id, and there the table gets the step's tag. So a rename
that is done again finds out from the catalog how far it came:

- a table is under the name in between: it has left, and must arrive;
- the table under the new name has the step: it has arrived;
- neither: it is still where it was, and the names of the tables that left are not taken yet.

Some catalogs, such as Glue, rename in two steps: they make the new name and remove the old one. If such a rename is cut
short, both names lead to the same metadata. Before a table moves, it is looked for under the new name; if it is there,
only the old name is removed. The names that tidewire makes have nothing but ``a`` to ``z``, ``0`` to ``9`` and ``_``.

No catalog compares and swaps names. So a table is fenced before it leaves its name (a driver that was replaced could
otherwise commit to it once it is back), and its uuid is compared before each move.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tidewire.errors import NoTable
from tidewire.model import TableName
from tidewire.spark.targets.base import CommitTag, TargetError, refuse_other
from tidewire.spark.targets.iceberg_catalog import IcebergCatalog
from tidewire.spark.targets.iceberg_swap import Record, facts_of, find_step, refuse_foreign, swap

MOVING: Final = "_tidewire_moving"
"""The namespace of tables between two names; its properties say which renames are complete."""

DROPPED: Final = "_tidewire_dropped"
"""The namespace of dropped tables, which wait there for their purge."""

_SEQUENCES: Final = 3
"""The number of plans whose completed renames are kept."""


@dataclass(frozen=True, slots=True)
class Way:
    """A table's way to its new name."""

    old: TableName
    between: TableName
    new: TableName


def ways(moves: Iterable[tuple[TableName, TableName]], tag: CommitTag) -> list[Way]:
    """The ways of a rename; no two from one name or to one name."""
    moves = [move for move in moves if move[0] != move[1]]
    for side in zip(*moves, strict=True):
        if len(set(side)) < len(side):
            raise TargetError(f"a rename names a table twice: {', '.join(f'{old} to {new}' for old, new in moves)}")
    digest = digest_of(tag)
    return [Way(old, TableName(MOVING, f"{digest}_{number}"), new) for number, (old, new) in enumerate(moves)]


def rename(
    catalog: IcebergCatalog,
    moves: Iterable[tuple[TableName, TableName]],
    tag: CommitTag,
    identities: Mapping[TableName, str] = {},
) -> None:
    """Do a rename, or what is left of it."""
    if is_complete(catalog, tag):
        return
    todo = [way for way in ways(moves, tag) if not _has_arrived(catalog, way, tag)]
    _check(catalog, todo, identities, tag.sync)
    leave(catalog, todo, tag)
    arrive(catalog, todo, tag)
    complete(catalog, tag)


def leave(catalog: IcebergCatalog, todo: Sequence[Way], tag: CommitTag) -> None:
    """The first half: all tables leave their names."""
    for way in todo:
        if catalog.exists(way.between):
            _finish(catalog, way.old, way.between)
        else:
            move(catalog, way.old, way.between, replace(tag, part=0))


def arrive(catalog: IcebergCatalog, todo: Sequence[Way], tag: CommitTag) -> None:
    """The second half: all tables go to their new names."""
    for way in todo:
        if catalog.exists(way.between):
            move(catalog, way.between, way.new, tag)


def move(catalog: IcebergCatalog, old: TableName, new: TableName, tag: CommitTag, identity: str | None = None) -> None:
    """Move one table, fenced, and no other one that may have taken its name."""
    table = catalog.table(old)
    if table is None:
        raise NoTable(f"there is no table {old} to become {new}")
    refuse_other(old, identity, table.uuid)
    if _finish(catalog, old, new):
        return
    swap(catalog, old, tag, identity=table.uuid)
    now = catalog.table(old)
    refuse_other(old, table.uuid, "missing" if now is None else now.uuid)
    catalog.rename(old, new)


def _finish(catalog: IcebergCatalog, old: TableName, new: TableName) -> bool:
    """Finish a move that was cut short between its two steps; ``False`` if it was not begun."""
    if not catalog.is_shared:
        return False
    table, other = catalog.table(old), catalog.table(new)
    if table is None or other is None or table.uuid != other.uuid:
        return False
    if table.metadata_location != other.metadata_location:
        raise TargetError(
            f"{old} and {new} are two names of one table, and both have been written to: drop the one that is behind "
            "from the catalog, without its files, and start the sync again"
        )
    catalog.forget(old)
    return True


def is_complete(catalog: IcebergCatalog, tag: CommitTag) -> bool:
    """Is a rename complete?"""
    return any(digest_of(tag) in steps for steps in _completed(catalog, tag.sync).values())


def has_begun(catalog: IcebergCatalog, tag: CommitTag) -> bool:
    """Has a table left its name, in a rename or for good?"""
    digest = digest_of(tag)
    moving = (name.startswith(digest) for name in catalog.names_in(MOVING))
    dropped = (name.endswith(digest) for name in catalog.names_in(DROPPED))
    return any(moving) or any(dropped) or is_complete(catalog, tag)


def complete(catalog: IcebergCatalog, tag: CommitTag) -> None:
    """Note that a rename is complete; only those of a sync's last sequences are kept."""
    catalog.ensure_namespace(MOVING)
    known = _completed(catalog, tag.sync)
    known[tag.sequence] = [*known.get(tag.sequence, ()), digest_of(tag)]
    kept = {str(sequence): known[sequence] for sequence in sorted(known)[-_SEQUENCES:]}
    catalog.set_namespace_property(MOVING, _key(tag.sync), json.dumps(kept))


def drop(catalog: IcebergCatalog, name: TableName, tag: CommitTag, identity: str | None = None) -> None:
    """Take a table's name away; it gets one that says when, which table, and in which step."""
    table = catalog.table(name)
    if table is not None:
        end = f"_{table.uuid.replace('-', '')}_{_digest(tag.sync)}_{digest_of(tag)}"
        begun = (each for each in catalog.names_in(DROPPED) if each.endswith(end))
        gone = TableName(DROPPED, next(begun, f"{int(time.time())}{end}"))
        move(catalog, name, gone, replace(tag, part=0), identity or table.uuid)


_DROPPED_NAME: Final = re.compile(r"(\d+)_([0-9a-f]{32})_([0-9a-f]+)_[0-9a-f]+|(\d+)-([^~]*)~.*")
"""What dropped tables are called: second, uuid, sync, step. Earlier versions left the sync out."""


def dropped_tables(catalog: IcebergCatalog, sync: str | None) -> Iterator[tuple[TableName, int, str]]:
    """The tables that a sync dropped: what they are called, the second they were dropped in, their uuid.

    Without a ``sync`` those of all.
    """
    for name in catalog.names_in(DROPPED):
        found = _DROPPED_NAME.fullmatch(name)
        if found is not None and (sync is None or found[3] in (None, _digest(sync))):
            yield TableName(DROPPED, name), int(found[1] or found[4]), _uuid(found)


def dropped_uuid(name: str) -> str | None:
    """The uuid in the name of a dropped table; None if the name is another one."""
    found = _DROPPED_NAME.fullmatch(name)
    return None if found is None else _uuid(found)


def _uuid(found: re.Match[str]) -> str:
    return str(uuid.UUID(found[2])) if found[2] else found[5]


def has_another_name(catalog: IcebergCatalog, name: TableName) -> bool:
    """Do the files of a table belong to another name too? So a rename in two steps leaves it that was cut short."""
    table = catalog.table(name) if catalog.is_shared else None
    if table is None:
        return False
    found = (catalog.table(other) for other in catalog.names() if other != name)
    return any(
        each.uuid == table.uuid or each.metadata_location == table.metadata_location
        for each in found
        if each is not None
    )


def digest_of(tag: CommitTag) -> str:
    """A step in names, where its id would be too long."""
    return _digest(f"{tag.sync}/{tag.step}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _completed(catalog: IcebergCatalog, sync: str) -> dict[int, list[str]]:
    text = catalog.namespace_property(MOVING, _key(sync))
    return {} if text is None else {int(sequence): steps for sequence, steps in json.loads(text).items()}


def _key(sync: str) -> str:
    return f"tidewire.moved.{sync}"


def _check(catalog: IcebergCatalog, todo: Sequence[Way], identities: Mapping[TableName, str], sync: str) -> None:
    """Refuse a rename that cannot be done, before anything moves."""
    leaving = {way.old for way in todo}
    for way in todo:
        table = catalog.table(way.between) or catalog.table(way.old)
        if table is None:
            raise NoTable(f"there is no table {way.old} to become {way.new}")
        refuse_other(way.old, identities.get(way.old), table.uuid)
        taken = None if way.new in leaving else catalog.table(way.new)
        if taken is not None and taken.uuid != table.uuid:
            refuse_foreign(catalog, way.new, Record.of(facts_of(catalog.java_named, taken.state), sync))
            raise TargetError(f"{way.old} cannot become {way.new}: there is a table of that name")


def _has_arrived(catalog: IcebergCatalog, way: Way, tag: CommitTag) -> bool:
    if catalog.exists(way.between):
        return False
    table = catalog.table(way.new)
    return table is not None and find_step(facts_of(catalog.java_named, table.state), tag.step) is not None
