"""What MODIFY COLUMN makes of stored values, in SQL: MySQL's conversions from one type to another.

Most go by way of MySQL's text of the value. Upstream the statement succeeded, so every value converts; one that does
not stops the statement here, because the expressions are ANSI casts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tidewire.arrow.policy import Policy
from tidewire.arrow.types import engines
from tidewire.errors import SyncError
from tidewire.model import Column, MySQLType
from tidewire.model.types import CHARS, FLOATS, INTEGERS
from tidewire.spark.targets.base import text_literal

Converter: TypeAlias = Callable[[str, Column, Column, Policy], str]

EPOCH: Final = "TIMESTAMP_NTZ '1970-01-01 00:00:00'"
_DAY: Final = 86_400_000_000


def convert_sql(expr: str, old: Column, new: Column, policy: Policy = Policy()) -> str:
    """A stored value of one column type as a value of another.

    >>> convert_sql("x", Column.of("c", "decimal(10,2)"), Column.of("c", "int"))
    'CAST(round(x) AS int)'
    """
    source, goal = _family(old, policy), _family(new, policy)
    direct = _DIRECT.get((source, goal))
    if direct is not None:
        return direct(expr, old, new, policy)
    if (source, goal) in _REFUSED:
        raise SyncError(f"column {new.name}: values of {old.mysql_type} cannot become {new.mysql_type}")
    return _FROM_TEXT[goal](text_sql(expr, old, policy), old, new, policy)


def text_sql(expr: str, column: Column, policy: Policy = Policy()) -> str:
    """MySQL's text of a stored value."""
    return _TO_TEXT[_family(column, policy)](expr, column, policy)


def local_sql(expr: str, policy: Policy) -> str:
    """An instant as the clock showed it in the server's time zone, whatever zone Spark's session has."""
    utc = f"timestampadd(MICROSECOND, unix_micros({expr}), {EPOCH})"
    return utc if policy.time_zone == "UTC" else f"convert_timezone('UTC', {text_literal(policy.time_zone)}, {utc})"


def instant_sql(expr: str, policy: Policy) -> str:
    """The instant at which the clock showed this in the server's time zone."""
    utc = expr if policy.time_zone == "UTC" else f"convert_timezone({text_literal(policy.time_zone)}, 'UTC', {expr})"
    return f"timestamp_micros(timestampdiff(MICROSECOND, {EPOCH}, {utc}))"


def _family(column: Column, policy: Policy) -> str:
    if policy.keeps_text(column):
        return "text"
    if column.is_binary:
        return "bytes"
    return _FAMILIES.get(column.type, "text")


_FAMILIES: Mapping[MySQLType, str] = {
    **dict.fromkeys(INTEGERS | {MySQLType.BIT}, "whole"),
    **dict.fromkeys(FLOATS, "float"),
    MySQLType.YEAR: "year",
    MySQLType.DECIMAL: "decimal",
    MySQLType.DATE: "date",
    MySQLType.NEWDATE: "date",
    MySQLType.DATETIME: "datetime",
    MySQLType.TIMESTAMP: "timestamp",
    MySQLType.TIME: "time",
    MySQLType.ENUM: "enum",
    MySQLType.SET: "set",
    MySQLType.VECTOR: "vector",
}


def _type(column: Column, policy: Policy) -> str:
    return engines(policy.type_of(column)).spark


# To text


def _plain_text(expr: str, column: Column, policy: Policy) -> str:
    return expr if _type(column, policy) == "string" else f"CAST({expr} AS string)"


def _year_text(expr: str, column: Column, policy: Policy) -> str:
    return f"lpad(CAST({expr} AS string), 4, '0')"


def _float_text(expr: str, column: Column, policy: Policy) -> str:
    """Plain digits between 1e-15 and 1e15, as MySQL prints them; Spark begins with exponents much sooner."""
    large = f"CAST(CAST({expr} AS decimal(38,17)) AS string)"
    small = f"CAST(CAST({expr} AS decimal(38,37)) AS string)"
    exponent = f"replace(replace(CAST({expr} AS string), '.0E', 'E'), 'E', 'e')"
    return (
        f"CASE WHEN {expr} = 0 THEN '0' WHEN abs({expr}) >= 1 AND abs({expr}) < 1e15 "
        f"THEN rtrim('.', rtrim('0', {large})) WHEN abs({expr}) < 1 AND abs({expr}) >= 1e-15 "
        f"THEN rtrim('.', rtrim('0', {small})) ELSE {exponent} END"
    )


def _bytes_text(expr: str, column: Column, policy: Policy) -> str:
    return f"validate_utf8(CAST({expr} AS string))"


def _clock_text(expr: str, digits: int | None) -> str:
    """Date and time with as many digits behind the second as the column has; Spark leaves out zeros at the end."""
    text = f"CAST({expr} AS string)"
    whole = f"left({text}, 19)"
    return whole if not digits else f"concat({whole}, rpad(concat('.', substring({text}, 21)), {digits + 1}, '0'))"


def _datetime_text(expr: str, column: Column, policy: Policy) -> str:
    return _clock_text(expr, column.decimal)


def _timestamp_text(expr: str, column: Column, policy: Policy) -> str:
    return _clock_text(local_sql(expr, policy), column.decimal)


def _time_text(expr: str, column: Column, policy: Policy) -> str:
    size, digits = f"abs({expr})", column.decimal or 0

    def two(number: str) -> str:
        return f"lpad(CAST({number} AS string), 2, '0')"

    # lpad cuts what is longer, and a TIME may have three digits of hours.
    hours = f"IF({size} < 100 * 3600000000, {two(f'{size} div 3600000000')}, CAST({size} div 3600000000 AS string))"
    minutes = two(f"{size} div 60000000 % 60")
    seconds = two(f"{size} div 1000000 % 60")
    clock = f"concat(IF({expr} < 0, '-', ''), {hours}, ':', {minutes}, ':', {seconds})"
    fraction = f"left(lpad(CAST({size} % 1000000 AS string), 6, '0'), {digits})"
    return f"concat({clock}, '.', {fraction})" if digits else clock


def _vector_text(expr: str, column: Column, policy: Policy) -> str:
    number = _float_text("v", column, policy)
    return f"concat('[', array_join(transform({expr}, v -> {number}), ','), ']')"


_TO_TEXT: Mapping[str, Callable[[str, Column, Policy], str]] = {
    **dict.fromkeys(("text", "whole", "decimal", "date", "enum", "set"), _plain_text),
    "year": _year_text,
    "float": _float_text,
    "bytes": _bytes_text,
    "datetime": _datetime_text,
    "timestamp": _timestamp_text,
    "time": _time_text,
    "vector": _vector_text,
}


# From text


def _cast_to(expr: str, _: Column, new: Column, policy: Policy) -> str:
    return f"CAST({expr} AS {_type(new, policy)})"


def _whole_from_text(expr: str, _: Column, new: Column, policy: Policy) -> str:
    return f"CAST(round(CAST({expr} AS decimal(38,10))) AS {_type(new, policy)})"


def _text_from_text(expr: str, _: Column, new: Column, policy: Policy) -> str:
    return f"left({expr}, {new.length})" if new.type in CHARS and new.length is not None else expr


def _bytes_from_text(expr: str, old: Column, new: Column, policy: Policy) -> str:
    return _sized(f"CAST({expr} AS binary)", new)


def _sized(expr: str, new: Column) -> str:
    """Bytes of at most a column's length; a BINARY is filled up with zeros."""
    if new.type not in CHARS or new.length is None:
        return expr
    cut = f"substring({expr}, 1, {new.length})"
    return f"rpad({cut}, {new.length}, X'00')" if new.type is MySQLType.CHAR else cut


def _without_zeros(expr: str, value: str) -> str:
    """A date that the calendar does not have is NULL, as it is when it comes on the wire."""
    return f"CASE WHEN {expr} LIKE '____-00-%' OR {expr} LIKE '____-__-00%' THEN NULL ELSE {value} END"


def _date_from_text(expr: str, _: Column, new: Column, policy: Policy) -> str:
    return _without_zeros(expr, f"CAST(left({expr}, 10) AS date)")


def _datetime_from_text(expr: str, _: Column, new: Column, policy: Policy) -> str:
    return _without_zeros(expr, _rounded(f"CAST({expr} AS timestamp_ntz)", None, new))


def _timestamp_from_text(expr: str, _: Column, new: Column, policy: Policy) -> str:
    return _without_zeros(expr, instant_sql(_rounded(f"CAST({expr} AS timestamp_ntz)", None, new), policy))


def _time_from_text(expr: str, _: Column, new: Column, policy: Policy) -> str:
    def part(number: int) -> str:
        return (
            rf"CAST(regexp_extract({expr}, '^(-?)([0-9]+):([0-9]{{2}}):([0-9]{{2}})([.][0-9]*)?$', {number}) AS bigint)"
        )

    fraction = rf"CAST(rpad(concat('0', regexp_extract({expr}, '[.]([0-9]*)$', 1)), 7, '0') AS bigint)"
    size = f"(({part(2)} * 60 + {part(3)}) * 60 + {part(4)}) * 1000000 + {fraction}"
    return f"IF({expr} LIKE '-%', -1, 1) * round({size}, {(new.decimal or 0) - 6})"


def _names_from_text(expr: str, _: Column, new: Column, policy: Policy) -> str:
    if not new.elements:
        raise SyncError(f"column {new.name}: the names of {new.mysql_type} are not known, so no text can become one")
    return expr


def _vector_from_text(expr: str, _: Column, new: Column, policy: Policy) -> str:
    return f"from_json({expr}, 'array<float>', map('mode', 'FAILFAST'))"


_FROM_TEXT: Mapping[str, Converter] = {
    "text": _text_from_text,
    "bytes": _bytes_from_text,
    "whole": _whole_from_text,
    "year": _whole_from_text,
    "decimal": _cast_to,
    "float": _cast_to,
    "date": _date_from_text,
    "datetime": _datetime_from_text,
    "timestamp": _timestamp_from_text,
    "time": _time_from_text,
    "enum": _names_from_text,
    "set": _names_from_text,
    "vector": _vector_from_text,
}


# Without a text in between


def _same(expr: str, old: Column, new: Column, policy: Policy) -> str:
    return expr if _type(old, policy) == _type(new, policy) else _cast_to(expr, old, new, policy)


def _bytes_from_bytes(expr: str, old: Column, new: Column, policy: Policy) -> str:
    return _sized(expr, new)


def _decimal_to_whole(expr: str, old: Column, new: Column, policy: Policy) -> str:
    if _type(old, policy) == "string":
        return _whole_from_text(expr, old, new, policy)
    return f"CAST(round({expr}) AS {_type(new, policy)})"


def _float_to_whole(expr: str, old: Column, new: Column, policy: Policy) -> str:
    return f"CAST(rint({expr}) AS {_type(new, policy)})"


def _rounded(expr: str, old: Column | None, new: Column) -> str:
    """A time with no more digits behind the second than the column has, rounded to the nearest."""
    digits = new.decimal or 0
    if digits == 6 or (old is not None and (old.decimal or 0) <= digits):
        return expr
    unit = 10 ** (6 - digits)
    later = f"timestampadd(MICROSECOND, {unit // 2}, {expr})"
    return f"timestampadd(MICROSECOND, -pmod(timestampdiff(MICROSECOND, {EPOCH}, {later}), {unit}), {later})"


def _rounded_instant(expr: str, old: Column, new: Column, policy: Policy) -> str:
    utc = Policy()
    return expr if _rounded(expr, old, new) == expr else instant_sql(_rounded(local_sql(expr, utc), old, new), utc)


def _to_number(expr: str, old: Column, new: Column, policy: Policy) -> str:
    """A date or time as the number of its digits: 20240229120000. The sign of a TIME stays."""
    signs = "[:]" if old.type is MySQLType.TIME else "[^0-9]"
    digits = f"regexp_replace(split_part({text_sql(expr, old, policy)}, '.', 1), '{signs}', '')"
    return f"CAST({digits} AS {_type(new, policy)})"


def _span_of_day(expr: str) -> str:
    return f"pmod(timestampdiff(MICROSECOND, {EPOCH}, {expr}), {_DAY})"


def _name_to_number(expr: str, old: Column, new: Column, policy: Policy) -> str:
    if not old.elements:
        return _cast_to(expr, old, new, policy)
    names = ", ".join(map(text_literal, old.elements))
    return f"CAST(array_position(array({names}), {expr}) AS {_type(new, policy)})"


def _number_to_name(expr: str, old: Column, new: Column, policy: Policy) -> str:
    names = ", ".join(map(text_literal, new.elements))
    return f"IF({expr} = 0, '', element_at(array({names}), CAST({expr} AS int)))"


_NUMBERS: Final = ("whole", "year", "decimal", "float")
_TIMES: Final = ("date", "datetime", "timestamp", "time")

_DIRECT: Mapping[tuple[str, str], Converter] = {
    **{(source, goal): _cast_to for source in _NUMBERS for goal in _NUMBERS},
    **{(same, same): _same for same in ("whole", "year", "decimal", "float", "date", "vector")},
    **{("decimal", goal): _decimal_to_whole for goal in ("whole", "year")},
    **{("float", goal): _float_to_whole for goal in ("whole", "year")},
    **{(source, goal): _to_number for source in _TIMES for goal in _NUMBERS},
    ("bytes", "bytes"): _bytes_from_bytes,
    ("date", "datetime"): _cast_to,
    ("date", "timestamp"): lambda expr, old, new, policy: instant_sql(f"CAST({expr} AS timestamp_ntz)", policy),
    ("datetime", "date"): _cast_to,
    ("datetime", "datetime"): lambda expr, old, new, policy: _rounded(expr, old, new),
    ("datetime", "timestamp"): lambda expr, old, new, policy: instant_sql(_rounded(expr, old, new), policy),
    ("datetime", "time"): lambda expr, old, new, policy: _span_of_day(_rounded(expr, old, new)),
    ("timestamp", "date"): lambda expr, old, new, policy: f"CAST({local_sql(expr, policy)} AS date)",
    ("timestamp", "datetime"): lambda expr, old, new, policy: _rounded(local_sql(expr, policy), old, new),
    ("timestamp", "timestamp"): _rounded_instant,
    ("timestamp", "time"): lambda expr, old, new, policy: _span_of_day(_rounded(local_sql(expr, policy), old, new)),
    ("time", "time"): lambda expr, old, new, policy: (
        expr if (new.decimal or 0) >= (old.decimal or 0) else f"round({expr}, {(new.decimal or 0) - 6})"
    ),
    ("enum", "whole"): _name_to_number,
    ("whole", "enum"): _number_to_name,
}

_REFUSED: Final = frozenset(
    {("time", "date"), ("time", "datetime"), ("time", "timestamp"), ("set", "whole"), ("whole", "set")}
    | {(source, goal) for source in _NUMBERS for goal in ("date", "datetime", "timestamp", "time")}
    | {("date", "time"), ("year", "enum"), ("year", "set")}
)
"""What would need today's date, or what MySQL itself only sometimes converts."""
