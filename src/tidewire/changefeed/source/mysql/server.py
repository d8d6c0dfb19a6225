"""A server: its properties, whether its binlog can be read, and its tables as they are now."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidewire.changefeed.source.mysql.connection import Refusal, Session
from tidewire.changefeed.source.mysql.dialect import full_name, translated, without_next_number
from tidewire.changefeed.source.mysql.position import SYSTEM, Schemas
from tidewire.changefeed.source.mysql.statements import Wanted
from tidewire.changefeed.source.mysql.uri import INVALID, Settings
from tidewire.ddl.edits import CreateTable, Impossible
from tidewire.ddl.parse import edits
from tidewire.errors import ChangefeedError
from tidewire.model import Ddl, DdlType, TableName, TableSchema

_GONE = frozenset({1049, 1051, 1109, 1146})
_OTHERS = ", ".join(f"'{name}'" for name in sorted(SYSTEM))


@dataclass(frozen=True, slots=True)
class Server:
    """The properties of a server that are needed to follow its log; ``identity`` is different for each server."""

    identity: str
    mariadb: bool
    zone: tzinfo


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """A server that can be followed.

    ``collations``: the charset of each collation's number. ``sees_all``: may the user see what other sessions run?
    """

    server: Server
    collations: Mapping[int, str]
    default_collation: str
    folded: bool
    sees_all: bool
    by_gtid: bool


def look_at(session: Session, settings: Settings) -> ServerInfo:
    """The properties of a server; raises ``ChangefeedError`` with every reason why its binlog cannot be read."""
    variables = {
        _text(name).lower(): _text(value) for name, value in session.ask("SHOW GLOBAL VARIABLES") if value is not None
    }
    grants = [_text(row[0]) for row in session.ask("SHOW GRANTS")]
    wrong = [*_wrong_settings(variables), *_missing_grants(grants)]
    if wrong:
        raise ChangefeedError(INVALID, f"{settings.address} cannot be followed: {'; '.join(wrong)}")
    mariadb = "mariadb" in variables["version"].lower()
    collations = {
        int(number): _text(charset)
        for number, charset in session.ask("SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS")
        if number is not None and charset is not None
    }
    return ServerInfo(
        Server(_identity(variables), mariadb, _zone(settings.time_zone, variables)),
        collations,
        variables["collation_server"],
        variables.get("lower_case_table_names", "0") != "0",
        _has(grants, "PROCESS"),
        mariadb or variables.get("gtid_mode", "OFF") == "ON",
    )


def _text(raw: bytes | None) -> str:
    return (raw or b"").decode()


_NEEDED: Mapping[str, tuple[frozenset[str], str]] = {
    "log_bin": (frozenset({"ON"}), "log_bin is {}; start it with --log-bin"),
    "binlog_format": (frozenset({"ROW"}), "binlog_format is {}; set it to ROW"),
    "binlog_row_image": (frozenset({"FULL"}), "binlog_row_image is {}; set it to FULL"),
    "log_bin_compress": (frozenset({"OFF"}), "log_bin_compress is {}; set it to OFF"),
    "binlog_alter_two_phase": (frozenset({"OFF"}), "binlog_alter_two_phase is {}; set it to OFF"),
    "binlog_transaction_compression": (frozenset({"OFF"}), "binlog_transaction_compression is {}; set it to OFF"),
    "binlog_row_value_options": (frozenset({""}), "binlog_row_value_options is {}; set it to the empty string"),
}
"""Settings, their allowed values, and what to do about others. A server need not have all settings."""


def _wrong_settings(variables: Mapping[str, str]) -> Iterator[str]:
    for name, (allowed, remedy) in _NEEDED.items():
        value = variables.get(name)
        if value is not None and value.upper() not in allowed:
            yield remedy.format(value)


def _missing_grants(grants: list[str]) -> Iterator[str]:
    if not _has(grants, "REPLICATION SLAVE"):
        yield "its user may not read the binary log; GRANT REPLICATION SLAVE ON *.* to it"
    if not _has(grants, "REPLICATION CLIENT", "BINLOG MONITOR", "SUPER"):
        yield "its user may not ask where the binary log ends; GRANT REPLICATION CLIENT ON *.* to it"
    if not any(re.search(r"\b(SELECT|ALL PRIVILEGES)\b.* ON ", grant) for grant in grants) and not _roles(grants):
        yield "its user may not read tables; GRANT SELECT ON *.* to it"


def _has(grants: list[str], *privileges: str) -> bool:
    """Does a global grant give one of these privileges? True if there are roles: their privileges are not listed."""
    words = "|".join(("ALL PRIVILEGES", *privileges))
    return _roles(grants) or any(re.match(rf"GRANT .*\b({words})\b.* ON \*\.\*", grant) for grant in grants)


def _roles(grants: list[str]) -> bool:
    return any(" ON " not in grant for grant in grants if grant.startswith("GRANT "))


def _identity(variables: Mapping[str, str]) -> str:
    """A name that is unique to a server; log files of different servers may have the same names."""
    unique = variables.get("server_uuid") or variables.get("server_uid")
    return unique or f"{variables['server_id']}@{variables['hostname']}:{variables['port']}"


_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d\d)")


def _zone(wanted: str | None, variables: Mapping[str, str]) -> tzinfo:
    """The zone of TIMESTAMP values: the requested one, or else the server's."""
    name = wanted or variables["time_zone"]
    if name.upper() == "SYSTEM":
        name = variables["system_time_zone"]
    offset = _OFFSET.fullmatch(name)
    if offset:
        difference = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-difference if offset[1] == "-" else difference)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        of_server = "" if wanted else ", the zone of the server,"
        raise ChangefeedError(
            INVALID,
            f"{name!r}{of_server} is not a time zone; set time-zone in the source URI to one such as Europe/Paris",
        ) from None


def database_collations(session: Session) -> dict[str, str]:
    """The databases, and the collation of new tables in each."""
    rows = session.ask(
        "SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.SCHEMATA "
        f"WHERE LOWER(SCHEMA_NAME) NOT IN ({_OTHERS}) ORDER BY SCHEMA_NAME"
    )
    return {_text(name): _text(collation) for name, collation in rows}


def _names_of_type(session: Session, kind: str) -> list[TableName]:
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
    """The names of all wanted tables."""
    return [name for name in _names_of_type(session, "BASE TABLE") if wanted(name)]


def definitions(session: Session, wanted: Wanted) -> dict[TableName, str]:
    """The CREATE TABLE of all wanted tables."""
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


def schemas_of(session: Session, info: ServerInfo, tables: Mapping[TableName, str], version: int) -> Schemas:
    """The schemas of a server with these tables."""
    databases = {"": info.default_collation, **database_collations(session)}
    keys = {(name.lower() if info.folded else name): collation for name, collation in databases.items()}
    schemas = Schemas({}, keys, folded=info.folded)
    for name in _names_of_type(session, "SEQUENCE"):
        schemas = schemas.with_sequence(name)
    for name, text in tables.items():
        schemas, _ = schemas.made(table_of(name, text, info.server.mariadb), version)
    return schemas
