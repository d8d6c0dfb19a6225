"""Maintenance: tables compacted, old versions expired, publications thinned, leftover files deleted.

It belongs to the driver of a sync, table by table between two passes, or to ``tidewire maintain`` if no sync runs. So
it never competes with a commit. It may be cut short anywhere: publications go before the versions they name, and
versions before files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Final

from tidewire.errors import Fenced
from tidewire.model import TableName
from tidewire.spark.apply import Mode
from tidewire.spark.apply.compact import compact
from tidewire.spark.ledger import files_of, newest_plan, newest_state, read_plans
from tidewire.spark.maintain.retention import kept
from tidewire.spark.publications import Publications, PublishedTable, label, sequence_of
from tidewire.spark.stage import FOLDERS
from tidewire.spark.targets import CommitTag, Size, Target
from tidewire.storage import Storage

GRACE: Final = timedelta(hours=1)
"""How long versions stay that no publication names, for readers that have opened them."""

_SURE: Final = timedelta(days=1)
"""Files of a writer that still runs are younger than this."""


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """How much is kept: ``older_than`` is how long publications stay, the newest ``keep`` stay however old they are."""

    older_than: timedelta = timedelta(days=7)
    keep: int = 10
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """What was done for a table.

    ``version`` is its version afterwards, with the same rows. ``swept`` counts files that no version had, ``problem``
    says why not everything was done.
    """

    table: TableName
    before: Size = field(default_factory=Size)
    after: Size = field(default_factory=Size)
    swept: int = 0
    version: str | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class Maintained:
    """What a round did."""

    tables: tuple[TableUpkeep, ...]
    publications: int
    kept_publications: int
    leftovers: int
    purged: int
    seconds: float

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong, table by table."""
        return tuple(f"{each.table}: {each.problem}" for each in self.tables if each.problem is not None)


class Maintenance:
    """The parts of maintenance, for one target."""

    def __init__(
        self,
        target: Target,
        storage: Storage,
        settings: MaintenanceSettings = MaintenanceSettings(),
        tag: CommitTag | None = None,
    ) -> None:
        self._target = target
        self._storage = storage
        self._settings = settings
        self._tag = tag
        self._publications = Publications(storage)
        self._swept: dict[TableName, float] = {}
        self._newest: tuple[str, Mapping[TableName, PublishedTable]] = ("", {})

    def thin(self) -> tuple[int, int]:
        """Remove publications by age; how many went, and how many stay."""
        names = self._publications.names()
        stay = kept(names, self._settings.older_than, self._settings.keep)
        gone = sorted({*names} - {*stay})
        if not self._settings.dry_run:
            self._publications.forget(gone)
        return len(gone), len(stay)

    def needed(self) -> dict[str, str | None]:
        """The versions that stay, each with its label; ``None`` for those of a plan that is not published yet."""
        names = self._publications.names()
        found = self._publications.versions(kept(names, self._settings.older_than, self._settings.keep))
        needed: dict[str, str | None] = {version: label(name) for version, name in found.items()}
        plan = newest_plan(self._storage)
        if plan is not None and all(sequence_of(name) < plan.sequence for name in names):
            made = [self._target.find(name, each.step.id) for each in plan.steps for name in each.step.tables]
            for version in filter(None, made):
                needed.setdefault(version, None)
        return needed

    def _known(self) -> Mapping[TableName, PublishedTable]:
        """The tables that were published last. Others, such as those that were dropped upstream, are not known."""
        names = self._publications.names()
        if names and names[-1] != self._newest[0]:
            self._newest = names[-1], self._publications.read(names[-1]).tables
        return self._newest[1]

    def keep_up(self, name: TableName, needed: Mapping[str, str | None]) -> TableUpkeep:
        """Compact a table and expire its old versions. A problem of one table does not stop the others."""
        try:
            return self._keep_up(name, needed)
        except Fenced:
            raise
        except Exception as error:
            return TableUpkeep(name, problem=(str(error) or repr(error)).partition("\n")[0])

    def _keep_up(self, name: TableName, needed: Mapping[str, str | None]) -> TableUpkeep:
        target, now = self._target, datetime.now(timezone.utc)
        before, version = target.size(name), target.version(name)
        if self._settings.dry_run:
            return TableUpkeep(name, before, before)
        known = self._known().get(name)
        compact(target, name, self._tag, *(() if known is None else (known.schema, Mode(known.mode))))
        target.tidy(name, self._tag)
        target.expire(name, now - min(self._settings.older_than, GRACE), {version: None, **needed}, self._tag)
        swept = 0
        if time.monotonic() - self._swept.get(name, -_SURE.total_seconds()) >= _SURE.total_seconds():
            self._swept[name] = time.monotonic()
            swept = target.sweep(name, now - max(self._settings.older_than, _SURE), self._tag)
        return TableUpkeep(name, before, target.size(name), swept, target.version(name))

    def purge(self, needed: Collection[str]) -> int:
        """Delete the files of tables that were dropped long ago; how many tables that were."""
        if self._settings.dry_run:
            return 0
        before = datetime.now(timezone.utc) - max(self._settings.older_than, GRACE)
        return self._target.purge(before, needed, self._tag)

    def clean(self) -> int:
        """Delete files that no plan names, by age; how many.

        Files of another driver's epoch are among them, so they must be old enough that it cannot be at work on them.
        Messages that could not be read stay as long as publications do.
        """
        now = time.time()
        plans, newest = read_plans(self._storage), newest_state(self._storage)
        states = [plan.state for plan in plans] if newest is None else [*(plan.state for plan in plans), newest]
        named = files_of(plans, states)
        held = any(state.holds for state in states)
        ages = {folder: _SURE.total_seconds() for folder in FOLDERS}
        ages["rejects"] = max(self._settings.older_than, _SURE).total_seconds()
        old = [
            entry.name
            for folder, age in ages.items()
            if not (held and folder == "rejects")
            for entry in self._storage.list(folder, recursive=True)
            if now - entry.modified > age and self._storage.path(entry.name) not in named
        ]
        old += [entry.name for entry in self._storage.list("answers") if now - entry.modified > _SURE.total_seconds()]
        if not self._settings.dry_run:
            self._storage.delete(old)
            self._storage.remove_partial(now - _SURE.total_seconds())
        return len(old)


def maintain(
    target: Target,
    storage: Storage,
    settings: MaintenanceSettings = MaintenanceSettings(),
    tag: CommitTag | None = None,
    check: Callable[[], None] = lambda: None,
    on_table: Callable[[TableUpkeep], None] = lambda upkeep: None,
) -> Maintained:
    """A whole round. Its commits carry the tag; ``check`` raises, before each table, if another driver took over."""
    began = time.monotonic()
    work = Maintenance(target, storage, settings, tag)
    gone, stay = work.thin()
    needed, tables = work.needed(), []
    published = Publications(storage).newest()
    for name in sorted(() if published is None else published.tables):  # others share the catalog
        if not target.exists(name):
            continue
        check()
        tables.append(work.keep_up(name, needed))
        on_table(tables[-1])
    check()
    return Maintained(tuple(tables), gone, stay, work.clean(), work.purge(needed), time.monotonic() - began)
