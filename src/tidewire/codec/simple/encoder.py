"""Events to Simple messages, byte for byte as the new-architecture server writes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, assert_never

from tidewire.codec.base import Resources
from tidewire.codec.checksum import row_checksum
from tidewire.codec.columns import emitted_columns, handle_key_columns
from tidewire.codec.options import IntegrityCheck, LargeMessage, Options
from tidewire.codec.simple.formats import format_of
from tidewire.codec.simple.schema import table_to_wire
from tidewire.codec.simple.wire import BOOTSTRAP, OP_WORDS, PROTOCOL, VERSION, WATERMARK, Wire, kind_of_type
from tidewire.codec.size_limits import RECORD_OVERHEAD, Packing
from tidewire.errors import EncodeError, MessageTooLarge
from tidewire.model import (
    Bootstrap,
    Checksum,
    Column,
    Ddl,
    DdlKind,
    DdlType,
    Event,
    Message,
    Row,
    RowChange,
    TableSchema,
    Value,
    Watermark,
)
from tidewire.model.grammar import shown


class Encoder:
    """Events to messages, one each. It keeps no state: the caller must send a table's schema before its rows."""

    def __init__(self, options: Options = Options(), resources: Resources = Resources()) -> None:
        self.options = options
        self.resources = resources
        self._packing = Packing(PROTOCOL, options, resources)
        self._format = format_of(options)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.options, self.resources)

    def encode(self, events: Iterable[Event]) -> Iterator[Message]:
        """The messages these events make, in order."""
        for event in events:
            yield Message(None, self._value(event))

    def _value(self, event: Event) -> bytes:
        match event:
            case RowChange():
                return self._row(event)
            case Ddl():
                return self._limited(str(event.table), _ddl(event))
            case Watermark(ts):
                return self._pack({"type": WATERMARK, "commitTs": ts})
            case Bootstrap(schema):
                _required(schema.version, f"the schema of {schema.name} has no version, so no row could refer to it")
                return self._limited(str(schema.name), {"type": BOOTSTRAP, "tableSchema": table_to_wire(schema)})
            case _:
                assert_never(event)

    def _pack(self, message: Wire) -> bytes:
        try:
            value = self._format.dump({"version": VERSION, "buildTs": self.resources.clock(), **message})
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise EncodeError(PROTOCOL, f"cannot write a {message['type']} message: {error}") from error
        return self._packing.pack(value)

    def _limited(self, table: str, message: Wire) -> bytes:
        value = self._pack(message)
        if not self._fits(value):
            raise self._too_large(table, value)
        return value

    def _fits(self, value: bytes) -> bool:
        return len(value) + RECORD_OVERHEAD <= self.options.max_message_bytes

    def _too_large(self, table: str, value: bytes) -> MessageTooLarge:
        return MessageTooLarge(PROTOCOL, table, len(value) + RECORD_OVERHEAD, self.options.max_message_bytes)

    def _row(self, event: RowChange) -> bytes:
        """A row within the size limit, by whatever means are allowed."""
        table = str(event.table.name)
        value = self._pack(self._dml(event, event.table.columns))
        if self._fits(value):
            return value
        mark: Wire = {"handleKeyOnly": True}
        columns = handle_key_columns(event)
        match self.options.large_message_handle_option:
            case LargeMessage.NONE:
                raise self._too_large(table, value)
            case LargeMessage.HANDLE_KEY_ONLY:
                if not columns:
                    # The server sends such a row without any column, so a reader cannot tell which row it was.
                    raise EncodeError(PROTOCOL, f"a change of {table} is too large and the table has no handle key")
            case LargeMessage.CLAIM_CHECK:
                mark["claimCheckLocation"] = self._packing.check_in(Message(None, value))
        return self._limited(table, self._dml(event, columns) | mark)

    def _dml(self, event: RowChange, columns: Sequence[Column]) -> Wire:
        schema, table = event.table.name
        _required(event.table.version, f"a change of {event.table.name} without a schema version")
        images = {
            name: {column.name: self._column(column, row[column.name]) for column in emitted_columns(row, columns)}
            for name, row in (("data", event.after), ("old", event.before))
            if row is not None
        }
        return {
            "type": OP_WORDS[event.op],
            "database": schema,
            "table": table,
            "tableID": event.table_id or event.table.table_id or 0,
            "commitTs": _required(event.commit_ts, f"a change of {event.table.name} without a commit ts"),
            "schemaVersion": event.table.version,
            **({"handleKeyOnly": True} if event.handle_key_only else {}),
            **self._checksum(event),
            **images,
        }

    def _column(self, column: Column, value: Value) -> Any:
        if value is None:
            return None
        try:
            return self._format.write_value(column, value, self.options.time_zone)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise EncodeError(
                PROTOCOL, f"column {column.name} ({column.mysql_type}) cannot hold {shown(value)}: {error}"
            ) from error

    def _checksum(self, event: RowChange) -> Mapping[str, Wire]:
        if self.options.integrity_check_level is IntegrityCheck.NONE:
            return {}
        checksum = event.checksum
        if checksum is None and event.handle_key_only:
            return {}
        if checksum is None:
            try:
                checksum = Checksum(current=self._crc(event, event.after), previous=self._crc(event, event.before))
            except ValueError as error:
                raise EncodeError(PROTOCOL, f"a change of {event.table.name}: {error}") from error
        names = ("version", "corrupted", "current", "previous")
        return {"checksum": {name: getattr(checksum, name) for name in names}}

    def _crc(self, event: RowChange, row: Row | None) -> int:
        if row is None:
            return 0
        columns = event.table.columns
        if all(column.id is not None for column in columns):
            columns = tuple(sorted(columns, key=lambda column: column.id or 0))
        return row_checksum(emitted_columns(row, columns), row, self.options.time_zone)


def _ddl(event: Ddl) -> Wire:
    kind = event.kind or DdlKind.QUERY if event.type is None else kind_of_type(event.type)
    message: Wire = {
        "type": str(kind),
        "sql": event.query,
        "commitTs": _required(event.commit_ts, f"a DDL without a commit ts: {event.query}"),
    }
    # A DDL has no other place for the table's name than a schema, if need be one without columns.
    schema = event.table_schema or (TableSchema(event.table) if event.table.table else None)
    if schema is not None:
        message["tableSchema"] = table_to_wire(schema)
    # The new server knows a table before the DDL in one case only: the one a partition changed places with.
    if event.pre_table_schema is not None and event.type in (None, DdlType.EXCHANGE_TABLE_PARTITION):
        message["preTableSchema"] = table_to_wire(event.pre_table_schema)
    return message


def _required(number: int | None, otherwise: str) -> int:
    if number is None:
        raise EncodeError(PROTOCOL, otherwise)
    return number
