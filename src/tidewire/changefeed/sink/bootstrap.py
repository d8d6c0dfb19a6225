"""When Simple sends the schema of a table: before its first row, then at intervals, as long as the table has rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from tidewire.changefeed.config.settings import BootstrapSettings
from tidewire.model import TableName, TableSchema

CHECK_SECONDS = 5.0
SILENCE_CHECK_SECONDS = 30.0
SILENT_SECONDS = 30 * 60.0
"""A table without rows for this long is forgotten; its next row counts as the first one."""


class Due(NamedTuple):
    """A schema that a topic should hear of."""

    topic: str
    table: TableSchema


@dataclass(slots=True)
class _Table:
    schema: TableSchema
    topic: str
    sent: float
    active: float
    rows: int = 0


class Bootstraps:
    """Remembers, for each table, when its schema was sent and how many rows ago."""

    def __init__(self, settings: BootstrapSettings, clock: Callable[[], float] = monotonic) -> None:
        self._settings = settings
        self._clock = clock
        self._tables: dict[int | TableName, _Table] = {}
        self._checked = self._swept = clock()

    def note(self, table: TableSchema, topic: str, rows: int = 1) -> Due | None:
        """Take note of rows of a table; the schema that must go before them, if one must."""
        key = _key(table)
        now, known = self._clock(), self._tables.get(key)
        if known is None:
            self._tables[key] = _Table(table, topic, now, now, rows)
            return Due(topic, table)
        known.schema, known.active = table, now
        known.rows += rows
        return None

    def changed(self, table: TableSchema) -> None:
        """A statement gave a table another schema; who hears of the table from now on hears of that."""
        known = self._tables.get(_key(table))
        if known is not None:
            known.schema = table

    def again(self) -> Iterator[Due]:
        """The schemas that are due once more; looks every few seconds, however often it is asked."""
        now = self._clock()
        if now - self._swept >= SILENCE_CHECK_SECONDS:
            self._swept = now
            self._tables = {key: table for key, table in self._tables.items() if now - table.active < SILENT_SECONDS}
        if now - self._checked < CHECK_SECONDS:
            return
        self._checked = now
        for table in self._tables.values():
            if now - table.sent >= self._settings.interval_seconds or table.rows >= self._settings.message_count:
                table.sent, table.rows = now, 0
                yield Due(table.topic, table.schema)


def _key(table: TableSchema) -> int | TableName:
    return table.name if table.table_id is None else table.table_id
