"""Whole columns to Avro messages.

A record is its fields one after the other, so each column's bytes are made at once and joined row by row. Schemas are
the codec's: it makes them, registers them and knows what their fields hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.policy import Policy
from tidewire.arrow.to_model import to_model
from tidewire.arrow.types import arrow_type
from tidewire.arrow.write.binary_pieces import counted, either, floats, longs, mapped, raw, varints, zigzag
from tidewire.arrow.write.operations import Changes, changes_of, together
from tidewire.arrow.write.pieces import LEFT_TO_CODEC, Piece, joined
from tidewire.arrow.write.texts import PLAIN
from tidewire.codec import Options, Resources
from tidewire.codec.avro.encoder import OP_LETTERS, Encoder, Registered, column_value, shortest
from tidewire.codec.avro.names import BEFORE, CHECKSUM, COMMIT_TS, OP, PHYSICAL_TIME
from tidewire.codec.avro.schema import AvroField, extension_fields, key_schema, value_schema
from tidewire.codec.avro.wire import CONTROL, HEADER, Kind
from tidewire.codec.size_limits import RECORD_OVERHEAD
from tidewire.model import Generated, MySQLType, Op, TableSchema
from tidewire.model.tso import LOGICAL_BITS
from tidewire.model.types import STRINGS, TEMPORAL

Columns = Mapping[str, pa.Array]
Pieces = Callable[[pa.Array], Sequence[Piece]]

_BRANCHES = (b"\0", b"\2")
"""The first and the second branch of a union."""


class Writer:
    """Turns the rows of one table into messages, one each."""

    def __init__(self, table: TableSchema, options: Options, policy: Policy, resources: Resources) -> None:
        self._table, self._options, self._policy = table, options, policy
        self._encoder = Encoder(options, resources)
        self._extension = extension_fields(options)
        self._pieces: dict[AvroField, Pieces] = {}

    def write(self, rows: pa.RecordBatch) -> tuple[list[bytes | None], list[bytes | None]] | None:
        """The messages' keys and values; ``None`` where the rows are for the codec, as those with checksums are."""
        if CHECKSUM in self._extension:
            return None
        if not rows.num_rows:
            return [], []
        try:
            apart, order = changes_of(self._table, rows)
            written = [(self._keys(changes), self._values(changes)) for changes in apart]
            keys, values = (together(parts, order) for parts in zip(*written, strict=True))
        except LEFT_TO_CODEC:
            return None
        size = pc.add(pc.binary_length(keys).fill_null(0), pc.binary_length(values).fill_null(0))
        if pc.max(size).as_py() + RECORD_OVERHEAD > self._options.max_message_bytes:
            return None
        return keys.to_pylist(), values.to_pylist()

    def _keys(self, changes: Changes) -> pa.BinaryArray:
        schema = self._encoder.registered("key", self._table, key_schema)
        if schema is None:
            return pa.nulls(len(changes), pa.binary())
        return joined([_frame(schema), *self._record(schema, changes.row)], len(changes))

    def _values(self, changes: Changes) -> pa.BinaryArray:
        options = self._options
        if changes.op is Op.DELETE and not options.avro_include_before_value:
            if not (options.enable_tidb_extension and options.avro_enable_watermark):
                return pa.nulls(len(changes), pa.binary())
            return pa.array([CONTROL.pack(Kind.DELETE, ts) for ts in changes.commit_ts.to_pylist()], pa.binary())
        schema = self._encoder.registered("value", self._table, value_schema)
        assert schema is not None
        record = self._record(schema, changes.row)
        extension: Mapping[str, Callable[[], Sequence[Piece]]] = {
            BEFORE: lambda: self._before(schema, changes),
            OP: lambda: [b"\2" + OP_LETTERS[changes.op]],
            COMMIT_TS: lambda: varints(zigzag(changes.commit_ts)),
            PHYSICAL_TIME: lambda: varints(zigzag(pc.shift_right(changes.commit_ts, _LOGICAL_BITS))),
        }
        about = (piece for name in self._extension for piece in extension[name]())
        return joined([_frame(schema), *record, *about], len(changes))

    def _before(self, schema: Registered, changes: Changes) -> Sequence[Piece]:
        if changes.op is Op.INSERT:
            return [_BRANCHES[0]]
        return [_BRANCHES[1], *self._record(schema, changes.before)]

    def _record(self, schema: Registered, columns: Columns) -> Sequence[Piece]:
        return [piece for field in schema.fields for piece in self._field(field, columns[field.column.name])]

    def _field(self, field: AvroField, values: pa.Array) -> Sequence[Piece]:
        pieces = self._pieces.get(field)
        if pieces is None:
            pieces = self._pieces[field] = _pieces(field, self._policy)
        if field.column.generated is Generated.VIRTUAL:
            values = pa.nulls(len(values), values.type)
        if field.null_at is None:
            return either(values, pieces, None)
        branch = _BRANCHES[1 - field.null_at]
        return either(values, lambda known: [branch, *pieces(known)], _BRANCHES[field.null_at])


_LOGICAL_BITS = pa.scalar(LOGICAL_BITS, pa.uint64())


def _frame(schema: Registered) -> bytes:
    return HEADER.pack(Kind.RECORD, schema.id)


def _pieces(field: AvroField, policy: Policy) -> Pieces:
    """How a column's values become Avro's, NULL left aside."""
    column = field.column
    if column.type in TEMPORAL:
        text = PLAIN[column.type](column, policy)
        return lambda values: counted(text(values))
    if column.type in _TEXTS:
        return counted
    if column.type is MySQLType.DECIMAL and field.type == "bytes" and pa.types.is_decimal(arrow_type(column)):
        return lambda values: counted(mapped(raw(values), _unscaled))
    if field.type in _NUMBERS:
        return _NUMBERS[field.type]
    model = to_model(column, policy.time_zone)
    return lambda values: counted(mapped(values, lambda value: column_value(field, {column.name: model(value)})))


_TEXTS = STRINGS | {MySQLType.JSON}
"""Types whose values Arrow has in the very bytes of the wire."""


def _unscaled(word: bytes) -> bytes:
    """A DECIMAL as Avro has it, out of the 128 bits that Arrow keeps."""
    return shortest(int.from_bytes(word, "little", signed=True))


_NUMBERS: Mapping[str, Pieces] = {
    **dict.fromkeys(("int", "long"), longs),
    **dict.fromkeys(("float", "double"), floats),
}
