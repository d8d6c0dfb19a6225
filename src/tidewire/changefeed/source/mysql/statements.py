"""Statements of the log as DDL events, and what they make of the tables.

One event per table, with TiDB's action number. Statements that TiDB does not log as DDL, or that TiCDC does not send,
give no events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tidewire.changefeed.source.mysql.alteration import alter_type, alteration
from tidewire.changefeed.source.mysql.dialect import bare, full_name, translated, with_collation, without_words
from tidewire.changefeed.source.mysql.position import SYSTEM, Schemas
from tidewire.ddl.edits import CreateTable, Impossible
from tidewire.ddl.lex import lex
from tidewire.ddl.parse import edits
from tidewire.ddl.quoting import quoted
from tidewire.ddl.reader import Reader, Unreadable
from tidewire.ddl.shape import altered
from tidewire.ddl.types import read_charset
from tidewire.errors import ChangefeedError, DdlMismatch
from tidewire.model import Ddl, DdlType, TableName, TableSchema

Reload: TypeAlias = Callable[[TableName], TableSchema | None]
Wanted: TypeAlias = Callable[[TableName], bool]


@dataclass(frozen=True, slots=True)
class Dialect:
    """What is needed to interpret statements.

    ``reload`` gets the current definition of a table from the server, which may be later than the statement. Tables
    that are not ``wanted`` are not followed.
    """

    mariadb: bool
    reload: Reload
    wanted: Wanted


@dataclass(slots=True)
class DdlContext:
    """The state while a statement is interpreted: the tables so far, and the events so far."""

    schemas: Schemas
    database: str
    text: str
    ts: int
    dialect: Dialect
    events: list[Ddl] = field(default_factory=list)

    @property
    def next_ts(self) -> int:
        """The timestamp of the next event: events of one statement follow each other."""
        return self.ts + len(self.events)

    def send(self, table: TableName, type_: DdlType, query: str, after: TableSchema | None, **more: object) -> None:
        """Add an event."""
        ts = self.next_ts
        self.events.append(
            Ddl(table, ts, query, type=int(type_), start_ts=ts - 1, table_schema=after, **more)  # type: ignore[arg-type]
        )


def follow(schemas: Schemas, database: str, text: str, ts: int, dialect: Dialect) -> tuple[Schemas, list[Ddl]]:
    """The tables after a statement, and its events, the first at ``ts``; names without a database are in ``database``.

    Raises ``ChangefeedError`` for a statement that changes rows: the log must have the rows themselves.
    """
    plain = translated(bare(text), dialect.mariadb)
    verb, what, before = _subject(plain)
    if verb in _ROWS and database.lower() not in SYSTEM:
        raise ChangefeedError(
            "CDC:ErrMySQLInvalidConfig",
            f"the binary log has a statement instead of rows: {plain[:80]!r}; "
            "set binlog_format to ROW, for running sessions too, and begin with a new snapshot",
        )
    handle = _HANDLERS.get((verb, what))
    if handle is None or "TEMPORARY" in before:
        return schemas, []
    statement = DdlContext(schemas, database, plain, ts, dialect)
    try:
        handle(statement, _reader(statement, what), before)
    except Unreadable as error:
        raise ChangefeedError(
            "CDC:ErrDDLSchemaNotFound", f"the statement {plain[:200]!r} in the binary log cannot be read: {error}"
        ) from None
    return statement.schemas, statement.events


_ROWS = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD"})
_OBJECTS = frozenset(
    {"TABLE", "TABLES", "DATABASE", "SCHEMA", "INDEX", "VIEW", "SEQUENCE"}
    | {"PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE", "USER", "ROLE", "SERVER", "TABLESPACE", "LOGFILE"}
)
_ONE = {"TABLES": "TABLE", "SCHEMA": "DATABASE"}


def _subject(text: str) -> tuple[str, str, frozenset[str]]:
    """The verb of a statement, the kind of its object, and the words between."""
    words = [token.word for token in lex(text)]
    verb = words[0]
    if verb == "TRUNCATE":
        return verb, "TABLE", frozenset()
    if verb not in ("CREATE", "DROP", "ALTER", "RENAME"):
        return verb, "", frozenset()
    at = next((number for number, word in enumerate(words) if word in _OBJECTS), 0)
    return verb, _ONE.get(words[at], words[at]), frozenset(words[1:at])


def _reader(statement: DdlContext, what: str) -> Reader:
    """A reader after the word for the kind of object."""
    reader = Reader(statement.text, statement.database)
    reader.next()
    if what == "TABLE" and statement.text[:8].upper() == "TRUNCATE":
        reader.accept("TABLE")
        return reader
    while _ONE.get(reader.peek().word, reader.peek().word) != what:
        reader.next()
    reader.next()
    return reader


def _is_system(name: TableName) -> bool:
    return name.schema.lower() in SYSTEM


def _create_database(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
    reader.accept("IF", "NOT", "EXISTS")
    name = reader.name()
    if name.lower() in SYSTEM or (statement.schemas.has_database(name) and "REPLACE" not in before):
        return
    if "REPLACE" in before and statement.schemas.has_database(name):
        _drop_named_database(statement, name, f"DROP DATABASE {quoted(name)}")
    collation = _collation(reader) or statement.schemas.collation("")
    statement.schemas = statement.schemas.with_database(name, collation)
    query = without_words(statement.text, "OR", "REPLACE")
    statement.send(TableName(name, ""), DdlType.CREATE_SCHEMA, query, None)


def _collation(reader: Reader) -> str | None:
    """The collation in a database's options."""
    charset = collation = None
    while not reader.ended:
        found = read_charset(reader)
        if found is None:
            reader.next()
        else:
            charset, collation = found[0] or charset, found[1] or collation
    return collation or (f"{charset}_bin" if charset else None)


def _alter_database(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
    named = reader.peek().word not in ("CHARACTER", "CHARSET", "COLLATE", "DEFAULT", "COMMENT", "READ", "ENCRYPTION")
    name = reader.name() if named else statement.database
    collation = _collation(reader)
    if collation and name.lower() not in SYSTEM:
        statement.schemas = statement.schemas.with_database(name, collation)
        statement.send(TableName(name, ""), DdlType.MODIFY_SCHEMA_CHARSET_AND_COLLATE, statement.text, None)


def _drop_database(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
    reader.accept("IF", "EXISTS")
    name = reader.name()
    if statement.schemas.has_database(name):
        _drop_named_database(statement, name, statement.text)


def _drop_named_database(statement: DdlContext, name: str, query: str) -> None:
    statement.schemas = statement.schemas.without_database(name)
    statement.send(TableName(name, ""), DdlType.DROP_SCHEMA, query, None)


def _create_table(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
    reader.accept("IF", "NOT", "EXISTS")
    name = reader.table()
    known = statement.schemas.find(name)
    if _is_system(name) or not statement.dialect.wanted(name) or (known and "REPLACE" not in before):
        return
    if known is not None:
        _drop_named(statement, known)
    query = without_words(statement.text, "OR", "REPLACE")
    statement.schemas, table = statement.schemas.made(_defined(statement, name, query), statement.next_ts)
    statement.send(table.name, DdlType.CREATE_TABLE, query, table)


def _defined(statement: DdlContext, name: TableName, query: str) -> TableSchema:
    text = with_collation(query, statement.schemas.collation(name.schema))
    reason = "its definition cannot be read"
    match edits(Ddl(name, statement.next_ts, text, type=int(DdlType.CREATE_TABLE))):
        case (CreateTable(table, None),):
            return table
        case (CreateTable(_, TableName() as like),) if (model := statement.schemas.find(like)) is not None:
            return replace(model, name=name, columns=tuple(replace(column, id=None) for column in model.columns))
        case (Impossible() as impossible,):
            reason = impossible.reason
    return _reloaded(statement, name, reason)


def _reloaded(statement: DdlContext, name: TableName, reason: str) -> TableSchema:
    """The server's definition of a table, for a statement that says too little; the next rows show whether it fits."""
    found = statement.dialect.reload(name)
    if found is None:
        raise ChangefeedError(
            "CDC:ErrSnapshotTableNotFound",
            f"{name} cannot be followed past {statement.text[:200]!r}: {reason}, and the server no longer has the "
            "table; begin with a new snapshot",
        )
    return found


def _names(reader: Reader) -> Iterator[TableName]:
    reader.accept("IF", "EXISTS")
    yield reader.table()
    while reader.accept(","):
        yield reader.table()


def _drop_table(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
    for name in _names(reader):
        table = statement.schemas.find(name)
        if table is not None:
            _drop_named(statement, table)


def _drop_named(statement: DdlContext, table: TableSchema) -> None:
    statement.schemas = statement.schemas.without(table.name)
    query = f"DROP TABLE {full_name(table.name)}"
    statement.send(table.name, DdlType.DROP_TABLE, query, table, pre_table_schema=table)


def _truncate_table(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
    table = statement.schemas.find(reader.table())
    if table is not None:
        statement.schemas, after = statement.schemas.made(table, statement.next_ts)
        statement.send(table.name, DdlType.TRUNCATE_TABLE, statement.text, after, pre_table_schema=table)


def _rename_table(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
    """Rename from left to right, as the server does, so that chains and swaps are right."""
    reader.accept("IF", "EXISTS")
    while True:
        old = reader.table()
        if reader.accept("WAIT"):
            reader.integer()
        reader.accept("NOWAIT")
        reader.expect("TO")
        new = reader.table()
        if statement.schemas.is_sequence(old):
            statement.schemas = statement.schemas.without(old).with_sequence(new)
        table = statement.schemas.find(old)
        if table is not None:
            statement.schemas, moved = statement.schemas.renamed(table, new)
            query = f"RENAME TABLE {full_name(old)} TO {full_name(new)}"
            statement.send(new, DdlType.RENAME_TABLE, query, moved, pre_table_schema=table, old_name=table.name)
        if not reader.accept(","):
            return


def _alter_table(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
    reader.accept("IF", "EXISTS")
    table = statement.schemas.find(reader.table())
    start = reader.peek().start
    if table is not None:
        type_ = alter_type([token for token in lex(statement.text) if token.start >= start])
        _alter(statement, table, type_, start)


def _index(type_: DdlType) -> Handler:
    def handle(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
        while not reader.sees("ON"):
            reader.next()
        reader.next()
        table = statement.schemas.find(reader.table())
        if table is not None:
            _alter(statement, table, type_, 0)

    return handle


def _alter(statement: DdlContext, table: TableSchema, type_: DdlType | None, start: int) -> None:
    """Change a table's columns, indexes and name; ask the server if the statement says too little."""
    name = table.name
    try:
        change = alteration(name, statement.text, start)
        shape, name = altered(table, change.changes), change.name
    except (DdlMismatch, Unreadable) as error:
        shape = _with_known_ids(_reloaded(statement, name, str(error)), table)
    conditional = any(token.word == "EXISTS" for token in lex(statement.text))
    if shape == table and name == table.name and (type_ is None or conditional):
        return
    schemas, after = statement.schemas.changed(shape, statement.next_ts)
    old_name = None
    if name != table.name:
        schemas, after = schemas.renamed(after, name)
        old_name = table.name
    statement.schemas = schemas
    type_ = type_ or DdlType.MODIFY_COLUMN
    statement.send(name, type_, statement.text, after, pre_table_schema=table, old_name=old_name)


def _with_known_ids(found: TableSchema, table: TableSchema) -> TableSchema:
    """A table from the server, with the ids that it has here."""
    ids = {column.name: column.id for column in table.columns}
    columns = tuple(replace(column, id=ids.get(column.name)) for column in found.columns)
    return replace(found, columns=columns, table_id=table.table_id, version=table.version)


def _view(type_: DdlType) -> Handler:
    def handle(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
        reader.accept("IF", "NOT", "EXISTS")
        for name in _names(reader):
            if not _is_system(name):
                dropped = type_ is DdlType.DROP_VIEW
                statement.send(name, type_, f"DROP VIEW {full_name(name)}" if dropped else statement.text, None)

    return handle


def _create_sequence(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
    reader.accept("IF", "NOT", "EXISTS")
    statement.schemas = statement.schemas.with_sequence(reader.table())


def _drop_sequence(statement: DdlContext, reader: Reader, before: frozenset[str]) -> None:
    statement.schemas = statement.schemas.without(*_names(reader))


Handler: TypeAlias = Callable[[DdlContext, Reader, frozenset[str]], None]

_HANDLERS: Mapping[tuple[str, str], Handler] = {
    ("CREATE", "DATABASE"): _create_database,
    ("ALTER", "DATABASE"): _alter_database,
    ("DROP", "DATABASE"): _drop_database,
    ("CREATE", "TABLE"): _create_table,
    ("DROP", "TABLE"): _drop_table,
    ("TRUNCATE", "TABLE"): _truncate_table,
    ("RENAME", "TABLE"): _rename_table,
    ("ALTER", "TABLE"): _alter_table,
    ("CREATE", "INDEX"): _index(DdlType.ADD_INDEX),
    ("DROP", "INDEX"): _index(DdlType.DROP_INDEX),
    ("CREATE", "VIEW"): _view(DdlType.CREATE_VIEW),
    ("DROP", "VIEW"): _view(DdlType.DROP_VIEW),
    ("CREATE", "SEQUENCE"): _create_sequence,
    ("DROP", "SEQUENCE"): _drop_sequence,
}
