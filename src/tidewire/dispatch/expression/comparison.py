"""How two SQL values compare, with MySQL's conversions between types. A comparison with NULL is NULL."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tidewire.dispatch.expression.temporal import seconds_of, timestamp_of
from tidewire.dispatch.expression.values import BINARY, Json, Number, Numbered, Sql, Text, number_of, sort_key, text_of
from tidewire.model import Date, DateTime, Time


def compare(one: Sql, other: Sql) -> int | None:
    """Return a number below 0, 0 or above 0, as the first value is less, equal or greater; ``None`` if one is NULL."""
    if one is None or other is None:
        return None
    first, second = (one, other) if type(one) is int and type(other) is int else _comparable(one, other)
    return None if first is None or second is None else (first > second) - (first < second)


def same(one: Sql, other: Sql) -> bool:
    """Are two values the same, NULL being the same as NULL?"""
    return one is other if one is None or other is None else compare(one, other) == 0


def common_collation(*texts: Text) -> str:
    """The collation to compare texts by: a column's before a literal's, then ``binary``, then a ``_bin`` one."""
    collations = [text.collation for text in texts if text.explicit] or [text.collation for text in texts]
    return min(collations, key=lambda name: (name != BINARY, not name.endswith("_bin")))


def _comparable(one: Sql, other: Sql) -> tuple[Any, Any]:
    """Two values in a common form; ``None`` for one that cannot be brought into it."""
    pair = (one, other)
    if any(isinstance(value, Json) for value in pair):
        return _json_keys(one, other)
    if any(isinstance(value, Date | DateTime | Time) for value in pair):
        convert = _temporal_form(one, other)
        return convert(one), convert(other)
    if all(isinstance(value, Text | bytes | Numbered) for value in pair):
        return _text_keys(text_of(one), text_of(other))
    return _numbers(number_of(one), number_of(other))


def _temporal_form(one: Sql, other: Sql) -> Callable[[Sql], Any]:
    """How to compare temporal values: dates as dates, durations as durations, a date with a duration as numbers."""
    are_durations = {isinstance(value, Time) for value in (one, other) if isinstance(value, Date | DateTime | Time)}
    return {frozenset({True}): seconds_of, frozenset({False}): timestamp_of}.get(frozenset(are_durations), number_of)


def _text_keys(one: Text, other: Text) -> tuple[Any, Any]:
    collation = common_collation(one, other)
    if collation == BINARY:
        return one.text.encode("utf-8", "surrogateescape"), other.text.encode("utf-8", "surrogateescape")
    return sort_key(one.text, collation), sort_key(other.text, collation)


def _numbers(one: Number, other: Number) -> tuple[Number, Number]:
    """Exact numbers compare exactly, and as floating point with a floating point number."""
    return (float(one), float(other)) if isinstance(one, float) or isinstance(other, float) else (one, other)


def _json_keys(one: Sql, other: Sql) -> tuple[Any, Any]:
    """The keys of two JSON values. A JSON truth value is equal to SQL's TRUE or FALSE, although these are numbers."""
    keys = _json_key(_plain(one)), _json_key(_plain(other))
    truths = {_JSON_RANKS[bool], _JSON_RANKS[int]}
    if {rank for rank, _ in keys} == truths and not (isinstance(one, Json) and isinstance(other, Json)):
        return keys[0][1], keys[1][1]
    return keys


_JSON_RANKS = {bool: 5, list: 4, dict: 3, str: 2, int: 1, float: 1, type(None): 0}
"""JSON values of different types compare by their types."""


def _json_key(value: Any) -> tuple[int, Any]:
    rank = _JSON_RANKS[type(value)]
    match value:
        case list():
            return rank, [_json_key(item) for item in value]
        case dict():
            return rank, (len(value), sorted((name, _json_key(item)) for name, item in value.items()))
        case None:
            return rank, 0
        case _:
            return rank, value


def _plain(value: Sql) -> Any:
    match value:
        case Json():
            return value.value
        case int() | float():
            return value
        case Decimal():
            return float(value)
        case _:
            return text_of(value).text
