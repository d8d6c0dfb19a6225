"""Values to typed arrays, whole columns at once: a reader for every type, of wire texts and of model values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.misfits import MISFIT, Suspects, pointing, without
from tidewire.arrow.misfits import Reader as Reader
from tidewire.arrow.types import MAX_PRECISION, VECTOR, arrow_type
from tidewire.errors import OptionError
from tidewire.model import Column, MySQLType
from tidewire.model.types import FLOATS, NUMBERED, TEMPORAL
from tidewire.model.values import enum_text, set_text


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


def reader(column: Column, read: Reader, policy: Policy) -> Reader:
    """A reader with the column's policies: zero dates become NULL and are counted, if that is the policy."""
    if column.type not in TEMPORAL or column.type is MySQLType.TIME or policy.zero_dates is ZeroDates.REJECT:
        return read

    def without_zeros(values: Sequence[Any]) -> pa.Array:
        try:
            return read(values)
        except MISFIT as error:
            listed = values.to_pylist() if isinstance(values, pa.Array) else values
            rows = error.rows if isinstance(error, Suspects) else range(len(listed))
            zeros = [row for row in rows if listed[row] is not None and _impossible(listed[row])]
            if not zeros:
                raise
            array = read(without(values, zeros))
            policy.counts["zero dates"] = policy.counts.get("zero dates", 0) + len(zeros)
            return array

    return without_zeros


def _impossible(value: Any) -> bool:
    """Is this a well-formed date that the calendar does not have?"""
    text = getattr(value, "text", value)
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
    read = _TEXT_READERS.get(column.type, _cast)(column, policy)
    pattern = usual_form(column)
    return reader(column, read if pattern is None else pointing(read, pattern), policy)


_DAY = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_MOMENT = _DAY + r" ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?"
_USUAL_FORMS: Mapping[MySQLType, str] = {
    MySQLType.TINYINT: "-?[0-9]{1,3}",
    MySQLType.SMALLINT: "-?[0-9]{1,5}",
    MySQLType.MEDIUMINT: "-?[0-9]{1,8}",
    MySQLType.INT: "-?[0-9]{1,10}",
    MySQLType.BIGINT: "-?[0-9]{1,20}",
    MySQLType.YEAR: "[0-9]{1,4}",
    MySQLType.BIT: "[0-9]{1,20}",
    **dict.fromkeys(FLOATS, r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?"),
    **dict.fromkeys((MySQLType.DATE, MySQLType.NEWDATE), _DAY),
    **dict.fromkeys((MySQLType.DATETIME, MySQLType.TIMESTAMP), _MOMENT),
}


def usual_form(column: Column) -> str | None:
    """What the texts of a column's values look like, for types where a text can be wrong."""
    if column.type is MySQLType.DECIMAL:
        scale = column.decimal or 0
        digits = max((column.length or MAX_PRECISION) - scale, 1)
        return rf"^-?[0-9]{{1,{digits}}}(\.[0-9]{{1,{scale}}})?$" if scale else f"^-?[0-9]{{1,{digits}}}$"
    form = _USUAL_FORMS.get(column.type)
    return None if form is None else f"^{form}$"


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


_PLAIN_DECIMAL = r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?$"


def plain_decimals(texts: pa.StringArray) -> pa.StringArray:
    """Texts that are decimal numbers as a Decimal prints them, without needless zeros in front."""
    if pc.all(pc.match_substring_regex(texts, _PLAIN_DECIMAL), min_count=0).as_py():
        return texts
    return pa.array([None if text is None else f"{Decimal(text):f}" for text in texts.to_pylist()], pa.string())


def _moments(column: Column, policy: Policy) -> Reader:
    def read(values: Sequence[Any]) -> pa.Array:
        return zoned(pc.cast(pa.array(values, pa.string()), pa.timestamp("us")), column, policy)

    return read


def zoned(moments: pa.Array, column: Column, policy: Policy, zone: str | None = None) -> pa.Array:
    """DATETIMEs as they are; TIMESTAMPs out of their zone, which is the server's unless they tell, into UTC."""
    if column.type is not MySQLType.TIMESTAMP:
        return moments
    known = pc.assume_timezone(moments, zone or policy.time_zone, ambiguous="earliest", nonexistent="latest")
    return pc.cast(known, pa.timestamp("us", "UTC"))


GO_LOCAL = "Local"
"""What Go calls the zone of the machine it runs on: the server's, whichever that is."""


def _zoned_values(column: Column, policy: Policy) -> Reader:
    """Reads TIMESTAMPs that have a ``text`` and a ``zone``; rows of several servers may have several zones."""

    def read(values: Sequence[Any]) -> pa.Array:
        texts = pa.array([None if value is None else value.text for value in values], pa.string())
        moments = pc.cast(texts, pa.timestamp("us"))
        zones = [None if value is None or value.zone == GO_LOCAL else value.zone or None for value in values]
        known = {zone for zone, value in zip(zones, values, strict=True) if value is not None}
        if len(known) < 2:
            return zoned(moments, column, policy, *known)
        nothing = pa.scalar(None, moments.type)
        return pc.coalesce(
            *(
                zoned(pc.if_else([own == zone for own in zones], moments, nothing), column, policy, zone)
                for zone in known
            )
        )

    return read


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
    def read(values: Sequence[Any]) -> pa.Array:
        spans = _times_of_day(values)
        if spans is None:
            spans = pa.array([None if value is None else _span(value) for value in values], pa.int64())
        return spans

    return read


def _times_of_day(values: Sequence[Any]) -> pa.Array | None:
    """TIMEs that are all times of a day, in microseconds: Arrow reads those as moments of its first day."""
    texts = pa.array(values, pa.string())
    shortest = pc.min(pc.binary_length(texts)).as_py()
    if shortest is None or shortest < len("00:00:00"):
        return None
    try:
        moments = pc.cast(pc.binary_join_element_wise("1970-01-01", texts, " "), pa.timestamp("us"))
    except pa.ArrowInvalid:
        return None
    return moments.cast(pa.int64())


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
    MySQLType.TIMESTAMP: _zoned_values,
    **dict.fromkeys(NUMBERED, _numbered_values),
    MySQLType.VECTOR: _vectors,
}
