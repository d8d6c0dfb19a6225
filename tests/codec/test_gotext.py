"""Go's text: shortest floats in both precisions, and the three ways to quote a string."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from decimal import Decimal

import pytest

from tidewire.codec.gotext import (
    EASYJSON,
    JSONITER,
    STANDARD,
    Quoting,
    json_number,
    plain_decimal,
    plain_integer,
    plain_number,
    shortest,
)

CHANCE = random.Random(20260801)


def single(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def double(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def bits_of(number: float) -> bytes:
    return struct.pack("<f", number)


def singles() -> Iterator[float]:
    """Random FLOATs, every power of two and its neighbours, subnormals, and what is near a change of notation."""
    yield from (single(CHANCE.getrandbits(31)) for _ in range(4000))
    for exponent in range(1, 255):
        yield from (single((exponent << 23) + step) for step in (-1, 0, 1))
    yield from (single(1 << bit) for bit in range(23))
    yield from (single(CHANCE.getrandbits(CHANCE.randint(1, 22)) + 1) for _ in range(500))
    for bound in (1e-6, 1e21):
        (middle,) = struct.unpack("<I", struct.pack("<f", bound))
        yield from (single(middle + step) for step in range(-20, 21))


def doubles() -> Iterator[float]:
    yield from (double(CHANCE.getrandbits(63)) for _ in range(4000))
    for exponent in range(1, 2047, 7):
        yield from (double((exponent << 52) + step) for step in (-1, 0, 1))
    yield from (double(1 << bit) for bit in range(52))
    for bound in (1e-6, 1e21):
        (middle,) = struct.unpack("<Q", struct.pack("<d", bound))
        yield from (double(middle + step) for step in range(-20, 21))


def finite(numbers: Iterator[float]) -> list[float]:
    return [number for number in numbers if abs(number) < float("inf")]


def test_a_double_is_what_repr_says_in_another_notation() -> None:
    for number in finite(doubles()):
        for text in (json_number(number), plain_number(number), json_number(-number), plain_number(-number)):
            assert abs(float(text)) == number
            assert Decimal(text).normalize().as_tuple().digits == Decimal(repr(number)).normalize().as_tuple().digits


def test_a_float_reads_back_and_no_shorter_text_does() -> None:
    for number in finite(singles()):
        for text in (json_number(number, single=True), plain_number(number, single=True)):
            assert bits_of(float(text)) == bits_of(number), text
        digits = len(Decimal(text).normalize().as_tuple().digits)
        assert digits <= 9
        if digits > 1:
            near = Decimal(f"{number:.{digits - 2}e}")
            step = Decimal(1).scaleb(near.adjusted() - digits + 2)
            for shorter in (near, near + step, near - step):
                try:
                    assert bits_of(float(shorter)) != bits_of(number), (number, shorter)
                except OverflowError:
                    continue


def test_of_the_shortest_the_nearest_is_taken() -> None:
    for number in finite(singles()):
        found = shortest(number, single=True)
        step = Decimal(1).scaleb(found.adjusted() - len(found.as_tuple().digits) + 1)
        distance = abs(found - Decimal(number))
        for other in (found + step, found - step):
            try:
                reads_back = bits_of(float(other)) == bits_of(number)
            except OverflowError:
                continue
            assert not reads_back or abs(other - Decimal(number)) >= distance, (number, found, other)


NOTATIONS: list[tuple[float, str, str, str, str]] = [
    # number; as JSON and plain, as DOUBLE and as FLOAT
    (0.0, "0", "0", "0", "0"),
    (-0.0, "-0", "-0", "-0", "-0"),
    (1.0, "1", "1", "1", "1"),
    (-2.5, "-2.5", "-2.5", "-2.5", "-2.5"),
    (0.1, "0.1", "0.1", "0.1", "0.1"),
    (1000000.0, "1000000", "1000000", "1000000", "1000000"),
    (1e-6, "0.000001", "0.000001", "0.000001", "0.000001"),
    (9.9e-7, "9.9e-07", "0.00000099", "9.9e-07", "0.00000099"),
    (1e-7, "1e-07", "0.0000001", "1e-07", "0.0000001"),
    (1e-10, "1e-10", "0.0000000001", "1e-10", "0.0000000001"),
    (123456789.0, "123456789", "123456789", "123456790", "123456790"),
    (1e20, "100000000000000000000", "100000000000000000000", "100000000000000000000", "100000000000000000000"),
    (1e21, "1e+21", "1000000000000000000000", "1e+21", "1000000000000000000000"),
    (-1.5e22, "-1.5e+22", "-15000000000000000000000", "-1.5e+22", "-15000000000000000000000"),
]


@pytest.mark.parametrize(("number", "as_double", "plain_double", "as_float", "plain_float"), NOTATIONS)
def test_notations(number: float, as_double: str, plain_double: str, as_float: str, plain_float: str) -> None:
    assert (json_number(number), plain_number(number)) == (as_double, plain_double)
    assert (json_number(number, single=True), plain_number(number, single=True)) == (as_float, plain_float)


def test_the_ends_of_both_ranges() -> None:
    assert json_number(single(0x7F7FFFFF), single=True) == "3.4028235e+38"
    assert json_number(single(1), single=True) == "1e-45"
    assert json_number(single(0x00800000), single=True) == "1.1754944e-38"
    assert json_number(double(0x7FEFFFFFFFFFFFFF)) == "1.7976931348623157e+308"
    assert json_number(double(1)) == "5e-324"
    assert plain_number(double(1)) == "0." + "0" * 323 + "5"


def test_the_change_of_notation_is_decided_in_the_columns_own_precision() -> None:
    """The FLOAT nearest to 1e-6 is a little below it as a DOUBLE, and that nearest to 1e21 a little above."""
    tiny, huge = single(0x358637BD), single(0x6258D727)

    assert json_number(tiny, single=True) == "0.000001"
    assert json_number(tiny) == "9.999999974752427e-07"
    assert json_number(single(0x358637BC), single=True) == "9.999999e-07"
    assert json_number(huge, single=True) == "1e+21"
    assert json_number(single(0x6258D726), single=True) == "999999950000000000000"


def test_an_exact_tie_goes_to_the_even_digit() -> None:
    """2**-12 is 0.000244140625. Go up to 1.25 rounds it so; 1.26 alone writes this one FLOAT as ...63."""
    assert json_number(2.0**-12, single=True) == "0.00024414062"
    assert json_number(2.0**-25) == "2.9802322387695312e-08"


def test_what_no_column_holds_has_no_text() -> None:
    for number in (float("inf"), float("-inf"), float("nan")):
        for precision in (True, False):
            with pytest.raises(ValueError, match="not a number that a column holds"):
                json_number(number, single=precision)
            with pytest.raises(ValueError, match="not a number that a column holds"):
                plain_number(number, single=precision)
    for number in (3.5e38, -1e300):
        with pytest.raises(ValueError, match="too large for a FLOAT"):
            plain_number(number, single=True)
    assert plain_number(3.5e38) == "35" + "0" * 37


def test_decimals_and_integers_have_all_their_digits() -> None:
    for text in ("0", "-0.50", "0.000000000000000000000000000001", "9" * 65):
        assert plain_decimal(Decimal(text)) == text
    assert plain_decimal(Decimal("1E+3")) == "1000"
    for number in (0, -(2**63), 2**64 - 1):
        assert plain_integer(number) == str(number)
    for wrong in (Decimal("NaN"), Decimal("-Infinity"), 1, 1.5):
        with pytest.raises(ValueError, match="not a decimal number"):
            plain_decimal(wrong)  # type: ignore[arg-type]
    for number in (2**64, -(2**63) - 1):
        with pytest.raises(ValueError, match="64-bit"):
            plain_integer(number)
    with pytest.raises(ValueError, match="64-bit"):
        plain_integer(-1, signed=False)
    with pytest.raises(TypeError):
        plain_integer(1.5)  # type: ignore[arg-type]


# Quoting.

STYLES = {"jsoniter": JSONITER, "easyjson": EASYJSON, "standard": STANDARD}
ESCAPES: dict[str, dict[str, str]] = {
    # character: escape, by style; what is not here stands for itself
    **{char: dict.fromkeys(STYLES, escape) for char, escape in {'"': r"\"", "\\": r"\\"}.items()},
    **{chr(code): dict.fromkeys(STYLES, f"\\u{code:04x}") for code in range(0x20)},
    **{char: dict.fromkeys(STYLES, escape) for char, escape in {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.items()},
    "\b": {"jsoniter": r"\u0008", "easyjson": r"\u0008", "standard": r"\b"},
    "\f": {"jsoniter": r"\u000c", "easyjson": r"\u000c", "standard": r"\f"},
    **{char: {"easyjson": f"\\u{ord(char):04x}", "standard": f"\\u{ord(char):04x}"} for char in "<>&\u2028\u2029"},
}


@pytest.mark.parametrize("style", STYLES)
def test_every_character_is_quoted_as_the_style_does(style: str) -> None:
    quoting = STYLES[style]
    for code in (*range(0x300), *range(0x2000, 0x2070), 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF, 0x1F600, 0x10FFFF):
        char = chr(code)
        expected = ESCAPES.get(char, {}).get(style, char)

        assert quoting.quote(char) == f'"{expected}"'.encode(), hex(code)
        assert quoting.quote(f"a{char}b") == f'"a{expected}b"'.encode(), hex(code)


@pytest.mark.parametrize("quoting", STYLES.values(), ids=STYLES)
def test_what_is_quoted_reads_back(quoting: Quoting) -> None:
    for _ in range(300):
        text = "".join(chr(CHANCE.choice((CHANCE.randrange(0x80), CHANCE.randrange(0xD800)))) for _ in range(20))
        assert json.loads(quoting.quote(text)) == text
        assert quoting.quote(text.encode()) == quoting.quote(text)


def test_bytes_that_are_no_utf_8() -> None:
    bad = b"a\xff\xe6\xb5z\xed\xa0\x80"

    assert JSONITER.quote(bad) == b'"' + bad + b'"'
    for quoting in (EASYJSON, STANDARD):
        assert quoting.quote(bad) == rb'"a\ufffd\ufffd\ufffdz\ufffd\ufffd\ufffd"'
        assert quoting.quote("\ud800") == rb'"\ufffd"'
    assert JSONITER.quote(b"\xef\xbf\xbd") == '"\ufffd"'.encode()
