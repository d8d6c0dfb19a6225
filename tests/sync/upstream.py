"""A model of TiDB: tables, random transactions and statements, and what was true at every moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import NamedTuple

from sync.reduce import Key
from tidewire.ddl.edits import (
    AddColumn,
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
    RenameColumn,
    RenameTable,
    TruncateTable,
)
from tidewire.model import Column, Ddl, Row, TableName, TableSchema, Value

DATABASES = ("d1", "d2")
TABLES = ("t1", "t2", "t3", "t4")
COLUMNS = tuple(f"c{number}" for number in range(1, 13))
STEP = 10


class RowEvent(NamedTuple):
    """A row change as the changefeed sends it. Rows are in order within one ``physical`` part of a table."""

    ts: int
    table: TableSchema
    before: Row | None
    after: Row | None
    physical: int


class DdlEvent(NamedTuple):
    """A statement, or one table's part of it. ``home`` is the name whose topic gets it, ``None`` the default one."""

    ts: int
    ddl: Ddl
    edits: tuple[Edit, ...]
    touches: frozenset[TableName]
    home: TableName | None


class Told(NamedTuple):
    """A table at a moment. ``told`` is false while no message can have mentioned its columns."""

    columns: tuple[str, ...]
    rows: dict[Key, dict[str, Value]]
    told: bool
    schema: TableSchema


Picture = dict[TableName, Told]


@dataclass(slots=True)
class Entry:
    """What happened at one ts: a transaction, a statement, or a transaction and then a statement.

    ``pictures`` are the tables after the transaction, and after each part of the statement.
    """

    ts: int
    rows: list[RowEvent] = field(default_factory=list)
    ddls: list[DdlEvent] = field(default_factory=list)
    pictures: list[Picture] = field(default_factory=list)


@dataclass(slots=True)
class Table:
    """A table of the model, as of now."""

    schema: TableSchema
    rows: dict[Key, dict[str, Value]] = field(default_factory=dict)
    told: bool = True


@cache
def column(name: str, mysql_type: str, key: bool = False, default: str | None = None) -> Column:
    """A column, made once."""
    return replace(Column.of(name, mysql_type, primary_key=key), default=default)


@dataclass(frozen=True, slots=True)
class Habits:
    """What a history's upstream does, beyond the plain things."""

    simple: bool = False
    split: bool = True
    swaps: bool = True
    partial_old: bool = False
    key_only_deletes: bool = False
    partitioned: bool = False
    hidden_row_id: bool = True


class Upstream:
    """Random transactions and statements, in order of time."""

    def __init__(self, random: Random, habits: Habits) -> None:
        self.random = random
        self.habits = habits
        self.tables: dict[TableName, Table] = {}
        self.entries: list[Entry] = []
        self.picture: Picture = {}
        self.ts = STEP
        for _ in range(random.randint(0, 2)):
            name = self._free_name()
            self.tables[name] = Table(self._new_schema(name, 1), told=False)
        self._look(*self.tables)
        self.start = self.picture

    def live(self, length: int) -> None:
        """Let things happen."""
        random = self.random
        while len(self.entries) < length:
            self.ts += STEP
            entry = Entry(self.ts)
            if self.tables and random.random() < 0.75:
                self._transaction(entry)
                self._picture(entry)
                if random.random() < 0.12:
                    self._statement(entry)
            else:
                self._picture(entry)
                self._statement(entry)
            self.entries.append(entry)

    def _look(self, *names: TableName) -> None:
        """Take note of tables that changed; the others keep the picture they had."""
        self.picture = dict(self.picture)
        for name in names:
            table = self.tables.get(name)
            if table is None:
                self.picture.pop(name, None)
            else:
                columns = tuple([each.name for each in table.schema.columns])
                self.picture[name] = Told(columns, dict(table.rows), table.told, table.schema)

    def _picture(self, entry: Entry, *names: TableName) -> None:
        self._look(*names, *{row.table.name for row in entry.rows if not names})
        entry.pictures.append(self.picture)

    # Transactions

    def _transaction(self, entry: Entry) -> None:
        random, used = self.random, set[tuple[TableName, Key]]()
        for _ in range(random.choice((1, 1, 2, 3))):
            name = random.choice(list(self.tables))
            table = self.tables[name]
            key = self._key(table.schema)
            if (name, key) not in used:
                used.add((name, key))
                self._touch(entry, table, key, used)

    def _touch(self, entry: Entry, table: Table, key: Key, used: set[tuple[TableName, Key]]) -> None:
        random, name, rows = self.random, table.schema.name, table.rows
        old = rows.get(key)
        if old is None:
            self._put(entry, table, None, self._row(table.schema, key))
            return
        chance = random.random()
        if chance < 0.2:
            self._put(entry, table, old, None)
        elif chance < 0.3 and self.habits.hidden_row_id:
            self._put(entry, table, old, None)
            self._put(entry, table, None, self._row(table.schema, key))
        elif chance < 0.55:
            other = self._key(table.schema)
            if (name, other) in used:
                return
            used.add((name, other))
            self._move(entry, table, key, other)
        else:
            self._put(entry, table, old, self._row(table.schema, key, old))

    def _move(self, entry: Entry, table: Table, key: Key, other: Key) -> None:
        """Give a row another key, or swap the keys of two rows."""
        names = table.schema.handle_key
        one, two = table.rows[key], table.rows.get(other)
        pairs = [(one, {**one, **dict(zip(names, other, strict=True))})]
        if two is not None:
            pairs.append((two, {**two, **dict(zip(names, key, strict=True))}))
        if self.habits.split:
            for old, _ in pairs:
                self._put(entry, table, old, None)
            for _, new in pairs:
                self._put(entry, table, None, new)
            return
        for old, new in pairs:
            self._tell(entry, table, old, new)
        for old, _ in pairs:
            del table.rows[self._key_of(table, old)]
        for _, new in pairs:
            table.rows[self._key_of(table, new)] = new

    def _put(self, entry: Entry, table: Table, old: dict[str, Value] | None, new: dict[str, Value] | None) -> None:
        self._tell(entry, table, old, new)
        if old is not None:
            del table.rows[self._key_of(table, old)]
        if new is not None:
            table.rows[self._key_of(table, new)] = new

    def _tell(self, entry: Entry, table: Table, old: dict[str, Value] | None, new: dict[str, Value] | None) -> None:
        table.told = True
        key, schema = table.schema.handle_key, table.schema
        before: Row | None = old
        if old is not None and new is not None and self.habits.partial_old:
            before = {name: value for name, value in old.items() if value != new[name]}
        if old is not None and new is None and self.habits.key_only_deletes:
            before = {name: old[name] for name in key}
            if not self.habits.simple:  # Without a schema of its own a message tells the columns it has.
                schema = replace(schema, columns=tuple(each for each in schema.columns if each.handle_key))
        number = (new or old or {})[key[0]]
        physical = number % 2 if self.habits.partitioned and isinstance(number, int) else 0
        entry.rows.append(RowEvent(entry.ts, schema, before, new, physical))

    def _key(self, schema: TableSchema) -> Key:
        return tuple([self.random.randint(1, 4) for _ in schema.handle_key])

    def _key_of(self, table: Table, row: dict[str, Value]) -> Key:
        return tuple([row[name] for name in table.schema.handle_key])

    def _row(self, schema: TableSchema, key: Key, old: Row | None = None) -> dict[str, Value]:
        """A row with random values; some of an old one's stay."""
        random, keys = self.random, iter(key)
        row: dict[str, Value] = {}
        for each in schema.columns:
            if each.handle_key:
                row[each.name] = next(keys)
            elif old is not None and random.random() < 0.5:
                row[each.name] = old[each.name]
            elif random.random() < 0.15:
                row[each.name] = None
            else:
                number = random.randint(0, 99)
                row[each.name] = f"s{number}" if each.length is not None else number
        return row

    # Statements

    def _statement(self, entry: Entry) -> None:
        kinds: list[Callable[[Entry], None]] = [self._create, self._create]
        if self.tables:
            kinds += [self._truncate, self._truncate, self._rename, self._rename, self._drop, self._like]
            kinds += [self._alter] * 4 + [self._database]
        self.random.choice(kinds)(entry)

    def _say(
        self,
        entry: Entry,
        query: str,
        edits: Iterable[Edit],
        table: TableName,
        *,
        old: TableName | None = None,
        home: TableName | None = None,
        touches: Iterable[TableName] = (),
        before: TableSchema | None = None,
    ) -> None:
        """Put a statement, which has happened, into the entry."""
        after = self.tables[table].schema if table in self.tables else before
        simple = self.habits.simple
        ddl = Ddl(
            table,
            entry.ts,
            query,
            table_schema=after if simple else None,
            pre_table_schema=before if simple else None,
            old_name=old,
        )
        names = frozenset({table, *touches})
        entry.ddls.append(DdlEvent(entry.ts, ddl, tuple(edits), names, home))
        self._picture(entry, *names)

    def _version(self, ts: int) -> int | None:
        return ts if self.habits.simple else None

    def _free_name(self) -> TableName:
        while True:
            name = TableName(self.random.choice(DATABASES), self.random.choice(TABLES))
            if name not in self.tables:
                return name

    def _new_schema(self, name: TableName, ts: int) -> TableSchema:
        random = self.random
        columns = [column("id", "int", True)] + [column("k", "int", True)] * (random.random() < 0.2)
        names = random.sample(COLUMNS[:4], random.randint(0, 2))
        columns += [column(each, random.choice(("int", "varchar(20)"))) for each in names]
        random.shuffle(columns)
        return TableSchema(name, tuple(columns), version=self._version(ts))

    def _create(self, entry: Entry) -> None:
        if len(self.tables) >= 4:
            self._drop(entry)
            return
        name = self._free_name()
        schema = self._new_schema(name, entry.ts)
        self.tables[name] = Table(schema)
        keys = ", ".join(f"`{each}`" for each in schema.handle_key)
        query = f"CREATE TABLE {_quoted(name)} ({', '.join(map(_definition, schema.columns))}, PRIMARY KEY ({keys}))"
        self._say(entry, query, [CreateTable(replace(schema, version=None))], name, home=name)

    def _like(self, entry: Entry) -> None:
        told = [name for name, table in self.tables.items() if table.told]
        if not told or len(self.tables) >= 4:
            self._truncate(entry)
            return
        name, model = self._free_name(), self.random.choice(told)
        schema = replace(self.tables[model].schema, name=name, version=self._version(entry.ts))
        self.tables[name] = Table(schema)
        edit = CreateTable(TableSchema(name), like=model)
        query = f"CREATE TABLE {_quoted(name)} LIKE {_quoted(model)}"
        self._say(entry, query, [edit], name, home=name, touches=[model])

    def _drop(self, entry: Entry) -> None:
        name = self.random.choice(list(self.tables))
        gone = self.tables.pop(name)
        self._say(entry, f"DROP TABLE {_quoted(name)}", [DropTable(name)], name, home=name, before=gone.schema)

    def _truncate(self, entry: Entry) -> None:
        name = self.random.choice(list(self.tables))
        table = self.tables[name]
        before = table.schema
        table.schema = replace(before, version=self._version(entry.ts))
        table.rows = {}
        self._say(entry, f"TRUNCATE TABLE {_quoted(name)}", [TruncateTable(name)], name, home=name, before=before)

    def _database(self, entry: Entry) -> None:
        """Drop a database, or one without tables and make it again."""
        schema = self.random.choice(DATABASES)
        gone = [name for name in self.tables if name.schema == schema]
        for name in gone:
            del self.tables[name]
        here = TableName(schema, "")
        if gone:
            self._say(entry, f"DROP DATABASE `{schema}`", [DropDatabase(schema)], here, touches=gone)
        else:
            self._say(entry, f"CREATE DATABASE `{schema}`", [CreateDatabase(schema)], here)

    def _rename(self, entry: Entry) -> None:
        """Rename some tables at once: a chain, and where they are allowed a ring."""
        random = self.random
        names = random.sample(list(self.tables), random.randint(1, len(self.tables)))
        if not (self.habits.swaps or all(self.tables[name].told for name in names)):
            # The classic server sends the watermark first. If the parts are then read apart, it cannot be seen that one
            # is missing which moves a table without a single row out of the way.
            names = names[:1]
        ring = self.habits.swaps and len(names) > 1 and random.random() < 0.4
        targets = [names[-1] if ring else self._free_name(), *names[:-1]]
        moves = list(zip(names, targets, strict=True))
        whole = "RENAME TABLE " + ", ".join(f"{_quoted(old)} TO {_quoted(new)}" for old, new in moves)
        moving = {old: self.tables.pop(old) for old, _ in moves}
        for old, new in moves:
            table = moving.pop(old)
            before = table.schema
            table.schema = replace(before, name=new)
            self.tables[new] = table
            query = whole if len(moves) == 1 else f"RENAME TABLE {_quoted(old)} TO {_quoted(new)}"
            self._say(entry, query, [RenameTable(old, new)], new, old=old, home=old, touches=[old], before=before)

    def _alter(self, entry: Entry) -> None:
        name = self.random.choice(list(self.tables))
        table = self.tables[name]
        before = table.schema
        changes: list[ColumnEdit] = []
        words: list[str] = []
        for _ in range(self.random.choice((1, 1, 2))):
            # One statement's clauses speak of different columns, so they can be applied one after the other.
            spoken = {word for text in words for word in text.split("`")[1::2]}
            change, text = self._column_change(table, spoken)
            changes.append(change)
            words.append(text)
        table.schema = replace(table.schema, version=self._version(entry.ts))
        query = f"ALTER TABLE {_quoted(name)} {', '.join(words)}"
        self._say(entry, query, [AlterTable(name, tuple(changes))], name, home=name, before=before)

    def _column_change(self, table: Table, spoken: set[str]) -> tuple[ColumnEdit, str]:
        random, columns = self.random, list(table.schema.columns)
        names = [each.name for each in columns]
        free = [name for name in COLUMNS if name not in names and name not in spoken]
        others = [each for each in columns if not each.handle_key and each.name not in spoken]
        anchors = [name for name in names if name not in spoken]
        kind = random.choice(("add", "add", "drop", "rename", "change")) if len(free) > 2 else "drop"
        if kind == "drop" and others and len(columns) > 2:
            gone = random.choice(others)
            columns.remove(gone)
            _reshape(table, columns)
            return DropColumn(gone.name), f"DROP COLUMN `{gone.name}`"
        if kind == "rename" and anchors:
            old, new = random.choice(anchors), random.choice(free)
            at = names.index(old)
            columns[at] = replace(columns[at], name=new)
            _reshape(table, columns, {new: lambda row: row[old]})
            return RenameColumn(old, new), f"RENAME COLUMN `{old}` TO `{new}`"
        if kind == "change" and others:
            was = random.choice(others)
            name = random.choice([was.name, free[0]])
            wider = "varchar(40)" if was.length is not None else random.choice(("bigint", "varchar(20)"))
            now = column(name, wider)
            place = self._place([each for each in anchors if each != was.name])
            columns[names.index(was.name)] = now
            text = was.length is None and now.length is not None
            _reshape(table, _placed(columns, now, place), {name: lambda row: _converted(row[was.name], text)})
            return ChangeColumn(was.name, now, place), f"CHANGE COLUMN `{was.name}` {_definition(now)}{_where(place)}"
        default = random.choice((None, "7"))
        new_column = column(random.choice(free[:2]), random.choice(("int", "varchar(20)")), default=default)
        place = self._place(anchors)
        value = None if default is None else default if new_column.length is not None else int(default)
        _reshape(table, _placed([*columns, new_column], new_column, place), {new_column.name: lambda _: value})
        return AddColumn(new_column, place), f"ADD COLUMN {_definition(new_column)}{_where(place)}"

    def _place(self, anchors: list[str]) -> ColumnPosition:
        chance = self.random.random()
        if chance < 0.2:
            return ColumnPosition(first=True)
        return ColumnPosition(after=self.random.choice(anchors)) if chance < 0.5 and anchors else ColumnPosition()


def _placed(columns: list[Column], moved: Column, place: ColumnPosition) -> list[Column]:
    if place == ColumnPosition():
        return columns
    rest = [each for each in columns if each is not moved]
    at = 0 if place.first else [each.name for each in rest].index(place.after or "") + 1
    return [*rest[:at], moved, *rest[at:]]


def _reshape(
    table: Table, columns: list[Column], values: Mapping[str, Callable[[dict[str, Value]], Value]] | None = None
) -> None:
    """Give a table other columns; ``values`` tells where those come from that a row did not have by that name."""
    table.schema = replace(table.schema, columns=tuple(columns))
    key, values = table.schema.handle_key, values or {}
    rows = [
        {each.name: values[each.name](row) if each.name in values else row[each.name] for each in columns}
        for row in table.rows.values()
    ]
    table.rows = {tuple([row[name] for name in key]): row for row in rows}


def _converted(value: Value, text: bool) -> Value:
    return str(value) if text and value is not None else value


def _quoted(name: TableName) -> str:
    return f"`{name.schema}`.`{name.table}`"


def _definition(each: Column) -> str:
    missing = " NOT NULL" if each.handle_key else ""
    default = "" if each.default is None else f" DEFAULT '{each.default!s}'"
    return f"`{each.name}` {each.mysql_type.upper()}{missing}{default}"


def _where(place: ColumnPosition) -> str:
    if place.first:
        return " FIRST"
    return "" if place.after is None else f" AFTER `{place.after}`"
