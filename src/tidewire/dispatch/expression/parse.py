"""Reading SQL expressions, by MySQL's grammar and precedence, into trees.

A tree has literals, columns, and functions of them. Operators are functions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TypeAlias

from tidewire.ddl.lex import Kind
from tidewire.dispatch.expression import text_functions
from tidewire.dispatch.expression.grammar import (
    BITS,
    COMPARISON,
    CONSTANTS,
    EQUAL,
    FUNCTIONS,
    INFIXES,
    IS,
    PREDICATE,
    PREFIXES,
    RESERVED,
    TEMPORAL_LITERALS,
    Cursor,
    SyntaxProblem,
)
from tidewire.dispatch.expression.operators import (
    TYPES,
    between,
    both,
    cast,
    chosen,
    collated,
    either,
    like,
    member,
    negated,
    regexp,
)
from tidewire.dispatch.expression.temporal import PARTS, timestamp_of
from tidewire.dispatch.expression.values import Function, Numbered, Sql, Text
from tidewire.dispatch.patterns import searching

_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Literal:
    """A value the expression spells out."""

    value: Sql


@dataclass(frozen=True, slots=True)
class Name:
    """A column, with the table and the schema before it where the expression has them."""

    column: str
    table: str | None = None
    schema: str | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """A function of other parts."""

    function: Function
    arguments: tuple[Node, ...]
    depth: int = 1


Node: TypeAlias = Literal | Name | Call


def depth(node: Node) -> int:
    """How many calls are inside each other."""
    return node.depth if isinstance(node, Call) else 0


def names(node: Node) -> set[Name]:
    """The columns that an expression reads."""
    match node:
        case Name():
            return {node}
        case Call():
            found: set[Name] = set()
            return found.union(*(names(argument) for argument in node.arguments))
        case _:
            return set()


def evaluate(node: Node, value_of: Callable[[Name], Sql]) -> Sql:
    """The value of an expression where its columns have these values."""
    match node:
        case Literal(value):
            return value
        case Name():
            return value_of(node)
        case Call(function, arguments):
            return function(*(evaluate(argument, value_of) for argument in arguments))


def parse(text: str) -> Node:
    """An expression as a tree; ``SyntaxProblem`` says what is wrong and where."""
    parser = _Parser(text)
    node = parser.expression()
    if parser.cursor.peek().kind is not Kind.END:
        raise parser.cursor.wrong("the end of the expression")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self.cursor = Cursor(text)
        self._inside = 0

    def expression(self, power: int = 0) -> Node:
        """Read an expression whose operators bind at least as strongly as ``power``."""
        self._inside += 1
        if self._inside > _DEEPEST:
            raise SyntaxProblem("the expression is nested too deeply")
        node = self._prefixed()
        while (longer := self._extended(node, power)) is not None:
            node = longer
        self._inside -= 1
        return node

    def _prefixed(self) -> Node:
        word = self.cursor.peek().word
        if word in PREFIXES:
            self.cursor.next()
            power, function = PREFIXES[word]
            return _call(function, self.expression(power))
        return self._primary()

    def _extended(self, node: Node, power: int) -> Node | None:
        """The expression with the next operator and its right side; ``None`` if none binds so strongly."""
        word = self.cursor.peek().word
        if word == "COLLATE":
            self.cursor.next()
            return self._collated(node)
        if word in INFIXES and INFIXES[word].power >= power:
            self.cursor.next()
            infix = INFIXES[word]
            return _chained(infix.function, node, self.expression(infix.power + 1))
        if word == "IS" and power <= COMPARISON:
            self.cursor.next()
            return self._negatable(self.cursor.accept("NOT"), self._is(node))
        if power <= PREDICATE:
            return self._predicate(node)
        return None

    def _collated(self, node: Node) -> Node:
        if self.cursor.peek().kind not in (Kind.WORD, Kind.NAME, Kind.STRING):
            raise self.cursor.wrong("a collation")
        return _call(collated(self.cursor.next().text.lower()), node)

    def _predicate(self, node: Node) -> Node | None:
        negative = self.cursor.sees("NOT") and self.cursor.peek(1).word in _PREDICATES
        word = self.cursor.peek(int(negative)).word
        if word not in _PREDICATES:
            return None
        self.cursor.accept("NOT")
        self.cursor.next()
        return self._negatable(negative, _PREDICATES[word](self, node))

    def _negatable(self, negative: bool, node: Node) -> Node:
        return _call(negated, node) if negative else node

    def _is(self, node: Node) -> Node:
        word = self.cursor.accept_any(*IS)
        if word is None:
            raise self.cursor.wrong("NULL, TRUE or FALSE")
        return _call(IS[word], node)

    def between(self, node: Node) -> Node:
        """``BETWEEN low AND high``."""
        low = self.expression(BITS)
        self.cursor.expect("AND")
        return _call(between, node, low, self.expression(PREDICATE))

    def member(self, node: Node) -> Node:
        """``IN (one, other)``."""
        self.cursor.expect("(")
        return _call(member, node, *self._list())

    def like(self, node: Node) -> Node:
        """``LIKE pattern ESCAPE 'sign'``."""
        pattern = self.expression(BITS)
        if not self.cursor.accept("ESCAPE"):
            return _call(like, node, pattern)
        escape = self.cursor.next()
        if escape.kind is not Kind.STRING or len(escape.text) > 1:
            raise SyntaxProblem("the sign of ESCAPE must be a string of one character at most")
        return _call(like, node, pattern, Literal(Text(escape.text)))

    def regexp(self, node: Node) -> Node:
        """``REGEXP pattern``; one that is spelled out is checked here."""
        pattern = self.expression(BITS)
        if isinstance(pattern, Literal) and isinstance(pattern.value, Text):
            try:
                searching(pattern.value.text)
            except ValueError as error:
                raise SyntaxProblem(f"{pattern.value.text!r} is not a regular expression ({error})") from None
        return _call(regexp, node, pattern)

    def _list(self) -> list[Node]:
        """Expressions up to a closing parenthesis."""
        nodes = [self.expression()]
        while self.cursor.accept(","):
            nodes.append(self.expression())
        self.cursor.expect(")")
        return nodes

    def _primary(self) -> Node:
        token = self.cursor.peek()
        if self.cursor.accept("("):
            node = self.expression()
            self.cursor.expect(")")
            return node
        match token.kind:
            case Kind.STRING:
                return Literal(Text(self._string()))
            case Kind.NUMBER:
                return Literal(_number(self.cursor.next().text))
            case Kind.BYTES:
                data = bytes.fromhex(self.cursor.next().text)
                return Literal(Numbered(int.from_bytes(data, "big"), data))
            case Kind.NAME:
                return self._column()
            case Kind.WORD:
                return self._word()
        raise self.cursor.wrong("an expression")

    def _string(self) -> str:
        """A string; strings side by side are one."""
        text = self.cursor.next().text
        while self.cursor.peek().kind is Kind.STRING:
            text += self.cursor.next().text
        return text

    def _word(self) -> Node:
        token, word = self.cursor.peek(), self.cursor.peek().word
        follows = self.cursor.peek(1)
        if follows.word == "(":
            self.cursor.next()
            self.cursor.next()
            return _SPECIAL[word](self) if word in _SPECIAL else self._function(token.text)
        if word == "CASE":
            self.cursor.next()
            return self._case()
        if word in CONSTANTS:
            self.cursor.next()
            return Literal(CONSTANTS[word])
        if follows.kind is Kind.STRING and word in TEMPORAL_LITERALS:
            self.cursor.next()
            return Literal(_temporal_literal(word, self._string()))
        if follows.kind is Kind.STRING and word.startswith("_"):
            self.cursor.next()
            return Literal(Text(self._string()))
        if word in RESERVED:
            raise self.cursor.wrong("an expression")
        return self._column()

    def _column(self) -> Node:
        parts = [self.cursor.next().text]
        while self.cursor.accept("."):
            if self.cursor.peek().kind not in (Kind.NAME, Kind.WORD) or len(parts) == 3:
                raise self.cursor.wrong("a column's name")
            parts.append(self.cursor.next().text)
        return Name(*reversed(parts))

    def _function(self, name: str) -> Node:
        if name.upper() not in FUNCTIONS:
            raise SyntaxProblem(f"there is no function {name}; known are {', '.join(sorted(FUNCTIONS))}")
        function, fewest, most = FUNCTIONS[name.upper()]
        arguments = [] if self.cursor.accept(")") else self._list()
        if not fewest <= len(arguments) <= most:
            raise SyntaxProblem(f"{name} takes {fewest} to {most} arguments, not {len(arguments)}")
        return _call(function, *arguments)

    def _case(self) -> Node:
        subject = None if self.cursor.sees("WHEN") else self.expression()
        parts: list[Node] = []
        self.cursor.expect("WHEN")
        while True:
            condition = self.expression()
            self.cursor.expect("THEN")
            parts += (condition if subject is None else _call(EQUAL, subject, condition), self.expression())
            if not self.cursor.accept("WHEN"):
                break
        parts.append(self.expression() if self.cursor.accept("ELSE") else Literal(None))
        self.cursor.expect("END")
        return _call(chosen, *parts)

    def cast(self) -> Node:
        """``CAST(value AS type)``."""
        value = self.expression()
        self.cursor.expect("AS")
        return self._cast(value)

    def convert(self) -> Node:
        """``CONVERT(value, type)`` and ``CONVERT(value USING charset)``."""
        value = self.expression()
        if self.cursor.accept("USING"):
            charset = self.cursor.next().word
            self.cursor.expect(")")
            return _call(cast("BINARY" if charset == "BINARY" else "CHAR"), value)
        self.cursor.expect(",")
        return self._cast(value)

    def _cast(self, value: Node) -> Node:
        type_ = self.cursor.accept_any(*sorted(TYPES))
        if type_ is None:
            raise self.cursor.wrong("a type")
        self.cursor.accept_any("INTEGER", "INT")
        sizes: list[int] = []
        if self.cursor.accept("("):
            sizes.append(self.cursor.integer())
            if self.cursor.accept(","):
                sizes.append(self.cursor.integer())
            self.cursor.expect(")")
        self.cursor.expect(")")
        return _call(cast(type_, tuple(sizes)), value)

    def substring(self) -> Node:
        """``SUBSTRING(text FROM start FOR length)``, or with commas."""
        arguments = [self.expression()]
        while self.cursor.accept_any(",", "FROM", "FOR"):
            arguments.append(self.expression())
        self.cursor.expect(")")
        if not 2 <= len(arguments) <= 3:
            raise SyntaxProblem(f"SUBSTRING takes 2 to 3 arguments, not {len(arguments)}")
        return _call(FUNCTIONS["SUBSTRING"][0], *arguments)

    def trim(self) -> Node:
        """``TRIM(LEADING 'x' FROM text)``, and all its shorter forms."""
        side = self.cursor.accept_any("BOTH", "LEADING", "TRAILING")
        arguments = [] if self.cursor.sees("FROM") else [self.expression()]
        if self.cursor.accept("FROM"):
            arguments.insert(0, self.expression())
        self.cursor.expect(")")
        return _call(text_functions.trimmed(left=side != "TRAILING", right=side != "LEADING"), *arguments)

    def extract(self) -> Node:
        """``EXTRACT(YEAR FROM timestamp)``."""
        part = self.cursor.accept_any(*PARTS)
        if part is None:
            raise self.cursor.wrong(f"one of {', '.join(PARTS)}")
        self.cursor.expect("FROM")
        value = self.expression()
        self.cursor.expect(")")
        return _call(PARTS[part], value)

    def position(self) -> Node:
        """``POSITION(part IN text)``."""
        wanted = self.expression(BITS)
        self.cursor.expect("IN")
        value = self.expression()
        self.cursor.expect(")")
        return _call(text_functions.locate, wanted, value)


_PREDICATES: Mapping[str, Callable[[_Parser, Node], Node]] = {
    "BETWEEN": _Parser.between,
    "IN": _Parser.member,
    "LIKE": _Parser.like,
    **dict.fromkeys(("REGEXP", "RLIKE"), _Parser.regexp),
}
_SPECIAL: Mapping[str, Callable[[_Parser], Node]] = {
    "CAST": _Parser.cast,
    "CONVERT": _Parser.convert,
    **dict.fromkeys(("SUBSTRING", "SUBSTR", "MID"), _Parser.substring),
    "TRIM": _Parser.trim,
    "EXTRACT": _Parser.extract,
    "POSITION": _Parser.position,
}
"""Functions whose arguments have words between them."""


def _call(function: Function, *arguments: Node) -> Node:
    deepest = 1 + max(depth(argument) for argument in arguments)
    if deepest > _DEEPEST:
        raise SyntaxProblem("the expression is nested too deeply")
    return Call(function, arguments, deepest)


def _chained(function: Function, left: Node, right: Node) -> Node:
    """A call; a chain of ANDs or ORs is one call, however long it is."""
    if function in (both, either) and isinstance(left, Call) and left.function is function:
        return Call(function, (*left.arguments, right), max(left.depth, depth(right) + 1))
    return _call(function, left, right)


def _number(text: str) -> Sql:
    if "e" in text.lower():
        return float(text)
    return Decimal(text) if "." in text else int(text)


def _temporal_literal(word: str, text: str) -> Sql:
    if word != "TIME" and timestamp_of(Text(text)) is None:
        raise SyntaxProblem(f"{text!r} is not a {word.lower()}")
    return TEMPORAL_LITERALS[word](text)
