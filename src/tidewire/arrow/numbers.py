"""Numbers of one type as numbers of another, whole columns at once.

A value that the other type cannot hold becomes NULL. The caller compares the NULLs to find these values.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from math import isfinite
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tidewire.arrow.types import MAX_PRECISION

WIDE: Final = pa.decimal256(68, 30)
"""Has 38 digits before the point, as the largest numbers of all other types, and room for the carry of two sums."""

_MOST_WHOLE: Final = 40
"""The most digits that a number of that type, or the sum of two, has before the point."""

_PRECISE: Final = Context(prec=200)
_BLANKS: Final = "".join(map(chr, range(33)))
_WHOLE_TEXT: Final = "^[+-]?[0-9]+$"
_FLOAT_TEXT: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_NOT_FINITE: Final = "(?i)^([+-]?inf(inity)?|nan)$"


def where(fits: pa.BooleanArray, values: pa.Array) -> pa.Array:
    """The values that fit; NULL in place of the others."""
    return pc.if_else(fits, values, pa.scalar(None, values.type))


# To whole numbers and decimals


def exact(numbers: pa.Array, goal: pa.DataType) -> pa.Array:
    """Whole numbers, decimals or their texts in another such type; NULL for a number with more digits than it has."""
    return _converted(numbers, goal, _cut, None)


def rounded(numbers: pa.Array, goal: pa.DataType) -> pa.Array:
    """Numbers or their texts as whole numbers or decimals; half a unit is rounded away from zero.

    A FLOAT or DOUBLE becomes the nearest even whole number.
    """
    if pa.types.is_floating(numbers.type) and pa.types.is_integer(goal):
        return whole_floats(numbers, goal)
    return _converted(numbers, goal, _round, ROUND_HALF_UP)


def whole_floats(floats: pa.Array, goal: pa.DataType) -> pa.Array:
    """Floating-point numbers as whole numbers; of two that are equally near the even one."""
    nearest = pc.round(floats, round_mode="half_to_even")
    low, high = _bounds(goal)
    if pa.types.is_integer(goal):
        fits = pc.and_(pc.greater_equal(nearest, float(low)), pc.less(nearest, float(high + 1)))
        return where(fits, nearest).cast(goal)
    numbers = (None if number is None or not isfinite(number) else int(number) for number in nearest.to_pylist())
    return pa.array([number if number is not None and low <= number <= high else None for number in numbers], goal)


def whole_texts(texts: pa.StringArray) -> pa.StringArray:
    """The texts of whole numbers, without a point or an exponent; NULL for others."""
    trimmed = trim(texts)
    return where(pc.match_substring_regex(trimmed, _WHOLE_TEXT), trimmed)


def trim(texts: pa.StringArray) -> pa.StringArray:
    """The texts without blanks and control characters at their ends."""
    return pc.ascii_trim(texts, _BLANKS)


def _converted(
    numbers: pa.Array, goal: pa.DataType, by_arrow: Callable[[pa.Array, int], pa.Array], rounding: str | None
) -> pa.Array:
    """Numbers as those of another type: by one cast, or most of them by Arrow and the others by Python.

    Arrow 26 divides some decimals wrongly. A cast that is safe reports these as a loss; they are converted by Python.
    """
    if pa.types.is_floating(numbers.type):
        numbers = numbers.cast(pa.float64()).cast(pa.string())
    if pa.types.is_string(numbers.type):
        numbers = trim(numbers)
    found = _direct(numbers, goal)
    if found is not None:
        return found
    found = pa.nulls(len(numbers), goal)
    wide = _wide(numbers)
    if wide is not None and _scale(goal) < WIDE.scale:
        found = _within(by_arrow(wide, _scale(goal)), *_bounds(goal)).cast(goal)
    others = pc.and_(numbers.is_valid(), found.is_null())
    values = [_decimal(number, goal, rounding) for number in numbers.filter(others).to_pylist()]
    return pc.replace_with_mask(found, others, pa.array(values, goal))


def _direct(numbers: pa.Array, goal: pa.DataType) -> pa.Array | None:
    """The numbers by Arrow's own cast, if that is possible for all of them.

    Arrow does not notice if a number gets more digits than 128 bits have room for, so that must not be possible.
    """
    if pa.types.is_integer(numbers.type) and pa.types.is_decimal(goal):
        numbers = numbers.cast(pa.decimal128(19, 0))  # Arrow asks for room for all digits of the type otherwise
    if pa.types.is_string(numbers.type):
        has_room = pc.all(_is_plain(numbers, MAX_PRECISION - _scale(goal)), min_count=0).as_py()
    elif pa.types.is_decimal(goal):
        has_room = numbers.type.precision + goal.scale - numbers.type.scale <= MAX_PRECISION
    else:
        has_room = True
    try:
        return numbers.cast(goal) if has_room else None
    except pa.ArrowInvalid:
        return None


def _is_plain(texts: pa.StringArray, digits: int = MAX_PRECISION) -> pa.BooleanArray:
    """Which texts are numbers without an exponent, with at most so many digits before the point?"""
    return pc.match_substring_regex(texts, rf"^[+-]?[0-9]{{1,{max(digits, 1)}}}(\.[0-9]{{0,{WIDE.scale}}})?$")


def _wide(numbers: pa.Array) -> pa.Array | None:
    """The numbers in a type with more digits than all others, as far as they fit in it; None if they do not."""
    if pa.types.is_string(numbers.type):
        return where(_is_plain(numbers), numbers).cast(WIDE)
    return numbers.cast(WIDE) if _scale(numbers.type) <= WIDE.scale else None


def _cut(wide: pa.Array, scale: int) -> pa.Array:
    """Numbers with a given scale; NULL for those that have more digits behind the point."""
    cut = wide.cast(pa.decimal256(_MOST_WHOLE + scale, scale), safe=False)
    return where(pc.equal(cut.cast(WIDE, safe=False), wide), cut)


def _round(wide: pa.Array, scale: int) -> pa.Array:
    """Numbers rounded to a given scale; NULL for those that Arrow rounds wrongly."""
    unit, half = (pa.scalar(Decimal(digit).scaleb(-scale - 1), WIDE) for digit in (10, 5))
    zero = pa.scalar(Decimal(0), WIDE)
    negative = pc.less(wide, zero)
    away = pc.if_else(negative, pc.subtract(wide, half), pc.add(wide, half))
    cut = away.cast(pa.decimal256(_MOST_WHOLE + scale, scale), safe=False)
    lost = pc.subtract(away, cut.cast(away.type, safe=False))
    size = pc.if_else(negative, pc.negate(lost), lost)
    return where(pc.and_(pc.greater_equal(size, zero), pc.less(size, unit)), cut)


def _within(decimals: pa.Array, low: Decimal, high: Decimal) -> pa.Array:
    least, most = (pa.scalar(bound, decimals.type) for bound in (low, high))
    return where(pc.and_(pc.greater_equal(decimals, least), pc.less_equal(decimals, most)), decimals)


def _decimal(number: str | int | Decimal, goal: pa.DataType, rounding: str | None) -> Decimal | int | None:
    """One number as one of the goal; None if it is not a number, or too large, or has too many digits."""
    if isinstance(number, str) and not re.fullmatch(_FLOAT_TEXT, number):
        return None
    try:
        given = Decimal(number)
        if not given.is_finite() or given.adjusted() > MAX_PRECISION:
            return None
        found = given.quantize(Decimal(1).scaleb(-_scale(goal)), rounding or ROUND_DOWN, _PRECISE)
    except ArithmeticError:
        return None
    low, high = _bounds(goal)
    if not low <= found <= high or (rounding is None and found != given):
        return None
    return found if pa.types.is_decimal(goal) else int(found)


def _scale(type_: pa.DataType) -> int:
    return int(type_.scale) if pa.types.is_decimal(type_) else 0


def _bounds(type_: pa.DataType) -> tuple[Decimal, Decimal]:
    """The smallest and the largest number of a type."""
    if pa.types.is_decimal(type_):
        most = Decimal(10**type_.precision - 1).scaleb(-type_.scale, _PRECISE)
        return most.copy_negate(), most
    return Decimal(-(2 ** (type_.bit_width - 1))), Decimal(2 ** (type_.bit_width - 1) - 1)


# To floating-point numbers


def to_float(numbers: pa.Array, goal: pa.DataType) -> pa.Array:
    """Numbers or their texts as the nearest floating-point numbers."""
    if pa.types.is_decimal(numbers.type):
        return numbers.cast(pa.string()).cast(goal)  # Arrow's direct cast is not always the nearest
    if pa.types.is_string(numbers.type):
        trimmed = trim(numbers)
        forms = (pc.match_substring_regex(trimmed, form) for form in (_FLOAT_TEXT, _NOT_FINITE))
        return pc.cast(where(pc.or_(*forms), trimmed), goal)
    return numbers.cast(goal, safe=False)


def there_and_back(numbers: pa.Array, goal: pa.DataType) -> pa.Array:
    """Numbers in another type; NULL for those that are not the same when they are converted back."""
    found = _nearest(numbers, goal)
    return where(pc.equal(_nearest(found, numbers.type), numbers), found)


def _nearest(numbers: pa.Array, goal: pa.DataType) -> pa.Array:
    return to_float(numbers, goal) if pa.types.is_floating(goal) else rounded(numbers, goal)


# To text


def number_text(numbers: pa.Array) -> pa.StringArray:
    """The digits of numbers, without an exponent; texts stay as they are."""
    texts = numbers.cast(pa.string())
    if pa.types.is_string(numbers.type) or pa.types.is_integer(numbers.type):
        return texts
    return _respelled(texts, pc.match_substring(texts, "e", ignore_case=True))


def float_text(numbers: pa.Array) -> pa.StringArray:
    """The shortest text of each number; with an exponent only below 1e-15 and from 1e15 on, as MySQL prints them."""
    texts = numbers.cast(pa.string())
    size = pc.abs(numbers)
    plain = pc.and_(pc.greater_equal(size, 1e-15), pc.less(size, 1e15))
    texts = _respelled(texts, pc.and_(plain, pc.match_substring(texts, "e")))
    return pc.if_else(pc.equal(numbers, 0.0), "0", pc.replace_substring(texts, "e+", "e"))


def plain_float_text(numbers: pa.Array) -> pa.StringArray:
    """The shortest text of each number, without an exponent: how TiDB prints a VECTOR's."""
    texts = numbers.cast(pa.string())
    texts = _respelled(texts, pc.match_substring(texts, "e"))
    zero = pc.if_else(pc.starts_with(texts, "-"), "-0", "0")
    return pc.if_else(pc.equal(numbers, 0.0), zero, texts)


def _respelled(texts: pa.StringArray, chosen: pa.BooleanArray) -> pa.StringArray:
    """The texts, the chosen ones without their exponents."""
    if not pc.any(chosen, min_count=0).as_py():
        return texts
    digits = [f"{Decimal(text):f}" for text in texts.filter(chosen).to_pylist()]
    return pc.replace_with_mask(texts, chosen, pa.array(digits, pa.string()))
