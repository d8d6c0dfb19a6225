"""The tables of a server as they are now."""

from __future__ import annotations

from collections.abc import Mapping

from tidewire.changefeed.source.mysql.answers import full_name
from tidewire.changefeed.source.mysql.connection import Refusal, Session
from tidewire.changefeed.source.mysql.dialect import translated, without_next_number
from tidewire.changefeed.source.mysql.schemas import SYSTEM, Schemas
from tidewire.changefeed.source.mysql.server import ServerInfo
from tidewire.changefeed.source.mysql.statements import Wanted
from tidewire.ddl.edits import CreateTable, Impossible
from tidewire.ddl.parse import edits
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, DdlType, TableName, TableSchema

_GONE = frozenset({1049, 1051, 1109, 1146})
_OTHERS = ", ".join(f"'{name}'" for name in sorted(SYSTEM))


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode()


def database_collations(session: Session) -> dict[str, str]:
    """The databases, and the collation of new tables in each."""
    rows = session.ask(
        "SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA "
        f"WHERE LOWER(SCHEMA_NAME) NOT IN ({_OTHERS}) ORDER BY SCHEMA_NAME"
    )
    return {_text(name): _text(collation) for name, collation in rows}


def _named(session: Session, kind: str) -> list[TableName]:
    rows = session.ask(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES "
        f"WHERE TABLE_TYPE = '{kind}' AND LOWER(TABLE_SCHEMA) NOT IN ({_OTHERS}) ORDER BY TABLE_SCHEMA, TABLE_NAME"
    )
    return [TableName(_text(schema), _text(table)) for schema, table in rows]


def definition(session: Session, name: TableName) -> str | None:
    """A table's CREATE TABLE as the server prints it; ``None`` if it is gone."""
    try:
        rows = session.ask(f"SHOW CREATE TABLE {full_name(name)}")
    except Refusal as refusal:
        if refusal.code in _GONE:
            return None
        raise
    return without_next_number(_text(rows[0][1]))


def table_names(session: Session, wanted: Wanted) -> list[TableName]:
    """Every table that is wanted."""
    return [name for name in _named(session, "BASE TABLE") if wanted(name)]


def definitions(session: Session, wanted: Wanted) -> dict[TableName, str]:
    """Every table that is wanted, and its CREATE TABLE."""
    found = {name: definition(session, name) for name in table_names(session, wanted)}
    return {name: text for name, text in found.items() if text is not None}


def table_of(name: TableName, text: str, mariadb: bool) -> TableSchema:
    """The table that a CREATE TABLE defines."""
    match edits(Ddl(name, None, translated(text, mariadb), type=int(DdlType.CREATE_TABLE))):
        case (CreateTable(table, None),):
            return table
        case (Impossible(_, reason),):
            raise ChangefeedError("CDC:ErrTableIneligible", f"the definition of {name} cannot be read: {reason}")
    raise ChangefeedError("CDC:ErrTableIneligible", f"the definition of {name} cannot be read: {text[:200]!r}")


def schemas_of(session: Session, facts: ServerInfo, tables: Mapping[TableName, str], version: int) -> Schemas:
    """All that is known of a server with these tables."""
    databases = {"": facts.default_collation, **database_collations(session)}
    keys = {(name.lower() if facts.folded else name): collation for name, collation in databases.items()}
    schemas = Schemas({}, keys, folded=facts.folded)
    for name in _named(session, "SEQUENCE"):
        schemas = schemas.with_sequence(name)
    for name, text in tables.items():
        schemas, _ = schemas.made(table_of(name, text, facts.server.mariadb), version)
    return schemas
