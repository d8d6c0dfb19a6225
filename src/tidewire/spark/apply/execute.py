"""One step of a plan, done to a target's tables."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from tidewire.arrow.policy import Policy
from tidewire.errors import ColumnError, Retry, StepImpossible, SyncError
from tidewire.model import TableName, TableSchema
from tidewire.spark.apply.changes import Staged, fallible_columns
from tidewire.spark.apply.check import check
from tidewire.spark.apply.columns import alter
from tidewire.spark.apply.failures import GONE, reason_of
from tidewire.spark.apply.find import Search
from tidewire.spark.apply.layout import Edit, Layout, Mode
from tidewire.spark.apply.modes import LAYOUTS
from tidewire.spark.apply.rewrite import Rewrite, may_change
from tidewire.spark.apply.task import (
    FEW_CHANGES,
    InvalidChangesPiece,
    MergePiece,
    RewritePiece,
    Written,
    change_of,
    files_to_fold,
    merge_pieces,
    run_pieces,
    written,
)
from tidewire.spark.apply.write import write_rows
from tidewire.spark.targets.base import CommitTag, Field, Target
from tidewire.spark.targets.commits import Begun
from tidewire.spark.targets.files import FileChange, StoredTable
from tidewire.storage import Storage
from tidewire.sync.catalogue import stored
from tidewire.sync.manifest import Rejected
from tidewire.sync.steps import (
    REJECTS,
    Adopt,
    Alter,
    Create,
    Drop,
    Fill,
    Merge,
    Rename,
    SetAside,
    Step,
    Truncate,
    gone_name,
)

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

_PAUSES: Final = (0.0, 0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds before each search, if another program changes a table between the search and the commit."""


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


class Write(NamedTuple):
    """Rows of a table that a step has to commit."""

    name: TableName
    change: FileChange
    tag: CommitTag


Result = TypeVar("Result")

UnfinishedStep: TypeAlias = Generator[Write, str | None, Outcome]
"""A step that is being done. It yields what it has to commit, and gets the version that this made, or its error."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A step whose commit of rows is begun, and waits for those of other steps."""

    work: UnfinishedStep
    begun: Begun


@dataclass(frozen=True, slots=True)
class ApplySettings:
    """How steps are done. Staged files are in ``storage``; without one they are on a local disk."""

    policy: Policy = field(default_factory=Policy)
    storage: Storage | None = None


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

    @property
    def label(self) -> str:
        """How the names of new files begin: they carry the driver's epoch."""
        return f"{self.tag.epoch:08}"

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
    return _alone(work_of(step, target, tag, mode, settings, known), target)


def work_of(
    step: Step, target: Target, tag: CommitTag, mode: Mode, settings: ApplySettings, known: Mapping[TableName, str]
) -> UnfinishedStep:
    """The same, with every commit of rows left to the caller."""
    reason = check(step, mode, settings.policy)
    if reason is not None:
        raise StepImpossible(tag.step, sorted(step.tables), reason)
    try:
        done = _STEPS[type(step)](step, _Context(target, tag, mode, settings, known))
        return done if isinstance(done, Outcome) else (yield from done)
    except Exception as error:
        reason = reason_of(error)
        if reason is None:
            raise
        raise StepImpossible(tag.step, sorted(step.tables), reason) from error


def go_on(
    work: UnfinishedStep,
    write: Callable[[TableName, FileChange, CommitTag], str | Begun],
    answer: str | Exception | None = None,
) -> Outcome | Waiting:
    """Do a step until it is done, or until ``write`` has only begun its commit.

    ``answer`` is what became of the commit that the step has waited for.
    """
    made = _made(work, write, answer)
    return Waiting(work, made) if isinstance(made, Begun) else made


def _alone(work: Generator[Write, str | None, Result], target: Target) -> Result:
    """Do what makes commits to its end, each commit by itself."""
    made = _made(work, target.write, None)
    assert not isinstance(made, Begun)
    return made


def _made(
    work: Generator[Write, str | None, Result],
    write: Callable[[TableName, FileChange, CommitTag], str | Begun],
    answer: str | Exception | None,
) -> Result | Begun:
    try:
        while True:
            wanted = work.throw(answer) if isinstance(answer, Exception) else work.send(answer)
            try:
                made = write(*wanted)
            except Exception as error:
                answer = error
            else:
                if isinstance(made, Begun):
                    return made
                answer = made
    except StopIteration as end:
        result: Result = end.value
        return result


def invalid_changes(step: Step, target: Target, settings: ApplySettings = ApplySettings()) -> tuple[Rejected, ...]:
    """The changes of a step that do not fit their table."""
    if not isinstance(step, Merge):
        return ()
    merge = _plain(step)
    columns = fallible_columns(merge, settings.policy)
    if not columns:
        return ()
    staged = Staged(settings.policy, settings.storage)
    pieces = [InvalidChangesPiece(replace(merge, slices=(piece,)), staged, tuple(columns)) for piece in merge.slices]
    if _rows(merge) <= FEW_CHANGES:
        pieces = [InvalidChangesPiece(merge, staged, tuple(columns))]
    return run_pieces(pieces, _rows(merge), target.context).rejected


def _plain(merge: Merge) -> Merge:
    return replace(merge, table=stored(merge.table))


def _rows(merge: Merge) -> int:
    return sum(each.file.rows for each in merge.slices)


def _merge(step: Merge, context: _Context) -> UnfinishedStep:
    target, merge = context.target, _plain(step)
    found = target.find(merge.table.name, context.tag.step)
    if found is not None:
        return Outcome(found)
    staged = Staged(context.settings.policy, context.settings.storage, context.layout.old_rows)

    def search(table: StoredTable) -> Written:
        _refuse_changed(table, merge, context)
        if table.has_lineage and any(file.lineage is None for file in files_to_fold(merge, context.mode, table)):
            table = replace(target.stored(merge.table.name, listed=True), key=table.key)
        pieces = merge_pieces(merge, context.mode, table, staged, context.label)
        return run_pieces(pieces, _rows(merge), target.context)

    result, version = yield from _committed(merge.table, context, search, lambda result: bool(result.changes))
    return Outcome(version, version is not None, result.rejected)


def _refuse_changed(table: StoredTable, merge: Merge, context: _Context) -> None:
    """Raise ``ColumnError`` if a table lacks a column that rows are written to."""
    known = {column.name.lower() for column in table.columns}
    for field_ in context.layout.fields(merge.table, context.settings.policy):
        if field_.name.lower() not in known:
            raise ColumnError(f"there is no column {field_.name} in {merge.table.name}: {GONE}")


def _fill(step: Fill, context: _Context) -> UnfinishedStep:
    """The rows of each staged file make files of their own: the table is empty, so there is nothing to find."""
    target, merge = context.target, _plain(step.merge)
    found = target.find(merge.table.name, context.tag.step)
    if found is not None:
        return Outcome(found)
    staged = Staged(context.settings.policy, context.settings.storage, context.layout.old_rows)

    def write(table: StoredTable) -> Written:
        _refuse_changed(table, merge, context)
        if table.files:
            raise SyncError(f"{merge.table.name} has rows already, which another program wrote while it was loaded")
        pieces = [
            MergePiece(replace(merge, slices=(piece,)), context.mode, table, staged, context.label)
            for piece in merge.slices
        ]
        few = _rows(merge) <= FEW_CHANGES
        result = run_pieces(pieces, _rows(merge), None if few else target.context)
        if result.rejected:  # before the commit: a step that is found in its table counts as done
            raise StepImpossible(context.tag.step, sorted(step.tables), f"rows do not fit: {result.rejected[0].reason}")
        return result

    _, version = yield from _committed(merge.table, context, write)
    return Outcome(version, True)


def _committed(
    shape: TableSchema,
    context: _Context,
    search: Callable[[StoredTable], Written],
    has_change: Callable[[Written], bool] = lambda result: True,
) -> Generator[Write, str | None, tuple[Written, str | None]]:
    """Search a table and commit what is to be changed; the version that this makes, ``None`` if nothing is committed.

    If another program changes the table in between, it is searched again.
    """
    name = shape.name
    for number, pause in enumerate(_PAUSES):
        time.sleep(pause)
        table = context.target.stored(name)
        known = {column.name.lower() for column in table.columns}  # a column of the key may be renamed by now
        table = replace(table, key=tuple(each for each in context.layout.order(shape) if each.lower() in known))
        result = search(table)
        if not has_change(result):
            return result, None
        try:
            return result, (yield Write(name, change_of(table, result), context.tag))
        except Retry as error:
            if number == len(_PAUSES) - 1:
                raise SyncError(
                    f"{name} could not be committed in {len(_PAUSES)} attempts: {error}. Stop the other program while "
                    "the sync catches up"
                ) from error
    raise AssertionError


def _create(step: Create, context: _Context) -> Outcome:
    target, table = context.target, stored(step.table)
    found = target.find(table.name, context.tag.step)
    if found is not None:
        return Outcome(found)
    if context.layout.keeps_past and _has_rows(target, table.name):
        _set_aside(table.name, step.ts, context)
    fields = context.layout.fields(table, context.settings.policy)
    identity = context.identity(table.name) if target.exists(table.name) else None
    options = step.options.spelled(field.name for field in fields)
    return Outcome(target.create(table.name, fields, context.tag, identity=identity, options=options), True)


def _adopt(step: Adopt, context: _Context) -> Outcome:
    target, name = context.target, step.table.name
    found = target.find(name, context.tag.step)
    return Outcome(target.adopt(name, context.tag), True) if found is None else Outcome(found)


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
    table = target.stored(name)
    made = context.layout.truncation(table, Search(table.files, table.access), step.ts)
    if made is None:
        return Outcome(target.truncate(name, context.tag), True)
    if isinstance(made, Rewrite):
        return Outcome(_rewrite(step.table, made, context), True)
    work = _committed(step.table, context, lambda table: _added(table, made, step, context))
    _, version = _alone(work, context.target)
    return Outcome(version, True)


def _added(table: StoredTable, edit: Edit, step: Truncate, context: _Context) -> Written:
    return Written(written(table, edit, context.layout.order(step.table), context.label))


def _rewrite(shape: TableSchema, rewrite: Rewrite, context: _Context) -> str | None:
    """Write the files of a table anew that a rewrite changes."""

    def search(table: StoredTable) -> Written:
        pieces = [
            RewritePiece(replace(table, files=()), file, rewrite, context.settings.policy, context.label)
            for file in table.files
            if may_change(table, file, rewrite)
        ]
        rows = sum(file.rows for file in table.files)
        return run_pieces(pieces, rows, context.target.context if rows > FEW_CHANGES else None) if pieces else Written()

    return _alone(_committed(shape, context, search), context.target)[1]


def _rename(step: Rename, context: _Context) -> Outcome:
    if not step.moves:
        return Outcome()
    return Outcome(changed=True, renamed=_moved(list(step.moves), context))


def _alter(step: Alter, context: _Context) -> Outcome:
    found = context.target.find(step.after.name, context.tag.step)
    if found is not None:
        return Outcome(found)

    def rewrite(change: Rewrite, tag: CommitTag) -> object:
        return _rewrite(step.before, change, replace(context, tag=tag))

    policy = context.settings.policy
    return Outcome(alter(step, context.target, context.tag, context.layout, policy, rewrite), True)


def _append_rejects(step: SetAside, context: _Context) -> UnfinishedStep:
    target = context.target
    found = target.find(REJECTS, context.tag.step)
    if found is not None:
        return Outcome(found)
    if not target.exists(REJECTS):
        target.create(REJECTS, REJECT_FIELDS, replace(context.tag, part=0))
    staged = Staged(storage=context.settings.storage)

    def rows(table: StoredTable) -> Written:
        names, read = [each.name for each in REJECT_FIELDS], []
        for path in step.files:
            with staged.input(path) as opened:
                read.append(pq.read_table(opened).select(names))
        found = pa.concat_tables(read, promote_options="permissive")
        return Written(tuple(write_rows(table, found, context.label)))

    _, version = yield from _committed(TableSchema(REJECTS, ()), replace(context, mode=Mode.MIRROR), rows)
    return Outcome(version, True)


_STEPS: Mapping[type, Callable[[Any, _Context], Outcome | UnfinishedStep]] = {
    Merge: _merge,
    Fill: _fill,
    Create: _create,
    Adopt: _adopt,
    Drop: _drop,
    Truncate: _truncate,
    Rename: _rename,
    Alter: _alter,
    SetAside: _append_rejects,
}
