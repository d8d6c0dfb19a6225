"""Of what an Avro message is made.

A record is its fields one after the other. Schemas are the codec's: it makes them, registers them and knows what their
fields hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidewire.arrow.encode.native import Frame, RowTemplate, Shape, fact, row_size
from tidewire.arrow.encode.parts import PLAIN, Around, Format, NotOnFastPath, Part, Value, format_of, names
from tidewire.codec import Options, Resources
from tidewire.codec.avro.encoder import OP_LETTERS, Encoder, Registered
from tidewire.codec.avro.names import BEFORE, CHECKSUM, COMMIT_TS, OP, PHYSICAL_TIME
from tidewire.codec.avro.schema import AvroField, bit_length, extension_fields, key_schema, scale, value_schema
from tidewire.codec.avro.wire import HEADER, Kind
from tidewire.codec.craft.varint import varint
from tidewire.model import Generated, MySQLType, Op, TableSchema
from tidewire.model.types import STRINGS, TEMPORAL

_BRANCHES = (varint(0), varint(1))
"""The first and the second branch of a union."""

_LONG = Format("zigzag")


class Template(RowTemplate):
    """The messages of one table, one for each row."""

    facts = ("unsigned commit ts", "physical")

    def __init__(self, table: TableSchema, options: Options, resources: Resources) -> None:
        self._table, self._options = table, options
        self._encoder = Encoder(options, resources)
        self._extension = extension_fields(options)
        if CHECKSUM in self._extension:
            raise NotOnFastPath
        self._numbers = {column: number for number, column in enumerate(table.columns)}
        self._frame = Frame(row_size(options))

    def _shape(self, op: Op) -> Shape:
        row, options = "before" if op is Op.DELETE else "after", self._options
        schema = self._encoder.registered("key", self._table, key_schema)
        key = None if schema is None else [_head(schema), *self._record(schema, row)]
        if op is Op.DELETE and not options.avro_include_before_value:
            if not (options.enable_tidb_extension and options.avro_enable_watermark):
                return key, None
            return key, [bytes([Kind.DELETE]), fact(self.facts, "unsigned commit ts", format_=Format("big"))]
        schema = self._encoder.registered("value", self._table, value_schema)
        assert schema is not None
        return key, [_head(schema), *self._record(schema, row), *self._about(schema, op)]

    def _about(self, schema: Registered, op: Op) -> Iterator[Part]:
        """The fields after the columns."""
        for name in self._extension:
            match name:
                case str() if name == BEFORE:
                    yield _BRANCHES[op is not Op.INSERT]
                    if op is not Op.INSERT:
                        yield from self._record(schema, "before")
                case str() if name == OP:
                    yield varint(len(OP_LETTERS[op])) + OP_LETTERS[op]
                case str() if name == COMMIT_TS:
                    yield fact(self.facts, "unsigned commit ts", format_=_LONG)
                case str() if name == PHYSICAL_TIME:
                    yield fact(self.facts, "physical", format_=_LONG)

    def _record(self, schema: Registered, row: str) -> Iterator[Part]:
        for field in schema.fields:
            yield self._field(field, row)

    def _field(self, field: AvroField, row: str) -> Part:
        null = None if field.null_at is None else _BRANCHES[field.null_at]
        if field.column.generated is Generated.VIRTUAL:
            if null is None:
                raise NotOnFastPath
            return null
        before = b"" if field.null_at is None else _BRANCHES[1 - field.null_at]
        counted = field.type in ("bytes", "string")
        return Value((row, self._numbers[field.column]), _format(field), Around(before, null), counted)


def _head(schema: Registered) -> bytes:
    return HEADER.pack(Kind.RECORD, schema.id)


def _format(field: AvroField) -> Format:
    """How a column's values become Avro's, NULL left aside."""
    column = field.column
    if column.type in STRINGS | {MySQLType.JSON}:
        return Format("raw")
    if column.type is MySQLType.DECIMAL and field.type == "bytes":
        return Format("unscaled", scale(column))
    if column.type is MySQLType.BIT:
        return Format("bit bytes", (bit_length(column) + 7) // 8)
    if column.type is MySQLType.ENUM and column.elements:
        return Format("enum name", texts=[b"", *names(column)])
    if column.type is MySQLType.SET and column.elements:
        return Format("set names", texts=names(column))
    if field.type == "string" and column.type in _TEXTS:
        return format_of(column, PLAIN)
    return Format(_NUMBERS[field.type])


_TEXTS = TEMPORAL | {MySQLType.DECIMAL, MySQLType.VECTOR, MySQLType.BIGINT}
"""Types whose values may be written as text."""

_NUMBERS: Mapping[str, str] = {
    **dict.fromkeys(("int", "long"), "zigzag"),
    "float": "float bits",
    "double": "double bits",
}
