"""One round of maintenance: tables compacted, versions expired, moments thinned, leftovers swept.

It is safe beside a running sync and safe to cut short: it removes what nobody names before what nobody reads, and
every table's part is done in a turn of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from itertools import islice
from typing import Final

from tidewire.errors import OptionError
from tidewire.model import TableName
from tidewire.spark.maintain.leftovers import leftovers
from tidewire.spark.maintain.moments import Moment, dropped, kept
from tidewire.spark.maintain.records import Record, read_records, write_records
from tidewire.spark.maintain.turns import can_lock, turn
from tidewire.spark.published import documents, forget, sequence_of, ts_of, versions
from tidewire.spark.targets import Size, Target
from tidewire.spark.work import Work

GRACE: Final = timedelta(hours=1)
"""Versions that no moment names stay so long, for whoever is reading them."""

_SURE: Final = timedelta(days=1)
"""Files of a writer that is still at work are younger than this."""

_PATIENCE: Final = 600.0
"""Seconds to wait for a sync to come to the end of its batch."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is kept, and how much is done at a time.

    ``older_than`` is how long moments are kept, and ``keep`` how many of the newest stay however old they are.
    No table is begun after ``seconds``.
    """

    older_than: timedelta = timedelta(days=7)
    keep: int = 10
    parallel: int = 2
    seconds: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """What was done for a table; ``swept`` counts files nobody had, ``problem`` says why it was not all done."""

    table: TableName
    before: Size = field(default_factory=Size)
    after: Size = field(default_factory=Size)
    swept: int = 0
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Maintained:
    """What a round did. ``resting`` tables had not changed, those ``left`` wait for the next round."""

    tables: tuple[TableUpkeep, ...]
    resting: int
    left: int
    moments: int
    kept_moments: int
    leftovers: int
    purged: int
    seconds: float

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong, table by table."""
        return tuple(f"{each.table}: {each.problem}" for each in self.tables if each.problem is not None)


def maintain(target: Target, work: Work, settings: Settings = Settings()) -> Maintained:
    """Put a target in order."""
    if not can_lock(work) and settings.older_than < _SURE:
        raise OptionError(
            "older-than", f"{work.uri} cannot be locked, so that a sync may be at work: give a day or more"
        )
    began = time.monotonic()
    with turn(work, "maintaining", wait=0):
        now = datetime.now(timezone.utc)
        moments = [Moment(ts_of(name), sequence_of(name), name) for name in documents(work)]
        stay = kept(moments, settings.older_than, settings.keep)
        gone = dropped(moments, stay)
        rest = leftovers(work)
        round_ = _Round(target, work, settings, now, versions(work, [moment.name for moment in stay]))
        if settings.dry_run:
            tables = round_.look()
            purged = 0
        else:
            forget(work, [moment.name for moment in gone], [moment.name for moment in stay])
            work.delete(rest)
            tables = round_.run(began)
            purged = target.purge(now - max(settings.older_than, GRACE), round_.keep)
    return Maintained(
        tables=tables,
        resting=round_.resting,
        left=round_.left,
        moments=len(gone),
        kept_moments=len(stay),
        leftovers=len(rest),
        purged=purged,
        seconds=time.monotonic() - began,
    )


class _Round:
    """The tables' part."""

    def __init__(self, target: Target, work: Work, settings: Settings, now: datetime, keep: Collection[str]) -> None:
        self.keep = keep
        self.resting = 0
        self.left = 0
        self._target = target
        self._work = work
        self._settings = settings
        self._now = now
        self._before = now - min(settings.older_than, GRACE)
        self._records = read_records(work)
        self._seen: dict[str, Record] = {}

    def look(self) -> tuple[TableUpkeep, ...]:
        """What there is, and nothing done."""
        names = sorted(self._target.names())
        return tuple(_told(name, lambda name: _as_is(name, self._target.size(name))) for name in names)

    def run(self, began: float) -> tuple[TableUpkeep, ...]:
        """Every table that is not at rest, a few at a time; each few are a turn."""
        found: list[TableUpkeep] = []
        waiting = self._restless()
        with ThreadPoolExecutor(self._settings.parallel, "tidewire-maintain") as pool:
            for names in _chunks(waiting, self._settings.parallel):
                if self._settings.seconds is not None and time.monotonic() - began > self._settings.seconds:
                    self.left = len(waiting) - len(found)
                    break
                with turn(self._work, wait=_PATIENCE):
                    found += pool.map(lambda name: _told(name, self._keep_up), names)
        write_records(self._work, self._records | self._seen)
        return tuple(found)

    def _restless(self) -> list[TableName]:
        """The tables to look at, those that were not looked at for longest first."""
        found, known = [], {}
        for name in sorted(self._target.names()):
            version = self._target.version(name)
            record = known[_identity(version)] = self._records.get(_identity(version), Record())
            if record.resting and record.version == version:
                self.resting += 1
            else:
                found.append((record.looked, name))
        self._records = known
        return [name for _, name in sorted(found)]

    def _keep_up(self, name: TableName) -> TableUpkeep:
        target, now = self._target, self._now.timestamp()
        before, version = target.size(name), target.version(name)
        record = self._records.get(_identity(version), Record())
        target.compact(name)
        target.expire(name, self._before, {*self.keep, version})
        due = now - record.swept >= _SURE.total_seconds()
        swept = target.sweep(name, self._now - max(self._settings.older_than, _SURE)) if due else 0
        after, current = target.size(name), target.version(name)
        needed = any(_identity(each) == _identity(current) and each != current for each in self.keep)
        since = record.since if record.version == current else now
        self._seen[_identity(current)] = Record(
            version=current,
            since=since,
            looked=now,
            swept=now if due else record.swept,
            resting=not needed and since < self._before.timestamp(),
        )
        return TableUpkeep(name, before, after, swept)


def _as_is(name: TableName, size: Size) -> TableUpkeep:
    return TableUpkeep(name, size, size)


def _told(name: TableName, work: Callable[[TableName], TableUpkeep]) -> TableUpkeep:
    """What became of a table. That of one table is no reason to leave the others."""
    try:
        return work(name)
    except Exception as error:
        return TableUpkeep(name, problem=(str(error) or repr(error)).partition("\n")[0])


def _identity(version: str) -> str:
    return version.partition("@")[0]


def _chunks(names: Sequence[TableName], size: int) -> Iterator[list[TableName]]:
    rest = iter(names)
    while chunk := list(islice(rest, size)):
        yield chunk
