"""One step of a plan, done to a target's tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tidewire.arrow.policy import Policy
from tidewire.errors import StepImpossible
from tidewire.model import TableName
from tidewire.spark.apply.changes import Changes, literal_path, surely_has_rows
from tidewire.spark.apply.check import check
from tidewire.spark.apply.columns import alter
from tidewire.spark.apply.failures import reason_of
from tidewire.spark.apply.modes import LAYOUTS, Layout, Mode, run_with
from tidewire.spark.targets import CommitTag, Field, Target
from tidewire.sync.catalogue import stored
from tidewire.sync.manifest import Rejected
from tidewire.sync.steps import REJECTS, Alter, Create, Drop, Merge, Rename, SetAside, Step, Truncate, gone_name

REJECT_FIELDS: Final = (
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


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step.

    ``version`` is the one that the step's own commit made, also if that was before a crash; ``None`` if there was
    nothing to commit. ``changed`` says whether the step was done now. ``rejected`` are changes that were left out
    because they do not fit. ``renamed`` has the versions of tables under the names that the step gave them.
    """

    version: str | None = None
    changed: bool = False
    rejected: tuple[Rejected, ...] = ()
    renamed: Mapping[TableName, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApplySettings:
    """How steps are done. ``check``: may there be changes that do not fit? They are looked for and left out."""

    policy: Policy = field(default_factory=Policy)
    check: bool = True


@dataclass(frozen=True, slots=True)
class _Context:
    target: Target
    tag: CommitTag
    mode: Mode
    settings: ApplySettings
    known: Mapping[TableName, str]

    @property
    def layout(self) -> Layout:
        return LAYOUTS[self.mode]

    def identity(self, name: TableName) -> str | None:
        """The identity of the table that a plan was made for."""
        version = self.known.get(name)
        return None if version is None else version.partition("@")[0]


def execute(
    step: Step,
    target: Target,
    tag: CommitTag,
    mode: Mode,
    settings: ApplySettings = ApplySettings(),
    known: Mapping[TableName, str] = {},
) -> Outcome:
    """Do a step, or what is left of it; a step that was done is only looked up.

    ``known`` has versions of the tables that the plan was made for: a name that leads to another table keeps it.
    Raises ``StepImpossible`` if the step can never be done.
    """
    reason = check(step, mode, settings.policy)
    if reason is not None:
        raise StepImpossible(tag.step, sorted(step.tables), reason)
    try:
        return _STEPS[type(step)](step, _Context(target, tag, mode, settings, known))
    except Exception as error:
        reason = reason_of(error)
        if reason is None:
            raise
        raise StepImpossible(tag.step, sorted(step.tables), reason) from error


def misfits(step: Step, target: Target, settings: ApplySettings = ApplySettings()) -> tuple[Rejected, ...]:
    """The changes of a step that do not fit their table."""
    if not isinstance(step, Merge):
        return ()
    return tuple(Changes(target.session(), _plain(step), settings.policy).misfits())


def _plain(merge: Merge) -> Merge:
    return replace(merge, table=stored(merge.table))


def _merge(step: Merge, context: _Context) -> Outcome:
    target, merge = context.target, _plain(step)
    found = target.find(merge.table.name, context.tag.step)
    if found is not None:
        return Outcome(found)
    changes = Changes(target.session(), merge, context.settings.policy)
    rejected = tuple(changes.misfits()) if context.settings.check else ()
    if (rejected or not surely_has_rows(merge.slices)) and not changes.any():
        return Outcome(rejected=rejected)
    bounds = (
        min(max(each.from_ts, each.file.min_ts) for each in merge.slices),
        max(min(each.to_ts, each.file.max_ts) for each in merge.slices),
    )
    return Outcome(context.layout.merge(target, context.tag, changes, bounds), True, rejected)


def _create(step: Create, context: _Context) -> Outcome:
    target, table = context.target, stored(step.table)
    found = target.find(table.name, context.tag.step)
    if found is not None:
        return Outcome(found)
    if context.layout.keeps_past and _has_rows(target, table.name):
        _set_aside(table.name, step.ts, context)
    fields = context.layout.fields(table, context.settings.policy)
    identity = context.identity(table.name) if target.exists(table.name) else None
    return Outcome(target.create(table.name, fields, context.tag, identity=identity), True)


def _has_rows(target: Target, name: TableName) -> bool:
    if not target.exists(name):
        return False
    count = target.row_count(name)
    return bool(count) if count is not None else not target.read(name).isEmpty()


def _drop(step: Drop, context: _Context) -> Outcome:
    target, begun = context.target, context.target.moved(context.tag)
    if step.keep or context.layout.keeps_past:
        if not begun and not target.exists(step.name):
            return Outcome()
        return Outcome(changed=True, renamed=_set_aside(step.name, step.ts, context))
    if begun or not target.exists(step.name):
        return Outcome()
    target.drop(step.name, context.tag, identity=context.identity(step.name))
    return Outcome(changed=True)


def _set_aside(name: TableName, ts: int, context: _Context) -> dict[TableName, str]:
    """Keep a table that is gone upstream under a name that says since when."""
    return _moved([(name, gone_name(name, ts))], context)


def _moved(moves: list[tuple[TableName, TableName]], context: _Context) -> dict[TableName, str]:
    identities = {old: identity for old, _ in moves if (identity := context.identity(old)) is not None}
    return context.target.rename(moves, context.tag, identities=identities)


def _truncate(step: Truncate, context: _Context) -> Outcome:
    target, name = context.target, step.table.name
    found = target.find(name, context.tag.step)
    if found is not None:
        return Outcome(found)
    return Outcome(context.layout.truncate(target, context.tag, name, step.ts), True)


def _rename(step: Rename, context: _Context) -> Outcome:
    if not step.moves:
        return Outcome()
    return Outcome(changed=True, renamed=_moved(list(step.moves), context))


def _alter(step: Alter, context: _Context) -> Outcome:
    found = context.target.find(step.after.name, context.tag.step)
    if found is not None:
        return Outcome(found)
    return Outcome(alter(step, context.target, context.tag, context.layout, context.settings.policy), True)


def _append_rejects(step: SetAside, context: _Context) -> Outcome:
    target = context.target
    found = target.find(REJECTS, context.tag.step)
    if found is not None:
        return Outcome(found)
    if not target.exists(REJECTS):
        target.create(REJECTS, REJECT_FIELDS, replace(context.tag, part=0))
    schema = ", ".join(f"`{each.name}` {each.type}" for each in REJECT_FIELDS)
    names = ", ".join(f"`{each.name}`" for each in REJECT_FIELDS)
    rows = target.session().read.schema(schema).parquet(*map(literal_path, step.files))
    statement = f"INSERT INTO {target.relation(REJECTS)} ({names}) SELECT {names} FROM {{source}}"
    return Outcome(run_with(target, REJECTS, context.tag, rows, statement), True)


_STEPS: Mapping[type, Callable[[Any, _Context], Outcome]] = {
    Merge: _merge,
    Create: _create,
    Drop: _drop,
    Truncate: _truncate,
    Rename: _rename,
    Alter: _alter,
    SetAside: _append_rejects,
}
