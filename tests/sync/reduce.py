"""The last change of every key: what is left of many changes when only the end counts.

This is the rule every target follows when it merges, written down once, without an engine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from tidewire.model import Position, Row, Value

Key: TypeAlias = tuple[Value, ...]
"""The values of a row's handle key, in the order of the key's columns."""


Rank: TypeAlias = tuple[int, bool, Position, int]
"""The order of changes: by ts, an upsert after a delete, by position."""


class Change(NamedTuple):
    """A staged row change: when it was committed, where it was read, and the row before and after.

    ``sub`` is the number of the change within its message. A delete has no ``after``, an insert no ``before``, and an
    update without its old values looks like an insert.
    """

    ts: int
    at: Position
    sub: int
    before: Row | None
    after: Row | None


def last_changes(
    changes: Iterable[Change], key: Sequence[str], stored: Mapping[Key, Row] = MappingProxyType({})
) -> dict[Key, Row | None]:
    """The row every changed key ends with, ``None`` where it ends deleted.

    A later ts wins. At one ts a row wins over a delete: the after-image says that the key exists at that time, and
    both halves of a moved key carry one ts and may arrive in either order. What is still equal goes by position.

    A column that a change does not tell keeps the value it had: from the key's change before, or from the row that is
    ``stored``. A delete leaves nothing to keep.

    >>> at = Position("t", 0, 7)
    >>> moved = Change(5, at, 0, {"id": 1, "v": "a"}, {"id": 2, "v": "a"})
    >>> last_changes([moved], ["id"])
    {(1,): None, (2,): {'id': 2, 'v': 'a'}}
    """
    if not key:
        raise ValueError("rows without a handle key cannot be told apart, so they have no last change")
    effects: dict[Key, list[tuple[Rank, Row | None]]] = {}
    for change in changes:
        for changed, row in _effects(change, key):
            rank = (change.ts, row is not None, change.at, change.sub)
            effects.setdefault(changed, []).append((rank, row))
    return {changed: _folded(found, stored.get(changed)) for changed, found in effects.items()}


def _folded(effects: list[tuple[Rank, Row | None]], row: Row | None) -> Row | None:
    """The row after all changes of its key."""
    for _, after in sorted(effects, key=lambda effect: effect[0]):
        row = after if after is None or row is None else {**row, **after}
    return row


def _effects(change: Change, key: Sequence[str]) -> Iterator[tuple[Key, Row | None]]:
    """What a change says about keys: an update that moves a row deletes one key and sets another."""
    new = None if change.after is None else key_of(change.after, key, change.at)
    if change.before is not None:
        # Some protocols leave out old values that did not change.
        old = key_of({**(change.after or {}), **change.before}, key, change.at)
        if old != new:
            yield old, None
    if new is not None:
        yield new, change.after


def key_of(row: Row, key: Sequence[str], at: Position) -> Key:
    """The key of a row; ``ValueError`` where the row lacks a column of it."""
    try:
        return tuple([row[column] for column in key])
    except KeyError as missing:
        raise ValueError(f"the row at {at} lacks the key column {missing.args[0]!r}") from None
