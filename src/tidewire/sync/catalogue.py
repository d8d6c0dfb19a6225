"""The tables at one moment of the upstream's history, and what a DDL makes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tidewire.ddl.edits import (
    AlterTable,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    Edit,
    Impossible,
    RenameTable,
    TruncateTable,
)
from tidewire.ddl.shape import altered, column_steps
from tidewire.errors import DdlMismatch
from tidewire.model import Generated, TableName, TableSchema
from tidewire.sync.steps import Alter, Create, Drop, Rename, Step, Truncate


@dataclass(frozen=True, slots=True)
class Statement:
    """One DDL as it is to be executed. ``after`` is the table it leaves, where the protocol tells it."""

    edits: tuple[Edit, ...]
    ts: int
    now: str | None = None
    after: TableSchema | None = None

    def tells(self, name: TableName) -> bool:
        """Did the protocol tell the shape of this table?"""
        return self.after is not None and self.after.name.folded == name.folded

    def told(self, read: TableSchema) -> TableSchema:
        """The table as the protocol told it.

        It does not tell which columns are generated, and the classic server tells columns in the order they were made.
        The statement knows better.
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
    """Tables by folded name. Executing a statement changes it and gives the steps a target has to take."""

    def __init__(self, tables: Iterable[TableSchema], marks: Mapping[TableName, int]) -> None:
        self.tables = {table.name.folded: table for table in tables}
        self.marks = dict(marks)
        self.notes: list[str] = []

    def find(self, name: TableName) -> TableSchema | None:
        """The table of that name, in any spelling."""
        return self.tables.get(name.folded)

    def touched(self, edit: Edit) -> frozenset[TableName]:
        """The folded names whose rows have to be in place before an edit."""
        return _TOUCHED[type(edit)](self, edit)

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
            self.notes.append(f"{found.name} is there already; its CREATE TABLE at {statement.ts} is passed over")
            return []
        table = edit.table
        if statement.tells(table.name):
            table = statement.told(table)
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
        table = self.tables.pop(name.folded, None)
        return [] if table is None else [Drop(table.name, ts)]

    def _truncate(self, edit: TruncateTable, statement: Statement) -> list[Step]:
        self._mark(edit.name, statement.ts)
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
            self.notes.append(f"{error}; the ALTER TABLE at {statement.ts} is passed over")
            return []
        if statement.tells(edit.name):
            after = statement.told(after)
        self.tables[edit.name.folded] = after
        changed = columns or after.handle_key != before.handle_key
        return [Alter(stored(before), stored(after), columns, statement.ts)] if changed else []

    def _move(self, renames: Sequence[RenameTable], ts: int) -> list[Step]:
        moving = [(found, rename) for rename in renames if (found := self.tables.get(rename.old.folded)) is not None]
        for rename in renames:
            for name in (rename.old, rename.new):
                self._mark(name, ts)
        steps: list[Step] = []
        for rename in self._taken([rename for _, rename in moving]):
            self.notes.append(f"{rename.new} makes way for {rename.old}, renamed at {ts}")
            steps += self._remove(rename.new, ts)
        for _, rename in moving:
            self.tables.pop(rename.old.folded, None)
        for table, rename in moving:
            self.tables[rename.new.folded] = replace(table, name=rename.new)
        moves = tuple((table.name, rename.new) for table, rename in moving)
        return [*steps, Rename(moves, ts)] if moves else steps

    def _mark(self, name: TableName, ts: int) -> None:
        self.marks[name.folded] = max(self.marks.get(name.folded, -1), ts)

    def in_database(self, schema: str) -> frozenset[TableName]:
        """The tables of a database."""
        return frozenset(name for name in self.tables if name.schema == schema.lower())


def stored(table: TableSchema) -> TableSchema:
    """The table without virtual columns, which are in no row."""
    kept = tuple(column for column in table.columns if column.generated is not Generated.VIRTUAL)
    return table if len(kept) == len(table.columns) else replace(table, columns=kept)


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
