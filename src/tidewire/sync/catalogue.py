"""The tables at one moment of the upstream's history, and what DDL and rows of another shape make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidewire.ddl.column_steps import ColumnStep, GoneColumn, NewColumn, TypedColumn
from tidewire.ddl.edits import (
    AddColumn,
    AddIndex,
    AlterTable,
    ChangeColumn,
    ColumnEdit,
    ColumnPosition,
    CreateDatabase,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    Edit,
    Impossible,
    RenameColumn,
    RenameTable,
    SetDefault,
    TruncateTable,
)
from tidewire.ddl.shape import altered, column_steps
from tidewire.errors import DdlMismatch
from tidewire.model import Column, Generated, TableName, TableSchema
from tidewire.sync.beginnings import Beginning, Origin, loads
from tidewire.sync.steps import Alter, Create, Drop, Rename, Step, Truncate


@dataclass(frozen=True, slots=True)
class Statement:
    """One DDL as it is to be executed. ``after`` is the table after it, if the protocol sends it."""

    edits: tuple[Edit, ...]
    ts: int
    now: str | None = None
    after: TableSchema | None = None

    def has_schema(self, name: TableName) -> bool:
        """Did the protocol send the schema of this table?"""
        return self.after is not None and self.after.name.folded == name.folded

    def sent_schema(self, read: TableSchema) -> TableSchema:
        """The table as the protocol sent it.

        Protocols do not send which columns are generated, and the classic server sends columns in the order of their
        creation. Both are taken from the statement.
        """
        assert self.after is not None
        places = {column.name.lower(): place for place, column in enumerate(read.columns)}
        columns = [
            replace(column, generated=column.generated or read.columns[places[name]].generated)
            if (name := column.name.lower()) in places
            else column
            for column in self.after.columns
        ]
        if all(column.name.lower() in places for column in columns):
            columns.sort(key=lambda column: places[column.name.lower()])
        return replace(self.after, columns=tuple(columns))


class Catalogue:
    """Tables by folded name. Executing a statement changes it and gives the steps a target has to take.

    ``removed`` are names that statements have taken away, each with the ts, whether their tables were known or not.
    ``beginnings`` say from when on tables are known.
    """

    def __init__(
        self,
        tables: Iterable[TableSchema],
        last_ddl_ts: Mapping[TableName, int],
        beginnings: Mapping[TableName, Beginning] = {},
    ) -> None:
        self.tables = {table.name.folded: table for table in tables}
        self.last_ddl_ts = dict(last_ddl_ts)
        self.beginnings = dict(beginnings)
        self.removed: dict[TableName, int] = {}
        self.notes: list[str] = []

    def saved(self, names: Iterable[TableName]) -> Callable[[], None]:
        """Remember some tables by folded name; calling the result takes all changes of them back."""
        names, count = list(names), len(self.notes)
        tables = {name: self.tables[name] for name in names if name in self.tables}
        times = {name: self.last_ddl_ts[name] for name in names if name in self.last_ddl_ts}
        removed, beginnings = dict(self.removed), dict(self.beginnings)

        def restore() -> None:
            self.removed, self.beginnings = removed, beginnings
            for name in names:
                self.tables.pop(name, None)
                self.last_ddl_ts.pop(name, None)
            self.tables |= tables
            self.last_ddl_ts |= times
            del self.notes[count:]

        return restore

    def find(self, name: TableName) -> TableSchema | None:
        """The table of that name, in any spelling."""
        return self.tables.get(name.folded)

    def touched(self, edit: Edit) -> frozenset[TableName]:
        """The folded names whose rows have to be in place before an edit."""
        return _TOUCHED[type(edit)](self, edit)

    def without(self, edits: Iterable[Edit], name: TableName | None) -> tuple[Edit, ...]:
        """Edits without those of a table; of all tables if ``name`` is ``None``."""
        if name is None:
            return ()
        left: list[Edit] = []
        for edit in edits:
            if isinstance(edit, DropDatabase):
                left += [DropTable(each) for each in sorted(self.in_database(edit.schema)) if each != name.folded]
            elif name.folded != _subject(edit):
                left.append(edit)
        return tuple(left)

    def after_loads(self, edits: Iterable[Edit], ts: int) -> tuple[Edit, ...]:
        """Edits at a ts without those of tables that were loaded as of that ts or later: the load has them.

        A table that was renamed before another one's load is in it, under the new name.
        """
        loaded = {name for name, moment in loads(self.beginnings).items() if ts <= moment}
        if not loaded:
            return tuple(edits)
        left: list[Edit] = []
        for edit in edits:
            if isinstance(edit, RenameTable) and {edit.old.folded, edit.new.folded} & loaded:
                left += [] if edit.old.folded in loaded else [DropTable(edit.old)]
            elif not (isinstance(edit, Impossible) and edit.name is None and self.tables.keys() <= loaded):
                left.append(edit)
        found = tuple(left)
        for name in loaded:
            found = self.without(found, name)
        return found

    def objection(self, edit: Edit) -> str | None:
        """Why the tables cannot be followed past an edit, if they cannot."""
        if isinstance(edit, Impossible):
            return edit.reason
        if isinstance(edit, AlterTable) and (table := self.find(edit.name)) is not None:
            try:
                column_steps(table, edit.changes)
            except DdlMismatch as error:
                return str(error)
        return None

    def collides(self, edits: Iterable[Edit]) -> bool:
        """Would renames put a table where another one is?"""
        return bool(self._taken([edit for edit in edits if isinstance(edit, RenameTable)]))

    def _taken(self, renames: Sequence[RenameTable]) -> list[RenameTable]:
        """The renames to a name that another table has and keeps."""
        leaving = {rename.old.folded for rename in renames}
        return [rename for rename in renames if rename.new.folded in self.tables and rename.new.folded not in leaving]

    def execute(self, statements: Sequence[Statement]) -> list[Step]:
        """The steps of statements that happen at one moment; renames among them happen at once."""
        steps: list[Step] = []
        moves: list[RenameTable] = []
        for statement in statements:
            for edit in statement.edits:
                if isinstance(edit, RenameTable):
                    if edit not in moves:
                        moves.append(edit)
                    continue
                steps += self._move(moves, statement.ts)
                moves = []
                steps += _EXECUTE[type(edit)](self, edit, statement)
        return steps + (self._move(moves, statements[-1].ts) if statements else [])

    def _create(self, edit: CreateTable, statement: Statement) -> list[Step]:
        if (found := self.find(edit.table.name)) is not None:
            self.notes.append(f"{found.name} exists already; its CREATE TABLE at {statement.ts} is skipped")
            return []
        table = edit.table
        self.beginnings[table.name.folded] = Beginning(statement.ts, Origin.CREATE)
        if statement.has_schema(table.name):
            table = statement.sent_schema(table)
        elif edit.like is not None:
            if (pattern := self.find(edit.like)) is None:
                self.notes.append(f"{table.name} is like {edit.like}, which is not known; its rows will tell its shape")
                return []
            table = replace(pattern, name=table.name, table_id=table.table_id, version=table.version)
        self.tables[table.name.folded] = table
        self._mark(table.name, statement.ts)
        return [Create(stored(table), statement.ts)]

    def _drop(self, edit: DropTable, statement: Statement) -> list[Step]:
        return self._remove(edit.name, statement.ts)

    def _drop_database(self, edit: DropDatabase, statement: Statement) -> list[Step]:
        names = sorted(self.in_database(edit.schema))
        return [step for name in names for step in self._remove(name, statement.ts)]

    def _remove(self, name: TableName, ts: int) -> list[Step]:
        self._mark(name, ts)
        self.removed[name.folded] = ts
        self.beginnings.pop(name.folded, None)
        table = self.tables.pop(name.folded, None)
        return [] if table is None else [Drop(table.name, ts)]

    def _truncate(self, edit: TruncateTable, statement: Statement) -> list[Step]:
        self._mark(edit.name, statement.ts)
        self.beginnings[edit.name.folded] = Beginning(statement.ts, Origin.TRUNCATE)
        table = self.find(edit.name)
        return [] if table is None else [Truncate(stored(table), statement.ts)]

    def _alter(self, edit: AlterTable, statement: Statement) -> list[Step]:
        before = self.find(edit.name)
        if before is None:
            self.notes.append(f"{edit.name} has no rows here yet; its ALTER TABLE at {statement.ts} changes nothing")
            return []
        self._mark(edit.name, statement.ts)
        try:
            after = altered(before, edit.changes)
            columns = column_steps(before, edit.changes, now=statement.now)
        except DdlMismatch as error:
            self.notes.append(f"{error}; the ALTER TABLE at {statement.ts} is skipped")
            return []
        if statement.has_schema(edit.name):
            after = statement.sent_schema(after)
        self.tables[edit.name.folded] = after
        changed = columns or after.handle_key != before.handle_key
        return [Alter(stored(before), stored(after), columns, statement.ts)] if changed else []

    def _move(self, renames: Sequence[RenameTable], ts: int) -> list[Step]:
        moving = [(found, rename) for rename in renames if (found := self.tables.get(rename.old.folded)) is not None]
        for rename in renames:
            for name in (rename.old, rename.new):
                self._mark(name, ts)
        self.removed |= {rename.old.folded: ts for rename in renames}
        for rename in renames:
            self.removed.pop(rename.new.folded, None)
        steps: list[Step] = []
        for rename in self._taken([rename for _, rename in moving]):
            self.notes.append(f"{rename.new} makes way for {rename.old}, renamed at {ts}")
            steps += self._remove(rename.new, ts)
        moved = [(rename.new.folded, self.beginnings.pop(rename.old.folded, None)) for rename in renames]
        self.beginnings |= {name: beginning for name, beginning in moved if beginning is not None}
        for _, rename in moving:
            self.tables.pop(rename.old.folded, None)
        for table, rename in moving:
            self.tables[rename.new.folded] = replace(table, name=rename.new)
        moves = tuple((table.name, rename.new) for table, rename in moving)
        return [*steps, Rename(moves, ts)] if moves else steps

    def _mark(self, name: TableName, ts: int) -> None:
        self.last_ddl_ts[name.folded] = max(self.last_ddl_ts.get(name.folded, -1), ts)

    def in_database(self, schema: str) -> frozenset[TableName]:
        """The tables of a database."""
        return frozenset(name for name in self.tables if name.schema == schema.lower())


def stored(table: TableSchema) -> TableSchema:
    """The table without virtual columns, which are in no row."""
    kept = tuple(column for column in table.columns if column.generated is not Generated.VIRTUAL)
    return table if len(kept) == len(table.columns) else replace(table, columns=kept)


def _subject(edit: Edit) -> TableName | None:
    """The folded name, before an edit, of the table it is about."""
    match edit:
        case CreateTable(table):
            return table.name.folded
        case RenameTable(old):
            return old.folded
        case AlterTable(name) | DropTable(name) | TruncateTable(name) | Impossible(TableName() as name):
            return name.folded
        case _:
            return None


_TOUCHED: Mapping[type, Callable[[Catalogue, Any], frozenset[TableName]]] = {
    CreateDatabase: lambda catalogue, edit: frozenset(),
    DropDatabase: lambda catalogue, edit: catalogue.in_database(edit.schema),
    CreateTable: lambda catalogue, edit: frozenset(
        name.folded for name in (edit.table.name, edit.like) if name is not None
    ),
    DropTable: lambda catalogue, edit: frozenset({edit.name.folded}),
    TruncateTable: lambda catalogue, edit: frozenset({edit.name.folded}),
    RenameTable: lambda catalogue, edit: frozenset({edit.old.folded, edit.new.folded}),
    AlterTable: lambda catalogue, edit: frozenset({edit.name.folded}),
    Impossible: lambda catalogue, edit: (
        frozenset(catalogue.tables) if edit.name is None else frozenset({edit.name.folded})
    ),
}

_EXECUTE: Mapping[type, Callable[[Catalogue, Any, Statement], list[Step]]] = {
    CreateDatabase: lambda catalogue, edit, statement: [],
    DropDatabase: Catalogue._drop_database,
    CreateTable: Catalogue._create,
    DropTable: Catalogue._drop,
    TruncateTable: Catalogue._truncate,
    AlterTable: Catalogue._alter,
    Impossible: lambda catalogue, edit, statement: [],
}


def conformed(catalogue: Catalogue, name: TableName, shape: TableSchema, ts: int, *, follow: bool) -> list[Step]:
    """The steps that give a table room for rows of a shape.

    ``follow``: rows are all there is to tell how the table changes, so a column that the shape lacks is gone, and one
    with another type has that type. The key is the shape's, too.
    """
    shape = stored(shape)
    table = catalogue.tables.get(name)
    if table is None:
        catalogue.tables[name] = shape
        return [Create(shape, ts)]
    columns, after = column_changes(table, shape, follow=follow)
    if not columns and after.handle_key == table.handle_key:
        return []
    catalogue.tables[name] = after
    return [Alter(stored(table), stored(after), columns, ts)]


def column_changes(
    table: TableSchema, shape: TableSchema, *, follow: bool
) -> tuple[tuple[ColumnStep, ...], TableSchema]:
    """What a shape changes of a table's columns, and the table afterwards."""
    known = {column.name.lower(): column for column in table.columns}
    told = {column.name.lower(): column for column in shape.columns}
    steps: list[ColumnStep] = []
    columns: list[Column] = []
    for column in table.columns:
        now = told.get(column.name.lower())
        if follow and now is None:
            steps.append(GoneColumn(column.name))
            continue
        if follow and now is not None and now.mysql_type != column.mysql_type:
            steps.append(TypedColumn(column, replace(now, name=column.name)))
            column = replace(now, name=column.name)
        if follow and now is not None:
            column = replace(column, handle_key=now.handle_key, primary_key=now.primary_key)
        columns.append(column)
    names = [column.name.lower() for column in columns]
    for number, column in enumerate(shape.columns):
        if column.name.lower() in known:
            continue
        before = shape.columns[number - 1].name if number else None
        at = 0 if before is None else names.index(before.lower()) + 1 if before.lower() in names else len(names)
        place = (
            ColumnPosition(first=True)
            if at == 0
            else ColumnPosition()
            if at == len(names)
            else ColumnPosition(after=columns[at - 1].name)
        )
        steps.append(NewColumn(column, place, column.default))
        columns.insert(at, column)
        names.insert(at, column.name.lower())
    return tuple(steps), replace(table, columns=tuple(columns))


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
    """Is it an index over an unknown column? Such an index never identifies rows; a primary key does."""
    if not isinstance(change, AddIndex) or change.index.primary:
        return False
    return not {column.lower() for column in change.index.columns} <= {*names}


def _placed(change: ColumnEdit, names: Iterable[str]) -> ColumnEdit:
    """A change without a place behind an unknown column."""
    if not isinstance(change, AddColumn | ChangeColumn) or change.place.after is None:
        return change
    return change if change.place.after.lower() in names else replace(change, place=ColumnPosition())
