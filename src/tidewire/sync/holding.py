"""What holds tables back: messages nobody can read, statements nobody can follow, policies; and what waits for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from tidewire.model import TableName
from tidewire.sync.manifest import Partition
from tidewire.sync.state import Hold

END: Final = 2**63 - 1
"""Later than any ts."""


class Holding:
    """The holds of a plan in the making, and the tables that wait for the sake of another one.

    ``gated``: with watermarks a hold is about a ts; in offset order it is about its own partition.
    """

    def __init__(self, holds: Iterable[Hold], *, gated: bool) -> None:
        self.holds = list(holds)
        self._gated = gated
        self._waiting: dict[TableName, int] = {}

    @property
    def waiting(self) -> Collection[TableName]:
        """The tables that wait, by folded name."""
        return self._waiting.keys()

    def add(self, hold: Hold) -> None:
        """Hold a table back, unless something does already: such holds end together, so the earliest is enough."""
        if not any(self._stands_for(known, hold) for known in self.holds):
            self.holds.append(hold)

    def _stands_for(self, known: Hold, hold: Hold) -> bool:
        if known.frozen or known.table != hold.table or known.ts > hold.ts:
            return False
        return self._gated or Partition.of(known.at) == Partition.of(hold.at)

    def freeze(self, holds: Iterable[Hold]) -> None:
        """Hold tables back because a policy says so."""
        self.holds += holds

    def thaw(self, which: Callable[[Hold], bool]) -> None:
        """Forget what policies said: they are asked anew every time, for they may have changed."""
        self.holds = [hold for hold in self.holds if not (hold.frozen and which(hold))]

    def everywhere(self) -> int:
        """How far any table may go."""
        return min((hold.ts for hold in self.holds if hold.table is None), default=END)

    def limit(self, name: TableName, partition: Partition | None = None) -> int:
        """How far a table may go, whatever the watermark says; in offset order each partition stops for itself."""
        holds = [hold.ts for hold in self.holds if self._concerns(hold, name, partition)]
        waits = [self._waiting.get(each, END) for each in (name, database(name.schema))]
        return min([*holds, *waits])

    def _concerns(self, hold: Hold, name: TableName, partition: Partition | None) -> bool:
        if hold.table is not None and hold.table.folded != name:
            return False
        return self._gated or partition in (None, Partition.of(hold.at))

    def waits(self, names: Collection[TableName], ts: int) -> bool:
        """Is one of these tables held before a ts? Then all of them are."""
        if all(self.limit(name) >= ts for name in names):
            return False
        for name in names:
            self._waiting[name] = min(self.limit(name), ts - 1)
        return True


def database(schema: str) -> TableName:
    """What stands for all tables of a database, those to come included."""
    return TableName(schema.lower(), "")
