"""The planner: what one micro-batch makes of the tables, as an ordered list of steps and a new state.

The rules, in one place. A row or a DDL counts once everything up to its ts has been read from every partition (the
global watermark). DDL happen in the order of their ts, those with one ts together, and a table's rows up to that ts
come first. Rows above the watermark stay staged. If a step cannot be done, its tables are held before it; all other
tables go on, and their steps are the same as without the hold.

Where a protocol sends no commit ts, a row's ts is its offset and everything read counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeAlias
from zoneinfo import ZoneInfo

from tidewire.ddl.edits import DropDatabase, Edit, Impossible, RenameTable
from tidewire.ddl.parse import edits
from tidewire.errors import SyncStopped
from tidewire.model import Ddl, Position, TableName, TableSchema
from tidewire.model.tso import to_datetime
from tidewire.sync.beginnings import Beginning, Origin, incomplete, loads, missing_rows
from tidewire.sync.catalogue import Catalogue, Statement, conformed, fitting, stored
from tidewire.sync.holds import END, LOSSES, database, frozen_before, frozen_by_rows
from tidewire.sync.intake import Intake
from tidewire.sync.manifest import FoundDdl, Manifest, Partition, StagedFile
from tidewire.sync.replays import log_horizon, newest_shapes, wanted_schemas
from tidewire.sync.rules import Rules
from tidewire.sync.state import Hold, HoldKind, OnBad, State
from tidewire.sync.steps import Merge, Slice, Step
from tidewire.sync.target_tables import TargetTables

Understood: TypeAlias = tuple[FoundDdl, tuple[Edit, ...]]
"""A statement and what it does."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """What a plan depends on besides state and manifest.

    ``has_watermarks``: do rows wait for watermarks? ``ddl``: are DDL sent, or do rows alone tell how tables change?
    ``until``: the ts above which nothing is applied. ``rules``: which tables are followed, and how. ``check`` says why
    a step cannot be done, ``None`` if it can. ``now`` is the time for people, as ISO text.
    """

    has_watermarks: bool = True
    ddl: bool = True
    until: int | None = None
    on_bad: OnBad = OnBad.HOLD
    time_zone: str = "UTC"
    rules: Rules = field(default_factory=Rules)
    understand: Callable[[Ddl], tuple[Edit, ...]] = edits
    check: Callable[[Step], str | None] = lambda step: None
    now: str = ""


@dataclass(frozen=True, slots=True)
class Publication:
    """The tables as of one moment of the upstream.

    ``ts`` is ``None`` if the protocol has no watermarks, and no moment can be named. ``held`` gives the ts of tables
    that are behind it. ``rows_since`` gives the ts from which on changes are there, for tables whose older rows are
    missing.
    """

    ts: int | None
    tables: tuple[TableSchema, ...]
    held: Mapping[TableName, int] = field(default_factory=dict)
    rows_since: Mapping[TableName, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Planned:
    """Steps to take in order, the state after them, and what to tell people. ``done`` are files of no more use."""

    steps: tuple[Step, ...]
    state: State
    publication: Publication | None
    notes: tuple[str, ...] = ()
    done: tuple[StagedFile, ...] = ()


def plan(state: State, manifest: Manifest, settings: PlanSettings = PlanSettings()) -> Planned:
    """What a batch makes of the tables."""
    builder = _PlanBuilder(state, settings)
    builder.take_in(manifest)
    builder.advance()
    return builder.planned(manifest)


class _PlanBuilder(Intake):
    """A plan in the making."""

    def __init__(self, state: State, settings: PlanSettings) -> None:
        super().__init__(state, settings)
        self.settings = settings
        self.catalogue = Catalogue(state.tables.values(), state.last_ddl_ts, state.beginnings)
        self.targets = TargetTables(state.target_tables, state.kept, settings.rules)
        self.passed_over = list(state.passed_over)

    # How far it goes

    def advance(self) -> None:
        """Everything that is complete, in order."""
        for each in self.parked:
            if self.is_past(each.commit_ts):
                self.holds.wait(each.table.folded, each.commit_ts - 1)
        reach = self._reach()
        due = sorted((found for found in self.queue if self.ts_of(found) <= reach), key=self.ts_of)
        if reach < self.applied:
            return
        for ts, group in groupby(due, key=self.ts_of):
            self._execute(list(group), ts, complete=ts < reach)
        reach = self._reach()
        for name in sorted(self.pending):
            self._merge(name, reach)
        if self.settings.has_watermarks:
            self.applied = max(self.applied, reach)
        self._forget(reach)

    def _reach(self) -> int:
        """The moment up to which everything is there and nothing stands in the way."""
        if not self.settings.has_watermarks:
            return END
        parked = (each.commit_ts - 1 for each in self.parked if not self.is_past(each.commit_ts))
        limits = [self.frontier.watermark, self.holds.everywhere(), *parked]
        return min(limits if self.settings.until is None else [*limits, self.settings.until])

    # What it does

    def _execute(self, group: Collection[FoundDdl], ts: int, *, complete: bool) -> None:
        """DDL of one moment, unless one of their tables is held before it: then they wait together.

        The rows of all their tables come first, also if the DDL wait then: so the steps up to here are the same whether
        the DDL can be done or not.

        A watermark can come before the DDL of its ts, so until there is a later one they may not be ``complete``. Only
        renames mind: one may need a name that another one, still to come, makes free.
        """
        places = {found.at for found in group}
        self.holds.thaw(lambda hold: hold.at in places)
        read = [(found, self._edits(found)) for found in group]
        names = {name for _, does in read for edit in does for name in self._touched(edit)}
        among = None if self.settings.has_watermarks else {Partition.of(at) for at in places}
        for name in sorted(names):
            self._merge(name, ts, among)
        if self.holds.waits(names, ts):
            return
        understood = [(found, self._fitting(does, ts)) for found, does in read]
        for found, does in understood:
            self._refuse_impossible(found, does, ts)
            for hold in frozen_before(found, does, ts, self.catalogue, self.settings.rules):
                self.holds.add(hold)
        if self.holds.waits(names, ts):
            return
        if not complete and self.catalogue.collides(edit for _, does in understood for edit in does):
            return
        if not self._follow(understood, names, ts):
            self.holds.waits(names, ts)
            return
        for found, does in understood:
            self.notes += _coming_into_sight(does, self.settings.rules)
            self.queue.remove(found)
            self.log[self.id_of(found)] = None
        self.passed_over = [each for each in self.passed_over if each.at not in places]
        for name in names & self.pending.keys():
            if self.settings.has_watermarks and self.catalogue.last_ddl_ts.get(name, -1) >= ts:
                self.pending[name] = [
                    replace(each, since=max(each.since, ts + 1), fresh=max(each.fresh, ts + 1))
                    for each in self.pending[name]
                ]

    def _follow(self, understood: Sequence[Understood], names: Collection[TableName], ts: int) -> bool:
        """Take the steps of statements if all of them can be done; else hold the tables of those that cannot."""
        now = self._text(ts) if self.settings.has_watermarks else None
        statements = [Statement(does, ts, now, found.ddl.table_schema) for found, does in understood]
        undo = (self.catalogue.saved(names), self.targets.saved(names))
        steps: list[Step] = []
        objections: list[tuple[Step, str]] = []
        for step in self.catalogue.execute(statements):
            taken = self.targets.follow([step])
            steps += taken
            objections += [(step, reason) for reason in map(self.settings.check, taken) if reason is not None]
        if not objections:
            self.steps += steps
            return True
        for restore in undo:
            restore()
        for step, reason in objections:
            there = [table.name for name in sorted(step.tables) if (table := self.catalogue.find(name)) is not None]
            found = self._cause(understood, step)
            for name in there or sorted(step.tables):
                self._hold_statement(found, f"{reason}: {found.ddl.query}", name, ts)
        return False

    def _cause(self, understood: Sequence[Understood], step: Step) -> FoundDdl:
        """The statement that a step belongs to."""
        tables = {name.folded for name in step.tables}
        causes = (found for found, does in understood for edit in does if self._touched(edit) & tables)
        return next(causes, understood[0][0])

    def _hold_statement(self, found: FoundDdl, reason: str, name: TableName | None, ts: int) -> None:
        if self.settings.on_bad is OnBad.STOP:
            raise SyncStopped(f"{found.at}: {reason}")
        self.holds.add(Hold(ts - 1, found.at, reason, name, HoldKind.STATEMENT, first_ts=ts, last_ts=ts))

    def _edits(self, found: FoundDdl) -> tuple[Edit, ...]:
        """What a statement does, without the parts that were skipped."""
        does = self.settings.understand(found.ddl)
        if self.settings.has_watermarks:
            does = self.catalogue.after_loads(does, self.ts_of(found))
        for each in self.passed_over:
            if each.at == found.at:
                does = self.catalogue.without(does, each.table)
        return does

    def _fitting(self, does: tuple[Edit, ...], ts: int) -> tuple[Edit, ...]:
        """What is to do of a statement."""
        found = fitting(does, self.catalogue, again=not self.settings.has_watermarks)
        if found != does:
            self.notes.append(f"what does not fit the tables here is left out of the statement at {ts}")
        return found

    def _touched(self, edit: Edit) -> frozenset[TableName]:
        """The tables whose rows come before an edit.

        A database may have tables nothing is known of but rows, or a bad row, and tables that wait for a statement to
        make them. If it has to wait itself, then so do the tables that are made in it later.
        """
        names = self.catalogue.touched(edit)
        if isinstance(edit, DropDatabase):
            names |= {name for name in (*self.pending, *self.holds.names) if name.schema == edit.schema.lower()}
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
            if objection is None or not (self.settings.has_watermarks or isinstance(edit, Impossible)):
                continue
            reason = f"{objection}: {found.ddl.query}"
            if self.settings.on_bad is OnBad.SKIP:
                self.notes.append(f"{found.at}: skipped, {reason}")
            else:
                self._hold_statement(found, reason, name, ts)

    def _merge(self, name: TableName, upto: int, among: Collection[Partition] | None = None) -> None:
        """The rows of a table up to a ts, where there are new ones; of some partitions or of all."""
        if not self.settings.ddl:
            self._freeze_shapes(name)
        slices, kept, fresh = [], [], list[tuple[int, StagedFile]]()
        for each in self.pending.get(name, ()):
            file, limit = each.file, min(upto, self.holds.limit(name, each.file.partition))
            elsewhere = among is not None and file.partition not in among
            if elsewhere or max(each.since, file.min_ts) > min(limit, file.max_ts):
                kept.append(each)
                continue
            if max(each.fresh, file.min_ts) <= min(limit, file.max_ts):
                fresh.append((max(each.fresh, file.min_ts), file))
            slices.append(Slice(file, each.since, limit))
            boundary = limit if self.settings.has_watermarks else limit + 1
            kept.append(replace(each, since=max(each.since, boundary), fresh=max(each.fresh, limit + 1)))
        slices.sort(key=lambda slice_: slice_.file.last_offset)
        slices = [slice_ for slice_ in slices if self._tells_key(name, slice_.file.shape)]
        # A slice from between a file's first and last ts may be empty, so it tells no shape. Nothing is lost: the
        # file's first row has told it, and what changed the table since then was a DDL.
        shapes = list(dict.fromkeys(slice_.file.shape for slice_ in slices if _has_rows(slice_)))
        if self.settings.has_watermarks:  # A delete may tell its key only; the order of columns is in a whole row.
            shapes.sort(key=lambda shape: -len(shape.columns))
        if not fresh or not (shapes or name in self.catalogue.tables):
            return
        undo = (self.catalogue.saved([name]), self.targets.saved([name]))
        lacks = self._lacks_older_rows(name)
        if lacks:
            first = min(ts for ts, _ in fresh) if self.settings.has_watermarks else 0
            self.catalogue.beginnings[name] = Beginning(first, Origin.ROWS)
        steps, news = self._rows(name, slices, shapes, upto if self.settings.has_watermarks else _last(slices))
        objection = next((reason for reason in map(self.settings.check, steps) if reason is not None), None)
        if objection is not None:
            for restore in undo:
                restore()
            self._hold_rows(name, fresh, objection, upto)
            return
        if lacks:
            self.notes.append(missing_rows(self.catalogue.tables[name].name, self.catalogue.beginnings[name].ts))
        self.pending[name] = kept
        self.schemas.update(dict.fromkeys(news))
        self.steps += steps

    def _lacks_older_rows(self, name: TableName) -> bool:
        """Would new rows be the first that are known of a table whose creation was not seen?"""
        created = name in self.catalogue.beginnings and name not in self.catalogue.tables  # LIKE an unknown table
        return name not in self.targets.by_name and not created

    def _rows(
        self, name: TableName, slices: list[Slice], shapes: Sequence[TableSchema], ts: int
    ) -> tuple[list[Step], list[TableSchema]]:
        """The steps that put rows into a table, and the shapes that tell of a change."""
        steps: list[Step] = []
        news = [shape for shape in shapes if self._is_news(shape)]
        for number, shape in enumerate(shapes):
            follow, before = shape in news, self.catalogue.tables.get(name)
            told = follow and before is not None
            changes = conformed(self.catalogue, name, shape, ts, follow=follow)
            if told and before is not None and before.handle_key != self.catalogue.tables[name].handle_key:
                # Rows of the shapes before this one go by the key they had.
                steps += self._put(before, [slice_ for slice_ in slices if slice_.file.shape in shapes[:number]])
                slices = [slice_ for slice_ in slices if slice_.file.shape not in shapes[:number]]
            steps += self.targets.follow(changes, told=told, by_rows=told)
        return steps + self._put(self.catalogue.tables[name], slices), news

    def _put(self, table: TableSchema, slices: Collection[Slice]) -> list[Step]:
        """Rows into a table as it is now."""
        if not slices:
            return []
        ts = max(each.to_ts for each in slices) if self.settings.has_watermarks else _last(slices)
        return self.targets.follow([Merge(stored(table), tuple(slices), ts)])

    def _hold_rows(self, name: TableName, fresh: Collection[tuple[int, StagedFile]], reason: str, upto: int) -> None:
        """Hold a table before its first new row; in offset order each of its partitions for itself."""
        if self.settings.on_bad is OnBad.STOP:
            raise SyncStopped(f"rows of {name} cannot be applied: {reason}")
        together = self.settings.has_watermarks
        for _, group in groupby(sorted(fresh, key=_place), key=lambda each: together or each[1].partition):
            rows = list(group)
            first, file = min(rows, key=lambda each: (each[0], _place(each)))
            at = Position(file.partition.topic, file.partition.number, file.first_offset)
            last = upto if together else max(each.last_offset for _, each in rows)
            table = self.catalogue.tables.get(name, file.shape).name
            self.holds.add(Hold(first - 1, at, reason, table, HoldKind.ROWS, first_ts=first, last_ts=last))

    def _tells_key(self, name: TableName, shape: TableSchema) -> bool:
        """Do rows of a shape have the key of their table?

        In offset order they may be replayed from before a column of the key was renamed. The table has them by then.
        """
        table = self.catalogue.tables.get(name)
        if self.settings.has_watermarks or table is None or self._is_news(shape):
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
        self.holds.thaw(lambda hold: hold.table == table.name)
        for hold in frozen_by_rows(table, news, self.settings.rules):
            self.holds.add(hold)

    def _is_news(self, shape: TableSchema) -> bool:
        """Does a shape say that its table changed?

        Only without DDL to say so, and not when it was there before, or when it is a deleted row's, which has the key
        alone.
        """
        return not self.settings.ddl and shape not in self.schemas and len(shape.handle_key) < len(shape.columns)

    def _forget(self, reach: int) -> None:
        """Files whose rows are all applied. Those of the last moment stay: see :class:`Pending`."""
        for name, files in list(self.pending.items()):
            least = min(reach, self.holds.limit(name)) if self.settings.has_watermarks else 0
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
        has_watermarks, last_ddl_ts = self.settings.has_watermarks, self.catalogue.last_ddl_ts
        floor = log_horizon([each.ts for each in self.log], state.log_floor, self.applied) if has_watermarks else 0
        names = self.catalogue.tables
        after = replace(
            next_state(state, self.catalogue, self.targets),
            batch=max(state.batch, manifest.batch),
            applied=self.applied,
            frontier=self.frontier,
            last_ddl_ts={name: ts for name, ts in last_ddl_ts.items() if name in names or ts > floor}
            if has_watermarks
            else {},
            pending=tuple(each for files in self.pending.values() for each in files),
            queue=tuple(self.queue),
            # In offset order no offset is read twice, so a replay cannot be known by it.
            log=tuple(each for each in self.log if each.ts > floor) if has_watermarks else (),
            log_floor=floor,
            parked=self.parked,
            holds=tuple(self.holds.all),
            given_up=tuple(self.holds.given_up)[-LOSSES:],
            rejected=state.rejected + len(manifest.rejected),
            passed_over=tuple(self.passed_over),
        )
        if self.schemas:
            after = replace(after, schemas=tuple(self._schemas(after)))
        news = self.steps or self.applied > state.applied
        notes = (*self.notes, *self.catalogue.notes, *self.targets.notes)
        return Planned(tuple(self.steps), after, self._publication() if news else None, notes, tuple(self.done))

    def _schemas(self, after: State) -> Iterable[TableSchema]:
        """The schemas to remember."""
        if not self.settings.ddl:
            return newest_shapes(self.schemas)
        if not self.settings.has_watermarks or any(progress.late for _, progress in self.frontier.active()):
            return self.schemas
        queued = (schema for each in self.queue for schema in (each.ddl.table_schema, each.ddl.pre_table_schema))
        shapes = (*after.tables.values(), *(each.file.shape for each in after.pending), *filter(None, queued))
        needed = {(shape.name, shape.version) for shape in shapes} | {
            (each.table, each.version) for each in self.parked
        }
        gone = {name: ts for name, ts in self.catalogue.removed.items() if name not in self.catalogue.tables}
        return wanted_schemas(self.schemas, after.replays().floor, gone, needed)

    def _publication(self) -> Publication:
        if not self.settings.has_watermarks:
            return published_tables(self.targets, self.catalogue, None)
        return published_tables(self.targets, self.catalogue, self.applied, self.holds.limit)


def next_state(state: State, catalogue: Catalogue, targets: TargetTables, *, has_watermarks: bool = True) -> State:
    """The state after a plan, as far as the tables tell it."""
    return replace(
        state,
        sequence=state.sequence + 1,
        tables={table.name: table for table in catalogue.tables.values()},
        last_ddl_ts=catalogue.last_ddl_ts if has_watermarks else {},
        beginnings=catalogue.beginnings,
        target_tables=targets.by_name,
        kept=tuple(targets.kept),
    )


def published_tables(
    targets: TargetTables,
    catalogue: Catalogue,
    applied: int | None,
    limit: Callable[[TableName], int] = lambda name: END,
) -> Publication:
    """The tables as they are when everything up to ``applied`` is in them; ``None`` if there are no watermarks.

    ``limit`` says how far a table may go. A table that was loaded as of a later moment is at that moment: as long as
    there is one, the publication is of that moment and the other tables are behind it.
    """
    published = targets.published()
    tables = tuple(table for _, table in published)
    since = incomplete((name for name, _ in published if name is not None), catalogue.beginnings)
    lacking = {table.name: since[name] for name, table in published if name in since}
    if applied is None:
        return Publication(None, tables, rows_since=lacking)
    loaded = loads(catalogue.beginnings)
    at = {
        table.name: END if name is None else min(limit(name), max(applied, loaded.get(name, 0)))
        for name, table in published
    }
    ts = max([applied, *(loaded[name] for name, _ in published if name in loaded)])
    return Publication(ts, tables, {name: reached for name, reached in at.items() if reached < ts}, lacking)


def _place(each: tuple[int, StagedFile]) -> tuple[Partition, int]:
    return each[1].partition, each[1].first_offset


def _coming_into_sight(does: Iterable[Edit], rules: Rules) -> list[str]:
    """What to tell people of tables that get a name which is followed."""
    renames = (edit for edit in does if isinstance(edit, RenameTable))
    return [
        f"{rename.new} was {rename.old} before, which is not followed: only rows that change from now on will be in it"
        for rename in renames
        if rules.wants(rename.new) and not rules.wants(rename.old)
    ]


def _last(slices: Iterable[Slice]) -> int:
    """The last offset in slices, where offsets are the order."""
    return max((min(each.to_ts, each.file.max_ts) for each in slices), default=0)


def _has_rows(piece: Slice) -> bool:
    """Is there a row in the slice for certain?"""
    return any(piece.from_ts <= ts <= piece.to_ts for ts in (piece.file.min_ts, piece.file.max_ts))
