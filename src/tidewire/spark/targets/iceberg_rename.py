"""Renames of several Iceberg tables at once, which no catalog knows.

Every table first leaves its name for one that nobody else has, and then goes to its new name; so chains and swaps are
nothing special. The name in between comes from the rename's mark, and the table is stamped with the mark there. So
whoever does the rename again finds out from the catalog how far it came:

- a table is under the name in between: it has left, and must arrive;
- the table under the new name has the stamp: it has arrived;
- neither: it is still where it was, and the names of the tables that left are not taken yet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidewire.model import TableName
from tidewire.spark.targets.base import Mark, TargetError
from tidewire.spark.targets.done_steps import DoneSteps
from tidewire.spark.targets.iceberg_catalog import IcebergCatalog, mark_property

MOVING = "_tidewire_moving"
"""The namespace of tables between two names; its properties say which renames are complete."""


@dataclass(frozen=True, slots=True)
class Way:
    """A table's way to its new name."""

    old: TableName
    between: TableName
    new: TableName


def ways(moves: Iterable[tuple[TableName, TableName]], mark: Mark) -> list[Way]:
    """The ways of a rename; no two from one name or to one name."""
    moves = [move for move in moves if move[0] != move[1]]
    for side in zip(*moves, strict=True):
        if len(set(side)) < len(side):
            raise TargetError(f"a rename names a table twice: {', '.join(f'{old} to {new}' for old, new in moves)}")
    digest = hashlib.sha256(str(mark).encode()).hexdigest()[:16]
    return [Way(old, TableName(MOVING, f"{digest}-{number}"), new) for number, (old, new) in enumerate(moves)]


def rename(catalog: IcebergCatalog, moves: Iterable[tuple[TableName, TableName]], mark: Mark) -> None:
    """Do a rename, or what is left of it."""
    if is_complete(catalog, mark):
        return
    todo = [way for way in ways(moves, mark) if not _has_arrived(catalog, way, mark)]
    _check(catalog, todo)
    leave(catalog, todo)
    arrive(catalog, todo, mark)
    complete(catalog, mark)


def is_complete(catalog: IcebergCatalog, mark: Mark) -> bool:
    """Is a rename complete?"""
    return mark in _completed(catalog, mark.sync)


def leave(catalog: IcebergCatalog, todo: Sequence[Way]) -> None:
    """The first half: all tables leave their names."""
    for way in todo:
        if not catalog.exists(way.between):
            catalog.rename(way.old, way.between)


def arrive(catalog: IcebergCatalog, todo: Sequence[Way], mark: Mark) -> None:
    """The second half: all tables go to their new names."""
    for way in todo:
        table = catalog.table(way.between)
        if table is not None:
            table.set_properties({mark_property(mark.sync): str(mark)})
            catalog.rename(way.between, way.new)


def complete(catalog: IcebergCatalog, mark: Mark) -> None:
    """Note that a rename is complete."""
    catalog.ensure_namespace(MOVING)
    catalog.set_namespace_property(MOVING, _key(mark.sync), str(_completed(catalog, mark.sync).having(mark)))


def _completed(catalog: IcebergCatalog, sync: str) -> DoneSteps:
    return DoneSteps.parse(catalog.namespace_property(MOVING, _key(sync)))


def _key(sync: str) -> str:
    return f"tidewire.renamed.{sync}"


def _check(catalog: IcebergCatalog, todo: Sequence[Way]) -> None:
    """Refuse a rename that cannot be done, before anything moves."""
    leaving = {way.old for way in todo}
    for way in todo:
        if not catalog.exists(way.between) and not catalog.exists(way.old):
            raise TargetError(f"there is no table {way.old} to become {way.new}")
        if way.new not in leaving and catalog.exists(way.new):
            raise TargetError(f"{way.old} cannot become {way.new}: there is a table of that name")


def _has_arrived(catalog: IcebergCatalog, way: Way, mark: Mark) -> bool:
    if catalog.exists(way.between):
        return False
    table = catalog.table(way.new)
    return table is not None and table.property_of(mark_property(mark.sync)) == str(mark)
