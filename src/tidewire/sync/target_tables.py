"""The target's tables: what policies, masks and routes leave of what happens upstream.

The planner follows the upstream by its own names and shapes. Its steps pass through here, and come out as steps of a
target whose tables may differ: columns that are masked or kept, tables that keep their rows or their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tidewire.ddl.column_steps import ColumnStep, GoneColumn, NamedColumn, NewColumn, PlacedColumn, TypedColumn
from tidewire.ddl.edits import ColumnPosition
from tidewire.errors import SyncStopped
from tidewire.model import Column, TableName, TableSchema
from tidewire.sync.policies import COLUMN_KINDS, ChangeKind, DdlPolicy, widens
from tidewire.sync.rules import Rules
from tidewire.sync.steps import Adopt, Alter, Create, Drop, Fill, Merge, Rename, SetAside, Slice, Step, Truncate, gone


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A table of the target, under the name it has there before it is routed.

    ``sources`` are the names of its columns upstream; ``None`` for one that upstream has no more.
    """

    table: TableSchema
    sources: tuple[str | None, ...]

    @classmethod
    def of(cls, table: TableSchema) -> TargetTable:
        """A table that is as upstream has it."""
        return cls(table, tuple(column.name for column in table.columns))

    @property
    def differing(self) -> dict[str, str | None]:
        """The columns that rows call otherwise, or do not have."""
        pairs = zip(self.table.columns, self.sources, strict=True)
        return {column.name: source for column, source in pairs if source != column.name}


PolicyOf = Callable[[ChangeKind], DdlPolicy]


def altered_table(
    copy: TargetTable, alter: Alter, policy_of: PolicyOf, rules: Rules, *, by_rows: bool = False
) -> tuple[tuple[ColumnStep, ...], TargetTable]:
    """The steps for the target's table, and the table after them.

    ``by_rows``: rows tell the change, and those from before it come along, so that a column which stays is still fed.
    """
    builder = _Draft(copy, alter, policy_of, rules)
    builder.by_rows = by_rows
    for step in alter.columns:
        _CHANGE[type(step)](builder, step)
    return tuple(builder.steps), builder.copy()


@dataclass(eq=False, slots=True)
class _Entry:
    """A column of the target. ``own``: a policy kept its type, so it is not upstream's."""

    column: Column
    source: str | None
    own: bool


class _Draft:
    def __init__(self, copy: TargetTable, alter: Alter, policy_of: PolicyOf, rules: Rules) -> None:
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

    def place(self, place: ColumnPosition) -> ColumnPosition:
        """A place behind the nearest column before it that the target has."""
        if place.after is None:
            return place
        names = [column.name.lower() for column in self.alter.after.columns]
        for name in reversed(names[: names.index(place.after.lower()) + 1]):
            if (found := self.find(name)) is not None:
                return ColumnPosition(after=found.column.name)
        return ColumnPosition(first=True)

    def put(self, entry: _Entry, place: ColumnPosition) -> None:
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

    def copy(self) -> TargetTable:
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
        return TargetTable(table, tuple(entry.source for entry in self.entries))

    def _told(self, source: str) -> Column | None:
        for column in self.alter.after.columns:
            if column.name.lower() == source.lower():
                return self.rules.masked_column(self.name, column)
        return None


_CHANGE: Mapping[type, Callable[[_Draft, Any], None]] = {
    NewColumn: _Draft.add,
    GoneColumn: _Draft.remove,
    NamedColumn: _Draft.rename,
    TypedColumn: _Draft.retype,
    PlacedColumn: _Draft.move,
}


class TargetTables:
    """Copies by the upstream's folded names; ``None`` for a table that is left out.

    ``kept`` are tables that are gone upstream, or no longer followed, and stay until another one needs their name.
    """

    def __init__(
        self, copies: Mapping[TableName, TargetTable | None], kept: Iterable[TableSchema], rules: Rules
    ) -> None:
        self.by_name = {name: copy for name, copy in copies.items() if rules.wants(name)}
        left = [copy.table for name, copy in copies.items() if copy is not None and not rules.wants(name)]
        self.kept = [*kept, *left]
        self.notes: list[str] = []
        self._rules = rules
        self._told = True
        self._by_rows = False
        self._places: dict[TableName, TableName] | None = None

    def saved(self, names: Iterable[TableName]) -> Callable[[], None]:
        """Remember some tables by the upstream's folded names; calling the result takes all changes of them back."""
        names, kept, count = list(names), list(self.kept), len(self.notes)
        tables = {name: self.by_name[name] for name in names if name in self.by_name}

        def restore() -> None:
            for name in names:
                self.by_name.pop(name, None)
            self.by_name |= tables
            self.kept, self._places = kept, None
            del self.notes[count:]

        return restore

    def follow(self, steps: Iterable[Step], *, told: bool = True, by_rows: bool = False) -> list[Step]:
        """What the target does for steps of the upstream. ``told``: a statement tells them, so that policies count.

        ``by_rows``: it is not a statement that tells them, but rows of another shape.
        """
        self._told, self._by_rows = told, by_rows
        return [done for step in steps for done in _FOLLOW[type(step)](self, step)]

    def published(self) -> list[tuple[TableName | None, TableSchema]]:
        """The tables there are, each with its name upstream, folded; nothing if upstream has it no more."""
        copies = [(name, copy.table) for name, copy in self.by_name.items() if copy is not None]
        return [*copies, *((None, table) for table in self.kept)]

    def swap(self, name: TableName, copy: TargetTable, beside: TableName, aside: TableName, ts: int) -> list[Step]:
        """Put a table that is beside the old one in its place; the old one goes ``aside``, and then away."""
        old = self._pop(name.folded)
        freed = self._claim(name, name, ts)
        self._set(name.folded, copy)
        if old is None:
            return [*freed, Rename(((beside, copy.table.name),), ts)]
        moves = (old.table.name, aside), (beside, copy.table.name)
        return [*freed, Rename(moves, ts), Drop(aside, ts)]

    def _policy(self, name: TableName, kind: ChangeKind) -> DdlPolicy:
        return self._rules.policy(name, kind) if self._told else DdlPolicy.EVOLVE

    def _claim(self, name: TableName, upstream: TableName, ts: int) -> list[Step]:
        """Make sure that a name in the target is free; a table that is merely kept goes aside."""
        wanted = self._rules.route(name)
        other = self._taken().get(wanted.folded)
        if other is not None:
            raise SyncStopped(
                f"{upstream} and {other} would both be {wanted} in the target; "
                "give one of them another name with `to` in its [[tables]] rule"
            )
        aside = [table for table in self.kept if self._rules.route(table.name).folded == wanted.folded]
        self.kept = [table for table in self.kept if table not in aside]
        return [Drop(table.name, ts, keep=True) for table in aside]

    def _taken(self) -> dict[TableName, TableName]:
        """The names in the target that are taken, and by whom; found out once, and then kept up."""
        if self._places is None:
            self._places = {self._place(copy): name for name, copy in self.by_name.items() if copy is not None}
        return self._places

    def _place(self, copy: TargetTable) -> TableName:
        return self._rules.route(copy.table.name).folded

    def _set(self, name: TableName, copy: TargetTable | None) -> None:
        self.by_name[name] = copy
        if copy is not None and self._places is not None:
            self._places[self._place(copy)] = name

    def _pop(self, name: TableName) -> TargetTable | None:
        copy = self.by_name.pop(name, None)
        if copy is not None and self._places is not None:
            self._places.pop(self._place(copy), None)
        return copy

    # Step by step

    def _create(self, step: Create) -> list[Step]:
        name = step.table.name
        if not self._rules.wants(name):
            return []
        if self._policy(name, ChangeKind.CREATE_TABLE) is DdlPolicy.IGNORE:
            self._set(name.folded, None)
            self.notes.append(f"{name} is new at {step.ts}, and left out: create-table is ignored")
            return []
        aside = self._claim(name, name, step.ts)
        table = self._rules.masked(step.table)
        self._set(name.folded, TargetTable.of(table))
        return [*aside, Create(table, step.ts, self._rules.of(name).options)]

    def _adopt(self, step: Adopt) -> list[Step]:
        """A table that is in the target, as upstream has it."""
        name = step.table.name
        if not self._rules.wants(name):
            return []
        aside = self._claim(name, name, step.ts)
        self._set(name.folded, TargetTable.of(step.table))
        return [*aside, step]

    def _drop(self, step: Drop) -> list[Step]:
        return self._remove(self._pop(step.name.folded), step.name, step.ts)

    def _remove(self, copy: TargetTable | None, name: TableName, ts: int) -> list[Step]:
        """A table that is gone upstream, or out of sight."""
        if copy is None:
            return []
        policy = self._policy(name, ChangeKind.DROP_TABLE)
        if policy is DdlPolicy.IGNORE:
            self.kept.append(copy.table)
            return []
        return [Drop(copy.table.name, ts, keep=policy is DdlPolicy.LENIENT)]

    def _truncate(self, step: Truncate) -> list[Step]:
        copy = self.by_name.get(step.table.name.folded)
        follows = self._policy(step.table.name, ChangeKind.TRUNCATE_TABLE) in (DdlPolicy.EVOLVE, DdlPolicy.FREEZE)
        return [] if copy is None or not follows else [Truncate(copy.table, step.ts)]

    def _alter(self, step: Alter) -> list[Step]:
        name = step.after.name
        before = self.by_name.get(name.folded)
        if before is None:
            return []
        columns, after = altered_table(
            before, step, lambda kind: self._policy(name, kind), self._rules, by_rows=self._by_rows
        )
        self.by_name[name.folded] = after
        # A key that is gone may be on its way to another one; rows that come without one are refused.
        changed = columns or after.table.handle_key not in ((), before.table.handle_key)
        return [Alter(before.table, after.table, columns, step.ts)] if changed else []

    def _rename(self, step: Rename) -> list[Step]:
        """Tables that move, all at once. One that moves out of sight is gone; one that comes into sight is new."""
        wants, gone, moved = self._rules.wants, list[Step](), list[tuple[TableName, TableName, TargetTable | None]]()
        for old, new in step.moves:
            followed = old.folded in self.by_name
            copy = self._pop(old.folded)
            if not wants(new):
                gone += self._remove(copy, old, step.ts)
            elif followed:
                moved.append((old, new, copy))
        moves: list[tuple[TableName, TableName]] = []
        for old, new, copy in moved:
            if copy is not None and self._policy(old, ChangeKind.RENAME_TABLE) is not DdlPolicy.IGNORE:
                gone += self._claim(new, new, step.ts)
                moves.append((copy.table.name, new))
                copy = replace(copy, table=replace(copy.table, name=new))
            self._set(new.folded, copy)
        return [*gone, Rename(tuple(moves), step.ts)] if moves else gone

    def _merge(self, step: Merge) -> list[Step]:
        """Rows, as the target has them. A table that was not followed until now is made for them."""
        name, steps = step.table.name, list[Step]()
        if name.folded not in self.by_name:
            self.notes.append(f"{name} was not followed before: only rows that change from now on are in it")
            self._told = False
            steps += self._create(Create(step.table, step.ts))
        copy = self.by_name.get(name.folded)
        if copy is None:
            return steps
        return [*steps, Merge(copy.table, tuple(map(self._masked, step.slices)), step.ts, copy.differing)]

    def _fill(self, step: Fill) -> list[Step]:
        """Rows of a load, as the target has them."""
        copy = self.by_name.get(step.table.name.folded)
        if copy is None:
            return []
        return [Fill(copy.table, tuple(map(self._masked, step.slices)), step.ts, copy.differing)]

    def _masked(self, piece: Slice) -> Slice:
        shape = self._rules.masked(piece.file.shape)
        return piece if shape is piece.file.shape else replace(piece, file=replace(piece.file, shape=shape))


_FOLLOW: Mapping[type, Callable[[TargetTables, Any], list[Step]]] = {
    Create: TargetTables._create,
    Adopt: TargetTables._adopt,
    Drop: TargetTables._drop,
    Truncate: TargetTables._truncate,
    Alter: TargetTables._alter,
    Rename: TargetTables._rename,
    Merge: TargetTables._merge,
    Fill: TargetTables._fill,
    SetAside: lambda tables, step: [step],
}
