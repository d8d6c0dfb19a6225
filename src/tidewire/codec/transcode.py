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

from tidewire.codec.capabilities import THE_EVENT, Capabilities
from tidewire.model import Bootstrap, Column, Ddl, EnumValue, Event, MySQLType, RowChange, TableName, TableSchema

KIND_NAMES = {"RowChange": "row", "Ddl": "ddl", "Watermark": "watermark", "Bootstrap": "bootstrap"}


class Adapter:
    """Makes a source's events ready for a target; ``losses`` counts, per kind of event and fact, what got lost."""

    def __init__(self, capabilities: Capabilities) -> None:
        self._capabilities = capabilities
        self._tables: dict[TableName, TableSchema] = {}
        self._versions: set[tuple[object, TableName, int | None]] = set()
        self.losses: Counter[tuple[str, str]] = Counter()

    def adapt(self, events: Iterable[Event], channel: object = None) -> Iterator[Event]:
        """The events as the target can take them. Schemas are announced in each ``channel`` (a partition) apart."""
        for event in events:
            lost = list(self._capabilities.lost(event))
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
        table = replace(event.table, columns=tuple(self._learned(column, event) for column in event.table.columns))
        if self._capabilities.needs_schema:
            if table.version is None:
                table = self._versioned(table, event)
            version = (channel, table.name, table.version)
            if version not in self._versions:
                self._versions.add(version)
                yield Bootstrap(table)
        self._tables[table.name] = table
        yield replace(event, table=table)

    def _learned(self, column: Column, event: RowChange) -> Column:
        """A column with the sizes and names that its values show, where the source does not tell them."""
        known = self._tables.get(event.table.name)
        before = None if known is None else next((c for c in known.columns if c.name == column.name), None)
        if before is not None and before.type is not column.type:
            before = None
        values = [row.get(column.name) for row in (event.after, event.before) if row is not None]
        match column.type:
            case MySQLType.BIT if column.length is None:
                return replace(column, length=64)
            case MySQLType.DECIMAL if column.length is None:
                scales = [-int(value.as_tuple().exponent) for value in values if isinstance(value, Decimal)]
                learned = max([*scales, 0 if before is None else before.decimal or 0])
                return replace(column, length=65, decimal=learned) if scales or before is not None else column
            case MySQLType.ENUM if not column.elements and self._capabilities.needs_names:
                highest = max([value.index for value in values if isinstance(value, EnumValue)], default=0)
                highest = max(highest, 0 if before is None else len(before.elements))
                return replace(column, elements=_numbers(highest))
            case MySQLType.SET if not column.elements and self._capabilities.needs_names:
                return replace(column, elements=_numbers(64))
        return column

    def _versioned(self, table: TableSchema, event: RowChange) -> TableSchema:
        """The table under a version: that of the columns seen before, or a new one where these are not among them."""
        known = self._tables.get(table.name)
        before = {} if known is None else {column.name: column for column in known.columns}
        columns = {column.name: column for column in table.columns}
        if known is not None and columns.items() <= before.items():
            return known
        same_types = all(_same_type(before.get(name), column) for name, column in columns.items())
        merged = before | columns if same_types else columns
        version = event.commit_ts or len(self._versions) + 1
        if known is not None and known.version is not None:
            version = max(version, known.version + 1)
        # Of a partitioned table the event tells the partition's id, not the table's.
        table_id = event.table_id if table.table_id is None and not event.partitioned else table.table_id
        return replace(table, columns=tuple(merged.values()), version=version, table_id=table_id)


def _same_type(before: Column | None, column: Column) -> bool:
    return before is None or (before.type, before.unsigned) == (column.type, column.unsigned)


def _numbers(count: int) -> tuple[str, ...]:
    """Names for an ENUM or SET of which only the numbers are known."""
    return tuple(str(number) for number in range(1, count + 1))
