"""The schemas a reader must know to go on in the middle of a topic: Simple sends them apart from the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tidewire.codec import Options, protocol
from tidewire.model import Bootstrap, Ddl, Event, Message, TableName, TableSchema
from tidewire.plain import event_from_plain, event_to_plain


class Schemas:
    """The schema of each table at the moment up to which events were let through."""

    def __init__(self) -> None:
        self._tables: dict[int | TableName, TableSchema] = {}

    def heard(self, event: Event) -> None:
        """A schema came ahead of rows; what is known already stays."""
        if isinstance(event, Bootstrap):
            self._tables.setdefault(_key(event.table_schema), event.table_schema)

    def passed(self, event: Event) -> None:
        """A statement was let through."""
        if isinstance(event, Ddl) and event.table_schema is not None:
            self._tables[_key(event.table_schema)] = event.table_schema

    def plain(self) -> list[Any]:
        """All of them, as plain JSON."""
        return [event_to_plain(Bootstrap(table)) for table in self._tables.values()]

    def restored(self, plain: Iterable[Any], name: str, options: Options) -> Iterator[Message]:
        """The messages that would have told these schemas."""
        for line in plain:
            event = event_from_plain(line)
            self.heard(event)
            yield from protocol(name).Encoder(options).encode([event])


def _key(table: TableSchema) -> int | TableName:
    return table.name if table.table_id is None else table.table_id
