"""The planner: what one micro-batch makes of the tables, as an ordered list of steps and a new state.

The rules, in one place. A row or a DDL counts once everything up to its ts has been read from every partition (the
global watermark). DDL happen in the order of their ts, those with one ts together, and a table's rows up to that ts
come first. Rows above the watermark stay staged.

Where a protocol sends no commit ts, a row's ts is its offset and everything read counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from zoneinfo import ZoneInfo

from tidewire.ddl.edits import DropDatabase, Edit, Impossible, RenameTable
from tidewire.ddl.lex import signature
from tidewire.ddl.parse import edits
from tidewire.errors import SyncStopped
from tidewire.model import Ddl, TableName, TableSchema
from tidewire.model.tso import to_datetime
from tidewire.sync.catalogue import Catalogue, Statement, stored
from tidewire.sync.conform import conformed
from tidewire.sync.fitting import fitting
from tidewire.sync.freezing import frozen_before, frozen_by_rows
from tidewire.sync.frontier import Progress
from tidewire.sync.holding import END, Holding, database
from tidewire.sync.manifest import FoundDdl, Manifest, Partition, Rejected, StagedFile
from tidewire.sync.replica import Replica
from tidewire.sync.rules import Rules
from tidewire.sync.state import DdlId, Hold, OnBad, Pending, State
from tidewire.sync.steps import Merge, SetAside, Slice, Step


@dataclass(frozen=True, slots=True)
class Settings:
    """What a plan depends on besides state and manifest.

    ``gated``: do rows wait for watermarks? ``ddl``: are DDL sent, or do rows alone tell how tables change?
    ``contiguous``: do the offsets of a partition have no gaps? ``until``: the ts above which nothing is applied.
    ``rules``: which tables are followed, and how.
    """

    gated: bool = True
    ddl: bool = True
    contiguous: bool = True
    until: int | None = None
    on_bad: OnBad = OnBad.HOLD
    time_zone: str = "UTC"
    rules: Rules = field(default_factory=Rules)
    understand: Callable[[Ddl], tuple[Edit, ...]] = edits


@dataclass(frozen=True, slots=True)
class Publication:
    """The tables as of one moment of the upstream.

    ``ts`` is ``None`` where the protocol has no watermarks, and no moment can be named. ``held`` gives the ts of tables
    that are behind it.
    """

    ts: int | None
    tables: tuple[TableSchema, ...]
    held: Mapping[TableName, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planned:
    """Steps to take in order, the state after them, and what to tell people. ``done`` are files of no more use."""

    steps: tuple[Step, ...]
    state: State
    publication: Publication | None
    notes: tuple[str, ...] = ()
    done: tuple[StagedFile, ...] = ()


def plan(state: State, manifest: Manifest, settings: Settings = Settings()) -> Planned:
    """What a batch makes of the tables."""
    draft = _Draft(state, settings)
    draft.take_in(manifest)
    draft.advance()
    return draft.planned(manifest)


class _Draft:
    """A plan in the making."""

    def __init__(self, state: State, settings: Settings) -> None:
        self.settings = settings
        self.before = state
        self.frontier = state.frontier
        self.catalogue = Catalogue(state.tables.values(), state.marks)
        self.replica = Replica(state.copies, state.kept, settings.rules)
        self.pending: dict[TableName, list[Pending]] = {}
        for each in state.pending:
            self.pending.setdefault(each.file.table.folded, []).append(each)
        self.queue = list(state.queue)
        self.log = dict.fromkeys(state.log)
        kept = [hold for hold in state.holds if hold.frozen or settings.on_bad is not OnBad.SKIP]
        self.holding = Holding(kept, gated=settings.gated)
        self.parked = state.parked
        self.schemas = dict.fromkeys(state.schemas)
        self.applied = state.applied
        self.steps: list[Step] = []
        self.done: list[StagedFile] = []
        self.notes: list[str] = []

    # What came

    def take_in(self, manifest: Manifest) -> None:
        """Fold a batch into the draft."""
        for rejected in manifest.rejected:
            self._reject(rejected)
        if manifest.reject_files:
            self.steps.append(SetAside(manifest.reject_files))
        self._queue(manifest.ddls)
        self.frontier = self.frontier.read(
            manifest.read, manifest.ends, applied=self.applied, contiguous=self.settings.contiguous
        )
        self.parked = tuple(each for each in manifest.parked if self.settings.rules.wants(each.table))
        self.schemas.update(dict.fromkeys(manifest.schemas))
        for file in manifest.files:
            if self.settings.rules.wants(file.table):
                self.pending.setdefault(file.table.folded, []).append(Pending(file))
            else:
                self.done.append(file)

    def _queue(self, ddls: Iterable[FoundDdl]) -> None:
        """New DDL; copies from other partitions and replays are no news."""
        known = {self._id(found) for found in self.queue} | self.log.keys()
        for found in sorted(ddls, key=lambda found: (found.at, found.sub)):
            identity = self._id(found)
            if identity in known:
                continue
            progress = self.frontier.partitions.get(Partition.of(found.at))
            if self.settings.gated and identity.ts < self.applied and progress is not None and not progress.late:
                if self._is_reworded(identity):
                    continue
                raise SyncStopped(
                    f"the DDL of {identity.ts} at {found.at} is older than the tables, which are complete up to "
                    f"{self.applied}, and was never seen: {found.ddl.query}"
                )
            known.add(identity)
            self.queue.append(found)

    def _is_reworded(self, identity: DdlId) -> bool:
        """Is it a replay all the same? Another release of the producer may print a statement in other words."""
        return any((each.ts, each.table) == (identity.ts, identity.table) for each in self.log)

    def _id(self, found: FoundDdl) -> DdlId:
        if self.settings.gated:
            return DdlId(self._ts(found), found.ddl.table.folded, signature(found.ddl.query))
        return DdlId(self._ts(found), TableName(found.at.topic, str(found.at.partition)), found.ddl.query)

    def _ts(self, found: FoundDdl) -> int:
        return found.ddl.commit_ts or 0 if self.settings.gated else found.at.offset

    def _reject(self, rejected: Rejected) -> None:
        """A message that cannot be read stops its table before it, or all tables where it may be any's."""
        if rejected.table is not None and not self.settings.rules.wants(rejected.table):
            return
        if self.settings.on_bad is OnBad.STOP:
            raise SyncStopped(f"a message cannot be read, {rejected.at}: {rejected.reason}")
        if self.settings.on_bad is OnBad.SKIP:
            return
        progress = self.frontier.partitions.get(Partition.of(rejected.at), Progress())
        if not self.settings.gated:
            ts = rejected.at.offset - 1
        elif rejected.commit_ts is None:
            ts = max(rejected.after, progress.watermark)
        elif rejected.commit_ts < self.applied and not progress.late:
            return
        else:
            ts = rejected.commit_ts - 1
        self.holding.add(Hold(ts, rejected.at, rejected.reason, rejected.table))

    # How far it goes

    def advance(self) -> None:
        """Everything that is complete, in order."""
        reach = self._reach()
        due = sorted((found for found in self.queue if self._is_due(found, reach)), key=self._ts)
        if reach < self.applied:
            return
        for ts, group in groupby(due, key=self._ts):
            self._execute(list(group), ts, complete=ts < reach)
        reach = self._reach()
        for name in sorted(self.pending):
            self._merge(name, reach)
        if self.settings.gated:
            self.applied = max(self.applied, reach)
        self._forget(reach)

    def _is_due(self, found: FoundDdl, reach: int) -> bool:
        return self._ts(found) <= reach and self._readable(Partition.of(found.at), found.at.offset)

    def _reach(self) -> int:
        """The moment up to which everything is there and nothing stands in the way."""
        if not self.settings.gated:
            return END
        limits = [self.frontier.watermark, self.holding.everywhere(), *(each.commit_ts - 1 for each in self.parked)]
        return min(limits if self.settings.until is None else [*limits, self.settings.until])

    # What it does

    def _execute(self, group: Collection[FoundDdl], ts: int, *, complete: bool) -> None:
        """DDL of one moment, unless one of their tables is held before it: then they wait together.

        A watermark can come before the DDL of its ts, so until there is a later one they may not be ``complete``. Only
        renames mind: one may need a name that another one, still to come, makes free.
        """
        places = {found.at for found in group}
        self.holding.thaw(lambda hold: hold.at in places)
        read = [(found, self.settings.understand(found.ddl)) for found in group]
        names = {name for _, does in read for edit in does for name in self._touched(edit)}
        if self.holding.waits(names, ts):
            return
        among = None if self.settings.gated else {Partition.of(at) for at in places}
        for name in sorted(names):
            self._merge(name, ts, among)
        understood = [(found, self._fitting(does, ts)) for found, does in read]
        for found, does in understood:
            self._refuse_impossible(found, does, ts)
            self.holding.freeze(frozen_before(found, does, ts, self.catalogue, self.settings.rules))
        if self.holding.waits(names, ts):
            return
        if not complete and self.catalogue.collides(edit for _, does in understood for edit in does):
            return
        now = self._text(ts) if self.settings.gated else None
        statements = [Statement(does, ts, now, found.ddl.table_schema) for found, does in understood]
        self.steps += self.replica.follow(self.catalogue.execute(statements))
        for found, does in understood:
            self.notes += _coming_into_sight(does, self.settings.rules)
            self.queue.remove(found)
            self.log[self._id(found)] = None
        for name in names & self.pending.keys():
            if self.settings.gated and self.catalogue.marks.get(name, -1) >= ts:
                self.pending[name] = [
                    replace(each, since=max(each.since, ts + 1), fresh=max(each.fresh, ts + 1))
                    for each in self.pending[name]
                ]

    def _fitting(self, does: tuple[Edit, ...], ts: int) -> tuple[Edit, ...]:
        """What is to do of a statement."""
        found = fitting(does, self.catalogue, again=not self.settings.gated)
        if found != does:
            self.notes.append(f"what does not fit the tables here is left out of the statement at {ts}")
        return found

    def _touched(self, edit: Edit) -> frozenset[TableName]:
        """The tables whose rows come before an edit.

        A database may have tables nothing is known of but rows, and tables that wait for a statement to make them. If
        it has to wait itself, then so do the tables that are made in it later.
        """
        names = self.catalogue.touched(edit)
        if isinstance(edit, DropDatabase):
            names |= {name for name in (*self.pending, *self.holding.waiting) if name.schema == edit.schema.lower()}
            names |= {database(edit.schema)}
        return names

    def _refuse_impossible(self, found: FoundDdl, does: Iterable[Edit], ts: int) -> None:
        """A statement that cannot be followed is as good as a message that cannot be read.

        In offset order replays run statements again, which then find their work done; that is no objection.
        """
        for edit in does:
            name: TableName | None = getattr(edit, "name", None)
            if name is not None and not self.settings.rules.wants(name):
                continue
            objection = self.catalogue.objection(edit)
            if objection is None or not (self.settings.gated or isinstance(edit, Impossible)):
                continue
            reason = f"{objection}: {found.ddl.query}"
            if self.settings.on_bad is OnBad.STOP:
                raise SyncStopped(f"{found.at}: {reason}")
            if self.settings.on_bad is OnBad.SKIP:
                self.notes.append(f"{found.at}: passed over, {reason}")
                continue
            self.holding.add(Hold(ts - 1, found.at, reason, name))

    def _merge(self, name: TableName, upto: int, among: Collection[Partition] | None = None) -> None:
        """The rows of a table up to a ts, where there are new ones; of some partitions or of all."""
        if not self.settings.ddl:
            self._freeze_shapes(name)
        slices, kept, fresh = [], [], False
        for each in self.pending.get(name, ()):
            file, limit = each.file, min(upto, self.holding.limit(name, each.file.partition))
            elsewhere = among is not None and file.partition not in among
            readable = not elsewhere and self._readable(file.partition, file.last_offset)
            if not readable or max(each.since, file.min_ts) > min(limit, file.max_ts):
                kept.append(each)
                continue
            fresh = fresh or max(each.fresh, file.min_ts) <= min(limit, file.max_ts)
            slices.append(Slice(file, each.since, limit))
            boundary = limit if self.settings.gated else limit + 1
            kept.append(replace(each, since=max(each.since, boundary), fresh=max(each.fresh, limit + 1)))
        slices.sort(key=lambda slice_: slice_.file.last_offset)
        slices = [slice_ for slice_ in slices if self._tells_key(name, slice_.file.shape)]
        # A slice from between a file's first and last ts may be empty, so it tells no shape. Nothing is lost: the
        # file's first row has told it, and what changed the table since then was a DDL.
        shapes = list(dict.fromkeys(slice_.file.shape for slice_ in slices if _has_rows(slice_)))
        if self.settings.gated:  # A delete may tell its key only; the order of columns is in a whole row.
            shapes.sort(key=lambda shape: -len(shape.columns))
        if not fresh or not (shapes or name in self.catalogue.tables):
            return
        self.pending[name] = kept
        for number, shape in enumerate(shapes):
            follow, before = self._is_news(shape), self.catalogue.tables.get(name)
            if follow:
                self.schemas[shape] = None
            told = follow and before is not None
            steps = conformed(self.catalogue, name, shape, upto, follow=follow)
            if told and before is not None and before.handle_key != self.catalogue.tables[name].handle_key:
                # Rows of the shapes before this one go by the key they had.
                self._put(before, [slice_ for slice_ in slices if slice_.file.shape in shapes[:number]])
                slices = [slice_ for slice_ in slices if slice_.file.shape not in shapes[:number]]
            self.steps += self.replica.follow(steps, told=told, by_rows=told)
        self._put(self.catalogue.tables[name], slices)

    def _put(self, table: TableSchema, slices: Collection[Slice]) -> None:
        """Rows into a table as it is now."""
        if slices:
            ts = max(each.to_ts if self.settings.gated else each.file.max_ts for each in slices)
            self.steps += self.replica.follow([Merge(stored(table), tuple(slices), ts)])

    def _tells_key(self, name: TableName, shape: TableSchema) -> bool:
        """Do rows of a shape have the key of their table?

        In offset order they may be replayed from before a column of the key was renamed. The table has them by then.
        """
        table = self.catalogue.tables.get(name)
        if self.settings.gated or table is None or self._is_news(shape):
            return True
        told = {column.name.lower() for column in shape.columns}
        return all(column.lower() in told for column in table.handle_key)

    def _freeze_shapes(self, name: TableName) -> None:
        """Where rows alone tell how a table changes, a policy stops a partition before the first row that does."""
        files = sorted((each.file for each in self.pending.get(name, ())), key=lambda file: file.last_offset)
        news = [file for file in files if self._is_news(file.shape)]
        if not news:
            return
        table = self.catalogue.tables.get(name, stored(news[0].shape))
        self.holding.thaw(lambda hold: hold.table == table.name)
        self.holding.freeze(frozen_by_rows(table, news, self.settings.rules))

    def _is_news(self, shape: TableSchema) -> bool:
        """Does a shape say that its table changed?

        Only without DDL to say so, and not when it was there before, or when it is a deleted row's, which has the key
        alone.
        """
        return not self.settings.ddl and shape not in self.schemas and len(shape.handle_key) < len(shape.columns)

    def _readable(self, partition: Partition, offset: int) -> bool:
        """Offset order needs everything before; watermarks do not come out of a gap, so what is gated needs no more."""
        if self.settings.gated or not self.settings.contiguous:
            return True
        return offset < self.frontier.partitions[partition].next

    def _forget(self, reach: int) -> None:
        """Files whose rows are all applied. Those of the last moment stay: see :class:`Pending`."""
        for name, files in list(self.pending.items()):
            least = min(reach, self.holding.limit(name)) if self.settings.gated else 0
            finished = [each.file.max_ts < max(each.since, least) for each in files]
            self.done += [each.file for each, over in zip(files, finished, strict=True) if over]
            self.pending[name] = [each for each, over in zip(files, finished, strict=True) if not over]

    def _text(self, ts: int) -> str:
        moment = to_datetime(ts).astimezone(ZoneInfo(self.settings.time_zone))
        return moment.replace(tzinfo=None).isoformat(" ", "microseconds")

    # The result

    def planned(self, manifest: Manifest) -> Planned:
        """The plan."""
        state = self.before
        after = replace(
            state,
            sequence=state.sequence + 1,
            batch=max(state.batch, manifest.batch),
            applied=self.applied,
            frontier=self.frontier,
            tables={table.name: table for table in self.catalogue.tables.values()},
            marks=self.catalogue.marks if self.settings.gated else {},
            pending=tuple(each for files in self.pending.values() for each in files),
            queue=tuple(self.queue),
            log=tuple(self.log),
            schemas=tuple(self.schemas),
            parked=self.parked,
            holds=tuple(self.holding.holds),
            rejected=state.rejected + len(manifest.rejected),
            copies=self.replica.copies,
            kept=tuple(self.replica.kept),
        )
        news = self.steps or self.applied > state.applied
        notes = (*self.notes, *self.catalogue.notes, *self.replica.notes)
        return Planned(tuple(self.steps), after, self._publication() if news else None, notes, tuple(self.done))

    def _publication(self) -> Publication:
        published = self.replica.published()
        tables = tuple(table for _, table in published)
        if not self.settings.gated:
            return Publication(None, tables)
        limits = {table.name: END if name is None else self.holding.limit(name) for name, table in published}
        return Publication(self.applied, tables, {name: ts for name, ts in limits.items() if ts < self.applied})


def _coming_into_sight(does: Iterable[Edit], rules: Rules) -> list[str]:
    """What to tell people of tables that get a name which is followed."""
    renames = (edit for edit in does if isinstance(edit, RenameTable))
    return [
        f"{rename.new} was {rename.old} before, which is not followed: only rows that change from now on will be in it"
        for rename in renames
        if rules.wants(rename.new) and not rules.wants(rename.old)
    ]


def _has_rows(piece: Slice) -> bool:
    """Is there a row in the slice for certain?"""
    return any(piece.from_ts <= ts <= piece.to_ts for ts in (piece.file.min_ts, piece.file.max_ts))
