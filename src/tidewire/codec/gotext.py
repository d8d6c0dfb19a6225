"""JSON text as Go's libraries print it, and which characters Go prints as they are.

TiCDC uses four JSON writers that agree on the grammar and differ in a handful of characters. A :class:`Quoting` is
those differences as data; numbers have two notations.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from tidewire.model.values import float32

_CONTROL = {code: f"\\u{code:04x}" for code in range(0x20)}
_SHORT = {ord("\n"): r"\n", ord("\r"): r"\r", ord("\t"): r"\t"}
_ALWAYS = {ord('"'): r"\"", ord("\\"): r"\\"}
_BACKSPACE = {0x08: r"\b", 0x0C: r"\f"}
_HTML = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}
_SEPARATORS = {0x2028: r"\u2028", 0x2029: r"\u2029"}


@dataclass(frozen=True, slots=True, eq=False)
class Quoting:
    """How one writer quotes strings: the escapes, and what becomes of bytes that are not UTF-8."""

    escapes: dict[int, str]
    special: re.Pattern[str]
    copies_bad_bytes: bool

    @classmethod
    def of(cls, *extra: dict[int, str], copies_bad_bytes: bool = False) -> Quoting:
        escapes = {**_CONTROL, **_SHORT, **_ALWAYS}
        for more in extra:
            escapes |= more
        special = re.compile("[" + "".join(re.escape(chr(code)) for code in escapes) + "]")
        return cls(escapes, special, copies_bad_bytes)

    def quote(self, text: str | bytes) -> bytes:
        """A JSON string, quotes included. Bytes are text that may not be UTF-8."""
        if isinstance(text, bytes):
            text = text.decode("utf-8", "surrogateescape")
        escaped = self.special.sub(lambda match: self.escapes[ord(match[0])], text)
        if self.copies_bad_bytes:
            return b'"' + escaped.encode("utf-8", "surrogateescape") + b'"'
        return b'"' + _LONE.sub(r"\\ufffd", escaped).encode() + b'"'


_LONE = re.compile("[\ud800-\udfff]")

JSONITER: Final = Quoting.of(copies_bad_bytes=True)
"""json-iterator without HTML escaping: Open Protocol of the new server."""

EASYJSON: Final = Quoting.of(_HTML, _SEPARATORS)
"""easyjson's writer and goccy/go-json: Canal-JSON."""

STANDARD: Final = Quoting.of(_BACKSPACE, _HTML, _SEPARATORS)
"""Go's own ``encoding/json``: Simple, Avro schemas."""


def shortest(number: float, *, single: bool = False) -> Decimal:
    """The decimal with the fewest digits that reads back as the same number (the same FLOAT if ``single``).

    TiDB stores no NaN and no infinity; for them, and for what no FLOAT holds, it is a ``ValueError``.
    """
    if not math.isfinite(number):
        raise ValueError(f"{number} is not a number that a column holds")
    if not single:
        return Decimal(repr(float(number)))
    number = _nearest_float32(number)
    candidates = (candidate for digits in range(1, 10) for candidate in _rounded(number, digits))
    return next(candidate for candidate in candidates if _reads_as(candidate, number))


def _nearest_float32(number: float) -> float:
    try:
        return float32(number)
    except OverflowError:
        raise ValueError(f"{number} is too large for a FLOAT") from None


def _rounded(number: float, digits: int) -> Iterator[Decimal]:
    """The nearest decimal with so many digits, and its neighbours: a power of two has less room below than above."""
    near = Decimal(f"{number:.{digits - 1}e}")
    step = Decimal(1).scaleb(near.adjusted() - digits + 1)
    yield from (near, near + step, near - step)


def _reads_as(candidate: Decimal, number: float) -> bool:
    try:
        return float32(float(candidate)) == number
    except OverflowError:
        return False


def plain_number(number: float, *, single: bool = False) -> str:
    """A float without an exponent: ``0.0000001``, ``1000000``, ``2``."""
    text = format(shortest(number, single=single), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def plain_integer(number: int, *, signed: bool = True) -> str:
    """An integer of 64 bits. A leading minus sign does not mean that the column is signed."""
    if not (-1 << 63 if signed else 0) <= operator.index(number) < 1 << 64:
        raise ValueError("not a 64-bit integer")
    return f"{number:d}"


def plain_decimal(number: Decimal) -> str:
    """A DECIMAL with all its digits: ``-0.50``."""
    if not isinstance(number, Decimal) or not number.is_finite():
        raise ValueError("not a decimal number")
    return format(number, "f")


def json_number(number: float, *, single: bool = False) -> str:
    """A float as a JSON number: plain, but with an exponent of two digits or more below 1e-6 and from 1e21 on."""
    size = abs(_nearest_float32(number) if single else number)
    tiny, huge = (_TINY_32, _HUGE_32) if single else (1e-6, 1e21)
    if size == 0 or tiny <= size < huge:
        return plain_number(number, single=single)
    sign, digits, _ = (decimal := shortest(number, single=single)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    mantissa = text[0] + ("." + text[1:] if len(text) > 1 else "")
    return f"{'-' * sign}{mantissa}e{decimal.adjusted():+03d}"


_TINY_32, _HUGE_32 = float32(1e-6), float32(1e21)


def _one_of(ranges: str) -> re.Pattern[str]:
    """Any of the characters in hexadecimal ranges."""
    ends = (ends.split("-") for ends in ranges.split())
    return re.compile("[" + "".join("-".join(chr(int(end, 16)) for end in pair) for pair in ends) + "]")


# Python has the same rule as Go for what is printed as it is: letters, marks, numbers, punctuation, symbols and U+0020.
# But every version of it has another Unicode: 3.11 has 14.0, 3.12 has 15.0, 3.13 has 15.1. Go has 15.0. The bytes of a
# message must not depend on that, so what was added in 15.0 and 15.1 stands here.
_ADDED_IN_15_0 = _one_of(
    "cf3 ece 10efd-10eff 1123f-11241 11b00-11b09 11f00-11f10 11f12-11f3a 11f3e-11f59 1342f 13440-13455 1b132 1b155 "
    "1d2c0-1d2d3 1df25-1df2a 1e030-1e06d 1e08f 1e4d0-1e4f9 1f6dc 1f774-1f776 1f77b-1f77f 1f7d9 1fa75-1fa77 "
    "1fa87-1fa88 1faad-1faaf 1fabb-1fabd 1fabf 1face-1facf 1fada-1fadb 1fae8 1faf7-1faf8 2b739 31350-323af"
)
_ADDED_IN_15_1 = _one_of("2ffc-2fff 31ef 2ebf0-2ee5d")


def is_printable(char: str) -> bool:
    """Does Go's ``strconv.Quote`` leave this character as it is?"""
    if char.isprintable():
        return _ADDED_IN_15_1.match(char) is None
    return _ADDED_IN_15_0.match(char) is not None
