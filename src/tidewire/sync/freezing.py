"""Why a table is stopped before a statement although the statement could be followed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidewire.ddl.column_steps import TypedColumn
from tidewire.ddl.edits import AlterTable, Edit, RenameTable
from tidewire.ddl.shape import column_steps
from tidewire.errors import DdlMismatch
from tidewire.model import Position, TableName, TableSchema
from tidewire.model.types import INTEGERS, STRINGS
from tidewire.sync.catalogue import Catalogue, stored
from tidewire.sync.conform import column_changes
from tidewire.sync.manifest import FoundDdl, StagedFile
from tidewire.sync.masks import Mask
from tidewire.sync.policy import COLUMN_KINDS, ChangeKind, DdlPolicy, final_names, kinds_of
from tidewire.sync.rules import Rules
from tidewire.sync.state import Hold


def frozen_before(found: FoundDdl, does: Iterable[Edit], ts: int, catalogue: Catalogue, rules: Rules) -> list[Hold]:
    """The tables that stop before a statement."""
    return [
        Hold(ts - 1, found.at, f"{reason}: {found.ddl.query}", name, frozen=True)
        for edit in does
        for name, reason in _freezing(edit, catalogue, rules)
    ]


def frozen_by_rows(table: TableSchema, files: Iterable[StagedFile], rules: Rules) -> list[Hold]:
    """The partitions of a table that stop before rows of another shape, where rows alone tell how it changes."""
    holds = []
    for file in files:
        steps, after = column_changes(table, stored(file.shape), follow=True)
        kinds = dict.fromkeys(COLUMN_KINDS[type(step)] for step in steps)
        if after.handle_key != table.handle_key:
            kinds[ChangeKind.CHANGE_KEY] = None
        frozen = [kind for kind in kinds if rules.policy(table.name, kind) is DdlPolicy.FREEZE]
        at = Position(file.partition.topic, file.partition.number, file.first_offset)
        holds += [
            Hold(at.offset - 1, at, f"its rows changed, and {_said(kind)}", table.name, frozen=True)
            for kind in frozen[:1]
        ]
    return holds


def _freezing(edit: Edit, catalogue: Catalogue, rules: Rules) -> Iterator[tuple[TableName, str]]:
    """The tables that stop before an edit, and why."""
    for name, kind in kinds_of(edit, catalogue):
        if rules.wants(name) and rules.policy(name, kind) is DdlPolicy.FREEZE:
            yield name, _said(kind)
    yield from _unmasked(edit, catalogue, rules)
    yield from _unhashed(edit, catalogue, rules)


def _said(kind: ChangeKind) -> str:
    return f"the policy for {kind} is freeze; set it to evolve, lenient or ignore and run again"


def _unmasked(edit: Edit, catalogue: Catalogue, rules: Rules) -> Iterator[tuple[TableName, str]]:
    """Renames after which a rule about a column would no longer find it."""
    for old, new, columns in _renames(edit, catalogue):
        if not (rules.wants(old) and rules.wants(new)):
            continue
        for before, after in columns.items():
            was, would_be = rules.of(old).of(before), rules.of(new).of(after)
            if was is not would_be:
                yield (
                    old,
                    f"the mask of {old} {before} is {was or 'none'}, that of {new} {after} would be "
                    f"{would_be or 'none'}; say the same of both",
                )


def _unhashed(edit: Edit, catalogue: Catalogue, rules: Rules) -> Iterator[tuple[TableName, str]]:
    """Keys whose hashes would no longer be found, because their values have another text."""
    if not isinstance(edit, AlterTable) or (table := catalogue.find(edit.name)) is None or not rules.wants(edit.name):
        return
    try:
        steps = column_steps(table, edit.changes)
    except DdlMismatch:
        return
    for step in steps:
        if not (isinstance(step, TypedColumn) and step.new.handle_key):
            continue
        same_text = any({step.old.type, step.new.type} <= family for family in (INTEGERS, STRINGS))
        if not same_text and rules.of(edit.name).of(step.new.name) is Mask.HASH:
            yield edit.name, f"{step.new.name} is a key and hashed, and hashes cannot be converted; begin anew"


def _renames(edit: Edit, catalogue: Catalogue) -> Iterator[tuple[TableName, TableName, dict[str, str]]]:
    """Names of a table before and after an edit, and those of its columns that are renamed or renamed with it."""
    if isinstance(edit, RenameTable) and (table := catalogue.find(edit.old)) is not None:
        yield edit.old, edit.new, {column.name: column.name for column in table.columns}
    if isinstance(edit, AlterTable) and catalogue.find(edit.name) is not None:
        try:
            yield edit.name, edit.name, final_names(edit, catalogue)
        except DdlMismatch:
            return
