"""What a batch brings to a plan: bad messages, DDL, progress, and staged files; replays are left out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidewire.ddl.lex import signature
from tidewire.errors import SyncStopped
from tidewire.model import Ddl, TableName
from tidewire.sync.frontier import Progress
from tidewire.sync.holds import Holds
from tidewire.sync.manifest import FoundDdl, Manifest, Partition, Rejected, StagedFile
from tidewire.sync.rules import Rules
from tidewire.sync.seam import unreached
from tidewire.sync.state import DdlId, Hold, OnBad, Pending, State
from tidewire.sync.steps import SetAside, Step


class IntakeSettings(Protocol):
    """What of the plan's settings matters here."""

    @property
    def has_watermarks(self) -> bool:
        """Do rows wait for watermarks?"""

    @property
    def on_bad(self) -> OnBad:
        """What becomes of a table when one of its messages cannot be read."""

    @property
    def rules(self) -> Rules:
        """Which tables are followed."""

    @property
    def now(self) -> str:
        """The time for people."""


class Intake:
    """What is known once a batch is folded into a state; nothing is applied yet. Files go by folded table names."""

    def __init__(self, state: State, settings: IntakeSettings) -> None:
        self._settings = settings
        self.before = state
        self.frontier = state.frontier
        self.applied = state.applied
        self.replays = state.replays()
        self.holds = Holds(state, has_watermarks=settings.has_watermarks, now=settings.now)
        self.pending: dict[TableName, list[Pending]] = {}
        for each in state.pending:
            self.pending.setdefault(each.file.table.folded, []).append(each)
        self.queue = list(state.queue)
        self.log = dict.fromkeys(state.log)
        self.parked = state.parked
        self.schemas = dict.fromkeys(state.schemas)
        self.steps: list[Step] = []
        self.done: list[StagedFile] = []
        self.notes: list[str] = []

    def take_in(self, manifest: Manifest) -> None:
        """Fold a batch into what is known."""
        rules, before = self._settings.rules, self.frontier
        self.holds.read_again(manifest.retried)
        for rejected in manifest.rejected:
            self._reject(rejected)
        if manifest.reject_files:
            self.steps.append(SetAside(manifest.reject_files))
        self._queue(manifest.ddls)
        self.holds.reached_back(manifest)
        for hold in unreached(self.before, manifest.read) if self._settings.has_watermarks else ():
            self.holds.add(hold)
        self.frontier = before.read(manifest.read, manifest.ends, applied=self.applied)
        self.holds.sent_again(manifest, before, self.frontier)
        self.parked = tuple(each for each in manifest.parked if rules.wants(each.table))
        self.schemas.update(dict.fromkeys(manifest.schemas))
        for file in manifest.files:
            # Staging may have begun before the last plan was made, so only now it is certain what is a replay.
            first = self.replays.first(file.partition, file.table)
            if rules.wants(file.table) and file.max_ts >= first:
                pending = Pending(file, first, first) if file.min_ts < first else Pending(file)
                self.pending.setdefault(file.table.folded, []).append(pending)
            else:
                self.done.append(file)

    def _queue(self, ddls: Iterable[FoundDdl]) -> None:
        """Queue new DDL. Copies in other partitions and replays are not new."""
        known = {self.id_of(found) for found in self.queue} | self.log.keys()
        for found in sorted(ddls, key=lambda found: (found.at, found.sub)):
            identity = self.id_of(found)
            if identity in known or (self._settings.has_watermarks and identity.ts <= self.before.log_floor):
                continue
            progress = self.frontier.partitions.get(Partition.of(found.at))
            if self.is_past(identity.ts) and progress is not None and not progress.late:
                if self._is_reworded(identity):
                    continue
                if not self._is_held_before(found.ddl, identity.ts):
                    raise SyncStopped(
                        f"the DDL of {identity.ts} at {found.at} is older than the tables, which are complete up to "
                        f"{self.applied}, and was never seen: {found.ddl.query}"
                    )
            known.add(identity)
            self.queue.append(found)

    def is_past(self, ts: int) -> bool:
        """Have the tables passed a ts?"""
        return self._settings.has_watermarks and ts < self.applied

    def _is_reworded(self, identity: DdlId) -> bool:
        """Is it a replay all the same? Another release of the producer may print a statement in other words."""
        known = (*self.log, *map(self.id_of, self.queue))
        return any((each.ts, each.table) == (identity.ts, identity.table) for each in known)

    def _is_held_before(self, ddl: Ddl, ts: int) -> bool:
        """Is a table of a DDL held before it? Then it may have been the bad message, and comes right now."""
        names = (name for name in (ddl.table, ddl.old_name) if name is not None)
        return any(self.holds.limit(name.folded) < ts for name in names)

    def id_of(self, found: FoundDdl) -> DdlId:
        """What makes a DDL the same as another one."""
        return ddl_id(found, self._settings.has_watermarks)

    def ts_of(self, found: FoundDdl) -> int:
        """When a DDL happens."""
        return _ts_of(found, self._settings.has_watermarks)

    def _reject(self, rejected: Rejected) -> None:
        """A message that cannot be read stops its table before it, or all tables if the table is not known."""
        if rejected.table is not None and not self._settings.rules.wants(rejected.table):
            return
        if rejected.at in self.holds.given_up:
            return
        if self._settings.on_bad is OnBad.STOP:
            raise SyncStopped(f"a message cannot be read, {rejected.at}: {rejected.reason}")
        if self._settings.on_bad is OnBad.SKIP:
            return
        if not self._settings.has_watermarks:
            self._hold(rejected, rejected.table, rejected.at.offset - 1)
            return
        if rejected.table is None:
            # It may be the message of a held table that is sent again, and is bad again.
            for name in {hold.table: None for hold in self.holds.all if hold.table is not None}:
                self._hold_from(rejected, name, self.holds.limit(name.folded) + 1)
        at, table = Partition.of(rejected.at), rejected.table
        wanted = self.replays.first(at, table)
        if rejected.commit_ts is None:
            read = max(rejected.after, self.frontier.partitions.get(at, Progress()).watermark)
            limit = self.holds.everywhere() if table is None else self.holds.limit(table.folded)
            wanted = max(wanted, min(read, limit) + 1)
        self._hold_from(rejected, table, wanted)

    def _hold_from(self, rejected: Rejected, table: TableName | None, wanted: int) -> None:
        """Hold a table if a message has rows from the least ts on that the table wants."""
        first = rejected.commit_ts
        if first is None:
            self._hold(rejected, table, wanted - 1)
        elif max(first, rejected.last_ts or 0) >= wanted:
            self._hold(rejected, table, max(first, wanted) - 1)

    def _hold(self, rejected: Rejected, table: TableName | None, ts: int) -> None:
        first, last = rejected.commit_ts, rejected.last_ts or rejected.commit_ts
        if last is not None and rejected.table is None:
            last += 1  # it may be a DDL, and a watermark may come before a DDL of its own ts
        self.holds.add(Hold(ts, rejected.at, rejected.reason, table, first_ts=first, last_ts=last))


def ddl_id(found: FoundDdl, has_watermarks: bool) -> DdlId:
    """What makes a DDL the same as another one."""
    ts = _ts_of(found, has_watermarks)
    if has_watermarks:
        return DdlId(ts, found.ddl.table.folded, signature(found.ddl.query))
    return DdlId(ts, TableName(found.at.topic, str(found.at.partition)), found.ddl.query)


def _ts_of(found: FoundDdl, has_watermarks: bool) -> int:
    return found.ddl.commit_ts or 0 if has_watermarks else found.at.offset
