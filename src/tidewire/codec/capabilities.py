"""What a protocol can say, as data.

An event is a bundle of facts. A codec declares which of them it carries; the shared tests hold it to that, a
transcoding report counts what was left behind, and the documentation prints the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tidewire.model import Bootstrap, Column, Ddl, EnumValue, Event, Op, Row, RowChange, SetValue, Timestamp, Watermark
from tidewire.model.types import TEXTUAL

Fact = Callable[[Any], Any]
"""Takes a fact out of an event; ``None`` if the event does not tell it."""


def _columns(attribute: str) -> Fact:
    def fact(event: RowChange) -> dict[str, Any] | None:
        told = {column.name: getattr(column, attribute) for column in _sent(event)}
        return {name: value for name, value in told.items() if value not in (None, ())} or None

    return fact


def _scales(event: RowChange) -> dict[str, int] | None:
    """The digits behind the point; types that do not declare any are not listed."""
    return {column.name: column.decimal for column in _sent(event) if column.decimal} or None


def _charsets(event: RowChange) -> dict[str, str] | None:
    """The charsets of text; that something is binary its type tells."""
    told = {column.name: column.charset for column in _sent(event) if column.type in TEXTUAL}
    return {name: charset for name, charset in told.items() if charset not in (None, "binary")} or None


def _other_handle_key(event: RowChange) -> tuple[str, ...] | None:
    """A handle key that is not the primary key, which every protocol marks."""
    key = event.table.handle_key
    return key if key and key != event.table.primary_key else None


def _sent(event: RowChange) -> Iterator[Column]:
    """The columns that the event has values of; other columns are not sent."""
    rows = [row for row in (event.before, event.after) if row is not None]
    return (column for column in event.table.columns if any(column.name in row for row in rows))


def _texts(event: RowChange) -> list[Any] | None:
    """The names behind ENUM and SET values."""
    rows = [row for row in (event.before, event.after) if row is not None]
    found = [
        (name, value.text)
        for row in rows
        for name, value in row.items()
        if isinstance(value, EnumValue | SetValue) and value.text is not None
    ]
    return found or None


def _zones(event: RowChange) -> set[str] | None:
    rows = [row for row in (event.before, event.after) if row is not None]
    return {value.zone for row in rows for value in row.values() if isinstance(value, Timestamp) and value.zone} or None


def _image(side: str, op: Op) -> Fact:
    def fact(event: RowChange) -> Row | None:
        row: Row | None = getattr(event, side)
        return row if row and event.op is op else None

    return fact


ROW_FACTS: Final[Mapping[str, Fact]] = {
    "commit ts": lambda event: event.commit_ts,
    "start ts": lambda event: event.start_ts,
    "table id": lambda event: event.table_id,
    "logical table id": lambda event: event.table.table_id,
    "partition": lambda event: event.partition_id,
    "schema version": lambda event: event.table.version,
    "indexes": lambda event: event.table.indexes or None,
    "handle key": _other_handle_key,
    "old values": _image("before", Op.UPDATE),
    "deleted values": _image("before", Op.DELETE),
    "checksum": lambda event: event.checksum,
    "row id": lambda event: event.row_id,
    "row key": lambda event: event.row_key,
    "column types": _columns("type"),
    "column flags": _columns("flags"),
    "column ids": _columns("id"),
    "nullability": _columns("nullable"),
    "lengths": _columns("length"),
    "scales": _scales,
    "charsets": _charsets,
    "collations": _columns("collation"),
    "enum elements": _columns("elements"),
    "defaults": _columns("default"),
    "generated columns": _columns("generated"),
    "enum texts": _texts,
    "time zones": _zones,
}
"""What a row change tells besides its table's name, its new values and its key's."""

DDL_FACTS: Final[Mapping[str, Fact]] = {
    "commit ts": lambda event: event.commit_ts,
    "start ts": lambda event: event.start_ts,
    "table name": lambda event: event.table if event.table.table else None,
    "database name": lambda event: event.table if not event.table.table else None,
    "type": lambda event: event.type,
    "kind": lambda event: event.kind if event.type is None else None,
    "table schema": lambda event: event.table_schema,
    "previous table schema": lambda event: event.pre_table_schema,
    "old name": lambda event: event.old_name,
}
"""What a DDL tells besides its query."""

THE_EVENT: Final = "the event itself"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a protocol can say with given options. ``None``: it has no message for that kind of event."""

    row: frozenset[str]
    ddl: frozenset[str] | None = frozenset()
    watermark: bool = True
    bootstrap: bool = False
    needs_schema: bool = False
    """Is a row understood only after its table's schema was sent?"""
    needs_names: bool = False
    """Are ENUM and SET sent as names, so that their numbers do not do?"""

    def __post_init__(self) -> None:
        unknown = self.row - ROW_FACTS.keys() | (self.ddl or frozenset()) - DDL_FACTS.keys()
        assert not unknown, unknown

    def lost(self, event: Event) -> Iterable[str]:
        """The facts of an event that do not arrive."""
        match event:
            case RowChange():
                return _untold(event, ROW_FACTS, self.row)
            case Ddl():
                return [THE_EVENT] if self.ddl is None else _untold(event, DDL_FACTS, self.ddl)
            case Watermark():
                return [] if self.watermark else [THE_EVENT]
            case Bootstrap():
                return [] if self.bootstrap else [THE_EVENT]


def _untold(event: Event, facts: Mapping[str, Fact], carried: frozenset[str]) -> list[str]:
    return [name for name, fact in facts.items() if name not in carried and fact(event) is not None]
