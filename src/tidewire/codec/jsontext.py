"""Reading JSON that comes off the wire: strict, and never with a surprise.

A message may be anything: cut short, nested a thousand deep, not UTF-8. Whatever is wrong becomes a ``DecodeError``
with the byte it happened at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, NoReturn

from tidewire.errors import DecodeError

Pairs = list[tuple[str, Any]]

_LONE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPES = re.compile(
    r"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(?P<lone>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\."
)
_MINUS_ZERO = re.compile(r"[:,\[]\s*-0(?![.\deE])")


def read_json(
    data: bytes, protocol: str, part: str = "value", *, base: int = 0, objects: Callable[[Pairs], Any] = dict
) -> Any:
    """The one JSON value in ``data``.

    ``objects`` turns the members of an object, in order and with repetitions, into what stands for it; its
    ``ValueError`` is the message's.
    ``base`` is where ``data`` begins in the message, so that errors name the message's byte.
    Bytes that are no UTF-8 come out as lone surrogates; :func:`text` turns a string that has them into bytes.
    A minus zero is a float, whatever the column's type: as an integer it would lose its sign.
    """
    source = data.decode("utf-8", "surrogateescape")
    if r"\ud" in source or r"\uD" in source:
        source = _SURROGATE_ESCAPES.sub(_mended, source)
    integer = _signed_zero if _MINUS_ZERO.search(source) else None
    try:
        return json.loads(source, object_pairs_hook=objects, parse_constant=_refuse_constant, parse_int=integer)
    except json.JSONDecodeError as error:
        at = base + len(source[: error.pos].encode("utf-8", "surrogateescape"))
        raise DecodeError(protocol, f"not JSON: {error.msg}", at, part) from None
    except RecursionError:
        raise DecodeError(protocol, "not JSON: nested too deeply", base, part) from None
    except ValueError as error:
        raise DecodeError(protocol, str(error), base, part) from None


def once(members: Pairs) -> dict[str, Any]:
    """An object in which no member may be there twice."""
    found = dict(members)
    if len(found) < len(members):
        raise ValueError(f"{repeated(members)!r} is there twice")
    return found


def repeated(members: Pairs) -> str | None:
    """The first member that is there a second time."""
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            return name
        seen.add(name)
    return None


def text(string: str) -> str | bytes:
    """A string as it was meant: ``str``, or the bytes where they were no UTF-8."""
    return string.encode("utf-8", "surrogateescape") if _LONE.search(string) else string


def _mended(escape: re.Match[str]) -> str:
    """An escaped lone surrogate is no character; Go reads it as U+FFFD. The text keeps its length."""
    return r"\ufffd" if escape["lone"] else escape[0]


def _signed_zero(digits: str) -> int | float:
    return -0.0 if digits == "-0" else int(digits)


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"not JSON: {word} is no number")


class Reader:
    """Takes members out of a parsed object and says, with the JSON path, what is wrong with them."""

    __slots__ = ("members", "part", "path", "protocol")

    def __init__(self, members: Any, protocol: str, part: str, path: str = "$") -> None:
        self.protocol, self.part, self.path = protocol, part, path
        if not isinstance(members, dict):
            raise self.refuse("an object was expected")
        self.members: dict[str, Any] = members

    def refuse(self, reason: str, name: str | None = None) -> DecodeError:
        """The error for a member, or for the object itself."""
        at = self.path if name is None else member_path(self.path, name)
        return DecodeError(self.protocol, reason, at, self.part)

    def integer(self, name: str, *, bits: int = 64, default: int | None = None) -> int:
        """An unsigned integer of at most ``bits`` bits."""
        value = self.members.get(name, default)
        if type(value) is not int or not 0 <= value < 1 << bits:
            raise self.refuse(f"an unsigned {bits}-bit integer was expected", name)
        return value

    def string(self, name: str, default: str | None = None) -> str:
        """A string that is valid text."""
        value = self.members.get(name, default)
        if not isinstance(value, str) or _LONE.search(value):
            raise self.refuse("text was expected", name)
        return value

    def boolean(self, name: str) -> bool:
        """A boolean; an absent one is false."""
        value = self.members.get(name, False)
        if not isinstance(value, bool):
            raise self.refuse("true or false was expected", name)
        return value

    def object(self, name: str) -> Reader:
        """A member that is an object."""
        return Reader(self.members.get(name), self.protocol, self.part, member_path(self.path, name))


_IDENTIFIER = re.compile(r"\w+")


def member_path(path: str, name: str) -> str:
    """The JSON path of a member: ``$.u.id``, or ``$.u["the id"]`` where the name is no word."""
    if _IDENTIFIER.fullmatch(name):
        return f"{path}.{name}"
    return f"{path}[{json.dumps(name, ensure_ascii=not name.isprintable())}]"
