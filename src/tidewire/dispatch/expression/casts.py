"""CAST: a value in another type."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal

from tidewire.dispatch.expression.operators import EXACT, Function, rounded, strict
from tidewire.dispatch.expression.time_functions import FUNCTIONS as TIME_FUNCTIONS
from tidewire.dispatch.expression.timestamps import timestamp_of
from tidewire.dispatch.expression.values import Json, Sql, Text, number_of, text_of
from tidewire.model import DateTime

_WORD = 1 << 64


def _signed(value: Sql, *_: int) -> Sql:
    number = rounded(number_of(value))
    return number - _WORD if _WORD // 2 <= number < _WORD else number


def _unsigned(value: Sql, *_: int) -> Sql:
    return rounded(number_of(value)) % _WORD


def _char(value: Sql, length: int | None = None, *_: int) -> Sql:
    text = text_of(value)
    return Text(text.text[:length], text.collation if text.explicit else Text("").collation)


def _binary(value: Sql, length: int | None = None, *_: int) -> Sql:
    whole = text_of(value).text.encode("utf-8", "surrogateescape")
    return whole if length is None else whole[:length].ljust(length, b"\0")


def _decimal(value: Sql, digits: int = 10, scale: int = 0) -> Sql:
    largest = Decimal(10**digits - 1).scaleb(-scale)
    number = Decimal(number_of(value)).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP, EXACT)
    return max(-largest, min(largest, number))


def _double(value: Sql, *_: int) -> Sql:
    return float(number_of(value))


def _datetime(value: Sql, *_: int) -> Sql:
    moment = timestamp_of(value)
    return None if moment is None else DateTime(moment.datetime_text)


def _json(value: Sql, *_: int) -> Sql:
    if isinstance(value, Text):
        try:
            return Json(json.loads(value.text))
        except ValueError:
            return None
    number = value if isinstance(value, Json) else number_of(value)
    return Json(float(number)) if isinstance(number, Decimal) else number if isinstance(number, Json) else Json(number)


def _day(value: Sql, *_: int) -> Sql:
    return TIME_FUNCTIONS["DATE"][0](value)


def _time(value: Sql, *_: int) -> Sql:
    return TIME_FUNCTIONS["TIME"][0](value)


_CASTS: Mapping[str, Callable[..., Sql]] = {
    "SIGNED": _signed,
    "UNSIGNED": _unsigned,
    "CHAR": _char,
    "NCHAR": _char,
    "BINARY": _binary,
    "DECIMAL": _decimal,
    "DOUBLE": _double,
    "FLOAT": _double,
    "REAL": _double,
    "DATE": _day,
    "DATETIME": _datetime,
    "TIME": _time,
    "JSON": _json,
}
TYPES = frozenset(_CASTS)
"""The words CAST takes for a type."""


def cast(type_: str, sizes: tuple[int, ...] = ()) -> Function:
    """The cast to a type, with the numbers behind it in parentheses."""
    return strict(lambda value: _CASTS[type_](value, *sizes))


def collated(collation: str) -> Function:
    """``COLLATE``: the same text, compared in another way."""
    return strict(lambda value: Text(text_of(value).text, collation, explicit=True))
