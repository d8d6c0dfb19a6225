"""Maintenance inside a sync: at intervals, one table after the other, each between two passes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from tidewire.errors import OptionError
from tidewire.model import TableName
from tidewire.spark.maintain.retention import parse_age
from tidewire.spark.maintain.run import Maintenance, TableUpkeep
from tidewire.spark.targets import CommitTag, Target
from tidewire.storage import Storage
from tidewire.sync.documents import decode, encode

NEVER: Final = "never"
_NAME: Final = "upkeep"
_THIN_SECONDS: Final = 60.0
"""How often publications are thinned and leftovers looked for."""


@dataclass(frozen=True, slots=True)
class Every:
    """How often a table is maintained: after a number of seconds, or of plans that changed it."""

    seconds: float | None = None
    passes: int | None = None

    @classmethod
    def parse(cls, text: str) -> Every:
        """The time or the number of passes in a text such as ``1h``, ``100b`` or ``never``.

        >>> Every.parse("100b")
        Every(seconds=None, passes=100)
        """
        if text == NEVER:
            return cls()
        if re.fullmatch(r"\d{1,9}b", text, re.ASCII) and int(text[:-1]):
            return cls(passes=int(text[:-1]))
        try:
            seconds = parse_age(text).total_seconds()
        except OptionError:
            seconds = 0.0
        if not seconds:
            raise OptionError(
                "maintain-every", f"{text!r} is neither a time such as 1h, nor batches such as 100b, nor {NEVER}"
            )
        return cls(seconds=seconds)


DEFAULT: Final = Every(passes=100)
"""A pass leaves a few small files in each table it changes; after a hundred a merge has to open a few hundred."""

_DAY: Final = 86_400.0
"""A table that few passes change is maintained after so many seconds, so that the versions that stay get their tags."""


class Counts(msgspec.Struct, frozen=True):
    """How many plans have changed each table since it was maintained."""

    changes: Mapping[TableName, int]


class Upkeep:
    """Which table of a running sync is due, and what is done for it."""

    def __init__(
        self,
        every: Every,
        target: Target,
        storage: Storage,
        tag: CommitTag | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._every = every
        self._maintenance = Maintenance(target, storage, tag=tag)
        self._storage = storage
        self._clock = clock
        data = storage.read(_NAME)
        self._changes = {} if data is None else dict(decode(data, Counts).changes)
        self._since = dict.fromkeys(self._changes, clock())
        self._thinned = clock()

    def changed(self, name: TableName) -> None:
        """A plan changed a table."""
        self._changes[name] = self._changes.get(name, 0) + 1
        self._since.setdefault(name, self._clock())

    def due(self) -> TableName | None:
        """The table that is due and has waited longest, if there is one."""
        passes = self._every.passes
        seconds = _DAY if passes is not None else self._every.seconds
        found = [
            (self._since[name], name)
            for name, count in self._changes.items()
            if (passes is not None and count >= passes)
            or (seconds is not None and self._clock() - self._since[name] >= seconds)
        ]
        return min(found)[1] if found else None

    def tend(self, name: TableName) -> TableUpkeep:
        """Compact a table and expire its old versions."""
        self.forget(name)
        return self._maintenance.keep_up(name, self._maintenance.needed())

    def forget(self, name: TableName) -> None:
        """A table was maintained, or is gone."""
        self._changes.pop(name, None)
        self._since.pop(name, None)

    def thin(self) -> None:
        """Thin publications and delete leftover files, at most once a minute."""
        if self._clock() - self._thinned >= _THIN_SECONDS:
            self._thinned = self._clock()
            self._maintenance.thin()
            self._maintenance.clean()
            self.save()

    def save(self) -> None:
        """Keep the counts of changes: a sync that is started again and again goes on counting."""
        self._storage.put(_NAME, encode(Counts(self._changes)))


def upkeep_line(done: TableUpkeep) -> str:
    """One line about the maintenance of a table."""
    if done.problem is not None:
        return f"maintenance of {done.table}: {done.problem}"
    return (
        f"maintenance of {done.table}: files {done.before.files} to {done.after.files}, "
        f"versions {done.before.versions} to {done.after.versions}"
    )
