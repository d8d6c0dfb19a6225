"""What there is to do of a statement: part of it may be about columns nobody told of, or may be done already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tidewire.ddl.edits import (
    AddColumn,
    AddIndex,
    AlterTable,
    ChangeColumn,
    ColumnEdit,
    DropColumn,
    DropTable,
    Edit,
    Place,
    RenameColumn,
    RenameTable,
    SetDefault,
)
from tidewire.model import TableSchema
from tidewire.sync.catalogue import Catalogue


def fitting(edits: Sequence[Edit], catalogue: Catalogue, *, again: bool) -> tuple[Edit, ...]:
    """The edits of a statement as far as they fit the tables there are.

    A table that was there before the sync is known from its rows, and those do not have virtual columns, nor such as
    the producer leaves out. A clause about one of them changes nothing here.
    ``again``: the statement may have been executed before, because replays cannot be told from news.
    """
    made = list(edits)
    if again:
        leaving = {edit.old.folded for edit in edits if isinstance(edit, RenameTable)}
        made = [
            # The table that has the name already is the one that was renamed; what has the old one are rows replayed.
            DropTable(edit.old)
            if isinstance(edit, RenameTable) and edit.new.folded in catalogue.tables.keys() - leaving
            else edit
            for edit in edits
        ]
    return tuple(_fitting(edit, catalogue, again) if isinstance(edit, AlterTable) else edit for edit in made)


def _fitting(edit: AlterTable, catalogue: Catalogue, again: bool) -> AlterTable:
    table = catalogue.find(edit.name)
    return edit if table is None else replace(edit, changes=tuple(_left(table, edit.changes, again)))


def _left(table: TableSchema, changes: Sequence[ColumnEdit], again: bool) -> Iterator[ColumnEdit]:
    """The changes that concern the columns of a table, in a form that fits them."""
    known = {column.name.lower() for column in table.columns}
    made = {name for change in changes if _old(change) <= known for name in _new(change)}
    wanted = [change for change in changes if _old(change) <= known | made]
    staying = known - {name for change in wanted for name in _old(change)} if again else set()
    names = known | {name for change in wanted for name in _new(change)}
    for change in wanted:
        done = _new(change) & staying
        if done and isinstance(change, ChangeColumn | RenameColumn):
            yield DropColumn(change.name)
        elif not done and not _is_out_of_sight(change, names):
            yield _placed(change, names)


def _old(change: ColumnEdit) -> set[str]:
    """The name, before the statement, of the column that a change is about; none where the column is new."""
    about = DropColumn | ChangeColumn | RenameColumn | SetDefault
    return {change.name.lower()} if isinstance(change, about) else set()


def _new(change: ColumnEdit) -> set[str]:
    """The name a column has after a change that makes or renames it."""
    match change:
        case AddColumn(column) | ChangeColumn(_, column):
            return {column.name.lower()}
        case RenameColumn(_, new):
            return {new.lower()}
        case _:
            return set()


def _is_out_of_sight(change: ColumnEdit, names: Iterable[str]) -> bool:
    """Is it an index over a column nobody told of? No row is known by that; a primary key is another matter."""
    if not isinstance(change, AddIndex) or change.index.primary:
        return False
    return not {column.lower() for column in change.index.columns} <= {*names}


def _placed(change: ColumnEdit, names: Iterable[str]) -> ColumnEdit:
    """A change without a place behind a column nobody told of."""
    if not isinstance(change, AddColumn | ChangeColumn) or change.place.after is None:
        return change
    return change if change.place.after.lower() in names else replace(change, place=Place())
