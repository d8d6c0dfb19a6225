"""Statements about several tables, taken apart: a changefeed sends one DDL for each table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from tidewire.ddl.edits import CreateTable, RenameTable
from tidewire.ddl.lex import lex
from tidewire.ddl.parse import edits
from tidewire.ddl.reader import Reader, Unreadable, same_table
from tidewire.dispatch.ddl_types import type_of
from tidewire.model import Ddl, DdlType, TableName, TableSchema

_RENAMES = frozenset({DdlType.RENAME_TABLE, DdlType.RENAME_TABLES})


def per_table(ddl: Ddl, schemas: Mapping[TableName, TableSchema] | None = None) -> tuple[Ddl, ...]:
    """One DDL for each table of a statement, in the statement's order and with its timestamps.

    ``RENAME TABLE a TO b, c TO d``, ``DROP TABLE a, b`` and several ``CREATE TABLE`` in one text are taken apart; every
    other statement stays as it is. The parts of a RENAME happen at one moment: ``a TO tmp, b TO a, tmp TO b`` gives
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
    """The moves of a RENAME, each from a table's first name to its last: they happen at one moment."""
    moves = [edit for edit in edits(_about_all(ddl)) if isinstance(edit, RenameTable)]
    for move in moves:
        old, new = _spelled(move.old, schemas), _spelled(move.new, [ddl.table])
        before = schemas.get(old)
        told = ddl.table_schema if same_table(new, ddl.table) else None
        yield replace(
            ddl,
            table=new,
            old_name=old,
            query=f"RENAME TABLE {_quoted(old)} TO {_quoted(new)};",
            type=int(DdlType.RENAME_TABLE),
            table_schema=told or (before and replace(before, name=new)),
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
    """A name in the letters it is known by; TiDB does not look at case."""
    return next((told for told in known if same_table(told, name)), name)


def _about_all(ddl: Ddl) -> Ddl:
    """The statement as one about all its tables, and not about the event's only."""
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
"""How the statements of a type are taken apart."""
