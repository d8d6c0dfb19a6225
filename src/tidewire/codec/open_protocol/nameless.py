"""Old values without their column's name, a slip of the new server.

In only-updated mode it writes the old value of a column that becomes NULL as ``"p":{"t":3,"f":65,"v":1}``, several of
them one after the other. Which column such a value belongs to can mostly be told: it is NULL now, has no old value
under its name, and has that type and those flags.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tidewire.codec.jsontext import Pairs, once
from tidewire.model import Column

COLUMN_MEMBERS: Final = frozenset({"t", "h", "f", "v"})


class Repeating(dict[str, Any]):
    """A JSON object with members that are there more than once."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: Pairs) -> None:
        columns = once([(name, value) for name, value in pairs if isinstance(value, dict)])
        for name, value in pairs:
            if name in columns and name not in COLUMN_MEMBERS and not isinstance(value, dict):
                raise ValueError(f"{name!r} is there twice")
        super().__init__(dict(pairs) | columns)
        self.pairs = pairs


def members(pairs: Pairs) -> dict[str, Any]:
    """A JSON object in which no column, that is no object, may be there twice; scalars may."""
    found = dict(pairs)
    return found if len(found) == len(pairs) else Repeating(pairs)


def nameless(image: dict[str, Any]) -> list[dict[str, Any]]:
    """The columns of an image that have no name, each as an object; the first member of each is its type."""
    pairs: Iterable[tuple[str, Any]] = image.pairs if isinstance(image, Repeating) else image.items()
    found: list[dict[str, Any]] = []
    for name, value in pairs:
        if name not in COLUMN_MEMBERS or isinstance(value, dict):
            continue
        if name == "t" or not found:
            found.append({})
        found[-1][name] = value
    return found


def owners(old: Sequence[Column], candidates: Sequence[Column]) -> list[str | None]:
    """The name of each nameless column, given those it may have in the table's order; ``None`` where it is open.

    The columns keep their order. So a name is certain if it is the same when all of them take the first place they
    can and when all of them take the last.
    """
    first = _placed(old, candidates)
    last = _placed(old[::-1], candidates[::-1])[::-1]
    return [one if one == other else None for one, other in zip(first, last, strict=True)]


def _placed(old: Sequence[Column], candidates: Sequence[Column]) -> list[str | None]:
    rest = iter(candidates)
    return [next((column.name for column in rest if _alike(column, nameless)), None) for nameless in old]


def _alike(column: Column, other: Column) -> bool:
    return (column.type, column.flags, column.handle_key) == (other.type, other.flags, other.handle_key)
