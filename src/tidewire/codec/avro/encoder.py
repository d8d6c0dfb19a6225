"""Events to Avro messages, byte for byte as the new-architecture server writes them."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import lru_cache
from itertools import chain
from typing import Any, assert_never

from tidewire.codec.avro.binary import Writer, field_schema, record, record_schema
from tidewire.codec.avro.layout import read_layout
from tidewire.codec.avro.names import (
    BEFORE,
    CHECKSUM,
    CHECKSUM_VERSION,
    COMMIT_TS,
    CORRUPTED,
    OP,
    PHYSICAL_TIME,
    subject,
    topic_of,
)
from tidewire.codec.avro.schema import (
    ENCODE_FAILED,
    EXTENSION_TYPES,
    AvroField,
    RecordSchema,
    bit_length,
    extension_fields,
    key_schema,
    scale,
    value_schema,
)
from tidewire.codec.avro.wire import CONTROL, HEADER, PROTOCOL, AvroType, Kind, signed
from tidewire.codec.base import Resources
from tidewire.codec.checksum import row_checksum
from tidewire.codec.gotext import STANDARD
from tidewire.codec.options import Options
from tidewire.codec.size_limits import RECORD_OVERHEAD
from tidewire.errors import EncodeError, MessageTooLarge
from tidewire.model import (
    Bootstrap,
    Checksum,
    Column,
    Ddl,
    Event,
    Generated,
    Message,
    MySQLType,
    Op,
    Row,
    RowChange,
    TableName,
    TableSchema,
    Watermark,
)
from tidewire.model.tso import physical_ms
from tidewire.model.types import FLOATS, INTEGERS, STRINGS, TEMPORAL, TEXTS
from tidewire.model.values import enum_text, float32, set_text
from tidewire.registry.memory import MemoryRegistry

_TO_BINARY = "CDC:ErrAvroEncodeToBinary"
_CACHED = 1000  # schemas of tables; more tables than a changefeed has at once
OP_LETTERS: Mapping[Op, bytes] = {Op.INSERT: b"c", Op.UPDATE: b"u", Op.DELETE: b"d"}


@dataclass(frozen=True, slots=True)
class Registered:
    """A schema that has an id, the columns it was made of, and the writer of its records."""

    columns: tuple[Column, ...]
    id: int
    text: str
    fields: tuple[AvroField, ...]
    writer: Writer

    def framed(self, values: Iterable[Any]) -> bytes:
        """A record of these values behind the schema's id."""
        return HEADER.pack(Kind.RECORD, self.id) + self.writer.write(record(values))


class Encoder:
    """Events to messages, one each. Schemas are registered as they come up.

    Without a registry the ids are the encoder's own, and only :attr:`registry` can tell what they mean.
    """

    def __init__(self, options: Options = Options(), resources: Resources = Resources()) -> None:
        self.options = options
        self.resources = resources
        self.registry = MemoryRegistry() if resources.registry is None else resources.registry
        self._extension = extension_fields(options)
        self._schemas: dict[tuple[str, TableName, int | None], Registered] = {}
        self._layout = lru_cache(_CACHED)(read_layout)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.options, replace(self.resources, registry=self.registry))

    def encode(self, events: Iterable[Event]) -> Iterator[Message]:
        """The messages these events make, in order. Without watermarks a DDL or a watermark makes none."""
        controls = self.options.enable_tidb_extension and self.options.avro_enable_watermark
        for event in events:
            match event:
                case RowChange():
                    yield self._row(event)
                case Ddl():
                    if controls:
                        yield Message(None, _ddl(event))
                case Watermark(ts):
                    if controls:
                        yield Message(None, CONTROL.pack(Kind.WATERMARK, _tso(ts, "a watermark")))
                case Bootstrap():
                    raise EncodeError(PROTOCOL, "cannot say BOOTSTRAP: schemas are in the registry")
                case _:
                    assert_never(event)

    def _row(self, event: RowChange) -> Message:
        message = Message(self._key(event), self._value(event))
        length = len(message.key or b"") + len(message.value or b"") + RECORD_OVERHEAD
        if length > self.options.max_message_bytes:
            raise MessageTooLarge(PROTOCOL, str(event.table.name), length, self.options.max_message_bytes)
        return message

    def _key(self, event: RowChange) -> bytes | None:
        row = event.before if event.after is None else event.after
        schema = self.registered("key", event.table, key_schema)
        return None if schema is None or row is None else schema.framed(_columns(schema, row))

    def _value(self, event: RowChange) -> bytes | None:
        if event.op is Op.DELETE and not self.options.avro_include_before_value:
            if not (self.options.enable_tidb_extension and self.options.avro_enable_watermark):
                return None
            return CONTROL.pack(Kind.DELETE, _commit_ts(event))
        schema = self.registered("value", event.table, value_schema)
        row = event.before if event.after is None else event.after
        assert schema is not None
        assert row is not None
        return schema.framed(chain(_columns(schema, row), self._about(event, schema)))

    def _about(self, event: RowChange, schema: Registered) -> Iterator[Any]:
        """The values of the fields after the columns."""
        checksum = self._checksum(event, schema) if CHECKSUM in self._extension else Checksum()
        for name in self._extension:
            yield _EXTENSION[name](event, schema, checksum)

    def _checksum(self, event: RowChange, schema: Registered) -> Checksum:
        """The event's own checksum, or that of the row which is sent."""
        checksum = event.checksum
        if checksum is not None:
            if not -1 << 31 <= checksum.version < 1 << 31:
                raise EncodeError(PROTOCOL, f"a change of {event.table.name} with a checksum of no known version")
            return checksum
        if event.after is None:
            return Checksum(previous=self._crc(event, schema, event.before or {}))
        return Checksum(current=self._crc(event, schema, event.after))

    def _crc(self, event: RowChange, schema: Registered, row: Row) -> int:
        """The checksum of a row as its reader will see it: with the scale of its DECIMALs, without virtual columns."""
        try:
            layout = self._layout(schema.text, schema.id)
            seen = {
                slot.name: None if raw is None else slot.interpret(raw)
                for slot, raw in zip(layout.slots, _columns(schema, row), strict=False)
            }
            return row_checksum(layout.columns, seen, self.options.time_zone)
        except (ValueError, OverflowError) as error:
            raise EncodeError(PROTOCOL, f"a change of {event.table.name}: {error}", ENCODE_FAILED) from error

    def registered(
        self, part: str, table: TableSchema, schema_of: Callable[[TableSchema, Options], RecordSchema | None]
    ) -> Registered | None:
        """A table's schema for keys or values, registered if needed; ``None`` if the table has no key columns."""
        key = (part, table.name, table.version)
        known = self._schemas.get(key)
        if known is not None and known.columns == table.columns:
            return known
        schema = schema_of(table, self.options)
        if schema is None:
            return None
        writer = self._writer(part, schema.fields)
        topic = self.options.topic or topic_of(table.name)
        schema_id = self.registry.register(subject(topic, part), schema.text)
        known = Registered(table.columns, schema_id, schema.text, schema.fields, writer)
        if len(self._schemas) >= _CACHED:
            del self._schemas[next(iter(self._schemas))]
        self._schemas[key] = known
        return known

    def _writer(self, part: str, fields: Iterable[AvroField]) -> Writer:
        columns = [field_schema(field.type, field.null_at) for field in fields]
        before = field_schema(record_schema(columns, "before"), null_at=0)
        extension = (
            before if name == BEFORE else field_schema(EXTENSION_TYPES[name])
            for name in (self._extension if part == "value" else ())
        )
        return Writer(record_schema([*columns, *extension]))


def _commit_ts(event: RowChange) -> int:
    return _tso(event.commit_ts, f"a change of {event.table.name}")


def _tso(ts: int | None, described: str) -> int:
    if ts is None:
        raise EncodeError(PROTOCOL, f"{described} without a commit ts")
    if not 0 <= ts < 1 << 64:
        raise EncodeError(PROTOCOL, f"{described} at {ts}, which is no 64-bit ts")
    return ts


_EXTENSION: Mapping[str, Callable[[RowChange, Registered, Checksum], Any]] = {
    BEFORE: lambda event, schema, _: _before(event, schema),
    OP: lambda event, *_: OP_LETTERS[event.op],
    COMMIT_TS: lambda event, *_: signed(_commit_ts(event)),
    PHYSICAL_TIME: lambda event, *_: physical_ms(_commit_ts(event)),
    CHECKSUM: lambda event, _, checksum: b"%d" % (checksum.previous if event.op is Op.DELETE else checksum.current),
    CORRUPTED: lambda _, __, checksum: checksum.corrupted,
    CHECKSUM_VERSION: lambda _, __, checksum: checksum.version,
}


def _ddl(event: Ddl) -> bytes:
    commit_ts = _tso(event.commit_ts, f"the DDL {event.query!r}")
    query, schema, table = map(STANDARD.quote, (event.query, *event.table))
    return b'%c{"query":%s,"type":%d,"schema":%s,"table":%s,"commitTs":%d}' % (
        Kind.DDL, query, event.type or 0, schema, table, commit_ts,
    )  # fmt: skip


def _before(event: RowChange, schema: Registered) -> Any:
    """The old row, if it is known whole: a record cannot leave columns out."""
    row = event.before
    if not row or (event.after is not None and not event.after.keys() <= row.keys()):
        return None
    return record(_columns(schema, row))


def _columns(schema: Registered, row: Row) -> Iterator[Any]:
    """The row's values as Avro has them."""
    return (column_value(field, row) for field in schema.fields)


def column_value(field: AvroField, row: Row) -> Any:
    """A row's value of a column as Avro has it."""
    column = field.column
    # Rows have no values of virtual columns; the server writes NULL for them.
    value = None if column.generated is Generated.VIRTUAL else row.get(column.name, _ABSENT)
    if value is _ABSENT:
        raise EncodeError(PROTOCOL, f"{_described(column)} is not in the row", ENCODE_FAILED)
    if value is None:
        if field.null_at is None:
            raise EncodeError(PROTOCOL, f"{_described(column)} is NULL but must not be", _TO_BINARY)
        return None
    try:
        return _FITTING[field.type](_VALUES[column.type](field, value))
    except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, struct.error) as error:
        raise EncodeError(PROTOCOL, f"{_described(column)} cannot hold {value!r}: {error}", ENCODE_FAILED) from error


_ABSENT: Any = object()


def _integer(bits: int) -> Callable[[int], int]:
    def fitting(number: int) -> int:
        if not -1 << bits - 1 <= operator.index(number) < 1 << bits - 1:
            raise OverflowError(f"{number} does not fit {bits} bits")
        return int(number)

    return fitting


_FITTING: Mapping[AvroType, Callable[[Any], Any]] = {
    "int": _integer(32),
    "long": _integer(64),
    "float": float32,
    "double": lambda number: number.__float__(),  # which text does not have, though float() takes it
    "bytes": bytes,
    "string": bytes,
}
"""A value as the Avro type holds it, or an error; fastavro would cut off what is too much."""


def _described(column: Column) -> str:
    return f"column {column.name} ({column.mysql_type})"


def _number(field: AvroField, value: int) -> int | bytes:
    if field.type == "string":
        return b"%d" % value
    return signed(value) if field.type == "long" and _is_unsigned_bigint(field.column) else value


def _is_unsigned_bigint(column: Column) -> bool:
    return column.unsigned and column.type is MySQLType.BIGINT


def _decimal(field: AvroField, value: Decimal) -> bytes:
    if not value.is_finite() or abs(value.adjusted()) > _DIGITS:
        raise ValueError(f"not a number of at most {_DIGITS} digits")
    if field.type == "string":
        return format(value, "f").encode()
    numerator, denominator = value.as_integer_ratio()
    unscaled: int = numerator * 10 ** scale(field.column) // denominator
    return shortest(unscaled)


def shortest(number: int) -> bytes:
    """The shortest two's complement: one more bit than the magnitude needs, for the sign."""
    bits = (number if number >= 0 else ~number).bit_length() + 1
    return number.to_bytes((bits + 7) // 8, "big", signed=True)


_DIGITS = 65  # the longest DECIMAL there is


def _bit(field: AvroField, value: int) -> bytes:
    width = max(bit_length(field.column), value.bit_length())
    return value.to_bytes((width + 7) // 8, "big")


def _string(_: AvroField, value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else memoryview(value).tobytes()


def _enum(field: AvroField, value: Any) -> bytes:
    return _known(enum_text(value.index, field.column.elements) if value.index else None, value.index)


def _set(field: AvroField, value: Any) -> bytes:
    return _known(set_text(value.index, field.column.elements), value.index)


def _known(text: str | None, index: int) -> bytes:
    if text is None:
        raise ValueError(f"no name for {index}")
    return text.encode()


_VALUES: Mapping[MySQLType, Callable[[AvroField, Any], Any]] = {
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, _number),
    **dict.fromkeys(FLOATS, lambda _, value: value),
    **dict.fromkeys(STRINGS | TEXTS, _string),
    **dict.fromkeys(TEMPORAL, lambda _, value: value.text.encode()),
    MySQLType.DECIMAL: _decimal,
    MySQLType.BIT: _bit,
    MySQLType.ENUM: _enum,
    MySQLType.SET: _set,
}
