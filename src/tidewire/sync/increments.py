"""A state told by what is different from an earlier one, so that a batch writes what changed and not what there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from tidewire.model import TableName
from tidewire.sync.state import State

_BY_NAME: Final = ("tables", "marks", "copies")
"""What a state has for every table; a batch changes a few."""

_GROWING: Final = ("log", "schemas")
"""What a state only ever adds to."""

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Increment:
    """A state without what it shares with an earlier one; ``gone`` are the names which that one has beyond it."""

    part: State
    gone: Mapping[str, tuple[TableName, ...]]
    shared: Mapping[str, int]

    @property
    def told(self) -> int:
        """How many things it tells."""
        return sum(len(getattr(self.part, name)) for name in (*_BY_NAME, *_GROWING)) + sum(map(len, self.gone.values()))

    def to_plain(self) -> dict[str, Any]:
        """The increment as a document."""
        return {"part": self.part.to_plain(), "gone": dict(self.gone), "shared": dict(self.shared)}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Increment:
        """The increment of a document."""
        gone = {name: tuple(TableName(*each) for each in names) for name, names in plain["gone"].items()}
        return cls(State.from_plain(plain["part"]), gone, plain["shared"])


def size_of(state: State) -> int:
    """How many things a whole state tells."""
    return sum(len(getattr(state, name)) for name in (*_BY_NAME, *_GROWING))


def increment(base: State, state: State) -> Increment:
    """What a state has that an earlier one of the same sync has not."""
    shared = {name: _shared(getattr(base, name), getattr(state, name)) for name in _GROWING}
    changed: dict[str, Any] = {name: _changed(getattr(base, name), getattr(state, name)) for name in _BY_NAME}
    gone = {name: tuple(key for key in getattr(base, name) if key not in getattr(state, name)) for name in _BY_NAME}
    grown: dict[str, Any] = {name: getattr(state, name)[count:] for name, count in shared.items()}
    return Increment(replace(state, **changed, **grown), gone, shared)


def restored(base: State, found: Increment) -> State:
    """The state that an increment tells."""
    part = found.part
    grown: dict[str, Any] = {
        name: getattr(base, name)[:count] + getattr(part, name) for name, count in found.shared.items()
    }
    merged: dict[str, Any] = {
        name: _merged(getattr(base, name), getattr(part, name), found.gone[name]) for name in _BY_NAME
    }
    return replace(part, **grown, **merged)


def _changed(before: Mapping[TableName, Value], after: Mapping[TableName, Value]) -> dict[TableName, Value]:
    return {name: value for name, value in after.items() if name not in before or before[name] != value}


def _merged(
    before: Mapping[TableName, Value], changed: Mapping[TableName, Value], gone: tuple[TableName, ...]
) -> dict[TableName, Value]:
    left = set(gone)
    return {name: value for name, value in before.items() if name not in left} | dict(changed)


def _shared(before: tuple[object, ...], after: tuple[object, ...]) -> int:
    """How long a common beginning is."""
    pairs = enumerate(zip(before, after, strict=False))
    return next(
        (place for place, (one, other) in pairs if one is not other and one != other), min(len(before), len(after))
    )
