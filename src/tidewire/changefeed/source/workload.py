"""A seeded workload as a source: ``workload://SEED?tables=4&transactions=300``.

It begins with no tables, sends every statement, and ends. ``rows=N`` ends it after N changes instead; ``columns=N``
makes one table with N columns, in bulk and without statements after the first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias
from urllib.parse import parse_qsl, urlsplit

from tidewire.changefeed.config.replica import CONFIG_INVALID
from tidewire.changefeed.source.base import Resolved, ResumePosition, RowBatch, Upstream
from tidewire.errors import ChangefeedError, MissingExtra, OptionError
from tidewire.model import TableSchema
from tidewire.workload import Entry, Habits, ResolvedTs, Statement, Transaction, Workload
from tidewire.workload.workload import START

_TRANSACTIONS = 300
_ROWS = 1_000_000

Step: TypeAlias = tuple[int, Sequence[Upstream]]
"""A timestamp and its events; a step without events becomes a ``Resolved`` with the number of the step."""


class WorkloadSource:
    """The steps of a workload. The position is the number of steps taken: the same seed gives the same steps."""

    def __init__(self, steps: Callable[[], Iterable[Step]]) -> None:
        self._steps = steps
        self._closed = threading.Event()

    @classmethod
    def open(cls, uri: str) -> WorkloadSource:
        """The workload that a URI describes."""
        parts = urlsplit(uri)
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        unknown = given.keys() - _NUMBERS - {"schema"}
        if unknown:
            raise ChangefeedError(
                CONFIG_INVALID, f"{uri}: a workload has no parameter {sorted(unknown)[0]!r}; known are {_KNOWN}"
            )
        try:
            numbers = {name: int(text) for name, text in given.items() if name in _NUMBERS}
            seed = int(parts.netloc or "0")
        except ValueError as error:
            raise ChangefeedError(CONFIG_INVALID, f"{uri}: {error}; write workload://SEED?transactions=300") from None
        try:
            steps = _bulk(seed, numbers) if "columns" in numbers else _small(seed, numbers, given.get("schema", "shop"))
        except OptionError as error:
            raise ChangefeedError(CONFIG_INVALID, f"{uri}: {error}") from error
        return cls(steps)

    def now(self) -> int:
        """A timestamp before the workload begins, so that all of it is read."""
        return START - 1

    def tables(self) -> Sequence[TableSchema]:
        """Always empty: a workload begins without tables."""
        return ()

    def read(self, start_ts: int, place: ResumePosition | None = None) -> Iterator[Upstream]:
        """Yield the events after a timestamp."""
        taken = 0 if place is None else int(place["steps"])
        for number, (ts, items) in enumerate(self._steps(), 1):
            if self._closed.is_set():
                return
            if number > taken and ts > start_ts:
                yield from (_after(item, start_ts) for item in items or (Resolved(ts, {"steps": number}),))

    def close(self) -> None:
        """End a reading after its current step."""
        self._closed.set()


def _after(item: Upstream, start_ts: int) -> Upstream:
    """Cut a batch that begins before a timestamp and ends after it."""
    if not isinstance(item, RowBatch) or item.rows.column("_commit_ts")[0].as_py() > start_ts:
        return item
    import pyarrow.compute as pc

    return replace(item, rows=item.rows.filter(pc.greater(item.rows.column("_commit_ts"), start_ts)))


_NUMBERS = frozenset({"tables", "transactions", "rows", "columns"})
_KNOWN = ", ".join(sorted({*_NUMBERS, "schema"}))


def _small(seed: int, numbers: Mapping[str, int], schema: str) -> Callable[[], Iterable[Step]]:
    transactions = numbers.get("transactions", None if "rows" in numbers else _TRANSACTIONS)
    # The upstream updates keys in place; the changefeed splits such updates.
    workload = Workload(seed, transactions, numbers.get("rows"), numbers.get("tables", 4), schema, Habits(raw=True))
    return lambda: map(_step, workload)


def _step(entry: Entry) -> Step:
    match entry:
        case Transaction(ts, rows):
            return ts, rows
        case Statement(ts, ddl, _):
            return ts, (ddl,)
        case ResolvedTs(ts):
            return ts, ()


def _bulk(seed: int, numbers: Mapping[str, int]) -> Callable[[], Iterable[Step]]:
    try:
        from tidewire.workload.bulk import Bulk
    except ImportError as error:
        raise MissingExtra(str(error.name), "arrow") from error
    bulk = Bulk(seed, numbers.get("rows", _ROWS), numbers["columns"])

    def steps() -> Iterator[Step]:
        create = bulk.create()
        yield create.commit_ts or START, (create,)
        for batch in bulk.changes(_AT_ONCE):
            ts = batch.column("_commit_ts")[-1].as_py()
            yield ts, (RowBatch(bulk.table, batch),)
            yield ts, ()

    return steps


_AT_ONCE = 50_000
