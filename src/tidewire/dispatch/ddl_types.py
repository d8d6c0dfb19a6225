"""Which DDL a changefeed knows: what it replicates, and the names event filters have for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain

from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, DdlKind, DdlType, Op
from tidewire.model.ddl import TYPE_OF_KIND

INVALID_EVENT = "CDC:ErrInvalidIgnoreEventType"

_T = DdlType

_SCHEMA_EVENTS: Mapping[str, frozenset[DdlType]] = {
    "create schema": frozenset({_T.CREATE_SCHEMA}),
    "create database": frozenset({_T.CREATE_SCHEMA}),
    "drop schema": frozenset({_T.DROP_SCHEMA}),
    "drop database": frozenset({_T.DROP_SCHEMA}),
    "modify schema charset and collate": frozenset({_T.MODIFY_SCHEMA_CHARSET_AND_COLLATE}),
}
_TABLE_EVENTS: Mapping[str, frozenset[DdlType]] = {
    "create table": frozenset({_T.CREATE_TABLE, _T.CREATE_TABLES}),
    "drop table": frozenset({_T.DROP_TABLE}),
    "truncate table": frozenset({_T.TRUNCATE_TABLE}),
    "recover table": frozenset({_T.RECOVER_TABLE}),
    "create view": frozenset({_T.CREATE_VIEW}),
    "drop view": frozenset({_T.DROP_VIEW}),
}
_ALTER_EVENTS: Mapping[str, frozenset[DdlType]] = {
    "rename table": frozenset({_T.RENAME_TABLE, _T.RENAME_TABLES}),
    "modify table comment": frozenset({_T.MODIFY_TABLE_COMMENT}),
    "modify table charset and collate": frozenset({_T.MODIFY_TABLE_CHARSET_AND_COLLATE}),
    "rebase auto id": frozenset({_T.REBASE_AUTO_ID}),
    "create index": frozenset({_T.ADD_INDEX}),
    "drop index": frozenset({_T.DROP_INDEX}),
    "rename index": frozenset({_T.RENAME_INDEX}),
    "alter index visibility": frozenset({_T.ALTER_INDEX_VISIBILITY}),
    "add primary key": frozenset({_T.ADD_PRIMARY_KEY}),
    "drop primary key": frozenset({_T.DROP_PRIMARY_KEY}),
    "add foreign key": frozenset({_T.ADD_FOREIGN_KEY}),
    "drop foreign key": frozenset({_T.DROP_FOREIGN_KEY}),
    "add column": frozenset({_T.ADD_COLUMN, _T.ADD_COLUMNS}),
    "drop column": frozenset({_T.DROP_COLUMN, _T.DROP_COLUMNS}),
    "modify column": frozenset({_T.MODIFY_COLUMN}),
    "set default value": frozenset({_T.SET_DEFAULT_VALUE}),
    "multi schema change": frozenset({_T.MULTI_SCHEMA_CHANGE}),
    "alter ttl info": frozenset({_T.ALTER_TTL_INFO}),
    "alter ttl remove": frozenset({_T.ALTER_TTL_REMOVE}),
    "add table partition": frozenset({_T.ADD_TABLE_PARTITION}),
    "drop table partition": frozenset({_T.DROP_TABLE_PARTITION}),
    "truncate table partition": frozenset({_T.TRUNCATE_TABLE_PARTITION}),
    "exchange table partition": frozenset({_T.EXCHANGE_TABLE_PARTITION}),
    "reorganize table partition": frozenset({_T.REORGANIZE_PARTITION}),
    "alter table partitioning": frozenset({_T.ALTER_TABLE_PARTITIONING}),
    "remove table partitioning": frozenset({_T.REMOVE_PARTITIONING}),
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


def named_events(names: Iterable[str]) -> tuple[frozenset[Op], frozenset[DdlType]]:
    """The row changes and the statements these names of ``ignore-event`` mean."""
    ops: set[Op] = set()
    types: set[DdlType] = set()
    for name in names:
        word = name.strip().lower()
        if word not in _DML_EVENTS and word not in _DDL_EVENTS:
            known = ", ".join((*_DML_EVENTS, *_DDL_EVENTS))
            raise ChangefeedError(INVALID_EVENT, f"ignore-event: {name!r} is no type of event; known are {known}")
        ops |= _DML_EVENTS.get(word, frozenset())
        types |= _DDL_EVENTS.get(word, frozenset())
    return frozenset(ops), frozenset(types)


_TYPE_OF_COARSE_KIND: Mapping[DdlKind, DdlType] = {
    **TYPE_OF_KIND,
    DdlKind.CINDEX: DdlType.ADD_INDEX,
    DdlKind.DINDEX: DdlType.DROP_INDEX,
    DdlKind.ALTER: DdlType.MULTI_SCHEMA_CHANGE,
}
"""The type a coarse word stands for, where a protocol tells no more."""

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
