"""The events of a binary log, without their encoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidewire.model import TableName


@dataclass(frozen=True, slots=True)
class WireColumn:
    """A column as a table map describes it.

    ``size`` is what the type needs: the length of a length, of a number or of a string. ``name``, ``unsigned`` and
    ``charset`` are there only where the server logs them.
    """

    type: int
    size: int = 0
    precision: int = 0
    scale: int = 0
    name: str | None = None
    unsigned: bool | None = None
    charset: str | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """A group of events begins. ``alone``: it is one statement, and nothing says that it ends."""

    gtid: str | None
    alone: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A statement in its text, and the database it ran in."""

    schema: str
    text: str
    seconds: int
    end: int


@dataclass(frozen=True, slots=True)
class TableMap:
    """The shape of a table whose rows come next."""

    table_id: int
    name: TableName
    columns: tuple[WireColumn, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table, packed: ``before`` and ``after`` are bitmaps of the columns each image has, if it is there."""

    table_id: int
    before: bytes | None
    after: bytes | None
    data: bytes


@dataclass(frozen=True, slots=True)
class Commit:
    """The group took effect."""

    seconds: int
    end: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """The group waits for the second phase of a distributed transaction."""

    xid: str
    end: int


@dataclass(frozen=True, slots=True)
class Rotate:
    """The log goes on in another file."""

    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Idle:
    """All of the log has been read for now; ``end`` is its position."""

    file: str
    end: int


BinlogEvent: TypeAlias = Begin | Query | TableMap | Rows | Commit | Prepared | Rotate | Idle
