"""An expression taken apart: literals, columns, and functions of them. Operators are functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tidewire.dispatch.expression.operators import Function
from tidewire.dispatch.expression.values import Sql


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
    """The columns an expression is about."""
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
