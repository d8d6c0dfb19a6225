"""The words and signs of SQL expressions: what they mean, and how strongly operators bind."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidewire.dispatch.expression import json_functions, number_functions, text_functions, time_functions
from tidewire.dispatch.expression.casts import cast
from tidewire.dispatch.expression.operators import (
    EXACT,
    Function,
    arithmetic,
    bitwise,
    both,
    comparing,
    divided,
    either,
    inverted,
    is_null,
    is_truth,
    minus,
    negated,
    null_safe_equal,
    one_of_two,
    remainder,
    shifted,
    whole_divided,
)
from tidewire.dispatch.expression.values import Sql
from tidewire.model import Date, DateTime, Time

FUNCTIONS: Mapping[str, tuple[Function, int, int]] = {
    **text_functions.FUNCTIONS,
    **number_functions.FUNCTIONS,
    **time_functions.FUNCTIONS,
    **json_functions.FUNCTIONS,
}
"""The functions expressions may call, with the fewest and the most arguments."""

COMPARISON, PREDICATE, BITS = 5, 6, 7
"""How strongly ``=``, ``IN`` and ``|`` bind; a larger number binds more strongly."""


class Infix(NamedTuple):
    """An operator between its two sides."""

    power: int
    function: Function


EQUAL = comparing(lambda order: order == 0)
INFIXES: Mapping[str, Infix] = {
    **dict.fromkeys(("OR", "||"), Infix(1, either)),
    "XOR": Infix(2, one_of_two),
    **dict.fromkeys(("AND", "&&"), Infix(3, both)),
    "=": Infix(COMPARISON, EQUAL),
    "<=>": Infix(COMPARISON, null_safe_equal),
    **dict.fromkeys(("<>", "!="), Infix(COMPARISON, comparing(lambda order: order != 0))),
    "<": Infix(COMPARISON, comparing(lambda order: order < 0)),
    "<=": Infix(COMPARISON, comparing(lambda order: order <= 0)),
    ">": Infix(COMPARISON, comparing(lambda order: order > 0)),
    ">=": Infix(COMPARISON, comparing(lambda order: order >= 0)),
    "|": Infix(BITS, bitwise(operator.or_)),
    "&": Infix(8, bitwise(operator.and_)),
    "<<": Infix(9, shifted(left=True)),
    ">>": Infix(9, shifted(left=False)),
    "+": Infix(10, arithmetic(EXACT.add, operator.add)),
    "-": Infix(10, arithmetic(EXACT.subtract, operator.sub)),
    "*": Infix(11, arithmetic(EXACT.multiply, operator.mul)),
    "/": Infix(11, divided),
    "DIV": Infix(11, whole_divided),
    **dict.fromkeys(("%", "MOD"), Infix(11, remainder)),
    "^": Infix(12, bitwise(operator.xor)),
    "->": Infix(16, json_functions.extract),
    "->>": Infix(16, json_functions.extract_unquoted),
}
PREFIXES: Mapping[str, tuple[int, Function]] = {
    "NOT": (4, negated),
    "-": (13, minus),
    "+": (13, lambda value: value),
    "~": (13, inverted),
    "!": (14, negated),
    "BINARY": (15, cast("BINARY")),
}
IS: Mapping[str, Function] = {
    "NULL": is_null,
    "UNKNOWN": is_null,
    "TRUE": is_truth(True),
    "FALSE": is_truth(False),
}
CONSTANTS: Mapping[str, Sql] = {"TRUE": 1, "FALSE": 0, "NULL": None}
MOMENTS: Mapping[str, Callable[[str], Sql]] = {"DATE": Date, "TIME": Time, "TIMESTAMP": DateTime}
RESERVED = frozenset(
    {"AND", "OR", "XOR", "NOT", "BETWEEN", "IN", "LIKE", "REGEXP", "RLIKE", "IS", "DIV", "MOD", "CASE", "WHEN", "THEN"}
    | {"ELSE", "COLLATE", "BINARY", "INTERVAL", "SELECT", "FROM", "WHERE", "EXISTS", "GROUP", "ORDER", "BY", "LIMIT"}
    | {"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_USER"}
    | {"UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "UNION", "HAVING", "AS", "INTO"}
)
"""Words that are a column's name only in back quotes."""
