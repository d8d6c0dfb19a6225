"""A table under work: what the changes of one statement make of its columns and indexes.

As in MySQL, the names in a statement are those before it: ``CHANGE a b ..., CHANGE b a ...`` swaps. A column the
statement itself made is found by its new name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import assert_never

from tidewire.ddl.defaults import default_collation, kept_default, settled
from tidewire.ddl.edits import (
    AddColumn,
    AddIndex,
    ChangeColumn,
    ColumnEdit,
    ColumnPosition,
    ConvertText,
    DropColumn,
    DropIndex,
    RenameColumn,
    RenameIndex,
    SetDefault,
)
from tidewire.errors import DdlMismatch
from tidewire.model import Column, Generated, Index, TableSchema
from tidewire.model.table import choose_handle_key, column_flags
from tidewire.model.types import TEXTUAL

PRIMARY = "PRIMARY"


@dataclass(eq=False, slots=True)
class Entry:
    """A column under work; ``before`` is what it was, ``moved`` that the statement gave it a place."""

    column: Column
    before: Column | None = None
    moved: bool = False

    @property
    def is_virtual(self) -> bool:
        """Is it in no row?"""
        return self.column.generated is Generated.VIRTUAL


@dataclass(eq=False, slots=True)
class IndexEntry:
    """An index under work, by its columns themselves, so that it follows their names.

    ``implied``: the table's list does not have it; it is the primary key that the marks of the columns tell of.
    ``renamed``: the statement gave it its name.
    """

    index: Index
    parts: list[Entry]
    implied: bool = False
    renamed: bool = False


def _same(one: str, other: str) -> bool:
    """TiDB compares names without regard to case."""
    return one.lower() == other.lower()


_PHASES: tuple[type[ColumnEdit] | tuple[type[ColumnEdit], ...], ...] = (
    (AddColumn, DropColumn, ChangeColumn, RenameColumn, SetDefault, ConvertText),
    DropIndex,
    RenameIndex,
    AddIndex,
)


@dataclass(slots=True)
class TableBuilder:
    """A table under work."""

    source: TableSchema
    original: tuple[Entry, ...] = field(init=False)
    entries: list[Entry] = field(init=False)
    gone: list[Entry] = field(init=False, default_factory=list)
    indexes: list[IndexEntry] = field(init=False)
    places: list[tuple[Entry, ColumnPosition]] = field(init=False, default_factory=list)
    index_names: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.original = tuple(Entry(column, column) for column in self.source.columns)
        self.entries = list(self.original)
        # An index over a column the table does not show, as TiDB has behind an expression, can tell nothing.
        shown = {column.name for column in self.source.columns}
        self.indexes = [self._known(index) for index in self.source.indexes if shown.issuperset(index.columns)]
        if self.source.primary_key and not any(index.primary for index in self.source.indexes):
            marked = Index(PRIMARY, self.source.primary_key, unique=True, primary=True)
            self.indexes.insert(0, self._known(marked, implied=True))

    def _known(self, index: Index, implied: bool = False) -> IndexEntry:
        return IndexEntry(index, [self._current(name) for name in index.columns], implied)

    def changed(self, changes: Sequence[ColumnEdit]) -> TableBuilder:
        """Columns first, then indexes, those that go before those that come: an order MySQL keeps, too.

        A place behind a column is said in its new name, whichever comes first, and an index without a name gets one
        that no other index of the statement has.
        """
        added = [change for change in changes if isinstance(change, AddIndex) and not change.if_not_exists]
        self.index_names = {change.index.name.lower() for change in added}
        for phase in _PHASES:
            for change in changes:
                if isinstance(change, phase):
                    self._change(change)
            self._follow()
        for entry, place in self.places:
            self._put(entry, place)
        return self

    def _change(self, change: ColumnEdit) -> None:
        match change:
            case AddColumn():
                self._add(change)
            case DropColumn() | ChangeColumn() | RenameColumn() if change.if_exists and self._lacks(change.name):
                pass
            case DropColumn():
                self._drop(self._find(change.name))
            case ChangeColumn():
                self._redefine(self._find(change.name), change)
            case RenameColumn():
                entry = self._find(change.name)
                entry.column = replace(entry.column, name=change.new)
            case SetDefault():
                entry = self._find(change.name)
                entry.column = replace(entry.column, default=kept_default(entry.column, change.default))
            case ConvertText():
                self._convert(change)
            case AddIndex():
                self._add_index(change)
            case DropIndex():
                self.indexes = [entry for entry in self.indexes if not _same(entry.index.name, change.name)]
            case RenameIndex():
                for index in self.indexes:
                    if _same(index.index.name, change.name) and not index.renamed:
                        index.index, index.renamed = replace(index.index, name=change.new), True
            case _:
                assert_never(change)

    def _current(self, name: str) -> Entry:
        """The column that has this name now."""
        for entry in self.entries:
            if _same(entry.column.name, name):
                return entry
        raise DdlMismatch(str(self.source.name), f"there is no column {name!r}")

    def _find(self, name: str) -> Entry:
        """The column that had this name before the statement, or else the one that has it now."""
        for entry in self.entries:
            if entry.before and _same(entry.before.name, name):
                return entry
        return self._current(name)

    def _lacks(self, name: str) -> bool:
        return not any(
            _same(column.name, name) for entry in self.entries for column in (entry.before, entry.column) if column
        )

    def _put(self, entry: Entry, place: ColumnPosition) -> None:
        """Move a column to its place, if the statement has left it one."""
        if entry not in self.entries:
            return
        behind = None if place.after is None else self._current(place.after)
        if behind is not entry:
            self.entries.remove(entry)
            self.entries.insert(0 if behind is None else self.entries.index(behind) + 1, entry)

    def _settled(self, column: Column, before: Column | None = None) -> Column:
        """A column with its charset: where the statement names none, that of the text the table holds."""
        texts = [before] if before else [entry.column for entry in self.entries]
        for known in texts:
            if known.type in TEXTUAL and known.charset not in (None, "binary"):
                return settled(column, known.charset or "", known.collation)
        return settled(column, "utf8mb4")

    def _add(self, change: AddColumn) -> None:
        if change.if_not_exists and not self._lacks(change.column.name):
            return
        entry = Entry(self._settled(change.column))
        self.entries.append(entry)
        if change.place != ColumnPosition():
            self.places.append((entry, change.place))

    def _drop(self, entry: Entry) -> None:
        self.entries.remove(entry)
        if entry.before:
            self.gone.append(entry)

    def _follow(self) -> None:
        """Take out of indexes what went; in MySQL a new column of the same name takes its place."""
        came = {entry.column.name.lower(): entry for entry in self.entries if entry.before is None}
        for index in self.indexes:
            parts = [part if part in self.entries else came.get(part.column.name.lower()) for part in index.parts]
            index.parts = [part for part in parts if part]
        self.indexes = [index for index in self.indexes if index.parts]

    def _redefine(self, entry: Entry, change: ChangeColumn) -> None:
        before = entry.column
        entry.column = replace(self._settled(change.column, before), id=before.id)
        if before.generated is Generated.VIRTUAL and not entry.is_virtual:
            raise DdlMismatch(str(self.source.name), f"the values {change.name!r} gets are in no message")
        if change.place != ColumnPosition():
            self.places.append((entry, change.place))
            entry.moved = True

    def _convert(self, change: ConvertText) -> None:
        collation = change.collation or default_collation(change.charset)
        for entry in self.entries:
            column = entry.column
            if column.type in TEXTUAL and column.charset != "binary":
                column = replace(column, charset=change.charset, collation=collation)
                entry.column = replace(column, default=kept_default(column, column.default))

    def _add_index(self, change: AddIndex) -> None:
        index = change.index
        parts = [self._current(name) for name in index.columns]
        names = {entry.index.name.lower() for entry in self.indexes}
        if not index.name:
            taken = names | self.index_names | {PRIMARY.lower()}
            index = replace(index, name=_free_name(parts[0].column.name, taken))
        if index.name.lower() in names:
            if change.if_not_exists:
                return
            self.indexes = [entry for entry in self.indexes if not _same(entry.index.name, index.name)]
        self.indexes.append(IndexEntry(index, parts))
        if index.primary:
            for part in parts:
                part.column = replace(part.column, nullable=False)

    def table(self) -> TableSchema:
        """The table as it is now."""
        names = [entry.column.name.lower() for entry in self.entries]
        for name in names:
            if names.count(name) > 1:
                raise DdlMismatch(str(self.source.name), f"there are two columns {name!r}")
        primary = next((entry.parts for entry in self.indexes if entry.index.primary), [])
        for entry in self.entries:
            if entry in primary:
                entry.column = replace(entry.column, primary_key=True, nullable=False)
            else:
                entry.column = replace(entry.column, primary_key=False)
        columns = [entry.column for entry in self.entries]
        indexes = [_finished(entry) for entry in self.indexes if not entry.implied]
        key = self._key(columns, indexes)
        columns = [replace(column, handle_key=column.name in key) for column in columns]
        return replace(
            self.source,
            columns=tuple(replace(column, flags=column_flags(column, indexes)) for column in columns),
            indexes=tuple(indexes),
            pk_is_handle=self.source.pk_is_handle and any(entry.implied for entry in self.indexes),
        )

    def _key(self, columns: Sequence[Column], indexes: Sequence[Index]) -> tuple[str, ...]:
        """The handle key. A key without a known index, known from flags of its columns, stays as long as they do."""
        virtual = {column.name for column in columns if column.generated is Generated.VIRTUAL}
        key = choose_handle_key(columns, [index for index in indexes if virtual.isdisjoint(index.columns)])
        if key or choose_handle_key(self.source.columns, self.source.indexes):
            return key
        kept = tuple(entry.column.name for entry in self.entries if entry.before and entry.before.handle_key)
        return kept if len(kept) == len(self.source.handle_key) else ()


def _finished(entry: IndexEntry) -> Index:
    columns = [part.column for part in entry.parts]
    nullable = any(column.nullable is not False for column in columns)
    return replace(entry.index, columns=tuple(column.name for column in columns), nullable=nullable)


def _free_name(first: str, taken: set[str]) -> str:
    """MySQL's name for an index without one: its first column's, numbered from 2 where that is taken."""
    names = chain([first], (f"{first}_{number}" for number in count(2)))
    return next(name for name in names if name.lower() not in taken)
