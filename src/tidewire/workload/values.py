"""Random values for columns of every type.

Dates that the calendar does not have are left out: no target has a type for them, so there
is no right result to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random

from tidewire.codec.gotext import plain_number
from tidewire.model import Column, Date, DateTime, EnumValue, MySQLType, SetValue, Time, Timestamp, Value
from tidewire.model.types import BLOBS, INTEGERS
from tidewire.model.values import enum_text, float32, set_text

NULLS = 0.1
"""The share of NULL among values that may be NULL."""

_BITS: Mapping[MySQLType, int] = {
    MySQLType.TINYINT: 8,
    MySQLType.SMALLINT: 16,
    MySQLType.MEDIUMINT: 24,
    MySQLType.INT: 32,
    MySQLType.BIGINT: 64,
}
_WORDS = (
    "alpha",
    "beta",
    "naïve",
    "数据",
    "emoji😀",
    "it's",
    'a "quote"',
    "back\\slash",
    "tab\there",
    "<tag>&",
    "",
    "null",
)
_MOST_TEXT = 40
"""Longer texts would only make messages larger."""


def random_value(random: Random, column: Column) -> Value:
    """Some value a column can hold; NULL now and then, if it may be."""
    if column.nullable and random.random() < NULLS:
        return None
    return _VALUES[column.type](random, column)


def _integer(random: Random, column: Column) -> Value:
    bits = _BITS[column.type]
    low, high = (0, (1 << bits) - 1) if column.unsigned else (-1 << bits - 1, (1 << bits - 1) - 1)
    # Small numbers are usual, the ends of the range are where things break.
    return random.choice((random.randint(0, 100), random.randint(low, high), low, high))


def _float(random: Random, _: Column) -> Value:
    return float32(random.choice((random.uniform(-1e6, 1e6), random.uniform(-1, 1) * 1e-20, 0.5)))


def _double(random: Random, _: Column) -> Value:
    return random.choice((random.uniform(-1e6, 1e6), random.uniform(-1, 1) * 1e300, 2.0))


def _decimal(random: Random, column: Column) -> Value:
    length, scale = column.length or 10, column.decimal or 0
    digits = random.randint(0, 10 ** random.randint(1, length) - 1)
    return Decimal((int(digits > 0 and random.random() < 0.3), tuple(map(int, str(digits))), -scale))


def _moment(random: Random, column: Column) -> str:
    moment = datetime(2020, 1, 1) + timedelta(seconds=random.randrange(200_000_000))
    digits = column.decimal or 0
    fraction = f".{random.randrange(10**digits):0{digits}d}" if digits else ""
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction}"


def _time(random: Random, column: Column) -> Value:
    digits = column.decimal or 0
    # The largest TIME has no fraction, so one hour less is as far as all others go.
    hours, minutes, seconds = random.randint(0, 837), random.randrange(60), random.randrange(60)
    fraction = f".{random.randrange(10**digits):0{digits}d}" if digits else ""
    text = f"{hours:02d}:{minutes:02d}:{seconds:02d}{fraction}"
    return Time("-" + text if random.random() < 0.3 and any(c in "123456789" for c in text) else text)


def _string(random: Random, column: Column) -> Value:
    most = min(column.length or _MOST_TEXT, _MOST_TEXT)
    if column.is_binary:
        fixed = column.type is MySQLType.CHAR  # MySQL fills BINARY up to its length
        return random.randbytes(column.length or 1 if fixed else random.randint(0, most))
    text = "".join(random.choices(_WORDS, k=random.randint(1, 3)))[:most]
    return text.rstrip() if column.type is MySQLType.CHAR else text


def _enum(random: Random, column: Column) -> Value:
    index = random.randint(1, len(column.elements))
    return EnumValue(index, enum_text(index, column.elements))


def _set(random: Random, column: Column) -> Value:
    mask = random.randrange(1 << len(column.elements))
    return SetValue(mask, set_text(mask, column.elements))


def _json(random: Random, _: Column) -> Value:
    number = random.randint(-1000, 1000)
    return random.choice((f'{{"k": {number}, "naïve": [true, null]}}', f'["数据", {number}]', '"text"', "{}"))


def _vector(random: Random, column: Column) -> Value:
    numbers = (float32(random.randint(-8, 8) / 4) for _ in range(column.length or 3))
    return "[" + ",".join(plain_number(number, single=True) for number in numbers) + "]"


_VALUES: Mapping[MySQLType, Callable[[Random, Column], Value]] = {
    **dict.fromkeys(INTEGERS, _integer),
    MySQLType.FLOAT: _float,
    MySQLType.DOUBLE: _double,
    MySQLType.DECIMAL: _decimal,
    MySQLType.YEAR: lambda random, _: random.choice((random.randint(1901, 2155), 2026)),
    MySQLType.BIT: lambda random, column: random.randrange(1 << (column.length or 1)),
    MySQLType.DATE: lambda random, column: Date(_moment(random, column)[:10]),
    MySQLType.DATETIME: lambda random, column: DateTime(_moment(random, column)),
    MySQLType.TIMESTAMP: lambda random, column: Timestamp(_moment(random, column)),
    MySQLType.TIME: _time,
    **dict.fromkeys((MySQLType.CHAR, MySQLType.VARCHAR, *BLOBS), _string),
    MySQLType.ENUM: _enum,
    MySQLType.SET: _set,
    MySQLType.JSON: _json,
    MySQLType.VECTOR: _vector,
}
