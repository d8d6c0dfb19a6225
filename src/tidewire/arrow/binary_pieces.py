"""What the binary writers share: whole columns to bytes, by compiled calls.

A column becomes *pieces*: arrays of bytes, and constants that are the same in every row. A message is all its pieces
in order, which one call of Arrow joins for all rows. A piece that is null makes the whole of its column null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.convert import Policy, finite
from tidewire.arrow.types import arrow_type
from tidewire.codec.craft.varint import uvarint
from tidewire.errors import EncodeError
from tidewire.model import Column, MySQLType, Op, TableSchema

Piece: TypeAlias = pa.Array | bytes

NOT_COVERED: Final = (EncodeError, ValueError, TypeError, LookupError, ArithmeticError, pa.ArrowException)
"""What a writer may stumble over: it leaves such rows to the codec, which has a proper error or a way."""

_CHUNK: Final = 14
_CHUNK_MASK: Final = (1 << _CHUNK) - 1


def joined(pieces: Iterable[Piece], rows: int) -> pa.BinaryArray:
    """Each row's pieces in one."""
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, bytes) and merged and isinstance(merged[-1], bytes):
            merged[-1] += piece
        else:
            merged.append(piece)
    if all(isinstance(piece, bytes) for piece in merged):
        return pa.array([b"".join(merged)] * rows, pa.binary())
    return pc.binary_join_element_wise(*merged, b"")


def either(values: pa.Array, pieces: Callable[[pa.Array], Sequence[Piece]], absent: bytes | None) -> Sequence[Piece]:
    """A column's pieces, where NULL is written as ``absent``; ``ValueError`` if there is a NULL and it cannot be."""
    if not values.null_count:
        return pieces(values)
    if absent is None:
        raise ValueError("NULL in a column that must not be NULL")
    if values.null_count == len(values):
        return [absent]
    return [joined(pieces(values), len(values)).fill_null(absent)]


def varints(numbers: pa.UInt64Array) -> Sequence[pa.BinaryArray]:
    """Unsigned integers, seven bits to a byte, the lowest first; two bytes at a time are looked up."""
    highest = pc.max(numbers).as_py() or 0
    table, pieces = _tables()[0], []
    while highest > _CHUNK_MASK:
        more = pc.if_else(pc.greater(numbers, _word(_CHUNK_MASK)), _word(1 << _CHUNK), _word(0))
        pieces.append(table.take(pc.bit_wise_or(pc.bit_wise_and(numbers, _word(_CHUNK_MASK)), more)))
        numbers, highest, table = pc.shift_right(numbers, _word(_CHUNK)), highest >> _CHUNK, _tables()[1]
    return [*pieces, table.take(numbers)]


def _word(number: int) -> pa.Scalar:
    return pa.scalar(number, pa.uint64())


@cache
def _tables() -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """The bytes of an integer's lowest chunk and of a later one: first where it is the last, then where more follow.

    A later chunk of zero with nothing behind it is no chunk.
    """
    last = [uvarint(number) for number in range(1 << _CHUNK)]
    full = [bytes((number & 0x7F | 0x80, number >> 7 | 0x80)) for number in range(1 << _CHUNK)]
    return pa.array([*last, *full], pa.binary()), pa.array([b"", *last[1:], *full], pa.binary())


def zigzag(numbers: pa.Array) -> pa.UInt64Array:
    """Signed integers as unsigned ones that stay small: 0, -1, 1, -2 become 0, 1, 2, 3."""
    wide = numbers.cast(pa.int64())
    zero, one, ones = (pa.scalar(number, pa.int64()) for number in (0, 1, -1))
    return pc.bit_wise_xor(pc.shift_left(wide, one), pc.if_else(pc.less(wide, zero), ones, zero)).view(pa.uint64())


def lengths(values: pa.BinaryArray) -> pa.UInt64Array:
    """How many bytes each value has."""
    return pc.binary_length(values).cast(pa.uint64())


def counted(values: pa.Array) -> Sequence[Piece]:
    """Avro's bytes and strings: a length, zigzagged as all integers are, and what it counts."""
    data = values.cast(pa.binary())
    return [*varints(pc.shift_left(lengths(data), _word(1))), data]


def raw(values: pa.Array) -> pa.BinaryArray:
    """The bytes of numbers as they are in memory, the lowest first."""
    return values.view(pa.binary(values.type.bit_width // 8)).cast(pa.binary())


def longs(values: pa.Array) -> Sequence[Piece]:
    """Avro's integers; the unsigned ones of 64 bits become the signed ones with the same bits."""
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.uint64()).view(pa.int64())
    return varints(zigzag(values))


def floats(values: pa.Array) -> Sequence[Piece]:
    """Avro's floats and doubles."""
    return [raw(finite(values))]


def mapped(values: pa.Array, write: Callable[[Any], bytes | None]) -> pa.BinaryArray:
    """Values that only Python can write, equal ones once."""
    if pa.types.is_list(values.type):
        return pa.array([None if value is None else write(value) for value in values.to_pylist()], pa.binary())
    encoded = values.dictionary_encode()
    return pa.array([write(value) for value in encoded.dictionary.to_pylist()], pa.binary()).take(encoded.indices)


def decimal_text(otherwise: Callable[[pa.Array], pa.BinaryArray]) -> Callable[[pa.Array], pa.BinaryArray]:
    """Writes DECIMALs as text, and those ``otherwise`` that Arrow has as text or would write with an exponent."""

    def write(values: pa.Array) -> pa.BinaryArray:
        if not pa.types.is_decimal(values.type):
            return otherwise(values)
        texts = values.cast(pa.string())
        if pc.any(pc.match_substring(texts, "E")).as_py():
            return otherwise(values)
        return texts.cast(pa.binary())

    return write


def temporal_text(column: Column, policy: Policy) -> Callable[[pa.Array], pa.StringArray] | None:
    """How a column's dates or times become MySQL's text; ``None`` for columns that hold neither."""
    make = _TEXTS.get(column.type)
    return None if make is None else make(column, policy)


def _dates(_: Column, __: Policy) -> Callable[[pa.Array], pa.StringArray]:
    return lambda values: _within_calendar(values).cast(pa.string())


def _datetimes(column: Column, _: Policy) -> Callable[[pa.Array], pa.StringArray]:
    return lambda values: _shortened(_within_calendar(values).cast(pa.string()), len("2024-02-29 12:00:00"), column)


def _timestamps(column: Column, policy: Policy) -> Callable[[pa.Array], pa.StringArray]:
    write, zone = _datetimes(column, policy), pa.timestamp("us", policy.time_zone)

    def local(values: pa.Array) -> pa.StringArray:
        first, last = pc.min_max(values).as_py().values()
        if policy.time_zone != "UTC" and first is not None and not (_FIRST_YEAR <= first.year <= last.year < _END_YEAR):
            raise ValueError("a TIMESTAMP that MySQL does not have")
        return write(pc.local_timestamp(values.cast(zone)))

    return local


_FIRST_YEAR: Final = 1970
_END_YEAR: Final = 2038
"""The years that Arrow and Python agree about in every zone: the former knows no daylight saving time thereafter."""


def _times(column: Column, _: Policy) -> Callable[[pa.Array], pa.StringArray]:
    hour = pa.scalar(3_600_000_000, pa.int64())

    def write(micros: pa.Array) -> pa.StringArray:
        span = pc.abs_checked(micros)
        hours = pc.utf8_lpad(pc.divide(span, hour).cast(pa.string()), 2, "0")
        # As a moment of 1970 the span has its minutes and seconds where a clock shows them.
        clock = span.cast(pa.timestamp("us")).cast(pa.string())
        rest = _shortened(pc.utf8_slice_codeunits(clock, len("1970-01-01 00")), len(":00:00"), column)
        sign = pc.if_else(pc.less(micros, pa.scalar(0, pa.int64())), "-", "")
        return pc.binary_join_element_wise(sign, hours, rest, "")

    return write


def _within_calendar(values: pa.Array) -> pa.Array:
    """The values, if Python's calendar has them, or else the error that it raises."""
    pc.min_max(values).as_py()
    return values


def _shortened(texts: pa.StringArray, whole: int, column: Column) -> pa.StringArray:
    """Texts of six digits behind the point with the column's digits, or with as many as needed if it does not tell."""
    if column.decimal is None:
        return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    return pc.utf8_slice_codeunits(texts, 0, whole + column.decimal + bool(column.decimal))


_TEXTS: Mapping[MySQLType, Callable[[Column, Policy], Callable[[pa.Array], pa.StringArray]]] = {
    MySQLType.DATE: _dates,
    MySQLType.NEWDATE: _dates,
    MySQLType.DATETIME: _datetimes,
    MySQLType.TIMESTAMP: _timestamps,
    MySQLType.TIME: _times,
}


class Changes:
    """Rows of one kind of change: the columns of their images by name, and when they were committed."""

    def __init__(self, op: Op, rows: pa.RecordBatch) -> None:
        self.op = op
        self.rows = rows
        self.after = _columns(rows, "after") if op is not Op.DELETE else {}
        self.before = _columns(rows, "before") if op is not Op.INSERT else {}

    @property
    def row(self) -> Mapping[str, pa.Array]:
        """The new row, of a delete the old one."""
        return self.after or self.before

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def commit_ts(self) -> pa.UInt64Array:
        """When the changes were committed."""
        return commit_times(self.rows)


def commit_times(rows: pa.RecordBatch) -> pa.UInt64Array:
    """When the rows' changes were committed; ``ValueError`` where that is not known."""
    times = rows.column("_commit_ts")
    if times.null_count:
        raise ValueError("a change without a commit ts")
    return times.cast(pa.uint64())


def _columns(rows: pa.RecordBatch, image: str) -> Mapping[str, pa.Array]:
    struct = rows.column(image)
    return dict(zip((field.name for field in struct.type), struct.flatten(), strict=True))


def by_op(table: TableSchema, rows: pa.RecordBatch) -> tuple[Sequence[Changes], pa.Array | None]:
    """Rows apart by kind of change, and how they are put together again, if there are several kinds.

    ``ValueError`` where the rows are not whole rows of this table.
    """
    struct = pa.struct([pa.field(column.name, arrow_type(column)) for column in table.columns])
    images = [name for name in ("after", "before") if name in rows.schema.names]
    if not table.columns or "after" not in images or any(rows.schema.field(name).type != struct for name in images):
        raise ValueError("not the table's columns")
    partial = "_absent" in rows.schema.names and rows.column("_absent").null_count < rows.num_rows
    if partial or pc.any(rows.column("_key_only")).as_py():
        raise ValueError("partial rows")
    after = rows.column("after").is_valid()
    before = rows.column("before").is_valid() if "before" in images else pa.repeat(False, rows.num_rows)
    masks = {
        Op.INSERT: pc.and_not(after, before),
        Op.UPDATE: pc.and_(after, before),
        Op.DELETE: pc.and_not(before, after),
    }
    places = {op: pc.indices_nonzero(mask) for op, mask in masks.items()}
    if sum(map(len, places.values())) < rows.num_rows:
        raise ValueError("a change without a row")
    for op, place in places.items():
        if len(place) == rows.num_rows:
            return [Changes(op, rows)], None
    apart = [Changes(op, rows.take(place)) for op, place in places.items() if len(place)]
    return apart, pc.sort_indices(pa.concat_arrays([place for place in places.values() if len(place)]))


def together(parts: Sequence[pa.Array], order: pa.Array | None) -> pa.Array:
    """What was made of rows apart, in the order of the rows."""
    return parts[0] if order is None else pa.concat_arrays(parts).take(order)
