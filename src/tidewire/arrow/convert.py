"""Values to typed arrays: whole columns at once, and the values that do not fit found by halving.

A *reader* takes the values of one column, ``None`` for NULL, and gives one array; it raises where any value does not
fit. :func:`fitting` calls it on everything, and only when that fails on halves, until what does not fit is alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.types import VECTOR, arrow_type
from tidewire.errors import OptionError
from tidewire.model import Column, MySQLType
from tidewire.model.types import NUMBERED, TEMPORAL
from tidewire.model.values import Temporal, enum_text, set_text

Reader = Callable[[Sequence[Any]], pa.Array]
Misfits = dict[int, str]
"""The rows whose value does not fit, and why."""


class ZeroDates(StrEnum):
    """What becomes of dates that the calendar does not have, such as ``0000-00-00``."""

    NULL = "null"
    REJECT = "reject"


@dataclass(frozen=True, slots=True)
class Policy:
    """How values are read where MySQL and Arrow differ.

    ``time_zone`` is the TiCDC server's, in which TIMESTAMP values are. ``counts`` says how often a value became NULL
    because a policy said so.
    """

    time_zone: str = "UTC"
    zero_dates: ZeroDates = ZeroDates.NULL
    counts: dict[str, int] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        try:
            ZoneInfo(self.time_zone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise OptionError("time-zone", f"{self.time_zone!r} is not a time zone") from error


def fitting(values: Sequence[Any], read: Reader, type_: pa.DataType) -> tuple[pa.Array, Misfits]:
    """The array of all values, NULL where one does not fit, and which those are."""
    try:
        return read(values), {}
    except _MISFIT as error:
        if len(values) == 1:
            return pa.nulls(1, type_), {0: _reason(error)}
    middle = len(values) // 2
    first, bad = fitting(values[:middle], read, type_)
    second, more = fitting(values[middle:], read, type_)
    return pa.concat_arrays([first, second]), bad | {middle + row: reason for row, reason in more.items()}


_MISFIT = (pa.ArrowException, ValueError, TypeError, OverflowError, KeyError, IndexError, AttributeError)


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def reader(column: Column, read: Reader, policy: Policy) -> Reader:
    """A reader with the column's policies: zero dates become NULL and are counted, if that is the policy."""
    if column.type not in TEMPORAL or column.type is MySQLType.TIME or policy.zero_dates is ZeroDates.REJECT:
        return read

    def without_zeros(values: Sequence[Any]) -> pa.Array:
        try:
            return read(values)
        except _MISFIT:
            values = values.to_pylist() if isinstance(values, pa.Array) else values
            kept = [None if value is not None and _impossible(value) else value for value in values]
            lost = sum(new is None and old is not None for new, old in zip(kept, values, strict=True))
            if not lost:
                raise
            array = read(kept)
            policy.counts["zero dates"] = policy.counts.get("zero dates", 0) + lost
            return array

    return without_zeros


def _impossible(value: Any) -> bool:
    """Is this a well-formed date that the calendar does not have?"""
    text = value.text if isinstance(value, Temporal) else value
    if not isinstance(text, str) or len(text) < 10 or text[4] != "-" or text[7] != "-":
        return False
    year, month, day = text[:4], text[5:7], text[8:10]
    if not (year + month + day).isdecimal():
        return False
    try:
        datetime(int(year), int(month), int(day))
    except ValueError:
        return True
    return False


def text_reader(column: Column, policy: Policy) -> Reader:
    """Reads values that the wire has as text: numbers in digits, ENUM and SET as theirs."""
    return reader(column, _TEXT_READERS.get(column.type, _cast)(column, policy), policy)


def value_reader(column: Column, policy: Policy) -> Reader:
    """Reads values of the event model."""
    return reader(column, _VALUE_READERS.get(column.type, _plain)(column, policy), policy)


def _cast(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)

    def read(values: Sequence[Any]) -> pa.Array:
        texts = pa.array(values, pa.string())
        # Arrow reads hexadecimal too, which no server writes.
        if pc.any(pc.match_substring(texts, "x", ignore_case=True)).as_py():
            raise ValueError("not a decimal number")
        return pc.cast(texts, type_)

    return read


def _strings(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)
    return lambda values: pa.array(values, type_)


def _float_texts(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)

    def read(values: Sequence[Any]) -> pa.Array:
        return finite(pc.cast(pa.array(values, pa.string()), type_))

    return read


def _float_values(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)

    def read(values: Sequence[Any]) -> pa.Array:
        return finite(pa.array(values, pa.float64()).cast(type_))

    return read


def finite(numbers: pa.Array) -> pa.Array:
    """The numbers, if MySQL can hold them; Arrow makes infinity of a FLOAT that is too large."""
    if not pc.all(pc.is_finite(numbers), min_count=0).as_py():
        raise ValueError("not a finite number")
    return numbers


def _moments(column: Column, policy: Policy) -> Reader:
    def read(values: Sequence[Any]) -> pa.Array:
        return zoned(pc.cast(pa.array(values, pa.string()), pa.timestamp("us")), column, policy)

    return read


def zoned(moments: pa.Array, column: Column, policy: Policy) -> pa.Array:
    """DATETIMEs as they are; TIMESTAMPs out of the server's time zone into UTC."""
    if column.type is not MySQLType.TIMESTAMP:
        return moments
    known = pc.assume_timezone(moments, policy.time_zone, ambiguous="earliest", nonexistent="latest")
    return pc.cast(known, pa.timestamp("us", "UTC"))


def _span(text: str) -> int:
    """A TIME in microseconds."""
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    if not (len(minutes) == len(whole) == 2 and (hours.removeprefix("-") + minutes + whole + fraction).isdecimal()):
        raise ValueError(f"{text!r} is not a TIME")
    if len(fraction) > 6:
        raise ValueError(f"{text!r} is finer than a microsecond")
    size = (int(hours.removeprefix("-")) * 60 + int(minutes)) * 60 + int(whole)
    micros = size * 1_000_000 + int(fraction.ljust(6, "0"))
    return -micros if hours[0] == "-" else micros


def _spans(_: Column, __: Policy) -> Reader:
    return lambda values: pa.array([None if value is None else _span(value) for value in values], pa.int64())


def _vector(text: str) -> list[float]:
    if text[0] != "[" or text[-1] != "]":
        raise ValueError(f"{text!r} is not a vector")
    return [float(number) for number in text[1:-1].split(",")] if text != "[]" else []


def _vectors(_: Column, __: Policy) -> Reader:
    return lambda values: pa.array([None if value is None else _vector(value) for value in values], VECTOR)


def _numbered_texts(column: Column, policy: Policy) -> Reader:
    if not column.elements:
        return _cast(column, policy)
    named = names(column)
    return lambda values: pa.array([None if value is None else named(int(value)) for value in values], pa.string())


def names(column: Column) -> Callable[[int], str]:
    """Turns the number of an ENUM or SET into its text; ``ValueError`` for one the column does not have."""
    look_up = enum_text if column.type is MySQLType.ENUM else set_text
    known: dict[int, str] = {}

    def named(index: int) -> str:
        if index not in known:
            text = look_up(index, column.elements)
            if text is None:
                raise ValueError(f"{index} is beyond the column's {len(column.elements)} names")
            known[index] = text
        return known[index]

    return named


def _plain(column: Column, _: Policy) -> Reader:
    type_ = arrow_type(column)
    return lambda values: pa.array(values, type_)


def _decimal_values(column: Column, policy: Policy) -> Reader:
    if arrow_type(column) != pa.string():
        return _plain(column, policy)
    return lambda values: pa.array([None if value is None else format(value, "f") for value in values], pa.string())


def _of_text(read_texts: Callable[[Column, Policy], Reader]) -> Callable[[Column, Policy], Reader]:
    """A reader of wrapped texts out of one of texts."""

    def build(column: Column, policy: Policy) -> Reader:
        read = read_texts(column, policy)
        return lambda values: read([None if value is None else value.text for value in values])

    return build


def _numbered_values(column: Column, policy: Policy) -> Reader:
    if not column.elements:
        type_ = arrow_type(column)
        return lambda values: pa.array([None if value is None else value.index for value in values], type_)
    named = names(column)
    return lambda values: pa.array([None if value is None else named(value.index) for value in values], pa.string())


_TEXT_READERS: Mapping[MySQLType, Callable[[Column, Policy], Reader]] = {
    **dict.fromkeys(MySQLType, _strings),
    **dict.fromkeys(
        (
            MySQLType.TINYINT,
            MySQLType.SMALLINT,
            MySQLType.MEDIUMINT,
            MySQLType.INT,
            MySQLType.BIGINT,
            MySQLType.YEAR,
            MySQLType.BIT,
            MySQLType.DECIMAL,
        ),
        _cast,
    ),
    MySQLType.FLOAT: _float_texts,
    MySQLType.DOUBLE: _float_texts,
    MySQLType.DATE: lambda column, _: lambda values: pc.cast(pa.array(values, pa.string()), pa.date32()),
    MySQLType.NEWDATE: lambda column, _: lambda values: pc.cast(pa.array(values, pa.string()), pa.date32()),
    MySQLType.DATETIME: _moments,
    MySQLType.TIMESTAMP: _moments,
    MySQLType.TIME: _spans,
    MySQLType.VECTOR: _vectors,
    **dict.fromkeys(NUMBERED, _numbered_texts),
}

_VALUE_READERS: Mapping[MySQLType, Callable[[Column, Policy], Reader]] = {
    MySQLType.FLOAT: _float_values,
    MySQLType.DOUBLE: _float_values,
    MySQLType.DECIMAL: _decimal_values,
    **{type_: _of_text(_TEXT_READERS[type_]) for type_ in TEMPORAL},
    **dict.fromkeys(NUMBERED, _numbered_values),
    MySQLType.VECTOR: _vectors,
}
