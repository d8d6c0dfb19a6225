"""DDL as a changefeed sees it: which types it replicates, their names in event filters, and one statement per table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain

from tidewire.ddl.edits import CreateTable, RenameTable
from tidewire.ddl.lex import lex
from tidewire.ddl.parse import edits
from tidewire.ddl.reader import Reader, Unreadable, same_table
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, DdlKind, DdlType, Op, TableName, TableSchema
from tidewire.model.ddl import TYPE_OF_KIND

INVALID_EVENT = "CDC:ErrInvalidIgnoreEventType"

_Type = DdlType

_SCHEMA_EVENTS: Mapping[str, frozenset[DdlType]] = {
    "create schema": frozenset({_Type.CREATE_SCHEMA}),
    "create database": frozenset({_Type.CREATE_SCHEMA}),
    "drop schema": frozenset({_Type.DROP_SCHEMA}),
    "drop database": frozenset({_Type.DROP_SCHEMA}),
    "modify schema charset and collate": frozenset({_Type.MODIFY_SCHEMA_CHARSET_AND_COLLATE}),
}
_TABLE_EVENTS: Mapping[str, frozenset[DdlType]] = {
    "create table": frozenset({_Type.CREATE_TABLE, _Type.CREATE_TABLES}),
    "drop table": frozenset({_Type.DROP_TABLE}),
    "truncate table": frozenset({_Type.TRUNCATE_TABLE}),
    "recover table": frozenset({_Type.RECOVER_TABLE}),
    "create view": frozenset({_Type.CREATE_VIEW}),
    "drop view": frozenset({_Type.DROP_VIEW}),
}
_ALTER_EVENTS: Mapping[str, frozenset[DdlType]] = {
    "rename table": frozenset({_Type.RENAME_TABLE, _Type.RENAME_TABLES}),
    "modify table comment": frozenset({_Type.MODIFY_TABLE_COMMENT}),
    "modify table charset and collate": frozenset({_Type.MODIFY_TABLE_CHARSET_AND_COLLATE}),
    "rebase auto id": frozenset({_Type.REBASE_AUTO_ID}),
    "create index": frozenset({_Type.ADD_INDEX}),
    "drop index": frozenset({_Type.DROP_INDEX}),
    "rename index": frozenset({_Type.RENAME_INDEX}),
    "alter index visibility": frozenset({_Type.ALTER_INDEX_VISIBILITY}),
    "add primary key": frozenset({_Type.ADD_PRIMARY_KEY}),
    "drop primary key": frozenset({_Type.DROP_PRIMARY_KEY}),
    "add foreign key": frozenset({_Type.ADD_FOREIGN_KEY}),
    "drop foreign key": frozenset({_Type.DROP_FOREIGN_KEY}),
    "add column": frozenset({_Type.ADD_COLUMN, _Type.ADD_COLUMNS}),
    "drop column": frozenset({_Type.DROP_COLUMN, _Type.DROP_COLUMNS}),
    "modify column": frozenset({_Type.MODIFY_COLUMN}),
    "set default value": frozenset({_Type.SET_DEFAULT_VALUE}),
    "multi schema change": frozenset({_Type.MULTI_SCHEMA_CHANGE}),
    "alter ttl info": frozenset({_Type.ALTER_TTL_INFO}),
    "alter ttl remove": frozenset({_Type.ALTER_TTL_REMOVE}),
    "add table partition": frozenset({_Type.ADD_TABLE_PARTITION}),
    "drop table partition": frozenset({_Type.DROP_TABLE_PARTITION}),
    "truncate table partition": frozenset({_Type.TRUNCATE_TABLE_PARTITION}),
    "exchange table partition": frozenset({_Type.EXCHANGE_TABLE_PARTITION}),
    "reorganize table partition": frozenset({_Type.REORGANIZE_PARTITION}),
    "alter table partitioning": frozenset({_Type.ALTER_TABLE_PARTITIONING}),
    "remove table partitioning": frozenset({_Type.REMOVE_PARTITIONING}),
}

SCHEMA_DDL = frozenset(chain.from_iterable(_SCHEMA_EVENTS.values()))
"""Statements about a whole schema."""

REPLICATED = SCHEMA_DDL.union(*_TABLE_EVENTS.values(), *_ALTER_EVENTS.values())
"""The statements a changefeed sends; it drops every other kind."""

_DDL_EVENTS: Mapping[str, frozenset[DdlType]] = {
    "all ddl": REPLICATED,
    "alter table": frozenset(chain.from_iterable(_ALTER_EVENTS.values())),
    **_SCHEMA_EVENTS,
    **_TABLE_EVENTS,
    **_ALTER_EVENTS,
}
_DML_EVENTS: Mapping[str, frozenset[Op]] = {
    "all dml": frozenset(Op),
    **{op.value: frozenset({op}) for op in Op},
}

_RENAMES = frozenset({DdlType.RENAME_TABLE, DdlType.RENAME_TABLES})


def named_events(names: Iterable[str]) -> tuple[frozenset[Op], frozenset[DdlType]]:
    """The row changes and DDL types that these names of ``ignore-event`` mean."""
    ops: set[Op] = set()
    types: set[DdlType] = set()
    for name in names:
        word = name.strip().lower()
        if word not in _DML_EVENTS and word not in _DDL_EVENTS:
            known = ", ".join((*_DML_EVENTS, *_DDL_EVENTS))
            raise ChangefeedError(INVALID_EVENT, f"ignore-event: {name!r} is not an event type; use one of {known}")
        ops |= _DML_EVENTS.get(word, frozenset())
        types |= _DDL_EVENTS.get(word, frozenset())
    return frozenset(ops), frozenset(types)


_TYPE_OF_COARSE_KIND: Mapping[DdlKind, DdlType] = {
    **TYPE_OF_KIND,
    DdlKind.CINDEX: DdlType.ADD_INDEX,
    DdlKind.DINDEX: DdlType.DROP_INDEX,
    DdlKind.ALTER: DdlType.MULTI_SCHEMA_CHANGE,
}
"""The type of a coarse kind, for protocols that send nothing finer."""

_TYPE_OF_WORDS: Mapping[tuple[str, str], DdlType] = {
    ("CREATE", "DATABASE"): DdlType.CREATE_SCHEMA,
    ("CREATE", "SCHEMA"): DdlType.CREATE_SCHEMA,
    ("DROP", "DATABASE"): DdlType.DROP_SCHEMA,
    ("DROP", "SCHEMA"): DdlType.DROP_SCHEMA,
    ("ALTER", "DATABASE"): DdlType.MODIFY_SCHEMA_CHARSET_AND_COLLATE,
    ("ALTER", "SCHEMA"): DdlType.MODIFY_SCHEMA_CHARSET_AND_COLLATE,
    ("CREATE", "VIEW"): DdlType.CREATE_VIEW,
    ("DROP", "VIEW"): DdlType.DROP_VIEW,
    ("RECOVER", "TABLE"): DdlType.RECOVER_TABLE,
}


def type_of(ddl: Ddl) -> int:
    """TiDB's action number of a statement: the one that was sent, or one derived from its kind and text."""
    if ddl.type is not None:
        return ddl.type
    if ddl.kind is not None and ddl.kind in _TYPE_OF_COARSE_KIND:
        return _TYPE_OF_COARSE_KIND[ddl.kind]
    words = ddl.query.upper().split()[:2]
    return _TYPE_OF_WORDS.get((words[0], words[1]), DdlType.NONE) if len(words) == 2 else DdlType.NONE


def per_table(ddl: Ddl, schemas: Mapping[TableName, TableSchema] | None = None) -> tuple[Ddl, ...]:
    """One DDL for each table of a statement, in the statement's order and with its timestamps.

    ``RENAME TABLE a TO b, c TO d``, ``DROP TABLE a, b`` and several ``CREATE TABLE`` in one text are taken apart; every
    other statement stays as it is. The parts of a RENAME happen at once: ``a TO tmp, b TO a, tmp TO b`` gives
    ``a TO b`` and ``b TO a``. ``schemas`` are the tables before the statement, by their names; the parts get their
    schemas from them, and names their spelling.
    """
    split = _SPLITS.get(type_of(ddl))
    try:
        parts = tuple(split(ddl, dict(schemas or {}))) if split else ()
    except Unreadable:
        parts = ()
    return parts if len(parts) > 1 else (replace(ddl, old_name=old_name(ddl)),)


def old_name(ddl: Ddl) -> TableName | None:
    """The name of a table before a RENAME, from the event or the statement; ``None`` for other statements."""
    if ddl.old_name is not None or type_of(ddl) not in _RENAMES:
        return ddl.old_name
    moves = (edit for edit in edits(_about_all(ddl)) if isinstance(edit, RenameTable))
    return next((move.old for move in moves if same_table(move.new, ddl.table)), None)


def _renames(ddl: Ddl, schemas: dict[TableName, TableSchema]) -> Iterator[Ddl]:
    """The moves of a RENAME, each from a table's first name to its last: they happen at once."""
    moves = [edit for edit in edits(_about_all(ddl)) if isinstance(edit, RenameTable)]
    for move in moves:
        old, new = _spelled(move.old, schemas), _spelled(move.new, [ddl.table])
        before = schemas.get(old)
        sent = ddl.table_schema if same_table(new, ddl.table) else None
        yield replace(
            ddl,
            table=new,
            old_name=old,
            query=f"RENAME TABLE {_quoted(old)} TO {_quoted(new)};",
            type=int(DdlType.RENAME_TABLE),
            table_schema=sent or (before and replace(before, name=new)),
            pre_table_schema=before,
        )


def _drops(what: str) -> Callable[[Ddl, dict[TableName, TableSchema]], Iterator[Ddl]]:
    def parts(ddl: Ddl, schemas: dict[TableName, TableSchema]) -> Iterator[Ddl]:
        reader = _reader(ddl)
        reader.expect("DROP")
        reader.expect(what)
        guarded = "IF EXISTS " * reader.accept("IF", "EXISTS")
        while True:
            name = _spelled(reader.table(), schemas)
            known = ddl.table_schema if same_table(name, ddl.table) else None
            query = f"DROP {what} {guarded}{_quoted(name)};"
            yield replace(ddl, table=name, query=query, table_schema=known or schemas.get(name))
            if not reader.accept(","):
                return

    return parts


def _creates(ddl: Ddl, _: dict[TableName, TableSchema]) -> Iterator[Ddl]:
    """Several statements in one text; their schemas are read from them."""
    start = 0
    for token in lex(ddl.query):
        if token.word == ";" or (not token.word and token.start == len(ddl.query)):
            query = ddl.query[start : token.start].strip()
            start = token.end
            if query:
                yield _created(replace(ddl, query=f"{query};", type=int(DdlType.CREATE_TABLE)))


def _created(ddl: Ddl) -> Ddl:
    """A part about the table it creates."""
    for edit in edits(replace(_about_all(ddl), table_schema=None)):
        if isinstance(edit, CreateTable) and not same_table(edit.table.name, ddl.table):
            return replace(ddl, table=edit.table.name, table_schema=edit.table)
    return ddl


def _spelled(name: TableName, known: Iterable[TableName]) -> TableName:
    """A name in its known spelling; TiDB ignores case in names."""
    return next((spelling for spelling in known if same_table(spelling, name)), name)


def _about_all(ddl: Ddl) -> Ddl:
    """The statement as one about all its tables, not only about the event's."""
    return replace(ddl, table=TableName(ddl.table.schema, ""))


def _reader(ddl: Ddl) -> Reader:
    return Reader(ddl.query, ddl.table.schema, [name for name in (ddl.table, ddl.old_name) if name])


def _quoted(name: TableName) -> str:
    return ".".join(f"`{part.replace('`', '``')}`" for part in name)


_SPLITS: Mapping[int, Callable[[Ddl, dict[TableName, TableSchema]], Iterator[Ddl]]] = {
    **dict.fromkeys(_RENAMES, _renames),
    DdlType.DROP_TABLE: _drops("TABLE"),
    DdlType.DROP_VIEW: _drops("VIEW"),
    **dict.fromkeys((DdlType.CREATE_TABLE, DdlType.CREATE_TABLES), _creates),
}
"""How to take apart the statements of a type."""
