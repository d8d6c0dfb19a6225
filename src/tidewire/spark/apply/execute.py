"""One step of a plan, done to a target's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tidewire.arrow.policy import Policy
from tidewire.errors import KeyNeeded, SyncError
from tidewire.model import TableName, TableSchema
from tidewire.spark.apply.changes import Changes, literal_path, surely_has_rows
from tidewire.spark.apply.columns import change_column
from tidewire.spark.apply.layout import META, Layout
from tidewire.spark.apply.modes import LAYOUTS, Mode
from tidewire.spark.apply.statements import run_with
from tidewire.spark.targets import Field, Mark, Target
from tidewire.sync.catalogue import stored
from tidewire.sync.manifest import Rejected
from tidewire.sync.steps import REJECTS, Alter, Create, Drop, Merge, Rename, SetAside, Step, Truncate, gone_name

REJECT_FIELDS = (
    Field("topic", "string"),
    Field("partition", "int"),
    Field("offset", "bigint"),
    Field("key", "binary"),
    Field("value", "binary"),
    Field("reason", "string"),
    Field("at", "string"),
    Field("part", "string"),
    Field("batch", "bigint"),
)
"""The columns of the rejects table, and of the files that go into it."""


class Journal(Protocol):
    """What is done of a plan. A part is one of the changes of columns in an Alter."""

    def done(self, step: int, part: int | None = None) -> bool:
        """Was the step, or this part of it, done?"""
        ...

    def record(self, step: int, part: int | None = None) -> None:
        """The step, or this part of it, is done. When this returns it is remembered."""
        ...


@dataclass(slots=True)
class MemoryJournal:
    """A journal that lasts as long as its process."""

    entries: set[tuple[int, int | None]] = field(default_factory=set)

    def done(self, step: int, part: int | None = None) -> bool:
        """Was the step, or this part of it, done?"""
        return (step, part) in self.entries

    def record(self, step: int, part: int | None = None) -> None:
        """The step, or this part of it, is done."""
        self.entries.add((step, part))


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step: was there anything to do, and which changes were left out because they do not fit."""

    changed: bool
    rejected: tuple[Rejected, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """How steps are done. ``check``: may there be changes that do not fit? They are looked for and left out."""

    policy: Policy = field(default_factory=Policy)
    check: bool = True


@dataclass(frozen=True, slots=True)
class _Context:
    target: Target
    mark: Mark
    mode: Mode
    settings: Settings
    journal: Journal

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.mode]


def execute(
    step: Step, target: Target, mark: Mark, mode: Mode, settings: Settings = Settings(), journal: Journal | None = None
) -> Outcome:
    """Do a step, as far as it is not done; doing it again changes nothing."""
    context = _Context(target, mark, mode, settings, MemoryJournal() if journal is None else journal)
    return _STEPS[type(step)](step, context)


def misfits(step: Step, target: Target, settings: Settings = Settings()) -> tuple[Rejected, ...]:
    """The changes of a step that do not fit their table."""
    if not isinstance(step, Merge):
        return ()
    return tuple(Changes(target.session(), _plain(step), settings.policy).misfits())


def _plain(merge: Merge) -> Merge:
    return replace(merge, table=stored(merge.table))


def _check(table: TableSchema, context: _Context) -> None:
    """Refuse a table that cannot be kept in this mode."""
    if context.layout.needs_key and not table.handle_key:
        raise KeyNeeded(str(table.name), context.mode)
    for column in table.columns:
        if column.name.lower().startswith(META):
            raise SyncError(f"{table.name}: a column cannot be called {column.name}, {META} is for what modes add")


def _merge(step: Merge, context: _Context) -> Outcome:
    target, merge = context.target, _plain(step)
    name = merge.table.name
    _check(merge.table, context)
    changes = Changes(target.session(), merge, context.settings.policy)
    if target.has(name, context.mark):
        return Outcome(False)
    rejected = tuple(changes.misfits()) if context.settings.check else ()
    if (rejected or not surely_has_rows(merge.slices)) and not changes.any():
        return Outcome(False, rejected)
    bounds = (
        min(max(each.from_ts, each.file.min_ts) for each in merge.slices),
        max(min(each.to_ts, each.file.max_ts) for each in merge.slices),
    )
    context.layout.merge(target, context.mark, changes, bounds)
    return Outcome(True, rejected)


def _create(step: Create, context: _Context) -> Outcome:
    target, table = context.target, stored(step.table)
    _check(table, context)
    if target.has(table.name, context.mark):
        return Outcome(False)
    if context.layout.keeps_past and target.exists(table.name) and not target.read(table.name).isEmpty():
        _set_aside(table.name, step.ts, context)
    target.create(table.name, context.layout.fields(table, context.settings.policy), {}, context.mark)
    return Outcome(True)


def _drop(step: Drop, context: _Context) -> Outcome:
    if not context.target.exists(step.name):
        return Outcome(False)
    if step.keep or context.layout.keeps_past:
        _set_aside(step.name, step.ts, context)
    else:
        context.target.drop(step.name)
    return Outcome(True)


def _set_aside(name: TableName, ts: int, context: _Context) -> None:
    """Keep a table that is gone upstream under a name that says since when."""
    context.target.rename([(name, gone_name(name, ts))], context.mark)


def _truncate(step: Truncate, context: _Context) -> Outcome:
    target, name = context.target, step.table.name
    if target.has(name, context.mark):
        return Outcome(False)
    context.layout.truncate(target, context.mark, name, step.ts)
    return Outcome(True)


def _rename(step: Rename, context: _Context) -> Outcome:
    if step.moves:
        context.target.rename(step.moves, context.mark)
    return Outcome(bool(step.moves))


def _alter(step: Alter, context: _Context) -> Outcome:
    target, name, number = context.target, step.after.name, context.mark.step
    _check(step.after, context)
    if target.has(name, context.mark):
        return Outcome(False)
    for part, change in enumerate(step.columns):
        if not context.journal.done(number, part):
            change_column(change, target, name, context.layout, context.settings.policy)
            context.journal.record(number, part)
    target.stamp(name, context.mark)
    return Outcome(True)


def _append_rejects(step: SetAside, context: _Context) -> Outcome:
    target = context.target
    if target.has(REJECTS, context.mark):
        return Outcome(False)
    if not target.exists(REJECTS):
        target.create(REJECTS, REJECT_FIELDS)
    schema = ", ".join(f"`{each.name}` {each.type}" for each in REJECT_FIELDS)
    names = ", ".join(f"`{each.name}`" for each in REJECT_FIELDS)
    rows = target.session().read.schema(schema).parquet(*map(literal_path, step.files))
    statement = f"INSERT INTO {target.relation(REJECTS)} ({names}) SELECT {names} FROM {{source}}"
    run_with(target, context.mark, rows, statement)
    return Outcome(True)


_STEPS: Mapping[type, Callable[[Any, _Context], Outcome]] = {
    Merge: _merge,
    Create: _create,
    Drop: _drop,
    Truncate: _truncate,
    Rename: _rename,
    Alter: _alter,
    SetAside: _append_rejects,
}
