"""What MODIFY COLUMN makes of stored values: MySQL's conversions from one type to another.

Most conversions go by way of MySQL's text of the value. Upstream the statement succeeded, so every value converts; a
value that does not convert raises ColumnError.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.cast import Step, Values, apply_step, family, lost, may_fail, text_of
from tidewire.arrow.clocks import (
    CLOCK,
    instant,
    local_clock,
    read_clocks,
    read_dates,
    read_times,
    round_clock,
    round_time,
    time_of_day,
)
from tidewire.arrow.numbers import number_text, rounded, to_float, where, whole_floats
from tidewire.arrow.policy import Policy
from tidewire.arrow.types import VECTOR
from tidewire.errors import ColumnError, SyncError
from tidewire.model import Column, MySQLType
from tidewire.model.types import CHARS

Steps: TypeAlias = tuple[Step, ...]
Plan: TypeAlias = Callable[[Column, Column, Policy], Steps]
"""How values of the old column become values of the new one; without steps they stay as they are."""

_LONG: Final = 60
"""The most characters of a value that an error shows."""


def convert(values: Values, old: Column, new: Column, policy: Policy = Policy()) -> Values:
    """Stored values of one column type as values of another.

    Raises SyncError if the types cannot be converted, ColumnError if a value cannot.

    >>> column = Column.of("c", "decimal(10,2)")
    >>> convert(pa.array(["1.50", "-1.50"]).cast(pa.decimal128(10, 2)), column, Column.of("c", "int")).to_pylist()
    [2, -2]
    """
    steps = _steps(old, new, policy)
    if not steps:
        return values
    step = partial(_converted, steps=steps, old=old, new=new)
    return apply_step(step, values, policy.type_of(old), policy.type_of(new))


def check(old: Column, new: Column, policy: Policy = Policy()) -> None:
    """Raise SyncError if values of one column type cannot be converted to another."""
    _steps(old, new, policy)


def changes_values(old: Column, new: Column, policy: Policy = Policy()) -> bool:
    """Does a conversion change values or their type? If not, the stored values can stay."""
    return bool(_steps(old, new, policy))


def widens(old: Column, new: Column, policy: Policy = Policy()) -> bool:
    """Is the conversion a plain cast to a wider type, which a table format may do without rewriting the values?"""
    plain = _DIRECT.get((family(old, policy), family(new, policy))) in _PLAIN
    return plain and policy.type_of(old) != policy.type_of(new) and not may_fail(old, new, policy)


def _steps(old: Column, new: Column, policy: Policy) -> Steps:
    source, goal = family(old, policy), family(new, policy)
    direct = _DIRECT.get((source, goal))
    if direct is not None:
        return direct(old, new, policy)
    if (source, goal) in _REFUSED:
        raise SyncError(f"column {new.name}: values of {old.mysql_type} cannot become {new.mysql_type}")
    return (*_to_text(old, policy), *_FROM_TEXT[goal](old, new, policy))


def _converted(values: pa.Array, steps: Steps, old: Column, new: Column) -> pa.Array:
    found = values
    for step in steps:
        before, found = found, step(found)
        bad = None if step is _zero_dates_to_null else lost(before, found)
        if bad is not None:
            value = values[pc.index(bad, True).as_py()]
            raise ColumnError(f"column {new.name}: {_shown(value)} of {old.mysql_type} cannot become {new.mysql_type}")
    return found


def _shown(value: pa.Scalar) -> str:
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError):  # Python does not have the year
        text = str(value.cast(pa.string()))
    return text if len(text) <= _LONG else f"{text[:_LONG]}…"


# Text


def _to_text(old: Column, policy: Policy) -> Steps:
    return () if policy.type_of(old) == pa.string() else (lambda values: text_of(values, old, policy),)


def _text_from_text(old: Column, new: Column, _: Policy) -> Steps:
    if new.type not in CHARS or new.length is None or _longest(old) <= new.length:
        return ()
    return (lambda texts: pc.utf8_slice_codeunits(texts, 0, new.length),)


def _longest(column: Column) -> float:
    """The most characters or bytes that a value of a column has, if that is limited."""
    limits: Mapping[MySQLType, Callable[[], float]] = {
        **dict.fromkeys(CHARS, lambda: float("inf") if column.length is None else column.length),
        MySQLType.ENUM: lambda: max(map(len, column.elements), default=float("inf")),
        MySQLType.SET: lambda: len(",".join(column.elements)) if column.elements else float("inf"),
    }
    return limits.get(column.type, lambda: float("inf"))()


def _bytes_from_text(_: Column, new: Column, __: Policy) -> Steps:
    return (lambda texts: texts.cast(pa.binary()), *_sized(new))


def _bytes_from_bytes(old: Column, new: Column, _: Policy) -> Steps:
    pads = new.type is MySQLType.CHAR and (old.type is not MySQLType.CHAR or old.length != new.length)
    fits = new.type in CHARS and new.length is not None and _longest(old) <= new.length
    return () if fits and not pads else _sized(new)


def _sized(new: Column) -> Steps:
    """Bytes of at most a column's length; a BINARY is filled up with zeros."""
    length = new.length
    if new.type not in CHARS or length is None:
        return ()
    if new.type is not MySQLType.CHAR:
        return (lambda values: pc.binary_slice(values, 0, length),)

    def padded(values: pa.Array) -> pa.Array:
        zeros = pa.array([bytes(length)] * len(values), pa.binary())
        return pc.binary_slice(pc.binary_join_element_wise(values, zeros, b""), 0, length)

    return (padded,)


def _names_from_text(_: Column, new: Column, __: Policy) -> Steps:
    if not new.elements:
        raise SyncError(f"column {new.name}: the names of {new.mysql_type} are not known, so no text can become one")
    return ()


def _vectors_from_text(_: Column, __: Column, ___: Policy) -> Steps:
    return (lambda texts: pa.array([None if text is None else _vector(text) for text in texts.to_pylist()], VECTOR),)


def _vector(text: str) -> list[float] | None:
    try:
        numbers = json.loads(text)
    except ValueError:
        return None
    if not isinstance(numbers, list) or not all(type(number) in (int, float) for number in numbers):
        return None
    return [float(number) for number in numbers]


def _zero_dates_to_null(texts: pa.StringArray) -> pa.StringArray:
    """A date that the calendar does not have is NULL, as it is when it comes on the wire."""
    return where(pc.invert(pc.match_substring_regex(texts, "(?s)^.{4}-(00-|.{2}-00)")), texts)


def _dates_from_text(_: Column, __: Column, ___: Policy) -> Steps:
    return _zero_dates_to_null, lambda texts: read_dates(pc.utf8_slice_codeunits(texts, 0, 10))


def _clocks_from_text(_: Column, new: Column, __: Policy) -> Steps:
    return (_zero_dates_to_null, read_clocks, *_rounded_clocks(None, new))


def _instants_from_text(old: Column, new: Column, policy: Policy) -> Steps:
    return (*_clocks_from_text(old, new, policy), *_instants(policy))


def _times_from_text(_: Column, new: Column, __: Policy) -> Steps:
    return read_times, lambda times: round_time(times, new.decimal or 0)


# Numbers


def _cast_numbers(old: Column, new: Column, policy: Policy) -> Steps:
    """Numbers of any type in another type of numbers; a DECIMAL may be kept as text."""
    goal = policy.type_of(new)
    if policy.type_of(old) == goal:
        return ()
    if goal == pa.string():
        return (number_text,)
    return (partial(to_float if pa.types.is_floating(goal) else rounded, goal=goal),)


def _numbers_from_text(old: Column, new: Column, policy: Policy) -> Steps:
    return _cast_numbers(Column.of(old.name, "decimal"), new, policy)


def _floats_to_whole(_: Column, new: Column, policy: Policy) -> Steps:
    return (partial(whole_floats, goal=policy.type_of(new)),)


def _digits(old: Column, new: Column, policy: Policy) -> Steps:
    """A date or time as the number of its digits: 20240229120000. The sign of a TIME stays."""
    signs = "[:]" if old.type is MySQLType.TIME else "[^0-9]"

    def step(texts: pa.StringArray) -> pa.StringArray:
        return pc.replace_substring_regex(pc.replace_substring_regex(texts, r"\..*$", ""), signs, "")

    return (*_to_text(old, policy), step, *_numbers_from_text(old, new, policy))


def _name_to_number(old: Column, new: Column, policy: Policy) -> Steps:
    """The index of an ENUM's name; 0 for a text that is not one of its names."""
    if not old.elements:
        return _cast_numbers(old, new, policy)
    names = pa.array(dict.fromkeys(old.elements), pa.string())
    places = pa.array([old.elements.index(name) + 1 for name in names.to_pylist()], pa.int64())

    def step(texts: pa.StringArray) -> pa.Array:
        found = pc.fill_null(places.take(pc.index_in(texts, value_set=names)), 0)
        return rounded(where(texts.is_valid(), found), policy.type_of(new))

    return (step,)


def _number_to_name(old: Column, new: Column, policy: Policy) -> Steps:
    if not new.elements:
        return _cast_numbers(old, new, policy)
    names = pa.array(["", *new.elements], pa.string())

    def step(numbers: pa.Array) -> pa.StringArray:
        indexes = rounded(numbers, pa.int64())
        return names.take(where(pc.and_(pc.greater_equal(indexes, 0), pc.less(indexes, len(names))), indexes))

    return (step,)


# Dates and times


def _rounded_clocks(old: Column | None, new: Column) -> Steps:
    """Dates and times with no more digits behind the second than the column has."""
    digits = new.decimal or 0
    if digits == 6 or (old is not None and (old.decimal or 0) <= digits):
        return ()
    return (lambda clocks: round_clock(clocks, digits),)


def _clocks(policy: Policy) -> Steps:
    return (lambda instants: local_clock(instants, policy.time_zone),)


def _instants(policy: Policy) -> Steps:
    return (lambda clocks: instant(clocks, policy.time_zone),)


def _rounded_times(old: Column, new: Column, _: Policy) -> Steps:
    digits = new.decimal or 0
    return () if digits >= (old.decimal or 0) else (lambda times: round_time(times, digits),)


def _dates_to_clocks(_: Column, __: Column, ___: Policy) -> Steps:
    return (lambda dates: dates.cast(CLOCK),)


def _to_dates(clocks: pa.Array) -> pa.Array:
    return pc.floor_temporal(clocks, unit="day").cast(pa.date32())


# Which conversion it is

_FROM_TEXT: Mapping[str, Plan] = {
    "text": _text_from_text,
    "bytes": _bytes_from_text,
    **dict.fromkeys(("whole", "year", "decimal", "float"), _numbers_from_text),
    "date": _dates_from_text,
    "datetime": _clocks_from_text,
    "timestamp": _instants_from_text,
    "time": _times_from_text,
    "enum": _names_from_text,
    "set": _names_from_text,
    "vector": _vectors_from_text,
}

_NUMBERS: Final = ("whole", "year", "decimal", "float")
_TIMES: Final = ("date", "datetime", "timestamp", "time")


def _unchanged(_: Column, __: Column, ___: Policy) -> Steps:
    return ()


_DIRECT: Mapping[tuple[str, str], Plan] = {
    **{(source, goal): _cast_numbers for source in _NUMBERS for goal in _NUMBERS},
    **{("float", goal): _floats_to_whole for goal in ("whole", "year")},
    **{(source, goal): _digits for source in _TIMES for goal in _NUMBERS},
    ("date", "date"): _unchanged,
    ("vector", "vector"): _unchanged,
    ("bytes", "bytes"): _bytes_from_bytes,
    ("date", "datetime"): _dates_to_clocks,
    ("date", "timestamp"): lambda old, new, policy: (*_dates_to_clocks(old, new, policy), *_instants(policy)),
    ("datetime", "date"): lambda _, __, ___: (_to_dates,),
    ("datetime", "datetime"): lambda old, new, _: _rounded_clocks(old, new),
    ("datetime", "timestamp"): lambda old, new, policy: (*_rounded_clocks(old, new), *_instants(policy)),
    ("datetime", "time"): lambda old, new, _: (*_rounded_clocks(old, new), time_of_day),
    ("timestamp", "date"): lambda _, __, policy: (*_clocks(policy), _to_dates),
    ("timestamp", "datetime"): lambda old, new, policy: (*_clocks(policy), *_rounded_clocks(old, new)),
    ("timestamp", "timestamp"): lambda old, new, _: _rounded_clocks(old, new),
    ("timestamp", "time"): lambda old, new, policy: (*_clocks(policy), *_rounded_clocks(old, new), time_of_day),
    ("time", "time"): _rounded_times,
    ("enum", "whole"): _name_to_number,
    ("whole", "enum"): _number_to_name,
}

_PLAIN: Final = frozenset({_cast_numbers, _dates_to_clocks, _name_to_number})
"""Conversions that are a cast and nothing else, if the new type has room for all values."""

_REFUSED: Final = frozenset(
    {("time", "date"), ("time", "datetime"), ("time", "timestamp"), ("set", "whole"), ("whole", "set")}
    | {(source, goal) for source in _NUMBERS for goal in _TIMES}
    | {("date", "time"), ("year", "enum"), ("year", "set")}
)
"""Conversions that need today's date, or that MySQL itself does for some values only."""
