"""Whole columns to the texts that stand in messages, and messages out of such texts.

Everything is done by compiled calls on columns; single values are looked at only where they need it: long floats,
bytes that are no ASCII. :class:`Uncovered` says that a column has a value whose text only the codec knows.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.convert import Policy
from tidewire.arrow.types import arrow_type
from tidewire.codec import Options
from tidewire.codec.gotext import Quoting, plain_number
from tidewire.model import Column, MySQLType
from tidewire.model.types import FLOATS, INTEGERS

Text = Callable[[pa.Array], pa.Array]
"""Turns a column's values into texts; NULL stays NULL."""

Piece: TypeAlias = "str | pa.Array"
"""A part of every message: the same in all of them, or one text for each."""


class Uncovered(Exception):
    """These rows are for the codec."""


LEFT_TO_CODEC: Final = (Uncovered, pa.ArrowInvalid, pa.ArrowCapacityError, UnicodeError)
"""What a writer gives up on: also more text than an array holds, and names that are no text."""


@dataclass(frozen=True, slots=True)
class Cell:
    """How a column stands in an image: always with a head; its text, if it is not NULL, between opening and closing."""

    column: Column
    text: Text
    head: str
    opening: str = '"'
    closing: str = '"'
    tail: str = ""

    def pieces(self, values: pa.Array) -> list[Piece]:
        """The values in their surroundings; ``null`` for NULL."""
        texts = self.text(values)
        if not texts.null_count:
            return [self.head, self.opening, texts, self.closing, self.tail]
        enclosed = joined([self.opening, texts, self.closing], len(texts))
        return [self.head, pc.fill_null(enclosed, "null"), self.tail]


def joined(pieces: Iterable[Piece], rows: int) -> pa.StringArray:
    """The pieces of each row in one text, NULL where one of them is."""
    merged: list[Any] = [""]
    for piece in pieces:
        if isinstance(piece, str) and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    if len(merged) == 1:
        return pa.repeat(constant(merged[0]), rows)
    parts = (constant(piece) if isinstance(piece, str) else piece for piece in merged)
    return pc.binary_join_element_wise(*parts, _NOTHING)


def constant(value: str | int) -> pa.Scalar:
    """A value that is the same in all rows. Told the type Arrow is quicker than when it must find out."""
    return pa.scalar(value, pa.string() if isinstance(value, str) else pa.int64())


_NOTHING = constant("")


def listed(parts: Iterable[Iterable[Piece]]) -> Iterator[Piece]:
    """Parts with commas between them."""
    for number, part in enumerate(parts):
        if number:
            yield ","
        yield from part


def values_of(cells: Iterable[Cell], images: pa.StructArray) -> list[pa.Array]:
    """The values of some columns of images, if all are there with the types that these columns have in Arrow."""
    arrays = dict(zip((field.name for field in images.type), images.flatten(), strict=True))
    found = []
    for cell in cells:
        values = arrays.get(cell.column.name)
        if values is None or values.type != arrow_type(cell.column):
            raise Uncovered
        found.append(values)
    return found


def image(cells: Sequence[Cell], images: pa.StructArray) -> Iterator[Piece]:
    """The members of images with these columns."""
    return listed(map(Cell.pieces, cells, values_of(cells, images)))


def key_cells(cells: Sequence[Cell], options: Options) -> Sequence[Cell]:
    """The columns of a deleted row: all, or those of its key if the options say so."""
    if not options.delete_only_output_handle_key_columns:
        return cells
    found = [cell for cell in cells if cell.column.handle_key]
    if not found:
        raise Uncovered
    return found


def integers(values: pa.Array) -> pa.Array:
    """Integers in digits."""
    return pc.cast(values, pa.string())


def unsigned(values: pa.Array) -> pa.Array:
    """Integers that an unsigned column of 64 bits holds."""
    ends = pc.min_max(values).as_py()
    if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < 1 << 64:
        raise Uncovered
    return pc.cast(values, pa.string())


def floats(write: Callable[[float], str]) -> Text:
    """Floats by the shortest text; ``write`` prints those for which Arrow's has an exponent."""

    def text(values: pa.Array) -> pa.Array:
        if not pc.all(pc.is_finite(values), min_count=0).as_py():
            raise Uncovered
        texts = pc.cast(values, pa.string())
        long = pc.match_substring(texts, "e")
        if not pc.any(long, min_count=1).as_py():
            return texts
        return pc.replace_with_mask(texts, long, pa.array(map(write, values.filter(long).to_pylist()), pa.string()))

    return text


def plain_floats(column: Column, _: Policy) -> Text:
    """Floats without exponents."""
    single = column.type is MySQLType.FLOAT
    return floats(lambda number: plain_number(number, single=single))


def _decimals(column: Column, _: Policy) -> Text:
    return _decimal_texts if arrow_type(column) == pa.string() else _decimal_numbers


_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"


def _decimal_texts(values: pa.Array) -> pa.Array:
    if not pc.all(pc.match_substring_regex(values, _DECIMAL), min_count=0).as_py():
        raise Uncovered
    return values


def _decimal_numbers(values: pa.Array) -> pa.Array:
    texts = pc.cast(values, pa.string())
    tiny = pc.match_substring(texts, "E")
    if not pc.any(tiny, min_count=1).as_py():
        return texts
    plain = (format(number, "f") for number in values.filter(tiny).to_pylist())
    return pc.replace_with_mask(texts, tiny, pa.array(plain, pa.string()))


def _dates(_: Column, __: Policy) -> Text:
    return lambda values: pc.cast(_within_years(values), pa.string())


def _within(values: pa.Array, first: int, end: int) -> pa.Array:
    """Dates and times, if all are from the one second since the epoch on and before the other."""
    ends = pc.min_max(pc.cast(values, pa.timestamp("s"), safe=False).cast(pa.int64())).as_py()
    if ends["min"] is not None and not first <= ends["min"] <= ends["max"] < end:
        raise Uncovered
    return values


def _within_years(values: pa.Array) -> pa.Array:
    """Dates that surely have a year of four digits."""
    return _within(values, -62_104_060_800, 253_370_764_800)


def _moments(column: Column, _: Policy) -> Text:
    return lambda values: _shortened(pc.cast(_within_years(values), pa.string()), len("2024-02-29 12:00:00"), column)


def _timestamps(column: Column, policy: Policy) -> Text:
    text, zone = _moments(column, policy), pa.timestamp("us", policy.time_zone)
    if policy.time_zone == "UTC":
        return lambda values: text(pc.cast(values, pa.timestamp("us")))
    # Beyond what a TIMESTAMP holds Arrow and Python disagree on summer time.
    return lambda values: text(pc.local_timestamp(pc.cast(_within(values, 0, 1 << 31), zone)))


def _shortened(texts: pa.Array, whole: int, column: Column) -> pa.Array:
    """Texts with six digits behind the second's point cut to those the column has; without zeros if none is known."""
    if column.decimal is None:
        return pc.utf8_rtrim(pc.utf8_rtrim(texts, "0"), ".")
    return pc.utf8_slice_codeunits(texts, 0, whole + (column.decimal and 1 + column.decimal))


def _spans(column: Column, _: Policy) -> Text:
    def text(values: pa.Array) -> pa.Array:
        ends = pc.min_max(values).as_py()
        if ends["min"] is not None and max(-ends["min"], ends["max"]) >= 1 << 62:
            raise Uncovered
        size = pc.abs(values)
        hours = pc.divide(size, _HOUR)
        rest = pc.cast(pc.subtract(size, pc.multiply(hours, _HOUR)), pa.time64("us"))
        clock = pc.utf8_slice_codeunits(pc.cast(rest, pa.string()), 2)
        sign = pc.if_else(pc.less(values, _ZERO), _MINUS, _NOTHING)
        padded = pc.utf8_lpad(pc.cast(hours, pa.string()), 2, "0")
        return joined([sign, padded, _shortened(clock, len(":00:00"), column)], len(values))

    return text


_HOUR, _ZERO, _MINUS = constant(3_600_000_000), constant(0), constant("-")


def _enums(column: Column, _: Policy) -> Text:
    if not column.elements:
        return unsigned
    indexes = {name: str(number) for number, name in enumerate(("", *column.elements))}
    return lambda values: _looked_up(values, indexes)


def _looked_up(values: pa.Array, texts: Mapping[str, str]) -> pa.Array:
    places = pc.index_in(values, pa.array(texts, pa.string()))
    if places.null_count != values.null_count:
        raise Uncovered
    return pa.array(texts.values(), pa.string()).take(places)


def _sets(column: Column, _: Policy) -> Text:
    if not column.elements:
        return unsigned
    bits = {name: 1 << number for number, name in enumerate(column.elements)}

    def mask(value: str) -> str:
        try:
            return str(sum(bits[name] for name in value.split(",") if name))
        except KeyError:
            raise Uncovered from None

    return lambda values: _looked_up(
        values, {value: mask(value) for value in pc.unique(values).to_pylist() if value is not None}
    )


def _vectors(_: Column, __: Policy) -> Text:
    number = floats(lambda number: plain_number(number, single=True))

    def text(values: pa.Array) -> pa.Array:
        lengths = pc.list_value_length(values)
        flat = pc.list_flatten(values)
        if flat.null_count:
            raise Uncovered
        ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(pc.fill_null(lengths, 0))])
        lists = pa.ListArray.from_arrays(ends, number(flat), mask=pc.is_null(values))
        return joined(["[", pc.binary_join(lists, ","), "]"], len(values))

    return text


def always(text: Text) -> Callable[[Column, Policy], Text]:
    """A text that does not depend on the column."""
    return lambda _, __: text


def _unknown(_: pa.Array) -> pa.Array:
    raise Uncovered


PLAIN: Final[Mapping[MySQLType, Callable[[Column, Policy], Text]]] = {
    **dict.fromkeys(MySQLType, always(_unknown)),
    **dict.fromkeys(INTEGERS | {MySQLType.YEAR}, always(integers)),
    MySQLType.BIGINT: lambda column, _: unsigned if column.unsigned else integers,
    MySQLType.BIT: always(unsigned),
    **dict.fromkeys(FLOATS, plain_floats),
    MySQLType.DECIMAL: _decimals,
    **dict.fromkeys((MySQLType.DATE, MySQLType.NEWDATE), _dates),
    MySQLType.DATETIME: _moments,
    MySQLType.TIMESTAMP: _timestamps,
    MySQLType.TIME: _spans,
    MySQLType.ENUM: _enums,
    MySQLType.SET: _sets,
    MySQLType.VECTOR: _vectors,
}
"""The texts of every type that all protocols print alike and that need no escapes. Strings are the protocol's."""


def escaped(quoting: Quoting) -> Text:
    """Text as it stands between the quotes of a JSON string."""
    # A backslash comes first: the other escapes have one.
    escapes = [
        (chr(code).encode(), chr(code), quoting.escapes[code]) for code in sorted(quoting.escapes, key=_backslash)
    ]
    single = b"".join(raw for raw, _, _ in escapes if len(raw) == 1)
    longer = [raw for raw, _, _ in escapes if len(raw) > 1]

    def text(values: pa.Array) -> pa.Array:
        data = contents(values)
        if len(data.translate(None, single)) == len(data) and not any(raw in data for raw in longer):
            return values
        for raw, char, escape in escapes:
            if raw in data:
                values = pc.replace_substring(values, char, escape)
        return values

    return text


def _backslash(code: int) -> bool:
    return code != ord("\\")


def contents(values: pa.Array) -> bytes:
    """All texts or byte strings of an array in one."""
    _, offsets, data = values.buffers()
    if data is None or not len(values):
        return b""
    ends = memoryview(offsets).cast("i")
    return bytes(data[ends[values.offset] : ends[values.offset + len(values)]])


def each(write: Callable[[bytes], str]) -> Text:
    """Texts made value by value."""

    def text(values: pa.Array) -> pa.Array:
        return pa.array([None if value is None else write(value) for value in values.to_pylist()], pa.string())

    return text


base64_texts: Final = each(lambda data: base64.b64encode(data).decode())
"""Bytes in Base64, which needs no escapes."""
