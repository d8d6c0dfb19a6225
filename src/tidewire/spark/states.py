"""The state of a sync in its work directory.

::

    state/<plan>.json          the state after a plan, told by what is different from a whole one
    state/whole/<plan>.json    a whole state

When as many differences were told as a whole state tells things, the next one is written whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidewire.errors import StateError
from tidewire.spark.work import Work
from tidewire.sync.increments import Increment, increment, restored, size_of
from tidewire.sync.state import State

_FOLDER = "state"
_WHOLE = "state/whole"
_KEPT = 2
"""States that stay; the one before the newest is for people."""


def newest_state(work: Work) -> State | None:
    """The state after the last batch; ``None`` where there was none."""
    return States(work).newest()


class States:
    """The states of a sync, as one process writes them."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._base: State | None = None
        self._told = 0

    def newest(self) -> State | None:
        """The state after the last batch; ``None`` where there was none."""
        for name in reversed(self._work.names(_FOLDER)):
            document = self._work.read(f"{_FOLDER}/{name}")
            if document is not None:  # else its sync has a newer one by now
                return self._restored(name, document)
        return None

    def _restored(self, name: str, document: Mapping[str, Any]) -> State | None:
        if "base" not in document:  # as it was before there were increments
            return State.from_plain(document)
        whole = self._work.read(_whole(document["base"]))
        if whole is None and name != self._work.names(_FOLDER)[-1]:  # its sync has gone on meanwhile
            return self.newest()
        if whole is None:
            raise StateError(f"the state {name} in {self._work.uri} needs {_whole(document['base'])}, which is missing")
        self._base, self._told = State.from_plain(whole), document["told"]
        return restored(self._base, Increment.from_plain(document))

    def save(self, state: State) -> None:
        """Keep a state; those before the last one go."""
        found = None if self._base is None else increment(self._base, state)
        if self._base is None or found is None or self._told + found.told > size_of(self._base):
            self._work.write(_whole(state.sequence), state.to_plain())
            self._base, self._told, found = state, 0, increment(state, state)
        self._told += found.told
        document = {"base": self._base.sequence, "told": self._told, **found.to_plain()}
        self._work.write(f"{_FOLDER}/{_name(state.sequence)}", document)
        self._forget(self._base.sequence)

    def _forget(self, base: int) -> None:
        names = self._work.names(_FOLDER)[:-_KEPT]
        self._delete(_FOLDER, names)
        kept = [self._work.read(f"{_FOLDER}/{name}") for name in self._work.names(_FOLDER)]
        oldest = min((each["base"] for each in kept if each is not None and "base" in each), default=base)
        self._delete(_WHOLE, (name for name in self._work.names(_WHOLE) if int(name.partition(".")[0]) < oldest))

    def _delete(self, folder: str, names: Iterable[str]) -> None:
        self._work.delete([self._work.path(folder, name) for name in names])


def _name(sequence: int) -> str:
    return f"{sequence:012}.json"


def _whole(sequence: int) -> str:
    return f"{_WHOLE}/{_name(sequence)}"
