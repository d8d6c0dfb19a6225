"""What a change of upstream's columns makes of a table in the target, under the policies of its kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidewire.ddl.column_steps import ColumnStep, GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.edits import Place
from tidewire.model import Column, TableName
from tidewire.sync.copies import Copy
from tidewire.sync.policy import COLUMN_KINDS, ChangeKind, DdlPolicy, widens
from tidewire.sync.rules import Rules
from tidewire.sync.steps import Alter, gone

PolicyOf = Callable[[ChangeKind], DdlPolicy]


def altered_copy(
    copy: Copy, alter: Alter, policy_of: PolicyOf, rules: Rules, *, by_rows: bool = False
) -> tuple[tuple[ColumnStep, ...], Copy]:
    """The steps for the target's table, and the table after them.

    ``by_rows``: rows tell the change, and those from before it come along, so that a column which stays is still fed.
    """
    draft = _Draft(copy, alter, policy_of, rules)
    draft.by_rows = by_rows
    for step in alter.columns:
        _FOLLOW[type(step)](draft, step)
    return tuple(draft.steps), draft.copy()


@dataclass(eq=False, slots=True)
class _Entry:
    """A column of the target. ``own``: a policy kept its type, so it is not upstream's."""

    column: Column
    source: str | None
    own: bool


class _Draft:
    def __init__(self, copy: Copy, alter: Alter, policy_of: PolicyOf, rules: Rules) -> None:
        self.alter = alter
        self.policy_of = policy_of
        self.rules = rules
        self.before = copy
        self.by_rows = False
        self.steps: list[ColumnStep] = []
        upstream = {column.name.lower(): column for column in alter.before.columns}
        self.entries = [
            _Entry(column, source, self._is_own(column, upstream.get((source or "").lower())))
            for column, source in zip(copy.table.columns, copy.sources, strict=True)
        ]

    @property
    def name(self) -> TableName:
        return self.alter.after.name

    def _is_own(self, column: Column, upstream: Column | None) -> bool:
        told = None if upstream is None else self.rules.masked_column(self.name, upstream)
        return told is not None and told.mysql_type != column.mysql_type

    def policy(self, step: ColumnStep) -> DdlPolicy:
        return self.policy_of(COLUMN_KINDS[type(step)])

    def find(self, source: str) -> _Entry | None:
        """The column that rows call by this name, if the target has it."""
        return next((each for each in self.entries if (each.source or "").lower() == source.lower()), None)

    def make_way(self, name: str, entry: _Entry | None = None) -> None:
        """Rename a column that is kept and has a name which another one gets."""
        for other in self.entries:
            if other is not entry and other.column.name.lower() == name.lower():
                aside = gone(other.column.name, self.alter.ts)
                self.steps.append(NamedColumn(other.column.name, aside))
                other.column = replace(other.column, name=aside)

    def place(self, place: Place) -> Place:
        """A place behind the nearest column before it that the target has."""
        if place.after is None:
            return place
        names = [column.name.lower() for column in self.alter.after.columns]
        for name in reversed(names[: names.index(place.after.lower()) + 1]):
            if (found := self.find(name)) is not None:
                return Place(after=found.column.name)
        return Place(first=True)

    def put(self, entry: _Entry, place: Place) -> None:
        at = len(self.entries)
        if place.first:
            at = 0
        elif place.after is not None:
            at = next(n for n, each in enumerate(self.entries) if each.column.name == place.after) + 1
        self.entries.insert(at, entry)

    # Step by step

    def add(self, step: NewColumn) -> None:
        column = self.rules.masked_column(self.name, step.column)
        if column is None:
            return
        if (kept := self.find(column.name)) is not None:
            kept.own = kept.column.mysql_type != column.mysql_type
            return
        if self.policy(step) is DdlPolicy.IGNORE:
            for entry in self.entries:
                if entry.source is None and entry.column.name.lower() == column.name.lower():
                    entry.source, entry.own = column.name, entry.column.mysql_type != column.mysql_type
            return
        self.make_way(column.name)
        place = self.place(step.place)
        self.put(_Entry(column, column.name, own=False), place)
        self.steps.append(NewColumn(column, place, self.rules.masked_fill(self.name, step.column, step.fill)))

    def remove(self, step: GoneColumn) -> None:
        entry = self.find(step.name)
        if entry is None:
            return
        if self.policy(step) is DdlPolicy.EVOLVE:
            self.entries.remove(entry)
            self.steps.append(GoneColumn(entry.column.name))
            return
        entry.source = step.name if self.by_rows else None
        entry.column = replace(entry.column, default=None, nullable=True, handle_key=False, primary_key=False)

    def rename(self, step: NamedColumn) -> None:
        entry = self.find(step.name)
        if entry is None:
            return
        if self.policy(step) is not DdlPolicy.IGNORE:
            self.make_way(step.new, entry)
            self.steps.append(NamedColumn(entry.column.name, step.new))
            entry.column = replace(entry.column, name=step.new)
        entry.source = step.new

    def retype(self, step: TypedColumn) -> None:
        entry, policy = self.find(step.new.name), self.policy(step)
        new = self.rules.masked_column(self.name, step.new)
        if entry is None or new is None or new.mysql_type == entry.column.mysql_type:
            return
        new = replace(new, name=entry.column.name)
        entry.own = not (policy is DdlPolicy.EVOLVE or (policy is DdlPolicy.LENIENT and widens(entry.column, new)))
        if not entry.own:
            self.steps.append(TypedColumn(entry.column, new))
            entry.column = new

    def move(self, step: PlacedColumn) -> None:
        entry = self.find(step.name)
        if entry is None or self.policy(step) is DdlPolicy.IGNORE:
            return
        self.entries.remove(entry)
        place = self.place(step.place)
        self.put(entry, place)
        self.steps.append(PlacedColumn(entry.column.name, place))

    def copy(self) -> Copy:
        """The table after all steps; what no policy kept is as upstream has it."""
        for entry in self.entries:
            told = None if entry.source is None else self._told(entry.source)
            if told is None:
                continue
            if entry.own:
                entry.column = replace(entry.column, handle_key=told.handle_key, primary_key=told.primary_key)
            else:
                entry.column = replace(told, name=entry.column.name)
        columns = tuple(entry.column for entry in self.entries)
        names = {column.name for column in columns}
        indexes = tuple(index for index in self.alter.after.indexes if names.issuperset(index.columns))
        table = replace(self.alter.after, name=self.before.table.name, columns=columns, indexes=indexes)
        return Copy(table, tuple(entry.source for entry in self.entries))

    def _told(self, source: str) -> Column | None:
        for column in self.alter.after.columns:
            if column.name.lower() == source.lower():
                return self.rules.masked_column(self.name, column)
        return None


_FOLLOW: Mapping[type, Callable[[_Draft, Any], None]] = {
    NewColumn: _Draft.add,
    GoneColumn: _Draft.remove,
    NamedColumn: _Draft.rename,
    TypedColumn: _Draft.retype,
    PlacedColumn: _Draft.move,
}
