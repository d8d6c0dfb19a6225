"""The tokens of SQL expressions: how a text becomes tokens, what each means, and how strongly operators bind."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidewire.ddl.lex import Kind, Token
from tidewire.ddl.reader import Reader, Unreadable
from tidewire.dispatch.expression import json_functions, number_functions, temporal, text_functions
from tidewire.dispatch.expression.operators import (
    EXACT,
    arithmetic,
    bitwise,
    both,
    cast,
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
from tidewire.dispatch.expression.values import Function, Sql
from tidewire.model import Date, DateTime, Time

_START = "where "
"""The lexer gets the expression as a WHERE clause. In lower case, because then it reads escapes as in user text."""

_LONG_SIGNS = ("<=>", "->>", "<=", ">=", "<>", "!=", "&&", "||", "<<", ">>", "->")
_LONGEST_SIGN = 3

COMPARISON, PREDICATE, BITS = 5, 6, 7
"""How strongly ``=``, ``IN`` and ``|`` bind; a larger number binds more strongly."""


class SyntaxProblem(Unreadable):
    """A text is not an expression. Only this package raises and catches it."""


class Cursor(Reader):
    """The tokens of one expression, in turn, with signs of several characters put together."""

    def __init__(self, text: str) -> None:
        super().__init__(_START + text)
        self._tokens = _joined(self._tokens[1:])

    def wrong(self, expected: str) -> SyntaxProblem:
        """The error to raise if something else was expected; characters count from 1."""
        token = self.peek()
        found = "the end" if token.kind is Kind.END else repr(self._query[token.start : token.end][:40])
        return SyntaxProblem(f"expected {expected}, found {found} at character {token.start - len(_START) + 1}")


def _joined(tokens: list[Token]) -> list[Token]:
    joined: list[Token] = []
    at = 0
    while at < len(tokens):
        token = _longest_sign(tokens[at : at + _LONGEST_SIGN]) if tokens[at].kind is Kind.SIGN else tokens[at]
        joined.append(token)
        at += len(token.text) if token.kind is Kind.SIGN else 1
    return joined


def _longest_sign(tokens: list[Token]) -> Token:
    """The longest sign that these tokens spell without gaps."""
    first = tokens[0]
    for sign in _LONG_SIGNS:
        parts = tokens[: len(sign)]
        adjacent = parts[-1].end - first.start == len(sign)
        if adjacent and "".join(part.word for part in parts) == sign:
            return Token(Kind.SIGN, sign, first.start, parts[-1].end)
    return first


FUNCTIONS: Mapping[str, tuple[Function, int, int]] = {
    **text_functions.FUNCTIONS,
    **number_functions.FUNCTIONS,
    **temporal.FUNCTIONS,
    **json_functions.FUNCTIONS,
}
"""The functions expressions may call, with the fewest and the most arguments."""


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
TEMPORAL_LITERALS: Mapping[str, Callable[[str], Sql]] = {"DATE": Date, "TIME": Time, "TIMESTAMP": DateTime}
RESERVED = frozenset(
    {"AND", "OR", "XOR", "NOT", "BETWEEN", "IN", "LIKE", "REGEXP", "RLIKE", "IS", "DIV", "MOD", "CASE", "WHEN", "THEN"}
    | {"ELSE", "COLLATE", "BINARY", "INTERVAL", "SELECT", "FROM", "WHERE", "EXISTS", "GROUP", "ORDER", "BY", "LIMIT"}
    | {"CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP", "CURRENT_USER"}
    | {"UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "UNION", "HAVING", "AS", "INTO"}
)
"""Words that are a column's name only in back quotes."""
