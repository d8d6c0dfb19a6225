"""Events of one protocol made ready for another.

A protocol tells less or more of a table than the next. What the target needs and the source does not tell is found out
on the way: the scale of a DECIMAL from its values, the schema of a table from its rows. What the target cannot say is
counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from decimal import Decimal

from tidewire.codec.facts import THE_EVENT, Carries
from tidewire.model import Bootstrap, Column, Ddl, Event, MySQLType, RowChange, TableName, TableSchema

KIND_NAMES = {"RowChange": "row", "Ddl": "ddl", "Watermark": "watermark", "Bootstrap": "bootstrap"}


class Adapter:
    """Makes a source's events ready for a target; ``losses`` counts, per kind of event and fact, what got lost."""

    def __init__(self, carries: Carries) -> None:
        self._carries = carries
        self._tables: dict[TableName, TableSchema] = {}
        self._versions: set[tuple[object, TableName, int | None]] = set()
        self.losses: Counter[tuple[str, str]] = Counter()

    def adapt(self, events: Iterable[Event], channel: object = None) -> Iterator[Event]:
        """The events as the target can take them. Schemas are announced in each ``channel`` (a partition) apart."""
        for event in events:
            lost = list(self._carries.lost(event))
            self.losses.update((KIND_NAMES[type(event).__name__], fact) for fact in lost)
            if THE_EVENT in lost:
                continue
            match event:
                case RowChange():
                    yield from self._row(event, channel)
                case Ddl(table=name, table_schema=schema):
                    self._tables.pop(name, None)
                    if schema is not None:
                        self._versions.add((channel, schema.name, schema.version))
                    yield event
                case Bootstrap(schema):
                    self._versions.add((channel, schema.name, schema.version))
                    yield event
                case _:
                    yield event

    def _row(self, event: RowChange, channel: object) -> Iterator[Event]:
        table = replace(event.table, columns=tuple(_measured(column, event) for column in event.table.columns))
        if table.version is None:
            table = self._versioned(table, event)
        self._tables[table.name] = table
        version = (channel, table.name, table.version)
        if self._carries.needs_schema and version not in self._versions:
            self._versions.add(version)
            yield Bootstrap(table)
        yield replace(event, table=table)

    def _versioned(self, table: TableSchema, event: RowChange) -> TableSchema:
        """The table under a version: that of the columns seen before, or a new one where these are not among them."""
        known = self._tables.get(table.name)
        before = {} if known is None else {column.name: column for column in known.columns}
        columns = {column.name: _richer(before.get(column.name), column) for column in table.columns}
        if known is not None and columns.items() <= before.items():
            return known
        same_types = all(_same_type(before.get(name), column) for name, column in columns.items())
        merged = before | columns if same_types else columns
        version = event.commit_ts or len(self._versions) + 1
        if known is not None and known.version is not None:
            version = max(version, known.version + 1)
        table_id = event.table_id if table.table_id is None else table.table_id
        return replace(table, columns=tuple(merged.values()), version=version, table_id=table_id)


def _same_type(before: Column | None, column: Column) -> bool:
    return before is None or (before.type, before.unsigned) == (column.type, column.unsigned)


def _richer(before: Column | None, column: Column) -> Column:
    """A column with the scale that was learned earlier, where this row shows none."""
    if before is None or column.decimal is not None or before.type is not column.type:
        return column
    return replace(column, length=before.length, decimal=before.decimal)


def _measured(column: Column, event: RowChange) -> Column:
    """A column with the sizes that its values show, where the protocol does not tell them."""
    if column.length is not None:
        return column
    if column.type is MySQLType.BIT:
        return replace(column, length=64)
    if column.type is MySQLType.DECIMAL:
        for row in (event.after, event.before):
            value = None if row is None else row.get(column.name)
            if isinstance(value, Decimal):
                return replace(column, length=65, decimal=max(0, -int(value.as_tuple().exponent)))
    return column
