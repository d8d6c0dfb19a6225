"""What happened upstream, in no protocol's words."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Final, TypeAlias

from tidewire.model.ddl import DdlKind
from tidewire.model.table import TableName, TableSchema
from tidewire.model.values import Value

Row: TypeAlias = Mapping[str, Value]
"""A row image: column name to value. An absent column is not the same as a NULL one."""


class Op(StrEnum):
    """What a row change did."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Checksum:
    """TiDB's CRC-32 of the row after (``current``) and before (``previous``) the change; 0 if the image is missing."""

    version: int = 0
    corrupted: bool = False
    current: int = 0
    previous: int = 0


@dataclass(frozen=True, slots=True, repr=False)
class RowChange:
    """One row of one table changed: an insert has no before, a delete has no after.

    ``table`` is the table as far as the protocol tells it. ``table_id`` is the physical id, that of the partition in
    a partitioned table. ``commit_ts`` is ``None`` if the protocol sends none.
    ``handle_key_only``: the message was too large and holds the handle key's columns only.
    ``row_id`` is the integer row handle and ``row_key`` the TiKV key of the row, where a protocol sends them.
    """

    table: TableSchema
    commit_ts: int | None
    before: Row | None = None
    after: Row | None = None
    start_ts: int | None = None
    table_id: int | None = None
    partitioned: bool = False
    handle_key_only: bool = False
    checksum: Checksum | None = None
    row_id: int | None = None
    row_key: bytes | None = None

    def __repr__(self) -> str:
        """What happened, to which row, when: short, whatever the table looks like."""
        when = "" if self.commit_ts is None else f" at {self.commit_ts}"
        rows = " -> ".join(_short(row) for row in (self.before, self.after) if row is not None)
        return f"<{self.op} {self.table.name}{when}: {rows}>"

    @property
    def op(self) -> Op:
        """Read from the images, so it cannot contradict them."""
        if self.before is None:
            return Op.INSERT
        return Op.DELETE if self.after is None else Op.UPDATE

    @property
    def partition_id(self) -> int | None:
        """The physical id of the partition, ``None`` outside partitioned tables."""
        return self.table_id if self.partitioned else None


def _short(row: Row) -> str:
    values = (f"{name}={_SHORT.repr(value)}" for name, value in islice(row.items(), _MOST_SHOWN))
    more = ", ..." if len(row) > _MOST_SHOWN else ""
    return f"({', '.join(values)}{more})"


_MOST_SHOWN: Final = 8
_SHORT: Final = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 40


@dataclass(frozen=True, slots=True)
class Ddl:
    """A statement changed the schema.

    ``table`` holds the names after the statement, ``old_name`` those before a rename.
    ``type`` is TiDB's action number; a protocol that has only a coarse word for it sets ``kind`` instead.
    """

    table: TableName
    commit_ts: int | None
    query: str
    type: int | None = None
    kind: DdlKind | None = None
    start_ts: int | None = None
    table_schema: TableSchema | None = None
    pre_table_schema: TableSchema | None = None
    old_name: TableName | None = None


@dataclass(frozen=True, slots=True)
class Watermark:
    """Everything with a smaller commit ts has been sent to this partition."""

    ts: int


@dataclass(frozen=True, slots=True)
class Bootstrap:
    """The schema of a table, sent ahead of its rows."""

    table_schema: TableSchema


Event: TypeAlias = RowChange | Ddl | Watermark | Bootstrap
