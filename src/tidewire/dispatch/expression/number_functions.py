"""SQL functions over numbers, and those that choose among values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

from tidewire.dispatch.expression.comparison import compare
from tidewire.dispatch.expression.operators import (
    EXACT,
    is_null,
    regexp,
    remainder,
    rounded,
    scale_of,
    strict,
)
from tidewire.dispatch.expression.values import Function, Number, Sql, number_of, truth


def _numeric(function: Callable[[Number], Sql]) -> Function:
    """A function of one number."""
    return strict(lambda value: function(number_of(value)))


def _whole(rounding: str) -> Function:
    """A number without its fraction, cut in one direction; floating point stays floating point."""

    def cut(number: Number) -> Sql:
        whole = int(_cut(Decimal(number), 0, rounding))
        return float(whole) if isinstance(number, float) else whole

    return _numeric(cut)


def _cut(number: Decimal, digits: int, rounding: str) -> Decimal:
    return number.quantize(Decimal(1).scaleb(-digits), rounding=rounding, context=EXACT)


def _to_digits(exactly: str, roughly: str) -> Function:
    """ROUND and TRUNCATE: keep so many digits after the point; a negative number clears digits before it.

    Exact numbers and floating point round a half differently.
    """

    @strict
    def function(value: Sql, digits: Sql = 0) -> Sql:
        number, places = number_of(value), rounded(number_of(digits))
        if isinstance(number, float):
            return float(_cut(Decimal(repr(number)), places, roughly))
        exact = Decimal(number)
        if places >= scale_of(exact):
            return number
        cut = _cut(_cut(exact, places, exactly), max(0, places), exactly)
        return cut if places > 0 else int(cut)

    return function


def _absolute(number: Number) -> Number:
    return -number if number < 0 else number


def _sign(number: Number) -> int:
    return (number > 0) - (number < 0)


@strict
def _power(base: Sql, exponent: Sql) -> Sql:
    return math.pow(float(number_of(base)), float(number_of(exponent)))


def _square_root(number: Number) -> Sql:
    return None if number < 0 else math.sqrt(number)


def _extreme(wanted: int) -> Function:
    """GREATEST and LEAST."""

    @strict
    def function(*values: Sql) -> Sql:
        best = values[0]
        for value in values[1:]:
            if compare(value, best) == wanted:
                best = value
        return best

    return function


def _if(condition: Sql, then: Sql, otherwise: Sql) -> Sql:
    return then if truth(condition) else otherwise


def _coalesce(*values: Sql) -> Sql:
    return next((value for value in values if value is not None), None)


def _nullif(value: Sql, other: Sql) -> Sql:
    return None if compare(value, other) == 0 else value


FUNCTIONS: Mapping[str, tuple[Function, int, int]] = {
    "ABS": (_numeric(_absolute), 1, 1),
    "MOD": (remainder, 2, 2),
    "FLOOR": (_whole(ROUND_FLOOR), 1, 1),
    **dict.fromkeys(("CEIL", "CEILING"), (_whole(ROUND_CEILING), 1, 1)),
    "ROUND": (_to_digits(ROUND_HALF_UP, ROUND_HALF_EVEN), 1, 2),
    "TRUNCATE": (_to_digits(ROUND_DOWN, ROUND_DOWN), 2, 2),
    "SIGN": (_numeric(_sign), 1, 1),
    **dict.fromkeys(("POW", "POWER"), (_power, 2, 2)),
    "SQRT": (_numeric(_square_root), 1, 1),
    "GREATEST": (_extreme(1), 2, 99),
    "LEAST": (_extreme(-1), 2, 99),
    "IF": (_if, 3, 3),
    "IFNULL": (_coalesce, 2, 2),
    "COALESCE": (_coalesce, 1, 99),
    "NULLIF": (_nullif, 2, 2),
    "ISNULL": (is_null, 1, 1),
    "REGEXP_LIKE": (regexp, 2, 2),
}
"""Each function with the fewest and the most arguments it takes."""
