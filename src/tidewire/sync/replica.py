"""The target's tables: what policies, masks and routes leave of what happens upstream.

The planner follows the upstream by its own names and shapes. Its steps pass through here, and come out as steps of a
target whose tables may differ: columns that are masked or kept, tables that keep their rows or their names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tidewire.errors import SyncStopped
from tidewire.model import TableName, TableSchema
from tidewire.sync.alters import altered_copy
from tidewire.sync.copies import Copy
from tidewire.sync.policy import ChangeKind, DdlPolicy
from tidewire.sync.rules import Rules
from tidewire.sync.steps import Alter, Create, Drop, Merge, Rename, SetAside, Step, Truncate


class Replica:
    """Copies by the upstream's folded names; ``None`` for a table that is left out.

    ``kept`` are tables that are gone upstream, or no longer followed, and stay until another one needs their name.
    """

    def __init__(self, copies: Mapping[TableName, Copy | None], kept: Iterable[TableSchema], rules: Rules) -> None:
        self.copies = {name: copy for name, copy in copies.items() if rules.wants(name)}
        left = [copy.table for name, copy in copies.items() if copy is not None and not rules.wants(name)]
        self.kept = [*kept, *left]
        self.notes: list[str] = []
        self._rules = rules
        self._told = True
        self._by_rows = False
        self._places: dict[TableName, TableName] | None = None

    def follow(self, steps: Iterable[Step], *, told: bool = True, by_rows: bool = False) -> list[Step]:
        """What the target does for steps of the upstream. ``told``: a statement tells them, so that policies count.

        ``by_rows``: it is not a statement that tells them, but rows of another shape.
        """
        self._told, self._by_rows = told, by_rows
        return [done for step in steps for done in _FOLLOW[type(step)](self, step)]

    def published(self) -> list[tuple[TableName | None, TableSchema]]:
        """The tables there are, each with its name upstream, folded; nothing where upstream has it no more."""
        copies = [(name, copy.table) for name, copy in self.copies.items() if copy is not None]
        return [*copies, *((None, table) for table in self.kept)]

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
            self._places = {self._place(copy): name for name, copy in self.copies.items() if copy is not None}
        return self._places

    def _place(self, copy: Copy) -> TableName:
        return self._rules.route(copy.table.name).folded

    def _set(self, name: TableName, copy: Copy | None) -> None:
        self.copies[name] = copy
        if copy is not None and self._places is not None:
            self._places[self._place(copy)] = name

    def _pop(self, name: TableName) -> Copy | None:
        copy = self.copies.pop(name, None)
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
        self._set(name.folded, Copy.of(table))
        return [*aside, Create(table, step.ts)]

    def _drop(self, step: Drop) -> list[Step]:
        return self._remove(self._pop(step.name.folded), step.name, step.ts)

    def _remove(self, copy: Copy | None, name: TableName, ts: int) -> list[Step]:
        """A table that is gone upstream, or out of sight."""
        if copy is None:
            return []
        policy = self._policy(name, ChangeKind.DROP_TABLE)
        if policy is DdlPolicy.IGNORE:
            self.kept.append(copy.table)
            return []
        return [Drop(copy.table.name, ts, keep=policy is DdlPolicy.LENIENT)]

    def _truncate(self, step: Truncate) -> list[Step]:
        copy = self.copies.get(step.table.name.folded)
        follows = self._policy(step.table.name, ChangeKind.TRUNCATE_TABLE) in (DdlPolicy.EVOLVE, DdlPolicy.FREEZE)
        return [] if copy is None or not follows else [Truncate(copy.table, step.ts)]

    def _alter(self, step: Alter) -> list[Step]:
        name = step.after.name
        before = self.copies.get(name.folded)
        if before is None:
            return []
        columns, after = altered_copy(
            before, step, lambda kind: self._policy(name, kind), self._rules, by_rows=self._by_rows
        )
        self.copies[name.folded] = after
        # A key that is gone may be on its way to another one; rows that come without one are refused.
        changed = columns or after.table.handle_key not in ((), before.table.handle_key)
        return [Alter(before.table, after.table, columns, step.ts)] if changed else []

    def _rename(self, step: Rename) -> list[Step]:
        """Tables that move, all at once. One that moves out of sight is gone; one that comes into sight is new."""
        wants, gone, moved = self._rules.wants, list[Step](), list[tuple[TableName, TableName, Copy | None]]()
        for old, new in step.moves:
            followed = old.folded in self.copies
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
        if name.folded not in self.copies:
            self.notes.append(f"{name} was not followed before: only rows that change from now on are in it")
            self._told = False
            steps += self._create(Create(step.table, step.ts))
        copy = self.copies.get(name.folded)
        if copy is None:
            return steps
        slices = tuple(
            replace(each, file=replace(each.file, shape=self._rules.masked(each.file.shape))) for each in step.slices
        )
        return [*steps, Merge(copy.table, slices, step.ts, copy.differing)]


_FOLLOW: Mapping[type, Callable[[Replica, Any], list[Step]]] = {
    Create: Replica._create,
    Drop: Replica._drop,
    Truncate: Replica._truncate,
    Alter: Replica._alter,
    Rename: Replica._rename,
    Merge: Replica._merge,
    SetAside: lambda replica, step: [step],
}
