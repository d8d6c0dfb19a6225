"""Default values: the form in which a schema keeps them, and what existing rows get when a column is added.

A schema keeps MySQL's text, with three exceptions: bytes for a binary column and for BIT (as Simple sends it), and the
words ``CURRENT_TIMESTAMP`` and ``CURRENT_DATE`` for the moment a row is written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation

from tidewire.model import Column, MySQLType
from tidewire.model.types import FACTS, FLOATS, INTEGERS, STRINGS, TEMPORAL, TEXTUAL
from tidewire.model.values import enum_text, set_text

NOW = "CURRENT_TIMESTAMP"
TODAY = "CURRENT_DATE"

COLLATIONS: Mapping[str, str] = {
    "binary": "binary",
    "gbk": "gbk_chinese_ci",
    "gb18030": "gb18030_chinese_ci",
}
"""TiDB's default collation of a charset, where it is not the charset's name with ``_bin``."""


def default_collation(charset: str) -> str:
    """The collation TiDB gives a column of which only the charset is said."""
    return COLLATIONS.get(charset, f"{charset}_bin")


def settled(column: Column, charset: str, collation: str | None = None) -> Column:
    """A column with its charset decided, ``charset`` where it names none, and its default in a schema's form."""
    if column.type not in TEXTUAL:
        column = replace(column, charset="binary", collation="binary")
    elif column.charset is None:
        given = None if column.collation == "" else collation
        column = replace(column, charset=charset, collation=given or default_collation(charset))
    elif not column.collation:
        column = replace(column, collation=default_collation(column.charset))
    return replace(column, default=kept_default(column, column.default))


def kept_default(column: Column, raw: str | bytes | None) -> str | bytes | None:
    """A default in the form a schema keeps it; ``raw`` is a literal's text, or the bytes of a hexadecimal one.

    A literal that cannot be one of that column's values stays as it is: rows bring their values with them, and who
    needs the value itself asks ``fill``.
    """
    try:
        return _formed(column, raw)
    except ValueError:
        return raw


def _formed(column: Column, raw: str | bytes | None) -> str | bytes | None:
    if raw is None or (raw in (NOW, TODAY) and column.type in TEMPORAL):
        return raw
    form = _FORMS.get(column.type)
    try:
        return form(column, raw) if form else _text(raw)
    except (InvalidOperation, OverflowError) as error:
        raise ValueError(str(error)) from None


def fill(column: Column, now: str | None = None) -> str | bytes | None:
    """What the rows that are there get when a column is added, as a value of that type on the wire.

    Bytes for a binary column; MySQL's text for everything else: ``0``, ``1.50``, ``2024-01-01 00:00:00.000``, the name
    of an ENUM's element, names with commas for a SET, the number for BIT and YEAR, JSON's text. ``None`` is NULL.
    ``now`` is the moment of the statement as ``YYYY-MM-DD hh:mm:ss.ffffff`` in the server's time zone; without it a
    column that defaults to the current time gets NULL. ``ValueError`` if the default is not a value of that column's
    values.
    """
    try:
        default = _formed(column, column.default)
    except ValueError:
        raise ValueError(f"{column.default!r} is no default of {column.name} {column.mysql_type}") from None
    if default in (NOW, TODAY) and column.type in TEMPORAL:
        return None if now is None else _moment(column, now)
    if isinstance(default, bytes) and not column.is_binary:
        return str(int.from_bytes(default))
    if default is None and column.nullable is False:
        return _zero(column)
    stored = _STORED.get(column.type)
    return stored(column, default) if stored and isinstance(default, str) else default


def _scaled(column: Column, text: str) -> str:
    """A DECIMAL with as many digits behind the point as its column has."""
    try:
        digits = Decimal(1).scaleb(-(column.decimal or 0))
        return f"{Decimal(text).quantize(digits, ROUND_HALF_UP, Context(prec=2 * _LARGEST_EXPONENT)):f}"
    except InvalidOperation:
        raise ValueError(f"{text} is no default of {column.name} {column.mysql_type}") from None


def _without_blanks(column: Column, text: str) -> str:
    return text.rstrip(" ")


_STORED: Mapping[MySQLType, Callable[[Column, str], str]] = {
    MySQLType.DECIMAL: _scaled,
    MySQLType.CHAR: _without_blanks,
}
"""What a row makes of a default that a schema keeps as it was written."""


def _zero(column: Column) -> str | bytes:
    """MySQL's implicit default of a NOT NULL column."""
    if column.is_binary:
        return bytes(column.length or 0) if column.type is MySQLType.CHAR else b""
    if column.type is MySQLType.ENUM:
        return column.elements[0] if column.elements else ""
    fraction = f".{'0' * column.decimal}" if column.decimal else ""
    return FACTS[column.type].zero + (fraction if column.type in _FRACTIONAL else "")


_FRACTIONAL = frozenset({MySQLType.DECIMAL, MySQLType.TIME, MySQLType.DATETIME, MySQLType.TIMESTAMP})
_LARGEST_EXPONENT = 350
"""A little more than a DOUBLE has; written out, larger ones would fill the memory."""


def _text(raw: str | bytes) -> str:
    return raw if isinstance(raw, str) else raw.decode("utf-8")


def _number(raw: str | bytes) -> Decimal:
    number = Decimal(int.from_bytes(raw)) if isinstance(raw, bytes) else Decimal(raw.strip())
    if not number.is_finite() or abs(number.adjusted()) > _LARGEST_EXPONENT:
        raise ValueError(raw)
    return number


def _whole(column: Column, raw: str | bytes) -> str:
    return str(int(_number(raw).to_integral_value(ROUND_HALF_UP)))


def _fractional(column: Column, raw: str | bytes) -> str:
    return f"{_number(raw):f}"


def _floating(column: Column, raw: str | bytes) -> str:
    number = _number(raw)
    return str(number) if isinstance(raw, bytes) else raw.strip()


def _year(column: Column, raw: str | bytes) -> str:
    year = int(_whole(column, raw))
    return str(_in_century(year) if year else year)


def _in_century(year: int) -> int:
    """A year of which one may have written two digits."""
    return year + (2000 if year < 70 else 1900) * (year < 100)


def _bits(column: Column, raw: str | bytes) -> bytes:
    number = int.from_bytes(raw) if isinstance(raw, bytes) else int(raw)
    return number.to_bytes(((column.length or 1) + 7) // 8)


def _string(column: Column, raw: str | bytes) -> str | bytes:
    if column.charset != "binary":
        return _text(raw)
    content = raw if isinstance(raw, bytes) else raw.encode("utf-8")
    return content.ljust(column.length or 0, b"\0") if column.type is MySQLType.CHAR else content


def _element(column: Column, raw: str | bytes) -> str:
    """The spelling of an ENUM's element, which a default may write in other letters or as a number."""
    text = _text(raw).rstrip(" ")
    spelled = {element.casefold(): element for element in reversed(column.elements)}
    if text in column.elements:
        return text
    if text.casefold() in spelled:
        return spelled[text.casefold()]
    found = enum_text(int(text), column.elements)
    if found is None:
        raise ValueError(text)
    return found


def _members(column: Column, raw: str | bytes) -> str:
    """The names of a SET in the order of its definition."""
    text = _text(raw)
    places = {element: place for place, element in enumerate(column.elements)}
    folded = {element.casefold(): place for element, place in places.items()}
    names = [name.rstrip(" ") for name in text.split(",")] if text else []
    named = [places.get(name, folded.get(name.casefold())) for name in names]
    mask = int(text) if None in named else sum(1 << place for place in {place for place in named if place is not None})
    found = set_text(mask, column.elements)
    if found is None:
        raise ValueError(text)
    return found


_DATE = re.compile(
    r"""(?:(\d{4}|\d\d?)[^\w\s](\d\d?)[^\w\s](\d\d?)|(\d{4}|\d\d)(\d\d)(\d\d)(?=(?:\d{6})?(?!\d)))
        (?:[T\s]*(\d.*))?""",
    re.VERBOSE,
)
_CLOCK = re.compile(r"(?:(\d+)\s+)?(\d+)(?::(\d\d?))?(?::(\d\d?))?(?:\.(\d*))?")


def _seconds(text: str) -> Decimal:
    """A time of day or a span as seconds, without its sign."""
    match = _CLOCK.fullmatch(text)
    if match is None:
        raise ValueError(text)
    days, hours, minutes, seconds, fraction = match.groups()
    if days is None and minutes is None:
        hours, minutes, seconds = hours[:-4], hours[-4:-2], hours[-2:]
    whole = 86400 * int(days or 0) + 3600 * int(hours or 0) + 60 * int(minutes or 0)
    return whole + Decimal(f"{seconds or 0}.{fraction or 0}")


def _clock(seconds: Decimal, digits: int) -> str:
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    return f"{int(hours):02d}:{int(minutes):02d}:{rest:0{digits + 2 + bool(digits)}.{digits}f}"


def _rounded(seconds: Decimal, digits: int, rounding: str = ROUND_HALF_UP) -> Decimal:
    return seconds.quantize(Decimal(1).scaleb(-digits), rounding)


def _date(text: str) -> tuple[str, Decimal]:
    match = _DATE.fullmatch("0000-00-00" if text == "0" else text.strip())
    if match is None:
        raise ValueError(text)
    year, month, day = match.groups()[:3] if match[1] else match.groups()[3:6]
    year = year if len(year) == 4 else str(_in_century(int(year)))
    clock = match[7] or "0"
    # Behind a day a number of two digits is an hour, where alone it is a second.
    return f"{year}-{int(month):02d}-{int(day):02d}", _seconds(f"{clock}:0" if len(clock) < 3 else clock)


def _day(column: Column, raw: str | bytes) -> str:
    return _date(_text(raw))[0]


def _instant(column: Column, raw: str | bytes) -> str:
    digits = column.decimal or 0
    day, seconds = _date(_text(raw))
    carried, seconds = divmod(_rounded(seconds, digits), 86400)
    if carried:
        day = (date.fromisoformat(day) + timedelta(days=1)).isoformat()
    return f"{day} {_clock(seconds, digits)}"


def _span(column: Column, raw: str | bytes) -> str:
    text, digits = _text(raw).strip(), column.decimal or 0
    return "-" * text.startswith("-") + _clock(_rounded(_seconds(text.lstrip("-")), digits), digits)


def _moment(column: Column, now: str) -> str:
    """The part of a moment that a column holds, cut to its digits as MySQL's CURRENT_TIMESTAMP(n) is."""
    day, seconds = _date(now)
    digits = column.decimal or 0
    clock = _clock(_rounded(Decimal(0) if column.default == TODAY else seconds, digits, ROUND_DOWN), digits)
    return {MySQLType.DATE: day, MySQLType.NEWDATE: day, MySQLType.TIME: clock}.get(column.type, f"{day} {clock}")


_FORMS: Mapping[MySQLType, Callable[[Column, str | bytes], str | bytes]] = {
    **dict.fromkeys(INTEGERS, _whole),
    **dict.fromkeys(FLOATS, _floating),
    **dict.fromkeys(STRINGS, _string),
    MySQLType.DECIMAL: _fractional,
    MySQLType.YEAR: _year,
    MySQLType.BIT: _bits,
    MySQLType.ENUM: _element,
    MySQLType.SET: _members,
    MySQLType.DATE: _day,
    MySQLType.DATETIME: _instant,
    MySQLType.TIMESTAMP: _instant,
    MySQLType.TIME: _span,
}
