"""What a DDL event does to tables, read from its statement.

TiDB makes one event per table of a statement that names several, and TiCDC mostly prints a statement of its own for
each. Where an event has the whole statement all the same, CREATE TABLE and DROP TABLE are narrowed to the event's
table; RENAME TABLE gives all its moves, because chains and swaps mean nothing in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from tidewire.ddl.alter import read_alter_table, read_create_index, read_drop_index
from tidewire.ddl.edits import (
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropTable,
    Edit,
    Impossible,
    RenameTable,
    TruncateTable,
)
from tidewire.ddl.lex import Kind
from tidewire.ddl.reader import Reader, Unreadable, same_table
from tidewire.ddl.tables import read_create_table
from tidewire.model import Ddl, DdlKind, DdlType, TableName
from tidewire.model.ddl import KIND_OF_TYPE

Edits: TypeAlias = tuple[Edit, ...]


def edits(ddl: Ddl) -> tuple[Edit, ...]:
    """What the event's statement does, in the order it does it; nothing if no table's shape or rows change.

    A name without a database is in the event's. What cannot be understood and may touch rows is ``Impossible``; there
    is no exception.
    """
    reader = Reader(ddl.query, _schema(ddl), [name for name in (ddl.table, ddl.old_name) if name])
    found: list[Edit] = []
    try:
        if reader.ended and not reader.accept(";") and _needs_a_statement(ddl):
            raise Unreadable("it is empty")
        while reader.peek().kind is not Kind.END:
            if not reader.accept(";"):
                found += _statement(reader, ddl)
                if not reader.ended:
                    raise reader.wrong("the end of the statement")
        return _own(ddl, found)
    except Unreadable as error:
        return () if ddl.type in _HARMLESS else (_unreadable(ddl, error),)


def _unreadable(ddl: Ddl, error: Unreadable) -> Edit:
    """A table that was made can be had from the event, if it has it; any other statement is lost."""
    if ddl.table_schema is not None and DdlKind.CREATE in (ddl.kind, KIND_OF_TYPE.get(ddl.type or 0)):
        return CreateTable(replace(ddl.table_schema, name=ddl.table))
    return Impossible(_subject(ddl), f"the statement cannot be read: {error}")


def _schema(ddl: Ddl) -> str:
    return ddl.table.schema or (ddl.table_schema.name.schema if ddl.table_schema else "")


def _old_schema(ddl: Ddl) -> str | None:
    return ddl.old_name.schema if ddl.old_name else None


def _own(ddl: Ddl, found: list[Edit]) -> tuple[Edit, ...]:
    """The edits that are this event's and not those of another event of the same statement."""
    own = [edit for edit in found if any(same_table(name, ddl.table) for name in _tables(edit))]
    if not ddl.table.table or not found or not any(_tables(edit) for edit in found):
        return tuple(found)
    if not own:
        about = ", ".join(str(name) for edit in found for name in _tables(edit))
        raise Unreadable(f"the event is about {ddl.table}, the statement about {about}")
    return tuple(edit for edit in found if edit in own or not isinstance(edit, CreateTable | DropTable))


def _tables(edit: Edit) -> tuple[TableName, ...]:
    match edit:
        case CreateTable():
            return (edit.table.name,)
        case RenameTable():
            return (edit.old, edit.new)
        case CreateDatabase() | DropDatabase():
            return ()
        case _:
            return () if edit.name is None else (edit.name,)


def _statement(reader: Reader, ddl: Ddl) -> Edits:
    verb = reader.peek().word
    if verb not in _VERBS:
        raise reader.wrong("a statement that defines something")
    reader.next()
    return _VERBS[verb](reader, ddl)


def _object(reader: Reader) -> tuple[str, frozenset[str]]:
    """The word for what a CREATE, DROP or ALTER is about, and the words before it."""
    before = set()
    while reader.peek().word not in _OBJECTS:
        word = reader.peek().word
        if word not in _BEFORE_OBJECT:
            raise reader.wrong("what the statement is about")
        before.add(word)
        reader.next()
        if reader.accept("="):
            reader.pass_call()
            if reader.accept("@"):
                reader.next()
    return reader.next().word, frozenset(before)


_BEFORE_OBJECT = frozenset(
    {"OR", "REPLACE", "TEMPORARY", "GLOBAL", "SESSION", "IGNORE", "ONLINE", "OFFLINE", "MATERIALIZED", "AGGREGATE"}
    | {"UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR", "COLUMNAR", "HYBRID"}
    | {"ALGORITHM", "DEFINER", "SQL", "SECURITY", "INVOKER"}
)
_WITH_BODIES = frozenset({"PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE"})
_WITHOUT_ROWS = frozenset(
    {"VIEW", "SEQUENCE", "PLACEMENT", "RESOURCE", "USER", "ROLE", "SERVER", "BINDING", "STATISTICS", "STATS_EXTENDED"}
    | {"TABLESPACE", "LOGFILE", "MASKING", "INSTANCE", "RANGE", "PREPARE"}
)
_OBJECTS = _WITH_BODIES | _WITHOUT_ROWS | {"TABLE", "TABLES", "DATABASE", "SCHEMA", "INDEX"}


def _create(reader: Reader, ddl: Ddl) -> Edits:
    what, before = _object(reader)
    if "TEMPORARY" in before:
        return _nothing(reader, ddl)
    if what in ("TABLE", "TABLES"):
        created = read_create_table(reader, ddl.table_schema)
        return (DropTable(created.table.name), created) if "REPLACE" in before else (created,)
    if what == "INDEX":
        return read_create_index(reader, "UNIQUE" in before)
    if what in ("DATABASE", "SCHEMA"):
        reader.accept("IF", "NOT", "EXISTS")
        name = reader.name()
        reader.pass_statement()
        return (DropDatabase(name), CreateDatabase(name)) if "REPLACE" in before else (CreateDatabase(name),)
    return _passed(reader, what)


def _drop(reader: Reader, ddl: Ddl) -> Edits:
    what, before = _object(reader)
    if "TEMPORARY" in before:
        return _nothing(reader, ddl)
    if what in ("TABLE", "TABLES"):
        reader.accept("IF", "EXISTS")
        names = [reader.table()]
        while reader.accept(","):
            names.append(reader.table())
        reader.accept_any("RESTRICT", "CASCADE")
        return tuple(DropTable(name) for name in names)
    if what == "INDEX":
        return read_drop_index(reader)
    if what in ("DATABASE", "SCHEMA"):
        reader.accept("IF", "EXISTS")
        return (DropDatabase(reader.name()),)
    return _passed(reader, what)


def _alter(reader: Reader, ddl: Ddl) -> Edits:
    what, before = _object(reader)
    if what in ("TABLE", "TABLES"):
        if "IGNORE" in before:
            return _lost(reader, ddl, "ALTER IGNORE removes rows that stand in its way, and no message tells which")
        return read_alter_table(reader, ddl.table_schema, _old_schema(ddl))
    return _nothing(reader, ddl) if what in ("DATABASE", "SCHEMA") else _passed(reader, what)


def _rename(reader: Reader, ddl: Ddl) -> Edits:
    if not reader.accept_any("TABLE", "TABLES"):
        return _nothing(reader, ddl)
    reader.accept("IF", "EXISTS")
    moves: dict[TableName, TableName] = {}
    while True:
        old = reader.table(_old_schema(ddl))
        reader.expect("TO")
        new = reader.table()
        # MySQL renames from left to right; what a target is told happens all at once.
        start = next((first for first, last in moves.items() if same_table(last, old)), old)
        moves[start] = new
        if not reader.accept(","):
            return tuple(RenameTable(old, new) for old, new in moves.items() if old != new)


def _truncate(reader: Reader, ddl: Ddl) -> Edits:
    reader.accept("TABLE")
    return (TruncateTable(reader.table()),)


def _restored(reader: Reader, ddl: Ddl) -> Edits:
    return _lost(reader, ddl, "rows come back from the past, and no message has them")


def _lost(reader: Reader, ddl: Ddl, reason: str) -> Edits:
    reader.pass_statement()
    return (Impossible(_subject(ddl), reason),)


def _subject(ddl: Ddl) -> TableName | None:
    """The table an event is about, if it is about one."""
    return ddl.table if ddl.table.table else None


def _nothing(reader: Reader, ddl: Ddl) -> Edits:
    reader.pass_statement()
    return ()


def _passed(reader: Reader, what: str) -> Edits:
    if what in _WITH_BODIES:
        reader.pass_all()
    reader.pass_statement()
    return ()


_VERBS: Mapping[str, Callable[[Reader, Ddl], Edits]] = {
    "CREATE": _create,
    "DROP": _drop,
    "ALTER": _alter,
    "RENAME": _rename,
    "TRUNCATE": _truncate,
    **dict.fromkeys(("RECOVER", "FLASHBACK"), _restored),
    **dict.fromkeys(("LOCK", "UNLOCK", "ANALYZE", "OPTIMIZE", "SET", "USE", "GRANT", "REVOKE", "FLUSH"), _nothing),
    "SPLIT": _nothing,
}

_T = DdlType
_HARMLESS = frozenset(
    {
        _T.ADD_FOREIGN_KEY,
        _T.DROP_FOREIGN_KEY,
        _T.REBASE_AUTO_ID,
        _T.SHARD_ROW_ID,
        _T.MODIFY_TABLE_COMMENT,
        _T.ADD_TABLE_PARTITION,
        _T.CREATE_VIEW,
        _T.DROP_VIEW,
        _T.MODIFY_SCHEMA_CHARSET_AND_COLLATE,
        _T.LOCK_TABLE,
        _T.UNLOCK_TABLE,
        _T.SET_TIFLASH_REPLICA,
        _T.UPDATE_TIFLASH_REPLICA_STATUS,
        _T.CREATE_SEQUENCE,
        _T.ALTER_SEQUENCE,
        _T.DROP_SEQUENCE,
        _T.MODIFY_AUTO_ID_CACHE,
        _T.REBASE_AUTO_RANDOM_BASE,
        _T.ALTER_INDEX_VISIBILITY,
        _T.ADD_CHECK_CONSTRAINT,
        _T.DROP_CHECK_CONSTRAINT,
        _T.ALTER_CHECK_CONSTRAINT,
        *range(_T.ALTER_TABLE_ATTRIBUTES, _T.ALTER_NO_CACHE_TABLE + 1),
        _T.REORGANIZE_PARTITION,
        _T.ALTER_TTL_INFO,
        _T.ALTER_TTL_REMOVE,
        *range(_T.CREATE_RESOURCE_GROUP, _T.ADD_COLUMNAR_INDEX + 1),
        _T.MODIFY_ENGINE_ATTRIBUTE,
        _T.ALTER_TABLE_AFFINITY,
        *range(_T.CREATE_MASKING_POLICY, _T.ALTER_REGION_SPLIT_POLICY + 1),
    }
)
"""Actions that change neither the rows of a table nor what they look like, however their statements read."""


def _needs_a_statement(ddl: Ddl) -> bool:
    """Could an event without a statement have done something? TiCDC empties those it sends without effect."""
    kind = ddl.kind or KIND_OF_TYPE.get(ddl.type or 0, DdlKind.QUERY)
    return kind is not DdlKind.QUERY or ddl.type not in (None, DdlType.NONE)
