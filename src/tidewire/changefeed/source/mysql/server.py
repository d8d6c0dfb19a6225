"""The properties of a server, and whether its binlog can be read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tidewire.changefeed.source.mysql.connection import Session
from tidewire.changefeed.source.mysql.follower import Server
from tidewire.changefeed.source.mysql.uri import INVALID, Settings
from tidewire.errors import ChangefeedError


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
"""Settings, the values they may have, and what to do about others. A setting that a server does not have is fine."""


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
    """Has a global grant one of these privileges? True if there are roles, because their privileges are not listed."""
    words = "|".join(("ALL PRIVILEGES", *privileges))
    return _roles(grants) or any(re.match(rf"GRANT .*\b({words})\b.* ON \*\.\*", grant) for grant in grants)


def _roles(grants: list[str]) -> bool:
    return any(" ON " not in grant for grant in grants if grant.startswith("GRANT "))


def _identity(variables: Mapping[str, str]) -> str:
    """What tells a server from others, whose log files may have the same names."""
    unique = variables.get("server_uuid") or variables.get("server_uid")
    return unique or f"{variables['server_id']}@{variables['hostname']}:{variables['port']}"


_OFFSET = re.compile(r"([+-])(\d{1,2}):(\d\d)")


def _zone(wanted: str | None, variables: Mapping[str, str]) -> tzinfo:
    """The zone TIMESTAMPs are told in: the one asked for, or else the server's."""
    name = wanted or variables["time_zone"]
    if name.upper() == "SYSTEM":
        name = variables["system_time_zone"]
    offset = _OFFSET.fullmatch(name)
    if offset:
        span = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-span if offset[1] == "-" else span)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        of_server = "" if wanted else ", the zone of the server,"
        raise ChangefeedError(
            INVALID,
            f"{name!r}{of_server} is no time zone; name one such as Europe/Paris with time-zone in the source URI",
        ) from None
