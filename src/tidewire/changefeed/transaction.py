"""The rows of a transaction in the order they are sent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tidewire.model import Op, RowChange


class Transaction:
    """Holds back the INSERT halves of split UPDATEs: they come after all other rows of their transaction.

    Rows that change places would otherwise be deleted after they were put in place.
    """

    def __init__(self) -> None:
        self._ts: int | None = None
        self._late: list[RowChange] = []

    def add(self, change: RowChange, parts: Iterable[RowChange]) -> Iterator[RowChange]:
        """Take a change and what a filter made of it; the rows that can be sent."""
        if change.commit_ts != self._ts:
            yield from self.end()
            self._ts = change.commit_ts
        for part in parts:
            if change.op is Op.UPDATE and part.op is Op.INSERT:
                self._late.append(part)
            else:
                yield part

    def end(self) -> Iterator[RowChange]:
        """The rows that were held back."""
        late, self._late = self._late, []
        self._ts = None
        yield from late
