"""The operators of SQL expressions, over values that may be NULL; CAST and COLLATE are among them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache

from tidewire.dispatch.expression.comparison import common_collation, compare, same
from tidewire.dispatch.expression.temporal import FUNCTIONS as TIME_FUNCTIONS
from tidewire.dispatch.expression.temporal import timestamp_of
from tidewire.dispatch.expression.values import (
    Function,
    Json,
    Number,
    Sql,
    Text,
    boolean,
    folded,
    ignores_case,
    number_of,
    text_of,
    truth,
)
from tidewire.dispatch.patterns import searching, with_wildcards
from tidewire.model import DateTime

EXACT = Context(prec=400, rounding=ROUND_HALF_UP)
_WORD = 1 << 64
_MORE_DIGITS = 4
"""How many digits a division adds to those of the dividend."""


def strict(function: Function) -> Function:
    """The function that is NULL if one of its arguments is."""

    def nullable(*arguments: Sql) -> Sql:
        return None if None in arguments else function(*arguments)

    return nullable


def both(*values: Sql) -> Sql:
    """AND: false if one value is false, whatever the others are."""
    truths = [truth(value) for value in values]
    return 0 if False in truths else boolean(None if None in truths else True)


def either(*values: Sql) -> Sql:
    """OR: true if one value is true, whatever the others are."""
    truths = [truth(value) for value in values]
    return 1 if True in truths else boolean(None if None in truths else False)


@strict
def one_of_two(one: Sql, other: Sql) -> Sql:
    """XOR."""
    return boolean(truth(one) != truth(other))


@strict
def negated(value: Sql) -> Sql:
    """NOT."""
    return boolean(not truth(value))


def comparing(test: Callable[[int], bool]) -> Function:
    """A comparison that is true if ``test`` accepts the order of its sides (below 0, 0 or above 0)."""

    def comparison(one: Sql, other: Sql) -> Sql:
        order = compare(one, other)
        return None if order is None else boolean(test(order))

    return comparison


def null_safe_equal(one: Sql, other: Sql) -> Sql:
    """``<=>``: NULL is equal to NULL."""
    return boolean(same(one, other))


def between(value: Sql, low: Sql, high: Sql) -> Sql:
    """BETWEEN: both ends count."""
    return both(comparing(lambda order: order >= 0)(value, low), comparing(lambda order: order <= 0)(value, high))


def member(value: Sql, *members: Sql) -> Sql:
    """IN: unknown if no value is equal and one of them is NULL."""
    return either(*(comparing(lambda order: order == 0)(value, each) for each in members))


def is_null(value: Sql) -> Sql:
    """IS NULL."""
    return boolean(value is None)


def is_truth(expected: bool) -> Function:
    """IS TRUE and IS FALSE."""
    return lambda value: boolean(truth(value) is expected)


@strict
def like(value: Sql, pattern: Sql, escape: Sql = Text("\\")) -> Sql:
    """LIKE: ``%`` is any run of characters, ``_`` one of them."""
    text, wanted = text_of(value), text_of(pattern)
    collation = common_collation(text, wanted)
    wanted_form = _like_pattern(folded(wanted.text, collation), text_of(escape).text)
    return boolean(wanted_form.fullmatch(folded(text.text, collation)) is not None)


@lru_cache(maxsize=1024)
def _like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    segments, at = [""], 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == escape and at + 1 < len(pattern):
            at += 1
            segments[-1] += re.escape(pattern[at])
        elif letter == "%":
            segments.append("")
        else:
            segments[-1] += "." if letter == "_" else re.escape(letter)
        at += 1
    return with_wildcards(segments)


@strict
def regexp(value: Sql, pattern: Sql) -> Sql:
    """REGEXP: does a pattern match somewhere? An invalid pattern does not match."""
    text, wanted = text_of(value), text_of(pattern)
    try:
        search = searching(wanted.text, ignore_case=ignores_case(common_collation(text, wanted)))
    except ValueError:
        return None
    return boolean(search(text.text))


def arithmetic(exact: Callable[[Decimal, Decimal], Decimal], rough: Callable[[float, float], float]) -> Function:
    """An operation with one way for exact numbers and one for floating point; texts count as floating point."""

    @strict
    def operation(one: Sql, other: Sql) -> Sql:
        first, second = number_of(one), number_of(other)
        if any(isinstance(value, Text | bytes | float) for value in (one, other)):
            return rough(float(first), float(second))
        result = exact(Decimal(first), Decimal(second))
        whole = isinstance(first, int) and isinstance(second, int)
        return int(result) if whole else result

    return operation


def divided(one: Sql, other: Sql) -> Sql:
    """``/``: NULL by zero; the quotient of exact numbers has four digits more than the dividend."""
    if one is None or other is None or number_of(other) == 0:
        return None
    first, second = number_of(one), number_of(other)
    if any(isinstance(value, Text | bytes | float) for value in (one, other)):
        return float(first) / float(second)
    dividend = Decimal(first)
    quotient = EXACT.divide(dividend, Decimal(second))
    return EXACT.quantize(quotient, Decimal(1).scaleb(-(scale_of(dividend) + _MORE_DIGITS)))


def whole_divided(one: Sql, other: Sql) -> Sql:
    """``DIV``: the quotient without its fraction."""
    if one is None or other is None or number_of(other) == 0:
        return None
    return int(EXACT.divide(Decimal(number_of(one)), Decimal(number_of(other))))


def remainder(one: Sql, other: Sql) -> Sql:
    """``%`` and MOD: with the sign of the dividend."""
    if one is None or other is None or number_of(other) == 0:
        return None
    return arithmetic(EXACT.remainder, math.fmod)(one, other)


def scale_of(number: Decimal) -> int:
    """The digits behind the point."""
    exponent = number.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def bitwise(operation: Callable[[int, int], int]) -> Function:
    """An operation on the bits of unsigned 64-bit numbers."""
    return strict(lambda one, other: operation(_bits(one), _bits(other)) % _WORD)


@strict
def inverted(value: Sql) -> Sql:
    """``~``."""
    return _bits(value) ^ (_WORD - 1)


def _bits(value: Sql) -> int:
    return rounded(number_of(value)) % _WORD


def shifted(left: bool) -> Function:
    """``<<`` and ``>>``; beyond 64 bits nothing is left."""

    def shift(bits: int, by: int) -> int:
        return 0 if by >= 64 else bits << by if left else bits >> by

    return bitwise(shift)


@strict
def minus(value: Sql) -> Sql:
    """Unary minus."""
    number = number_of(value)
    return -float(number) if isinstance(value, Text | bytes) else -number


def rounded(number: Number) -> int:
    """The nearest whole number, halves away from 0."""
    return number if isinstance(number, int) else int(EXACT.quantize(Decimal(number), Decimal(1)))


def chosen(*arguments: Sql) -> Sql:
    """CASE: the value of the first condition that is true; the last argument is the value of ELSE."""
    conditions, values = arguments[:-1:2], arguments[1:-1:2]
    return next((value for condition, value in zip(conditions, values, strict=True) if truth(condition)), arguments[-1])


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
    timestamp = timestamp_of(value)
    return None if timestamp is None else DateTime(timestamp.datetime_text)


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
"""The type names that CAST accepts."""


def cast(type_: str, sizes: tuple[int, ...] = ()) -> Function:
    """The cast to a type; ``sizes`` are the numbers in parentheses after the type."""
    return strict(lambda value: _CASTS[type_](value, *sizes))


def collated(collation: str) -> Function:
    """``COLLATE``: the same text, compared in another way."""
    return strict(lambda value: Text(text_of(value).text, collation, explicit=True))
