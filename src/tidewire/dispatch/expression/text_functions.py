"""SQL functions over strings. Places count from 1; results keep the collation of their text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal

from tidewire.dispatch.expression.comparison import common_collation, compare
from tidewire.dispatch.expression.operators import rounded, strict
from tidewire.dispatch.expression.values import Function, Sql, Text, folded, number_of, text_of

_LONGEST = 1 << 20
"""The most characters REPEAT, SPACE and the paddings make."""


def _changed(change: Callable[[str], str]) -> Function:
    """A function of one text that gives a text like it."""
    return strict(lambda value: _like(value, change(text_of(value).text)))


def _cased(change: Callable[[str], str]) -> Function:
    """A function of the case of letters; bytes have none."""
    return strict(lambda value: value if isinstance(value, bytes) else _like(value, change(text_of(value).text)))


def _like(value: Sql, text: str) -> Sql:
    """A text of the same kind as a value."""
    if isinstance(value, bytes):
        return text.encode("utf-8", "surrogateescape")
    return replace(text_of(value), text=text)


def _bytes(value: Sql) -> bytes:
    return text_of(value).text.encode("utf-8", "surrogateescape")


def _whole(value: Sql) -> int:
    return rounded(number_of(value))


@strict
def _length(value: Sql) -> Sql:
    return len(_bytes(value))


@strict
def _char_length(value: Sql) -> Sql:
    return len(value) if isinstance(value, bytes) else len(text_of(value).text)


@strict
def _substring(value: Sql, start: Sql, length: Sql = 1 << 31) -> Sql:
    text, place, most = text_of(value).text, _whole(start), _whole(length)
    begin = place - 1 if place > 0 else len(text) + place
    return _like(value, text[begin : begin + most] if place and begin >= 0 and most > 0 else "")


@strict
def _left(value: Sql, length: Sql) -> Sql:
    return _like(value, text_of(value).text[: max(0, _whole(length))])


@strict
def _right(value: Sql, length: Sql) -> Sql:
    text = text_of(value).text
    return _like(value, text[max(0, len(text) - max(0, _whole(length))) :])


@strict
def _concat(*values: Sql) -> Sql:
    return _joined("", values)


def _concat_ws(separator: Sql, *values: Sql) -> Sql:
    if separator is None:
        return None
    return _joined(text_of(separator).text, [value for value in values if value is not None])


def _joined(separator: str, values: tuple[Sql, ...] | list[Sql]) -> Sql:
    texts = [text_of(value) for value in values]
    joined = separator.join(text.text for text in texts)
    return Text(joined, common_collation(*texts), any(text.explicit for text in texts)) if texts else Text(joined)


def trimmed(left: bool = True, right: bool = True) -> Function:
    """TRIM from one side or both; it removes spaces unless a text is given."""

    @strict
    def trim(value: Sql, away: Sql = Text(" ")) -> Sql:
        text, rest = text_of(value).text, text_of(away).text
        while left and rest and text.startswith(rest):
            text = text.removeprefix(rest)
        while right and rest and text.endswith(rest):
            text = text.removesuffix(rest)
        return _like(value, text)

    return trim


@strict
def _replace(value: Sql, old: Sql, new: Sql) -> Sql:
    wanted = text_of(old).text
    text = text_of(value).text
    return _like(value, text.replace(wanted, text_of(new).text) if wanted else text)


@strict
def _repeat(value: Sql, times: Sql) -> Sql:
    text = text_of(value).text
    return _like(value, text * min(max(0, _whole(times)), _LONGEST // max(1, len(text))))


def _padded(left: bool) -> Function:
    @strict
    def pad(value: Sql, length: Sql, filling: Sql) -> Sql:
        text, width, fill = text_of(value).text, _whole(length), text_of(filling).text
        missing = width - len(text)
        if width < 0 or width > _LONGEST or (missing > 0 and not fill):
            return None
        if missing <= 0:
            return _like(value, text[:width])
        added = (fill * (missing // len(fill) + 1))[:missing]
        return _like(value, added + text if left else text + added)

    return pad


@strict
def locate(wanted: Sql, value: Sql, start: Sql = 1) -> Sql:
    """LOCATE: where a text begins in another one, 0 if it does not."""
    one, other = text_of(wanted), text_of(value)
    needle, straw = (folded(text.text, common_collation(one, other)) for text in (one, other))
    begin = _whole(start) - 1
    return straw.find(needle, begin) + 1 if begin >= 0 else 0


@strict
def _find_in_set(wanted: Sql, values: Sql) -> Sql:
    text = text_of(values)
    parts = [replace(text, text=part) for part in text.text.split(",")] if text.text else []
    return next((place for place, part in enumerate(parts, 1) if compare(wanted, part) == 0), 0)


def _field(wanted: Sql, *values: Sql) -> Sql:
    return next((place for place, value in enumerate(values, 1) if compare(wanted, value) == 0), 0)


@strict
def _strcmp(one: Sql, other: Sql) -> Sql:
    return compare(text_of(one), text_of(other))


@strict
def _hex(value: Sql) -> Sql:
    if isinstance(value, int | float | Decimal):
        return Text(f"{rounded(value) % (1 << 64):X}")
    return Text(_bytes(value).hex().upper())


@strict
def _substring_index(value: Sql, delimiter: Sql, count: Sql) -> Sql:
    text, mark, most = text_of(value).text, text_of(delimiter).text, _whole(count)
    parts = text.split(mark) if mark else []
    return _like(value, mark.join(parts[:most] if most >= 0 else parts[most:]))


FUNCTIONS: Mapping[str, tuple[Function, int, int]] = {
    **dict.fromkeys(("LOWER", "LCASE"), (_cased(str.lower), 1, 1)),
    **dict.fromkeys(("UPPER", "UCASE"), (_cased(str.upper), 1, 1)),
    **dict.fromkeys(("LENGTH", "OCTET_LENGTH"), (_length, 1, 1)),
    **dict.fromkeys(("CHAR_LENGTH", "CHARACTER_LENGTH"), (_char_length, 1, 1)),
    **dict.fromkeys(("SUBSTRING", "SUBSTR", "MID"), (_substring, 2, 3)),
    "LEFT": (_left, 2, 2),
    "RIGHT": (_right, 2, 2),
    "CONCAT": (_concat, 1, 99),
    "CONCAT_WS": (_concat_ws, 2, 99),
    "TRIM": (trimmed(), 1, 1),
    "LTRIM": (trimmed(right=False), 1, 1),
    "RTRIM": (trimmed(left=False), 1, 1),
    "REPLACE": (_replace, 3, 3),
    "REVERSE": (_changed(lambda text: text[::-1]), 1, 1),
    "REPEAT": (_repeat, 2, 2),
    "LPAD": (_padded(left=True), 3, 3),
    "RPAD": (_padded(left=False), 3, 3),
    "LOCATE": (locate, 2, 3),
    "INSTR": (lambda value, wanted: locate(wanted, value), 2, 2),
    "FIND_IN_SET": (_find_in_set, 2, 2),
    "FIELD": (_field, 2, 99),
    "STRCMP": (_strcmp, 2, 2),
    "HEX": (_hex, 1, 1),
    "SUBSTRING_INDEX": (_substring_index, 3, 3),
}
"""Each function with the fewest and the most arguments it takes."""
