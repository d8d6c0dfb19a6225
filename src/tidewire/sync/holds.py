"""What holds tables back: bad messages, statements that cannot be followed, policies; and what waits for them.

A hold ends when its message can be read (``Manifest.retried``), when the producer has sent it again, when a policy
changes, or when people say so: :func:`retry` and :func:`release`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from tidewire.ddl.column_steps import TypedColumn
from tidewire.ddl.edits import AlterTable, Edit, RenameTable
from tidewire.ddl.shape import column_steps
from tidewire.errors import DdlMismatch, SyncError
from tidewire.model import Position, TableName, TableSchema
from tidewire.model.types import INTEGERS, STRINGS
from tidewire.sync.catalogue import Catalogue, column_changes, stored
from tidewire.sync.frontier import Frontier
from tidewire.sync.manifest import FoundDdl, Manifest, Partition, StagedFile
from tidewire.sync.policies import COLUMN_KINDS, ChangeKind, DdlPolicy, final_names, kinds_of
from tidewire.sync.rules import Mask, Rules
from tidewire.sync.seam import reaches
from tidewire.sync.state import Hold, HoldKind, Loss, PassedOver, Pending, State

END: Final = 2**63 - 1
"""Later than any ts."""

MOST: Final = 1_000
"""The bad messages of a table that have holds of their own; the last hold stands for all further ones."""

LOSSES: Final = 1_000
"""The releases, and the released messages, that are remembered."""

_IDS_SHOWN: Final = 5
"""The ids that an error lists if a wrong one was given."""


class Holds:
    """The holds of a plan in the making, and the tables that wait for the sake of another one.

    ``has_watermarks``: with watermarks a hold is about a ts; in offset order it is about its own partition.
    """

    def __init__(self, state: State, *, has_watermarks: bool, now: str = "") -> None:
        self.all = list(state.holds)
        self.given_up = dict.fromkeys(state.given_up)
        self._has_watermarks = has_watermarks
        self._now = now
        self._thawed: dict[str, str] = {}
        self._waiting: dict[TableName, int] = {}
        self._limits: dict[tuple[TableName | None, Partition | None], int] | None = None
        self._index()

    def _index(self) -> None:
        """Find out which holds there are: their ids, and the places in the list of bad messages of one table."""
        self._ids: set[str] = set()
        self._messages: dict[tuple[TableName | None, Partition | None], list[int]] = {}
        for place, hold in enumerate(self.all):
            self._note(place, hold)

    def _note(self, place: int, hold: Hold) -> None:
        self._ids.add(hold.id)
        if hold.kind is HoldKind.MESSAGE:
            self._messages.setdefault(self._group(hold), []).append(place)

    def _group(self, hold: Hold) -> tuple[TableName | None, Partition | None]:
        return hold.table, None if self._has_watermarks else Partition.of(hold.at)

    @property
    def names(self) -> set[TableName]:
        """The tables that are held or wait, by folded name."""
        return {*self._waiting, *(hold.table.folded for hold in self.all if hold.table is not None)}

    def add(self, hold: Hold) -> None:
        """Hold a table back; what is held already stays as it is."""
        if hold.id in self._ids or (hold.kind is HoldKind.MESSAGE and hold.at in self.given_up):
            return
        self._limits = None
        hold = replace(hold, since=hold.since or self._thawed.get(hold.id) or self._now)
        alike = self._messages.get(self._group(hold), [])
        if hold.kind is HoldKind.MESSAGE and len(alike) >= MOST:
            last = self.all[alike[-1]]
            self.all[alike[-1]] = replace(
                last, ts=min(last.ts, hold.ts), count=last.count + 1, first_ts=None, last_ts=None, resent=None
            )
            return
        self.all.append(hold)
        self._note(len(self.all) - 1, hold)

    def thaw(self, which: Callable[[Hold], bool]) -> None:
        """Forget what policies said: they are asked again every time, because they may have changed."""
        thawed = [hold for hold in self.all if hold.kind is HoldKind.POLICY and which(hold)]
        if thawed:
            self._thawed |= {hold.id: hold.since for hold in thawed}
            self._keep(hold for hold in self.all if hold not in thawed)

    def read_again(self, places: Collection[Position]) -> None:
        """End the holds of messages that can be read now. One that stands for further messages stays."""
        if places:
            self._keep(
                hold
                for hold in self.all
                if hold.kind is not HoldKind.MESSAGE or hold.count > 1 or hold.at not in places
            )

    def sent_again(self, manifest: Manifest, before: Frontier, after: Frontier) -> None:
        """End the holds of messages that the producer has sent again.

        After a restart the producer sends everything after its checkpoint, which is a watermark. So if the watermark of
        a message's partition falls below the message's ts and then reaches it again, the message has been sent once
        more. It may be in another partition by then, but not behind the end that was listed afterwards. (If people set
        the checkpoint back and then forward again, past the message, that cannot be told from a replay.)
        """
        if self.all and self._has_watermarks:
            followed = [self._followed(hold, manifest, before) for hold in self.all]
            over = {hold.at for hold in followed if _is_read(hold.resent, after)}
            self.given_up |= dict.fromkeys(sorted(over))
            self._keep(hold for hold in followed if hold.resent is None or hold.at not in over)

    def reached_back(self, manifest: Manifest) -> None:
        """End the holds of loaded tables whose partition now has everything since the load."""
        if any(hold.kind is HoldKind.LOAD for hold in self.all):
            self._keep(hold for hold in self.all if hold.kind is not HoldKind.LOAD or not reaches(hold, manifest.read))

    def _followed(self, hold: Hold, manifest: Manifest, before: Frontier) -> Hold:
        partition = Partition.of(hold.at)
        ranges = manifest.read.get(partition, ())
        if hold.kind is not HoldKind.MESSAGE or hold.first_ts is None or hold.resent is not None or not ranges:
            return hold
        goal = hold.first_ts if hold.last_ts is None else hold.last_ts
        largest, fell = before.partitions[partition].watermark if partition in before.partitions else 0, hold.fell
        for offset, ts in (turn for range_ in ranges for turn in range_.turns):
            if offset > hold.at.offset:
                fell = fell or ts < min(largest, hold.first_ts)
                if fell and ts >= goal:
                    return replace(hold, fell=True, resent=dict(manifest.ends))
            largest = max(largest, ts)
        return hold if fell is hold.fell else replace(hold, fell=fell)

    def _keep(self, holds: Iterable[Hold]) -> None:
        self.all = list(holds)
        self._limits = None
        self._index()

    # How far tables may go

    def wait(self, name: TableName, ts: int) -> None:
        """Let a table wait at a ts during this plan."""
        self._waiting[name] = min(self._waiting.get(name, END), ts)

    def everywhere(self) -> int:
        """How far any table may go."""
        return self._limit_of(None, None)

    def limit(self, name: TableName, partition: Partition | None = None) -> int:
        """How far a table may go, whatever the watermark says; in offset order each partition stops for itself."""
        place = None if self._has_watermarks else partition
        waits = (self._waiting.get(name, END), self._waiting.get(database(name.schema), END))
        return min(self._limit_of(name, place), self._limit_of(None, place), *waits)

    def _limit_of(self, name: TableName | None, partition: Partition | None) -> int:
        """The earliest hold of a table counts."""
        if self._limits is None:
            self._limits = {}
            for hold in self.all:
                table = None if hold.table is None else hold.table.folded
                for place in (None, Partition.of(hold.at)):
                    self._limits[table, place] = min(hold.ts, self._limits.get((table, place), END))
        return self._limits.get((name, partition), END)

    def waits(self, names: Collection[TableName], ts: int) -> bool:
        """Is one of these tables held before a ts? Then all of them are."""
        if all(self.limit(name) >= ts for name in names):
            return False
        for name in names:
            self._waiting[name] = min(self.limit(name), ts - 1)
        return True


def _is_read(ends: Mapping[Partition, int] | None, frontier: Frontier) -> bool:
    """Has everything before these offsets been read?"""
    if ends is None:
        return False
    progress = frontier.partitions
    return all(at in progress and (progress[at].next or 0) >= end for at, end in ends.items())


def database(schema: str) -> TableName:
    """The name that stands for all tables of a database, also those to come."""
    return TableName(schema.lower(), "")


# What people decide


def retry(state: State, hold_id: str) -> State:
    """The state in which a statement, or rows, will be tried again by the next plan."""
    hold = find_hold(state, hold_id)
    if hold.kind is HoldKind.POLICY:
        raise SyncError(f"hold {hold_id} is a policy's, which is asked again in every pass: {hold.way_out}")
    if hold.kind is HoldKind.LOAD:
        raise SyncError(f"hold {hold_id} is about a load, and there is nothing to try again: {hold.way_out}")
    if hold.kind is HoldKind.MESSAGE:
        raise SyncError(f"hold {hold_id} is about a message: it ends when the message at {hold.at} can be read")
    return _without(state, hold)


def release(state: State, hold_id: str, now: str) -> State:
    """The state in which a table goes on without what holds it; what is lost is remembered.

    A message whose table is not known can hold several tables. It is given up for all of them.
    """
    hold = find_hold(state, hold_id)
    if hold.kind is HoldKind.POLICY:
        raise SyncError(
            f"hold {hold_id} cannot be released, because the policy would stop the table again: {hold.way_out}. "
            f"It says: {hold.reason}"
        )
    loss = Loss(hold.table, hold.at, hold.ts, hold.reason, now)
    state = replace(_without(state, hold), losses=(*state.losses, loss)[-LOSSES:])
    if hold.kind is HoldKind.MESSAGE:
        return replace(state, given_up=(*state.given_up, hold.at)[-LOSSES:])
    if hold.kind is HoldKind.LOAD:
        return state
    if hold.kind is HoldKind.STATEMENT:
        return replace(state, passed_over=(*state.passed_over, PassedOver(hold.at, hold.table)))
    return replace(state, pending=tuple(_without_rows(each, hold, state) for each in state.pending))


def _without_rows(pending: Pending, hold: Hold, state: State) -> Pending:
    """A file without the rows that a hold is about. Without watermarks a hold is about one partition."""
    in_offset_order = not any(progress.watermark for progress in state.frontier.partitions.values())
    elsewhere = in_offset_order and pending.file.partition != Partition.of(hold.at)
    if hold.table is None or pending.file.table.folded != hold.table.folded or elsewhere:
        return pending
    after = (hold.last_ts or 0) + 1
    return replace(pending, since=max(pending.since, after), fresh=max(pending.fresh, after))


def find_hold(state: State, hold_id: str) -> Hold:
    """The hold with an id; :class:`SyncError` if there is no such hold."""
    for hold in state.holds:
        if hold.id == hold_id:
            return hold
    known = ", ".join(hold.id for hold in state.holds[:_IDS_SHOWN])
    more = f" and {len(state.holds) - _IDS_SHOWN} more" if len(state.holds) > _IDS_SHOWN else ""
    raise SyncError(f"there is no hold {hold_id}; " + (f"there are {known}{more}" if known else "no table is held"))


def _without(state: State, hold: Hold) -> State:
    def is_over(each: Hold) -> bool:
        same_message = each.kind is hold.kind is HoldKind.MESSAGE and each.at == hold.at
        return each is hold or same_message

    return replace(state, holds=tuple(each for each in state.holds if not is_over(each)))


# Policies


def frozen_before(found: FoundDdl, does: Iterable[Edit], ts: int, catalogue: Catalogue, rules: Rules) -> list[Hold]:
    """The tables that stop before a statement."""
    return [
        Hold(ts - 1, found.at, f"{reason}: {found.ddl.query}", name, HoldKind.POLICY)
        for edit in does
        for name, reason in _freezing(edit, catalogue, rules)
    ]


def frozen_by_rows(table: TableSchema, files: Iterable[StagedFile], rules: Rules) -> list[Hold]:
    """The partitions of a table that stop before rows of another shape, where rows alone tell how it changes."""
    holds = []
    for file in files:
        steps, after = column_changes(table, stored(file.shape), follow=True)
        kinds = dict.fromkeys(COLUMN_KINDS[type(step)] for step in steps)
        if after.handle_key != table.handle_key:
            kinds[ChangeKind.CHANGE_KEY] = None
        frozen = [kind for kind in kinds if rules.policy(table.name, kind) is DdlPolicy.FREEZE]
        at = Position(file.partition.topic, file.partition.number, file.first_offset)
        holds += [
            Hold(at.offset - 1, at, f"its rows changed, and {_said(kind)}", table.name, HoldKind.POLICY)
            for kind in frozen[:1]
        ]
    return holds


def _freezing(edit: Edit, catalogue: Catalogue, rules: Rules) -> Iterator[tuple[TableName, str]]:
    """The tables that stop before an edit, and why."""
    for name, kind in kinds_of(edit, catalogue):
        if rules.wants(name) and rules.policy(name, kind) is DdlPolicy.FREEZE:
            yield name, _said(kind)
    yield from _unmasked(edit, catalogue, rules)
    yield from _unhashed(edit, catalogue, rules)


def _said(kind: ChangeKind) -> str:
    return f"the policy for {kind} is freeze; set ddl.{kind} to evolve, lenient or ignore and run again"


def _unmasked(edit: Edit, catalogue: Catalogue, rules: Rules) -> Iterator[tuple[TableName, str]]:
    """Renames after which a rule about a column would no longer find it."""
    for old, new, columns in _renames(edit, catalogue):
        if not (rules.wants(old) and rules.wants(new)):
            continue
        for before, after in columns.items():
            was, would_be = rules.of(old).of(before), rules.of(new).of(after)
            if was is not would_be:
                yield (
                    old,
                    f"the mask of {old} {before} is {was or 'none'}, that of {new} {after} would be "
                    f"{would_be or 'none'}; say the same of both",
                )


def _unhashed(edit: Edit, catalogue: Catalogue, rules: Rules) -> Iterator[tuple[TableName, str]]:
    """Keys whose hashes would no longer be found, because their values have another text."""
    if not isinstance(edit, AlterTable) or (table := catalogue.find(edit.name)) is None or not rules.wants(edit.name):
        return
    try:
        steps = column_steps(table, edit.changes)
    except DdlMismatch:
        return
    for step in steps:
        if not (isinstance(step, TypedColumn) and step.new.handle_key):
            continue
        same_text = any({step.old.type, step.new.type} <= family for family in (INTEGERS, STRINGS))
        if not same_text and rules.of(edit.name).of(step.new.name) is Mask.HASH:
            yield edit.name, f"{step.new.name} is a key and hashed, and hashes cannot be converted; begin anew"


def _renames(edit: Edit, catalogue: Catalogue) -> Iterator[tuple[TableName, TableName, dict[str, str]]]:
    """Names of a table before and after an edit, and those of its columns that are renamed or renamed with it."""
    if isinstance(edit, RenameTable) and (table := catalogue.find(edit.old)) is not None:
        yield edit.old, edit.new, {column.name: column.name for column in table.columns}
    if isinstance(edit, AlterTable) and catalogue.find(edit.name) is not None:
        try:
            yield edit.name, edit.name, final_names(edit, catalogue)
        except DdlMismatch:
            return
