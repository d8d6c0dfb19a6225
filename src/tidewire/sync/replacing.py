"""A table loaded anew beside the old one: how it is followed there, and how it takes the old one's place.

The new table is filled as of the load's ts under a name of tidewire's own. It has a state of its own, in which the same
topics are read again for it alone, up to where the sync is. When it is at the ts of the other tables, one plan gives it
the old one's name, and the sync goes on with what its own state knows of it.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from tidewire.errors import LoadError
from tidewire.model import TableName, TableSchema
from tidewire.sync.catalogue import Catalogue
from tidewire.sync.holds import END, Holds
from tidewire.sync.intake import ddl_id
from tidewire.sync.loads import LoadedTable
from tidewire.sync.plan import Planned, next_state, published_tables
from tidewire.sync.rules import OWN, Rules
from tidewire.sync.state import Hold, PassedOver, State
from tidewire.sync.target_tables import TargetTables

Part = TypeVar("Part")

_NAME: Final = re.compile(r"(load|replaced)_\w+_\d+")
"""What tables are called while one replaces the other."""


@dataclass(frozen=True, slots=True)
class Replacing:
    """Tables that are loaded anew: what was staged of them, as of ``ts``. ``id`` makes their names beside the old ones.

    ``reject_files`` have the rows that do not fit, which are left out.
    """

    id: str
    ts: int
    tables: tuple[LoadedTable, ...]
    reject_files: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[TableName, ...]:
        """The tables, by their names upstream."""
        return tuple(table.schema.name for table in self.tables)

    def beside(self, name: TableName) -> TableName:
        """What the new table is called until it takes the old one's place."""
        return TableName(OWN, f"load_{self.id}_{self._number(name)}")

    def aside(self, name: TableName) -> TableName:
        """What the old table is called before it is dropped."""
        return TableName(OWN, f"replaced_{self.id}_{self._number(name)}")

    def _number(self, name: TableName) -> int:
        return [each.folded for each in self.names].index(name.folded)

    def rules(self, rules: Rules) -> Rules:
        """The rules of the sync for these tables alone, under the names beside the old ones."""
        rules_of = {name: replace(rules.of(name), match=(_exactly(name),)) for name in self.names}
        beside = (replace(rule, to=str(self.beside(name))) for name, rule in rules_of.items())
        return replace(rules, follow=tuple(map(_exactly, self.names)), tables=tuple(beside))


def is_beside(name: TableName) -> bool:
    """Is it the name of a table that replaces another one, or of one that is replaced, for that time?"""
    return name.schema == OWN and _NAME.fullmatch(name.table) is not None


def _exactly(name: TableName) -> str:
    """The rule that matches one name."""
    return f"{glob.escape(name.schema)}.{glob.escape(name.table)}"


def first_state(state: State) -> State:
    """The state that new tables begin with: what was released is released for them too."""
    return State(state.sync, given_up=state.given_up, passed_over=state.passed_over)


def behind(state: State, new: State, *, has_watermarks: bool) -> Hold | None:
    """What keeps new tables behind the others, if anything does."""
    return next((hold for hold in new.holds if not has_watermarks or hold.ts < state.applied), None)


def is_level(state: State, new: State, ts: int, *, has_watermarks: bool) -> bool:
    """Are new tables, whose topics were read as far, at the moment of the others?

    As long as no topic was read, each table is at the moment of its own load.
    """
    return not has_watermarks or not state.frontier.partitions or ts <= state.applied == new.applied


def plan_swap(state: State, new: State, replacing: Replacing, rules: Rules, *, has_watermarks: bool) -> Planned:
    """The plan that puts new tables in the place of the old ones; :class:`LoadError` if there is no such table now."""
    catalogue = Catalogue(state.tables.values(), state.last_ddl_ts, state.beginnings)
    targets = TargetTables(state.target_tables, state.kept, rules)
    steps = []
    for name in replacing.names:
        copy, table = new.target_tables.get(name.folded), _find(new.tables, name)
        if copy is None or table is None:
            raise LoadError(f"{name} was renamed or dropped after {replacing.ts}: load as of a later moment")
        steps += targets.swap(name, copy, replacing.beside(name), replacing.aside(name), state.applied)
        catalogue.tables[name.folded] = table
        catalogue.beginnings[name.folded] = new.beginnings[name.folded]
        catalogue.last_ddl_ts[name.folded] = new.last_ddl_ts.get(name.folded, replacing.ts)
    names = {name.folded for name in replacing.names}
    after = replace(
        next_state(state, catalogue, targets, has_watermarks=has_watermarks),
        schemas=tuple(dict.fromkeys((*state.schemas, *(each for each in new.schemas if each.name.folded in names)))),
        pending=_merged(state.pending, new.pending, names, lambda each: each.file.table),
        parked=_merged(state.parked, new.parked, names, lambda each: each.table),
        holds=_merged(state.holds, new.holds, names, lambda each: each.table),
        passed_over=(*state.passed_over, *_done(state, new, replacing.names, has_watermarks)),
    )
    limit = Holds(after, has_watermarks=has_watermarks).limit if has_watermarks else lambda name: END
    publication = published_tables(targets, catalogue, state.applied if has_watermarks else None, limit)
    return Planned(tuple(steps), after, publication, tuple(targets.notes))


def _find(tables: Mapping[TableName, TableSchema], name: TableName) -> TableSchema | None:
    return next((table for key, table in tables.items() if key.folded == name.folded), None)


def _merged(
    old: Sequence[Part], new: Sequence[Part], names: set[TableName], table: Callable[[Part], TableName | None]
) -> tuple[Part, ...]:
    """What the states know of tables: of the new ones what the new state does, of all others what the old one does."""

    def is_new(each: Part) -> bool:
        name = table(each)
        return name is not None and name.folded in names

    return (*(each for each in old if not is_new(each)), *filter(is_new, new))


def _done(state: State, new: State, names: Sequence[TableName], has_watermarks: bool) -> list[PassedOver]:
    """The statements that the old tables still waited for, and the new ones have behind them."""
    waiting = {ddl_id(found, has_watermarks) for found in new.queue}
    return [
        PassedOver(found.at, name)
        for found in state.queue
        if ddl_id(found, has_watermarks) not in waiting
        for name in names
    ]
