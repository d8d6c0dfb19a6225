"""From when on a table is known: a sync has all its rows if it has seen the table's beginning.

A topic holds what changed since its changefeed began. A table that is older has rows that are in no message, and only a
load brings them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidewire.model import TableName
from tidewire.model.tso import to_datetime


class Origin(StrEnum):
    """How a sync came to know a table."""

    CREATE = "create"
    TRUNCATE = "truncate"
    LOAD = "load"
    ROWS = "rows"
    """Rows of a table that was there before: older rows are missing."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """From which ts on a table is known, and how; the ts is 0 if it cannot be told."""

    ts: int
    origin: Origin


_UNKNOWN = Beginning(0, Origin.ROWS)
"""The beginning of tables of a sync that an older release began."""


def loads(beginnings: Mapping[TableName, Beginning]) -> dict[TableName, int]:
    """The tables that begin with a load, by folded name, each with the load's ts."""
    return {name: each.ts for name, each in beginnings.items() if each.origin is Origin.LOAD}


def incomplete(tables: Iterable[TableName], beginnings: Mapping[TableName, Beginning]) -> dict[TableName, int]:
    """The tables whose older rows are missing, each with the ts from which on its changes are here."""
    found = {name: beginnings.get(name.folded, _UNKNOWN) for name in tables}
    return {name: beginning.ts for name, beginning in found.items() if beginning.origin is Origin.ROWS}


def missing_rows(name: TableName, ts: int) -> str:
    """What to tell people of a table whose older rows are missing, with the way out."""
    since = f"{to_datetime(ts):%Y-%m-%d %H:%M:%S} UTC" if ts else "the first message"
    return f"{name}: rows from before {since} are not here; tidewire load --replace brings them"
