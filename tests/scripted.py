"""A small upstream written by hand: statements, rows and watermarks become a Canal-JSON topic in files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidewire.codec import Options, protocol
from tidewire.model import (
    Column,
    Ddl,
    DdlType,
    Event,
    Index,
    Message,
    Position,
    RowChange,
    TableName,
    TableSchema,
    Watermark,
)
from tidewire.topic.files import FileTopics

OPTIONS = {"enable-tidb-extension": "true"}
_FIRST = 450_000_000_000_000_000
_TICK = 1 << 18
"""A millisecond of a TSO."""


def table(name: str, *, key: str = "id", **columns: str) -> TableSchema:
    """A table of the database ``shop``."""
    made = [Column.of(each, type_, primary_key=each == key, nullable=each != key) for each, type_ in columns.items()]
    return TableSchema.build(TableName("shop", name), made, [Index("primary", (key,), unique=True, primary=True)])


class Script:
    """Events in the order they happen; each is a millisecond after the one before it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.ts = _FIRST
        self._encoder = protocol("canal-json").Encoder(Options.parse(OPTIONS))

    def _add(self, event: Event) -> int:
        self.messages += self._encoder.encode([event])
        return self.ts

    def ddl(self, name: str, query: str, type_: DdlType = DdlType.CREATE_TABLE) -> int:
        """A statement about a table of ``shop``; its commit ts."""
        self.ts += _TICK
        return self._add(Ddl(TableName("shop", name), self.ts, query, type_))

    def insert(self, schema: TableSchema, **row: Any) -> int:
        """A new row, or one that changed and does not say what it was."""
        self.ts += _TICK
        return self._add(RowChange(schema, self.ts, after=row))

    def delete(self, schema: TableSchema, **row: Any) -> int:
        """A row that went."""
        self.ts += _TICK
        return self._add(RowChange(schema, self.ts, before=row))

    def bad(self, value: bytes) -> int:
        """A message that cannot be read."""
        self.messages.append(Message(None, value))
        return self.ts

    def watermark(self) -> int:
        """Everything so far is complete."""
        self.ts += _TICK
        return self._add(Watermark(self.ts))

    def write(self, folder: Path, topic: str = "t") -> FileTopics:
        """Append what was added since the last time."""
        topics = FileTopics(folder)
        first = topics.ends().get((topic, 0), 0)
        with topics.appending() as appending:
            for number, message in enumerate(self.messages):
                appending.add(Position(topic, 0, first + number), message)
        self.messages = []
        return topics
