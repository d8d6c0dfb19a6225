"""Avro messages to events, of either server generation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

from tidewire.codec.avro.binary import Cursor
from tidewire.codec.avro.layout import Layout, Record, read_layout
from tidewire.codec.avro.names import CHECKSUM, CHECKSUM_VERSION, COMMIT_TS, CORRUPTED, OP
from tidewire.codec.avro.wire import CONTROL, PROTOCOL, Kind
from tidewire.codec.base import Resources
from tidewire.codec.checksum import row_checksum
from tidewire.codec.jsontext import Reader, once, read_json
from tidewire.codec.options import CorruptionHandling, IntegrityCheck, Options
from tidewire.errors import DecodeError, OptionError, RegistryError
from tidewire.model import Checksum, Ddl, Event, Message, Op, Row, RowChange, TableName, TableSchema, Watermark

_CACHED = 1000  # schemas; a topic has a few, a process may read many topics


class Decoder:
    """Messages to events. It remembers the schemas it has seen and can be shared.

    A registry that does not answer (``RegistryError``) or was not given (``OptionError``) is not the message's fault.
    """

    def __init__(self, options: Options = Options(), resources: Resources = Resources()) -> None:
        self.options = options
        self.resources = resources
        # By text and not by id alone: ids of schemas that messages bring along may come again and mean another one.
        self._layout = lru_cache(_CACHED)(read_layout)
        self._table = lru_cache(_CACHED)(table_of)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.options, self.resources)

    def decode(self, message: Message) -> list[Event]:
        """The events in one message: all of them, or ``DecodeError``."""
        return list(self._events(message))

    def _events(self, message: Message) -> Iterator[Event]:
        if message.key is not None:
            yield self._row(message.key, message.value)
        elif message.value is not None:
            yield self._unkeyed(message.value)

    def _unkeyed(self, value: bytes) -> Event:
        match value[:1]:
            case b"\x00":
                return self._row(None, value)
            case b"\x01":
                return _ddl(value)
            case b"\x02":
                return Watermark(_ts(value))
            case b"\x03":
                raise DecodeError(PROTOCOL, "a delete without a key: which row it was cannot be told", 0, "value")
        raise DecodeError(PROTOCOL, "no key, and the value is of no known kind", 0, "value")

    def _row(self, key: bytes | None, value: bytes | None) -> RowChange:
        keyed = None if key is None else self._record(key, "key")
        if keyed is not None and (not value or value[0] == Kind.DELETE):
            layout, record = keyed
            return RowChange(self._table(layout, layout), _ts(value) if value else None, before=record.row)
        layout, record = self._record(value or b"", "value")
        table = self._table(layout, None if keyed is None else keyed[0])
        before, after = _images(record)
        return RowChange(
            table,
            record.extension.get(COMMIT_TS),
            before=before,
            after=after,
            checksum=self._checksum(table, record, deleted=after is None),
        )

    def _record(self, data: bytes, part: str) -> tuple[Layout, Record]:
        cursor = Cursor(data, part)
        schema_id = cursor.header()
        layout = self._layout(self._schema(schema_id, part), schema_id)
        record = layout.read(cursor)
        cursor.end()
        return layout, record

    def _schema(self, schema_id: int, part: str) -> str:
        registry = self.resources.registry
        if registry is None:
            raise OptionError("schema-registry", f"it is needed to read messages with schema {schema_id}")
        try:
            return registry.schema(schema_id)
        except RegistryError as error:
            if error.status != 404:
                raise
            raise DecodeError(PROTOCOL, str(error), 1, part) from error

    def _checksum(self, table: TableSchema, record: Record, *, deleted: bool) -> Checksum | None:
        """The row's checksum, if it is right; wrong ones are refused or marked as the options say."""
        stated = record.extension.get(CHECKSUM)
        if stated is None:
            return None
        corrupted = record.extension.get(CORRUPTED, False)
        if self.options.integrity_check_level is IntegrityCheck.CORRECTNESS:
            damage = "the sender found it corrupted" if corrupted else self._damage(table, record.row, stated)
            if damage is not None and self.options.corruption_handle_level is CorruptionHandling.ERROR:
                raise DecodeError(PROTOCOL, f"a change of {table.name}: {damage}", None, "value")
            corrupted = damage is not None
        version = record.extension.get(CHECKSUM_VERSION, 0)
        current, previous = (0, stated) if deleted else (stated, 0)
        return Checksum(version, corrupted, current, previous)

    def _damage(self, table: TableSchema, row: Row, stated: int) -> str | None:
        if stated == 0:
            return None
        try:
            computed = row_checksum(table.columns, row, self.options.time_zone)
        except ValueError as error:
            return str(error)
        return None if computed == stated else f"the row's checksum is {computed}, the message says {stated}"


def table_of(layout: Layout, key: Layout | None) -> TableSchema:
    names = frozenset() if key is None else {column.name for column in key.columns}
    columns = (
        replace(column, handle_key=column.name in names, primary_key=column.name in names) for column in layout.columns
    )
    return TableSchema(layout.table, tuple(columns))


def _images(record: Record) -> tuple[Row | None, Row | None]:
    """The row before and after. An update may not tell what was before: no column then, but not no row."""
    match record.extension.get(OP):
        case Op.INSERT if record.before is not None:
            raise DecodeError(PROTOCOL, "an insert with a row before", None, "value")
        case Op.UPDATE:
            return record.before or {}, record.row
        case Op.DELETE:
            return record.before or record.row, None
    return record.before, record.row


def _ts(value: bytes) -> int:
    """The ts of a watermark or a delete marker."""
    if len(value) != CONTROL.size:
        raise DecodeError(PROTOCOL, f"{len(value)} bytes, {CONTROL.size} were expected", 0, "value")
    return int(CONTROL.unpack(value)[1])


def _ddl(value: bytes) -> Ddl:
    reader = Reader(read_json(value[1:], PROTOCOL, base=1, objects=once), PROTOCOL, "value")
    return Ddl(
        TableName(reader.string("schema"), reader.string("table")),
        reader.integer("commitTs"),
        reader.string("query"),
        reader.integer("type", bits=8),
    )
