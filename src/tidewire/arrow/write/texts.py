"""Whole columns to the texts of their values, as all protocols print them.

Everything is done by compiled calls on columns; single values are looked at only where they need it, such as floats
with an exponent. :class:`~tidewire.arrow.write.pieces.NotOnFastPath` says that only the codec knows a value's text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.policy import Policy
from tidewire.arrow.types import arrow_type
from tidewire.arrow.write.pieces import NotOnFastPath, constant, joined
from tidewire.codec.gotext import plain_number
from tidewire.model import Column, MySQLType
from tidewire.model.types import FLOATS, INTEGERS

Text = Callable[[pa.Array], pa.Array]
"""Turns a column's values into texts; NULL stays NULL."""


def integers(values: pa.Array) -> pa.Array:
    """Integers in digits."""
    return pc.cast(values, pa.string())


def unsigned(values: pa.Array) -> pa.Array:
    """Integers that an unsigned column of 64 bits holds."""
    ends = pc.min_max(values).as_py()
    if ends["min"] is not None and not 0 <= ends["min"] <= ends["max"] < 1 << 64:
        raise NotOnFastPath
    return pc.cast(values, pa.string())


def floats(write: Callable[[float], str]) -> Text:
    """Floats by the shortest text; ``write`` prints those for which Arrow's has an exponent."""

    def text(values: pa.Array) -> pa.Array:
        if not pc.all(pc.is_finite(values), min_count=0).as_py():
            raise NotOnFastPath
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
        raise NotOnFastPath
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
        raise NotOnFastPath
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
            raise NotOnFastPath
        size = pc.abs(values)
        hours = pc.divide(size, _HOUR)
        rest = pc.cast(pc.subtract(size, pc.multiply(hours, _HOUR)), pa.time64("us"))
        clock = pc.utf8_slice_codeunits(pc.cast(rest, pa.string()), 2)
        sign = pc.if_else(pc.less(values, _ZERO), _MINUS, _NOTHING)
        padded = pc.utf8_lpad(pc.cast(hours, pa.string()), 2, "0")
        return joined([sign, padded, _shortened(clock, len(":00:00"), column)], len(values))

    return text


_HOUR, _ZERO, _MINUS, _NOTHING = constant(3_600_000_000), constant(0), constant("-"), constant("")


def _enums(column: Column, _: Policy) -> Text:
    if not column.elements:
        return unsigned
    indexes = {name: str(number) for number, name in enumerate(("", *column.elements))}
    return lambda values: _looked_up(values, indexes)


def _looked_up(values: pa.Array, texts: Mapping[str, str]) -> pa.Array:
    places = pc.index_in(values, pa.array(texts, pa.string()))
    if places.null_count != values.null_count:
        raise NotOnFastPath
    return pa.array(texts.values(), pa.string()).take(places)


def _sets(column: Column, _: Policy) -> Text:
    if not column.elements:
        return unsigned
    bits = {name: 1 << number for number, name in enumerate(column.elements)}

    def mask(value: str) -> str:
        try:
            return str(sum(bits[name] for name in value.split(",") if name))
        except KeyError:
            raise NotOnFastPath from None

    return lambda values: _looked_up(
        values, {value: mask(value) for value in pc.unique(values).to_pylist() if value is not None}
    )


def _vectors(_: Column, __: Policy) -> Text:
    number = floats(lambda number: plain_number(number, single=True))

    def text(values: pa.Array) -> pa.Array:
        lengths = pc.list_value_length(values)
        flat = pc.list_flatten(values)
        if flat.null_count:
            raise NotOnFastPath
        ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(pc.fill_null(lengths, 0))])
        lists = pa.ListArray.from_arrays(ends, number(flat), mask=pc.is_null(values))
        return joined(["[", pc.binary_join(lists, ","), "]"], len(values))

    return text


def always(text: Text) -> Callable[[Column, Policy], Text]:
    """A text that does not depend on the column."""
    return lambda _, __: text


def _unknown(_: pa.Array) -> pa.Array:
    raise NotOnFastPath


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
